/**
 * A stored run as one JSON value: to keep as evidence, to look at elsewhere, or to move to another store.
 *
 * An archive holds the run's journal and those of the runs of its session that it builds on, so that it can be folded and
 * continued without the store that it came from. It is a copy: a run that is imported while the original can still be resumed
 * exists twice, and what each does, it does on its own. To move a run, remove the original before you resume the copy.
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
import { Revision, RunId, SessionId } from "../domain/Id.ts"
import { isDeeperThan } from "../domain/internal/json.ts"
import type { SessionBusy } from "../domain/RunError.ts"
import { type RunEvent, RunEvents, version as eventVersion } from "../domain/RunEvent.ts"
import { isEnded, type RunState, Status } from "../domain/RunState.ts"
import { type RestoredRun, type RunHead, RunStore } from "../store/RunStore.ts"
import type { RunExists, RunNotFound, RunStoreError } from "../store/RunStoreError.ts"
import { SentMessage } from "../store/SentMessage.ts"
import { contained, Scrubber } from "../tool/Scrubber.ts"
import { redactDecision, redactEvent } from "./internal/redact.ts"
import { redactMessage } from "./internal/redactMessage.ts"
import { reportCalls } from "./internal/reportCalls.ts"
import { isDerivedId } from "./internal/staging.ts"
import { foldStored } from "./internal/stored.ts"

/** A run, and those that it builds on, oldest first. */
export const RunArchive = Schema.Struct({
  format: Schema.Literal("fermata.run"),
  /** The version of the events; see `RunEvent.version`. */
  version: Schema.Natural,
  runs: Schema.NonEmptyArray(
    Schema.Struct({
      runId: RunId,
      sessionId: SessionId,
      agent: Schema.String,
      status: Status,
      parent: Schema.optionalKey(Schema.Struct({ runId: RunId, revision: Revision })),
      events: RunEvents
    })
  ),
  /** Decisions that were taken and that the journal does not hold yet. */
  decisions: Schema.Array(Decision),
  /** Messages that were sent to it and that the journal does not hold yet. */
  messages: Schema.optionalKey(Schema.Array(SentMessage))
})
export type RunArchive = typeof RunArchive.Type

/** The value is not the archive of a run that can be stored. Nothing was written. */
export class ArchiveInvalid extends Schema.TaggedError<ArchiveInvalid>()("ArchiveInvalid", {
  problem: Schema.String
}) {
  override get message() {
    return sentence`This archive cannot be imported: ${lines(this.problem)}. Nothing was written.`
  }
}

/**
 * Copies a run out of the store. Everything in an archive is as the journal holds it: secrets were taken out before.
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
    const slices: Array<{ readonly head: RunHead; readonly events: ReadonlyArray<RunEvent> }> = []
    let upto = events.length
    let current = head
    let own = head.revision as number
    while (true) {
      slices.unshift({ head: current, events: events.slice(upto - own, upto) })
      const { parent } = current
      if (parent === undefined) break
      upto -= own
      own = parent.revision
      current = yield* store.head(parent.runId)
    }
    let state: RunState | undefined
    const runs = slices.map(({ events, head }) => {
      // A run may have gone on after the next one began; what counts is where that one took it up.
      state = evolveAll(state, events)
      const { agent, parent, runId, sessionId } = head
      return {
        runId,
        sessionId,
        agent,
        status: state?.status ?? head.status,
        events,
        ...(parent === undefined ? {} : { parent })
      }
    })
    return {
      format: "fermata.run",
      version: eventVersion,
      runs: runs as [(typeof runs)[number]],
      decisions,
      messages
    }
  })

/**
 * Copies a run into the store, and returns its id. Runs that it builds on and that are there already are left as they are. One
 * that was not over where this one began, as a fork's may be, is cancelled in the copy: it goes on where it came from, if at all.
 *
 * **Errors**
 *
 * - `ArchiveInvalid` — it is not an archive, was changed so that it no longer adds up, or is of a run that was at work.
 * - `RunExists` — the store has a run of this id.
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
  const { decisions, messages = [], runs } = yield* check(given)
  const { runId } = Arr.lastNonEmpty(runs)
  const at = yield* Clock.currentTimeMillis
  let state: RunState | undefined
  const restored = Arr.map(runs, (run): RestoredRun => {
    const events = Arr.map(run.events as Arr.NonEmptyReadonlyArray<RunEvent>, (event) =>
      redactEvent(scrubber, event)
    )
    state = evolveAll(state, events)
    if (run.runId === runId || state === undefined || isEnded(state)) return { ...run, events }
    const reason = `Only the part of it that ${runId} builds on was copied.`
    const ending = { _tag: "run.cancelled", at, reason, calls: reportCalls(state) } as const
    return { ...run, events, ending, status: "cancelled" }
  })
  yield* (yield* RunStore).restore(
    restored,
    decisions.map((decision) => redactDecision(scrubber, decision)),
    messages.map((message) => redactMessage(scrubber, message))
  )
  return runId
})

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

/** The archive, if its runs add up and are what they say they are. */
const check = Effect.fnUntraced(function* (given: unknown) {
  const json = yield* plain(given)
  const archive = yield* Effect.mapError(decode(json), () => invalid("it does not have the form of one"))
  if (archive.version > eventVersion) {
    return yield* invalid(`it was written by a newer Fermata (version ${archive.version}): update first`)
  }
  const last = Arr.lastNonEmpty(archive.runs)
  let state: RunState | undefined
  let before: RunArchive["runs"][number] | undefined
  for (const run of archive.runs) {
    const { agent, events, parent, runId, sessionId, status } = run
    if (isDerivedId(runId)) {
      return yield* invalid(
        `its run ${runId} has an id that says where in another run it lies (".t1.1", ".r1"), and could not be found by it`
      )
    }
    if (events.length < (run === last ? 2 : 1)) return yield* invalid("it has a run without a turn")
    state = yield* Effect.try({
      try: () => evolveAll(state, events),
      catch: () => invalid("its events do not add up to a run")
    })
    const follows =
      before === undefined
        ? parent === undefined
        : parent?.runId === before.runId && parent.revision === before.events.length
    if (!follows || state?.runId !== runId || state.revision !== events.length) {
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
    before = run
  }
  return archive
})
