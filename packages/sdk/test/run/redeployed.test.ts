/**
 * Calls whose body may have run when their process died, resumed by a program that has changed their tool.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Agent from "../../src/agent/Agent.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import { evolveAll } from "../../src/domain/evolve.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import type { DataSchema } from "../../src/tool/DataSchema.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { approve, bind, events, expect, only, rebind, throughJson, watch } from "../helpers/Fixture.ts"

const Euros = Schema.Struct({ euros: Schema.Finite })

type Body = (args: unknown) => string | Effect.Effect<string>

interface Options extends Partial<Omit<Tool.ToolOptions<any, ReturnType<Body>>, "parameters" | "handler">> {
  readonly parameters?: DataSchema<any>
}

const agentOf = (options: Options, handler: Body) =>
  Agent.make("clerk", { tools: [Tool.make("refund", { parameters: Euros, ...options, handler })] })

/** A refund of 500 that was approved, as 50 if `edited`, and whose process died in its body. `goOn` is a program with a changed tool. */
const killed = Effect.fnUntraced(function* (options: Options, edited?: Schema.Json) {
  const started = yield* Deferred.make<void>()
  const { model, runtime } = yield* bind(
    agentOf(options, () => Effect.andThen(Deferred.succeed(started, undefined), Effect.never)),
    [{ calls: [{ tool: "refund", arguments: { euros: 500 } }] }, "done"]
  )
  const held = yield* runPrompt(runtime, { prompt: "go" })
  const decisions = [approve(only(held, "approval"), edited === undefined ? {} : { arguments: edited })]
  const { onUpdate, updates } = watch()
  const fiber = yield* Effect.forkChild(runPrompt(runtime, { state: held.state, decisions }, { onUpdate }))
  yield* Deferred.await(started)
  const state = throughJson(evolveAll(held.state, events(updates))!)
  yield* Fiber.interrupt(fiber)
  const goOn = Effect.fnUntraced(function* (changed: Options) {
    const ran: Array<unknown> = []
    const agent = agentOf({ ...options, ...changed }, (args) => {
      ran.push(args)
      return "refunded"
    })
    return { ran, runtime: (yield* rebind(agent, model)).runtime }
  })
  return { goOn, state }
})

const retry = ({ requestId }: Interruption): DecisionInput => ({ _tag: "retry", requestId, by: "ann" })

describe("a call in doubt whose arguments an approver had edited", () => {
  const changes: Readonly<Record<string, Options>> = {
    "another safety": { safety: "privileged" },
    "another identity": { identity: "bank-2" },
    "an argument more": {
      parameters: Schema.Struct({ euros: Schema.Finite, note: Schema.optionalKey(Schema.String) })
    }
  }
  for (const [what, change] of Object.entries(changes)) {
    it.effect(`keeps the edited arguments when it is retried after a deploy: ${what}`, () =>
      Effect.gen(function* () {
        const { goOn, state } = yield* killed({}, { euros: 50 })
        const { ran, runtime } = yield* goOn(change)
        const first = yield* runPrompt(runtime, { state })
        const doubt = only(first, "inDoubt")
        const second = yield* runPrompt(runtime, {
          state: throughJson(first.state),
          decisions: [retry(doubt)]
        })
        const again = only(second, "inDoubt")
        assert.deepStrictEqual([doubt.arguments, again.arguments], [{ euros: 50 }, { euros: 50 }])
        const decisions = [retry(again)]
        expect(yield* runPrompt(runtime, { state: throughJson(second.state), decisions }), "completed")
        assert.deepStrictEqual(ran, [{ euros: 50 }])
      })
    )
  }

  it.effect("is in doubt again when a retry's request showed other arguments than the edited ones", () =>
    Effect.gen(function* () {
      const { goOn, state } = yield* killed({}, { euros: 50 })
      const { ran, runtime } = yield* goOn({})
      const held = yield* runPrompt(runtime, { state })
      // An earlier version asked with the arguments of the model.
      const damaged = structuredClone(throughJson(held.state)) as any
      damaged.calls[0].arguments = { euros: 500 }
      damaged.requests[1].request.arguments = { euros: 500 }
      const decisions = [retry(only(held, "inDoubt"))]
      const again = only(yield* runPrompt(runtime, { state: damaged, decisions }), "inDoubt")
      assert.deepStrictEqual(again.arguments, { euros: 50 })
      assert.deepStrictEqual(ran, [])
    })
  )
})
