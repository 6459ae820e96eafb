/** Rules of policies that name no tool: refused where the tools are known, and logged where tools may still be added. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import type * as Scope from "effect/Scope"
import * as Agent from "../../src/agent/Agent.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import { reconfigureRuntime } from "../../src/agent/reconfigureRuntime.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import { dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import type { ApprovalPolicy } from "../../src/domain/ApprovalPolicy.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { submitPrompt } from "../../src/durable/submitPrompt.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, type RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"

const deny = (...tools: ReadonlyArray<string>): ApprovalPolicy => ({
  mode: "ask",
  rules: tools.map((tool) => ({ tool, action: "deny" }))
})

const wipe = Tool.make("wipe", { needsApproval: false, handler: () => "wiped" })
const model = ScriptedModel.make(() => "done")
const withModel = Effect.provide(Layer.merge(model.layer, layerMemory))

const made = (
  policy: ApprovalPolicy,
  options: Pick<Agent.AgentOptions<never, undefined>, "handoffs" | "subAgents"> = {}
) =>
  Effect.scoped(createRuntime({ agent: Agent.make("a", { tools: [wipe], policy, ...options }) })).pipe(
    withModel
  )

describe("a rule that names no tool", () => {
  it.effect("is refused with the nearest name when the runtime is made", () =>
    Effect.gen(function* () {
      for (const make of [
        made(deny("wpie")),
        Runtime.make({ agent: Agent.make("a", { tools: [wipe], policy: deny("wpie") }) }).pipe(withModel)
      ]) {
        const error = yield* Effect.flip(make as Effect.Effect<unknown, Error>)
        assert.deepInclude(error, { _tag: "AgentDefinitionError", agent: "a" } as never)
        assert.include(
          error.message,
          'its policy has a rule for "wpie", and these agents have no such tool (did you mean "wipe"?)'
        )
      }
    })
  )

  it.effect("is refused in the policy of a profile, of a sub-agent and of a handoff", () =>
    Effect.gen(function* () {
      const profiles = [{ name: "strict", policy: deny("wpie") }]
      const agent = Agent.make("a", { tools: [wipe] })
      const error = yield* Effect.flip(Effect.scoped(createRuntime({ agent, profiles })).pipe(withModel))
      assert.strictEqual(error._tag, "RuntimeOptionsInvalid")
      assert.include(error.message, 'the policy of the profile "strict" has a rule for "wpie"')
      const helper = Agent.make("helper", { policy: deny("wpie") })
      for (const options of [{ subAgents: [helper] }, { handoffs: [helper] }]) {
        const refused = yield* Effect.flip(made(deny(), options))
        assert.deepInclude(refused, { _tag: "AgentDefinitionError", agent: "helper" } as never)
      }
    })
  )

  it.effect(
    "is accepted if an agent of the tree has the tool, if Fermata may add it, and if it has a wildcard",
    () =>
      Effect.gen(function* () {
        const helper = Agent.make("helper", { tools: [Tool.make("erase", { handler: () => "" })] })
        const named = deny("wipe", "erase", "helper", "ask_user", "delegate", "cancel_agent", "rm*", "*")
        yield* made(named, { subAgents: [helper] })
        yield* made(deny("transfer_to_helper", "erase"), { handoffs: () => [helper] })
        // A profile that excludes the tool does not make its rules wrong.
        const agent = Agent.make("a", { tools: [wipe], policy: deny("wipe") })
        const profiles = [{ name: "plan", tools: { names: [] } }]
        yield* Effect.scoped(createRuntime({ agent, profiles, profile: "plan" })).pipe(withModel)
      })
  )

  it.effect(
    "is logged once if tools of unknown names may be added: by an extension, or by an MCP server",
    () =>
      Effect.gen(function* () {
        const logged: Array<string> = []
        const logger = Logger.layer([Logger.make(({ message }) => logged.push(String(message)))])
        const served = Tool.make("search", { identity: "mcp:docs/search", handler: () => "" })
        const agent = Agent.make("a", { tools: [wipe, served], policy: deny("wpie") })
        const extended = Agent.make("a", { tools: [wipe], policy: deny("wpie") })
        yield* Effect.gen(function* () {
          const runtime = yield* createRuntime({ agent })
          yield* runPrompt(runtime, { prompt: "go", policy: deny("wpie", "saerch") })
          yield* runPrompt(runtime, { prompt: "go", policy: deny("wpie", "saerch") })
          yield* createRuntime({ agent: extended, extensions: [{ name: "more" }] })
        }).pipe(Effect.scoped, withModel, Effect.provide(logger))
        assert.deepStrictEqual(
          logged.map((text) => /a rule for "(\w+)"/.exec(text)?.[1]),
          ["wpie", "saerch", "wpie"]
        )
      })
  )

  it.effect("is refused in a policy that a caller gives to a run, at every door", () =>
    Effect.gen(function* () {
      const runtime = yield* Runtime.make({ agent: Agent.make("a", { tools: [wipe] }) })
      const first = yield* runPromptStored(runtime, { prompt: "go", runId: "first" })
      const conductor = yield* Conductor.make({})
      const given = { prompt: "go", policy: deny("wpie") }
      for (const door of [
        runPrompt(runtime, given),
        runPrompt(runtime, { ...given, state: first.state }),
        runPromptStored(runtime, given),
        submitPrompt(runtime, given),
        dispatchPromptStored(runtime, given),
        forkRun(runtime, { ...given, runId: "first", revision: 1 }),
        conductor.dispatch(runtime, given),
        conductor.dispatchStored(runtime, given)
      ]) {
        const error = yield* Effect.flip(door as Effect.Effect<unknown, Error, RunStore | Scope.Scope>)
        assert.strictEqual((error as Error & { readonly _tag: string })._tag, "PolicyInvalid")
        assert.include(error.message, 'it has a rule for "wpie"')
      }
      // A tool that a reconfiguration adds can be named from then on.
      yield* reconfigureRuntime(runtime, { tools: [Tool.make("wpie", { handler: () => "" })] })
      yield* runPrompt(runtime, given)
    }).pipe(Effect.scoped, withModel)
  )

  it("is accepted if another agent of the Fermata has the tool, and refused if none has", async () => {
    const shared = deny("wipe", "erase")
    const one = Agent.make("one", { tools: [wipe], policy: shared })
    const two = Agent.make("two", { tools: [Tool.make("erase", { handler: () => "" })], policy: shared })
    const options = { model: model.client, store: layerMemory }
    const fermata = await Fermata.make({ ...options, agents: [one, two] })
    await fermata.runPrompt("one", "go", { policy: shared })
    const refused = await fermata.runPrompt("one", "go", { policy: deny("wpie") }).catch((error) => error)
    assert.strictEqual(refused._tag, "PolicyInvalid")
    await fermata.close()
    const alone = await Fermata.make({ ...options, agents: [one] }).catch((error) => error)
    assert.strictEqual(alone._tag, "AgentDefinitionError")
  })
})
