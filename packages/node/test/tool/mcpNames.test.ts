import { assert, describe, it } from "@effect/vitest"
import { Agent, BoundAgent, Runtime, runPrompt, Tool } from "@fermata/sdk"
import { ModelClient } from "@fermata/sdk/model"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import { listed, listing } from "./mcpListing.ts"

/** The tool names that a model sees. */
const shown = (agent: Agent.Any) =>
  Effect.map(BoundAgent.make(agent), ({ definitions }) => definitions.map(({ name }) => name))

const sub = Agent.make("sub", { description: "Does a part" })

describe("the name of a server's tool in an agent", () => {
  const cases: ReadonlyArray<readonly [string, (tools: ReadonlyArray<Tool.Tool>) => Agent.Any]> = [
    ...["delegate", "wait_for_agent", "list_agents", "message_agent", "cancel_agent"].map(
      (name) =>
        [
          name,
          (tools: ReadonlyArray<Tool.Tool>) =>
            Agent.make("a", { tools, subAgents: [sub], delegation: "delegate" })
        ] as const
    ),
    ["sub", (tools) => Agent.make("a", { tools, subAgents: [sub] })],
    ["transfer_to_b", (tools) => Agent.make("a", { tools, handoffs: [Agent.make("b")] })],
    ["ask_user", (tools) => Agent.make("a", { tools: [...tools, Tool.askUser] })],
    ["pay", (tools) => Agent.make("a", { tools: [...tools, Tool.make("pay", { handler: () => "own" })] })],
    [
      "pay_by_card",
      (tools) =>
        Agent.make("a", {
          tools: [...tools, Tool.make("pay", { aliases: ["pay_by_card"], handler: () => "own" })]
        })
    ]
  ]
  for (const [name, agentOf] of cases) {
    it.live(`gets the server's name as prefix when the agent already has ${name}`, () =>
      Effect.gen(function* () {
        const { called, toolsWith } = yield* listing("bank", [listed("first"), listed(name), listed("last")])
        const tools = yield* toolsWith({ needsApproval: false })
        const without = yield* shown(agentOf([]))
        const agent = agentOf(tools)
        // The tool keeps its place, and the agent's own tools keep their names.
        assert.deepStrictEqual(yield* shown(agent), ["first", `bank_${name}`, "last", ...without])
        const model = ScriptedModel.make([{ calls: [{ tool: `bank_${name}` }] }, "done"])
        const runtime = yield* Effect.provideService(
          Runtime.make({ agent }),
          ModelClient.ModelClient,
          model.client
        )
        assert.strictEqual((yield* runPrompt(runtime, { prompt: "go" })).status, "completed")
        assert.deepStrictEqual(called, [name])
      }).pipe(Effect.provide(FetchHttpClient.layer))
    )
  }

  it.live("gets the prefix of the later server when two servers list the same name", () =>
    Effect.gen(function* () {
      const bank = yield* listing("bank", [listed("pay")])
      const shop = yield* listing("shop", [listed("pay"), listed("buy")])
      const tools = [...(yield* bank.toolsWith()), ...(yield* shop.toolsWith())]
      assert.deepStrictEqual(yield* shown(Agent.make("a", { tools })), ["pay", "shop_pay", "buy"])
    }).pipe(Effect.provide(FetchHttpClient.layer))
  )

  it.live("gets a suffix when the prefixed name is taken, too", () =>
    Effect.gen(function* () {
      const bank = yield* listing("bank", [listed("pay")])
      const own = ["pay", "bank_pay"].map((name) => Tool.make(name, { handler: () => "own" }))
      const names = yield* shown(Agent.make("a", { tools: [...own, ...(yield* bank.toolsWith())] }))
      assert.deepStrictEqual(names.slice(0, 2), ["pay", "bank_pay"])
      assert.match(names[2]!, /^bank_pay_[a-z0-9]{6}$/)
    }).pipe(Effect.provide(FetchHttpClient.layer))
  )

  it.live(
    "is refused when two servers of the same name list it, until a prefix or another server name is given",
    () =>
      Effect.gen(function* () {
        const one = yield* listing("bank", [listed("pay")])
        const two = yield* listing("bank", [listed("pay")])
        const both = (prefix: string, server?: string) =>
          Effect.gen(function* () {
            const named = server === undefined ? { prefix } : { prefix, server }
            return Agent.make("a", { tools: [...(yield* one.toolsWith()), ...(yield* two.toolsWith(named))] })
          })
        const error = yield* Effect.flip(BoundAgent.make(yield* both("")))
        assert.strictEqual(error._tag, "ToolNameTaken")
        assert.include(error.message, "prefix")
        assert.deepStrictEqual(yield* shown(yield* both("second_")), ["pay", "second_pay"])
        assert.deepStrictEqual(yield* shown(yield* both("", "other bank")), ["pay", "other_bank_pay"])
      }).pipe(Effect.provide(FetchHttpClient.layer))
  )
})

describe("the identity of a server's tool", () => {
  const fingerprints = (server: string, tools: ReadonlyArray<object>, options = {}) =>
    Effect.gen(function* () {
      const { toolsWith } = yield* listing(server, tools)
      const { identity } = yield* BoundAgent.make(Agent.make("a", { tools: yield* toolsWith(options) }))
      return identity.tools
    })

  it.live("consists of the server's name and the tool's own name, not of the name that is shown", () =>
    Effect.gen(function* () {
      const dotted = yield* fingerprints("files", [listed("files.read")])
      const plain = yield* fingerprints("files", [listed("files_read")])
      const elsewhere = yield* fingerprints("other", [listed("files_read")])
      assert.deepStrictEqual(Object.keys({ ...dotted, ...plain, ...elsewhere }), ["files_read"])
      assert.lengthOf(new Set([dotted, plain, elsewhere].map((tools) => tools["files_read"])), 3)
      assert.deepStrictEqual(yield* fingerprints("files", [listed("files.read")]), dotted)
      assert.deepStrictEqual(
        yield* fingerprints("other", [listed("files.read")], { server: "files" }),
        dotted
      )
      // A tool's name cannot imitate another server's.
      const one = yield* fingerprints("a:b", [listed("c")], { prefix: "x" })
      const other = yield* fingerprints("a", [listed("b:c")], { prefix: "x" })
      assert.notStrictEqual(Object.values(one)[0], Object.values(other)[0])
    }).pipe(Effect.provide(FetchHttpClient.layer))
  )

  it.live("changes with the schema of its arguments", () =>
    Effect.gen(function* () {
      const before = yield* fingerprints("bank", [listed("pay", { to: { type: "string" } })])
      const after = yield* fingerprints("bank", [listed("pay", { to: { type: "string", enum: ["ann"] } })])
      assert.notStrictEqual(before["pay"], after["pay"])
    }).pipe(Effect.provide(FetchHttpClient.layer))
  )
})
