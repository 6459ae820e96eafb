import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../src/agent/Agent.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import { reconfigureRuntime } from "../../src/agent/reconfigureRuntime.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import { attach } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { explain } from "../../src/durable/explain.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import * as Worker from "../../src/durable/Worker.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import { checkResume } from "../../src/run/checkResume.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import {
  approvalOf,
  approve,
  assertValid,
  call,
  deny,
  expect,
  only,
  probe,
  rebind,
  results,
  safe,
  throughJson
} from "../helpers/Fixture.ts"

const runId = "run" as RunId
const childRun = "run.t1.1" as RunId

const delegate = (agent: string, background = true) => ({
  tool: "delegate",
  arguments: { agent, prompt: "do", background }
})

type Answers = { readonly [agent: string]: ReadonlyArray<ScriptedModel.ScriptedAnswer | string> }

/** A model that answers each agent of the tree from its own script. */
const scripted = (answers: Answers) => {
  const taken = new Map<string, number>()
  return ScriptedModel.make(({ agentPath }: ModelRequest) => {
    const name = agentPath.at(-1) ?? ""
    const index = taken.get(name) ?? 0
    taken.set(name, index + 1)
    return answers[name]?.[index] ?? `${name} is done`
  })
}

/** A lead with a `pay` tool of its own, with or without the child that pays in the background. */
const company = (has: "child" | "no child" = "child") => {
  const own = probe("pay")
  const childs = probe("pay")
  const child = Agent.make("child", { tools: [childs.tool] })
  const lead = Agent.make("lead", {
    tools: [own.tool],
    subAgents: has === "child" ? [child, Agent.make("scout")] : [Agent.make("scout")],
    delegation: "delegate"
  })
  return { lead, own, childs }
}

/** A run held on a request of the lead and on one of its child. */
const held = Effect.fnUntraced(function* (background = true) {
  const { childs, lead, own } = company()
  const model = scripted({
    lead: [{ calls: [delegate("child", background), call("pay", "own")] }],
    child: [{ calls: [call("pay", "child")] }]
  })
  const { runtime } = yield* rebind(lead, model)
  const result = yield* runPromptStored(runtime, { prompt: "go", runId })
  const request = (id: string) => approvalOf(result, id)
  return { childs, model, own, request, runtime, result }
})

/** The program after a deploy that removed the child. */
const without = Effect.fnUntraced(function* (model: ScriptedModel.ScriptedModel) {
  const { lead, own } = company("no child")
  const { runtime } = yield* rebind(lead, model)
  return { lead, own, runtime }
})

const missing = {
  _tag: "AgentNotFound",
  agent: "child",
  known: ["scout"],
  runId: childRun,
  startedBy: "lead"
}

const namesOf = (problems: ReadonlyArray<object> | undefined) => problems?.map((problem) => ({ ...problem }))

