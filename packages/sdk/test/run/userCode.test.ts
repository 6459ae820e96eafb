import { inspect } from "node:util"
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import * as Tracer from "effect/Tracer"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import { turn } from "../../src/agent/internal/eventLoop.ts"
import { reconfigureRuntime } from "../../src/agent/reconfigureRuntime.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import type { ToolCallNotice } from "../../src/agent/RuntimeHooks.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import { ContextPolicy } from "../../src/context/ContextPolicy.ts"
import { evolveAll } from "../../src/domain/evolve.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import * as Tool from "../../src/tool/Tool.ts"
import type { ToolContext } from "../../src/tool/ToolContext.ts"
import { ToolFailure } from "../../src/tool/ToolError.ts"
import {
  approvalOf,
  approve,
  bind,
  bindCreated,
  call,
  events,
  expect,
  only,
  probe,
  results,
  safe,
  watch
} from "../helpers/Fixture.ts"

class Payments extends Context.Service<Payments, string>()("test/Payments") {}
const Locale = Context.Reference<string>("test/Locale", { defaultValue: () => "none" })
const Tenant = Context.Reference<string>("test/Tenant", { defaultValue: () => "none" })

/** Records the tags of a run's events. */
const noting = (log: Array<string>) => (update: RunUpdate) => {
  if (update._tag === "event") log.push(update.event._tag)
}

/** Records the log and the spans of a run. */
const recording = () => {
  const logs: Array<{ readonly text: string; readonly annotations: Readonly<Record<string, unknown>> }> = []
  const spans: Array<Tracer.NativeSpan> = []
  const logger = Logger.make(({ cause, fiber, message }) => {
    logs.push({
      text: `${String(message)}${cause.reasons.length === 0 ? "" : ` ${Cause.pretty(cause)}`}`,
      annotations: fiber.getRef(References.CurrentLogAnnotations)
    })
  })
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  return {
    logs,
    spans,
    span: (name: string) => {
      const found = spans.filter((span) => nameOf(span) === name)
      assert.lengthOf(found, 1, `spans called ${name} among ${spans.map(({ name }) => name).join(", ")}`)
      return found[0]!
    },
    logged: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.provide(effect, Logger.layer([logger])),
    traced: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.withTracer(effect, tracer)
  }
}

const exitOf = ({ status }: Tracer.NativeSpan) => {
  assert.strictEqual(status._tag, "Ended")
  return status._tag === "Ended" ? status.exit : undefined
}

/** The name of a span, with its tool. */
const nameOf = ({ attributes, name }: Tracer.NativeSpan): string =>
  attributes.has("tool") ? `${name} of ${String(attributes.get("tool"))}` : name

const parentOf = ({ parent }: Tracer.NativeSpan): string =>
  parent._tag === "Some" && parent.value._tag === "Span" ? nameOf(parent.value as Tracer.NativeSpan) : "none"

