/**
 * Approved calls, and calls whose body may have run when their process died, in a program that has changed their tool.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import { z } from "zod"
import * as Agent from "../../src/agent/Agent.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import { evolveAll } from "../../src/domain/evolve.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import type { DataSchema } from "../../src/tool/DataSchema.ts"
import * as Tool from "../../src/tool/Tool.ts"
import {
  approve,
  bind,
  deny,
  events,
  edit,
  expect,
  only,
  rebind,
  results,
  throughJson,
  watch
} from "../helpers/Fixture.ts"

const Euros = Schema.Struct({ euros: Schema.Finite })

type Body = (args: unknown) => string | Effect.Effect<string>

interface Options extends Partial<Omit<Tool.ToolOptions<any, ReturnType<Body>>, "parameters" | "handler">> {
  readonly parameters?: DataSchema<any>
}

const agentOf = (options: Options, handler: Body) =>
  Agent.make("clerk", { tools: [Tool.make("refund", { parameters: Euros, ...options, handler })] })

/** A refund of 500 that was asked about, and programs with the same model that have changed its tool. */
const asked = Effect.fnUntraced(function* (options: Options, handler: Body) {
  const { model, runtime } = yield* bind(agentOf(options, handler), [
    { calls: [{ tool: "refund", arguments: { euros: 500 } }] },
    "done",
    "done"
  ])
  const held = yield* runPrompt(runtime, { prompt: "go" })
  const goOn = Effect.fnUntraced(function* (
    changed: Options,
    approvalCallback?: (request: Interruption) => DecisionInput
  ) {
    const ran: Array<unknown> = []
    const agent = agentOf({ ...options, ...changed }, (args) => {
      ran.push(args)
      return "refunded"
    })
    const { runtime } = yield* rebind(
      agent,
      model,
      approvalCallback === undefined ? {} : { approvalCallback }
    )
    return { ran, runtime }
  })
  return { goOn, held, model, request: only(held, "approval"), runtime }
})

/** The refund, and a program that has changed its tool before the decision. */
const approvedThen = Effect.fnUntraced(function* (changed: Options, options: Options = {}) {
  const { goOn, held, request } = yield* asked(options, () => assert.fail("The body began."))
  return { ...(yield* goOn(changed)), request, state: throughJson(held.state) }
})

