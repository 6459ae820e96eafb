import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { readResult } from "../../src/durable/readResult.ts"
import { streamPromptStored } from "../../src/durable/streamPromptStored.ts"
import { streamPrompt } from "../../src/run/streamPrompt.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import { approvalOf, approve, bind, call, expect, probe, safe } from "../helpers/Fixture.ts"

const runId = "run" as RunId

describe("a prompt as a stream", () => {
  it.effect("emits the updates of the run, then its result", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("guide"), [{ text: "One two", chunkSize: 4 }])
      const heard: Array<string> = []
      const options = { onUpdate: ({ _tag }: { readonly _tag: string }) => void heard.push(_tag) }
      const updates = yield* Stream.runCollect(streamPrompt(runtime, { prompt: "Count." }, options))
      const text = updates.map((update) =>
        update._tag === "delta" && update.part._tag === "text-delta" ? update.part.delta : ""
      )
      assert.strictEqual(text.join(""), "One two")
      const last = updates.at(-1)
      if (last?._tag !== "result") return assert.fail(last?._tag)
      assert.strictEqual(expect(last.result, "completed").text, "One two")
      assert.deepStrictEqual(
        updates.slice(0, -1).map(({ _tag }) => _tag),
        heard
      )
    })
  )

  it.effect("ends with the result of a held run, and continues it from its state", () =>
    Effect.gen(function* () {
      const pay = probe("pay")
      const { runtime } = yield* bind(Agent.make("clerk", { tools: [pay.tool] }), [
        { calls: [call("pay", "a")] },
        "done"
      ])
      const last = Effect.fnUntraced(function* (input: Parameters<typeof streamPrompt>[1]) {
        const update = Option.getOrThrow(yield* Stream.runLast(streamPrompt(runtime, input)))
        return update._tag === "result" ? update.result : assert.fail(update._tag)
      })
      const held = yield* last({ prompt: "go" })
      const decisions = [approve(approvalOf(held, "a"))]
      assert.strictEqual(expect(yield* last({ state: held.state, decisions }), "completed").text, "done")
      assert.deepStrictEqual(pay.ran, ["a"])
    })
  )

  it.effect("fails with the errors of runPrompt", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("guide"), [])
      const error = yield* Effect.flip(Stream.runDrain(streamPrompt(runtime, { prompt: "" })))
      assert.strictEqual(error._tag, "EmptyPrompt")
      const misspelt = { onUpdat: () => {} } as never
      const refused = yield* Effect.flip(Stream.runDrain(streamPrompt(runtime, { prompt: "go" }, misspelt)))
      assert.strictEqual(refused._tag, "OptionsInvalid")
    })
  )

  it.live("cancels the run of a reader that ends it early", () =>
    Effect.gen(function* () {
      const isAt = yield* Deferred.make<void>()
      const wait = safe("wait", {
        handler: () => Effect.andThen(Deferred.succeed(isAt, undefined), Effect.never) as never
      })
      const { runtime } = yield* bind(Agent.make("guide", { tools: [wait.tool] }), [
        { calls: [call("wait", "a")] }
      ])
      const updates = streamPromptStored(runtime, { prompt: "go", runId })
      yield* Stream.runDrain(Stream.interruptWhen(updates, Deferred.await(isAt)))
      const ended = yield* readResult(runId, { runtimes: [runtime] })
      assert.strictEqual(ended.status, "cancelled")
    }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  )

  it.effect("emits the stored run's updates, and its result, with a store", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("guide"), ["hello"])
      const updates = yield* Stream.runCollect(streamPromptStored(runtime, { prompt: "go", runId }))
      const last = updates.at(-1)
      if (last?._tag !== "result") return assert.fail(last?._tag)
      assert.deepStrictEqual<unknown>(last.result, yield* readResult(runId, { runtimes: [runtime] }))
    }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  )
})
