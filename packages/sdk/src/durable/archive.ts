/**
 * A stored run as one JSON value: to keep as evidence, to look at elsewhere, or to move to another store.
 *
 * An archive holds the run and those that it builds on, each with its journal and with what its journal does not hold yet: decisions,
 * messages, a request to cancel it. All of them can be folded and continued without the store that they came from. A run that is
 * not over and that a fork builds on is copied with the fork, and waits in the other store for what it waits for in its own.
 *
 * It is a copy: a run that is imported while the original can still be resumed exists twice, and what each does, it does on its own. To
 * move runs, remove the originals before you resume the copies: the fork first, then the run that it builds on.
 *
 * An archive holds decisions: whoever can write archives can write approvals. Trust one as much as the database itself. What is checked
 * when it is imported is that it adds up.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Decision } from "../domain/Decision.ts"
import { lines, sentence } from "../domain/Display.ts"
import { evolveAll } from "../domain/evolve.ts"
import { Grant } from "../domain/Grant.ts"
import { Revision, RunId, runOfGrant, SessionId, type Timestamp } from "../domain/Id.ts"
import { isDeeperThan } from "../domain/internal/json.ts"
import { withoutUndefined } from "../domain/internal/untyped.ts"
import type { SessionBusy } from "../domain/RunError.ts"
import { type RunEvent, RunEvents, version as eventVersion } from "../domain/RunEvent.ts"
import { isEnded, type RunState, Status } from "../domain/RunState.ts"
import { reportCalls } from "../run/internal/cancellation.ts"
import { redactDecision, redactEvent } from "../run/internal/redact.ts"
import { isDerivedId } from "../run/internal/staging.ts"
import { endOfPartialCopy } from "../store/internal/copies.ts"
import { RunStore } from "../store/RunStore.ts"
import { type RunExists, RunNotFound, type RunStoreError } from "../store/RunStoreError.ts"
import type { RestoredRun, RunHead } from "../store/RunStorePort.ts"
import { SentMessage } from "../store/SentMessage.ts"
import type { StoredGrant } from "../store/StoredGrant.ts"
import { contained, Scrubber } from "../tool/Scrubber.ts"
import { foldStored } from "./internal/foldStored.ts"
import { redactMessage } from "./internal/redactMessage.ts"
import { foldSoundly, mailProblem, noKnownIds, stateProblem } from "./internal/soundArchive.ts"

const mail = {
  /** Decisions that were taken and that the journal does not hold yet. */
  decisions: Schema.Array(Decision),
  /** Messages that were sent to it and that the journal does not hold yet. */
  messages: Schema.optionalKey(Schema.Array(SentMessage)),
  /** The reason of a request to cancel it that nothing has acted on yet. */
  cancelReason: Schema.optionalKey(Schema.String)
}

/** A run, and those that it builds on, oldest first. Decisions, messages and a request to cancel are those of the last one. */
export const RunArchive = Schema.Struct({
  format: Schema.Literal("fermata.run"),
  /** The version of the events; see `RunEvent.version`. */
  version: Schema.Natural,
  runs: Schema.NonEmptyArray(
    Schema.Struct({
      runId: RunId,
      sessionId: SessionId,
      agent: Schema.String,
      /** After `events`. */
      status: Status,
      /** How many `events` there are. Left out by earlier versions. */
      revision: Schema.optionalKey(Revision),
      parent: Schema.optionalKey(Schema.Struct({ runId: RunId, revision: Revision })),
      /** All events of the last run; of the others, those that the next one builds on. */
      events: RunEvents,
      /**
       * How a run that another one builds on went on. Left out when it ended there with nothing left over; when it was at work, since
       * nothing can go on with a run at work but its own store; and when that part of it is damaged.
       */
      since: Schema.optionalKey(
        Schema.Struct({
          status: Status,
          /** How many events the run has, those that the next one builds on included. Left out by earlier versions. */
          revision: Schema.optionalKey(Revision),
          events: RunEvents,
          ...mail
        })
      )
    })
  ),
  ...mail,
  /** Grants of these runs that were revoked: they stay revoked where the archive is imported. */
  revoked: Schema.optionalKey(
    Schema.Array(Schema.Struct({ grant: Grant, runId: RunId, sessionId: SessionId }))
  )
})
export type RunArchive = typeof RunArchive.Type
type ArchivedRun = RunArchive["runs"][number]

