import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Agent from "../../src/agent/Agent.ts"
import { reconfigureRuntime } from "../../src/agent/reconfigureRuntime.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import { attach, dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { explain } from "../../src/durable/explain.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import * as Worker from "../../src/durable/Worker.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as McpTools from "../../src/tool/McpTools.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { bind, call, only, probe } from "../helpers/Fixture.ts"

const thrown = (define: () => unknown): any => {
  try {
    define()
  } catch (error) {
    return error
  }
  return assert.fail("It was not refused.")
}

const handler = () => ""

describe("the definition of a tool", () => {
  const wrong: ReadonlyArray<readonly [string, object, string]> = [
    ["an unknown key", { idempotant: true }, 'did you mean "idempotent"?'],
    ["an unknown key", { needsApprovals: true }, 'did you mean "needsApproval"?'],
    ["an unknown key in its approval", { approval: { expireIn: "1 hour" } }, 'did you mean "expiresIn"?'],
    ["an approval that is not an object", { approval: "1 second" }, "has to be a plain object"],
    ["an unknown onExpiry", { approval: { onExpiry: "approve" } }, '"deny" or "stay"'],
    ["a non-boolean idempotent", { idempotent: "no" }, '"idempotent" of its definition takes true or false'],
    ["an invalid needsApproval", { needsApproval: "yes" }, "true or false or a function"],
    ["an unknown safety", { safety: "harmless" }, '"readOnly"'],
    ["a timeout of NaN", { timeout: Number.NaN }, '"timeout" of its definition takes a duration'],
    ["a timeout without a unit", { timeout: {} }, "takes a duration"],
    ["a timeout of an unknown unit", { timeout: { second: 5 } }, "takes a duration"],
    ["a negative timeout", { timeout: "-Infinity" }, "takes a duration"],
    ["an expiry of NaN", { approval: { expiresIn: Number.NaN } }, "takes a duration"],
    ["a retry that is not a schedule", { retry: 3 }, "takes a schedule"],
    ["aliases that are not a list", { aliases: "old" }, "a list of strings"],
    ["no handler", { handler: undefined }, '"handler" of its definition is missing: it takes a function'],
    ["the names of another SDK", { inputSchema: {} }, 'the schema of the arguments is "parameters"'],
    ["the names of another SDK", { execute: handler }, 'the function that does the work is "handler"'],
    ["parameters that are a number", { parameters: 5 }, "takes an Effect Schema, a Standard Schema such as"],
    ["the fields of a schema", { parameters: { a: Schema.String } }, 'or a JSON Schema with type: "object"'],
    ["a JSON Schema of a string", { parameters: { type: "string" } }, 'a JSON Schema with type: "object"']
  ]
  for (const [what, options, words] of wrong) {
    it(`is refused when made with ${what}: ${Object.keys(options).join(", ")}`, () => {
      const error = thrown(() => Tool.make("pay", { handler, ...options }))
      assert.strictEqual(error._tag, "ToolDefinitionError")
      assert.strictEqual(error.tool, "pay")
      assert.isUndefined(error.agent)
      assert.include(error.message, words)
    })
  }

  it("is refused without a name, and the error says so", () => {
    for (const name of [undefined, { name: "pay" }, ""]) {
      const error = thrown(() => Tool.make(name as never, { handler }))
      assert.strictEqual(error._tag, "ToolDefinitionError")
      assert.include(error.message, "its name is the first argument, a string, and")
    }
  })

  it("is refused with one problem for a misspelt key that is required", () => {
    const { message, misfits } = thrown(() => Tool.make("pay", { handlr: handler } as never))
    assert.include(message, 'did you mean "handler"?')
    assert.lengthOf(misfits, 1)
  })

  it.effect("is refused by its agent's runtime when it was assembled by hand", () =>
    Effect.gen(function* () {
      const tool = Tool.make("pay", { handler })
      for (const other of [
        { ...tool, options: { ...tool.options, idempotant: true } },
        { ...tool, idempotent: "no" }
      ]) {
        const error = yield* Effect.flip(
          bind(Agent.make("a", { tools: [other as unknown as Tool.Tool] }), [])
        )
        assert.deepInclude({ ...error }, { _tag: "ToolDefinitionError", agent: "a", tool: "pay" })
      }
    })
  )
})

