import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Agent from "../../src/agent/Agent.ts"
import { attach } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import { exportRun, importRun } from "../../src/durable/archive.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { explain } from "../../src/durable/explain.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import { checkResume } from "../../src/run/checkResume.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import {
  approvalOf,
  approve,
  call,
  deny,
  expect,
  only,
  type Probe,
  probe,
  rebind,
  results,
  throughJson
} from "../helpers/Fixture.ts"

type Answers = { readonly [path: string]: ReadonlyArray<ScriptedModel.ScriptedAnswer | string> }

/** A model that answers each agent, named by its path, from its own script. */
const scripted = (answers: Answers) => {
  const taken = new Map<string, number>()
  return ScriptedModel.make(({ agentPath }: ModelRequest) => {
    const name = agentPath.join("/")
    const index = taken.get(name) ?? 0
    taken.set(name, index + 1)
    return answers[name]?.[index] ?? `${name} is done`
  })
}

const delegate = (agent: string, background = true) => ({
  tool: "delegate",
  arguments: { agent, prompt: "do", background }
})

const transfer = (to: string) => ({ tool: `transfer_to_${to}` })

const runId = "run" as RunId
const publisherRun = "run.t1.1" as RunId

const publisher = (publish: Probe, options: Agent.AgentOptions<any, undefined> = {}) =>
  Agent.make("publisher", { tools: [publish.tool], ...options })

/** A desk and a billing agent that can hand over to each other, each with a publisher of its own. */
const office = (
  options: {
    readonly desk?: Agent.AgentOptions<any, undefined>
    readonly billing?: Agent.AgentOptions<any, undefined>
    readonly publisher?: Agent.AgentOptions<any, undefined>
  } = {}
) => {
  const desks = probe("publish")
  const billings = probe("publish")
  const billing: Agent.Any = Agent.make("billing", {
    subAgents: [publisher(billings, options.publisher)],
    delegation: "delegate",
    handoffs: () => [desk],
    ...options.billing
  })
  const desk: Agent.Any = Agent.make("desk", {
    subAgents: [publisher(desks, options.publisher)],
    delegation: "delegate",
    handoffs: () => [billing],
    ...options.desk
  })
  return { desk, billing, desks, billings }
}

/** The desk starts its publisher, which is held, and hands over. */
const answers: Answers = {
  desk: [{ calls: [delegate("publisher")] }, { calls: [transfer("billing")] }],
  billing: ["Billing here."],
  "desk/publisher": [{ calls: [call("publish", "1")] }, "It is out."]
}

/** A run that is held on the desk's publisher while billing has the conversation. */
const handedOver = Effect.fnUntraced(function* (
  options: Parameters<typeof office>[0] = {},
  more: Answers = {}
) {
  const { desk, ...rest } = office(options)
  const model = scripted({ ...answers, ...more })
  const { runtime } = yield* rebind(desk, model)
  const held = yield* runPromptStored(runtime, { prompt: "go", runId })
  assert.strictEqual(held.state.agent.name, "billing")
  return { desk, ...rest, held, model, runtime, request: approvalOf(held, "1") }
})

