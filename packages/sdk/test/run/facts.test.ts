import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Agent from "../../src/agent/Agent.ts"
import { evolveAll } from "../../src/domain/evolve.ts"
import type { GrantRequest } from "../../src/domain/Grant.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import { interruptions } from "../../src/domain/RunState.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import {
  approve,
  bind,
  call,
  events,
  expect,
  only,
  probe,
  rebind,
  results,
  throughJson,
  watch
} from "../helpers/Fixture.ts"

const retry = ({ requestId }: Interruption) => ({ _tag: "retry", requestId, by: "ann" }) as const

/**
 * The state left by a process that was killed in the body of an approved call whose tool stated a price of 100, and its successor. With a
 * grant, the approved call has run, and the killed one is the next, which the grant covers.
 */
const killed = Effect.fnUntraced(function* (
  options: Partial<Parameters<typeof probe>[1]> = {},
  grant?: GrantRequest
) {
  const store: { price: number | undefined } = { price: 100 }
  const facts = () => {
    if (store.price === undefined) throw new Error("no price")
    return { price: store.price }
  }
  const started = yield* Deferred.make<void>()
  const hangs = Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
  const handler = () => (grant === undefined || dying.ran.length > 1 ? hangs : Effect.succeed("bought"))
  const agentOf = (buy: ReturnType<typeof probe>) => Agent.make("buyer", { tools: [buy.tool] })
  const dying = probe("buy", { ...options, facts, handler: handler as never })
  const cello = { calls: [call("buy", "cello")] }
  const script = grant === undefined ? [cello, "done"] : [cello, cello, "done"]
  const { model, runtime } = yield* bind(agentOf(dying), script)
  const held = yield* runPrompt(runtime, { prompt: "go" })
  const decisions = [approve(only(held, "approval"), grant === undefined ? {} : { grant })]
  const { onUpdate, updates } = watch()
  const fiber = yield* Effect.forkChild(runPrompt(runtime, { state: held.state, decisions }, { onUpdate }))
  yield* Deferred.await(started)
  const state = throughJson(evolveAll(held.state, events(updates))!)
  yield* Fiber.interrupt(fiber)
  const buy = probe("buy", { ...options, facts })
  return { state, store, ran: buy.ran, ...(yield* rebind(agentOf(buy), model)) }
})

describe("a tool that states facts and has a retry schedule", () => {
  it.effect("is not tried again once its facts are others than those that were approved", () =>
    Effect.gen(function* () {
      for (const change of [0, 20]) {
        let price = 100
        const buy = probe("buy", {
          facts: () => ({ price }),
          idempotent: true,
          retry: Schedule.recurs(1),
          handler: () => {
            price += change
            throw new Error("busy")
          }
        })
        const { runtime } = yield* bind(Agent.make("buyer", { tools: [buy.tool] }), [
          { calls: [call("buy", "cello")] },
          "done"
        ])
        const held = yield* runPrompt(runtime, { prompt: "go" })
        const decisions = [approve(only(held, "approval"))]
        const done = expect(yield* runPrompt(runtime, { state: held.state, decisions }), "completed")
        assert.deepStrictEqual(results(done.state), ["buy failed: buy failed: busy"])
        assert.lengthOf(buy.ran, change === 0 ? 2 : 1)
      }
    })
  )
})

