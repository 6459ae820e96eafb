/**
 * Validates the arguments of store operations, for programs without type checks.
 *
 * An id must be a string, a size a number, a time a finite number, and the length of a lease a duration. All stores refuse other values
 * with the same typed errors, before they read or write anything. Events, decisions and messages are not checked here.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { GrantNotFound } from "../../domain/Grant.ts"
import type { RunId } from "../../domain/Id.ts"
import { type Kind, oneOf, optionMisfits, string, strings } from "../../domain/internal/misfits.ts"
import { kindOf } from "../../domain/internal/untyped.ts"
import { Kind as RequestKind } from "../../domain/Interruption.ts"
import type { Misfit } from "../../domain/Misfit.ts"
import { RequestNotFound } from "../../domain/Rejection.ts"
import { Status } from "../../domain/RunState.ts"
import { InputInvalid, RunNotFound, RunStoreError } from "../RunStoreError.ts"
import type { RunStorePort } from "../RunStorePort.ts"
import { latestTime } from "./bounds.ts"
import { withSoundBlobs } from "./soundBlobs.ts"

type Fields = Readonly<Record<string, unknown>>

/** A number; it may be infinite, because pages have a maximum size. */
const amount: Kind = {
  takes: "a number",
  is: (value) => typeof value === "number" && !Number.isNaN(value)
}
const time: Kind = {
  takes: "a finite number of milliseconds, such as Date.now() returns",
  is: Number.isFinite
}
const length: Kind = {
  takes: "a duration",
  is: (value) =>
    (typeof value !== "number" || !Number.isNaN(value)) &&
    Option.isSome(Duration.fromInput(value as Duration.Input))
}

const runIds: Kind = {
  takes: "a list of at most 1,000 strings",
  is: (value) => strings.is(value) && (value as ReadonlyArray<string>).length <= 1000
}

const requestKind = oneOf(...RequestKind.literals)
const requestKinds: Kind = {
  ...requestKind,
  takes: `${requestKind.takes}, or a list of these that is not empty`,
  is: (value) =>
    Array.isArray(value) ? value.length > 0 && value.every(requestKind.is) : requestKind.is(value)
}

const page = { limit: amount, after: string }
/** The conditions of each filter, and the options of `events`. */
export const filters = {
  grants: { runId: string, sessionId: string, grantId: string, tool: string, agent: string, ...page },
  pending: {
    runId: string,
    sessionId: string,
    kind: requestKinds,
    tool: string,
    agent: string,
    askedBefore: time,
    expiresBefore: time,
    ...page
  },
  list: { runIds, sessionId: string, agent: string, status: oneOf(...Status.literals), ...page },
  sessions: { agent: string, status: oneOf(...Status.literals), ...page },
  ready: { agents: strings, ...page },
  nextDue: { agents: strings, after: time },
  events: { from: amount, limit: amount }
}

/** Clamps a time to the range of a `Date`, which every database accepts. */
const inBounds = (at: number): number => Math.min(latestTime, Math.max(-latestTime, at))

const timesInBounds = <Filter extends object>(filter: Filter): Filter => {
  const bounded: Record<string, unknown> = {}
  for (const name of ["askedBefore", "expiresBefore", "after"]) {
    const value = (filter as Fields)[name]
    if (typeof value === "number") bounded[name] = inBounds(value)
  }
  return { ...filter, ...bounded }
}