describe("the definition of an agent", () => {
  const wrong: ReadonlyArray<readonly [object, string]> = [
    [{ polcy: { mode: "ask" } }, 'did you mean "policy"?'],
    [{ policy: { mode: "all", rule: [] } }, 'there is no "rule" in the policy (did you mean "rules"?)'],
    [{ policy: { mode: "al" } }, '"mode"'],
    [{ limits: { maxTurn: 3 } }, 'did you mean "maxTurns"?'],
    [{ settings: { maxTokens: 3 } }, '"settings" of its definition'],
    [{ delegation: "tool" }, '"tools" or "delegate"'],
    [{ tools: {} }, "a list"],
    [{ limits: 2 }, '"limits" of its definition, which has to be a plain object'],
    [{ settings: null }, '"settings" of its definition, which has to be a plain object'],
    [{ settings: { temperature: "hot" } }, '"settings.temperature" of its definition takes a finite number'],
    [{ settings: { toolChoice: "always" } }, '"settings.toolChoice" of its definition takes "auto"'],
    [{ tools: [5] }, '"tools.0" of its definition takes a tool, as tool() and Tool.make return it'],
    [{ tools: [undefined] }, "and undefined was given"],
    [{ tools: [{ name: "pay", handler: "pay" }] }, '"tools.0" of its definition takes a tool'],
    [{ subAgents: ["writer"] }, '"subAgents.0" of its definition takes an agent'],
    [{ handoffs: ["writer"] }, '"handoffs" of its definition takes a list of agents or a function'],
    [{ output: 5 }, '"output" of its definition takes an Effect Schema'],
    [{ system: "Be brief." }, 'the text for the model is "instructions"'],
    [{ model: "gpt-5.5" }, "the model is an option of createFermata"],
    [{ maxSteps: 3 }, 'the bounds of a run are in "limits": maxTurns']
  ]
  for (const [options, words] of wrong) {
    it(`is refused when made: ${JSON.stringify(options)}`, () => {
      const error = thrown(() => Agent.make("a", options))
      assert.strictEqual(error._tag, "AgentDefinitionError")
      assert.strictEqual(error.agent, "a")
      assert.include(error.message, words)
    })
  }

  it("is refused without a name, and the error says so", () => {
    for (const name of [undefined, { name: "ops" }, ""]) {
      const error = thrown(() => Agent.make(name as never))
      assert.strictEqual(error._tag, "AgentDefinitionError")
      assert.include(error.message, "its name is the first argument, a string, and")
    }
  })

  it.effect("is refused by its runtime when its function of handoffs throws or returns no agents", () =>
    Effect.gen(function* () {
      for (const [handoffs, words] of [
        [() => "writer", 'its "handoffs" return a string, and have to return a list of agents'],
        [() => [undefined], 'its "handoffs" return a list'],
        [
          () => {
            throw new Error("not yet")
          },
          'its "handoffs" failed: not yet'
        ]
      ] as const) {
        const lead = Agent.make("lead", { subAgents: [Agent.make("a", { handoffs: handoffs as never })] })
        const error = yield* Effect.flip(bind(lead, []))
        assert.deepInclude({ ...error }, { _tag: "AgentDefinitionError", agent: "a" })
        assert.include(error.message, words)
      }
    })
  )

  it.effect("is refused by its runtime when it was assembled by hand, also as a sub-agent", () =>
    Effect.gen(function* () {
      const made = Agent.make("a")
      for (const agent of [
        { ...made, options: { ...made.options, polcy: {} } },
        { ...made, policy: { mode: "al" } }
      ] as unknown as ReadonlyArray<Agent.Agent>) {
        assert.strictEqual((yield* Effect.flip(bind(agent, [])))._tag, "AgentDefinitionError")
        const lead = Agent.make("lead", { subAgents: [agent] })
        assert.strictEqual((yield* Effect.flip(bind(lead, [])))._tag, "AgentDefinitionError")
      }
    })
  )
})