/** The refund, approved, as `edited` if that is set, whose process died in its body. */
const killed = Effect.fnUntraced(function* (options: Options, edited?: Schema.Json) {
  const started = yield* Deferred.make<void>()
  const body = () => Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
  const { goOn, held, model, request, runtime } = yield* asked(options, body)
  const decisions = [approve(request, edited === undefined ? {} : { arguments: edited })]
  const { onUpdate, updates } = watch()
  const fiber = yield* Effect.forkChild(runPrompt(runtime, { state: held.state, decisions }, { onUpdate }))
  yield* Deferred.await(started)
  const state = throughJson(evolveAll(held.state, events(updates))!)
  yield* Fiber.interrupt(fiber)
  return { goOn, model, state }
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

const below = (limit: number) => Schema.Struct({ euros: Schema.Finite.check(Schema.isLessThan(limit)) })

describe("a call that may have run, whose arguments its tool no longer takes", () => {
  for (const [what, edited] of [
    ["edited", { euros: 50 }],
    ["proposed", undefined]
  ] as const) {
    it.effect(
      `is in doubt with its ${what} arguments, even if it is idempotent, and never runs with others`,
      () =>
        Effect.gen(function* () {
          const { goOn, state } = yield* killed({ idempotent: true }, edited)
          const { ran, runtime } = yield* goOn({ parameters: below(10) })
          let held = yield* runPrompt(runtime, { state })
          for (let times = 0; times < 2; times += 1) {
            const request = only(held, "inDoubt")
            assert.deepStrictEqual(request.arguments, edited ?? { euros: 500 })
            assert.match(
              request.reason!,
              /The arguments that refund takes have changed since. The (edited )?arguments do not fit: .*less than 10/
            )
            held = yield* runPrompt(runtime, { state: throughJson(held.state), decisions: [retry(request)] })
          }
          const { requestId } = only(held, "inDoubt")
          const decisions = [{ _tag: "supply", requestId, result: "on the statement", by: "ann" } as const]
          const done = expect(yield* runPrompt(runtime, { state: held.state, decisions }), "completed")
          const said = edited === undefined ? "" : edit({ euros: 500 }, edited)
          assert.deepStrictEqual(results(done.state), [`refund supplied: ${said}on the statement`])
          assert.deepStrictEqual(ran, [])
        })
    )
  }

  it.effect("fails when it was retried ten times", () =>
    Effect.gen(function* () {
      const { goOn, state } = yield* killed({ idempotent: true })
      const { ran, runtime } = yield* goOn({ parameters: below(10) }, (request) => retry(request))
      const done = expect(yield* runPrompt(runtime, { state }), "completed")
      assert.include(results(done.state).join(), "was asked about 10 times")
      assert.include(results(done.state).join(), "it is not known whether it took effect")
      assert.deepStrictEqual(ran, [])
    })
  )

  it.effect("is in doubt when its schema makes something else of them, and is retried as asked", () =>
    Effect.gen(function* () {
      const on = (days: number) =>
        z.object({
          euros: z.number(),
          on: z
            .string()
            .default("2026-01-01")
            .transform((day) => new Date(Date.parse(day) + days * 86_400_000))
        })
      const { goOn, state } = yield* killed({ idempotent: true, parameters: on(0) })
      const { ran, runtime } = yield* goOn({ parameters: on(1) })
      const held = yield* runPrompt(runtime, { state })
      const request = only(held, "inDoubt")
      assert.include(request.reason, "makes something else of its arguments")
      const decisions = [retry(request)]
      expect(yield* runPrompt(runtime, { state: throughJson(held.state), decisions }), "completed")
      assert.deepStrictEqual(ran, [{ euros: 500, on: new Date("2026-01-02") }])
    })
  )
})

describe("an approved call whose arguments its tool no longer takes", () => {
  it.effect("needs approval again, and runs only with edited arguments", () =>
    Effect.gen(function* () {
      const { ran, request, runtime, state } = yield* approvedThen({ parameters: below(10) })
      const held = yield* runPrompt(runtime, { state, decisions: [approve(request)] })
      const again = only(held, "approval")
      assert.include(again.reason, "The arguments do not fit")
      assert.deepStrictEqual(again.arguments, { euros: 500 })
      const repeated = yield* runPrompt(runtime, {
        state: throughJson(held.state),
        decisions: [approve(again)]
      })
      const third = only(repeated, "approval")
      assert.deepStrictEqual(ran, [])
      const denied = yield* runPrompt(runtime, {
        state: throughJson(repeated.state),
        decisions: [deny(third, { message: "no" })]
      })
      assert.deepStrictEqual(results(expect(denied, "completed").state), ["refund denied: no"])
      const decisions = [approve(third, { arguments: { euros: 5 } })]
      expect(yield* runPrompt(runtime, { state: throughJson(repeated.state), decisions }), "completed")
      assert.deepStrictEqual(ran, [{ euros: 5 }])
    })
  )

  it.effect("needs approval again with a default that the new schema adds", () =>
    Effect.gen(function* () {
      for (const parameters of [
        z.object({ euros: z.number(), currency: z.string().default("EUR") }),
        Schema.Struct({
          euros: Schema.Finite,
          currency: Schema.String.pipe(Schema.withDecodingDefaultKey(Effect.succeed("EUR")))
        })
      ]) {
        const { ran, request, runtime, state } = yield* approvedThen({ parameters })
        const held = yield* runPrompt(runtime, { state, decisions: [approve(request)] })
        const again = only(held, "approval")
        assert.deepStrictEqual(again.arguments, { euros: 500, currency: "EUR" })
        const decisions = [approve(again)]
        expect(yield* runPrompt(runtime, { state: throughJson(held.state), decisions }), "completed")
        assert.deepStrictEqual(ran, [{ euros: 500, currency: "EUR" }])
      }
    })
  )
})

describe("a started call whose tool a deploy removed", () => {
  for (const [what, options] of [
    ["side-effecting", {}],
    ["idempotent", { idempotent: true }]
  ] as const) {
    it.effect(`is in doubt if it is ${what}, and is settled by a decision`, () =>
      Effect.gen(function* () {
        const { goOn, model, state } = yield* killed(options)
        const { runtime } = yield* rebind(Agent.make("clerk"), model)
        const held = yield* runPrompt(runtime, { state })
        const request = only(held, "inDoubt")
        assert.strictEqual(request.reason, "The agent has no tool refund any more.")
        const decisions = [{ _tag: "fail", requestId: request.requestId, by: "ann" } as const]
        expect(yield* runPrompt(runtime, { state: held.state, decisions }), "completed")
        // A retry waits for the tool.
        const again = { state: throughJson(held.state), decisions: [retry(request)] }
        const error = yield* Effect.flip(runPrompt(runtime, again))
        assert.deepInclude({ ...error }, { _tag: "ToolUnavailable", reason: "missing" })
        const { ran, runtime: restored } = yield* goOn({})
        expect(yield* runPrompt(restored, again), "completed")
        assert.deepStrictEqual(ran, [{ euros: 500 }])
      })
    )
  }

  it.effect("waits for its tool if it is read-only", () =>
    Effect.gen(function* () {
      const { goOn, model, state } = yield* killed({ safety: "readOnly", needsApproval: true })
      const { runtime } = yield* rebind(Agent.make("clerk"), model)
      const error = yield* Effect.flip(runPrompt(runtime, { state }))
      assert.deepInclude({ ...error }, { _tag: "ToolUnavailable", reason: "missing" })
      const { ran, runtime: restored } = yield* goOn({})
      expect(yield* runPrompt(restored, { state }), "completed")
      assert.deepStrictEqual(ran, [{ euros: 500 }])
    })
  )
})

describe("reconcile of a tool that a deploy changed", () => {
  const asking = (parameters?: Options["parameters"]) => {
    const asked: Array<unknown> = []
    const options: Options = {
      ...(parameters === undefined ? {} : { parameters }),
      reconcile: (_key, args) => {
        asked.push(args)
        return { _tag: "happened", result: "refunded before" }
      }
    }
    return { asked, options }
  }
  const known: Readonly<Record<string, readonly [Options, unknown]>> = {
    "another safety": [{ safety: "privileged" }, { euros: 500 }],
    "an optional argument more": [
      { parameters: z.object({ euros: z.number(), note: z.string().optional() }) },
      { euros: 500 }
    ],
    "an argument with a default more": [
      { parameters: z.object({ euros: z.number(), currency: z.string().default("EUR") }) },
      { euros: 500, currency: "EUR" }
    ]
  }
  for (const [what, [change, args]] of Object.entries(known)) {
    it.effect(`determines the outcome of a call that was started before: ${what}`, () =>
      Effect.gen(function* () {
        const { goOn, state } = yield* killed({})
        const { asked, options } = asking()
        const { runtime } = yield* goOn({ ...options, ...change })
        const done = expect(yield* runPrompt(runtime, { state }), "completed")
        assert.deepStrictEqual(results(done.state), ["refund completed: refunded before"])
        assert.deepStrictEqual(asked, [args])
      })
    )
  }

  it.effect("receives the edited arguments", () =>
    Effect.gen(function* () {
      const { goOn, state } = yield* killed({}, { euros: 50 })
      const { asked, options } = asking(z.object({ euros: z.number(), note: z.string().optional() }))
      const { runtime } = yield* goOn(options)
      expect(yield* runPrompt(runtime, { state }), "completed")
      assert.deepStrictEqual(asked, [{ euros: 50 }])
    })
  )

  const unknown: Readonly<Record<string, readonly [Options, string]>> = {
    "it has another identity": [{ identity: "bank-2" }, "refund is another tool now"],
    "its schema does not take the arguments": [{ parameters: below(10) }, "have changed since"],
    "its schema makes others of the arguments": [
      {
        parameters: z.object({
          euros: z
            .number()
            .max(1000)
            .transform((euros) => euros * 100)
        })
      },
      "have changed since"
    ]
  }
  for (const [what, [change, reason]] of Object.entries(unknown)) {
    it.effect(`is not called, and the call is in doubt, if ${what}`, () =>
      Effect.gen(function* () {
        const { goOn, state } = yield* killed({})
        const { asked, options } = asking()
        const { runtime } = yield* goOn({ ...options, ...change })
        const request = only(yield* runPrompt(runtime, { state }), "inDoubt")
        assert.include(request.reason, reason)
        assert.deepStrictEqual(asked, [])
      })
    )
  }
})

describe("a default that a function of the schema makes", () => {
  it.effect("leaves an approved call as it was shown, in a process that makes another one", () =>
    Effect.gen(function* () {
      const parameters = () =>
        z.object({ euros: z.number(), key: z.string().default(() => crypto.randomUUID()) })
      const { ran, request, runtime, state } = yield* approvedThen(
        { parameters: parameters() },
        { parameters: parameters() }
      )
      expect(yield* runPrompt(runtime, { state, decisions: [approve(request)] }), "completed")
      assert.deepStrictEqual(ran, [request.arguments])
    })
  )
})

describe("a schema that a deploy changed in a way that its fingerprint does not show", () => {
  const euros = z.number()
  const text = z.string().default(" a ")
  const narrowed: Readonly<Record<string, readonly [Options, Options, unknown]>> = {
    "a refinement of Zod": [
      { parameters: z.object({ euros }) },
      { parameters: z.object({ euros: euros.refine((amount) => amount < 10) }) },
      { euros: 500 }
    ],
    "a transformation of Zod": [
      { parameters: z.object({ euros, text }) },
      { parameters: z.object({ euros, text: text.transform((text) => text.trim()) }) },
      { euros: 500, text: "a" }
    ],
    "a filter of Effect": [
      {},
      {
        parameters: Schema.Struct({ euros: Schema.Finite.check(Schema.makeFilter((amount) => amount < 10)) })
      },
      { euros: 500 }
    ]
  }
  for (const [what, [before, after, shown]] of Object.entries(narrowed)) {
    it.effect(`opens the request of an approved call again: ${what}`, () =>
      Effect.gen(function* () {
        const { ran, request, runtime, state } = yield* approvedThen(after, before)
        const held = yield* runPrompt(runtime, { state, decisions: [approve(request)] })
        const again = only(held, "approval")
        assert.deepStrictEqual(again.arguments, shown)
        assert.match(again.reason!, /^The (arguments do not fit|schema of refund makes something else)/)
        assert.deepStrictEqual(ran, [])
      })
    )

    it.effect(`leaves a retried call in doubt: ${what}`, () =>
      Effect.gen(function* () {
        const { goOn, state } = yield* killed(before)
        const { ran, runtime } = yield* goOn(after)
        const held = yield* runPrompt(runtime, { state })
        const decisions = [retry(only(held, "inDoubt"))]
        const again = only(
          yield* runPrompt(runtime, { state: throughJson(held.state), decisions }),
          "inDoubt"
        )
        assert.match(again.reason!, /^The (arguments do not fit|schema of refund makes something else)/)
        assert.deepStrictEqual(ran, [])
      })
    )
  }

  it.effect("passes a default that depends on the time as it was shown, after one approval", () =>
    Effect.gen(function* () {
      let now = 1
      const at = z.number().default(() => now)
      const ran: Array<unknown> = []
      const { held, request, runtime } = yield* asked({ parameters: z.object({ euros, at }) }, (args) => {
        ran.push(args)
        return "refunded"
      })
      now = 2
      const decisions = [approve(request)]
      expect(yield* runPrompt(runtime, { state: throughJson(held.state), decisions }), "completed")
      assert.deepStrictEqual(ran, [{ euros: 500, at: 1 }])
    })
  )

  it.effect(
    "passes a transformed value that depends on the time as it was shown, after at most one approval more",
    () =>
      Effect.gen(function* () {
        let at = 0
        const parameters = z.object({ euros }).transform(({ euros }) => ({ euros, at }))
        const { ran, request, runtime, state } = yield* approvedThen({}, { parameters })
        at = 1
        const held = yield* runPrompt(runtime, { state, decisions: [approve(request)] })
        const again = only(held, "approval")
        assert.deepStrictEqual(again.arguments, { euros: 500, at: 1 })
        at = 2
        const decisions = [approve(again)]
        expect(yield* runPrompt(runtime, { state: throughJson(held.state), decisions }), "completed")
        assert.deepStrictEqual(ran, [{ euros: 500, at: 1 }])
      })
  )
})
