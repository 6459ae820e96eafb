import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { RuntimeHooks } from "../../src/agent/RuntimeHooks.ts"
import { ProviderFault } from "../../src/model/ModelError.ts"
import { approve } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import * as Storeless from "../../src/promise/Storeless.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { rejection } from "../helpers/rejection.ts"

const look = tool("look", { safety: "readOnly", handler: () => "three files" })
const edit = tool("edit", { handler: () => "edited" })
const profiles = [
  { name: "plan", mode: "planning", tools: { safety: ["readOnly"] }, instructions: "Only plan." }
] as const

const open = (
  options: Partial<Fermata.FermataOptions> = {},
  script: Parameters<typeof ScriptedModel.make>[0] = () => "done"
) => {
  const model = ScriptedModel.make(script)
  const made = Fermata.make({
    agents: [agent("coder", { instructions: "You code.", tools: [look, edit] })],
    model: model.client,
    store: layerMemory,
    ...options
  })
  return { made, requests: model.requests }
}

const toolNames = ({ tools }: { readonly tools: ReadonlyArray<{ readonly name: string }> }) =>
  tools.map(({ name }) => name)

describe("createFermata", () => {
  it("starts its agents under a capability profile", async () => {
    const { made, requests } = open({ profiles, profile: "plan" })
    await using fermata = await made
    await fermata.runPrompt("coder", "go")
    assert.deepStrictEqual(toolNames(requests[0]!), ["look"])
    assert.strictEqual(requests[0]!.instructions, "You code.\n\nOnly plan.")
  })

  it("refuses the name of a capability profile that does not exist, and closes the store", async () => {
    const error = await rejection(open({ profiles, profile: "plam" }).made)
    assert.strictEqual(error._tag, "CapabilityProfileNotFound")
    assert.deepStrictEqual(error.known, ["default", "plan"])
  })

  it("calls the model with the model profile of its options", async () => {
    const { made, requests } = open({ modelProfile: "cheap" })
    await using fermata = await made
    await fermata.runPrompt("coder", "go")
    assert.strictEqual(requests[0]!.profile, "cheap")
  })

  it("gives each agent the tools of an extension, and starts and closes the extension with the Fermata", async () => {
    const log: Array<string> = []
    const { made, requests } = open(
      {
        agents: [agent("one"), agent("two")],
        mode: "careful",
        extensions: [
          {
            name: "notes",
            tools: ({ mode }) => [tool("note", { handler: () => mode, needsApproval: false })],
            onStart: async ({ agent: { name } }) => void log.push(`start ${name}`),
            onClose: async (status, { agent: { name } }) => void log.push(`${status} ${name}`)
          }
        ]
      },
      ({ turn }) => (turn === 1 ? { calls: [{ tool: "note" }] } : "done")
    )
    const fermata = await made
    await fermata.runPrompt("one", "go")
    await fermata.runPrompt("two", "go")
    assert.deepStrictEqual(requests.map(toolNames), [["note"], ["note"], ["note"], ["note"]])
    assert.include(JSON.stringify(requests[1]!.messages), "careful")
    assert.deepStrictEqual(log, ["start one", "start two"])
    await fermata.close()
    assert.deepStrictEqual(log.slice(2), ["completed two", "completed one"])
  })

  it("rejects with `ExtensionFailed` if an extension cannot start, and closes those that started", async () => {
    const log: Array<string> = []
    const { made } = open({
      extensions: [
        { name: "first", onClose: (status) => void log.push(status) },
        { name: "second", onStart: () => Promise.reject(new Error("no route to host")) }
      ]
    })
    const error = await rejection(made)
    assert.strictEqual(error._tag, "ExtensionFailed")
    assert.include(error.message, "no route to host")
    assert.deepStrictEqual(log, ["error"])
  })

  it("calls its hooks for stored runs, resumed ones too", async () => {
    const log: Array<string> = []
    const hooks: RuntimeHooks = {
      onToolCall: ({ status, tool }) => log.push(`${tool} ${status}`),
      onRequest: ({ status }) => log.push(`request ${status}`),
      onRunEnd: async ({ status }) => log.push(`run ${status}`)
    }
    const { made } = open({ hooks }, ({ turn }) => (turn === 1 ? { calls: [{ tool: "edit" }] } : "done"))
    await using fermata = await made
    const run = await fermata.runPrompt("coder", "go")
    if (run.status !== "interrupted") return assert.fail(run.status)
    await fermata.decide(run.interruptions[0]!, approve())
    await fermata.resume(run.runId)
    assert.deepStrictEqual(log, [
      "request opened",
      "request decided",
      "edit started",
      "edit completed",
      "run completed"
    ])
  })

  it("selects the context of each model call with a function, which may return a promise", async () => {
    const { made, requests } = open({
      contextPolicy: async ({ instructions, messages }) => ({ instructions, messages: messages.slice(-1) })
    })
    await using fermata = await made
    const { sessionId } = await fermata.runPrompt("coder", "first")
    await fermata.runPrompt("coder", "second", { sessionId })
    assert.deepStrictEqual(
      requests.map(({ messages }) => messages.map(({ role }) => role)),
      [["user"], ["user"]]
    )
    assert.include(JSON.stringify(requests[1]!.messages), "second")
  })

  it("asks for a larger context budget when the function of the context reports that it is too large", async () => {
    const { made } = open({ contextPolicy: () => ({ _tag: "ContextTooLarge", tokens: 9, limit: 5 }) })
    await using fermata = await made
    const run = await fermata.runPrompt("coder", "go")
    assert.strictEqual(run.status, "interrupted")
    if (run.status !== "interrupted") return
    assert.strictEqual(run.interruptions[0]?._tag, "limit")
  })

  it("counts the tokens of a context with its tokenizer", async () => {
    const counted: Array<number> = []
    const { made } = open({
      tokenizer: { count: (text) => text.length * 1000 },
      contextPolicy: {
        prepare: ({ countTokens, instructions, messages }) => {
          counted.push(countTokens?.({ instructions, messages }) ?? 0)
          return Effect.succeed({ instructions, messages })
        }
      }
    })
    await using fermata = await made
    await fermata.runPrompt("coder", "go")
    assert.isAbove(counted[0]!, 10_000)
  })

  const misfits: ReadonlyArray<readonly [string, object, string]> = [
    ["a misspelt key", { extension: [] }, "extensions"],
    ["a context policy that is no function", { contextPolicy: { prepares: () => {} } }, "contextPolicy"],
    ["a tokenizer without a count", { tokenizer: () => 1 }, "tokenizer"],
    ["a model profile that is no name", { modelProfile: 1 }, "modelProfile"],
    ["profiles that are no list", { profiles: { name: "plan" } }, "profiles"],
    ["a misspelt key of a profile", { profiles: [{ name: "plan", tool: {} }] }, "tools"],
    ["a misspelt hook", { hooks: { onTurns: () => {} } }, "onTurn"],
    ["an extension without a name", { extensions: [{ tools: () => [] }] }, "extensions"]
  ]
  for (const [what, options, named] of misfits) {
    it(`refuses ${what}`, async () => {
      const error = await rejection(open(options).made)
      assert.oneOf(error._tag, ["OptionsInvalid", "RuntimeOptionsInvalid"])
      assert.include(error.message, named)
    })
  }
})

