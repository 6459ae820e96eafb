import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Random from "effect/Random"
import * as Scope from "effect/Scope"
import * as Agent from "../../src/agent/Agent.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import type { AgentHandle, HandleStatus, StoredFault, WhenHeld } from "../../src/dispatch/AgentHandle.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import { attach } from "../../src/dispatch/dispatchPromptStored.ts"
import * as Worker from "../../src/durable/Worker.ts"
import { layerMemory, type RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, assertValid, call, deny, probe, rebind } from "../helpers/Fixture.ts"

type Handle = AgentHandle<undefined, StoredFault>

/** An agent with three turns of two `write` calls, each of which needs approval. */
const scribe = Effect.gen(function* () {
  const write = probe("write", { handler: ({ id }) => Effect.as(Effect.sleep(1), `wrote ${id}`) })
  const agent = Agent.make("scribe", { tools: [write.tool], limits: { maxTurns: 50 } })
  const model = ScriptedModel.make(({ turn }) =>
    turn <= 3
      ? { calls: [call("write", `${turn}a`), call("write", `${turn}b`)], delay: 1 }
      : { text: "done", delay: 1 }
  )
  const { runtime } = yield* rebind(agent, model, { owner: "here" })
  const other = (yield* rebind(agent, model, { owner: "elsewhere" })).runtime
  return { other, runtime, write }
})

const meanings: ReadonlyArray<WhenHeld> = ["queue", "queue", "supersede", "answer"]

/** Performs a random operation on a handle. */
const meddle = Effect.fnUntraced(function* (handle: Handle) {
  const dice = yield* Random.nextIntBetween(0, 20)
  const [request] = handle.interruptions()
  if (dice < 9 && request !== undefined) return yield* Effect.exit(handle.decide(approve(request)))
  if (dice < 11 && request !== undefined) return yield* Effect.exit(handle.decide(deny(request)))
  if (dice < 13) {
    const whenHeld = meanings[dice % meanings.length]!
    return yield* Effect.exit(handle.send("hm", { whenHeld }))
  }
  if (dice === 13) return yield* Effect.exit(handle.cancel("by chance"))
  if (dice < 17) return yield* Effect.sleep(1)
  return yield* Effect.yieldNow
})

const ends = /^run\.(completed|cancelled|failed)$/

interface Way {
  readonly name: string
  /** Whether a worker of another program drives the runs too. */
  readonly isShared?: boolean
  readonly dispatch: (
    conductor: Conductor.Conductor,
    runtime: Runtime<undefined>,
    onUpdate: (update: RunUpdate) => void
  ) => Effect.Effect<Handle, unknown, RunStore | Scope.Scope>
}

const ways: ReadonlyArray<Way> = [
  {
    name: "not stored",
    dispatch: (conductor, runtime, onUpdate) => conductor.dispatch(runtime, { prompt: "go" }, { onUpdate })
  },
  {
    name: "stored",
    dispatch: (conductor, runtime, onUpdate) =>
      conductor.dispatchStored(runtime, { prompt: "go" }, { onUpdate })
  },
  {
    name: "stored, with another program at work",
    isShared: true,
    dispatch: (conductor, runtime, onUpdate) =>
      conductor.dispatchStored(runtime, { prompt: "go" }, { onUpdate })
  }
]

describe("runs under random operations", () => {
  for (const { dispatch, isShared = false, name } of ways) {
    it.live(
      `end once, run each call at most once and leave nothing behind: ${name}`,
      () =>
        Effect.gen(function* () {
          let alive = 0
          yield* Effect.gen(function* () {
            const before = alive
            const { other, runtime, write } = yield* scribe
            const scope = yield* Scope.make()
            const worker = isShared
              ? yield* Effect.forkChild(Worker.run([other], { pollInterval: "50 millis" }))
              : undefined
            const conductor = yield* Effect.provideService(
              Conductor.make({ concurrency: 7 }),
              Scope.Scope,
              scope
            )
            const told = new Map<string, number>()
            const stored = new Set<string>()
            const handles = yield* Effect.forEach(Array.from({ length: 60 }), () =>
              dispatch(conductor, runtime, (update) => {
                stored.add(update.runId)
                if (update._tag === "event" && ends.test(update.event._tag)) {
                  told.set(update.runId, (told.get(update.runId) ?? 0) + 1)
                }
              })
            )
            const meddled = yield* Effect.forEach(
              handles,
              (handle) =>
                Effect.gen(function* () {
                  const seen: Array<HandleStatus> = []
                  const meddling = Effect.repeat(
                    Effect.tap(meddle(handle), () => Effect.sync(() => seen.push(handle.status.current()))),
                    { until: () => conductor.handles().every(({ runId }) => runId !== handle.runId) }
                  )
                  const alsoThere = isShared
                    ? Effect.flatMap(
                        Effect.andThen(
                          Effect.repeat(Effect.sleep(1), { until: () => stored.has(handle.runId) }),
                          Effect.provideService(attach([other], handle.runId), Scope.Scope, scope)
                        ),
                        (there) =>
                          Effect.repeat(meddle(there as Handle), {
                            until: () =>
                              there.status.current() === "cancelled" || there.status.current() === "completed"
                          })
                      )
                    : Effect.void
                  yield* Effect.all([meddling, meddling, alsoThere], { concurrency: 3 })
                  return yield* handle.done
                }),
              { concurrency: "unbounded" }
            )
            for (const [i, result] of meddled.entries()) {
              const { runId, status } = handles[i]!
              assert.include(["completed", "cancelled"], result.status)
              assert.strictEqual(status.current(), result.status)
              assert.strictEqual(told.get(runId), 1, `${runId} has ended ${told.get(runId)} times`)
              assertValid(result.state)
              assert.deepStrictEqual(handles[i]!.interruptions(), [])
            }
            const keys = write.contexts.map(({ idempotencyKey }) => idempotencyKey)
            assert.strictEqual(new Set(keys).size, keys.length)
            assert.deepStrictEqual(conductor.inbox.current(), [])
            yield* Scope.close(scope, Exit.void)
            if (worker !== undefined) yield* Fiber.interrupt(worker)
            for (let i = 0; i < 5; i++) yield* Effect.yieldNow
            assert.strictEqual(alive, before)
          }).pipe(
            Effect.provideService(Metric.FiberRuntimeMetrics, {
              recordFiberStart: () => {
                alive += 1
              },
              recordFiberEnd: () => {
                alive -= 1
              }
            })
          )
        }).pipe(Effect.scoped, Effect.provide(Layer.fresh(layerMemory))),
      300_000
    )
  }
})
