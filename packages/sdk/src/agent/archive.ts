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
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Decision } from "../domain/Decision.ts"
import { evolveAll } from "../domain/evolve.ts"
import { Revision, RunId, SessionId } from "../domain/Id.ts"
import { isDeeperThan } from "../domain/internal/json.ts"
import type { Rejection } from "../domain/Rejection.ts"
import type { SessionBusy } from "../domain/RunError.ts"
import { RunEvents, version as eventVersion } from "../domain/RunEvent.ts"
import { Status } from "../domain/RunState.ts"
import { RunStore } from "../store/RunStore.ts"
import {
  type LeaseLost,
  type RunConflict,
  RunExists,
  type RunNotFound,
  type RunStoreError
} from "../store/RunStoreError.ts"

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
  decisions: Schema.Array(Decision)
})
export type RunArchive = typeof RunArchive.Type

/** The value is not the archive of a run that can be stored. Nothing was written. */
export class ArchiveInvalid extends Schema.TaggedError<ArchiveInvalid>()("ArchiveInvalid", {
  problem: Schema.String
}) {
  override get message() {
    return `This archive cannot be imported: ${this.problem}. Nothing was written.`
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
    const { decisions, events, head } = yield* store.load(runId)
    const runs: Array<RunArchive["runs"][number]> = []
    let upto = events.length
    let current = head
    let own = head.revision as number
    while (true) {
      const { agent, parent, runId, sessionId, status } = current
      const slice = events.slice(upto - own, upto)
      runs.unshift({
        runId,
        sessionId,
        agent,
        status,
        events: slice,
        ...(parent === undefined ? {} : { parent })
      })
      if (parent === undefined) break
      upto -= own
      own = parent.revision
      current = yield* store.head(parent.runId)
    }
    return { format: "fermata.run", version: eventVersion, runs: runs as [(typeof runs)[number]], decisions }
  })

/**
 * Copies a run into the store, and returns its id. Runs that it builds on and that are there already are left as they are.
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
) => Effect.Effect<
  RunId,
  | ArchiveInvalid
  | RunExists
  | SessionBusy
  | RunNotFound
  | RunConflict
  | LeaseLost
  | Rejection
  | RunStoreError,
  RunStore
> = Effect.fn("fermata.importRun")(function* (given: unknown) {
  const store = yield* RunStore
  const { decisions, runs } = yield* check(given)
  const last = Arr.lastNonEmpty(runs)
  const existing = yield* absent(store.head(last.runId))
  if (existing !== undefined) return yield* new RunExists({ runId: last.runId, status: existing.status })
  for (const run of runs) {
    const { agent, events, parent, runId, sessionId, status } = run
    const first = events.slice(0, -1)
    const end = events.slice(-1)
    if (!Arr.isReadonlyArrayNonEmpty(first) || !Arr.isReadonlyArrayNonEmpty(end)) continue
    const known = yield* absent(store.events(runId))
    if (known !== undefined) {
      if (JSON.stringify(known.slice(0, events.length)) === JSON.stringify(events)) continue
      return yield* new ArchiveInvalid({ problem: `the store has another run ${runId}, which it builds on` })
    }
    const lease = yield* store.create({
      runId,
      sessionId,
      agent,
      events: first,
      status: "running",
      owner: `import-${globalThis.crypto.randomUUID().slice(0, 8)}`,
      ttl: "15 seconds",
      ...(parent === undefined ? {} : { parent })
    })
    const expected = Revision.make(first.length)
    yield* Effect.ensuring(
      store.append({ lease, expected, events: end, status }),
      Effect.ignore(store.release(lease))
    )
  }
  for (const decision of decisions) yield* store.decide(decision)
  return last.runId
})

const absent = <A, E>(found: Effect.Effect<A, RunNotFound | E>): Effect.Effect<A | undefined, E> =>
  Effect.catchTag(found as Effect.Effect<A, RunNotFound>, "RunNotFound", () =>
    Effect.succeed(undefined)
  ) as Effect.Effect<A | undefined, E>

/** Levels of JSON that an archive may have: the journal's own bound is half of it. */
const maxDepth = 400

const decode = Schema.decodeUnknownEffect(RunArchive)

/** The archive, if its runs add up. */
const check = Effect.fnUntraced(function* (given: unknown) {
  const invalid = (problem: string) => new ArchiveInvalid({ problem })
  if (isDeeperThan(given, maxDepth)) return yield* invalid(`it nests deeper than ${maxDepth} levels`)
  const archive = yield* Effect.mapError(decode(given), () => invalid("it does not have the form of one"))
  if (archive.version > eventVersion) {
    return yield* invalid(`it was written by a newer Fermata (version ${archive.version}): update first`)
  }
  const { runs } = archive
  const fold = Effect.try({
    try: () =>
      evolveAll(
        undefined,
        runs.flatMap(({ events }) => events)
      ),
    catch: () => invalid("its events do not add up to a run")
  })
  const state = yield* fold
  const last = Arr.lastNonEmpty(runs)
  const connected = runs.every(({ parent }, index) => {
    const before = runs[index - 1]
    return before === undefined
      ? parent === undefined
      : parent?.runId === before.runId && parent.revision === before.events.length
  })
  if (state?.runId !== last.runId || state.revision !== last.events.length || !connected) {
    return yield* invalid("its events do not add up to the runs that it names")
  }
  if (state.status !== last.status) return yield* invalid(`its run is not ${last.status}`)
  if (runs.some(({ events }) => events.length < 2)) return yield* invalid("it has a run without a turn")
  const working = runs.find(({ status }) => status === "running")
  if (working !== undefined) {
    return yield* invalid(
      `the run ${working.runId} was at work when it was exported: export it when it is held or over`
    )
  }
  return archive
})