describe("options with an unknown key", () => {
  it.effect(
    "are refused by each function of the Effect API, before a model call or a write",
    () =>
      Effect.gen(function* () {
        const pay = probe("pay")
        const { model, runtime } = yield* bind(Agent.make("a", { tools: [pay.tool] }), [
          { calls: [call("pay", "1")] }
        ])
        const held = yield* runPrompt(runtime, { prompt: "go" })
        const { state } = held
        const asked = model.requests.length
        const runId = "r" as RunId
        const bad = { polcy: { mode: "ask" } }
        const conductor = yield* Conductor.make()
        const calls: ReadonlyArray<readonly [string, Effect.Effect<unknown, unknown, any>]> = [
          ["runPrompt", runPrompt(runtime, { prompt: "go", ...bad })],
          ["runPrompt", runPrompt(runtime, { prompt: "go" }, bad as {})],
          ["runPrompt", runPrompt(runtime, { state, ...bad })],
          // A run has its state's id.
          ["runPrompt", runPrompt(runtime, { state, runId } as never)],
          ["runPromptStored", runPromptStored(runtime, { prompt: "go", ...bad })],
          ["runPromptStored", runPromptStored(runtime, { runId, ...bad })],
          // A prompt starts a run, without decisions.
          ["runPromptStored", runPromptStored(runtime, { prompt: "go", runId, decisions: [] } as never)],
          ["runPromptStored", runPromptStored(runtime, { prompt: "go" }, bad as {})],
          ["forkRun", forkRun(runtime, { runId, prompt: "go", ...bad })],
          ["sendMessage", sendMessage(runId, "hello", bad as {})],
          ["recover", recover([runtime], bad as {})],
          ["Worker.run", Worker.run([runtime], bad as {})],
          ["explain", explain(runId, bad as {})],
          ["runPrompt", runPrompt(runtime, { prompt: "go" }, { onUpdate: 5 } as never)],
          ["runPrompt", runPrompt(runtime, { prompt: "go", answeredBy: null } as never)],
          ["runPromptStored", runPromptStored(runtime, { prompt: "go" }, { onUpdate: 5 } as never)],
          ["recover", recover([runtime], { onUpdate: 5 } as never)],
          ["Worker.run", Worker.run([runtime], { onTakingUp: 5 } as never)],
          ["attach", attach([runtime], runId, { onUpdate: 5 } as never)],
          ["dispatchPrompt", dispatchPrompt(runtime, { prompt: "go" }, bad as {})],
          ["dispatchPrompt", dispatchPrompt(runtime, { prompt: "go", ...bad })],
          ["dispatchPromptStored", dispatchPromptStored(runtime, { prompt: "go", ...bad })],
          ["dispatchPromptStored", dispatchPromptStored(runtime, { prompt: "go" }, bad as {})],
          ["attach", attach([runtime], runId, bad as {})],
          ["Conductor.make", Conductor.make(bad as {})],
          ["dispatch", conductor.dispatch(runtime, { prompt: "go", ...bad })],
          ["dispatch", conductor.dispatch(runtime, { prompt: "go" }, bad as {})],
          ["dispatch", conductor.dispatchStored(runtime, { prompt: "go", ...bad })],
          ["dispatch", conductor.dispatchStored(runtime, { prompt: "go" }, bad as {})],
          ["attach", conductor.attach([runtime], runId, bad as {})]
        ]
        for (const [of, asking] of calls) {
          const error = (yield* Effect.flip(asking)) as { readonly _tag: string; readonly of: string }
          assert.deepInclude({ ...error }, { _tag: "OptionsInvalid", of })
        }
        assert.strictEqual(model.requests.length, asked)
        assert.deepStrictEqual(yield* (yield* RunStore).list(), [])
      }).pipe(Effect.scoped, Effect.provide(Layer.fresh(layerMemory))) as Effect.Effect<void>
  )

  it.effect("in limits or policy are refused by a conductor at once", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), ["done"])
      const conductor = yield* Conductor.make()
      const limits = yield* Effect.flip(
        conductor.dispatch(runtime, { prompt: "go", limits: { maxTurn: 1 } as {} })
      )
      assert.strictEqual(limits._tag, "LimitsInvalid")
      const shared = yield* Effect.flip(Conductor.make({ limits: { maxRun: 1 } as {} }))
      assert.include(shared.message, 'did you mean "maxRuns"?')
      const policy = yield* Effect.flip(
        conductor.dispatch(runtime, { prompt: "go", policy: { mode: "all", rule: [] } as never })
      )
      assert.strictEqual(policy._tag, "PolicyInvalid")
    }).pipe(Effect.scoped)
  )

  it.effect("prevent a runtime from being made", () =>
    Effect.gen(function* () {
      const options = { agent: Agent.make("a"), interactiv: false }
      const made = Effect.provideService(Runtime.make(options), ModelClient, ScriptedModel.make([]).client)
      const error = yield* Effect.flip(made)
      assert.strictEqual(error._tag, "RuntimeOptionsInvalid")
      assert.include(error.message, 'did you mean "interactive"?')
    })
  )

  it.effect("include options of createRuntime that Runtime.make does not take", () =>
    Effect.gen(function* () {
      const others = { profile: "nope", hooks: {}, mode: "plan", extensions: [{ name: "disk" }] }
      for (const [key, value] of Object.entries(others)) {
        const made = Runtime.make({ agent: Agent.make("a"), [key]: value })
        const error = yield* Effect.flip(
          Effect.provideService(made, ModelClient, ScriptedModel.make([]).client)
        )
        assert.strictEqual(error._tag, "RuntimeOptionsInvalid")
        assert.include(error.message, `"${key}" is an option of createRuntime, not of Runtime.make`)
      }
    })
  )

  it.effect("are no model client, without which no runtime is made", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), [])
      for (const client of ["gpt-5.5", undefined, {}, { stream: 5, complete: 5 }, { stream: () => 1 }]) {
        const made = Runtime.make({ agent: Agent.make("a") })
        const error = yield* Effect.flip(Effect.provideService(made, ModelClient, client as never))
        assert.strictEqual(error._tag, "RuntimeOptionsInvalid")
        assert.include(error.message, "an object with the functions stream and complete")
        if (client === undefined || typeof client === "string") continue
        const changed = yield* Effect.flip(reconfigureRuntime(runtime, { model: client as never }))
        assert.strictEqual(changed._tag, "RuntimeOptionsInvalid")
      }
      const notTools = yield* Effect.flip(reconfigureRuntime(runtime, { tools: ["pay"] as never }))
      assert.include(notTools.message, '"tools" takes a list of tools')
      assert.strictEqual(
        (yield* Effect.flip(reconfigureRuntime(runtime, null as never)))._tag,
        "RuntimeOptionsInvalid"
      )
    })
  )

  it.effect("prevent MCP tools and a scrubber from being made", () =>
    Effect.gen(function* () {
      const options = { needsApprovals: true, prefix: "x_" }
      const error = yield* Effect.flip(McpTools.make({} as never, options))
      assert.include(error.message, 'did you mean "needsApproval"?')
      const url = yield* Effect.flip(McpTools.fromUrl("http://localhost:1", options))
      assert.include(url.message, 'did you mean "needsApproval"?')
      assert.strictEqual(thrown(() => Scrubber.make({ secret: ["x"] } as {}))._tag, "OptionsInvalid")
      const paths = [{ path: "/home/ana", shown: "~" }] as never
      assert.strictEqual(thrown(() => Scrubber.make({ paths }))._tag, "OptionsInvalid")
    }).pipe(Effect.scoped, Effect.provide(FetchHttpClient.layer))
  )
})

