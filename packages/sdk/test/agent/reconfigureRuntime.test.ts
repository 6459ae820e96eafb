import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as References from "effect/References"
import * as Agent from "../../src/agent/Agent.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import { reconfigureRuntime, type RuntimeChange } from "../../src/agent/reconfigureRuntime.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import type { RuntimeContext } from "../../src/agent/RuntimeDefinition.ts"
import type { ReconfiguredNotice } from "../../src/agent/RuntimeHooks.ts"
import * as Id from "../../src/domain/Id.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import * as ModelRouter from "../../src/model/ModelRouter.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as RunStore from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { approvalOf, approve, call, deny, expect, only, probe, results, safe } from "../helpers/Fixture.ts"

const read = safe("read")
const write = probe("write")
const agent = Agent.make("coder", { tools: [read.tool, write.tool], profile: "small" })
const profiles = [
  { name: "plan", mode: "plan", tools: { safety: ["readOnly" as const] }, model: "large" },
  { name: "act", policy: { mode: "all" as const } }
]

/** A runtime with the profiles `default`, `plan` and `act`, and the model profiles `small` and `large`. */
const make = (
  script: ReadonlyArray<ScriptedModel.Script> = [],
  options: Partial<Parameters<typeof createRuntime<never, undefined>>[0]> = {}
) =>
  Effect.gen(function* () {
    const model = ScriptedModel.make(script)
    const router = ModelRouter.make({ clients: { small: model.client, large: model.client } })
    const runtime = yield* createRuntime({ agent, profiles, ...options }).pipe(
      Effect.provideService(ModelClient, router)
    )
    return { runtime, model }
  })

const tools = (runtime: Runtime<any>) => runtime.bound.definitions.map(({ name }) => name)

/** The parts of a runtime that can change. */
const changing = ({ bound, choice, mode, model, profileName, services }: Runtime<any>) => ({
  bound,
  choice,
  mode,
  model,
  profileName,
  services
})

