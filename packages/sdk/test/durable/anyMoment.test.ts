/**
 * A message, a decision on a request of a background sub-agent and a cancellation, each in every moment of a run. The clock stands still, so
 * that what has to wait for the end of a turn does not happen.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as ContextPolicy from "../../src/context/ContextPolicy.ts"
import type { RequestId, RunId } from "../../src/domain/Id.ts"
import { isEnded } from "../../src/domain/RunState.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import * as Worker from "../../src/durable/Worker.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { assertValid, call, probe, rebind, safe } from "../helpers/Fixture.ts"

const runId = "run" as RunId

const stored = (name: string, body: Effect.Effect<void, unknown, RunStore | Scope.Scope>) =>
  it.effect(name, () => Effect.scoped(Effect.provide(body, Layer.fresh(layerMemory))), 20_000)

/** Repeats a check until it holds. */
const until = <E, R>(check: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(Effect.andThen(Effect.yieldNow, check), { until: (holds) => holds })

const delegate = (agent: string, isBackground: boolean) => ({
  tool: "delegate",
  arguments: { agent, prompt: "do", background: isBackground }
})

/** A turn of the lead, and what has begun when it is in the middle of it. */
interface Moment {
  readonly answer: ScriptedModel.ScriptedAnswer
  readonly begun: string
}

/** The turns of the lead. All but the last take five minutes. */
const moments: Readonly<Record<string, Moment>> = {
  "a model call": { answer: { text: "hm", delay: "5 minutes" }, begun: "lead 2" },
  "a slow read-only tool": { answer: { calls: [call("look", "1")] }, begun: "look 1" },
  "a slow tool with effects": { answer: { calls: [call("slow", "1")] }, begun: "slow 1" },
  "parallel tools": { answer: { calls: [call("look", "1"), call("look", "2")] }, begun: "look 2" },
  "a sub-agent that it waits for": { answer: { calls: [delegate("helper", false)] }, begun: "helper 1" },
  "another sub-agent in the background": { answer: { calls: [delegate("helper", true)] }, begun: "helper 1" },
  "the preparation of its context": { answer: { text: "hm" }, begun: "prepare 2" },
  "a hold": { answer: { calls: [call("pay", "1")] }, begun: "held" }
}

/** Brings a lead to a moment while a sub-agent in the background waits for an approval. A worker resumes the run if it is parked. */
const at = Effect.fnUntraced(function* (name: string) {
  const { answer, begun } = moments[name]!
  const store = yield* RunStore
  const seen: Array<string> = []
  const slowly = (name: string) =>
    Effect.suspend(() => {
      seen.push(name)
      return Effect.as(Effect.sleep("5 minutes"), "done")
    })
  const write = probe("write")
  const lead = Agent.make("lead", {
    delegation: "delegate",
    subAgents: [Agent.make("writer", { tools: [write.tool] }), Agent.make("helper")],
    tools: [
      safe("look", { handler: ({ id }) => slowly(`look ${id}`) }).tool,
      probe("slow", { needsApproval: false, handler: ({ id }) => slowly(`slow ${id}`) }).tool,
      probe("pay").tool
    ]
  })
  const answers: Readonly<Record<string, ReadonlyArray<ScriptedModel.ScriptedAnswer>>> = {
    lead: [{ calls: [delegate("writer", true)] }, answer],
    writer: [{ calls: [call("write", "1")] }],
    helper: [{ text: "hm", delay: "5 minutes" }]
  }
  const model = ScriptedModel.make((request: ModelRequest) => {
    const agent = request.agentPath.at(-1) ?? ""
    seen.push(`${agent} ${request.turn}`)
    return answers[agent]?.[request.turn - 1] ?? `${agent} is done`
  })
  let prepared = 0
  const policy: ContextPolicy.ContextPolicy = {
    prepare: (input) =>
      Effect.suspend(() => {
        const isSecond = JSON.stringify(input.messages).includes("delegate") && ++prepared === 1
        const context = ContextPolicy.everything.prepare(input)
        return isSecond && begun === "prepare 2" ? Effect.andThen(slowly("prepare 2"), context) : context
      })
  }
  const { runtime } = yield* Effect.provideService(rebind(lead, model), ContextPolicy.ContextPolicy, policy)
  yield* Effect.forkScoped(runPromptStored(runtime, { prompt: "go", runId }))
  yield* Effect.forkScoped(Worker.run([runtime], { pollInterval: "1 hour" }))
  const pending = Effect.map(store.pending(), (all) => all.map(({ request }) => request))
  const requestOf = (agent: string) =>
    Effect.map(pending, (all) => all.find(({ agentPath }) => agentPath.at(-1) === agent)?.requestId)
  const isHeld = Effect.map(
    Effect.all([requestOf("lead"), store.head(runId)]),
    ([own, head]) => own !== undefined && head.lease === undefined
  )
  yield* until(
    begun === "held" ? Effect.orElseSucceed(isHeld, () => false) : Effect.sync(() => seen.includes(begun))
  )
  yield* until(Effect.map(requestOf("writer"), (own) => own !== undefined))
  return { model, requestOf, store, write }
})

const decide = (requestId: RequestId | undefined) =>
  RunStore.use((store) => store.decide({ _tag: "approve", requestId: requestId!, by: "ann" }))

const hasEnded = Effect.map(loadState(runId), isEnded)

describe("during", () => {
  for (const name of Object.keys(moments)) {
    stored(
      `${name} of a lead, the approved call of a sub-agent in the background runs`,
      Effect.gen(function* () {
        const { requestOf, write } = yield* at(name)
        yield* decide(yield* requestOf("writer"))
        yield* until(Effect.sync(() => write.ran.length === 1))
      })
    )

    stored(
      `${name} of a lead, the run ends when it is cancelled`,
      Effect.gen(function* () {
        const { store } = yield* at(name)
        yield* store.requestCancel(runId, "enough")
        yield* until(hasEnded)
        const state = yield* loadState(runId)
        assert.strictEqual(state.status, "cancelled")
        assertValid(state)
      })
    )

    stored(
      `${name} of a lead, a message is in the next model call that is prepared`,
      Effect.gen(function* () {
        const { model, requestOf } = yield* at(name)
        yield* sendMessage(runId, "also this")
        const before = model.requests.length
        const own = yield* requestOf("lead")
        if (own !== undefined) yield* decide(own)
        yield* decide(yield* requestOf("writer"))
        yield* TestClock.adjust("20 minutes")
        yield* until(hasEnded)
        const next = model.requests.slice(before).filter(({ agentPath }) => agentPath.length === 1)
        const [first] = name === "the preparation of its context" ? next.slice(1) : next
        assert.include(JSON.stringify(first?.messages), "also this")
      })
    )
  }
})
