/**
 * The operations of a rehearsal on its runs. Each operation uses new workers until one of them completes it.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import { requireOptions } from "../../../agent/internal/soundOptions.ts"
import type { DecisionBody, DecisionInput } from "../../../domain/Decision.ts"
import type { RunId, SessionId } from "../../../domain/Id.ts"
import { withoutUndefined } from "../../../domain/internal/untyped.ts"
import type { InDoubtRequest, Interruption } from "../../../domain/Interruption.ts"
import { type AlreadyDecided, RequestNotFound } from "../../../domain/Rejection.ts"
import { interruptions, providerMessages } from "../../../domain/RunState.ts"
import { cancelRun } from "../../../durable/cancelRun.ts"
import { decideStored } from "../../../durable/decideStored.ts"
import { recover } from "../../../durable/recover.ts"
import { runPromptStored } from "../../../durable/runPromptStored.ts"
import { type StoredStartInput } from "../../../durable/storedInput.ts"
import type { RunResult } from "../../../run/RunResult.ts"
import { RunBusy } from "../../../store/RunStoreError.ts"
import type { Evidence, Rehearsal, RehearsalError } from "../../RehearsalParts.ts"
import { collect } from "../simulation/world.ts"
import { type Failure, type Point, PointNotReached, type RehearsalStuck } from "./points.ts"
import type { Report } from "./report.ts"
import { errorOf, runtimeOf, type Scene, stuckIn, type Work } from "./scene.ts"
import { decideShape, runShape } from "./shapes.ts"

/** Number of workers after which an operation fails with `RehearsalStuck`. */
const maxWorkers = 200

export const make = (scene: Scene): Rehearsal => {
  const { attempt, parts, onClock, world } = scene
  const { ledger, points, store } = world

  /** Runs work in one worker after another, until one succeeds or fails with an error that is not transient. */
  const retrying = <A, E>(work: Work<A, E>): Effect.Effect<A, E | RehearsalStuck> =>
    Effect.gen(function* () {
      for (let worker = 0; worker < maxWorkers; worker++) {
        const exit = yield* attempt(work)
        if (exit === undefined) {
          yield* scene.expireLeases
          continue
        }
        if (Exit.isSuccess(exit)) return exit.value
        const error: unknown = errorOf(exit)
        if (!isTransient(error)) return yield* exit
        if (error instanceof RunBusy) yield* scene.expireLeases
        else yield* scene.elapse(1_000)
      }
      return yield* stuckIn(world)
    })

  /** Continues a run until it is held or has ended, and decides its calls in doubt unless `inDoubt` is `ask`. */
  const continueRun = (
    runId: RunId,
    start?: StoredStartInput & { readonly agent: string }
  ): Effect.Effect<RunResult, RehearsalError> =>
    Effect.gen(function* () {
      while (true) {
        const result = yield* retrying((runtimes) =>
          Effect.gen(function* () {
            const head = yield* headOf(scene, runId)
            // If the start was not stored before a crash, the next worker starts the run again under the same id.
            if (head === undefined && start !== undefined) {
              const { agent, ...input } = start
              return yield* runPromptStored(yield* runtimeOf(runtimes, agent), input)
            }
            return yield* runPromptStored(yield* runtimeOf(runtimes, head?.agent ?? ""), { runId })
          })
        )
        const { status } = result
        if (status === "completed" || status === "cancelled") world.acknowledged.ended.push({ runId, status })
        const doubts = result.status === "interrupted" ? result.interruptions.filter(isInDoubt) : []
        if (doubts.length === 0 || parts.inDoubt === "ask") return result
        const answer = parts.inDoubt ?? fromEvidence
        for (const doubt of doubts) {
          const own = ({ key }: { readonly key: string }) => key === doubt.idempotencyKey
          const bodies = ledger.bodies().filter(own)
          const effects = ledger.effects().filter((effect) => own(effect.body ?? effect))
          yield* record(doubt, answer(doubt, { bodies, effects }), "rehearsal")
        }
      }
    })

  /** Records a decision. Succeeds if a worker that crashed has already recorded the same decision. */
  const record = (
    request: Interruption,
    body: DecisionBody,
    by: string
  ): Effect.Effect<void, RehearsalError> => {
    let tries = 0
    return retrying((runtimes) =>
      Effect.suspend(() => {
        tries += 1
        // The previous worker may have crashed between its commit and the acknowledgement.
        return Effect.catchTag(
          Effect.asVoid(decideStored(runtimes, inputOf(request, body, by))),
          "AlreadyDecided",
          (error) =>
            tries > 1 && error.by === by && error.decision._tag === body._tag
              ? Effect.void
              : Effect.fail(error)
        )
      })
    )
  }

  const rootOf = (request: Interruption) =>
    Effect.map(onClock(store.request(request.requestId)), ({ runId }) => runId)

  const decisionOn = (request: Interruption) =>
    Effect.map(onClock(store.request(request.requestId)), ({ decision }) => decision)

  const recoverAll: Rehearsal["recover"] = Effect.gen(function* () {
    const running = yield* onClock(store.list({ status: "running", limit: 1_000 }))
    if (running.some(({ lease }) => lease !== undefined)) yield* scene.expireLeases
    const ready = yield* onClock(store.ready({ limit: 1_000 }))
    if (ready.length > 0) yield* retrying((runtimes) => recover(runtimes))
    // A fault or a call in doubt may have stopped a run during the recovery: continue each of them.
    return yield* Effect.forEach(ready, ({ runId }) => continueRun(runId))
  })

  const plan = (list: ReadonlyArray<Point>, failure?: Failure) =>
    Effect.forEach(list, (point) => Effect.fromResult(points.plan(point, failure)), { discard: true })

  return {
    crashAt: (...list) => plan(list),
    failAt: (point, failure) => plan([point], failure),
    adjust: scene.adjust,
    recover: recoverAll,
    run: (prompt, given = {}) =>
      Effect.gen(function* () {
        const { agent, context, limits, policy, runId, sessionId } = yield* requireOptions(
          "rehearsal.run",
          given,
          runShape
        )
        const start = {
          prompt,
          runId: (runId ?? scene.newRunId()) as RunId,
          agent: agent ?? parts.agents[0]?.name ?? "",
          ...withoutUndefined({ context, limits, policy, sessionId: sessionId as SessionId | undefined })
        }
        return yield* continueRun(start.runId, start)
      }),
    decide: (request, body, given = {}) =>
      Effect.gen(function* () {
        const { by = "rehearsal" } = yield* requireOptions("rehearsal.decide", given, decideShape)
        const runId = yield* rootOf(request)
        yield* record(request, body, by)
        return yield* continueRun(runId)
      }),
    race: (request, ...bodies) =>
      Effect.gen(function* () {
        const runId = yield* rootOf(request)
        const refused: Array<AlreadyDecided> = []
        const rival = (body: DecisionBody) =>
          Effect.flatMap(
            attempt((runtimes, owner) =>
              Effect.gen(function* () {
                const decided = yield* Effect.exit(decideStored(runtimes, inputOf(request, body, owner)))
                const refusal = errorOf(decided)
                if (refusal?._tag === "AlreadyDecided") refused.push(refusal)
                else if (Exit.isFailure(decided)) return yield* decided
                const head = yield* headOf(scene, runId)
                yield* runPromptStored(yield* runtimeOf(runtimes, head?.agent ?? ""), { runId })
              })
            ),
            (exit) => (exit === undefined || isTransient(errorOf(exit)) ? Effect.void : Effect.asVoid(exit))
          )
        yield* scene.racing(Effect.forEach(bodies, rival, { concurrency: "unbounded", discard: true }))
        const [first] = bodies
        // All workers of the race may have crashed before their commits.
        if (first !== undefined && (yield* decisionOn(request)) === undefined) {
          yield* record(request, first, "rehearsal")
        }
        const result = yield* continueRun(runId)
        const decision = yield* decisionOn(request)
        if (decision === undefined) return yield* new RequestNotFound({ requestId: request.requestId })
        return { decision, refused, result }
      }),
    cancel: (runId, reason) =>
      Effect.andThen(
        retrying(() => cancelRun(runId as RunId, reason)),
        continueRun(runId as RunId)
      ),
    finish: Effect.gen(function* () {
      yield* recoverAll
      const planned = points.planned()
      if (planned.length > 0) {
        return yield* new PointNotReached({ points: planned, passed: points.passed.slice() })
      }
      return yield* reportOf(scene)
    })
  }
}