const test = (name: string, effect: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(name, () => Effect.provide(effect, layerMemory))

const outcomes = (runtimes: ReadonlyArray<Runtime<any>>) =>
  Effect.map(recover(runtimes), (runs) =>
    runs.map(({ error, reason, status }) => [reason, status, error?._tag].join())
  )

describe("a background sub-agent removed by a deploy", () => {
  test(
    "is listed as missing in the result, while decided calls of other agents run",
    Effect.gen(function* () {
      const { model, request } = yield* held()
      const { own, runtime } = yield* without(model)
      const decisions = [approve(request("own"))]
      const again = expect(yield* runPromptStored(runtime, { runId, decisions }), "interrupted")
      assert.deepStrictEqual(own.ran, ["own"])
      assert.deepStrictEqual<unknown>(namesOf(again.missing), [missing])
      assert.deepStrictEqual(
        again.interruptions.map(({ requestId }) => requestId),
        [request("child").requestId]
      )
      // Resumed again, the run returns the same result and appends nothing.
      const { revision } = again.state
      const third = expect(yield* runPromptStored(runtime, { runId }), "interrupted")
      assert.deepStrictEqual<unknown>([third.state.revision, namesOf(third.missing)], [revision, [missing]])
      assert.deepStrictEqual([third.state.status, yield* outcomes([runtime])], ["held", []])
    })
  )

  test(
    "is listed as missing by checkResume and explain, and not when it is present",
    Effect.gen(function* () {
      const { model, request, result, runtime } = yield* held()
      const { lead, runtime: poorer } = yield* without(model)
      const report = yield* checkResume(result.state, [lead])
      assert.deepStrictEqual<unknown>(namesOf(report.blocking), [missing])
      yield* decideStored([poorer], approve(request("own")))
      const explained = yield* explain(runId, { runtimes: [poorer] })
      assert.deepStrictEqual<unknown>(namesOf(explained.missing), [missing])
      assert.include(explained.text, `The run ${childRun} belongs to the sub-agent "child"`)
      assert.deepStrictEqual(explained.resuming, ["run pay", "call the model"])
      const below = yield* explain(childRun, { runtimes: [poorer] })
      assert.deepStrictEqual<unknown>(namesOf(below.missing), [missing])
      assert.isUndefined((yield* explain(runId, { runtimes: [runtime] })).missing)
      assert.isUndefined((yield* explain(runId)).missing)
      assert.isUndefined(expect(yield* runPromptStored(runtime, { runId }), "interrupted").missing)
    })
  )

  test(
    "is ended by a denial with `stop`, and its lead continues",
    Effect.gen(function* () {
      const { model, request } = yield* held()
      const { own, runtime } = yield* without(model)
      yield* decideStored([runtime], deny(request("child"), { message: "gone", then: "stop" }))
      yield* decideStored([runtime], approve(request("own")))
      const { state } = expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual(own.ran, ["own"])
      assert.strictEqual(state.background?.[0]?.ended?.status, "cancelled")
      assertValid(state)
    })
  )

  test(
    "is ended by its cancellation, and its lead continues",
    Effect.gen(function* () {
      const { model, request } = yield* held()
      const { own, runtime } = yield* without(model)
      yield* cancelRun(childRun, "gone")
      const decisions = [approve(request("own"))]
      const { state } = expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
      assert.deepStrictEqual(own.ran, ["own"])
      assert.strictEqual(state.background?.[0]?.ended?.status, "cancelled")
    })
  )

  test(
    "keeps the record of a denial, and reads it when it is deployed again",
    Effect.gen(function* () {
      const { model, request } = yield* held()
      const { runtime } = yield* without(model)
      const decisions = [deny(request("child"), { message: "Not today." })]
      const again = expect(yield* runPromptStored(runtime, { runId, decisions }), "interrupted")
      assert.deepStrictEqual<unknown>(namesOf(again.missing), [missing])
      assert.deepStrictEqual(
        again.interruptions.map(({ requestId }) => requestId),
        [request("own").requestId]
      )
      const { childs, lead } = company()
      const { runtime: back } = yield* rebind(lead, model)
      expect(yield* runPromptStored(back, { runId, decisions: [deny(request("own"))] }), "completed")
      assert.deepStrictEqual(childs.ran, [])
      const told = model.requests.findLast(({ agentPath }) => agentPath.at(-1) === "child")
      assert.include(JSON.stringify(told?.messages), "Not today.")
    })
  )

  test(
    "keeps an approval of its request: resuming fails with AgentNotFound until it is deployed again",
    Effect.gen(function* () {
      const { model, request } = yield* held()
      const { runtime } = yield* without(model)
      const before = yield* loadState(runId)
      yield* decideStored([runtime], approve(request("child")))
      const error = yield* Effect.flip(runPromptStored(runtime, { runId }))
      assert.deepStrictEqual<unknown>({ ...error }, missing)
      assert.deepStrictEqual(yield* loadState(runId), before)
      assert.deepStrictEqual(yield* outcomes([runtime]), ["decided,,AgentNotFound"])
      const explained = yield* explain(runId, { runtimes: [runtime] })
      assert.include(explained.text, "ann has decided (approve)")
      assert.deepStrictEqual(explained.resuming, ["wait for the open request"])

      const { childs, lead } = company()
      const { runtime: back } = yield* rebind(lead, model)
      assert.deepStrictEqual(yield* outcomes([back]), ["decided,held,"])
      assert.deepStrictEqual(childs.ran, ["child"])
    })
  )

  test(
    "is recovered when it is deployed again, also when other calls have run meanwhile",
    Effect.gen(function* () {
      const { model, request } = yield* held()
      const { own, runtime } = yield* without(model)
      yield* decideStored([runtime], approve(request("child")))
      yield* decideStored([runtime], approve(request("own")))
      const again = expect(yield* runPromptStored(runtime, { runId }), "interrupted")
      assert.deepStrictEqual(own.ran, ["own"])
      assert.deepStrictEqual([again.interruptions, namesOf(again.missing)], [[], [missing]] as never)
      const { revision } = yield* loadState(runId)
      // Repeated attempts change nothing.
      for (const _ of [1, 2, 3, 4, 5]) {
        assert.deepStrictEqual(yield* outcomes([runtime]), ["orphaned,,AgentNotFound"])
      }
      assert.strictEqual((yield* loadState(runId)).revision, revision)
      const { childs, lead } = company()
      const { runtime: back } = yield* rebind(lead, model)
      assert.deepStrictEqual(yield* outcomes([back]), ["orphaned,completed,"])
      assert.deepStrictEqual(childs.ran, ["child"])
      assertValid(yield* loadState(runId))
    })
  )

  test(
    "reads messages sent to it meanwhile when it is deployed again",
    Effect.gen(function* () {
      const { model, request } = yield* held()
      const { runtime } = yield* without(model)
      yield* sendMessage(childRun, "In blue, please.")
      const decisions = [approve(request("own"))]
      expect(yield* runPromptStored(runtime, { runId, decisions }), "interrupted")
      const { lead } = company()
      const { runtime: back } = yield* rebind(lead, model)
      expect(yield* runPromptStored(back, { runId, decisions: [approve(request("child"))] }), "completed")
      const told = model.requests.findLast(({ agentPath }) => agentPath.at(-1) === "child")
      assert.include(JSON.stringify(told?.messages), "In blue, please.")
    })
  )

  test(
    "does not keep the run from being cancelled",
    Effect.gen(function* () {
      const { model, request } = yield* held()
      const { runtime } = yield* without(model)
      yield* decideStored([runtime], approve(request("child")))
      yield* cancelRun(runId, "enough")
      assert.strictEqual(expect(yield* runPromptStored(runtime, { runId }), "cancelled").reason, "enough")
    })
  )

  test(
    "is retried ever less often by a worker without it, and resumed by a worker with it",
    Effect.gen(function* () {
      const { model, request } = yield* held()
      const { runtime } = yield* without(model)
      yield* decideStored([runtime], approve(request("child")))
      yield* decideStored([runtime], approve(request("own")))
      const seen: Array<string> = []
      const poorer = yield* Effect.forkChild(
        Worker.run([runtime], {
          onTakenUp: ({ error, status }) => void seen.push(`${status} ${error?._tag}`)
        })
      )
      yield* TestClock.adjust("1 minute")
      yield* Fiber.interrupt(poorer)
      assert.strictEqual(seen[0], "running AgentNotFound")
      assert.isTrue(
        seen.slice(1).every((one) => one === "undefined AgentNotFound"),
        seen.join()
      )
      assert.isBelow(seen.length, 7)
      const { childs, lead } = company()
      const { runtime: back } = yield* rebind(lead, model)
      const worker = yield* Effect.forkChild(Worker.run([back]))
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* loadState(runId)).status, "completed")
      assert.deepStrictEqual(childs.ran, ["child"])
      yield* Fiber.interrupt(worker)
    })
  )
})

