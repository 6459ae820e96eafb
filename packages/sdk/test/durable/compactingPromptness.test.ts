/**
 * Decisions, messages and cancellations that another process writes into the store while a run waits for the summary of a compaction.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as ContextPolicy from "../../src/context/ContextPolicy.ts"
import type { RunId, SessionId } from "../../src/domain/Id.ts"
import { textOf } from "../../src/domain/Message.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import * as Tokenizer from "../../src/model/Tokenizer.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, call, expect, probe, rebind, safe } from "../helpers/Fixture.ts"

const runId = "run" as RunId
const sessionId = "session" as SessionId

const until = (isSo: () => boolean) => Effect.repeat(Effect.yieldNow, { until: () => isSo() })

/** A run that notices nothing would wait for ever. */
const patienceMs = 20_000

const stored = (name: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(name, () => Effect.provide(body, Layer.fresh(layerMemory)), patienceMs)

const isSummary = ({ messages, tools }: ModelRequest): boolean =>
  tools.length === 0 && textOf(messages[0]?.content ?? []).includes("record of the conversation")

const long = (index: number) => `Fact ${index}. ${"More words follow here. ".repeat(60)}`

/** A model whose summaries take five minutes, and that answers each agent from its own script in the run under test. */
const modelOf = (answers: {
  readonly [agent: string]: ReadonlyArray<ScriptedModel.ScriptedAnswer | string>
}) =>
  ScriptedModel.make(
    (request) =>
      isSummary(request)
        ? { text: "Facts.", delay: "5 minutes" }
        : ((request.runId === runId || request.agentPath.length > 1
            ? answers[request.agentPath.at(-1) ?? ""]?.[request.turn - 1]
            : undefined) ?? "Noted."),
    { tokenizer: Tokenizer.estimate, contextTokens: 8000 }
  )

/** Starts the run in a session that is almost full, and waits until its compaction is under way. */
const compacting = Effect.fnUntraced(function* (
  agent: Agent.Agent,
  model: ScriptedModel.ScriptedModel,
  { before, prompt }: { readonly before: number; readonly prompt: string }
) {
  const { runtime } = yield* Effect.provideService(
    rebind(agent, model),
    ContextPolicy.ContextPolicy,
    ContextPolicy.compacting()
  )
  for (let index = 0; index < before; index += 1) {
    expect(yield* runPromptStored(runtime, { prompt: long(index), sessionId }), "completed")
  }
  const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt, runId, sessionId }))
  yield* until(() => model.requests.some(isSummary))
  return running
})

const finish = <A, E>(running: Fiber.Fiber<A, E>) =>
  Effect.andThen(TestClock.adjust("10 minutes"), Fiber.join(running))

describe("a run that waits for the summary of a compaction", () => {
  stored(
    "is cancelled without waiting for the summary",
    Effect.gen(function* () {
      const running = yield* compacting(Agent.make("clerk"), modelOf({}), { before: 5, prompt: long(5) })
      yield* cancelRun(runId, "enough")
      assert.strictEqual(expect(yield* Fiber.join(running), "cancelled").reason, "enough")
    })
  )

  stored(
    "reads a message that is sent meanwhile in the model call that follows",
    Effect.gen(function* () {
      const model = modelOf({})
      const running = yield* compacting(Agent.make("clerk"), model, { before: 5, prompt: long(5) })
      yield* sendMessage(runId, "also this")
      expect(yield* finish(running), "completed")
      const summaryAt = model.requests.findIndex(isSummary)
      assert.include(JSON.stringify(model.requests[summaryAt + 1]?.messages), "also this")
    })
  )

  stored(
    "does not keep its background sub-agent from going on when a request is decided",
    Effect.gen(function* () {
      const write = probe("write", { needsApproval: true })
      const lead = Agent.make("lead", {
        subAgents: [Agent.make("writer", { tools: [write.tool] })],
        delegation: "delegate",
        tools: [safe("look", { handler: () => Effect.succeed(long(0).repeat(3)) }).tool]
      })
      const background = { tool: "delegate", arguments: { agent: "writer", prompt: "do", background: true } }
      const model = modelOf({
        lead: [{ calls: [background] }, { calls: [call("look", "1")] }, { calls: [call("look", "2")] }],
        writer: [{ calls: [call("write", "1")] }]
      })
      const running = yield* compacting(lead, model, { before: 3, prompt: long(3) })
      const store = yield* RunStore
      const [entry] = yield* Effect.repeat(Effect.andThen(Effect.yieldNow, store.pending()), {
        until: ({ length }) => length === 1
      })
      yield* store.decide(approve(entry!.request))
      yield* until(() => write.ran.length === 1)
      assert.isUndefined(running.pollUnsafe())
      yield* finish(running)
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )
})