describe("reconfigureRuntime", () => {
  it.effect("switches profile, tools, model and mode, and returns the new configuration", () =>
    Effect.gen(function* () {
      const { runtime } = yield* make()
      const now = yield* reconfigureRuntime(runtime, { profile: "plan" })
      assert.deepStrictEqual(now, { profile: "plan", mode: "plan", model: "large", tools: ["read"] })
      assert.strictEqual(runtime.profileName, "plan")
      assert.strictEqual(runtime.mode, "plan")
      assert.strictEqual(runtime.bound.agent.options.profile, "large")
      const back = yield* reconfigureRuntime(runtime, { profile: "default" })
      assert.deepStrictEqual(back, {
        profile: "default",
        mode: "default",
        model: "small",
        tools: ["read", "write"]
      })
      assert.strictEqual(runtime.bound.agent, agent)
    })
  )

  it.effect("applies the new tools to the next run of the session", () =>
    Effect.gen(function* () {
      const { runtime, model } = yield* make(["a plan", "done"], { profile: "plan" })
      const planned = yield* runPrompt(runtime, { prompt: "plan it" })
      yield* reconfigureRuntime(runtime, { profile: "act" })
      yield* runPrompt(runtime, { state: planned.state, prompt: "do it" })
      assert.deepStrictEqual(
        model.requests.map(({ profile, tools }) => [profile, tools.map(({ name }) => name)]),
        [
          ["large", ["read"]],
          ["small", ["read", "write"]]
        ]
      )
    })
  )

  it.effect("applies the new model to the next turn of a held run", () =>
    Effect.gen(function* () {
      const { runtime, model } = yield* make([{ calls: [call("write", "1")] }, "done"])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      yield* reconfigureRuntime(runtime, { model: "large" })
      const decisions = [approve(approvalOf(held, "1"))]
      expect(yield* runPrompt(runtime, { state: held.state, decisions }), "completed")
      assert.deepStrictEqual(
        model.requests.map(({ profile }) => profile),
        ["small", "large"]
      )
    })
  )

  it.effect("keeps a run held with ToolUnavailable when the new profile excludes its tool", () =>
    Effect.gen(function* () {
      const { runtime } = yield* make([{ calls: [call("write", "7")] }, "done"])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      yield* reconfigureRuntime(runtime, { profile: "plan" })
      const decisions = [approve(approvalOf(held, "7"))]
      const error = yield* Effect.flip(runPrompt(runtime, { state: held.state, decisions }))
      assert.deepInclude({ ...error }, { _tag: "ToolUnavailable", tool: "write", reason: "missing" })
      assert.notInclude(write.ran, "7")
      yield* reconfigureRuntime(runtime, { profile: "act" })
      expect(yield* runPrompt(runtime, { state: held.state, decisions }), "completed")
      assert.include(write.ran, "7")
    })
  )

  it.effect("allows a denial of a call of an excluded tool", () =>
    Effect.gen(function* () {
      const { runtime } = yield* make([{ calls: [call("write", "8")] }, "done"])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      yield* reconfigureRuntime(runtime, { profile: "plan" })
      const decisions = [deny(only(held, "approval"), { message: "not now" })]
      const result = yield* runPrompt(runtime, { state: held.state, decisions })
      assert.deepStrictEqual(results(expect(result, "completed").state), ["write denied: not now"])
    })
  )

  it.effect("keeps a stored run held when the new profile excludes its tool", () =>
    Effect.gen(function* () {
      const { runtime } = yield* make([{ calls: [call("write", "9")] }, "done"])
      const runId = Id.RunId.make("kept")
      const held = yield* runPromptStored(runtime, { runId, prompt: "go" })
      const decisions = [approve(approvalOf(held, "9"))]
      yield* reconfigureRuntime(runtime, { profile: "plan" })
      const error = yield* Effect.flip(runPromptStored(runtime, { runId, decisions }))
      assert.strictEqual(error._tag, "ToolUnavailable")
      assert.notInclude(write.ran, "9")
      const store = yield* RunStore.RunStore
      assert.strictEqual((yield* store.head(runId)).status, "held")
      yield* reconfigureRuntime(runtime, { profile: "default" })
      expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.include(write.ran, "9")
    }).pipe(Effect.provide(RunStore.layerMemory))
  )

  it.effect("is refused during a turn, and names the runs", () =>
    Effect.gen(function* () {
      const { runtime } = yield* make()
      const before = changing(runtime)
      let isMidTurn = true
      runtime.runs.add({ runId: "run-1", isMidTurn: () => isMidTurn, cancel: () => {} })
      runtime.runs.add({ runId: "run-2", isMidTurn: () => false, cancel: () => {} })
      const error = yield* Effect.flip(reconfigureRuntime(runtime, { profile: "plan" }))
      assert.deepInclude({ ...error }, { _tag: "RuntimeBusy", runs: ["run-1"], isRetryable: true })
      assert.include(error.message, "The run run-1 is in the middle of a turn: reconfigure between turns")
      assert.deepStrictEqual(changing(runtime), before)
      isMidTurn = false
      yield* reconfigureRuntime(runtime, { profile: "plan" })
      assert.strictEqual(runtime.profileName, "plan")
      runtime.runs.clear()
    })
  )

  it.effect("checks for turns after the new tools are made", () =>
    Effect.gen(function* () {
      let runtime: Runtime<any> | undefined
      const late = {
        name: "late",
        // A run starts its turn while the tools are made.
        tools: () => {
          runtime?.runs.add({ runId: "run-3", isMidTurn: () => true, cancel: () => {} })
          return []
        }
      }
      runtime = (yield* make([], { extensions: [late] })).runtime
      const error = yield* Effect.flip(reconfigureRuntime(runtime, { profile: "plan" }))
      assert.strictEqual(error._tag, "RuntimeBusy")
      assert.strictEqual(runtime.profileName, "default")
      runtime.runs.clear()
    })
  )

  it.effect("does not change a runtime that is closed meanwhile", () =>
    Effect.gen(function* () {
      let runtime: Runtime<any> | undefined
      const closing = {
        name: "closing",
        tools: () => {
          if (runtime !== undefined) Effect.runFork(runtime.close("completed"))
          return []
        }
      }
      runtime = (yield* make([], { extensions: [closing] })).runtime
      const error = yield* Effect.flip(reconfigureRuntime(runtime, { profile: "plan" }))
      assert.strictEqual(error._tag, "RuntimeClosed")
      assert.strictEqual(runtime.profileName, "default")
    })
  )

  it.effect("is refused for a closed runtime", () =>
    Effect.gen(function* () {
      const { runtime } = yield* make()
      yield* runtime.close("completed")
      const error = yield* Effect.flip(reconfigureRuntime(runtime, { mode: "act" }))
      assert.strictEqual(error._tag, "RuntimeClosed")
    })
  )

  it.effect("refuses an unknown profile, model or change, and lists the known ones", () =>
    Effect.gen(function* () {
      const { runtime } = yield* make()
      const before = changing(runtime)
      const refused = (change: object) => Effect.flip(reconfigureRuntime(runtime, change))
      assert.deepInclude(
        { ...(yield* refused({ profile: "plna" })) },
        { _tag: "CapabilityProfileNotFound", known: ["default", "plan", "act"] }
      )
      assert.deepInclude(
        { ...(yield* refused({ model: "huge" })) },
        { _tag: "ModelProfileNotFound", profile: "huge", known: ["small", "large"] }
      )
      const typo = yield* refused({ profil: "plan" })
      assert.strictEqual(typo._tag, "RuntimeOptionsInvalid")
      assert.include(typo.message, 'there is no option "profil" (did you mean "profile"?)')
      const unlike = yield* refused({ color: "red" })
      assert.include(unlike.message, 'there is no option "color" (there are profile, tools, model, mode)')
      for (const change of [{ mode: "" }, { profile: 1 }, { tools: {} }, { model: 7 }, { model: {} }]) {
        assert.include((yield* refused(change)).message, `"${Object.keys(change)[0]}" takes`)
      }
      assert.deepStrictEqual(changing(runtime), before)
    })
  )

  it.effect("applies a change as a whole or not at all", () =>
    Effect.gen(function* () {
      const { runtime } = yield* make()
      const before = changing(runtime)
      const twice = [safe("look").tool, safe("look").tool]
      const changes: ReadonlyArray<readonly [RuntimeChange, string]> = [
        [{ profile: "plan", model: "huge" }, "ModelProfileNotFound"],
        [{ profile: "plan", mode: "x", tools: twice }, "ToolNameTaken"],
        [{ mode: "x", tools: [safe("bad name").tool] }, "ToolDefinitionError"]
      ]
      for (const [change, tag] of changes) {
        assert.strictEqual((yield* Effect.flip(reconfigureRuntime(runtime, change)))._tag, tag)
        assert.deepStrictEqual(changing(runtime), before)
      }
    })
  )

  it.effect("replaces the agent's tools, and applies the profile to the new ones", () =>
    Effect.gen(function* () {
      const { runtime } = yield* make()
      yield* reconfigureRuntime(runtime, { tools: [safe("look").tool, probe("burn").tool] })
      assert.deepStrictEqual(tools(runtime), ["look", "burn"])
      yield* reconfigureRuntime(runtime, { profile: "plan" })
      assert.deepStrictEqual(tools(runtime), ["look"])
      yield* reconfigureRuntime(runtime, { profile: "default", tools: [write.tool] })
      assert.deepStrictEqual(tools(runtime), ["write"])
    })
  )

  it.effect("replaces the tools of an agent that gets the conversation back", () =>
    Effect.gen(function* () {
      const front: Agent.Agent = Agent.make("front", {
        tools: [read.tool],
        handoffs: () => [back]
      })
      const back: Agent.Agent = Agent.make("back", { handoffs: () => [front] })
      const runtime = yield* createRuntime({ agent: front }).pipe(
        Effect.provideService(ModelClient, ScriptedModel.make([]).client)
      )
      yield* reconfigureRuntime(runtime, { tools: [safe("look").tool] })
      assert.deepStrictEqual(tools(runtime), ["look", "transfer_to_back"])
      assert.strictEqual(runtime.bound.team.get("back")?.team.get("front"), runtime.bound)
    })
  )

  it.effect("provides services to new tools, and keeps those of the old tools", () =>
    Effect.gen(function* () {
      class Box extends Context.Service<Box, string>()("t/Box") {}
      class Bag extends Context.Service<Bag, string>()("t/Bag") {}
      const inside = <S, R>(name: string, key: Context.Service<R, S>) =>
        Tool.make(name, { safety: "readOnly", handler: () => Effect.map(key, String) })
      const model = ScriptedModel.make([{ calls: [{ tool: "box" }, { tool: "bag" }] }, "done"])
      const boxed = Agent.make("a", { tools: [inside("box", Box)] })
      const runtime = yield* createRuntime({ agent: boxed }).pipe(
        Effect.provideService(Box, "old box"),
        Effect.provideService(ModelClient, model.client)
      )
      yield* reconfigureRuntime(runtime, { tools: [inside("box", Box), inside("bag", Bag)] }).pipe(
        Effect.provideService(Box, "new box"),
        Effect.provideService(Bag, "a bag")
      )
      const { state } = yield* runPrompt(runtime, { prompt: "go" })
      assert.deepStrictEqual(results(state), ["box completed: old box", "bag completed: a bag"])
    })
  )

  it.effect("replaces the model client", () =>
    Effect.gen(function* () {
      const { runtime, model } = yield* make(["small talk"])
      const other = ScriptedModel.make(["big talk"])
      yield* reconfigureRuntime(runtime, { model: "large" })
      const now = yield* reconfigureRuntime(runtime, { model: other.client })
      // A profile chosen by name belonged to the earlier client.
      assert.strictEqual(now.model, "small")
      const result = yield* runPrompt(runtime, { prompt: "go" })
      assert.strictEqual(expect(result, "completed").text, "big talk")
      assert.strictEqual(model.remaining(), 1)
    })
  )

  it.effect("keeps parts that the change omits", () =>
    Effect.gen(function* () {
      const { runtime } = yield* make()
      yield* reconfigureRuntime(runtime, { model: "large", mode: "careful" })
      assert.deepInclude(yield* reconfigureRuntime(runtime, {}), { mode: "careful", model: "large" })
      // A profile without model and mode keeps the model and is its own mode.
      assert.deepInclude(yield* reconfigureRuntime(runtime, { profile: "act" }), {
        mode: "act",
        model: "large"
      })
      // A profile with model and mode applies until another choice.
      assert.deepInclude(yield* reconfigureRuntime(runtime, { profile: "plan" }), {
        mode: "plan",
        model: "large"
      })
      assert.deepInclude(yield* reconfigureRuntime(runtime, { model: "small" }), {
        mode: "plan",
        model: "small"
      })
      assert.deepInclude(yield* reconfigureRuntime(runtime, { profile: "plan", mode: "x", model: "small" }), {
        mode: "x",
        model: "small"
      })
    })
  )

  it.effect("drops a chosen model when a profile names its own", () =>
    Effect.gen(function* () {
      const { runtime } = yield* make()
      yield* reconfigureRuntime(runtime, { model: "large" })
      yield* reconfigureRuntime(runtime, { profile: "plan" })
      assert.deepInclude(yield* reconfigureRuntime(runtime, { profile: "default" }), { model: "small" })
    })
  )

  it.effect("makes the extensions' tools again for the new profile and mode", () =>
    Effect.gen(function* () {
      const seen: Array<readonly [string, string]> = []
      const toggle = {
        name: "toggle",
        tools: ({ mode, profile }: RuntimeContext) => {
          seen.push([profile.name, mode])
          return mode === "plan" ? [safe("present_plan").tool] : []
        }
      }
      const { runtime } = yield* make([], { extensions: [toggle] })
      yield* reconfigureRuntime(runtime, { profile: "plan" })
      assert.deepStrictEqual(tools(runtime), ["read", "present_plan"])
      yield* reconfigureRuntime(runtime, { mode: "go" })
      assert.deepStrictEqual(tools(runtime), ["read"])
      assert.deepStrictEqual(seen, [
        ["default", "default"],
        ["plan", "plan"],
        ["plan", "go"]
      ])
    })
  )

  it.effect("applies concurrent changes in sequence", () =>
    Effect.gen(function* () {
      const { runtime } = yield* make()
      yield* Effect.all(
        [
          reconfigureRuntime(runtime, { mode: "a" }),
          reconfigureRuntime(runtime, { model: "large" }),
          reconfigureRuntime(runtime, { tools: [safe("look").tool] })
        ],
        { concurrency: "unbounded" }
      ).pipe(Effect.provideService(References.MaxOpsBeforeYield, 3))
      assert.strictEqual(runtime.mode, "a")
      assert.strictEqual(runtime.bound.agent.options.profile, "large")
      assert.deepStrictEqual(tools(runtime), ["look"])
    })
  )

  it.effect("notifies the hook with both configurations, and survives its failure", () =>
    Effect.gen(function* () {
      const told: Array<ReconfiguredNotice> = []
      const { runtime } = yield* make([], {
        hooks: {
          onReconfigured: (change) => {
            told.push(change)
            throw new Error("no")
          }
        }
      })
      const after = yield* reconfigureRuntime(runtime, { profile: "plan" })
      yield* Effect.flip(reconfigureRuntime(runtime, { profile: "none" }))
      assert.deepStrictEqual(told, [
        {
          before: { profile: "default", mode: "default", model: "small", tools: ["read", "write"] },
          after
        }
      ])
    })
  )

  it.effect("applies the profile's policy and limits to later runs", () =>
    Effect.gen(function* () {
      const { runtime } = yield* make([{ calls: [call("write", "5")] }, "done"], {
        profiles: [{ name: "auto", policy: { mode: "all" }, limits: { maxTurns: 3 } }]
      })
      yield* reconfigureRuntime(runtime, { profile: "auto" })
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.strictEqual(state.limits.maxTurns, 3)
      assert.deepStrictEqual(state.policy, { mode: "all" })
      assert.include(write.ran, "5")
    })
  )
})
