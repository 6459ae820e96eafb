/**
 * The runs of a rehearsal: started, decided, raced and recovered, with as many workers as that takes.
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

/** Workers that one run may take before it is given up. */
const maxWorkers = 200

export const make = (scene: Scene): Rehearsal => {
  const { attempt, parts, unharmed, world } = scene
  const { ledger, points, store } = world

  /** Works with one worker after the other until one gets through, or comes to an end that another would come to too. */
  const persist = <A, E>(work: Work<A, E>): Effect.Effect<A, E | RehearsalStuck> =>
    Effect.gen(function* () {
      for (let worker = 0; worker < maxWorkers; worker++) {
        const exit = yield* attempt(work)
        if (exit === undefined) {
          yield* scene.outliveLeases
          continue
        }
        if (Exit.isSuccess(exit)) return exit.value
        const error: unknown = errorOf(exit)
        if (!isPassing(error)) return yield* exit
        if (error instanceof RunBusy) yield* scene.outliveLeases
        else yield* scene.elapse(1_000)
      }
      return yield* stuckIn(world)
    })

  /** Goes on with a run until it is held or over. */
  const goOn = (
    runId: RunId,
    start?: StoredStartInput & { readonly agent: string }
  ): Effect.Effect<RunResult, RehearsalError> =>
    Effect.gen(function* () {
      while (true) {
        const result = yield* persist((runtimes) =>
          Effect.gen(function* () {
            const head = yield* headOf(scene, runId)
            // A caller whose start was not acknowledged starts again, under the same id.
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
          yield* take(doubt, answer(doubt, { bodies, effects }), "rehearsal")
        }
      }
    })

  /** Takes a decision; a worker that died over it is followed by one that finds what it left. */
  const take = (
    request: Interruption,
    body: DecisionBody,
    by: string
  ): Effect.Effect<void, RehearsalError> => {
    let tries = 0
    return persist((runtimes) =>
      Effect.suspend(() => {
        tries += 1
        // The one before may have got through, and died before it could say so.
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
    Effect.map(unharmed(store.request(request.requestId)), ({ runId }) => runId)

  const decisionOn = (request: Interruption) =>
    Effect.map(unharmed(store.request(request.requestId)), ({ decision }) => decision)

  const recoverAll: Rehearsal["recover"] = Effect.gen(function* () {
    const running = yield* unharmed(store.list({ status: "running", limit: 1_000 }))
    if (running.some(({ lease }) => lease !== undefined)) yield* scene.outliveLeases
    const ready = yield* unharmed(store.ready({ limit: 1_000 }))
    if (ready.length > 0) yield* persist((runtimes) => recover(runtimes))
    // Whatever one pass has left, for a fault or a call in doubt, is gone on with here.
    return yield* Effect.forEach(ready, ({ runId }) => goOn(runId))
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
        const { agent, limits, policy, runId, sessionId } = yield* requireOptions(
          "rehearsal.run",
          given,
          runShape
        )
        const start = {
          prompt,
          runId: (runId ?? scene.newRunId()) as RunId,
          agent: agent ?? parts.agents[0]?.name ?? "",
          ...withoutUndefined({ limits, policy, sessionId: sessionId as SessionId | undefined })
        }
        return yield* goOn(start.runId, start)
      }),
    decide: (request, body, given = {}) =>
      Effect.gen(function* () {
        const { by = "rehearsal" } = yield* requireOptions("rehearsal.decide", given, decideShape)
        const runId = yield* rootOf(request)
        yield* take(request, body, by)
        return yield* goOn(runId)
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
            (exit) => (exit === undefined || isPassing(errorOf(exit)) ? Effect.void : Effect.asVoid(exit))
          )
        yield* scene.together(Effect.forEach(bodies, rival, { concurrency: "unbounded", discard: true }))
        const [first] = bodies
        // All of them may have died over it.
        if (first !== undefined && (yield* decisionOn(request)) === undefined) {
          yield* take(request, first, "rehearsal")
        }
        const result = yield* goOn(runId)
        const decision = yield* decisionOn(request)
        if (decision === undefined) return yield* new RequestNotFound({ requestId: request.requestId })
        return { decision, refused, result }
      }),
    cancel: (runId, reason) =>
      Effect.andThen(
        persist(() => cancelRun(runId as RunId, reason)),
        goOn(runId as RunId)
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

/** What a person who looks decides: it happened, and returned this; or it has not, and runs again. */
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

/** Whether another worker, later, may get further. */
const isPassing = (error: unknown): boolean =>
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

const headOf = ({ unharmed, world }: Scene, runId: RunId) =>
  Effect.catchTag(unharmed(world.store.head(runId)), "RunNotFound", () => Effect.succeed(undefined))

/** What it all came to. */
const reportOf = ({ unharmed, world }: Scene): Effect.Effect<Report, RehearsalError> =>
  Effect.map(unharmed(collect(world.store)), ({ inbox, runs }) => {
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
