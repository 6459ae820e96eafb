/**
 * The form of an archive, and whether what it says adds up.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Decision } from "../../domain/Decision.ts"
import { lines, sentence } from "../../domain/Display.ts"
import { Grant } from "../../domain/Grant.ts"
import { Revision, RunId, runOfGrant, SessionId, type Timestamp } from "../../domain/Id.ts"
import { isDeeperThan } from "../../domain/internal/json.ts"
import { type RunEvent, RunEvents, version as eventVersion } from "../../domain/RunEvent.ts"
import { type RunState, Status } from "../../domain/RunState.ts"
import { isDerivedId } from "../../run/internal/staging.ts"
import { SentMessage } from "../../store/SentMessage.ts"
import { foldSoundly, mailProblem, noKnownIds, stateProblem } from "./soundArchive.ts"

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
export type ArchivedRun = RunArchive["runs"][number]

/** The value is not the archive of a run that can be stored. Nothing was written. */
export class ArchiveInvalid extends Schema.TaggedError<ArchiveInvalid>()("ArchiveInvalid", {
  problem: Schema.String
}) {
  override get message() {
    return sentence`This archive cannot be imported: ${lines(this.problem)}. Nothing was written.`
  }
}

export type Mail = Pick<RunArchive, "cancelReason" | "decisions" | "messages">

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
export const checkArchive = Effect.fnUntraced(function* (given: unknown, now: Timestamp) {
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