describe("an attached sub-agent removed by a deploy", () => {
  test(
    "keeps its lead waiting while decided calls of other sub-agents run",
    Effect.gen(function* () {
      const writes = probe("write")
      const pays = probe("pay")
      const writer = Agent.make("writer", { tools: [writes.tool] })
      const payer = Agent.make("payer", { tools: [pays.tool] })
      const model = scripted({
        lead: [{ calls: [delegate("payer", false), delegate("writer", false)] }],
        payer: [{ calls: [call("pay", "p")] }],
        writer: [{ calls: [call("write", "w")] }]
      })
      const team = (subAgents: ReadonlyArray<Agent.Any>) =>
        rebind(Agent.make("lead", { subAgents, delegation: "delegate" }), model)
      const { runtime } = yield* team([payer, writer])
      const asked = yield* runPromptStored(runtime, { prompt: "go", runId })
      const { runtime: poorer } = yield* team([writer])
      const decisions = [approve(approvalOf(asked, "p")), approve(approvalOf(asked, "w"))]
      const again = expect(yield* runPromptStored(poorer, { runId, decisions }), "interrupted")
      assert.deepStrictEqual([writes.ran, pays.ran], [["w"], []])
      assert.deepStrictEqual(
        again.missing?.map((problem) => problem._tag === "AgentNotFound" && problem.agent),
        ["payer"]
      )
      const done = expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual([writes.ran, pays.ran], [["w"], ["p"]])
      assert.deepStrictEqual(results(done.state), [
        "delegate completed: payer is done",
        "delegate completed: writer is done"
      ])
      assertValid(done.state)
    })
  )

  test(
    "keeps the sub-agents under it waiting, and is ended by its cancellation",
    Effect.gen(function* () {
      const writes = probe("write")
      const leaf = Agent.make("leaf", { tools: [writes.tool] })
      const middle = Agent.make("middle", { subAgents: [leaf], delegation: "delegate" })
      const model = scripted({
        lead: [{ calls: [delegate("middle", false)] }],
        middle: [{ calls: [delegate("leaf", false)] }],
        leaf: [{ calls: [call("write", "1")] }]
      })
      const lead = (subAgents: ReadonlyArray<Agent.Any>) =>
        Agent.make("lead", { subAgents, delegation: "delegate" })
      const { runtime } = yield* rebind(lead([middle]), model)
      const asked = yield* runPromptStored(runtime, { prompt: "go", runId })
      // The lead has another sub-agent called leaf.
      const { runtime: poorer } = yield* rebind(lead([Agent.make("leaf", { tools: [writes.tool] })]), model)
      const decisions = [approve(only(asked, "approval"))]
      const error = yield* Effect.flip(runPromptStored(poorer, { runId, decisions }))
      assert.deepInclude({ ...error }, { _tag: "AgentNotFound", agent: "middle", startedBy: "lead" })
      assert.deepStrictEqual(writes.ran, [])
      yield* cancelRun(childRun, "gone")
      const { state } = expect(yield* runPromptStored(poorer, { runId }), "completed")
      assert.deepStrictEqual(writes.ran, [])
      assert.deepStrictEqual(results(state), ["delegate cancelled: middle was stopped: gone."])
    })
  )

  test(
    "keeps a denial with `stop` of a request under it, and ends when it is deployed again",
    Effect.gen(function* () {
      const leaf = Agent.make("leaf", { tools: [probe("write").tool] })
      const middle = Agent.make("middle", { subAgents: [leaf], delegation: "delegate" })
      const model = scripted({
        lead: [{ calls: [delegate("middle")] }],
        middle: [{ calls: [delegate("leaf", false)] }],
        leaf: [{ calls: [call("write", "1")] }]
      })
      const { runtime } = yield* rebind(
        Agent.make("lead", { subAgents: [middle], delegation: "delegate" }),
        model
      )
      const asked = yield* runPromptStored(runtime, { prompt: "go", runId })
      const { runtime: poorer } = yield* rebind(Agent.make("lead"), model)
      const decisions = [deny(only(asked, "approval"), { then: "stop", message: "no" })]
      const again = expect(yield* runPromptStored(poorer, { runId, decisions }), "interrupted")
      assert.deepStrictEqual(again.interruptions, [])
      assert.strictEqual((yield* loadState(childRun)).calls.length, 0)
      const done = expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.strictEqual(done.state.background?.[0]?.ended?.status, "completed")
    })
  )
})