describe("a call of user code", () => {
  /** Acquires a resource, and records its acquisition and release. */
  const acquiring = (log: Array<string>, name: string) =>
    Effect.acquireRelease(
      Effect.sync(() => {
        log.push(`acquired by ${name}`)
      }),
      () =>
        Effect.sync(() => {
          log.push(`released by ${name}`)
        })
    )

  it.effect("has a scope of its own, which closes before its result is recorded", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const write = probe("write", { handler: () => Effect.as(acquiring(log, "handler"), "written") })
      const tool = Tool.make("write", {
        ...write.tool.options,
        needsApproval: () => Effect.as(acquiring(log, "needsApproval"), true),
        risk: () => Effect.as(acquiring(log, "risk"), "some"),
        preview: () => Effect.as(acquiring(log, "preview"), "text")
      })
      const agent = Agent.make("a", {
        instructions: () => Effect.as(acquiring(log, "instructions"), "work"),
        tools: [tool]
      })
      const { runtime } = yield* bind(agent, [{ calls: [call("write", "1")] }, "done"])
      const onUpdate = noting(log)
      const held = yield* runPrompt(runtime, { prompt: "go" }, { onUpdate })
      const decisions = [approve(approvalOf(held, "1"))]
      const done = yield* runPrompt(runtime, { state: held.state, decisions }, { onUpdate })
      expect(done, "completed")
      for (const name of ["instructions", "needsApproval", "risk", "preview", "handler"]) {
        assert.include(log, `acquired by ${name}`)
        assert.strictEqual(log.indexOf(`released by ${name}`), log.indexOf(`acquired by ${name}`) + 1, name)
      }
      assert.isBelow(log.indexOf("released by handler"), log.indexOf("tool.completed"))
      assert.isBelow(log.indexOf("released by preview"), log.indexOf("request.opened"))
    })
  )

  it.effect("closes its scope when it fails, times out or is cancelled", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const begun = yield* Deferred.make<void>()
      const failing = safe("failing", {
        handler: () => Effect.andThen(acquiring(log, "failing"), Effect.fail("no"))
      })
      const late = yield* Deferred.make<void>()
      const slow = safe("slow", {
        timeout: "1 second",
        handler: () =>
          acquiring(log, "slow").pipe(
            Effect.andThen(Deferred.succeed(late, undefined)),
            Effect.andThen(Effect.never)
          )
      })
      const stopped = safe("stopped", {
        handler: () =>
          acquiring(log, "stopped").pipe(
            Effect.andThen(Deferred.succeed(begun, undefined)),
            Effect.andThen(Effect.never)
          )
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [failing.tool, slow.tool, stopped.tool] }), [
        { calls: [call("failing", "1")] },
        { calls: [call("slow", "2")] },
        { calls: [call("stopped", "3")] }
      ])
      const running = yield* Effect.forkChild(
        runPrompt(runtime, { prompt: "go" }, { onUpdate: noting(log) }),
        { startImmediately: true }
      )
      yield* Deferred.await(late)
      yield* TestClock.adjust("1 second")
      yield* Deferred.await(begun)
      yield* Fiber.interrupt(running)
      for (const name of ["failing", "slow", "stopped"]) assert.include(log, `released by ${name}`)
      assert.isBelow(log.indexOf("released by failing"), log.indexOf("tool.failed"))
      assert.isBelow(log.indexOf("released by slow"), log.lastIndexOf("tool.failed"))
      assert.isBelow(log.indexOf("released by stopped"), log.indexOf("run.cancelled"))
    })
  )

  it.effect("closes the scope of `reconcile` before its result is recorded", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const first = watch()
      let state: RunState | undefined
      const started = yield* Deferred.make<void>()
      const write = probe("write", {
        needsApproval: false,
        handler: () => {
          state = evolveAll(undefined, events(first.updates))
          return Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
        }
      })
      const tool = Tool.make("write", {
        ...write.tool.options,
        reconcile: () =>
          Effect.as(acquiring(log, "reconcile"), { _tag: "happened", result: "written" } as const)
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [
        { calls: [call("write", "1")] },
        "done"
      ])
      const killed = yield* Effect.forkChild(
        runPrompt(runtime, { prompt: "go" }, { onUpdate: first.onUpdate })
      )
      yield* Deferred.await(started)
      yield* Fiber.interrupt(killed)
      expect(yield* runPrompt(runtime, { state: state! }, { onUpdate: noting(log) }), "completed")
      assert.deepStrictEqual(log.slice(0, 4), [
        "run.recovered",
        "acquired by reconcile",
        "released by reconcile",
        "tool.completed"
      ])
    })
  )

  it.effect("has the services of the runtime, and the context of the run otherwise", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const look = (code: string) =>
        Effect.gen(function* () {
          const annotations = yield* References.CurrentLogAnnotations
          seen.push([code, yield* Payments, yield* Tenant, yield* Locale, annotations["of"]])
        })
      const tool = Tool.make("write", {
        handler: () => look("handler"),
        needsApproval: () => Effect.as(look("needsApproval"), true),
        risk: () => Effect.as(look("risk"), "some"),
        preview: () => Effect.as(look("preview"), "text")
      })
      const agent = Agent.make("a", {
        instructions: () => Effect.as(look("instructions"), ""),
        tools: [tool]
      })
      const { runtime } = yield* bind(agent, [{ calls: [{ tool: "write" }] }, "done"]).pipe(
        Effect.provideService(Payments, "paid"),
        Effect.provideService(Tenant, "of the making"),
        Effect.annotateLogs("of", "the making")
      )
      const around = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
        effect.pipe(
          Effect.provideService(Tenant, "of the run"),
          Effect.provideService(Locale, "of the run"),
          Effect.annotateLogs("of", "the run")
        )
      const held = yield* around(runPrompt(runtime, { prompt: "go" }))
      const decisions = [approve(only(held, "approval"))]
      expect(yield* around(runPrompt(runtime, { state: held.state, decisions })), "completed")
      assert.sameDeepMembers(
        seen,
        ["instructions", "needsApproval", "risk", "preview", "handler", "instructions"].map((code) => [
          code,
          "paid",
          "of the run",
          "of the run",
          "the run"
        ])
      )
    })
  )

  it.effect("has the same services and context in a hook", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const closed: Array<string> = []
      const runtime = yield* createRuntime({
        agent: Agent.make("a"),
        hooks: {
          onRunEnd: ({ status }) =>
            Effect.gen(function* () {
              yield* Effect.addFinalizer(() => Effect.sync(() => closed.push(status)))
              seen.push([yield* Payments, yield* Tenant])
            }),
          onReconfigured: ({ after }) =>
            Effect.map(Payments, (payments) => {
              seen.push([payments, after.mode])
            })
        }
      }).pipe(
        Effect.provideService(Payments, "paid"),
        Effect.provideService(ModelClient, ScriptedModel.make(["done"]).client)
      )
      const running = runPrompt(runtime, { prompt: "go" })
      expect(yield* Effect.provideService(running, Tenant, "of the run"), "completed")
      yield* reconfigureRuntime(runtime, { mode: "act" })
      assert.deepStrictEqual(seen, [
        ["paid", "of the run"],
        ["paid", "act"]
      ])
      assert.deepStrictEqual(closed, ["completed"])
    })
  )

  it.effect(
    "inherits no log annotations, log spans or parent span from the fiber that made the runtime",
    () =>
      Effect.gen(function* () {
        const seen: Array<unknown> = []
        const tool = safe("look", {
          handler: () =>
            Effect.gen(function* () {
              const annotations = yield* References.CurrentLogAnnotations
              const spans = yield* References.CurrentLogSpans
              seen.push(annotations, spans, Option.isSome(yield* Effect.serviceOption(Tracer.ParentSpan)))
            })
        })
        const { runtime } = yield* bind(Agent.make("a", { tools: [tool.tool] }), [
          { calls: [call("look", "1")] },
          "done"
        ]).pipe(
          Effect.annotateLogs("of", "the making"),
          Effect.withLogSpan("making"),
          Effect.withSpan("making")
        )
        expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
        assert.deepStrictEqual(seen, [{}, [], false])
      })
  )

  it.effect("sleeps by the clock of the run, not by that of the runtime", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const slow = safe("slow", {
        handler: () =>
          Effect.andThen(Deferred.succeed(begun, undefined), Effect.as(Effect.sleep("1 hour"), "slept"))
      })
      const real: Clock.Clock = yield* TestClock.withLive(Clock.Clock)
      const { runtime } = yield* bind(
        Agent.make("a", { tools: [slow.tool], limits: { toolTimeoutMs: 7_200_000 } }),
        [{ calls: [call("slow", "1")] }, "done"]
      ).pipe(Effect.provideService(Clock.Clock, real))
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }), {
        startImmediately: true
      })
      yield* Deferred.await(begun)
      yield* TestClock.adjust("1 hour")
      const done = expect(yield* Fiber.join(running), "completed")
      assert.deepStrictEqual(results(done.state), ["slow completed: slept"])
    })
  )

  it.effect("has a span under the run's, with its own spans below", () =>
    Effect.gen(function* () {
      const { span, traced } = recording()
      const plain = safe("plain")
      const awaiting = safe("awaiting", { handler: async () => "awaited" })
      const nested = probe("nested", {
        handler: () => Effect.withSpan(Effect.succeed(""), "within"),
        needsApproval: () => Effect.withSpan(Effect.succeed(false), "judging")
      })
      const agent = Agent.make("a", { tools: [plain.tool, awaiting.tool, nested.tool] })
      const { runtime } = yield* Effect.withSpan(
        bind(agent, [
          { calls: [call("nested", "1")] },
          { calls: [call("plain", "2")] },
          { calls: [call("awaiting", "3")] },
          "done"
        ]),
        "making"
      )
      const done = expect(yield* traced(runPrompt(runtime, { prompt: "go" })), "completed")
      assert.strictEqual(parentOf(span("within")), "fermata.handler of nested")
      assert.strictEqual(parentOf(span("judging")), "fermata.needsApproval of nested")
      for (const name of ["nested", "plain", "awaiting"]) {
        const handler = span(`fermata.handler of ${name}`)
        assert.strictEqual(parentOf(handler), "fermata.runPrompt")
        assert.isTrue(Exit.isSuccess(exitOf(handler)!))
      }
      const attributes = Object.fromEntries(span("fermata.handler of plain").attributes)
      const callId = plain.contexts[0]!.callId
      assert.deepStrictEqual(attributes, { runId: done.runId, agent: "a", tool: "plain", callId })
    })
  )
})

