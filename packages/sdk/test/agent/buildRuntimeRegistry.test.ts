import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import { subAgentOf } from "../../src/agent/BoundAgent.ts"
import { buildRuntimeRegistry } from "../../src/agent/buildRuntimeRegistry.ts"
import type { CapabilityProfile } from "../../src/agent/CapabilityProfile.ts"
import { type BoundAgent } from "../../src/agent/Entry.ts"
import type { RuntimeContext, RuntimeExtension } from "../../src/agent/RuntimeDefinition.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as Tool from "../../src/tool/Tool.ts"
import type { Awaitable } from "../../src/tool/ToolOptions.ts"
import { bind, probe, safe } from "../helpers/Fixture.ts"

const read = safe("file_read").tool
const list = safe("file_list").tool
const write = probe("file_write").tool
const drop = probe("drop", { safety: "privileged" }).tool

const coder = Agent.make("coder", { tools: [read, write] })
const tester = Agent.make("tester", { tools: [drop], profile: "small", aliases: ["qa"] })
const lead = Agent.make("lead", {
  instructions: "Be brief.",
  tools: [read, list, write, drop, Tool.askUser],
  subAgents: [coder, tester],
  limits: { maxTurns: 4, maxToolCalls: 9 }
})

const shown = (bound: BoundAgent | undefined): ReadonlyArray<string> =>
  bound?.definitions.map(({ name }) => name) ?? []

/** The registry of the agent `lead` under a profile. */
const left = (profile: Omit<CapabilityProfile, "name">, extensions?: ReadonlyArray<RuntimeExtension>) =>
  buildRuntimeRegistry(lead, { name: "tried", ...profile }, extensions)

const told = (bound: BoundAgent): Awaitable<string> => {
  const { instructions = "" } = bound.agent.options
  return typeof instructions === "string" ? instructions : instructions({} as Agent.InstructionsContext)
}

