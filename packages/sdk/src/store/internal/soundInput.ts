/**
 * What programs without types give to a store: it is asked only for ids that are strings, for numbers, and for times and durations
 * that are finite. The rest is refused with a sentence, by all stores alike, before anything is read or written.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { GrantNotFound } from "../../domain/Grant.ts"
import { kindOf } from "../../domain/internal/kindOf.ts"
import { keysOf, misfits } from "../../domain/internal/misfits.ts"
import { RequestNotFound } from "../../domain/Rejection.ts"
import { RunNotFound, RunStoreError, StoreFault } from "../RunStoreError.ts"
import type { RunStorePort } from "../RunStorePort.ts"
import { latestTime } from "./bounds.ts"

type Service = RunStorePort
type Fields = Readonly<Record<string, unknown>>

/** What a value has to be: a word for it, and whether a value is that. */
interface Kind {
  readonly name: string
  readonly is: (value: unknown) => boolean
}

const text: Kind = { name: "a string", is: (value) => typeof value === "string" }
const texts: Kind = {
  name: "a list of strings",
  is: (value) => Array.isArray(value) && value.every(text.is)
}

/** It may be infinite: a page has a bound of its own. */
const amount: Kind = {
  name: "a number",
  is: (value) => typeof value === "number" && !Number.isNaN(value)
}
const time: Kind = {
  name: "a finite number of milliseconds, such as Date.now() returns",
  is: Number.isFinite
}
const length: Kind = {
  name: "a duration",
  is: (value) =>
    (typeof value !== "number" || !Number.isNaN(value)) &&
    Option.isSome(Duration.fromInput(value as Duration.Input))
}

const page = { limit: amount, after: text }
const filters = {
  grants: { runId: text, sessionId: text, grantId: text, tool: text, agent: text, ...page },
  pending: {
    runId: text,
    sessionId: text,
    kind: text,
    tool: text,
    agent: text,
    askedBefore: time,
    expiresBefore: time,
    ...page
  },
  list: { sessionId: text, agent: text, status: text, ...page },
  ready: { agents: texts, ...page },
  events: { from: amount, limit: amount }
}

/** A time in the bounds of a date, which every database takes. */
const inBounds = (at: number): number => Math.min(latestTime, Math.max(-latestTime, at))

const timesInBounds = <Given extends object>(given: Given): Given => {
  const bounded: Record<string, unknown> = {}
  for (const name of ["askedBefore", "expiresBefore"]) {
    const value = (given as Fields)[name]
    if (typeof value === "number") bounded[name] = inBounds(value)
  }
  return { ...given, ...bounded }
}

/** A store that refuses with a typed error what is asked of it with values of other kinds than its types say. */
export const withSoundInput = (store: Service): Service => {
  const aboutRun =
    <Rest extends ReadonlyArray<unknown>, A, E>(ask: (runId: any, ...rest: Rest) => Effect.Effect<A, E>) =>
    (runId: any, ...rest: Rest): Effect.Effect<A, E | RunNotFound> =>
      text.is(runId) ? ask(runId, ...rest) : Effect.fail(notARun(runId))
  const listing =
    <Given extends object, A, E>(
      operation: keyof typeof filters,
      list: (filter?: Given) => Effect.Effect<A, E>
    ) =>
    (filter?: Given): Effect.Effect<A, E | RunStoreError> => {
      const wrong = filter === undefined ? undefined : unsound(operation, filter)
      if (wrong !== undefined) return Effect.fail(wrong)
      return list(filter === undefined ? filter : timesInBounds(filter))
    }
  const checked = <A, E>(
    operation: string,
    what: string,
    { is, name }: Kind,
    given: unknown,
    ask: () => Effect.Effect<A, E>
  ): Effect.Effect<A, E | RunStoreError> =>
    is(given) ? ask() : Effect.fail(refusal(operation, what, given, name))
  const ttl = "the length of the lease"
  return {
    ...store,
    create: (options) => checked("create", ttl, length, options.ttl, () => store.create(options)),
    load: aboutRun(store.load),
    events: aboutRun((runId, options) => {
      const wrong = options === undefined ? undefined : unsound("events", options)
      return wrong === undefined ? store.events(runId, options) : Effect.fail(wrong)
    }),
    head: aboutRun(store.head),
    send: aboutRun(store.send),
    requestCancel: aboutRun(store.requestCancel),
    remove: aboutRun(store.remove),
    claim: (options) =>
      text.is(options.runId)
        ? checked("claim", ttl, length, options.ttl, () => store.claim(options))
        : Effect.fail(notARun(options.runId)),
    renew: (lease, length_) => checked("renew", ttl, length, length_, () => store.renew(lease, length_)),
    decisions: (runId) => checked("decisions", "the run's id", text, runId, () => store.decisions(runId)),
    messages: (runId) => checked("messages", "the run's id", text, runId, () => store.messages(runId)),
    latest: (sessionId) =>
      checked("latest", "the session's id", text, sessionId, () => store.latest(sessionId)),
    request: (requestId) =>
      text.is(requestId)
        ? store.request(requestId)
        : Effect.fail(new RequestNotFound({ requestId: kindOf(requestId) })),
    revokeGrant: (options) =>
      text.is(options.grantId)
        ? store.revokeGrant(options)
        : Effect.fail(new GrantNotFound({ grantId: "", given: kindOf(options.grantId) })),
    grants: listing("grants", store.grants),
    pending: listing("pending", store.pending),
    list: listing("list", store.list),
    ready: listing("ready", store.ready),
    prune: (options) => {
      const endedBefore = (options as Fields | null | undefined)?.["endedBefore"]
      return checked("prune", "endedBefore", time, endedBefore, () =>
        store.prune({ endedBefore: inBounds(options.endedBefore) })
      )
    }
  }
}

/** What is wrong with what an operation is given besides the id of a run. */
const unsound = (operation: keyof typeof filters, given: unknown): RunStoreError | undefined => {
  if (typeof given !== "object" || given === null) {
    return refusal(
      operation,
      operation === "events" ? "what it is asked for" : "the filter",
      given,
      "an object"
    )
  }
  const kinds: Readonly<Record<string, Kind>> = filters[operation]
  const place = operation === "events" ? "what it is asked for" : "the filter"
  // A key that is not known would let more through than was asked for.
  const [misfit] = misfits(given, keysOf(Object.keys(kinds)), place)
  if (misfit !== undefined) {
    return new RunStoreError({
      operation,
      reason: new StoreFault({ detail: `${misfit.problem}.`, retryable: false })
    })
  }
  for (const [name, { is, name: expected }] of Object.entries(kinds)) {
    const value = (given as Fields)[name]
    if (value !== undefined && !is(value)) {
      const what = operation === "events" ? name : `the filter's ${name}`
      return refusal(operation, what, value, expected)
    }
  }
  return undefined
}

const refusal = (operation: string, what: string, given: unknown, expected: string): RunStoreError =>
  new RunStoreError({
    operation,
    reason: new StoreFault({
      detail: `${what} is ${wordFor(given)}, and has to be ${expected}.`,
      retryable: false
    })
  })

/** What is no number says so itself. */
const wordFor = (given: unknown): string =>
  typeof given === "number" && !Number.isFinite(given) ? String(given) : kindOf(given)

/** No run has what was given as its id. */
export const notARun = (given: unknown): RunNotFound => new RunNotFound({ runId: "", given: kindOf(given) })
