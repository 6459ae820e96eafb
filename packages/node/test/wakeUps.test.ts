import { assert, describe, it } from "@effect/vitest"
import { agent, createFermata, type Recovered, RunStore, SqliteStore, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import { repeats } from "../../../scripts/internal/effort.ts"
import { temporaryFile } from "./temporaryStore.ts"

const runs = 50 * repeats(2)
const calls = 20

describe("a decision that arrives before, while or after its run parks", () => {
  it.live(
    `resumes the run: ${runs} runs of ${calls} parallel calls complete`,
    () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        const ran = new Map<string, number>()
        const act = tool("act", {
          handler: (_, { callId }) => {
            ran.set(callId, (ran.get(callId) ?? 0) + 1)
          }
        })
        const model = ScriptedModel.make(({ turn }) =>
          turn === 1 ? { calls: Array.from({ length: calls }, () => ({ tool: "act" })) } : "done"
        ).client
        // The decider has its own connection, as another process would.
        const store = SqliteStore.layer({ filename, synchronous: "normal" })
        const fermata = yield* Effect.acquireRelease(
          Effect.promise(() => createFermata({ agents: [agent("ops", { tools: [act] })], model, store })),
          (fermata) => Effect.promise(() => fermata.close())
        )
        let completed = 0
        const over = Promise.withResolvers<void>()
        const onTakenUp = ({ status }: Recovered) => {
          if (status === "completed" && ++completed === runs) over.resolve()
        }
        const working = fermata.work({ concurrency: 20, onTakenUp, pollInterval: "10 minutes" })
        const inbox = yield* Effect.map(
          Layer.build(Layer.fresh(SqliteStore.layer({ filename, synchronous: "normal" }))),
          (services) => Effect.provideContext(RunStore.RunStore, services)
        )
        const decider = yield* inbox
        for (let start = 0; start < runs; start += 50) {
          const held = yield* Effect.promise(() =>
            Promise.all(Array.from({ length: 50 }, () => fermata.runPrompt("ops", "go")))
          )
          const requests = held.flatMap((run) => (run.status === "interrupted" ? run.interruptions : []))
          assert.strictEqual(requests.length, 50 * calls)
          const shuffled = yield* Random.shuffle(requests)
          yield* Effect.forEach(
            shuffled,
            ({ requestId }) => decider.decide({ _tag: "approve", requestId, by: "ann" }),
            { concurrency: 8, discard: true }
          )
        }
        yield* Effect.promise(() => over.promise)
        assert.strictEqual(ran.size, runs * calls)
        assert.isTrue([...ran.values()].every((times) => times === 1))
        yield* Effect.promise(() => fermata.close())
        yield* Effect.promise(() => working)
      }).pipe(Effect.scoped),
    300_000
  )
})