/** The value is not the archive of a run that can be stored. Nothing was written. */
export class ArchiveInvalid extends Schema.TaggedError<ArchiveInvalid>()("ArchiveInvalid", {
  problem: Schema.String
}) {
  override get message() {
    return sentence`This archive cannot be imported: ${lines(this.problem)}. Nothing was written.`
  }
}

/**
 * Copies a run out of the store, with the runs that it builds on. Everything in an archive is as the journal holds it: secrets were
 * taken out before.
 *
 * **Errors**
 *
 * - `RunNotFound` — check the id.
 *
 * @category running
 * @since 0.1.0
 */
export const exportRun: (runId: RunId) => Effect.Effect<RunArchive, RunNotFound | RunStoreError, RunStore> =
  Effect.fn("fermata.exportRun")(function* (runId: RunId) {
    const store = yield* RunStore
    const stored = yield* store.load(runId)
    yield* foldStored(stored)
    const { decisions, events, head, messages } = stored
    const slices: Array<Slice> = [{ head, events: events.slice(events.length - head.revision) }]
    let upto = events.length - head.revision
    for (let { parent } = head; parent !== undefined;) {
      const { revision } = parent
      // It can be gone only if the run itself was removed since it was read.
      const before = yield* Effect.catchTag(store.head(parent.runId), "RunNotFound", () =>
        Effect.fail(new RunNotFound({ runId }))
      )
      const since = yield* Effect.catchTag(sinceOf(store, before, revision), "RunNotFound", () =>
        Effect.fail(new RunNotFound({ runId }))
      )
      slices.unshift({ head: before, events: events.slice(upto - revision, upto), ...since })
      upto -= revision
      parent = before.parent
    }
    let state: RunState | undefined
    const runs = slices.map(({ events, head, since }) => {
      state = evolveAll(state, events)
      const { agent, parent, runId, sessionId } = head
      return {
        runId,
        sessionId,
        agent,
        status: state?.status ?? head.status,
        revision: events.length as Revision,
        events,
        ...withoutUndefined({ parent, since })
      }
    })
    const revoked = (yield* Effect.forEach(runs, ({ runId }) => revokedOf(store, runId))).flat()
    return {
      format: "fermata.run",
      version: eventVersion,
      runs: runs as [(typeof runs)[number]],
      decisions,
      messages,
      ...asked(head),
      ...(revoked.length === 0 ? {} : { revoked })
    }
  })

/** All grants of a run that were revoked. */
const revokedOf = Effect.fnUntraced(function* (store: RunStore["Service"], runId: RunId) {
  const limit = 1000
  const found: Array<StoredGrant> = []
  for (let after: StoredGrant | undefined, isMore = true; isMore;) {
    const page = yield* store.grants({
      runId,
      limit,
      ...(after === undefined ? {} : { after: after.grant.id })
    })
    found.push(...page.filter(({ grant }) => grant.revoked !== undefined))
    after = page.at(-1)
    isMore = page.length === limit
  }
  return found
})

/** The events of one run among those of a chain. */
interface Slice extends Pick<ArchivedRun, "events" | "since"> {
  readonly head: RunHead
}

/** How a run went on behind what the next one builds on. Damage there does not keep the next one from being exported. */
const sinceOf = (store: RunStore["Service"], head: RunHead, revision: Revision) =>
  Effect.catchIf(
    readSince(store, head, revision),
    (error) => error._tag === "RunStoreError" && error.reason._tag === "StoreUnreadable",
    () => Effect.succeed<Pick<Slice, "since">>({})
  )

const readSince = Effect.fnUntraced(function* (
  store: RunStore["Service"],
  found: RunHead,
  revision: Revision
): Effect.fn.Return<Pick<Slice, "since">, RunNotFound | RunStoreError> {
  const { revision: latest, runId, status } = found
  if (status === "running") return {}
  if (latest === revision && status !== "held") {
    // Nearly all runs that another one builds on: the earlier ones of its session.
    const decisions = yield* store.decisions(runId)
    const messages = yield* store.messages(runId)
    return decisions.length + messages.length === 0 && found.cancelReason === undefined
      ? {}
      : { since: { status, revision: latest, events: [], decisions, messages, ...asked(found) } }
  }
  const stored = yield* store.load(runId)
  yield* foldStored(stored)
  const { decisions, events, head, messages } = stored
  if (head.status === "running") return {}
  const rest = events.slice(events.length - (head.revision - revision))
  const { revision: upto } = head
  return {
    since: { status: head.status, revision: upto, events: rest, decisions, messages, ...asked(head) }
  }
})