describe("a capability profile", () => {
  it.effect("without conditions keeps every tool", () =>
    Effect.gen(function* () {
      const bound = yield* left({ description: "Everything", mode: "act" })
      assert.strictEqual(bound.agent, lead)
      assert.deepStrictEqual(shown(bound), [
        "file_read",
        "file_list",
        "file_write",
        "drop",
        "ask_user",
        "coder",
        "tester"
      ])
    })
  )

  it.effect("selects tools by name patterns", () =>
    Effect.gen(function* () {
      const bound = yield* left({ tools: { names: ["file_*", "ask_user"], except: ["*_list"] } })
      assert.deepStrictEqual(shown(bound), ["file_read", "file_write", "ask_user", "coder", "tester"])
      assert.deepStrictEqual(shown(yield* left({ tools: { names: [] }, subAgents: { names: [] } })), [])
    })
  )

  it.effect("selects tools by their safety", () =>
    Effect.gen(function* () {
      const bound = yield* left({ tools: { safety: ["readOnly"] } })
      assert.deepStrictEqual(shown(bound), ["file_read", "file_list", "ask_user", "coder", "tester"])
    })
  )

  it.effect("keeps a tool that meets all conditions", () =>
    Effect.gen(function* () {
      const bound = yield* left({
        tools: { names: ["file_*"], except: ["file_list"], safety: ["readOnly"] },
        subAgents: { names: [] }
      })
      assert.deepStrictEqual(shown(bound), ["file_read"])
    })
  )

  it.effect("applies to sub-agents at any depth", () =>
    Effect.gen(function* () {
      const deep = Agent.make("deep", { subAgents: [lead] })
      const bound = yield* buildRuntimeRegistry(deep, { name: "plan", tools: { safety: ["readOnly"] } })
      const inner = subAgentOf(bound, "lead")?.bound
      assert.deepStrictEqual(shown(inner), ["file_read", "file_list", "ask_user", "coder", "tester"])
      assert.deepStrictEqual(shown(inner && subAgentOf(inner, "coder")?.bound), ["file_read"])
      assert.deepStrictEqual(shown(inner && subAgentOf(inner, "tester")?.bound), [])
    })
  )

  it.effect("applies to agents that take over by a handoff, and to those that hand back", () =>
    Effect.gen(function* () {
      const front: Agent.Any = Agent.make("front", {
        tools: [read, write],
        handoffs: () => [back, expert]
      })
      const back: Agent.Any = Agent.make("back", { tools: [drop, list], handoffs: () => [front] })
      const expert = Agent.make("expert", { tools: [drop] })
      const bound = yield* buildRuntimeRegistry(
        front,
        {
          name: "plan",
          tools: { safety: ["readOnly"] },
          subAgents: { except: ["expert"] },
          limits: { maxTurns: 2 }
        },
        [{ name: "notes", tools: () => [safe("note").tool] }]
      )
      assert.deepStrictEqual(shown(bound), ["file_read", "note", "transfer_to_back"])
      const other = bound.team.get("back")
      assert.deepStrictEqual(shown(other), ["file_list", "note", "transfer_to_front"])
      assert.strictEqual(other?.limits.maxTurns, 2)
      assert.strictEqual(bound.team.get("front"), bound)
      assert.isFalse(bound.team.has("expert"))
    })
  )

  it.effect("selects sub-agents by name patterns", () =>
    Effect.gen(function* () {
      const bound = yield* left({ subAgents: { except: ["co*"] } })
      assert.isUndefined(subAgentOf(bound, "coder"))
      assert.isDefined(subAgentOf(bound, "tester"))
      const delegating = Agent.make("d", { subAgents: [coder, tester], delegation: "delegate" })
      const some = yield* buildRuntimeRegistry(delegating, { name: "p", subAgents: { names: ["tester"] } })
      assert.isUndefined(subAgentOf(some, "coder"))
      assert.isDefined(subAgentOf(some, "tester"))
      const none = yield* buildRuntimeRegistry(delegating, { name: "p", subAgents: { names: [] } })
      assert.deepStrictEqual(shown(none), [])
    })
  )

  it.effect("matches aliases as well", () =>
    Effect.gen(function* () {
      const shell = probe("bash", { aliases: ["shell"] }).tool
      const agent = Agent.make("a", { tools: [shell], subAgents: [tester] })
      const profile = { name: "p", tools: { except: ["shell"] }, subAgents: { except: ["qa"] } }
      assert.deepStrictEqual(shown(yield* buildRuntimeRegistry(agent, profile)), [])
      const only = { name: "p", tools: { names: ["shell"] }, subAgents: { names: ["qa"] } }
      assert.deepStrictEqual(shown(yield* buildRuntimeRegistry(agent, only)), ["bash", "tester"])
    })
  )

  it.effect("replaces the approval policies of the whole tree", () =>
    Effect.gen(function* () {
      const bound = yield* left({ policy: { mode: "none" } })
      assert.deepStrictEqual(bound.agent.policy, { mode: "none" })
      assert.deepStrictEqual(subAgentOf(bound, "coder")?.bound.agent.policy, { mode: "none" })
      assert.deepStrictEqual((yield* left({})).agent.policy, { mode: "ask" })
    })
  )

  it.effect("changes the limits of the prompted agent only", () =>
    Effect.gen(function* () {
      const bound = yield* left({ limits: { maxTurns: 2, maxCostUsd: 1 } })
      assert.deepInclude({ ...bound.limits }, { maxTurns: 2, maxToolCalls: 9, maxCostUsd: 1 })
      assert.strictEqual(subAgentOf(bound, "coder")?.bound.limits.maxTurns, 8)
    })
  )

  it.effect("sets the model of the agent, and of sub-agents without a model", () =>
    Effect.gen(function* () {
      const bound = yield* left({ model: "large" })
      assert.strictEqual(bound.agent.options.profile, "large")
      assert.strictEqual(subAgentOf(bound, "coder")?.bound.agent.options.profile, "large")
      assert.strictEqual(subAgentOf(bound, "tester")?.bound.agent.options.profile, "small")
      const own = yield* buildRuntimeRegistry(tester, { name: "p", model: "large" })
      assert.strictEqual(own.agent.options.profile, "large")
    })
  )

  it.effect("appends its instructions to static and computed instructions of the agent", () =>
    Effect.gen(function* () {
      const profile = { name: "plan", instructions: "Only plan." }
      assert.strictEqual(told(yield* buildRuntimeRegistry(lead, profile)), "Be brief.\n\nOnly plan.")
      assert.strictEqual(told(yield* buildRuntimeRegistry(coder, profile)), "Only plan.")
      for (const instructions of [
        () => "Own.",
        () => Promise.resolve("Own."),
        () => Effect.succeed("Own.")
      ] satisfies ReadonlyArray<() => Awaitable<string>>) {
        const agent = yield* buildRuntimeRegistry(Agent.make("a", { instructions }), profile)
        const { runtime, model } = yield* bind(agent.agent, ["done"])
        yield* runPrompt(runtime, { prompt: "go" })
        assert.strictEqual(model.requests[0]?.instructions, "Own.\n\nOnly plan.")
      }
    })
  )
})