describe("a call of a sub-agent removed by a deploy before its start", () => {
  test(
    "fails the resume with AgentNotFound, and completes when the sub-agent is deployed again",
    Effect.gen(function* () {
      const store = yield* RunStore
      const { lead } = company()
      const model = scripted({ lead: [{ calls: [delegate("child")] }, "waiting"] })
      const { runtime } = yield* rebind(lead, model)
      const { sessionId } = yield* runPromptStored(runtime, { prompt: "go", runId })
      // The journal of a process that died before it started the sub-agent.
      const events = yield* store.events(runId)
      const upTo = events.findIndex(({ _tag }) => _tag === "child.advanced")
      yield* store.remove(runId)
      const lease = yield* store.create({
        runId,
        sessionId,
        agent: "lead",
        events: [events[0]!],
        status: "running",
        owner: "dead",
        ttl: 1
      })
      yield* store.append({
        lease,
        expected: 1 as never,
        events: events.slice(1, upTo) as never,
        status: "running"
      })
      yield* TestClock.adjust("1 second")
      const { runtime: poorer } = yield* without(model)
      const error = yield* Effect.flip(runPromptStored(poorer, { runId }))
      assert.deepInclude({ ...error }, { _tag: "AgentNotFound", agent: "child", known: ["scout"] })
      expect(yield* runPromptStored(runtime, { runId }), "completed")
    })
  )
})

