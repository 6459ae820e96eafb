/**
 * Messages through a handle that has not received the open requests of its run, over any store.
 */
import { assert, describe, it } from "@effect/vitest"
import { Agent } from "@fermata/sdk/agent"
import { attach, dispatchPromptStored } from "@fermata/sdk/dispatch"
import { RunStore, type RunStoreError } from "@fermata/sdk/store"
import { type ScriptedModel } from "@fermata/sdk/testing"
import { Tool } from "@fermata/sdk/tool"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { bind, call, expect, probe, rebind, results, safe } from "../../sdk/test/helpers/Fixture.ts"

const runId = "run" as never

const denied = "The user has said something else instead; it follows. This was not done."

/** A held run, and a handle that attached before the hold and receives no changes from the store. */
const heldUnheard = (asks: ReadonlyArray<ScriptedModel.ScriptedCall>, within?: "sub-agent") =>
  Effect.gen(function* () {
    const store = yield* RunStore.RunStore
    const begun = yield* Deferred.make<void>()
    const open = yield* Deferred.make<void>()
    const look = safe("look", {
      handler: () => Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(open)), "ok")
    })
    const pay = probe("pay")
    const worker = Agent.make("worker", { tools: [look.tool, pay.tool, Tool.askUser] })
    const lead = Agent.make("lead", { subAgents: [worker], delegation: "delegate" })
    const { model, runtime } = yield* bind(within === undefined ? worker : lead, [
      ...(within === undefined
        ? []
        : [
            { calls: [{ tool: "delegate", arguments: { agent: "worker", prompt: "do", background: false } }] }
          ]),
      { calls: [call("look", "0")] },
      { calls: asks },
      "done",
      "done"
    ])
    const own = yield* dispatchPromptStored(runtime, { prompt: "go", runId })
    yield* Deferred.await(begun)
    const other = yield* rebind(within === undefined ? worker : lead, model)
    const id = (within === undefined ? runId : "run.t1.1") as never
    const unheard = yield* Effect.provideService(attach([other.runtime], id), RunStore.RunStore, {
      ...store,
      changes: Stream.never
    })
    yield* Deferred.succeed(open, undefined)
    expect(yield* own.wait, "interrupted")
    assert.deepStrictEqual(unheard.interruptions(), [])
    const pending = Effect.map(store.pending({ runId }), (all) => all.length)
    assert.strictEqual(yield* pending, asks.length)
    return { own, pay, pending, unheard }
  })

const twoPayments = [call("pay", "1"), call("pay", "2")]

/** How `send` treats requests that its handle has not received. */
export const notHeardOf = (
  name: string,
  layer: Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError>
): void => {
  const inStore = <A, E>(body: Effect.Effect<A, E, RunStore.RunStore | Scope.Scope>) =>
    Effect.provide(Effect.scoped(body), Layer.fresh(layer))

  describe(`a message through a handle that has not received the open requests, with the store in ${name}`, () => {
    it.effect("supersedes them: they are denied when `send` returns, and no call runs", () =>
      inStore(
        Effect.gen(function* () {
          const { own, pay, pending, unheard } = yield* heldUnheard(twoPayments)
          yield* unheard.send("do that", { whenHeld: "supersede" })
          assert.strictEqual(yield* pending, 0)
          const { state } = expect(yield* unheard.done, "completed")
          assert.deepStrictEqual(pay.ran, [])
          assert.deepStrictEqual(results(state).slice(-2), [`pay denied: ${denied}`, `pay denied: ${denied}`])
          expect(yield* own.done, "completed")
        })
      )
    )

    it.effect("supersedes the requests of a sub-agent through the sub-agent's handle", () =>
      inStore(
        Effect.gen(function* () {
          const { pay, pending, unheard } = yield* heldUnheard(twoPayments, "sub-agent")
          yield* unheard.send("do that", { whenHeld: "supersede" })
          assert.strictEqual(yield* pending, 0)
          yield* unheard.done
          assert.deepStrictEqual(pay.ran, [])
        })
      )
    )

    it.effect("answers the open question", () =>
      inStore(
        Effect.gen(function* () {
          const { pending, unheard } = yield* heldUnheard([
            { tool: "ask_user", arguments: { question: "Which?" } }
          ])
          yield* unheard.send("blue", { whenHeld: "answer" })
          assert.strictEqual(yield* pending, 0)
          expect(yield* unheard.done, "completed")
        })
      )
    )

    it.effect("forks the run, which stays held", () =>
      inStore(
        Effect.gen(function* () {
          const { own, pay, pending, unheard } = yield* heldUnheard(twoPayments)
          const fork = yield* unheard.send("do that", { whenHeld: "fork" })
          assert.notStrictEqual(fork.runId, unheard.runId)
          expect(yield* fork.done, "completed")
          assert.deepStrictEqual([pay.ran, yield* pending, own.status.current()], [[], 2, "held"])
        })
      )
    )
  })
}