describe("a failure of user code", () => {
  const boom = new Error("boom")
  class Refused extends Schema.TaggedError<Refused>()("Refused", { code: Schema.Number }) {
    override get message() {
      return "The card was refused."
    }
  }

  const handlers: Record<string, () => unknown> = {
    "an effect that fails": () => Effect.fail(boom),
    "an effect that dies": () => Effect.die(boom),
    "a promise that is rejected": () => Promise.reject(boom),
    "a function that throws": () => {
      throw boom
    }
  }
  for (const [what, handler] of Object.entries(handlers)) {
    it.effect(`is logged once, and reaches hooks and its span: a handler with ${what}`, () =>
      Effect.gen(function* () {
        const { logged, logs, span, traced } = recording()
        const told: Array<ToolCallNotice> = []
        const hooks = { onToolCall: (call: ToolCallNotice) => told.push(call) }
        const failing = safe("failing", { handler })
        const seen = watch()
        const { runtime } = yield* bindCreated(
          Agent.make("a", { tools: [failing.tool] }),
          [{ calls: [call("failing", "1")] }, "done"],
          { hooks }
        )
        const done = expect(
          yield* logged(traced(runPrompt(runtime, { prompt: "go" }, { onUpdate: seen.onUpdate }))),
          "completed"
        )
        const { callId } = failing.contexts[0]!
        assert.lengthOf(logs, 1)
        assert.include(logs[0]!.text, "The handler of failing failed. Error: boom")
        assert.deepStrictEqual(logs[0]!.annotations, {
          code: "handler",
          runId: done.runId,
          agent: "a",
          tool: "failing",
          callId
        })
        const [started, failed] = told
        assert.isUndefined(started!.cause)
        assert.strictEqual(failed!.status, "failed")
        assert.strictEqual(Cause.squash(failed!.cause!), boom)
        const exit = exitOf(span("fermata.handler of failing"))!
        assert.isTrue(Exit.isFailure(exit) && Cause.squash(exit.cause) === boom)
        assert.deepStrictEqual(results(done.state), ["failing failed: failing failed: boom"])
        assert.notInclude(JSON.stringify([done, seen.updates]), "userCode.test")
      })
    )
  }

  it.effect("is logged without a tracer, also in a sub-agent", () =>
    Effect.gen(function* () {
      const { logged, logs } = recording()
      const told: Array<ToolCallNotice> = []
      const failing = safe("failing", { handler: () => Effect.die(boom) })
      const sub = Agent.make("sub", { tools: [failing.tool] })
      const { runtime } = yield* bindCreated(
        Agent.make("lead", { subAgents: [sub] }),
        [
          { calls: [{ tool: "sub", arguments: { prompt: "go" } }] },
          { calls: [call("failing", "1")] },
          "tried",
          "done"
        ],
        { hooks: { onToolCall: (call) => told.push(call) } }
      )
      expect(yield* logged(runPrompt(runtime, { prompt: "go" })), "completed")
      assert.lengthOf(logs, 1)
      assert.deepInclude(logs[0]!.annotations, { agent: "sub", tool: "failing" })
      const failed = told.filter(({ status }) => status === "failed")
      assert.lengthOf(failed, 1)
      assert.strictEqual(Cause.squash(failed[0]!.cause!), boom)
    })
  )

  it.effect("is logged once for a retried body, after the last attempt", () =>
    Effect.gen(function* () {
      const { logged, logs } = recording()
      const failing = safe("failing", { handler: () => Effect.fail(boom), retry: Schedule.recurs(2) })
      const { runtime } = yield* bind(Agent.make("a", { tools: [failing.tool] }), [
        { calls: [call("failing", "1")] },
        "done"
      ])
      expect(yield* logged(runPrompt(runtime, { prompt: "go" })), "completed")
      assert.lengthOf(failing.ran, 3)
      assert.lengthOf(logs, 1)
    })
  )

  it.effect("is logged once for a rule, a preview, a risk, instructions and an approval callback", () =>
    Effect.gen(function* () {
      const { logged, logs, span, traced } = recording()
      const fail = () => Promise.reject(boom)
      const write = probe("write", { needsApproval: fail, risk: fail, preview: fail })
      const { runtime } = yield* bind(
        Agent.make("a", { tools: [write.tool] }),
        [{ calls: [call("write", "1")] }, "done"],
        { approvalCallback: fail }
      )
      const held = yield* logged(traced(runPrompt(runtime, { prompt: "go" })))
      only(held, "approval")
      const named = logs.map(({ annotations, text }) => [
        annotations["code"],
        annotations["tool"],
        text.includes("boom")
      ])
      assert.deepStrictEqual(named, [
        ["needsApproval", "write", true],
        ["preview", "write", true],
        ["risk", "write", true],
        ["approvalCallback", undefined, true]
      ])
      for (const name of [
        "needsApproval of write",
        "preview of write",
        "risk of write",
        "approvalCallback"
      ]) {
        const exit = exitOf(span(`fermata.${name}`))!
        assert.isTrue(Exit.isFailure(exit) && Cause.squash(exit.cause) === boom, name)
      }
      const told = recording()
      const confused = yield* bind(Agent.make("b", { instructions: fail }), [])
      const { error } = expect(yield* told.logged(runPrompt(confused.runtime, { prompt: "go" })), "error")
      assert.include(error.message, "The instructions of b failed: boom")
      assert.lengthOf(told.logs, 1)
      assert.deepInclude(told.logs[0]!.annotations, { code: "instructions", agent: "b" })
    })
  )

  it.effect("is logged once for a hook, and does not fail the run", () =>
    Effect.gen(function* () {
      const { logged, logs } = recording()
      const fail = () => Effect.fail(boom)
      const { runtime } = yield* bindCreated(
        Agent.make("a", { tools: [safe().tool] }),
        [{ calls: [call("safe", "1")] }, "done"],
        {
          hooks: {
            onTurn: (told) => (told.turn === 1 ? Promise.reject(boom) : undefined),
            onRunEnd: fail,
            onToolCall: ({ status }) => {
              if (status === "completed") throw boom
            }
          }
        }
      )
      const done = expect(yield* logged(runPrompt(runtime, { prompt: "go" })), "completed")
      yield* turn
      assert.sameDeepMembers(
        logs.map(({ annotations }) => annotations),
        ["onTurn", "onRunEnd", "onToolCall"].map((code) => ({ code, runId: done.runId, agent: "a" }))
      )
    })
  )

  it.effect("is logged once for a context policy and a model client", () =>
    Effect.gen(function* () {
      const fail = () => {
        throw boom
      }
      const { client } = ScriptedModel.make([])
      const making = {
        "context policy": Effect.provideService(bind(Agent.make("a"), []), ContextPolicy, { prepare: fail }),
        "model client": Effect.map(
          Effect.provideService(Runtime.make({ agent: Agent.make("a") }), ModelClient, {
            ...client,
            stream: fail
          }),
          (runtime) => ({ runtime })
        )
      }
      for (const [code, make] of Object.entries(making)) {
        const { logged, logs } = recording()
        const { runtime } = yield* make
        const { error } = expect(yield* logged(runPrompt(runtime, { prompt: "go" })), "error")
        assert.strictEqual(error._tag, "RunDefect")
        assert.lengthOf(logs, 1)
        assert.include(logs[0]!.text, `The ${code} of a failed. Error: boom`)
        assert.deepInclude(logs[0]!.annotations, { code, agent: "a" })
      }
    })
  )

  it.effect("is logged when a rule interrupts itself", () =>
    Effect.gen(function* () {
      const { logged, logs } = recording()
      const write = probe("write", { needsApproval: () => Effect.interrupt })
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [call("write", "1")] }
      ])
      only(yield* logged(runPrompt(runtime, { prompt: "go" })), "approval")
      assert.lengthOf(logs, 1)
    })
  )

  it.effect("is logged when a rule times out", () =>
    Effect.gen(function* () {
      const { logged, logs } = recording()
      const write = probe("write", { timeout: "1 second", needsApproval: () => Effect.never })
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [call("write", "1")] }
      ])
      const running = yield* Effect.forkChild(logged(runPrompt(runtime, { prompt: "go" })), {
        startImmediately: true
      })
      yield* TestClock.adjust("1 second")
      only(yield* Fiber.join(running), "approval")
      assert.lengthOf(logs, 1)
      assert.include(logs[0]!.text, "it did not answer within 1000 ms")
    })
  )

  it.effect("is not logged for a body interrupted by the cancellation of its run", () =>
    Effect.gen(function* () {
      const { logged, logs } = recording()
      const begun = yield* Deferred.make<void>()
      const slow = safe("slow", {
        handler: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [slow.tool] }), [
        { calls: [call("slow", "1")] }
      ])
      const token = Cancellation.make()
      const running = yield* Effect.forkChild(
        logged(runPrompt(runtime, { prompt: "go" }, { cancellation: token })),
        { startImmediately: true }
      )
      yield* Deferred.await(begun)
      token.cancel("enough")
      expect(yield* Fiber.join(running), "cancelled")
      assert.deepStrictEqual(logs, [])
    })
  )

  it.effect("is not logged for a rule interrupted by the cancellation of its run", () =>
    Effect.gen(function* () {
      const { logged, logs } = recording()
      const begun = yield* Deferred.make<void>()
      const write = probe("write", {
        needsApproval: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [call("write", "1")] }
      ])
      const token = Cancellation.make()
      const running = yield* Effect.forkChild(
        logged(runPrompt(runtime, { prompt: "go" }, { cancellation: token }))
      )
      yield* Deferred.await(begun)
      token.cancel("enough")
      expect(yield* Fiber.join(running), "cancelled")
      assert.deepStrictEqual(logs, [])
    })
  )

  it.effect("contains no secret in the log, in hooks and in its span", () =>
    Effect.gen(function* () {
      const secret = "canary-5e55a1b2c3d4"
      const { logged, logs, span, traced } = recording()
      const told: Array<ToolCallNotice> = []
      const error = Object.assign(new Error("refused"), { request: { headers: { key: secret } } })
      const failing = safe("failing", { handler: () => Effect.fail(error) })
      const { runtime } = yield* bindCreated(
        Agent.make("a", { tools: [failing.tool] }),
        [{ calls: [call("failing", "1")] }, "done"],
        { hooks: { onToolCall: (call) => told.push(call) } }
      ).pipe(Effect.provideService(Scrubber.Scrubber, Scrubber.make({ secrets: [secret] })))
      expect(yield* logged(traced(runPrompt(runtime, { prompt: "go" }))), "completed")
      const exit = exitOf(span("fermata.handler of failing"))!
      const causes = [told.at(-1)!.cause!, Exit.isFailure(exit) ? exit.cause : Cause.empty]
      for (const cause of causes) {
        assert.include(Cause.pretty(cause), "Error: refused")
        assert.notInclude(inspect(cause, { depth: 10 }), secret)
      }
      assert.include(logs[0]!.text, "Error: refused")
      assert.notInclude(logs[0]!.text, secret)
    })
  )

  it.effect("reaches the model with the encoded fields of a typed error, without secrets", () =>
    Effect.gen(function* () {
      const secret = "canary-5e55a1b2c3d4"
      class Late extends Schema.TaggedError<Late>()("Late", {
        until: Schema.DateTimeUtc,
        note: Schema.String
      }) {}
      const at = DateTime.makeUnsafe("2026-01-02T03:04:05Z")
      const scrubber = Scrubber.make({ secrets: [secret], paths: [{ path: "/home/ann", show: "~" }] })
      const tools = [
        safe("refuse", { handler: () => Effect.fail(new Refused({ code: 51 })) }),
        safe("late", {
          handler: () => Promise.reject(new Late({ until: at, note: `${secret} in /home/ann/x` }))
        }),
        safe("declared", {
          failure: Schema.Struct({ code: Schema.NumberFromString }),
          handler: () => Effect.fail({ code: 7, other: "hidden" })
        }),
        // With a declared failure schema, an error that does not match shows its message only.
        safe("undeclared", {
          failure: Schema.Struct({ code: Schema.Number }),
          handler: () => Promise.reject(new Error(new Refused({ code: 51 }).message))
        }),
        safe("plain", { handler: () => Effect.fail(new ToolFailure({ description: "In my words." })) })
      ]
      const { runtime } = yield* bind(Agent.make("a", { tools: tools.map(({ tool }) => tool) }), [
        { calls: tools.map(({ tool }, index) => call(tool.name, String(index))) },
        "done"
      ]).pipe(Effect.provideService(Scrubber.Scrubber, scrubber))
      const done = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(results(done.state), [
        'refuse failed: refuse failed: The card was refused.\n{"_tag":"Refused","code":51}',
        'late failed: late failed: Late\n{"_tag":"Late","until":"2026-01-02T03:04:05.000Z","note":"[REDACTED:secret] in ~/x"}',
        'declared failed: declared failed: an unknown error\n{"code":"7"}',
        "undeclared failed: undeclared failed: The card was refused.",
        "plain failed: plain failed: In my words."
      ])
    })
  )
})

