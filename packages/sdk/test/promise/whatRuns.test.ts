import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { z } from "zod"
import * as Agent from "../../src/agent/Agent.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import { approve } from "../../src/promise/decisions.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isDecisionMalformed } from "../../src/promise/guards.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as RunStore from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"

/** A class with private fields only. */
class Account {
  readonly #name: string
  constructor(name: string) {
    this.#name = name
  }
  get name() {
    return this.#name
  }
}

/** A class whose JSON is always the same. */
class Money {
  readonly cents: number
  constructor(cents: number) {
    this.cents = cents
  }
  toJSON() {
    return "Money"
  }
}

/** A mutable class. */
class Changing {
  value: string
  constructor(value: string) {
    this.value = value
  }
}

const paying = (...amounts: ReadonlyArray<number>) => ({
  calls: amounts.map((amount) => ({ tool: "pay", arguments: { amount } }))
})

const open = (
  tools: ReadonlyArray<Tool.Tool<never>>,
  script: Parameters<typeof ScriptedModel.make>[0],
  options: object = {}
): Promise<Fermata.Fermata> =>
  Fermata.make({
    agents: [Agent.make("ops", { tools })],
    model: ScriptedModel.make(script).client,
    store: RunStore.layerMemory,
    by: "ann",
    ...options
  })

describe("arguments decoded to class instances", () => {
  it("are shown with their encoded values, and a grant of exactly these covers no others", async () => {
    const ran: Array<string> = []
    const pay = Tool.make("pay", {
      parameters: z.object({
        to: z.string().transform((name) => new Account(name)),
        amount: z.number().transform((cents) => new Money(cents)),
        all: z.array(z.string().transform((name) => new Set([new Account(name)]))),
        for: z
          .string()
          .transform((name) => Object.defineProperty({}, "name", { value: name }) as { name: string }),
        note: z.string().default("none")
      }),
      handler: ({ amount, to, ...rest }) =>
        void ran.push(`${amount.cents} to ${to.name} for ${rest.for.name}`)
    })
    const call = (to: string, amount: number, all: string, why = "rent") => ({
      calls: [{ tool: "pay", arguments: { to, amount, all: [all], for: why } }]
    })
    await using fermata = await open(
      [pay],
      [
        call("bob", 5, "a"),
        call("bob", 5, "a"),
        call("mallory", 5, "a"),
        call("bob", 900, "a"),
        call("bob", 5, "b"),
        call("bob", 5, "a", "bribe"),
        "done"
      ]
    )
    let run = await fermata.runPrompt("ops", "pay")
    const shown: Array<unknown> = []
    while (run.status === "interrupted") {
      const request = run.interruptions[0]!
      assert.strictEqual(request._tag, "approval")
      shown.push((request as { readonly arguments: unknown }).arguments)
      await fermata.decide(request, approve(shown.length === 1 ? { grant: { scope: "run" } } : {}))
      run = await fermata.resume(run.runId)
    }
    const seen = (to: string, given: number, name: string, why = "rent") => ({
      to,
      amount: { given, is: "Money" },
      all: [{ given: name, is: [{}] }],
      for: why,
      note: "none"
    })
    assert.deepStrictEqual(shown, [
      seen("bob", 5, "a"),
      seen("mallory", 5, "a"),
      seen("bob", 900, "a"),
      seen("bob", 5, "b"),
      seen("bob", 5, "a", "bribe")
    ])
    const toBob = "5 to bob for rent"
    assert.deepStrictEqual(ran, [
      toBob,
      toBob,
      "5 to mallory for rent",
      "900 to bob for rent",
      toBob,
      "5 to bob for bribe"
    ])
  })

  it("run when they decode to null", async () => {
    const ran: Array<unknown> = []
    const pay = Tool.make("pay", {
      parameters: z.object({}).transform(() => null),
      handler: (given) => void ran.push(given)
    })
    await using fermata = await open([pay], [{ calls: [{ tool: "pay" }] }, "done"])
    const run = await fermata.runPrompt("ops", "pay")
    await fermata.decide(`${run.runId}.r1`, approve())
    assert.strictEqual((await fermata.resume(run.runId)).status, "completed")
    assert.deepStrictEqual(ran, [null])
  })

  it("fail their call when they contain a list with holes, and the run continues", async () => {
    const holey = z
      .array(z.string())
      .transform((names) => Object.assign([], { 2: names[0] }) as Array<string>)
    for (const to of [holey, holey.transform((names) => new Set([names]))]) {
      const parameters = z.object({ to: to.transform((names): unknown => names) })
      const pay = Tool.make("pay", { parameters, handler: () => assert.fail("It runs.") })
      await using fermata = await open(
        [pay],
        [{ calls: [{ tool: "pay", arguments: { to: ["bob"] } }] }, "done"]
      )
      const run = await fermata.runPrompt("ops", "pay")
      assert.strictEqual(run.status, "completed")
      assert.include(
        JSON.stringify(run.state.history),
        "pay could not be prepared, and has not run: its schema makes a list with holes of its arguments"
      )
    }
    const lenient = Tool.make("pay", {
      parameters: z.object({ to: z.union([holey, z.string()]) }),
      handler: () => assert.fail("It runs.")
    })
    await using fermata = await open(
      [lenient],
      [{ calls: [{ tool: "pay", arguments: { to: "bob" } }] }, "done"]
    )
    const { runId } = await fermata.runPrompt("ops", "pay")
    const edit = fermata.decide(`${runId}.r1`, approve({ arguments: { to: ["bob"] } }))
    const error = await edit.then(
      () => assert.fail("It was taken."),
      (error: unknown) => error
    )
    assert.include((error as Error).message, "its schema makes a list with holes of its arguments")
    assert.lengthOf(await fermata.pending({ runId }), 1)
  })

  it("fail their call after ten approvals when they decode to another value each time", async () => {
    let asked = 0
    let count = 0
    const pay = Tool.make("pay", {
      parameters: z.object({ amount: z.number().transform(() => new Set([count++])) }),
      handler: () => assert.fail("It runs with what was not shown.")
    })
    await using fermata = await open([pay], [paying(1), "done"], {
      approvalCallback: ({ requestId }: Interruption) => {
        asked += 1
        return { ...approve(), requestId, by: "bot" }
      }
    })
    const run = await fermata.runPrompt("ops", "pay")
    assert.strictEqual(run.status, "completed")
    assert.strictEqual(asked, 10)
    const { history } = await fermata.state(run.runId)
    assert.include(JSON.stringify(history), "what would run was something else each time. It has not run.")
  })
})

