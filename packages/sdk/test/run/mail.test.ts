import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { interruptions, messages } from "../../src/domain/RunState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import * as Mailbox from "../../src/run/Mailbox.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import {
  approve,
  assertValid,
  bind,
  call,
  expect,
  only,
  probe,
  rebind,
  results,
  safe,
  transcript
} from "../helpers/Fixture.ts"

/** A tool whose body waits until it is opened. */
const gate = () => {
  const begun = Deferred.makeUnsafe<void>()
  const open = Deferred.makeUnsafe<void>()
  const { tool } = safe("gate", {
    handler: () =>
      Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(open)), "through")
  })
  return { tool, begun: Deferred.await(begun), open: Deferred.succeed(open, undefined) }
}

/** Repeats the query until it finds something. */
const eventually = <A, E, R>(
  ask: Effect.Effect<ReadonlyArray<A>, E, R>
): Effect.Effect<ReadonlyArray<A>, E, R> =>
  Effect.repeat(Effect.andThen(Effect.yieldNow, ask), { until: (found) => found.length > 0 })

const streamAfter = <A, E>(first: Effect.Effect<void>, stream: Stream.Stream<A, E>): Stream.Stream<A, E> =>
  Stream.unwrap(Effect.as(first, stream))

describe("mail", () => {
  it.effect("to a working run is read before its next turn, never between a call and its result", () =>
    Effect.gen(function* () {
      const { begun, open, tool } = gate()
      const { model, runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [
        { calls: [call("gate", "1")] },
        "heard"
      ])
      const mailbox = Mailbox.make()
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }, { mailbox }))
      yield* begun
      yield* mailbox.send("by the way")
      yield* open
      const { state } = expect(yield* Fiber.join(running), "completed")
      assert.deepStrictEqual(transcript(state), [
        "user: go",
        "assistant: (gate)",
        "tool: through",
        "user: by the way",
        "assistant: heard"
      ])
      assert.strictEqual(model.requests.length, 2)
      assertValid(state)
      const late = yield* Effect.flip(mailbox.send("too late"))
      assert.strictEqual(late._tag, "RunEnded")
    })
  )

  it.effect("that arrives during the last answer keeps the run from ending", () =>
    Effect.gen(function* () {
      const mailbox = Mailbox.make()
      const { runtime } = yield* bind(Agent.make("a"), [
        () => {
          Effect.runSync(mailbox.send("one more thing"))
          return "done, I thought"
        },
        "now it is done"
      ])
      const { state, text } = expect(yield* runPrompt(runtime, { prompt: "go" }, { mailbox }), "completed")
      assert.strictEqual(text, "now it is done")
      assert.deepStrictEqual(
        messages(state).map(({ role }) => role),
        ["user", "assistant", "user", "assistant"]
      )
    })
  )

  it.effect("with a decision resumes a sub-agent while its parent works", () =>
    Effect.gen(function* () {
      const { begun, open, tool } = gate()
      const write = probe("write")
      const asked = Deferred.makeUnsafe<void>()
      const written = Deferred.makeUnsafe<void>()
      const lead = Agent.make("lead", {
        tools: [tool],
        subAgents: [Agent.make("writer", { tools: [write.tool] })],
        delegation: "delegate"
      })
      const { runtime } = yield* rebind(
        lead,
        ScriptedModel.make(({ agentPath, turn }) => {
          if (agentPath.length > 1) return turn === 1 ? { calls: [call("write", "1")] } : "written"
          return turn === 1
            ? {
                calls: [{ tool: "delegate", arguments: { agent: "writer", prompt: "do", background: true } }]
              }
            : turn === 2
              ? { calls: [call("gate", "1")] }
              : "done"
        })
      )
      const mailbox = Mailbox.make()
      const running = yield* Effect.forkChild(
        runPrompt(
          runtime,
          { prompt: "go" },
          {
            mailbox,
            onUpdate: (update) => {
              const text = JSON.stringify(update)
              if (text.includes('"request.opened"')) Effect.runSync(Deferred.succeed(asked, undefined))
              if (text.includes('"tool.completed"') && text.includes("write:1")) {
                Effect.runSync(Deferred.succeed(written, undefined))
              }
            }
          }
        )
      )
      yield* Effect.all([begun, Deferred.await(asked)])
      const [request] = interruptions(mailbox.state()!)
      yield* mailbox.decide(approve(request!))
      const twice = yield* Effect.flip(mailbox.decide({ ...approve(request!), by: "bob" }))
      assert.strictEqual(twice._tag, "AlreadyDecided")
      yield* open
      yield* Deferred.await(written)
      const { state } = expect(yield* Fiber.join(running), "completed")
      assert.deepStrictEqual(write.ran, ["1"])
      assertValid(state)
    })
  )

  it.effect("with a decision resumes a nested sub-agent while its parent waits for another", () =>
    Effect.gen(function* () {
      const { begun, open, tool } = gate()
      const write = probe("write")
      const asked = Deferred.makeUnsafe<void>()
      const release = probe("release", { needsApproval: false, handler: () => Effect.as(open, "released") })
      const writer = Agent.make("writer", { tools: [write.tool, release.tool] })
      const subAgents = [writer, Agent.make("waiter", { tools: [tool] })]
      const middle = Agent.make("middle", { subAgents, delegation: "delegate" })
      const lead = Agent.make("lead", { subAgents: [middle], delegation: "delegate" })
      const to = (agent: string) => ({ tool: "delegate", arguments: { agent, prompt: "do" } })
      const { runtime } = yield* rebind(
        lead,
        ScriptedModel.make(({ agentPath, turn }) => {
          switch (agentPath.at(-1)) {
            case "lead":
              return turn === 1 ? { calls: [to("middle")] } : "done"
            case "middle":
              return turn === 1 ? { calls: [to("writer"), to("waiter")] } : "both"
            case "waiter":
              return turn === 1 ? { calls: [call("gate", "1")] } : "waited"
            default:
              return turn < 3 ? { calls: [call(turn === 1 ? "write" : "release", "1")] } : "written"
          }
        })
      )
      const mailbox = Mailbox.make()
      const onUpdate = (update: unknown) => {
        if (JSON.stringify(update).includes('"request.opened"'))
          Effect.runSync(Deferred.succeed(asked, undefined))
      }
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }, { mailbox, onUpdate }))
      yield* Effect.all([begun, Deferred.await(asked)])
      const [request] = interruptions(mailbox.state()!)
      yield* mailbox.decide(approve(request!))
      const { state } = expect(yield* Fiber.join(running), "completed")
      assert.deepStrictEqual(results(state), ["delegate completed: both"])
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )

  it.effect("in a store reaches a working run and decides for its background sub-agent", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      const write = probe("write")
      const lead = Agent.make("lead", {
        subAgents: [Agent.make("writer", { tools: [write.tool] }), Agent.make("slow")],
        delegation: "delegate"
      })
      const release = Deferred.makeUnsafe<void>()
      const model = ScriptedModel.make(({ agentPath, turn }) => {
        const name = agentPath.at(-1)
        if (name === "writer") return turn === 1 ? { calls: [call("write", "1")] } : "written"
        if (name === "slow") return "slow is done"
        return turn === 1
          ? {
              calls: ["writer", "slow"].map((agent) => ({
                tool: "delegate",
                arguments: { agent, prompt: "do", background: true }
              }))
            }
          : `turn ${turn}`
      })
      const slowly: ScriptedModel.ScriptedModel = {
        ...model,
        client: {
          ...model.client,
          stream: (request) =>
            request.agentPath.at(-1) === "slow"
              ? streamAfter(Deferred.await(release), model.client.stream(request))
              : model.client.stream(request)
        }
      }
      const { runtime } = yield* rebind(lead, slowly)
      const runId = "run-1" as RunId
      const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }))
      // The writer's request is in the inbox while the other sub-agent works.
      const [pending] = yield* eventually(store.pending({ runId }))
      assert.deepStrictEqual(pending?.request.agentPath, ["lead", "writer"])
      assert.strictEqual((yield* store.head(runId)).status, "running")
      yield* store.decide(approve(pending!.request))
      yield* sendMessage(runId, "hurry up", { messageId: "m1" })
      yield* sendMessage(runId, "hurry up", { messageId: "m1" })
      yield* eventually(Effect.map(store.messages(runId), (left) => (left.length === 0 ? ["taken"] : [])))
      yield* Deferred.succeed(release, undefined)
      const { state } = expect(yield* Fiber.join(running), "completed")
      assert.deepStrictEqual(write.ran, ["1"])
      assert.strictEqual(transcript(state).filter((line) => line === "user: hurry up").length, 1)
      assertValid(state)
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("to a held run is read after its open calls are settled", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [call("write", "1")] },
        "both heard"
      ])
      const held = yield* runPromptStored(runtime, { prompt: "go" })
      const { runId } = held
      yield* sendMessage(runId, "meanwhile")
      const still = yield* runPromptStored(runtime, { runId })
      const decisions = [approve(only(still, "approval"))]
      const { state } = expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
      assert.deepStrictEqual(transcript(state).slice(-3), [
        "tool: write:1",
        "user: meanwhile",
        "assistant: both heard"
      ])
      const late = yield* Effect.flip(sendMessage(runId, "too late"))
      assert.strictEqual(late._tag, "RunEnded")
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("that cancels a run takes effect before the body of the next call", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      const write = probe("write", { needsApproval: false })
      const runId = "run-2" as RunId
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        () => {
          Effect.runSync(store.requestCancel(runId, "no more"))
          return { calls: [call("write", "1")] }
        }
      ])
      const { reason } = expect(yield* runPromptStored(runtime, { prompt: "go", runId }), "cancelled")
      assert.strictEqual(reason, "no more")
      assert.deepStrictEqual(write.ran, [])
    }).pipe(Effect.provide(layerMemory))
  )
})
