import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { z } from "zod"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import type { ApprovalPolicy } from "../../src/domain/ApprovalPolicy.ts"
import { evolveAll } from "../../src/domain/evolve.ts"
import type { Timestamp } from "../../src/domain/Id.ts"
import { revokeInState } from "../../src/domain/revokeInState.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import { grantsUsed } from "../../src/run/internal/grants.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as Tool from "../../src/tool/Tool.ts"
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
  safe,
  throughJson,
  watch
} from "../helpers/Fixture.ts"

type Options = NonNullable<Parameters<typeof probe>[1]>

interface Dying extends Options {
  readonly policy?: ApprovalPolicy
  /** Approves the call "0" with a grant that lets the call "1" through. */
  readonly isGranted?: boolean
}

/** The state left by a process that was killed in the body of the call "1", and a process that resumes it with changed tools. */
const killed = ({ isGranted = false, policy, ...options }: Dying) =>
  Effect.gen(function* () {
    const { updates, onUpdate } = watch()
    const started = yield* Deferred.make<void>()
    const dying = probe("pay", {
      ...options,
      handler: ({ id }) =>
        id === "1"
          ? Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
          : Effect.succeed("paid")
    })
    const agentOf = (tool: Tool.Tool<never>) =>
      Agent.make("a", { tools: [tool], ...(policy === undefined ? {} : { policy }) })
    const first = isGranted ? [{ calls: [call("pay", "0")] }] : []
    const { model, runtime } = yield* bind(agentOf(dying.tool), [
      ...first,
      { calls: [call("pay", "1")] },
      "done"
    ])
    let before: RunState | undefined
    let input: Parameters<typeof runPrompt>[1] = { prompt: "go" }
    if (isGranted) {
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const granting = approve(only(held, "approval"), { grant: { scope: "session", arguments: {} } })
      before = held.state
      input = { state: held.state, decisions: [granting] }
    }
    const fiber = yield* Effect.forkChild(runPrompt(runtime, input, { onUpdate }))
    yield* Deferred.await(started)
    const state = evolveAll(before, events(updates))!
    yield* Fiber.interrupt(fiber)
    const goOn = Effect.fnUntraced(function* (today: Options = {}) {
      const pay = probe("pay", { ...options, ...today })
      return { pay, ...(yield* rebind(agentOf(pay.tool), model)) }
    })
    return { state: throughJson(state), goOn }
  })

const revoked = (state: RunState): RunState =>
  Result.getOrThrow(revokeInState(state, state.grants[0]!.id, { by: "ben", at: 1 as Timestamp }))