const asked = ({ cancelReason }: RunHead) => (cancelReason === undefined ? {} : { cancelReason })

/**
 * Copies the runs of an archive into the store, and returns the id of the last one.
 *
 * **Details**
 *
 * A run of the archive that is here already is left as it is if a process has worked on it in this store. If it is a copy that no
 * process has worked on, it becomes the one that went on further, with what was decided and sent here. The same archive again changes
 * nothing. A run that was at work when it was exported is copied up to where the next one took it up, and is cancelled in the copy;
 * importing its own archive later replaces that. So archives of runs that build on each other can be imported in any order.
 *
 * A revocation only narrows what may happen: those that the archive carries are taken in also where the rest of it is refused with
 * `RunExists` or `SessionBusy`. `revoked` in the error lists the grants of runs that are here, that the archive says were revoked, and
 * that are revoked here now. An archive of another run of the same id revokes nothing.
 *
 * **Errors**
 *
 * - `ArchiveInvalid` — it is not an archive, was changed so that it no longer adds up (events are missing or cannot follow from each
 *   other, a decision answers no request of the run, does not fit it, or is of an expiry that has not come), or is of a run that was at
 *   work. Nothing was written.
 * - `RunExists` — the store has a run of this id that went on by itself, or another one; `archive` says how the two stand to each other.
 * - `SessionBusy` — the store has another run in its place in the session.
 *
 * @category running
 * @since 0.1.0
 */
export const importRun: (
  given: unknown
) => Effect.Effect<RunId, ArchiveInvalid | RunExists | SessionBusy | RunStoreError, RunStore> = Effect.fn(
  "fermata.importRun"
)(function* (given: unknown) {
  const scrubber = contained(yield* Scrubber)
  const at = yield* Clock.currentTimeMillis
  const archive = yield* check(given, at)
  const last = Arr.lastNonEmpty(archive.runs)
  const redacted = (events: ReadonlyArray<RunEvent>) => events.map((event) => redactEvent(scrubber, event))
  const mailOf = ({ cancelReason, decisions, messages = [] }: Mail) => ({
    decisions: decisions.map((decision) => redactDecision(scrubber, decision)),
    messages: messages.map((message) => redactMessage(scrubber, message)),
    ...(cancelReason === undefined ? {} : { cancelReason: scrubber.scrub(cancelReason) })
  })
  let state: RunState | undefined
  const restored = Arr.map(archive.runs, ({ since, ...run }): RestoredRun => {
    const events = redacted(run.events) as Arr.NonEmptyArray<RunEvent>
    state = evolveAll(state, events)
    if (run.runId === last.runId) return { ...run, events, ...mailOf(archive) }
    if (since !== undefined) {
      return { ...run, events, status: since.status, rest: redacted(since.events), ...mailOf(since) }
    }
    if (state === undefined || isEnded(state)) return { ...run, events }
    const rest = [endOfPartialCopy(at, last.runId, reportCalls(state))]
    return { ...run, events, rest, status: "cancelled" }
  })
  const { decisions = [], messages = [] } = Arr.lastNonEmpty(restored)
  const store = yield* RunStore
  yield* store.restore(restored, decisions, messages, archive.revoked)
  return last.runId
})

type Mail = Pick<RunArchive, "cancelReason" | "decisions" | "messages">

/** Levels of JSON that an archive may have: the journal's own bound is half of it. */
const maxDepth = 400

const decode = Schema.decodeUnknownEffect(RunArchive)

const invalid = (problem: string) => new ArchiveInvalid({ problem })