describe("a sub-agent without one of its tools", () => {
  test(
    "keeps the call of that tool, and blocks no other agent",
    Effect.gen(function* () {
      const { model, request } = yield* held()
      const own = probe("pay")
      const lead = Agent.make("lead", {
        tools: [own.tool],
        subAgents: [Agent.make("child"), Agent.make("scout")],
        delegation: "delegate"
      })
      const { runtime } = yield* rebind(lead, model)
      const decisions = [approve(request("own")), approve(request("child"))]
      const again = expect(yield* runPromptStored(runtime, { runId, decisions }), "interrupted")
      assert.deepStrictEqual(own.ran, ["own"])
      assert.deepInclude({ ...again.missing?.[0] }, {
        _tag: "ToolUnavailable",
        runId: childRun,
        tool: "pay",
        reason: "missing"
      } as never)
      const back = company()
      const { runtime: again2 } = yield* rebind(back.lead, model)
      expect(yield* runPromptStored(again2, { runId }), "completed")
      assert.deepStrictEqual(back.childs.ran, ["child"])
    })
  )
})

describe("a run with a tool removed by a deploy", () => {
  const asking = Effect.fnUntraced(function* () {
    const a = probe("a")
    const b = probe("b")
    const model = scripted({ ops: [{ calls: [call("a", "1"), call("b", "2")] }] })
    const { runtime } = yield* rebind(Agent.make("ops", { tools: [a.tool, b.tool] }), model)
    const asked = yield* runPromptStored(runtime, { prompt: "go", runId })
    const poorer = yield* rebind(Agent.make("ops", { tools: [a.tool] }), model)
    return { a, b, asked, runtime, poorer: poorer.runtime }
  })

  test(
    "runs approved calls of the other tools, and keeps the call of the removed one",
    Effect.gen(function* () {
      const { a, asked, b, poorer, runtime } = yield* asking()
      const decisions = [approve(approvalOf(asked, "1"))]
      const again = expect(yield* runPromptStored(poorer, { runId, decisions }), "interrupted")
      assert.deepStrictEqual([a.ran, b.ran], [["1"], []])
      assert.deepInclude({ ...again.missing?.[0] }, { _tag: "ToolUnavailable", tool: "b" } as never)
      yield* decideStored([poorer], approve(approvalOf(asked, "2")))
      const error = yield* Effect.flip(runPromptStored(poorer, { runId }))
      assert.deepInclude({ ...error }, { _tag: "ToolUnavailable", tool: "b" } as never)
      expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual([a.ran, b.ran], [["1"], ["2"]])
    })
  )

  test(
    "completes when the call of the removed tool is denied",
    Effect.gen(function* () {
      const { a, asked, poorer } = yield* asking()
      const decisions = [approve(approvalOf(asked, "1")), deny(approvalOf(asked, "2"))]
      expect(yield* runPromptStored(poorer, { runId, decisions }), "completed")
      assert.deepStrictEqual(a.ran, ["1"])
    })
  )
})