describe("a call whose body had started when its process died", () => {
  it.effect(
    "needs approval again when reconcile finds that it did not happen and its grant was revoked",
    () =>
      Effect.gen(function* () {
        const { goOn, state } = yield* killed({
          isGranted: true,
          reconcile: () => ({ _tag: "notHappened" }) as const
        })
        const { pay, runtime } = yield* goOn()
        const request = only(yield* runPrompt(runtime, { state: revoked(state) }), "approval")
        assert.include(request.reason, "was revoked by ben")
        assert.deepStrictEqual(pay.ran, [])
        // With the grant in force, the call goes through.
        expect(yield* runPrompt(runtime, { state }), "completed")
        assert.deepStrictEqual(pay.ran, ["1"])
      })
  )

  it.effect("is in doubt when it is idempotent and its grant was revoked", () =>
    Effect.gen(function* () {
      const { goOn, state } = yield* killed({ isGranted: true, idempotent: true })
      const { pay, runtime } = yield* goOn()
      const held = yield* runPrompt(runtime, { state: revoked(state) })
      const request = only(held, "inDoubt")
      assert.include(request.reason, "was revoked by ben")
      assert.deepStrictEqual(pay.ran, [])
      const retry = { _tag: "retry", requestId: request.requestId, by: "ann" } as const
      expect(yield* runPrompt(runtime, { state: throughJson(held.state), decisions: [retry] }), "completed")
      assert.deepStrictEqual(pay.ran, ["1"])
    })
  )

  it.effect("needs approval again when it is read-only and its grant was revoked", () =>
    Effect.gen(function* () {
      const { goOn, state } = yield* killed({ isGranted: true, safety: "readOnly", needsApproval: true })
      const { pay, runtime } = yield* goOn()
      only(yield* runPrompt(runtime, { state: revoked(state) }), "approval")
      assert.deepStrictEqual(pay.ran, [])
    })
  )

  it.effect("is in doubt when the policy that let it through has run out", () =>
    Effect.gen(function* () {
      const policy = { mode: "until", until: 1000 } as const
      const { goOn, state } = yield* killed({ idempotent: true, policy })
      const { pay, runtime } = yield* goOn()
      yield* TestClock.adjust("2 seconds")
      const request = only(yield* runPrompt(runtime, { state }), "inDoubt")
      assert.include(request.reason, "was let through without approval")
      assert.deepStrictEqual(pay.ran, [])
    })
  )

  it.effect("is in doubt when its tool is no longer idempotent", () =>
    Effect.gen(function* () {
      const { goOn, state } = yield* killed({ needsApproval: false, idempotent: true })
      const { pay, runtime } = yield* goOn({ idempotent: false })
      const request = only(yield* runPrompt(runtime, { state }), "inDoubt")
      assert.include(request.reason, "may not be repeated any more")
      assert.deepStrictEqual(pay.ran, [])
    })
  )

  it.effect("is in doubt when its tool now needs approval", () =>
    Effect.gen(function* () {
      const { goOn, state } = yield* killed({ needsApproval: false, idempotent: true })
      const { pay, runtime } = yield* goOn({ needsApproval: true })
      only(yield* runPrompt(runtime, { state }), "inDoubt")
      assert.deepStrictEqual(pay.ran, [])
    })
  )

  it.effect("is in doubt when its tool now needs approval and its policy denies such calls", () =>
    Effect.gen(function* () {
      const policy = { mode: "none" } as const
      const { goOn, state } = yield* killed({ needsApproval: false, idempotent: true, policy })
      const { pay, runtime } = yield* goOn({ needsApproval: true })
      const request = only(yield* runPrompt(runtime, { state }), "inDoubt")
      assert.include(request.reason, "A policy denies pay now.")
      assert.deepStrictEqual(pay.ran, [])
    })
  )

  it.effect("reads its grant from the store when it is repeated", () =>
    Effect.gen(function* () {
      const { state } = yield* killed({ isGranted: true, idempotent: true })
      const [{ id } = {}] = state.calls
      const again = { _tag: "tool.started", at: 9, callId: id!, idempotencyKey: id! } as const
      const used = grantsUsed(evolveAll(state, [again])!, [again])
      assert.deepStrictEqual(
        used?.map(({ grant }) => grant.id),
        [state.grants[0]!.id]
      )
    })
  )

  it.effect("is in doubt again when its arguments differ from those shown with the inDoubt request", () =>
    Effect.gen(function* () {
      const { goOn, state } = yield* killed({ needsApproval: false })
      const { pay, runtime } = yield* goOn()
      const held = yield* runPrompt(runtime, { state })
      const request = only(held, "inDoubt")
      assert.deepStrictEqual(request.arguments, { id: "1" })
      const damaged = JSON.parse(
        JSON.stringify(held.state).replaceAll('"arguments":{"id":"1"},', '"arguments":{"id":"mally"},')
      )
      damaged.requests = held.state.requests
      assert.deepStrictEqual(damaged.calls[0].arguments, { id: "mally" })
      const retry = { _tag: "retry", requestId: request.requestId, by: "ann" } as const
      const again = only(yield* runPrompt(runtime, { state: damaged, decisions: [retry] }), "inDoubt")
      assert.include(again.reason, "are not the ones that were asked about")
      assert.deepStrictEqual(pay.ran, [])
    })
  )
})