/** Wraps a store so that it refuses ids, lengths of leases and filters that do not match its types, with a typed error. */
export const withSoundInput = (store: RunStorePort): RunStorePort => {
  const aboutRun =
    <Rest extends ReadonlyArray<unknown>, A, E>(ask: (runId: RunId, ...rest: Rest) => Effect.Effect<A, E>) =>
    (runId: RunId, ...rest: Rest): Effect.Effect<A, E | RunNotFound> =>
      string.is(runId) ? ask(runId, ...rest) : Effect.fail(notARun(runId))
  const listing =
    <Filter extends object, A, E>(
      operation: keyof typeof filters,
      list: (filter?: Filter) => Effect.Effect<A, E>
    ) =>
    (filter?: Filter): Effect.Effect<A, E | RunStoreError> => {
      const wrong = filter === undefined ? undefined : unsound(operation, filter)
      if (wrong !== undefined) return Effect.fail(wrong)
      return list(filter === undefined ? filter : timesInBounds(filter))
    }
  const checked = <A, E>(
    operation: string,
    what: string,
    { is, takes }: Kind,
    given: unknown,
    ask: () => Effect.Effect<A, E>
  ): Effect.Effect<A, E | RunStoreError> =>
    is(given) ? ask() : Effect.fail(refusal(operation, what, given, takes))
  const ttl = "the length of the lease"
  return {
    ...store,
    ...(store.blobs === undefined ? {} : { blobs: withSoundBlobs(store.blobs) }),
    create: (options) => checked("create", ttl, length, options.ttl, () => store.create(options)),
    load: aboutRun(store.load),
    events: aboutRun((runId, options) =>
      listing("events", (sound: typeof options) => store.events(runId, sound))(options)
    ),
    head: aboutRun(store.head),
    send: aboutRun(store.send),
    requestCancel: aboutRun(store.requestCancel),
    remove: aboutRun(store.remove),
    claim: (options) =>
      string.is(options.runId)
        ? checked("claim", ttl, length, options.ttl, () => store.claim(options))
        : Effect.fail(notARun(options.runId)),
    renew: (lease, length_) => checked("renew", ttl, length, length_, () => store.renew(lease, length_)),
    decisions: (runId) => checked("decisions", "the run's id", string, runId, () => store.decisions(runId)),
    messages: (runId) => checked("messages", "the run's id", string, runId, () => store.messages(runId)),
    latest: (sessionId) =>
      checked("latest", "the session's id", string, sessionId, () => store.latest(sessionId)),
    request: (requestId) =>
      string.is(requestId)
        ? store.request(requestId)
        : Effect.fail(new RequestNotFound({ requestId: kindOf(requestId) })),
    withToken: (token) => checked("withToken", "the token", string, token, () => store.withToken(token)),
    revokeGrant: (options) =>
      string.is(options.grantId)
        ? store.revokeGrant(options)
        : Effect.fail(new GrantNotFound({ grantId: "", given: kindOf(options.grantId) })),
    grants: listing("grants", store.grants),
    pending: listing("pending", store.pending),
    list: listing("list", store.list),
    sessions: listing("sessions", store.sessions),
    ready: listing("ready", store.ready),
    nextDue: listing("nextDue", store.nextDue),
    prune: (options) => {
      const endedBefore = (options as Fields | null | undefined)?.["endedBefore"]
      return checked("prune", "endedBefore", time, endedBefore, () =>
        store.prune({ endedBefore: inBounds(options.endedBefore) })
      )
    }
  }
}

/** The error for an invalid filter, or invalid options of `events`; `undefined` if they are valid. */
const unsound = (operation: keyof typeof filters, given: object): RunStoreError | undefined => {
  const place = operation === "events" ? "the options of events" : "the filter"
  // A misspelt condition would be ignored, and the list would contain more than the caller wants.
  const found = optionMisfits(given, { keys: filters[operation] }, place)
  return found.length === 0 ? undefined : invalid(operation, found)
}

const invalid = (operation: string, misfits: ReadonlyArray<Misfit>): RunStoreError =>
  new RunStoreError({ operation, reason: new InputInvalid({ misfits }) })

const refusal = (operation: string, place: string, given: unknown, expected: string): RunStoreError =>
  invalid(operation, [{ place, problem: `${place} is ${wordFor(given)}, and has to be ${expected}` }])

/** A word for the kind of a value. `NaN` and the infinities are named. */
const wordFor = (given: unknown): string =>
  typeof given === "number" && !Number.isFinite(given) ? String(given) : kindOf(given)

/** The error for an id that is not a string. */
export const notARun = (given: unknown): RunNotFound => new RunNotFound({ runId: "", given: kindOf(given) })