describe("a run with its agent removed after a handoff", () => {
  test(
    "runs calls of its earlier agent's sub-agents, and lists the missing agent",
    Effect.gen(function* () {
      const write = probe("write")
      const refund = probe("refund")
      const writer = Agent.make("writer", { tools: [write.tool] })
      const desk = (handoffs: ReadonlyArray<Agent.Any>) =>
        Agent.make("desk", { subAgents: [writer], delegation: "delegate", handoffs })
      const model = scripted({
        desk: [{ calls: [delegate("writer")] }, { calls: [{ tool: "transfer_to_billing" }] }],
        writer: [{ calls: [call("write", "w")] }],
        billing: [{ calls: [call("refund", "r")] }]
      })
      const billing = Agent.make("billing", { tools: [refund.tool] })
      const { runtime } = yield* rebind(desk([billing]), model)
      const asked = yield* runPromptStored(runtime, { prompt: "go", runId })
      const { runtime: poorer } = yield* rebind(desk([]), model)
      const decisions = [approve(approvalOf(asked, "w")), approve(approvalOf(asked, "r"))]
      const again = expect(yield* runPromptStored(poorer, { runId, decisions }), "interrupted")
      assert.deepStrictEqual([write.ran, refund.ran], [["w"], []])
      assert.deepInclude({ ...again.missing?.[0] }, { _tag: "AgentNotFound", agent: "billing" } as never)
      expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual(refund.ran, ["r"])
    })
  )
})

describe("a sub-agent removed by a capability profile", () => {
  test(
    "waits, and resumes when the profile is restored",
    Effect.gen(function* () {
      const { childs, model, request, result } = yield* held()
      const { lead, own } = company()
      const profiles = [{ name: "full" }, { name: "alone", subAgents: { except: ["child"] } }]
      const runtime = yield* createRuntime({ agent: lead, profiles, profile: "alone" }).pipe(
        Effect.provideService(ModelClient, model.client)
      )
      const state = throughJson(result.state)
      const decisions = [approve(request("own")), approve(request("child"))]
      const again = expect(yield* runPrompt(runtime, { state, decisions }), "interrupted")
      assert.deepStrictEqual([own.ran, childs.ran], [["own"], []])
      assert.deepStrictEqual<unknown>(namesOf(again.missing), [missing])
      yield* reconfigureRuntime(runtime, { profile: "full" })
      expect(yield* runPrompt(runtime, { state: again.state }), "completed")
    }).pipe(Effect.scoped)
  )

  test(
    "stays held when the profile changes while its run works, and no other agent answers instead",
    Effect.gen(function* () {
      const asked = yield* Deferred.make<void>()
      const answer = yield* Deferred.make<void>()
      const desk = Agent.make("desk", { handoffs: [Agent.make("billing")], limits: { maxTurns: 1 } })
      const model = scripted({ desk: [{ calls: [{ tool: "transfer_to_billing" }] }] })
      const runtime = yield* createRuntime({
        agent: desk,
        profiles: [{ name: "full" }, { name: "alone", subAgents: { except: ["billing"] } }],
        profile: "full",
        approvalCallback: ({ requestId }) =>
          Deferred.succeed(asked, undefined).pipe(
            Effect.andThen(Deferred.await(answer)),
            Effect.as({ _tag: "topUp", requestId, by: "bot", limit: 5 } as const)
          )
      }).pipe(Effect.provideService(ModelClient, model.client))
      const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }))
      yield* Deferred.await(asked)
      yield* reconfigureRuntime(runtime, { profile: "alone" })
      yield* Deferred.succeed(answer, undefined)
      const left = expect(yield* Fiber.join(running), "interrupted")
      assert.deepInclude({ ...left.missing?.[0] }, { _tag: "AgentNotFound", agent: "billing" } as never)
      assert.strictEqual(model.requests.length, 1)
      yield* reconfigureRuntime(runtime, { profile: "full" })
      expect(yield* runPromptStored(runtime, { runId }), "completed")
    }).pipe(Effect.scoped)
  )
})