describe("a tool that states facts", () => {
  it.effect("cannot change with them what its body receives", () =>
    Effect.gen(function* () {
      const buy = probe("buy", {
        facts: (args) => {
          ;(args as { id: string }).id = "changed"
          return 1
        }
      })
      const { runtime } = yield* bind(Agent.make("buyer", { tools: [buy.tool] }), [
        { calls: [call("buy", "cello")] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const decisions = [approve(only(held, "approval"))]
      expect(yield* runPrompt(runtime, { state: held.state, decisions }), "completed")
      assert.deepStrictEqual(buy.ran, ["cello"])
    })
  )
})

describe("a call of a tool that states facts, whose body had started when its process died", () => {
  it.effect("runs again by a retry while the facts are the approved ones", () =>
    Effect.gen(function* () {
      const { ran, runtime, state } = yield* killed()
      const held = yield* runPrompt(runtime, { state })
      const decisions = [retry(only(held, "inDoubt"))]
      expect(yield* runPrompt(runtime, { state: throughJson(held.state), decisions }), "completed")
      assert.deepStrictEqual(ran, ["cello"])
    })
  )

  it.effect("is in doubt again, with the new facts, if they have changed before its retry", () =>
    Effect.gen(function* () {
      const { ran, runtime, state, store } = yield* killed()
      const held = yield* runPrompt(runtime, { state })
      store.price = 120
      const again = yield* runPrompt(runtime, {
        state: throughJson(held.state),
        decisions: [retry(only(held, "inDoubt"))]
      })
      const doubt = only(again, "inDoubt")
      assert.deepStrictEqual(doubt.facts, { price: 120 })
      assert.strictEqual(doubt.reason, 'The facts of buy have changed since. They were {"price":100}.')
      assert.deepStrictEqual(ran, [])
      expect(
        yield* runPrompt(runtime, { state: throughJson(again.state), decisions: [retry(doubt)] }),
        "completed"
      )
      assert.deepStrictEqual(ran, ["cello"])
    })
  )

  it.effect("is in doubt instead of repeated if it is idempotent and its facts have changed", () =>
    Effect.gen(function* () {
      const { ran, runtime, state, store } = yield* killed({ idempotent: true })
      store.price = 120
      const doubt = only(yield* runPrompt(runtime, { state }), "inDoubt")
      assert.deepStrictEqual([doubt.facts, ran], [{ price: 120 }, []])
      store.price = 100
      expect(yield* runPrompt(runtime, { state }), "completed")
      assert.deepStrictEqual(ran, ["cello"])
    })
  )

  it.effect("is in doubt if they cannot be read before it would be repeated or tried again", () =>
    Effect.gen(function* () {
      const repeated = yield* killed({ idempotent: true })
      repeated.store.price = undefined
      const held = yield* runPrompt(repeated.runtime, { state: repeated.state })
      const retried = yield* killed()
      const before = yield* runPrompt(retried.runtime, { state: retried.state })
      retried.store.price = undefined
      const decisions = [retry(only(before, "inDoubt"))]
      const after = yield* runPrompt(retried.runtime, { state: throughJson(before.state), decisions })
      for (const result of [held, after])
        assert.strictEqual(only(result, "inDoubt").reason, "The facts of buy cannot be read: no price.")
      assert.deepStrictEqual([repeated.ran, retried.ran], [[], []])
    })
  )

  it.effect("is in doubt with the new facts if it ran under a grant for other ones", () =>
    Effect.gen(function* () {
      const { ran, runtime, state, store } = yield* killed(
        { idempotent: true },
        { scope: "run", arguments: {} }
      )
      store.price = 120
      const doubt = only(yield* runPrompt(runtime, { state }), "inDoubt")
      assert.deepStrictEqual([doubt.facts, ran], [{ price: 120 }, []])
      assert.match(doubt.reason ?? "", /^The grant .* is for other facts of buy. They were {"price":100}.$/)
    })
  )
})

describe("a call that was let through, whose body had started when its process died", () => {
  it.effect("is in doubt if an equal call was denied since, and is not said not to have run", () =>
    Effect.gen(function* () {
      const started = yield* Deferred.make<void>()
      const asks = [true, false]
      const options = { idempotent: true, needsApproval: () => asks.shift() ?? false }
      const hangs = Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
      const [dying, write] = [probe("write", { ...options, handler: () => hangs }), probe("write", options)]
      const leadOf = ({ tool }: ReturnType<typeof probe>) =>
        Agent.make("lead", { subAgents: [Agent.make("child", { tools: [tool] })] })
      const start = { tool: "child", arguments: { prompt: "go" } }
      const model = ScriptedModel.make(({ agentPath, messages }) => {
        if (messages.some(({ role }) => role === "tool")) return "done"
        const calls = agentPath.length === 1 ? [start, { ...start, id: "second" }] : [call("write", "1")]
        return { calls }
      })
      const { runtime } = yield* rebind(leadOf(dying as never), model)
      const { onUpdate, updates } = watch()
      const fiber = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }, { onUpdate }))
      yield* Deferred.await(started)
      const state = throughJson(evolveAll(undefined, events(updates))!)
      yield* Fiber.interrupt(fiber)
      const { runtime: next } = yield* rebind(leadOf(write), model)
      const [asked] = interruptions(state)
      const decisions = [{ _tag: "deny", requestId: asked!.requestId, by: "ann" } as const]
      const held = yield* runPrompt(next, { state, decisions })
      assert.strictEqual(only(held, "inDoubt").reason, "write was denied with the same arguments since.")
      assert.deepStrictEqual(write.ran, [])
    })
  )
})
