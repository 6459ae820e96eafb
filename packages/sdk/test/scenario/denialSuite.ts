/**
 * Denied calls that the model makes again, in every way to pass a run on.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import { reopenInState } from "../../src/domain/reopenInState.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { reopenRequest } from "../../src/durable/reopenRequest.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import type { RunResult } from "../../src/run/RunResult.ts"
import type { RunStore } from "../../src/store/RunStore.ts"
import type { RunStoreError } from "../../src/store/RunStoreError.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import {
  approvalOf,
  approve,
  bind,
  call,
  deny,
  events,
  expect,
  only,
  probe,
  rebind,
  results,
  watch
} from "../helpers/Fixture.ts"
import type { Mode } from "./Mode.ts"

const again = "ann denied the same call before. It has not run, and is not asked about again."

export const denialSuite = (mode: Mode) => {
  /** Reopens a request of a result, and returns the result with which the run goes on. */
  const reopened = <Output>(result: RunResult<Output>, { requestId }: Interruption, by: string = "ben") =>
    mode.isStored
      ? Effect.as(reopenRequest(requestId, { by, note: "The freeze is over." }), result)
      : Effect.map(
          Effect.clockWith((clock) => clock.currentTimeMillis),
          (at) => {
            const state = reopenInState(result.state, requestId, { by, note: "The freeze is over.", at })
            return { ...result, state: Result.getOrThrow(state) }
          }
        )

  describe(`a denied call, ${mode.name}`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
      it.effect(
        title,
        () => Effect.provide(body, Layer.fresh(mode.layer)) as Effect.Effect<void, unknown | RunStoreError>
      )

    test(
      "is not asked about again in its run, and the model reads who denied it, why, and the note",
      Effect.gen(function* () {
        const write = probe("write")
        const { model, runtime } = yield* bind(Agent.make("keeper", { tools: [write.tool] }), [
          { calls: [call("write", "1")] },
          { calls: [call("write", "1"), call("write", "2")] },
          "done"
        ])
        const held = yield* mode.start(runtime, "go")
        const first = only(held, "approval")
        const decisions = [deny(first, { message: "Not in production.", note: "frozen" })]
        const { onUpdate, updates } = watch()
        const other = yield* mode.resume(runtime, held, { decisions }, { onUpdate })
        // The call with other arguments is asked about.
        const second = only(other, "approval")
        assert.deepStrictEqual(second.arguments, { id: "2" })
        const denied = events(updates).find((event) => event._tag === "tool.denied")
        assert.deepInclude(denied, { requestId: first.requestId })
        const done = expect(yield* mode.resume(runtime, other, { decisions: [approve(second)] }), "completed")
        assert.deepStrictEqual(results(done.state), [
          "write denied: Not in production.\n\nNote: frozen",
          `write denied: ${again}\n\nNot in production.\n\nNote: frozen`,
          "write completed: write:2"
        ])
        assert.deepStrictEqual(write.ran, ["2"])
        assert.lengthOf(model.requests, 3)
      })
    )

    test(
      "is asked about again after a person reopens it, runs only when it is approved, and sticks again when it is denied again",
      Effect.gen(function* () {
        const write = probe("write")
        const { model, runtime } = yield* bind(Agent.make("keeper", { tools: [write.tool] }), [
          { calls: [call("write", "1"), call("write", "wait")] },
          { calls: [call("write", "1")] },
          { calls: [call("write", "1")] },
          "done"
        ])
        const held = yield* mode.start(runtime, "go")
        const [first, waiting] = [approvalOf(held, "1"), approvalOf(held, "wait")]
        const half = yield* mode.resume(runtime, held, { decisions: [deny(first)] })
        const opened = yield* reopened(yield* reopened(half, first), first)
        const asked = yield* mode.resume(runtime, opened, { decisions: [approve(waiting)] })
        const message = JSON.stringify(model.requests[1]?.messages.at(-1))
        assert.include(message, "ben reopened the denied call")
        assert.include(message, "Note: The freeze is over.")
        const second = only(asked, "approval")
        assert.strictEqual(second.digest, first.digest)
        assert.deepStrictEqual(write.ran, ["wait"])
        const record = asked.state.requests.find(({ request }) => request.requestId === first.requestId)
        assert.deepInclude(record?.reopened, { by: "ben" })
        assert.deepInclude(record?.decision, { _tag: "deny", by: "ann" })
        yield* TestClock.adjust("1 second")
        const done = expect(yield* mode.resume(runtime, asked, { decisions: [deny(second)] }), "completed")
        assert.strictEqual(results(done.state).at(-1), `write denied: ${again}`)
        assert.deepStrictEqual(write.ran, ["wait"])
      })
    )

    test(
      "is reopened once: a repetition before the run goes on sends no second message",
      Effect.gen(function* () {
        const write = probe("write")
        const { model, runtime } = yield* bind(Agent.make("keeper", { tools: [write.tool] }), [
          { calls: [call("write", "1"), call("write", "wait")] },
          "done"
        ])
        const held = yield* mode.start(runtime, "go")
        const [first, waiting] = [approvalOf(held, "1"), approvalOf(held, "wait")]
        const half = yield* mode.resume(runtime, held, { decisions: [deny(first)] })
        const opened = yield* reopened(yield* reopened(half, first), first, "cleo")
        expect(yield* mode.resume(runtime, opened, { decisions: [approve(waiting)] }), "completed")
        const heard = JSON.stringify(model.requests[1]?.messages)
        assert.deepStrictEqual(heard.match(/\w+ reopened the denied call/g), ["ben reopened the denied call"])
      })
    )

    test(
      "is not let through by a grant, which later calls with other arguments have",
      Effect.gen(function* () {
        const write = probe("write")
        const { runtime } = yield* bind(Agent.make("keeper", { tools: [write.tool] }), [
          { calls: [call("write", "1"), call("write", "2")] },
          { calls: [call("write", "1"), call("write", "3")] },
          "done"
        ])
        const held = yield* mode.start(runtime, "go")
        const half = yield* mode.resume(runtime, held, { decisions: [deny(approvalOf(held, "1"))] })
        yield* TestClock.adjust("1 second")
        const grant = { scope: "run", arguments: {} } as const
        const decisions = [approve(approvalOf(half, "2"), { grant })]
        const done = expect(yield* mode.resume(runtime, half, { decisions }), "completed")
        assert.deepStrictEqual(write.ran, ["2", "3"])
        assert.include(results(done.state), `write denied: ${again}`)
      })
    )

    test(
      "is not let through by a rule of its tool that no longer asks",
      Effect.gen(function* () {
        let asks = true
        const write = probe("write", { needsApproval: () => asks })
        const { runtime } = yield* bind(Agent.make("keeper", { tools: [write.tool] }), [
          { calls: [call("write", "1")] },
          { calls: [call("write", "1"), call("write", "2")] },
          "done"
        ])
        const held = yield* mode.start(runtime, "go")
        asks = false
        const decisions = [deny(only(held, "approval"))]
        const done = expect(yield* mode.resume(runtime, held, { decisions }), "completed")
        assert.deepStrictEqual(write.ran, ["2"])
        assert.strictEqual(results(done.state)[1], `write denied: ${again}`)
      })
    )

    test(
      "is asked about again if an expiry denied it",
      Effect.gen(function* () {
        const write = probe("write", { approval: { expiresIn: "1 hour" } })
        const { runtime } = yield* bind(Agent.make("keeper", { tools: [write.tool] }), [
          { calls: [call("write", "1")] },
          { calls: [call("write", "1")] },
          "done"
        ])
        const held = yield* mode.start(runtime, "go")
        const first = only(held, "approval")
        yield* TestClock.adjust("2 hours")
        const asked = yield* mode.resume(runtime, held)
        const second = only(asked, "approval")
        assert.deepStrictEqual([second.digest, second.requestId !== first.requestId], [first.digest, true])
      })
    )

    test(
      "leaves an equal call of the same answer open, whose approval lifts the denial",
      Effect.gen(function* () {
        const write = probe("write")
        const { runtime } = yield* bind(Agent.make("keeper", { tools: [write.tool] }), [
          { calls: [call("write", "1"), { ...call("write", "1"), id: "twin" }] },
          { calls: [call("write", "1")] },
          "done"
        ])
        const held = yield* mode.start(runtime, "go")
        const [one, twin] = expect(held, "interrupted").interruptions
        const half = yield* mode.resume(runtime, held, { decisions: [deny(one!)] })
        assert.strictEqual(only(half, "approval").requestId, twin!.requestId)
        yield* TestClock.adjust("1 second")
        const asked = yield* mode.resume(runtime, half, { decisions: [approve(twin!)] })
        assert.deepStrictEqual(write.ran, ["1"])
        only(asked, "approval")
      })
    )

    test(
      "runs if a person edits another call to its arguments, and is asked about after that",
      Effect.gen(function* () {
        const write = probe("write")
        const { runtime } = yield* bind(Agent.make("keeper", { tools: [write.tool] }), [
          { calls: [call("write", "1"), call("write", "2")] },
          { calls: [call("write", "1")] },
          "done"
        ])
        const held = yield* mode.start(runtime, "go")
        const half = yield* mode.resume(runtime, held, { decisions: [deny(approvalOf(held, "1"))] })
        yield* TestClock.adjust("1 second")
        const decisions = [approve(approvalOf(half, "2"), { arguments: { id: "1" } })]
        const asked = yield* mode.resume(runtime, half, { decisions })
        assert.deepStrictEqual(write.ran, ["1"])
        only(asked, "approval")
      })
    )

    test(
      "is asked about again in the next run of its session, and when its tool's schema has changed",
      Effect.gen(function* () {
        const write = probe("write")
        const agent = Agent.make("keeper", { tools: [write.tool] })
        const { model, runtime } = yield* bind(agent, [
          { calls: [call("write", "1"), call("write", "2")] },
          { calls: [call("write", "1")] },
          "done",
          { calls: [call("write", "1")] }
        ])
        const held = yield* mode.start(runtime, "go")
        const half = yield* mode.resume(runtime, held, { decisions: [deny(approvalOf(held, "1"))] })
        const wider = Tool.make("write", {
          parameters: Schema.Struct({ id: Schema.String, mode: Schema.optionalKey(Schema.String) }),
          handler: ({ id }) => id
        })
        const { runtime: changed } = yield* rebind(Agent.make("keeper", { tools: [wider] }), model)
        const asked = yield* mode.resume(changed, half, { decisions: [deny(approvalOf(half, "2"))] })
        const decisions = [deny(only(asked, "approval"))]
        expect(yield* mode.resume(changed, asked, { decisions }), "completed")
      })
    )

    test(
      "is not asked about again by a sub-agent that is started once more, attached or in the background",
      Effect.gen(function* () {
        for (const background of [false, true]) {
          const write = probe("write")
          const child = Agent.make("child", { tools: [write.tool] })
          const start = {
            calls: [{ tool: "delegate", arguments: { agent: "child", prompt: "do", background } }]
          }
          const script = (request: ModelRequest) => {
            const results = request.messages.filter(({ role }) => role === "tool").length
            if (request.agentPath.length > 1)
              return results === 0 ? { calls: [call("write", "1")] } : "denied"
            const reports = JSON.stringify(request.messages).split("denied").length - 1
            if (background && results > reports) return "waiting"
            return results < 2 ? start : "done"
          }
          const lead = Agent.make("lead", { subAgents: [child], delegation: "delegate" })
          const { runtime } = yield* rebind(lead, ScriptedModel.make(script))
          const held = yield* mode.start(runtime, "go")
          const { onUpdate, updates } = watch()
          const decisions = [deny(only(held, "approval"))]
          expect(yield* mode.resume(runtime, held, { decisions }, { onUpdate }), "completed")
          const denied = events(updates).flatMap((event) => {
            const { event: inner } = unwrap(event)
            return inner._tag === "tool.denied" ? [inner.requestId] : []
          })
          assert.deepStrictEqual(denied, [only(held, "approval").requestId])
          assert.deepStrictEqual(write.ran, [])
        }
      })
    )

    test(
      "stands for an equal call that was let through before the denial and has not started",
      Effect.gen(function* () {
        let asked = 0
        // The rule asks about the first call, and lets the equal one of the other sub-agent through.
        const write = probe("write", { needsApproval: ({ id }) => id === "9" || (asked += 1) === 1 })
        const child = Agent.make("child", { tools: [write.tool] })
        const start = { tool: "child", arguments: { prompt: "do" } }
        const script = ({ agentPath, messages, runId }: ModelRequest) => {
          if (messages.some(({ role }) => role === "tool")) return "done"
          if (agentPath.length === 1) return { calls: [start, { ...start, id: "second" }] }
          return {
            calls: runId.endsWith(".2") ? [call("write", "9"), call("write", "1")] : [call("write", "1")]
          }
        }
        const lead = Agent.make("lead", { subAgents: [child] })
        const { runtime } = yield* rebind(lead, ScriptedModel.make(script))
        const held = yield* mode.start(runtime, "go")
        const half = yield* mode.resume(runtime, held, { decisions: [deny(approvalOf(held, "1"))] })
        const decisions = [approve(approvalOf(half, "9"))]
        expect(yield* mode.resume(runtime, half, { decisions }), "completed")
        assert.deepStrictEqual(write.ran, ["9"])
      })
    )

    test(
      "cannot be reopened while it is open, after an approval, by a program, or without a request",
      Effect.gen(function* () {
        const write = probe("write")
        const { runtime } = yield* bind(Agent.make("keeper", { tools: [write.tool] }), [
          { calls: [call("write", "1"), call("write", "2"), call("write", "3")] }
        ])
        const held = yield* mode.start(runtime, "go")
        const [first, second] = [approvalOf(held, "1"), approvalOf(held, "2")]
        const half = yield* mode.resume(runtime, held, { decisions: [approve(first), deny(second)] })
        let last: RunResult<unknown> = half
        const refusal = (request: Interruption, by: Parameters<typeof reopenRequest>[1]["by"]) =>
          mode.isStored
            ? Effect.flip(reopenRequest(request.requestId, { by }))
            : Effect.flip(Effect.fromResult(reopenInState(last.state, request.requestId, { by, at: 0 })))
        const tag = (request: Interruption, by: Parameters<typeof reopenRequest>[1]["by"] = "ben") =>
          Effect.map(refusal(request, by), (error) => error._tag)
        assert.strictEqual(yield* tag(approvalOf(half, "3")), "RequestNotDenied")
        assert.strictEqual(yield* tag(first), "RequestNotDenied")
        assert.strictEqual(yield* tag(second, { id: "bot", kind: "agent" }), "PrincipalInvalid")
        const { requestId } = second
        const unknown = { ...second, requestId: requestId.replace(/\d+$/, "99") as typeof requestId }
        assert.strictEqual(yield* tag(unknown), "RequestNotFound")
        const decisions: ReadonlyArray<DecisionInput> = [
          deny(approvalOf(half, "3"), { then: "stop", message: "enough" })
        ]
        last = yield* mode.resume(runtime, half, { decisions })
        expect(last, "cancelled")
        assert.strictEqual(yield* tag(second), "RunEnded")
      })
    )
  })
}