describe("the handle of a run with a missing sub-agent", () => {
  test(
    "lists it as missing while other calls run, and fails with AgentNotFound when nothing else is left",
    Effect.gen(function* () {
      const { model, request } = yield* held()
      const { own, runtime } = yield* without(model)
      const handle = yield* attach([runtime], runId)
      yield* handle.decide(approve(request("own")))
      const again = expect(yield* handle.wait, "interrupted")
      assert.deepStrictEqual<unknown>(namesOf(again.missing), [missing])
      assert.deepStrictEqual(own.ran, ["own"])
      yield* handle.decide(approve(request("child")))
      const error = yield* Effect.flip(handle.done)
      assert.deepStrictEqual<unknown>({ ...error }, missing)
    }).pipe(Effect.scoped)
  )

  test(
    "stays held on the other requests after a decision on the missing agent's request",
    Effect.gen(function* () {
      const { model, request } = yield* held()
      const { own, runtime } = yield* without(model)
      const handle = yield* attach([runtime], runId)
      yield* handle.decide(approve(request("child")))
      const first = expect(yield* handle.wait, "interrupted")
      assert.deepStrictEqual<unknown>(namesOf(first.missing), [missing])
      assert.deepStrictEqual(
        handle.interruptions().map(({ requestId }) => requestId),
        [request("own").requestId]
      )
      yield* handle.decide(approve(request("own")))
      const error = yield* Effect.flip(handle.done)
      assert.deepStrictEqual<unknown>({ ...error }, missing)
      assert.deepStrictEqual(own.ran, ["own"])
    }).pipe(Effect.scoped)
  )
})

describe("a read beside a missing sub-agent", () => {
  test(
    "runs",
    Effect.gen(function* () {
      const look = safe("look")
      const child = Agent.make("child", { tools: [probe("pay").tool] })
      const model = scripted({
        lead: [
          { calls: [delegate("child")] },
          { calls: [call("pay", "own")] },
          { calls: [call("look", "1")] }
        ],
        child: [{ calls: [call("pay", "child")] }]
      })
      const own = probe("pay")
      const lead = (subAgents: ReadonlyArray<Agent.Any>) =>
        Agent.make("lead", { tools: [own.tool, look.tool], subAgents, delegation: "delegate" })
      const { runtime } = yield* rebind(lead([child]), model)
      const asked = yield* runPromptStored(runtime, { prompt: "go", runId })
      const { runtime: poorer } = yield* rebind(lead([]), model)
      const decisions = [approve(approvalOf(asked, "own"))]
      expect(yield* runPromptStored(poorer, { runId, decisions }), "interrupted")
      assert.deepStrictEqual([own.ran, look.ran], [["own"], ["1"]])
    })
  )
})