/**
 * Decides a call in doubt by its evidence. Without an effect, decides `retry`. With an effect, supplies the value that the body returned,
 * or a sentence that names the effects if it returned none.
 */
export const fromEvidence = (_: InDoubtRequest, { bodies, effects }: Evidence): DecisionBody => {
  if (effects.length === 0) return { _tag: "retry" }
  const value = bodies.findLast(({ state }) => state === "returned")?.value
  const happened = `It happened: ${effects.map(({ name }) => name).join(", ")}.`
  return { _tag: "supply", result: typeof value === "string" ? value : (json(value) ?? happened) }
}

const json = (value: unknown): Schema.Json | undefined => {
  try {
    return JSON.parse(JSON.stringify(value)) as Schema.Json
  } catch {
    return undefined
  }
}

const isInDoubt = (request: Interruption): request is InDoubtRequest => request._tag === "inDoubt"

/** Whether a later worker may succeed where one failed with this error. */
const isTransient = (error: unknown): boolean =>
  typeof error === "object" &&
  error !== null &&
  "_tag" in error &&
  (error._tag === "RunExists" ||
    error._tag === "LeaseLost" ||
    ((error._tag === "RunBusy" || error._tag === "RunConflict" || error._tag === "RunStoreError") &&
      "isRetryable" in error &&
      error.isRetryable === true))

const inputOf = (request: Interruption, body: DecisionBody, by: string): DecisionInput =>
  ({
    ...body,
    requestId: request.requestId,
    by,
    ...(request._tag === "approval" ? { digest: request.digest } : {})
  }) as DecisionInput

const headOf = ({ onClock, world }: Scene, runId: RunId) =>
  Effect.catchTag(onClock(world.store.head(runId)), "RunNotFound", () => Effect.succeed(undefined))

/** Collects the report from the store and the effect record. */
const reportOf = ({ onClock, world }: Scene): Effect.Effect<Report, RehearsalError> =>
  Effect.map(onClock(collect(world.store)), ({ inbox, runs }) => {
    const { acknowledged, effects, ledger, points, reconciled } = world
    return {
      crashes: world.crashes.slice(),
      passed: points.passed.slice(),
      effects: ledger.effects(),
      bodies: ledger.bodies(),
      runs: runs.map(({ journal, state }) => ({
        runId: journal.runId,
        status: state.status,
        open: interruptions(state),
        messages: providerMessages(state)
      })),
      journals: runs.map(({ journal }) => journal),
      inbox,
      evidence: { acknowledged, effects, reconciled },
      requests: world.requests.slice()
    }
  })