/** The value as plain JSON, whatever kind of object it was. */
const plain = Effect.fnUntraced(function* (given: unknown) {
  // Also looking at it may throw: it may have getters, or be a proxy.
  const isTooDeep = yield* Effect.try({ try: () => isDeeperThan(given, maxDepth), catch: notJson })
  if (isTooDeep) return yield* invalid(`it nests deeper than ${maxDepth} levels`)
  return yield* Effect.try({ try: () => JSON.parse(JSON.stringify(given)) as unknown, catch: notJson })
})

const notJson = () => invalid("it is not JSON")

/** Whether all events are there that an archive says there are. */
const isWhole = (revision: Revision | undefined, count: number): boolean =>
  revision === undefined || revision === count

/** The archive, if its runs add up and are what they say they are. */
const check = Effect.fnUntraced(function* (given: unknown, now: Timestamp) {
  const json = yield* plain(given)
  const archive = yield* Effect.mapError(decode(json), () => invalid("it does not have the form of one"))
  if (archive.version > eventVersion) {
    return yield* invalid(`it was written by a newer Fermata (version ${archive.version}): update first`)
  }
  const last = Arr.lastNonEmpty(archive.runs)
  let state: RunState | undefined
  let before: ArchivedRun | undefined
  const known = new Set<RunId>()
  for (const run of archive.runs) {
    const { agent, events, parent, runId, sessionId, since, status } = run
    if (isDerivedId(runId)) {
      return yield* invalid(
        `its run ${runId} has an id that says where in another run it lies (".t1.1", ".r1"), and could not be found by it`
      )
    }
    if (events.length < (run === last ? 2 : 1)) return yield* invalid("it has a run without a turn")
    if (known.has(runId)) return yield* invalid(`it has the run ${runId} twice`)
    known.add(runId)
    const ids = noKnownIds()
    const fold = (before: RunState | undefined, more: ReadonlyArray<RunEvent>) =>
      Effect.mapError(Effect.fromResult(foldSoundly(before, more, ids, now)), (problem) =>
        invalid(sentence`its run ${runId} is unsound: ${lines(problem)}`)
      )
    const sound = Effect.fnUntraced(function* (reached: RunState, mail: Mail) {
      const problem = stateProblem(reached) ?? mailProblem(reached, mail, ids, now)
      if (problem !== undefined)
        return yield* invalid(sentence`its run ${runId} is unsound: ${lines(problem)}`)
    })
    if (!isWhole(run.revision, events.length)) {
      return yield* invalid(
        `its run ${runId} has ${events.length} events where it says that there are ${run.revision}`
      )
    }
    state = yield* fold(state, events)
    const follows =
      before === undefined
        ? parent === undefined
        : parent?.runId === before.runId && parent.revision === before.events.length
    const isPlaced = state?.parent?.runId === parent?.runId && state?.parent?.revision === parent?.revision
    if (!follows || !isPlaced || state?.runId !== runId || state.revision !== events.length) {
      return yield* invalid("its events do not add up to the runs that it names")
    }
    const [first] = events
    const startedUnder = first?._tag === "run.started" ? (first.under ?? first.agent.name) : undefined
    if (state.sessionId !== sessionId || startedUnder !== agent) {
      return yield* invalid(`its run ${runId} is of another session or agent than it says`)
    }
    if (state.status !== status) return yield* invalid(`its run ${runId} is not ${status}`)
    if (run === last && status === "running") {
      return yield* invalid(
        `the run ${runId} was at work when it was exported: export it when it is held or over`
      )
    }
    if (run === last) yield* sound(state, archive)
    if (since !== undefined) {
      if (!isWhole(since.revision, events.length + since.events.length)) {
        return yield* invalid(
          `its run ${runId} has ${events.length + since.events.length} events where it says that there are ${since.revision}`
        )
      }
      const later = yield* fold(state, since.events)
      const isItself = later?.runId === runId && later.revision === events.length + since.events.length
      if (run === last || !isItself || later.status !== since.status || since.status === "running") {
        return yield* invalid(`its run ${runId} did not go on as it says`)
      }
      yield* sound(later, since)
    }
    before = run
  }
  const foreign = archive.revoked?.find(({ grant, runId }) => {
    const giver = runOfGrant(grant.id)
    return giver === undefined || !known.has(giver) || !known.has(runId)
  })
  if (foreign !== undefined) {
    return yield* invalid(`it revokes the grant ${foreign.grant.id}, which no run in it gave`)
  }
  return archive
})