describe("the signal of a call", () => {
  it.effect("is aborted before the handler's finalizers run", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const begun = yield* Deferred.make<void>()
      const noted = (what: string, { signal }: ToolContext) =>
        Effect.sync(() => {
          log.push(`${what}: ${signal.aborted ? (signal.reason as Error).message : "not aborted"}`)
        })
      const slow = Tool.make("slow", {
        safety: "readOnly",
        handler: (_, context) =>
          Deferred.succeed(begun, undefined).pipe(
            Effect.andThen(Effect.never),
            Effect.onInterrupt(() => noted("onInterrupt", context)),
            Effect.ensuring(noted("ensuring", context)),
            (effect) =>
              Effect.andThen(
                Effect.acquireRelease(noted("acquired", context), () => noted("released", context)),
                effect
              )
          )
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [slow] }), [{ calls: [{ tool: "slow" }] }])
      const token = Cancellation.make()
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }, { cancellation: token }), {
        startImmediately: true
      })
      yield* Deferred.await(begun)
      token.cancel("enough")
      expect(yield* Fiber.join(running), "cancelled")
      assert.deepStrictEqual(log, [
        "acquired: not aborted",
        "onInterrupt: enough",
        "ensuring: enough",
        "released: enough"
      ])
    })
  )

  it.effect("is aborted after the timeout, before the handler's finalizers run, in each attempt", () =>
    Effect.gen(function* () {
      const seen: Array<boolean> = []
      const slow = Tool.make("slow", {
        safety: "readOnly",
        timeout: "1 second",
        retry: Schedule.recurs(1),
        handler: (_, { signal }) =>
          Effect.onInterrupt(Effect.never, () => Effect.sync(() => seen.push(signal.aborted)))
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [slow] }), [
        { calls: [{ tool: "slow" }] },
        "done"
      ])
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }), {
        startImmediately: true
      })
      yield* TestClock.adjust("1 second")
      yield* TestClock.adjust("1 second")
      expect(yield* Fiber.join(running), "completed")
      assert.deepStrictEqual(seen, [true, true])
    })
  )
})

describe("a handler that throws", () => {
  for (const how of ["without", "with"]) {
    it.effect(`is retried by its schedule, ${how} a tracer`, () =>
      Effect.gen(function* () {
        let tries = 0
        const look = Tool.make("look", {
          safety: "readOnly",
          retry: Schedule.recurs(3),
          handler: () => {
            tries += 1
            if (tries < 3) throw new Error("not yet")
            return "seen"
          }
        })
        const { runtime } = yield* bind(Agent.make("a", { tools: [look] }), [
          { calls: [{ tool: "look" }] },
          "done"
        ])
        const running = runPrompt(runtime, { prompt: "go" })
        expect(yield* how === "with" ? recording().traced(running) : running, "completed")
        assert.strictEqual(tries, 3)
      })
    )
  }
})