describe("a background run", () => {
  const agents = [agent("coder")]
  const failing = () =>
    ScriptedModel.make([{ error: new ProviderFault({ description: "busy" }) }, "done"]).client
  const restart = { times: 1, backoff: 0 }

  it("is resumed after a retryable failure, as often as its `restart` says", async () => {
    await using stored = await Fermata.make({ agents, model: failing(), store: layerMemory })
    await using storeless = await Storeless.make({ agents, model: failing() })
    for (const fermata of [stored, storeless]) {
      const handle = await fermata.dispatch("coder", "go", { restart })
      assert.strictEqual((await handle.done()).status, "completed")
    }
  })

  it("is resumed by an attached handle with a `restart`", async () => {
    await using fermata = await Fermata.make({ agents, model: failing(), store: layerMemory })
    const { runId } = await fermata.runPrompt("coder", "go")
    const handle = await fermata.attach(runId, { restart })
    assert.strictEqual((await handle.done()).status, "completed")
  })

  it('is cancelled when the Fermata is closed, with `onClose: "cancel"`', async () => {
    const { made } = open({}, () => ({ calls: [{ tool: "edit" }] }))
    const fermata = await made
    const handle = await fermata.dispatch("coder", "go", { onClose: "cancel" })
    await handle.wait()
    await fermata.close()
    assert.strictEqual(handle.status, "cancelled")
  })
})
