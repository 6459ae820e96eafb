/**
 * Tools that state facts with their requests, in every way to pass a run on.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { GrantRequest } from "../../src/domain/Grant.ts"
import type { RunResult } from "../../src/run/RunResult.ts"
import type { RunStore } from "../../src/store/RunStore.ts"
import type { RunStoreError } from "../../src/store/RunStoreError.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import {
  approvalOf,
  approve,
  bind,
  call,
  deny,
  expect,
  only,
  probe,
  rebind,
  results
} from "../helpers/Fixture.ts"
import type { Mode } from "./Mode.ts"

/** A tool whose fact is the price of its argument. */
const shop = (options: Parameters<typeof probe>[1] = {}) => {
  const prices: Record<string, unknown> = { cello: 100, bow: 20 }
  const read: Array<string> = []
  const buy = probe("buy", {
    facts: ({ id }) => {
      read.push(id)
      const price = prices[id]
      if (price === undefined) throw new Error(`no price of ${id}`)
      return { price } as never
    },
    ...options
  })
  return { ...buy, prices, read, agent: Agent.make("buyer", { tools: [buy.tool] }) }
}

export const factsSuite = (mode: Mode) => {
  describe(`a tool that states facts, ${mode.name}`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
      it.effect(
        title,
        () => Effect.provide(body, Layer.fresh(mode.layer)) as Effect.Effect<void, unknown | RunStoreError>
      )

    const held = (options: Parameters<typeof probe>[1] = {}, ...script: Parameters<typeof bind>[1]) =>
      Effect.gen(function* () {
        const { agent, ...tool } = shop(options)
        const { model, runtime } = yield* bind(agent, [
          { calls: [call("buy", "cello")] },
          ...(script.length === 0 ? ["done"] : script)
        ])
        const result = yield* mode.start(runtime, "go")
        return { ...tool, agent, model, runtime, result, request: only(result, "approval") }
      })

    test(
      "shows them in the request, and runs the approved call while they are the same",
      Effect.gen(function* () {
        const { ran, read, request, result, runtime } = yield* held()
        assert.deepStrictEqual(request.facts, { price: 100 })
        assert.deepStrictEqual(read, ["cello"])
        expect(yield* mode.resume(runtime, result, { decisions: [approve(request)] }), "completed")
        assert.deepStrictEqual(ran, ["cello"])
        assert.deepStrictEqual(read, ["cello", "cello"])
      })
    )

    test(
      "asks again with the new facts if they have changed since, and an approval of the old ones never runs the call",
      Effect.gen(function* () {
        const { prices, ran, request, result, runtime } = yield* held()
        prices["cello"] = 120
        const asked = yield* mode.resume(runtime, result, { decisions: [approve(request)] })
        const second = only(asked, "approval")
        assert.deepStrictEqual(ran, [])
        assert.deepStrictEqual(second.facts, { price: 120 })
        assert.strictEqual(second.reason, 'The facts of buy have changed since. They were {"price":100}.')
        assert.notStrictEqual(second.digest, request.digest)
        const old = { ...approve(second), digest: request.digest }
        const refused = yield* Effect.flip(mode.resume(runtime, asked, { decisions: [old] }))
        assert.strictEqual(refused._tag, "ArgumentsChanged")
        expect(yield* mode.resume(runtime, asked, { decisions: [approve(second)] }), "completed")
        assert.deepStrictEqual(ran, ["cello"])
      })
    )

    test(
      "asks again even if its rule would let the changed call through",
      Effect.gen(function* () {
        let asks = true
        const { prices, ran, request, result, runtime } = yield* held({ needsApproval: () => asks })
        prices["cello"] = 1
        asks = false
        const asked = yield* mode.resume(runtime, result, { decisions: [approve(request)] })
        assert.deepStrictEqual(only(asked, "approval").facts, { price: 1 })
        assert.deepStrictEqual(ran, [])
      })
    )

    test(
      "reads those of edited arguments, which run only if the request showed the same",
      Effect.gen(function* () {
        const { prices, ran, request, result, runtime } = yield* held()
        const edited = approve(request, { arguments: { id: "bow" } })
        const asked = yield* mode.resume(runtime, result, { decisions: [edited] })
        const second = only(asked, "approval")
        assert.deepStrictEqual([second.arguments, second.facts], [{ id: "bow" }, { price: 20 }])
        assert.deepStrictEqual(ran, [])
        expect(yield* mode.resume(runtime, asked, { decisions: [approve(second)] }), "completed")
        assert.deepStrictEqual(ran, ["bow"])

        const other = yield* held()
        other.prices["bow"] = prices["cello"]
        const same = approve(other.request, { arguments: { id: "bow" } })
        expect(yield* mode.resume(other.runtime, other.result, { decisions: [same] }), "completed")
        assert.deepStrictEqual(other.ran, ["bow"])
      })
    )

    test(
      "fails the call without a request if they cannot be read, are not JSON, or take longer than the body may",
      Effect.gen(function* () {
        const asked = yield* Deferred.make<void>()
        const cases: ReadonlyArray<readonly [() => unknown, string]> = [
          [() => Promise.reject(new Error("no network")), "no network"],
          [() => ({ at: new Date(0) }), "they are not JSON"],
          [() => undefined, "they are not JSON"],
          [
            () => Effect.andThen(Deferred.succeed(asked, undefined), Effect.never),
            "it did not answer within 1000 ms"
          ]
        ]
        for (const [facts, why] of cases) {
          const buy = probe("buy", { facts: facts as never, timeout: "1 second" })
          const { runtime } = yield* bind(Agent.make("buyer", { tools: [buy.tool] }), [
            { calls: [call("buy", "cello")] },
            "done"
          ])
          const running = yield* Effect.forkChild(mode.start(runtime, "go"))
          if (why.includes("1000 ms")) {
            yield* Deferred.await(asked)
            yield* TestClock.adjust("2 seconds")
          }
          const done = expect(yield* Fiber.join(running), "completed")
          const said = `The facts of buy cannot be read: ${why}. buy has not run.`
          assert.deepStrictEqual(results(done.state), [`buy failed: ${said}`])
          assert.deepStrictEqual(done.state.requests, [])
          assert.deepStrictEqual(buy.ran, [])
        }
      })
    )

    test(
      "does not run an approved call if they cannot be read again",
      Effect.gen(function* () {
        const { prices, ran, request, result, runtime } = yield* held()
        delete prices["cello"]
        const done = yield* mode.resume(runtime, result, { decisions: [approve(request)] })
        assert.deepStrictEqual(results(expect(done, "completed").state), [
          "buy failed: The facts of buy cannot be read: no price of cello. buy has not run."
        ])
        assert.deepStrictEqual(ran, [])
      })
    )

    test(
      "has grants for the facts that their request showed, or for any",
      Effect.gen(function* () {
        for (const facts of [undefined, "any"] as const) {
          const calls = (...ids: ReadonlyArray<string>) => ({ calls: ids.map((id) => call("buy", id)) })
          const script = [calls("cello"), calls("bow"), "done"]
          const { prices, ran, request, result, runtime } = yield* held({}, ...script)
          prices["bow"] = 100
          const any: GrantRequest = { scope: "run", arguments: {}, ...(facts === undefined ? {} : { facts }) }
          const granted = approve(request, { grant: any })
          const asked = yield* mode.resume(runtime, result, { decisions: [granted] })
          // The cello runs under its approval, and the next cello under the grant; the bow has the same price.
          assert.deepStrictEqual(ran, ["cello", "cello", "bow"])
          expect(asked, "completed")
        }
        const calls = { calls: [call("buy", "bow")] }
        const { ran, request, result, runtime } = yield* held({}, calls, "done")
        const grant: GrantRequest = { scope: "run", arguments: {} }
        const asked = yield* mode.resume(runtime, result, { decisions: [approve(request, { grant })] })
        assert.deepStrictEqual(only(asked, "approval").facts, { price: 20 })
        assert.deepStrictEqual(ran, ["cello"])
        const other = yield* held({}, calls, "done")
        const any: GrantRequest = { scope: "run", arguments: {}, facts: "any" }
        const decisions = [approve(other.request, { grant: any })]
        expect(yield* mode.resume(other.runtime, other.result, { decisions }), "completed")
        assert.deepStrictEqual(other.ran, ["cello", "bow"])
      })
    )

    test(
      "is asked about again after a denial once its facts are other ones, and not before",
      Effect.gen(function* () {
        const again = { calls: [call("buy", "cello")] }
        const { prices, ran, request, result, runtime } = yield* held(
          {},
          { calls: [call("buy", "cello"), call("buy", "bow")] },
          again
        )
        const half = yield* mode.resume(runtime, result, { decisions: [deny(request)] })
        const bow = approvalOf(half, "bow")
        prices["cello"] = 50
        const asked = yield* mode.resume(runtime, half, { decisions: [deny(bow)] })
        assert.deepStrictEqual(only(asked, "approval").facts, { price: 50 })
        assert.deepStrictEqual(ran, [])
      })
    )

    test(
      "is denied without a request if a denial stands for the facts to which they have changed back",
      Effect.gen(function* () {
        const again = { calls: [call("buy", "cello")] }
        const { prices, ran, request, result, runtime } = yield* held({}, again, "done")
        prices["cello"] = 50
        const asked = yield* mode.resume(runtime, result, { decisions: [deny(request)] })
        prices["cello"] = 100
        const done = yield* mode.resume(runtime, asked, { decisions: [approve(only(asked, "approval"))] })
        assert.include(results(expect(done, "completed").state).at(-1), "denied the same call before")
        assert.deepStrictEqual(ran, [])
      })
    )

    test(
      "is denied without a request if its rule lets through what was denied with the same facts",
      Effect.gen(function* () {
        let asks = true
        const again = { calls: [call("buy", "cello")] }
        const rule = { needsApproval: () => asks }
        const { prices, ran, request, result, runtime } = yield* held(rule, again, again, "done")
        asks = false
        prices["cello"] = 100
        const decisions = [deny(request)]
        const done = expect(yield* mode.resume(runtime, result, { decisions }), "completed")
        assert.include(results(done.state)[1], "denied the same call before")
        assert.deepStrictEqual(ran, [])
      })
    )

    test(
      "states them in the requests of sub-agents, each with its own, and in batches",
      Effect.gen(function* () {
        const { ran, tool, prices } = shop()
        const child = Agent.make("child", { tools: [tool] })
        const script = ScriptedModel.make(({ agentPath, messages, runId }) => {
          if (messages.some(({ role }) => role === "tool")) return "done"
          const start = { tool: "child", arguments: { prompt: "do" } }
          if (agentPath.length === 1) return { calls: [start, { ...start, id: "second" }] }
          return { calls: [call("buy", runId.endsWith(".1") ? "cello" : "bow")] }
        })
        const { runtime } = yield* rebind(Agent.make("lead", { subAgents: [child] }), script)
        const result = yield* mode.start(runtime, "go")
        const [cello, bow] = [approvalOf(result, "cello"), approvalOf(result, "bow")]
        assert.deepStrictEqual([cello.facts, bow.facts], [{ price: 100 }, { price: 20 }])
        prices["bow"] = 21
        const decisions = [approve(cello), approve(bow)]
        const asked = yield* mode.resume(runtime, result, { decisions })
        assert.deepStrictEqual(only(asked, "approval").facts, { price: 21 })
        assert.deepStrictEqual(ran, ["cello"])
      })
    )

    test(
      "is asked about when a deploy adds or removes its facts",
      Effect.gen(function* () {
        const plain = probe("buy")
        const { agent, model, prices, ran, request, result } = yield* held()
        const { runtime: without } = yield* rebind(Agent.make("buyer", { tools: [plain.tool] }), model)
        const asked = yield* mode.resume(without, result, { decisions: [approve(request)] })
        const second = only(asked, "approval")
        assert.isUndefined(second.facts)
        const { runtime: back } = yield* rebind(agent, model)
        const third = only(yield* mode.resume(back, asked, { decisions: [approve(second)] }), "approval")
        assert.deepStrictEqual([third.facts, prices["cello"]], [{ price: 100 }, 100])
        assert.strictEqual(third.reason, "The facts of buy have changed since. There were none.")
        assert.deepStrictEqual([ran, plain.ran], [[], []])
      })
    )

    test(
      "runs a call that a policy allows without reading them",
      Effect.gen(function* () {
        const { ran, read, tool } = shop()
        const agent = Agent.make("buyer", { tools: [tool], policy: { mode: "all" } })
        const { runtime } = yield* bind(agent, [{ calls: [call("buy", "cello")] }, "done"])
        expect(yield* mode.start(runtime, "go"), "completed")
        assert.deepStrictEqual([ran, read], [["cello"], []])
      })
    )

    test(
      "gives up on a call whose facts are others each time",
      Effect.gen(function* () {
        let price = 0
        const { ran, request, result, runtime } = yield* held({ facts: () => ({ price: (price += 1) }) })
        let last: RunResult<unknown> = result
        let decisions: ReadonlyArray<DecisionInput> = [approve(request)]
        for (let times = 0; times < 12 && last.status === "interrupted"; times += 1) {
          last = yield* mode.resume(runtime, last, { decisions })
          if (last.status === "interrupted") decisions = [approve(only(last, "approval"))]
        }
        assert.include(results(expect(last, "completed").state)[0], "was asked about 10 times")
        assert.deepStrictEqual(ran, [])
      })
    )
  })
}