describe("a decision with an unknown key", () => {
  it.effect("is refused with and without a store, by the store and from the approval callback", () =>
    Effect.gen(function* () {
      const pay = probe("pay")
      const agent = Agent.make("a", { tools: [pay.tool] })
      const script = [{ calls: [call("pay", "1")] }, "done"]
      const { runtime } = yield* bind(agent, script)
      const unstored = yield* runPrompt(runtime, { prompt: "go" })
      const bad = (requestId: string) =>
        ({ _tag: "approve", requestId, by: "ana", grant: { scope: "run", expiresIn: 1 } }) as never
      const { requestId } = only(unstored, "approval")
      const refused = yield* Effect.flip(
        runPrompt(runtime, { state: unstored.state, decisions: [bad(requestId)] })
      )
      assert.strictEqual(refused._tag, "DecisionMalformed")

      const stored = only(
        yield* runPromptStored((yield* bind(agent, script)).runtime, { prompt: "go" }),
        "approval"
      )
      assert.strictEqual(
        (yield* Effect.flip(decideStored([runtime], bad(stored.requestId))))._tag,
        "DecisionMalformed"
      )
      const store = yield* RunStore
      const direct = yield* Effect.flip(store.decide(bad(stored.requestId)))
      assert.include(direct.message, 'did you mean "expiresAt"?')
      const several = yield* Effect.flip(store.decideAll([bad(stored.requestId)]))
      assert.include(several.message, 'did you mean "expiresAt"?')

      const called = yield* bind(agent, script, { approvalCallback: (request) => bad(request.requestId) })
      const held = yield* runPrompt(called.runtime, { prompt: "go" })
      assert.strictEqual(held.status, "interrupted")
      assert.deepStrictEqual(pay.ran, [])
    }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  )
})