describe("an approved call with arguments decoded to a non-JSON value", () => {
  it.effect("needs approval again when its stored arguments differ from those shown", () =>
    Effect.gen(function* () {
      const ran: Array<unknown> = []
      const book = Tool.make("book", {
        parameters: z.object({ to: z.string(), on: z.string().transform((on) => new Date(on)) }),
        handler: (args) => {
          ran.push(args)
          return "booked"
        }
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [book] }), [
        { calls: [{ tool: "book", arguments: { to: "bob", on: "2026-01-01" } }] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const state = structuredClone(throughJson(held.state)) as any
      const [stored] = state.calls
      assert.isDefined(stored.rendering)
      assert.isDefined(stored.value)
      for (const place of ["arguments", "rendering"]) stored[place].to = "mally"
      const decisions = [approve(only(held, "approval"))]
      const again = only(yield* runPrompt(runtime, { state, decisions }), "approval")
      assert.include(again.reason, "makes something else of its arguments")
      assert.deepStrictEqual(ran, [])
    })
  )
})

describe("an approved call that is asked about again", () => {
  it.effect("is cancelled with its run while its preview callback runs", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      let previews = 0
      const book = Tool.make("book", {
        parameters: z.object({ to: z.string(), on: z.string().transform((on) => new Date(on)) }),
        preview: () =>
          (previews += 1) === 1
            ? Effect.succeed("a booking")
            : Effect.andThen(Deferred.succeed(begun, undefined), Effect.never),
        handler: () => "booked"
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [book] }), [
        { calls: [{ tool: "book", arguments: { to: "bob", on: "2026-01-01" } }] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const state = structuredClone(throughJson(held.state)) as any
      for (const place of ["arguments", "rendering"]) state.calls[0][place].to = "mally"
      const cancellation = Cancellation.make()
      const decisions = [approve(only(held, "approval"))]
      const fiber = yield* Effect.forkChild(runPrompt(runtime, { state, decisions }, { cancellation }))
      yield* Deferred.await(begun)
      cancellation.cancel("never mind")
      expect(yield* Fiber.join(fiber), "cancelled")
    })
  )

  it.effect("fails without failing its run when its new schema returns arguments that cannot be shown", () =>
    Effect.gen(function* () {
      const toolOf = (on: z.ZodType) =>
        Tool.make("book", { parameters: z.object({ on }), handler: () => "booked" })
      const { runtime, model } = yield* bind(Agent.make("a", { tools: [toolOf(z.string())] }), [
        { calls: [{ tool: "book", arguments: { on: "2026-01-01" } }] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const withHoles = z
        .string()
        .max(10)
        .transform((on) => Object.assign([], { 1: on }))
      const { runtime: changed } = yield* rebind(Agent.make("a", { tools: [toolOf(withHoles)] }), model)
      const decisions = [approve(only(held, "approval"))]
      const ended = yield* runPrompt(changed, { state: throughJson(held.state), decisions })
      assert.deepStrictEqual(results(expect(ended, "completed").state), [
        "book failed: book could not be prepared, and has not run: its schema makes a list with holes of its arguments"
      ])
    })
  )
})

describe("an approval with edited arguments", () => {
  it.effect("is asked for again when the schema has changed", () =>
    Effect.gen(function* () {
      const first = probe("first")
      const write = probe("write")
      const { runtime, model } = yield* bind(Agent.make("keeper", { tools: [first.tool, write.tool] }), [
        { calls: [call("first", "0"), call("write", "1")] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const [one, two] = expect(held, "interrupted").interruptions
      const edited = yield* runPrompt(runtime, {
        state: held.state,
        decisions: [approve(two!, { arguments: { id: "2" } })]
      })
      const ran: Array<unknown> = []
      const other = Tool.make("write", {
        parameters: Schema.Struct({
          id: Schema.String,
          path: Schema.optionalKey(Schema.String),
          force: Schema.optionalKey(Schema.Boolean)
        }),
        handler: (args) => {
          ran.push(args)
          return "ok"
        }
      })
      const { runtime: changed } = yield* rebind(Agent.make("keeper", { tools: [first.tool, other] }), model)
      const again = yield* runPrompt(changed, {
        state: throughJson(edited.state),
        decisions: [approve(one!)]
      })
      const request = only(again, "approval")
      assert.include(request.reason, "have changed since")
      assert.deepStrictEqual(request.arguments, { id: "2" })
      assert.deepStrictEqual(ran, [])
      const decisions = [approve(request)]
      expect(yield* runPrompt(changed, { state: throughJson(again.state), decisions }), "completed")
      assert.deepStrictEqual(ran, [{ id: "2" }])
    })
  )

  it.effect("is refused with a schema given by the caller", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const other = probe("other")
      const { runtime } = yield* bind(Agent.make("keeper", { tools: [other.tool, write.tool] }), [
        { calls: [call("other", "0"), call("write", "1")] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const given = { ...approve(expect(held, "interrupted").interruptions[1]!), schema: "mine" }
      const resumed = runPrompt(runtime, { state: held.state, decisions: [given] })
      assert.strictEqual((yield* Effect.flip(resumed))._tag, "DecisionMalformed")
    })
  )
})

describe("an approved call with a tool changed by a deploy", () => {
  const wider = Schema.Struct({ id: Schema.String, force: Schema.optionalKey(Schema.Boolean) })
  const cases: ReadonlyArray<readonly [string, Options, Options | "wider", string]> = [
    [
      "another identity",
      { identity: "bank:pay" },
      { identity: "shop:pay" },
      'pay is another tool now: it has the identity "shop:pay", and had the identity "bank:pay".'
    ],
    [
      "a removed identity",
      { identity: "bank:pay" },
      {},
      'pay is another tool now: it has no identity, and had the identity "bank:pay".'
    ],
    [
      "an added identity",
      {},
      { identity: "bank:\u202epay" },
      'pay is another tool now: it has the identity "bank:\\u{202e}pay", and had no identity.'
    ],
    ["another safety", {}, { safety: "privileged" }, "pay is privileged now, and was sideEffecting."],
    ["another schema", {}, "wider", "The arguments that pay takes have changed since."]
  ]
  for (const [what, before, after, reason] of cases) {
    it.effect(`needs approval again and gives the change as the reason: ${what}`, () =>
      Effect.gen(function* () {
        const first = probe("first")
        const pay = probe("pay", before)
        const { model, runtime } = yield* bind(Agent.make("a", { tools: [first.tool, pay.tool] }), [
          { calls: [call("first", "0"), call("pay", "1")] },
          "done"
        ])
        const held = yield* runPrompt(runtime, { prompt: "go" })
        const [one, two] = expect(held, "interrupted").interruptions
        const half = yield* runPrompt(runtime, { state: held.state, decisions: [approve(two!)] })
        const today =
          after === "wider"
            ? Tool.make("pay", { parameters: wider, handler: () => assert.fail("The body began.") })
            : probe("pay", { ...after, handler: () => assert.fail("The body began.") }).tool
        const { runtime: deployed } = yield* rebind(Agent.make("a", { tools: [first.tool, today] }), model)
        const decisions = [approve(one!)]
        const again = yield* runPrompt(deployed, { state: throughJson(half.state), decisions })
        assert.strictEqual(only(again, "approval").reason, reason)
      })
    )
  }

  it.effect("needs approval again after an edit when the tool's identity has changed", () =>
    Effect.gen(function* () {
      const pay = probe("pay", { identity: "bank:pay" })
      const { model, runtime } = yield* bind(Agent.make("a", { tools: [pay.tool] }), [
        { calls: [call("pay", "1")] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const shop = probe("pay", { identity: "shop:pay" })
      const { runtime: deployed } = yield* rebind(Agent.make("a", { tools: [shop.tool] }), model)
      const decisions = [approve(only(held, "approval"), { arguments: { id: "2" } })]
      const again = yield* runPrompt(deployed, { state: throughJson(held.state), decisions })
      assert.include(only(again, "approval").reason, 'it has the identity "shop:pay"')
      assert.deepStrictEqual(shop.ran, [])
    })
  )

  it.effect("gives a separate reason for each way in which its grant no longer applies", () =>
    Effect.gen(function* () {
      const reasons = new Set<string>()
      const granted = yield* killed({
        isGranted: true,
        reconcile: () => ({ _tag: "notHappened" }) as const
      })
      const { runtime } = yield* granted.goOn()
      const [grant] = granted.state.grants
      const states: ReadonlyArray<readonly [RunState, string]> = [
        [revoked(granted.state), `The grant ${grant!.id} was revoked by ben.`],
        [
          { ...granted.state, grants: [{ ...grant!, expiresAt: -1 as Timestamp }] },
          `The grant ${grant!.id} has expired.`
        ],
        [{ ...granted.state, grants: [] }, `The grant ${grant!.id} is not known here.`],
        [
          { ...granted.state, grants: [{ ...grant!, arguments: { id: { _tag: "equals", value: "7" } } }] },
          `The grant ${grant!.id} does not cover this call.`
        ]
      ]
      for (const [state, expected] of states) {
        const { reason } = only(yield* runPrompt(runtime, { state: throughJson(state) }), "approval")
        assert.strictEqual(reason, expected)
        reasons.add(reason!)
      }
      assert.strictEqual(reasons.size, states.length)
    })
  )
})

describe("a call that waits behind others of its turn", () => {
  it.effect("needs approval when a policy of its chain runs out meanwhile", () =>
    Effect.gen(function* () {
      const slow = probe("slow", {
        needsApproval: false,
        handler: () => Effect.as(TestClock.adjust("2 seconds"), "slow")
      })
      const refund = probe("refund", { needsApproval: () => true })
      const billing = Agent.make("billing", {
        tools: [slow.tool, refund.tool],
        policy: { mode: "until", until: 1000 }
      })
      const { runtime } = yield* bind(Agent.make("desk", { handoffs: [billing] }), [
        { calls: [{ tool: "transfer_to_billing" }] },
        { calls: [call("slow", "1"), call("refund", "2")] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go", policy: { mode: "all" } })
      assert.strictEqual(only(held, "approval").tool, "refund")
      assert.deepStrictEqual(refund.ran, [])
    })
  )

  it.effect("needs approval when its tool's rule changes its answer meanwhile", () =>
    Effect.gen(function* () {
      let isFrozen = false
      const slow = probe("slow", {
        needsApproval: false,
        handler: () =>
          Effect.sync(() => {
            isFrozen = true
            return "slow"
          })
      })
      const pay = probe("pay", { needsApproval: () => isFrozen })
      const { runtime } = yield* bind(Agent.make("a", { tools: [slow.tool, pay.tool] }), [
        { calls: [call("slow", "1"), call("pay", "2")] },
        "done"
      ])
      assert.strictEqual(only(yield* runPrompt(runtime, { prompt: "go" }), "approval").tool, "pay")
      assert.deepStrictEqual(pay.ran, [])
    })
  )

  it.effect("needs approval when its policy runs out during the reads before it", () =>
    Effect.gen(function* () {
      const read = safe("read", {
        needsApproval: true,
        handler: () => Effect.as(TestClock.adjust("2 seconds"), "read")
      })
      const policy = { mode: "until", until: 1000 } as const
      const { runtime } = yield* bind(
        Agent.make("a", { tools: [read.tool], policy, limits: { toolConcurrency: 1 } }),
        [{ calls: [call("read", "1"), call("read", "2")] }, "done"]
      )
      const held = yield* runPrompt(runtime, { prompt: "go" })
      assert.deepStrictEqual(only(held, "approval").arguments, { id: "2" })
      assert.deepStrictEqual(read.ran, ["1"])
    })
  )

  it.effect("completes beside the other reads of its turn", () =>
    Effect.gen(function* () {
      const read = safe("read")
      const { runtime } = yield* bind(
        Agent.make("a", { tools: [read.tool], limits: { toolConcurrency: 2 } }),
        [{ calls: [call("read", "1"), call("read", "2"), call("read", "3")] }, "done"]
      )
      const done = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.lengthOf(results(done.state), 3)
    })
  )
})

describe("an approved call that cannot be checked again", () => {
  it.effect("fails without running its body", () =>
    Effect.gen(function* () {
      const pay = probe("pay")
      const agent = Agent.make("a", { tools: [pay.tool] })
      const { runtime } = yield* bind(agent, [{ calls: [call("pay", "1")] }, "done"])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      // A state that no version writes.
      const state = { ...throughJson(held.state), policy: { mode: "odd" } } as unknown as RunState
      const decisions = [approve(only(held, "approval"))]
      const ended = expect(yield* runPrompt(runtime, { state, decisions }), "completed")
      assert.deepStrictEqual(pay.ran, [])
      assert.include(results(ended.state).join(), "could not be prepared, and has not run")
    })
  )
})