describe("an extension", () => {
  const note = probe("note").tool

  it.effect("adds its tools to the agent, and not to sub-agents", () =>
    Effect.gen(function* () {
      const bound = yield* left({}, [{ name: "notes", tools: () => [note] }, { name: "silent" }])
      assert.include(shown(bound), "note")
      assert.deepStrictEqual(shown(subAgentOf(bound, "coder")?.bound), ["file_read", "file_write"])
    })
  )

  it.effect("is subject to the capability profile", () =>
    Effect.gen(function* () {
      const notes = { name: "notes", tools: () => [note] }
      assert.notInclude(shown(yield* left({ tools: { safety: ["readOnly"] } }, [notes])), "note")
      assert.notInclude(shown(yield* left({ tools: { except: ["note"] } }, [notes])), "note")
    })
  )

  it.effect("receives the agent as defined, the profile and the mode", () =>
    Effect.gen(function* () {
      const seen: Array<RuntimeContext> = []
      const watch: RuntimeExtension = {
        name: "watch",
        tools: (context) => {
          seen.push(context)
          return []
        }
      }
      yield* left({ mode: "plan", tools: { names: [] } }, [watch])
      yield* left({}, [watch])
      assert.isTrue(seen.every(({ agent }) => agent === lead))
      assert.deepStrictEqual(
        seen.map(({ mode, profile }) => [profile.name, mode]),
        [
          ["tried", "plan"],
          ["tried", "tried"]
        ]
      )
      assert.throws(() => seen[0]?.runtime(), "createRuntime")
    })
  )

  it.effect("is named with the reason when its tools cannot be made", () =>
    Effect.gen(function* () {
      const broken: RuntimeExtension = {
        name: "broken",
        tools: () => {
          throw new Error("no such folder")
        }
      }
      const error = yield* Effect.flip(left({}, [broken]))
      assert.strictEqual(error._tag, "ExtensionFailed")
      assert.strictEqual(error.message, 'The extension "broken" could not make its tools: no such folder')
    })
  )

  it.effect("cannot reuse the name of another tool", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(left({}, [{ name: "again", tools: () => [read] }]))
      assert.deepInclude({ ...error }, { _tag: "ToolNameTaken", tool: "file_read" })
    })
  )

  it.effect("cannot reuse the name of a tool of the loop", () =>
    Effect.gen(function* () {
      const handing = Agent.make("lead", {
        subAgents: [coder],
        delegation: "delegate",
        handoffs: [tester]
      })
      const names = shown(yield* buildRuntimeRegistry(handing, { name: "tried" }))
      assert.deepStrictEqual(names, [
        "delegate",
        "wait_for_agent",
        "list_agents",
        "message_agent",
        "cancel_agent",
        "transfer_to_tester"
      ])
      for (const name of names) {
        const taken = { name: "mine", tools: () => [safe(name).tool] }
        const error = yield* Effect.flip(buildRuntimeRegistry(handing, { name: "tried" }, [taken]))
        assert.deepInclude({ ...error }, { _tag: "ToolNameTaken", agent: "lead", tool: name })
      }
      const alias = safe("other", { aliases: ["coder"] }).tool
      const asTool = Agent.make("lead", { tools: [alias], subAgents: [coder] })
      const error = yield* Effect.flip(buildRuntimeRegistry(asTool, { name: "tried" }))
      assert.deepInclude({ ...error }, { _tag: "ToolNameTaken", tool: "coder" })
    })
  )
})