const test = (name: string, effect: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(name, () => Effect.provide(effect, layerMemory))

describe("a sub-agent of an agent that has handed over", () => {
  test(
    "stays with the agent that started it when the successor has another of that name",
    Effect.gen(function* () {
      const { billings, desks, model, request, runtime } = yield* handedOver()
      assert.deepStrictEqual(request.agentPath, ["desk", "publisher"])
      const decisions = [approve(request)]
      expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
      assert.deepStrictEqual([desks.ran, billings.ran], [["1"], []])
      assert.strictEqual(model.requests.filter(({ agentPath }) => agentPath.length === 2).length, 2)
    })
  )

  test(
    "stays with the agent that started it in another process and in a kept state",
    Effect.gen(function* () {
      const { desks, held, model, request } = yield* handedOver()
      const other = office()
      const { runtime } = yield* rebind(other.desk, model)
      const state = throughJson(held.state)
      const decisions = [approve(request)]
      expect(yield* runPrompt(runtime, { state, decisions }), "completed")
      assert.deepStrictEqual([other.desks.ran, other.billings.ran], [["1"], []])
      expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
      assert.deepStrictEqual([other.desks.ran, other.billings.ran, desks.ran], [["1", "1"], [], []])
    })
  )

  test(
    "resumes when the successor has no sub-agents",
    Effect.gen(function* () {
      const billing = { subAgents: [], handoffs: [] }
      const { request, held, model } = yield* handedOver({ billing })
      const { desk, desks } = office({ billing })
      assert.deepStrictEqual(yield* checkResume(held.state, [desk]), { changes: [], blocking: [] })
      const { runtime } = yield* rebind(desk, model)
      yield* decideStored([runtime], approve(request))
      expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual(desks.ran, ["1"])
    })
  )

  test(
    "stays with the agent that started it after two more handoffs",
    Effect.gen(function* () {
      const { desks, billings, request, runtime } = yield* handedOver(
        {},
        {
          desk: [
            { calls: [delegate("publisher")] },
            { calls: [transfer("billing")] },
            { calls: [transfer("billing")] }
          ],
          billing: [{ calls: [delegate("publisher")] }, { calls: [transfer("desk")] }, "Billing again."],
          "billing/publisher": ["Nothing to publish."]
        }
      )
      const decisions = [approve(request)]
      expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
      assert.deepStrictEqual([desks.ran, billings.ran], [["1"], []])
    })
  )

  test(
    "is found below a sub-agent that has handed over",
    Effect.gen(function* () {
      const { desk, desks, billings } = office()
      const lead = Agent.make("lead", { subAgents: [desk] })
      const model = scripted({
        lead: [{ calls: [{ tool: "desk", arguments: { prompt: "do" } }] }],
        "lead/desk": [{ calls: [delegate("publisher")] }, { calls: [transfer("billing")] }],
        "lead/desk/publisher": [{ calls: [call("publish", "1")] }]
      })
      const { runtime } = yield* rebind(lead, model)
      const held = yield* runPromptStored(runtime, { prompt: "go", runId })
      const request = approvalOf(held, "1")
      assert.deepStrictEqual(request.agentPath, ["lead", "desk", "publisher"])
      assert.deepStrictEqual(yield* checkResume(held.state, [lead]), { changes: [], blocking: [] })
      const again = office()
      const { runtime: later } = yield* rebind(Agent.make("lead", { subAgents: [again.desk] }), model)
      expect(yield* runPromptStored(later, { runId, decisions: [approve(request)] }), "completed")
      assert.deepStrictEqual([again.desks.ran, again.billings.ran], [["1"], []])
      assert.deepStrictEqual([desks.ran, billings.ran], [[], []])
    })
  )

  test(
    "is found when it and the agent that started it were renamed",
    Effect.gen(function* () {
      const { request, model } = yield* handedOver()
      const publish = probe("publish")
      const billing = Agent.make("billing", { subAgents: [publisher(probe("publish"))] })
      const reception = Agent.make("reception", {
        aliases: ["desk"],
        subAgents: [Agent.make("printer", { aliases: ["publisher"], tools: [publish.tool] })],
        delegation: "delegate",
        handoffs: [billing]
      })
      const { runtime } = yield* rebind(reception, model)
      expect(yield* runPromptStored(runtime, { runId, decisions: [approve(request)] }), "completed")
      assert.deepStrictEqual(publish.ran, ["1"])
    })
  )

  test(
    "is found when the agent that started it was renamed before",
    Effect.gen(function* () {
      const approved = probe("pay")
      const model = scripted({
        desk: [{ calls: [call("pay", "1")] }, { calls: [delegate("publisher")] }],
        "desk/publisher": [{ calls: [call("publish", "1")] }, "It is out."]
      })
      const { runtime } = yield* rebind(Agent.make("desk", { tools: [approved.tool] }), model)
      const before = yield* runPromptStored(runtime, { prompt: "go", runId })
      const publish = probe("publish")
      const reception = Agent.make("reception", {
        aliases: ["desk"],
        tools: [approved.tool],
        subAgents: [publisher(publish)],
        delegation: "delegate",
        handoffs: [Agent.make("billing", { subAgents: [publisher(probe("publish"))] })]
      })
      const { runtime: later } = yield* rebind(reception, model)
      const released = { runId, decisions: [approve(approvalOf(before, "1"))] }
      const held = yield* runPromptStored(later, released)
      const decisions = [approve(approvalOf(held, "1"))]
      expect(yield* runPromptStored(later, { runId, decisions }), "completed")
      assert.deepStrictEqual([approved.ran, publish.ran], [["1"], ["1"]])
    })
  )

  test(
    "receives messages, decisions and explanations by its own run id",
    Effect.gen(function* () {
      const { desks, model, request, runtime } = yield* handedOver()
      yield* sendMessage(publisherRun, "In blue, please.")
      const { text } = yield* explain(publisherRun)
      assert.include(text, "It waits for approval of publish")
      yield* decideStored([runtime], approve(request, { arguments: { id: "2" } }))
      expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual(desks.ran, ["2"])
      const said = model.requests.findLast(({ agentPath }) => agentPath.length === 2)
      assert.include(JSON.stringify(said?.messages), "In blue, please.")
    })
  )

  test(
    "is cancelled by its own run id, and its handle reports it",
    Effect.gen(function* () {
      const { desks, billings, runtime } = yield* handedOver()
      const handle = yield* attach([runtime], publisherRun)
      yield* cancelRun(publisherRun, "not needed")
      assert.strictEqual(expect(yield* handle.done, "cancelled").reason, "not needed")
      expect(yield* (yield* attach([runtime], runId)).done, "completed")
      assert.deepStrictEqual([desks.ran, billings.ran], [[], []])
    }).pipe(Effect.scoped)
  )

  test(
    "is found after export and import",
    Effect.gen(function* () {
      const { model, request } = yield* handedOver()
      const archive = yield* exportRun(runId)
      const { billings, desk, desks } = office()
      const { runtime } = yield* rebind(desk, model)
      const there = Effect.gen(function* () {
        yield* importRun(archive)
        expect(yield* runPromptStored(runtime, { runId, decisions: [approve(request)] }), "completed")
      })
      yield* Effect.provide(there, layerMemory, { local: true })
      assert.deepStrictEqual([desks.ran, billings.ran], [["1"], []])
    })
  )

  test(
    "returns its structured output through its handle",
    Effect.gen(function* () {
      const output = Schema.Struct({ edition: Schema.Finite })
      const write = probe("write")
      const billing = Agent.make("billing", { subAgents: [Agent.make("writer")], delegation: "delegate" })
      const desk: Agent.Any = Agent.make("desk", {
        subAgents: [Agent.make("writer", { output, tools: [write.tool] })],
        delegation: "delegate",
        handoffs: [billing]
      })
      const model = scripted({
        desk: [{ calls: [delegate("writer")] }, { calls: [transfer("billing")] }],
        "desk/writer": [{ calls: [call("write", "1")] }, '{"edition": 7}']
      })
      const { runtime } = yield* rebind(desk, model)
      const held = yield* runPromptStored(runtime, { prompt: "go", runId })
      const handle = yield* attach([runtime], publisherRun)
      yield* handle.decide(approve(only(held, "approval")))
      assert.deepStrictEqual(expect(yield* handle.done, "completed").output, { edition: 7 })
    }).pipe(Effect.scoped)
  )
})

describe("a sub-agent that has handed over", () => {
  /** A lead whose `desk` hands over to its own billing agent, and which has another billing agent itself. */
  const company = () => {
    const number = Schema.Struct({ n: Schema.Finite })
    const name = Schema.Struct({ to: Schema.String })
    const ran: Array<unknown> = []
    const pay = (parameters: Schema.Codec<any, unknown>, whose: string) =>
      Tool.make("pay", { parameters, handler: (args) => void ran.push([whose, args]) })
    const billing = Agent.make("billing", { tools: [pay(name, "the desk's billing")] })
    const desk = Agent.make("desk", { handoffs: [billing] })
    const lead = Agent.make("lead", {
      subAgents: [desk, Agent.make("billing", { tools: [pay(number, "the lead's billing")] })]
    })
    return { lead, ran }
  }

  const asked = Effect.fnUntraced(function* () {
    const { lead, ran } = company()
    const model = scripted({
      lead: [{ calls: [{ tool: "desk", arguments: { prompt: "do" } }] }],
      "lead/desk": [{ calls: [transfer("billing")] }],
      "lead/billing": [{ calls: [{ tool: "pay", id: "1", arguments: { to: "ana" } }] }]
    })
    const { runtime } = yield* rebind(lead, model)
    const held = yield* runPromptStored(runtime, { prompt: "go", runId })
    return { held, model, ran, request: only(held, "approval"), runtime }
  })

  test(
    "resumes with its own successor, not with its lead's agent of that name",
    Effect.gen(function* () {
      const { model, request } = yield* asked()
      const { lead, ran } = company()
      const { runtime } = yield* rebind(lead, model)
      expect(yield* runPromptStored(runtime, { runId, decisions: [approve(request)] }), "completed")
      assert.deepStrictEqual(ran, [["the desk's billing", { to: "ana" }]])
    })
  )

  test(
    "checks edited arguments by the tool of its own successor",
    Effect.gen(function* () {
      const { held, ran, request, runtime } = yield* asked()
      const wrong = approve(request, { arguments: { n: 3 } })
      const refused = yield* Effect.flip(decideStored([runtime], wrong))
      assert.strictEqual(refused._tag, "EditedArgumentsInvalid")
      const { state } = held
      const kept = yield* Effect.flip(runPrompt(runtime, { state, decisions: [wrong] }))
      assert.strictEqual(kept._tag, "EditedArgumentsInvalid")
      yield* decideStored([runtime], approve(request, { arguments: { to: "ben" } }))
      expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual(ran, [["the desk's billing", { to: "ben" }]])
    })
  )

  test(
    "stays held when its successor was removed, although its lead has an agent of that name",
    Effect.gen(function* () {
      const { model, request } = yield* asked()
      const ran: Array<unknown> = []
      const pay = Tool.make("pay", {
        parameters: Schema.Struct({ to: Schema.String }),
        handler: (args) => void ran.push(args)
      })
      const lead = Agent.make("lead", {
        subAgents: [Agent.make("desk"), Agent.make("billing", { tools: [pay] })]
      })
      const { runtime } = yield* rebind(lead, model)
      const edited = approve(request, { arguments: { to: "ben" } })
      assert.strictEqual((yield* Effect.flip(decideStored([runtime], edited)))._tag, "EditedArgumentsInvalid")
      const decisions = [approve(request)]
      const error = yield* Effect.flip(runPromptStored(runtime, { runId, decisions }))
      assert.deepInclude({ ...error }, { _tag: "AgentNotFound", agent: "billing", runId: publisherRun })
      assert.deepStrictEqual(ran, [])
      assert.strictEqual((yield* loadState(runId)).status, "held")
    })
  )

  test(
    "is not resumed as another agent with the alias that its call names",
    Effect.gen(function* () {
      const publish = probe("publish")
      const model = scripted({
        lead: [{ calls: [{ tool: "pub", arguments: { prompt: "do" } }] }],
        "lead/publisher": [{ calls: [call("publish", "1")] }]
      })
      const { runtime } = yield* rebind(
        Agent.make("lead", { subAgents: [publisher(probe("publish"), { aliases: ["pub"] })] }),
        model
      )
      const held = yield* runPromptStored(runtime, { prompt: "go", runId })
      const other = probe("publish")
      const pub = Agent.make("publican", { aliases: ["pub"], tools: [other.tool] })
      const { runtime: later } = yield* rebind(
        Agent.make("lead", { subAgents: [publisher(publish), pub] }),
        model
      )
      const decisions = [approve(only(held, "approval"))]
      expect(yield* runPromptStored(later, { runId, decisions }), "completed")
      assert.deepStrictEqual([publish.ran, other.ran], [["1"], []])
    })
  )
})

describe("the agent that took over", () => {
  /** The results of billing's calls about background agents. */
  const toldBilling = (state: RunState) =>
    results(state).filter((result) => /^(list|message|cancel|wait)_/.test(result))

  test(
    "lists and awaits its predecessor's sub-agents, and cannot message or cancel them",
    Effect.gen(function* () {
      const about = { agentRun: publisherRun }
      const { desks, request, runtime } = yield* handedOver(
        {},
        {
          billing: [
            {
              calls: [
                { tool: "list_agents" },
                { tool: "message_agent", arguments: { ...about, message: "Publish it twice." } },
                { tool: "cancel_agent", arguments: about },
                { tool: "wait_for_agent", arguments: { agentRuns: [publisherRun] } }
              ]
            }
          ]
        }
      )
      const done = expect(
        yield* runPromptStored(runtime, { runId, decisions: [approve(request)] }),
        "completed"
      )
      const only = "publisher works for desk, which started it: only desk can send it messages and stop it."
      assert.deepStrictEqual(toldBilling(done.state), [
        `list_agents completed: - ${publisherRun}: publisher, for desk, waits for a decision, turn 1`,
        `message_agent failed: ${only}`,
        `cancel_agent failed: ${only}`,
        "wait_for_agent completed: They have ended."
      ])
      assert.deepStrictEqual(desks.ran, ["1"])
    })
  )

  test(
    "returns control over them with the conversation",
    Effect.gen(function* () {
      const { desk } = office()
      const model = scripted({
        desk: [
          { calls: [delegate("publisher")] },
          { calls: [transfer("billing")] },
          { calls: [{ tool: "cancel_agent", arguments: { agentRun: publisherRun } }] }
        ],
        billing: [{ calls: [transfer("desk")] }],
        "desk/publisher": [{ calls: [call("publish", "1")] }]
      })
      const { runtime } = yield* rebind(desk, model)
      const { state } = expect(yield* runPromptStored(runtime, { prompt: "go", runId }), "completed")
      assert.deepStrictEqual(toldBilling(state), ["cancel_agent completed: publisher was stopped."])
    })
  )

  test(
    "does not loosen the policy of its predecessor's sub-agents",
    Effect.gen(function* () {
      const { desks, request, runtime } = yield* handedOver(
        {
          desk: { policy: { mode: "ask" } },
          billing: { policy: { mode: "all" } },
          publisher: { policy: { mode: "all" } }
        },
        { "desk/publisher": [{ calls: [call("publish", "1")] }, { calls: [call("publish", "2")] }] }
      )
      const again = yield* runPromptStored(runtime, { runId, decisions: [approve(request)] })
      assert.deepStrictEqual(desks.ran, ["1"])
      yield* decideStored([runtime], deny(approvalOf(again, "2")))
      expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual(desks.ran, ["1"])
    })
  )

  test(
    "does not tighten the policy of its predecessor's sub-agents",
    Effect.gen(function* () {
      const { desks, request, runtime } = yield* handedOver(
        { billing: { policy: { mode: "none" } }, publisher: { policy: { mode: "ask" } } },
        { "desk/publisher": [{ calls: [call("publish", "1")] }, { calls: [call("publish", "2")] }] }
      )
      const again = yield* runPromptStored(runtime, { runId, decisions: [approve(request)] })
      yield* decideStored([runtime], approve(approvalOf(again, "2")))
      expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual(desks.ran, ["1", "2"])
    })
  )
})

describe("an inherited grant after a handoff", () => {
  test(
    "applies to the sub-agents of its own agent, not to those of the predecessor",
    Effect.gen(function* () {
      const { billings, desks, request, runtime } = yield* handedOver(
        { billing: { tools: [probe("publish").tool] } },
        {
          billing: [{ calls: [call("publish", "b")] }, { calls: [delegate("publisher")] }],
          "billing/publisher": [{ calls: [call("publish", "3")] }],
          "desk/publisher": [{ calls: [call("publish", "1")] }, { calls: [call("publish", "2")] }]
        }
      )
      const held = yield* runPromptStored(runtime, { runId })
      const grant = { scope: "run", arguments: {}, inherit: true } as const
      const decisions = [approve(approvalOf(held, "b"), { grant }), approve(request)]
      const again = yield* runPromptStored(runtime, { runId, decisions })
      // The desk's publisher needs another approval; billing's publisher is covered.
      assert.deepStrictEqual(only(again, "approval").agentPath, ["desk", "publisher"])
      assert.deepStrictEqual([desks.ran, billings.ran], [["1"], ["3"]])
    })
  )
})

describe("checkResume after a handoff", () => {
  test(
    "names a removed sub-agent, its run and the agent that started it",
    Effect.gen(function* () {
      const { held } = yield* handedOver()
      const { desk } = office({ desk: { subAgents: [Agent.make("scout")] } })
      const { blocking } = yield* checkResume(held.state, [desk])
      assert.deepStrictEqual(
        blocking.map((problem) => ({ ...problem })),
        [
          {
            _tag: "AgentNotFound",
            agent: "publisher",
            known: ["scout"],
            runId: publisherRun,
            startedBy: "desk"
          } as never
        ]
      )
      assert.include(
        blocking[0]?.message,
        `"publisher", which is not among those of "desk", which started it (scout)`
      )
    })
  )

  test(
    "resolves sub-agents from the run's first agent when the successor is passed too",
    Effect.gen(function* () {
      const { held } = yield* handedOver({ billing: { handoffs: [] } })
      const { billing, desk } = office({ billing: { handoffs: [] } })
      assert.deepStrictEqual(yield* checkResume(held.state, [billing, desk]), { changes: [], blocking: [] })
    })
  )
})

describe("the journal of a run after a handoff", () => {
  test(
    "identifies the agent that started each sub-agent",
    Effect.gen(function* () {
      yield* handedOver()
      const events = yield* (yield* RunStore).events(runId)
      const started = events.flatMap((event) => {
        const { event: inner } = unwrap(event)
        return inner._tag === "run.started" ? [inner.agentPath.join("/")] : []
      })
      assert.deepStrictEqual(started, ["desk", "desk/publisher"])
      const state = yield* loadState(runId)
      assert.strictEqual(state.under, "desk")
      assert.strictEqual(state.background?.[0]?.child?.under, "publisher")
    })
  )
})
