import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type { StandardSchemaV1 } from "effect/StandardSchema"
import { z } from "zod"
import * as Agent from "../../src/agent/Agent.ts"
import { buildRuntimeRegistry } from "../../src/agent/buildRuntimeRegistry.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import type { DataSchema } from "../../src/tool/DataSchema.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { bind, probe, safe } from "../helpers/Fixture.ts"

const refused = (agent: Agent.Any) => Effect.flip(bind(agent, []))
const handler = () => ""
const mute: StandardSchemaV1<unknown, string> = {
  "~standard": { version: 1, vendor: "acme", validate: () => ({ value: "" }) }
}

const clerk = Agent.make("clerk")

describe("the definition of an agent is refused before anything runs", () => {
  it.effect("with two tools of one name", () =>
    Effect.gen(function* () {
      const error = yield* refused(Agent.make("a", { tools: [safe("read").tool, probe("read").tool] }))
      assert.deepInclude({ ...error }, { _tag: "ToolNameTaken", agent: "a", tool: "read" })
    })
  )

  it.effect("with a name or alias that another tool or sub-agent has", () =>
    Effect.gen(function* () {
      const aliased = safe("look", { aliases: ["read"] }).tool
      const error = yield* refused(Agent.make("a", { tools: [safe("read").tool, aliased] }))
      assert.strictEqual(error._tag, "ToolNameTaken")
      const other = yield* refused(
        Agent.make("a", { tools: [safe("read").tool], subAgents: [Agent.make("read")] })
      )
      assert.strictEqual(other._tag, "ToolNameTaken")
    })
  )

  it.effect("with a tool schema that has no JSON Schema", () =>
    Effect.gen(function* () {
      const tool = Tool.make("read", { parameters: mute, handler })
      const error = yield* refused(Agent.make("a", { tools: [tool] }))
      assert.strictEqual(error._tag, "ToolDefinitionError")
      assert.include(error.message, 'The tool "read" of the agent "a" cannot be used')
      assert.include(error.message, "acme schema has no JSON Schema")
    })
  )

  it.effect("with a tool timeout or approval expiry that is not a duration", () =>
    Effect.gen(function* () {
      const { tool } = probe("act")
      for (const wrong of [{ timeout: "soon" }, { approval: { expiresIn: "soon" } }]) {
        const made = { ...tool, options: { ...tool.options, ...(wrong as {}) } }
        assert.strictEqual((yield* refused(Agent.make("a", { tools: [made] })))._tag, "ToolDefinitionError")
      }
    })
  )

  it.effect("with tool parameters that are not an object", () =>
    Effect.gen(function* () {
      for (const parameters of [Schema.String, z.string(), z.array(z.string())]) {
        const tool = Tool.make("read", { parameters: parameters as DataSchema<unknown>, handler })
        const error = yield* refused(Agent.make("a", { tools: [tool] }))
        assert.include(error.message, "must be a struct")
      }
    })
  )

  it.effect("with a name that providers refuse", () =>
    Effect.gen(function* () {
      for (const name of ["has space", "a.b", "ü", "x".repeat(65)]) {
        const error = yield* refused(Agent.make("a", { tools: [Tool.make(name, { handler })] }))
        assert.strictEqual(error._tag, "ToolDefinitionError")
      }
      for (const name of ["has space", "a/b", "x".repeat(65)]) {
        assert.strictEqual((yield* refused(Agent.make(name)))._tag, "AgentDefinitionError")
      }
      const dotted = yield* refused(Agent.make("a", { subAgents: [Agent.make("b.c")] }))
      assert.include(dotted.message, "must also be valid for a tool")
    })
  )

  it.effect("with a retry of a side-effecting tool", () =>
    Effect.gen(function* () {
      const retry = Schedule.recurs(1)
      const error = yield* refused(Agent.make("a", { tools: [probe("write", { retry }).tool] }))
      assert.include(error.message, "only for tools that are readOnly or idempotent")
      yield* bind(Agent.make("a", { tools: [probe("write", { retry, idempotent: true }).tool] }), [])
      yield* bind(Agent.make("a", { tools: [safe("read", { retry }).tool] }), [])
    })
  )

  it.effect("with an output schema that has no JSON Schema", () =>
    Effect.gen(function* () {
      const error = yield* refused(Agent.make("a", { output: mute }))
      assert.strictEqual(error._tag, "AgentDefinitionError")
      assert.include(error.message, "its output schema cannot be shown to a model")
    })
  )

  it.effect("with a cycle of sub-agents, under any profile", () =>
    Effect.gen(function* () {
      const subAgents: Array<Agent.Agent> = []
      const writer = Agent.make("writer", { subAgents })
      const lead = Agent.make("lead", { subAgents: [writer] })
      subAgents.push(lead)
      const backing = Agent.make("backing", { handoffs: () => [boss] })
      const boss: Agent.Agent = Agent.make("boss", { subAgents: [backing] })
      for (const [agent, line] of [
        [lead, "lead > writer > lead"],
        [boss, "boss > backing > boss"]
      ] as const) {
        for (const profile of [{ name: "all" }, { name: "fewer", policy: { mode: "all" } }] as const) {
          const error = yield* Effect.flip(buildRuntimeRegistry(agent, profile))
          assert.strictEqual(error._tag, "AgentDefinitionError")
          assert.include(error.message, `it is a sub-agent of itself (${line})`)
        }
      }
      // A cycle of handoffs is allowed.
      const desk: Agent.Agent = Agent.make("desk", { handoffs: () => [desk, billing] })
      const billing: Agent.Agent = Agent.make("billing", { handoffs: () => [desk], subAgents: [clerk] })
      yield* buildRuntimeRegistry(desk, { name: "fewer", policy: { mode: "all" } })
    })
  )

  it.effect("with an invalid sub-agent", () =>
    Effect.gen(function* () {
      const child = Agent.make("child", { tools: [safe("read").tool, safe("read").tool] })
      const error = yield* refused(Agent.make("a", { subAgents: [child] }))
      assert.deepInclude({ ...error }, { _tag: "ToolNameTaken", agent: "child" })
    })
  )
})

describe("a privileged tool whose calls need no approval", () => {
  it.effect("is warned about once when the runtime is made, with its agent", () =>
    Effect.gen(function* () {
      const logs: Array<string> = []
      const logger = Logger.make(({ logLevel, message }) => void logs.push(`${logLevel} ${String(message)}`))
      const open = { safety: "privileged", needsApproval: false } as const
      const scout = Agent.make("scout", { tools: [probe("pay", open).tool] })
      const lead = Agent.make("lead", {
        tools: [
          probe("erase", open).tool,
          probe("asks", { safety: "privileged" }).tool,
          probe("write", { needsApproval: false }).tool,
          probe("rule", { safety: "privileged", needsApproval: () => false }).tool
        ],
        subAgents: [scout],
        handoffs: [scout]
      })
      const made = Effect.provide(bind(lead, [{ calls: [] }, "done"]), Logger.layer([logger]))
      const { runtime } = yield* made
      yield* runPrompt(runtime, { prompt: "go" })
      const why =
        "is privileged and has needsApproval: false: its calls run without a decision, unless a policy asks or denies."
      assert.deepStrictEqual(logs, [
        `Warn The tool erase of lead ${why}`,
        `Warn The tool pay of scout ${why}`
      ])
    })
  )
})
