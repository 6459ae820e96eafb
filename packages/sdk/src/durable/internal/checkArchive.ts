/**
 * The form of an archive, and the check that it is consistent.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Sha256 } from "../../domain/Blob.ts"
import { Decision } from "../../domain/Decision.ts"
import { lines, sentence } from "../../domain/Display.ts"
import { Grant } from "../../domain/Grant.ts"
import { Revision, RunId, runOfGrant, SessionId, type Timestamp } from "../../domain/Id.ts"
import { isDeeperThan } from "../../domain/internal/json.ts"
import { type RunEvent, RunEvents, version as eventVersion } from "../../domain/RunEvent.ts"
import { type RunState, Status } from "../../domain/RunState.ts"
import { TaggedError } from "../../domain/TaggedError.ts"
import { isDerivedId } from "../../run/internal/staging.ts"
import { SentMessage } from "../../store/SentMessage.ts"
import { foldSoundly, mailProblem, noKnownIds, stateProblem } from "./soundArchive.ts"
import { digestProblem, grantProblem, namesProblem, timesProblem, valuesProblem } from "./soundValues.ts"

const mail = {
  /** Decisions that the journal does not contain yet. */
  decisions: Schema.Array(Decision),
  /** Messages that the journal does not contain yet. */
  messages: Schema.optionalKey(Schema.Array(SentMessage)),
  /** The reason of a cancellation request that the run has not acted on yet. */
  cancelReason: Schema.optionalKey(Schema.String)
}

/**
 * A run and the runs that it builds on, oldest first. `decisions`, `messages` and `cancelReason` at the top are those of the last run,
 * which is the exported one.
 */
export const RunArchive = Schema.Struct({
  format: Schema.Literal("fermata.run"),
  /** The version of the events; see `RunEvent.version`. */
  version: Schema.Natural,
  runs: Schema.NonEmptyArray(
    Schema.Struct({
      runId: RunId,
      sessionId: SessionId,
      agent: Schema.String,
      /** The status after `events`. */
      status: Status,
      /** The number of `events`. Absent in archives of earlier versions. */
      revision: Schema.optionalKey(Revision),
      parent: Schema.optionalKey(Schema.Struct({ runId: RunId, revision: Revision })),
      /** The events of the run; of a run that another one builds on, only those that the next run builds on. */
      events: RunEvents,
      /**
       * What a run that another one builds on did after `events`. Absent if it ended there without mail, if it was running (only its
       * own store can continue it), or if this part is damaged.
       */
      since: Schema.optionalKey(
        Schema.Struct({
          status: Status,
          /** The number of all events of the run, including `events`. Absent in archives of earlier versions. */
          revision: Schema.optionalKey(Revision),
          events: RunEvents,
          ...mail
        })
      )
    })
  ),
  ...mail,
  /** The contents to which these runs refer, as base64. Absent if they refer to none, and in the header of an archive in lines. */
  contents: Schema.optionalKey(Schema.Array(Schema.Struct({ sha256: Sha256, base64: Schema.String }))),
  /** The grants of these runs that were revoked. They stay revoked where the archive is imported. */
  revoked: Schema.optionalKey(
    Schema.Array(Schema.Struct({ grant: Grant, runId: RunId, sessionId: SessionId }))
  )
})
export type RunArchive = typeof RunArchive.Type
export type ArchivedRun = RunArchive["runs"][number]

/** `importRun` refused the value, which is not an archive of a run that can be stored. Nothing was written. */
export class ArchiveInvalid extends TaggedError<ArchiveInvalid>()("ArchiveInvalid", {
  problem: Schema.String
}) {
  override get message() {
    return sentence`This archive cannot be imported: ${lines(this.problem)}. Nothing was written.`
  }
}

export type Mail = Pick<RunArchive, "cancelReason" | "decisions" | "messages">

/** The maximum nesting of an archive as JSON: twice the limit of a journal. */
const maxDepth = 400

const decode = Schema.decodeUnknownEffect(RunArchive)

export const invalid = (problem: string) => new ArchiveInvalid({ problem })

/** Copies a value as plain JSON, without getters, prototypes and proxies. */
const plain = Effect.fnUntraced(function* (given: unknown) {
  // Reading the value may throw: it may have getters, or be a proxy.
  const isTooDeep = yield* Effect.try({ try: () => isDeeperThan(given, maxDepth), catch: notJson })
  if (isTooDeep) return yield* invalid(`it nests deeper than ${maxDepth} levels`)
  return yield* Effect.try({ try: () => JSON.parse(JSON.stringify(given)) as unknown, catch: notJson })
})

const notJson = () => invalid("it is not JSON")

/** Whether the archive has as many events as it states. */
const isWhole = (revision: Revision | undefined, count: number): boolean =>
  revision === undefined || revision === count

/** Decodes an archive, and fails if its runs are inconsistent. */
export const checkArchive = Effect.fnUntraced(function* (given: unknown, now: Timestamp) {
  const json = yield* plain(given)
  const archive = yield* Effect.mapError(decode(json), () =>
    invalid("it does not have the form of an archive")
  )
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
        `its run ${runId} has the form of an id inside another run (".t1.1", ".r1"), and could not be found by it`
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
      yield* requireSound(stateProblem(reached) ?? mailProblem(reached, mail, ids, now))
    })
    const requireSound = (problem: string | undefined) =>
      problem === undefined
        ? Effect.void
        : Effect.fail(invalid(sentence`its run ${runId} is unsound: ${lines(problem)}`))
    const all = since === undefined ? events : [...events, ...since.events]
    const { decisions, messages = [] } = run === last ? archive : (since ?? noMail)
    const times = [...decisions.filter(({ by }) => by !== "expiry"), ...messages].map(({ at }) => at)
    yield* requireSound(valuesProblem(all) ?? timesProblem(times) ?? namesProblem([agent]))
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
        `the run ${runId} was running when it was exported: export it when it is held or has ended`
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
        return yield* invalid(`its run ${runId} did not continue as it says`)
      }
      yield* sound(later, since)
    }
    yield* requireSound(yield* digestProblem(all))
    before = run
  }
  const foreign = archive.revoked?.find(({ grant, runId }) => {
    const giver = runOfGrant(grant.id)
    return giver === undefined || !known.has(giver) || !known.has(runId)
  })
  if (foreign !== undefined) {
    return yield* invalid(`it revokes the grant ${foreign.grant.id}, which no run in it gave`)
  }
  const problem = archive.revoked?.map(grantProblem).find((problem) => problem !== undefined)
  if (problem !== undefined)
    return yield* invalid(sentence`a grant that it revokes is unsound: ${lines(problem)}`)
  return archive
})

const noMail: Mail = { decisions: [] }