describe("a decision", () => {
  const amounts = z.object({ amount: z.number() })

  it("keeps its arguments when the caller changes the object afterwards", async () => {
    const ran: Array<number> = []
    const pay = Tool.make("pay", { parameters: amounts, handler: ({ amount }) => void ran.push(amount) })
    const form = { amount: 50 }
    const runtime = Runtime.make({ agent: Agent.make("ops", { tools: [pay] }) })
    await Effect.gen(function* () {
      const bound = yield* runtime
      const first = yield* runPrompt(bound, { prompt: "pay" })
      if (first.status !== "interrupted") return assert.fail(first.status)
      const [one, two] = first.interruptions
      const decide = (request: Interruption | undefined, body: Parameters<typeof approve>[0]) =>
        ({ ...approve(body), requestId: request!.requestId, by: "ann" }) as DecisionInput
      // The edited call waits behind the call before it.
      const edited = yield* runPrompt(bound, {
        state: first.state,
        decisions: [decide(two, { arguments: form })]
      })
      form.amount = 999
      yield* runPrompt(bound, { state: edited.state, decisions: [decide(one, {})] })
    }).pipe(
      Effect.scoped,
      Effect.provide(ScriptedModel.make([paying(1, 2), "done"]).layer),
      Effect.runPromise
    )
    assert.deepStrictEqual(ran, [1, 50])
  })

  it("is accepted as it was checked when each read of it returns another value", async () => {
    const ran: Array<unknown> = []
    const pay = Tool.make("pay", { parameters: amounts, handler: (given) => void ran.push(given) })
    await using fermata = await open([pay], [paying(1), paying(2), "done"])
    const run = await fermata.runPrompt("ops", "pay")
    const narrow = { amount: { _tag: "equals", value: 1 } }
    const anything = Object.defineProperty({}, "amount", { value: narrow.amount })
    for (let narrowFor = 0; narrowFor < 12; narrowFor += 1) {
      let looks = 0
      const grant = {
        scope: "run",
        get arguments() {
          return looks++ < narrowFor ? narrow : anything
        }
      }
      // The decision is either accepted as it was checked or rejected.
      const refused = await Promise.resolve()
        .then(() => fermata.decide(`${run.runId}.r1`, approve({ grant: grant as never })))
        .then(() => false, isDecisionMalformed)
      if (refused) continue
      assert.deepStrictEqual((await fermata.grants())[0]?.grant.arguments as unknown, narrow)
      break
    }
    assert.strictEqual((await fermata.resume(run.runId)).status, "interrupted")
    assert.deepStrictEqual(ran, [{ amount: 1 }])
  })

  it("is recorded as it was checked when the caller changes it during validation", async () => {
    const ran: Array<unknown> = []
    let change = () => {}
    const pay = Tool.make("pay", {
      parameters: amounts.refine(async ({ amount }) => {
        await Promise.resolve()
        change()
        return amount <= 100
      }),
      handler: (given) => void ran.push(given)
    })
    await using fermata = await open([pay], [paying(1), "done"])
    const run = await fermata.runPrompt("ops", "pay")
    const form = { amount: 50 }
    change = () => {
      form.amount = 999
    }
    const decision = await fermata.decide(`${run.runId}.r1`, approve({ arguments: form }))
    assert.deepInclude(decision, { arguments: { amount: 50 } })
    await fermata.resume(run.runId)
    assert.deepStrictEqual(ran, [{ amount: 50 }])
  })

  it("gives each attempt of a body the approved arguments", async () => {
    const ran: Array<unknown> = []
    const account = z.string().transform((name) => ({ name: new Changing(name) }))
    const pay = Tool.make("pay", {
      parameters: z.object({
        amount: z.number(),
        on: z.string().transform((text) => new Date(text)),
        to: z.array(z.string()).transform((names) => new Set(names)),
        from: account.optional()
      }),
      idempotent: true,
      retry: Schedule.recurs(2),
      handler: (given) => {
        ran.push([given.amount, given.on.getTime(), [...given.to], given.from?.name.value])
        given.amount *= 100
        given.on.setTime(0)
        given.to.add("mallory")
        if (given.from !== undefined) given.from.name.value = "mallory"
        throw new Error("It did not work.")
      }
    })
    for (const from of [{}, { from: "ann" }]) {
      const call = { tool: "pay", arguments: { amount: 5, on: "2026-01-01", to: ["bob"], ...from } }
      await using fermata = await open([pay], [{ calls: [call] }, "done"])
      const run = await fermata.runPrompt("ops", "pay")
      await fermata.decide(`${run.runId}.r1`, approve())
      await fermata.resume(run.runId)
      const approved = [5, Date.UTC(2026, 0, 1), ["bob"], Object.values(from)[0]]
      assert.deepStrictEqual(ran.splice(0), [approved, approved, approved])
    }
  })

  it("starts no further attempt when the schema decodes the arguments to another value", async () => {
    const ran: Array<unknown> = []
    let looks = 0
    const pay = Tool.make("pay", {
      // The first look decodes the call, and the second prepares its body.
      parameters: z.object({
        to: z.string().transform((name) => new Changing(++looks < 3 ? name : "mallory"))
      }),
      needsApproval: false,
      idempotent: true,
      retry: Schedule.recurs(2),
      handler: ({ to }) => {
        ran.push(to.value)
        throw new Error("It did not work.")
      }
    })
    await using fermata = await open([pay], [{ calls: [{ tool: "pay", arguments: { to: "bob" } }] }, "done"])
    const run = await fermata.runPrompt("ops", "pay")
    assert.deepStrictEqual(ran, ["bob"])
    const { history } = await fermata.state(run.runId)
    assert.include(JSON.stringify(history), "pay failed: It did not work.")
  })

  it("is not changed by a schema that mutates its input", async () => {
    const ran: Array<unknown> = []
    const pay = Tool.make("pay", {
      parameters: z.preprocess(
        (given: { amount: number }) => {
          given.amount *= 10
          return given
        },
        z.object({ amount: z.number().transform((cents) => new Changing(`${cents}`)) })
      ),
      handler: ({ amount }) => void ran.push(amount.value)
    })
    await using fermata = await open([pay], [paying(1), "done"])
    const run = await fermata.runPrompt("ops", "pay")
    const error = await fermata.decide(`${run.runId}.r1`, approve({ arguments: { amount: 5 } })).then(
      () => assert.fail("It was taken."),
      (error: Error) => error
    )
    assert.include(error.message, "would run without having been approved")
    await fermata.decide(`${run.runId}.r1`, approve())
    await fermata.resume(run.runId)
    assert.deepStrictEqual(ran, ["10"])
  })

  it("acknowledged before a cancellation is in the report of its call", async () => {
    const { promise: stopped, resolve: stop } = Promise.withResolvers<void>()
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
    const wait = Tool.make("wait", {
      needsApproval: false,
      handler: () => {
        begin()
        return stopped
      }
    })
    const pay = Tool.make("pay", { parameters: amounts, handler: () => assert.fail("It runs.") })
    const script = [{ calls: [{ tool: "wait" }, ...paying(1).calls] }, "done"]
    await using fermata = await open([wait, pay], script, { cancelGrace: 1 })
    const running = fermata.runPrompt("ops", "pay", { runId: "run" })
    await begun
    await fermata.decide("run.r1", approve({ grant: { scope: "session" } }))
    await fermata.cancel("run", "not needed")
    const end = await running
    stop()
    if (end.status !== "cancelled") return assert.fail(end.status)
    assert.deepStrictEqual(
      end.calls.map(({ decided, tool }) => [
        tool,
        decided?.requestId as string | undefined,
        decided?.decision
      ]),
      [
        ["wait", undefined, undefined],
        ["pay", "run.r1", "approve"]
      ]
    )
    assert.lengthOf((await fermata.state("run")).grants, 1)
  })

  it("rejects edited arguments that are not plain data, and the request stays open", async () => {
    const pay = Tool.make("pay", { parameters: z.looseObject({ amount: z.number() }), handler: () => {} })
    await using fermata = await open([pay], [paying(1), "done"])
    const run = await fermata.runPrompt("ops", "pay")
    const unseen: object = Object.defineProperty({}, "to", { value: "bob" })
    for (const more of [
      { at: new Date(0) },
      { [Symbol("more")]: 1 },
      { who: new Account("bob") },
      { unseen }
    ]) {
      const edited: object = { amount: 1, ...more }
      const decision = { _tag: "approve", arguments: edited as never } as const
      for (const decide of [
        async () => approve({ arguments: decision.arguments }),
        () => fermata.decide(`${run.runId}.r1`, decision)
      ]) {
        const error = await decide().then(
          () => assert.fail("It was taken."),
          (error: unknown) => error
        )
        assert.isTrue(isDecisionMalformed(error))
      }
    }
    assert.lengthOf(await fermata.pending(), 1)
  })

  it("of a callback does not change its request", async () => {
    const ran: Array<number> = []
    const pay = Tool.make("pay", { parameters: amounts, handler: ({ amount }) => void ran.push(amount) })
    await using fermata = await open([pay], [paying(1), "done"], {
      approvalCallback: (request: Interruption) => {
        if (request._tag !== "approval") return undefined
        Object.assign(request.arguments as object, { amount: 999 })
        return { ...approve(), requestId: request.requestId, by: "bot" }
      }
    })
    assert.strictEqual((await fermata.runPrompt("ops", "pay")).status, "completed")
    assert.deepStrictEqual(ran, [1])
  })
})

describe("a policy", () => {
  it("is in force as it was checked when each read of it returns another value", async () => {
    const ran: Array<unknown> = []
    const pay = Tool.make("pay", { handler: (given) => void ran.push(given) })
    for (let askFor = 1; askFor < 12; askFor += 1) {
      let looks = 0
      const policy = {
        get mode() {
          return looks++ < askFor ? "ask" : "all"
        }
      } as { readonly mode: "ask" }
      const script = [{ calls: [{ tool: "pay" }] }, "done"]
      await using given = await open([pay], script)
      assert.strictEqual((await given.runPrompt("ops", "pay", { policy })).status, "interrupted")
      looks = 0
      await using fermata = await Fermata.make({
        agents: [Agent.make("ops", { tools: [pay], policy })],
        model: ScriptedModel.make(script).client,
        store: RunStore.layerMemory
      })
      assert.strictEqual((await fermata.runPrompt("ops", "pay")).status, "interrupted")
    }
    assert.deepStrictEqual(ran, [])
  })
})
