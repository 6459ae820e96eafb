import { assert, describe, it } from "@effect/vitest"
import type { Configuration } from "../../src/agent/RuntimeHooks.ts"
import { approve } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { rejection } from "../helpers/rejection.ts"

const look = tool("look", { safety: "readOnly", handler: () => "three files" })
const edit = tool("edit", { handler: () => "edited" })
const profiles = [{ name: "plan", mode: "planning", tools: { safety: ["readOnly"] } }] as const
const coder = agent("coder", { tools: [look, edit] })
const clerk = agent("clerk", { tools: [look, edit] })

const open = async (
  options: Partial<Fermata.FermataOptions> = {},
  script: Parameters<typeof ScriptedModel.make>[0] = () => "done"
) => {
  const model = ScriptedModel.make(script)
  const fermata = await Fermata.make({
    agents: [coder, clerk],
    model: model.client,
    store: layerMemory,
    profiles,
    ...options
  })
  return { fermata, requests: model.requests }
}

const toolNames = ({ tools }: { readonly tools: ReadonlyArray<{ readonly name: string }> }) =>
  tools.map(({ name }) => name)

describe("reconfigure", () => {
  it("changes the profile of all agents, and resolves to the configuration of each", async () => {
    const { fermata, requests } = await open()
    await using _ = fermata
    const changed = await fermata.reconfigure({ profile: "plan" })
    const planned: Configuration = { profile: "plan", mode: "planning", tools: ["look"] }
    assert.deepStrictEqual(changed, { coder: planned, clerk: planned })
    await fermata.runPrompt("clerk", "go")
    assert.deepStrictEqual(toolNames(requests[0]!), ["look"])
  })

  it("changes the tools, the mode and the model of one agent", async () => {
    const { fermata, requests } = await open()
    await using _ = fermata
    const other = ScriptedModel.make(() => "from the other model")
    const changed = await fermata.reconfigure({
      agent: coder,
      tools: [edit],
      mode: "acting",
      model: other.client,
      modelProfile: "large"
    })
    assert.deepStrictEqual(changed["coder"], {
      profile: "default",
      mode: "acting",
      model: "large",
      tools: ["edit"]
    })
    assert.strictEqual(changed["clerk"]?.mode, "default")
    const run = await fermata.runPrompt("coder", "go")
    assert.strictEqual(run.status === "completed" && run.text, "from the other model")
    assert.strictEqual(other.requests[0]!.profile, "large")
    await fermata.runPrompt("clerk", "go")
    assert.deepStrictEqual(toolNames(requests[0]!), ["look", "edit"])
  })

  it("changes nothing if one of the agents cannot be changed", async () => {
    const { fermata } = await open({
      agents: [coder, agent("bare", { tools: [look] })],
      extensions: [
        {
          name: "fussy",
          tools: ({ agent: { name }, mode }) => {
            if (name === "bare" && mode === "planning") throw new Error("not in this mode")
            return []
          }
        }
      ]
    })
    await using _ = fermata
    const error = await rejection(fermata.reconfigure({ profile: "plan" }))
    assert.strictEqual(error._tag, "ExtensionFailed")
    const now = await fermata.reconfigure({})
    assert.strictEqual(now["coder"]?.profile, "default")
  })

  it("is refused during a turn of a changed agent, and possible for another agent", async () => {
    const refusals: Array<string> = []
    let change = () => Promise.resolve()
    const busy = tool("busy", { safety: "readOnly", handler: () => change() })
    const { fermata } = await open({ agents: [agent("coder", { tools: [busy] }), clerk] }, ({ turn }) =>
      turn === 1 ? { calls: [{ tool: "busy" }] } : "done"
    )
    await using _ = fermata
    change = async () => {
      refusals.push((await rejection(fermata.reconfigure({ profile: "plan" })))._tag)
      await fermata.reconfigure({ agent: "clerk", profile: "plan" })
    }
    await fermata.runPrompt("coder", "go")
    assert.deepStrictEqual(refusals, ["RuntimeBusy"])
    const now = await fermata.reconfigure({})
    assert.deepStrictEqual([now["coder"]?.profile, now["clerk"]?.profile], ["default", "plan"])
  })

  it("adds, replaces and removes agents, also during a turn", async () => {
    let change = () => Promise.resolve()
    const busy = tool("busy", { safety: "readOnly", handler: () => change() })
    const { fermata, requests } = await open(
      { agents: [agent("coder", { tools: [busy] }), clerk] },
      ({ turn }) => (turn === 1 ? { calls: [{ tool: "busy" }] } : "done")
    )
    await using _ = fermata
    change = async () => {
      await fermata.reconfigure({
        agents: [agent("coder", { tools: [look] }), agent("new", { aliases: ["newer"] })]
      })
    }
    const run = await fermata.runPrompt("coder", "go")
    assert.strictEqual(run.status, "completed")
    // The run keeps the definition with which it began.
    assert.deepStrictEqual(requests.map(toolNames), [["busy"], ["busy"]])
    await fermata.runPrompt("newer", "go")
    await fermata.runPrompt("coder", "go")
    assert.deepStrictEqual(requests.slice(2).map(toolNames), [[], [], ["look"], ["look"]])
    const error = await rejection(fermata.runPrompt("clerk", "go"))
    assert.strictEqual(error._tag, "AgentNotFound")
    assert.deepStrictEqual(error.known, ["coder", "new"])
  })

  it("creates the agents that it adds with the settings that were last given for all agents", async () => {
    const { fermata } = await open()
    await using _ = fermata
    const other = ScriptedModel.make(() => "from the other model")
    await fermata.reconfigure({ profile: "plan", model: other.client })
    const changed = await fermata.reconfigure({ agents: [coder, agent("new", { tools: [look, edit] })] })
    assert.deepStrictEqual(changed["new"], { profile: "plan", mode: "planning", tools: ["look"] })
    const run = await fermata.runPrompt("new", "go")
    assert.strictEqual(run.status === "completed" && run.text, "from the other model")
  })

  it("adds an agent whose held runs then continue, in a worker that is already running", async () => {
    const store = layerMemory
    const { fermata } = await open({ agents: [coder], store }, ({ turn }) =>
      turn === 1 ? { calls: [{ tool: "edit" }] } : "done"
    )
    await using _ = fermata
    const run = await fermata.runPrompt("coder", "go")
    if (run.status !== "interrupted") return assert.fail(run.status)
    await fermata.reconfigure({ agents: [clerk] })
    await fermata.decide(run.interruptions[0]!, approve())
    assert.strictEqual((await rejection(fermata.resume(run.runId)))._tag, "AgentNotFound")
    const stop = new AbortController()
    const driven: Array<string> = []
    const working = fermata.work({
      signal: stop.signal,
      pollInterval: 50,
      onTakenUp: ({ runId }) => {
        driven.push(runId)
        stop.abort()
      }
    })
    await fermata.reconfigure({ agents: [coder, clerk] })
    await working
    assert.deepStrictEqual(driven, [run.runId])
  })

  it("stores the names of added agents with the later runs of the others", async () => {
    const { fermata } = await open({ agents: [coder] })
    await using _ = fermata
    const before = await fermata.runPrompt("coder", "go")
    await fermata.reconfigure({ agents: [coder, clerk] })
    const after = await fermata.runPrompt("coder", "go")
    assert.deepStrictEqual([before.state.agent.peers, after.state.agent.peers], [undefined, ["clerk"]])
  })

  it("closes the extensions of agents that it added, and at once if the change is refused", async () => {
    const log: Array<string> = []
    const { fermata } = await open({
      agents: [coder],
      extensions: [{ name: "log", onClose: (_, { agent: { name } }) => void log.push(name) }]
    })
    await rejection(fermata.reconfigure({ agents: [coder, agent("refused")], profile: "none" }))
    assert.deepStrictEqual(log, ["refused"])
    await fermata.reconfigure({ agents: [agent("added")] })
    await fermata.close()
    assert.deepStrictEqual(log, ["refused", "added", "coder"])
  })

  const misfits: ReadonlyArray<readonly [string, object | undefined, string]> = [
    ["a misspelt key", { profil: "plan" }, `did you mean "profile"?`],
    ["no change", undefined, "options of reconfigure"],
    ["tools that are no list", { tools: look }, "tools"],
    ["a name instead of a tool", { tools: ["look"] }, "takes a tool"],
    ["a name instead of an agent", { agents: ["coder"] }, "takes an agent"],
    ["a name instead of a model", { model: "large" }, "takes a model client"],
    ["a mode without a name", { mode: "" }, "not empty"],
    ["an unknown profile", { profile: "plam" }, "plam"],
    ["an unknown agent", { agent: "codr", profile: "plan" }, "codr"],
    ["two agents of one name", { agents: [coder, agent("coder")] }, "coder"]
  ]
  for (const [what, change, named] of misfits) {
    it(`refuses ${what}`, async () => {
      const { fermata } = await open()
      await using _ = fermata
      const error = await rejection(fermata.reconfigure(change as never))
      assert.include(error.message, named)
      assert.strictEqual((await fermata.reconfigure({}))["coder"]?.profile, "default")
    })
  }
})
