/**
 * @title A live runtime that changes its mode: plan first, then act
 *
 * Under the profile `plan` the agent has only read-only tools. The same runtime switches to `act` between two turns and continues the
 * session. The switch is refused during a turn. In Effect; the model is scripted.
 */
import assert from "node:assert/strict"
import { Agent, createRuntime, reconfigureRuntime, runPrompt, Tool } from "@fermata/node"
import { ModelClient } from "@fermata/sdk/model"
import { ScriptedModel } from "@fermata/sdk/testing"
import { Effect } from "effect"

const look = Tool.make("look", { safety: "readOnly", handler: () => "three files" })
const profiles = [
  { name: "plan", mode: "plan", tools: { safety: ["readOnly"] }, instructions: "Only plan; change nothing." },
  { name: "act", mode: "act" }
] as const

const model = ScriptedModel.make([
  { calls: [{ tool: "look" }] },
  "I would edit the three files.",
  { calls: [{ tool: "edit" }] },
  "They are edited."
])

const program = Effect.gen(function* () {
  const refused: Array<string> = []
  const edit: Tool.Tool = Tool.make("edit", {
    needsApproval: false,
    handler: () =>
      Effect.gen(function* () {
        // A change during a turn is refused.
        const error = yield* Effect.flip(reconfigureRuntime(runtime, { profile: "plan" }))
        refused.push(error._tag)
        return "edited"
      })
  })
  const runtime = yield* createRuntime({
    agent: Agent.make("coder", { tools: [look, edit] }),
    profiles,
    profile: "plan"
  })
  const planned = yield* runPrompt(runtime, { prompt: "What would you do?" })
  assert(planned.status === "completed")
  console.log(`${runtime.mode}: ${planned.text}`)

  const { mode } = yield* reconfigureRuntime(runtime, { profile: "act" })
  const done = yield* runPrompt(runtime, { state: planned.state, prompt: "Do it." })
  assert(done.status === "completed")
  console.log(`${mode}: ${done.text}`)
  assert.deepEqual(refused, ["RuntimeBusy"])

  const shown = model.requests.map(({ tools }) => tools.map(({ name }) => name).join("+"))
  assert.deepEqual(shown, ["look", "look", "look+edit", "look+edit"])
})

export const main = () =>
  Effect.runPromise(Effect.provideService(Effect.scoped(program), ModelClient.ModelClient, model.client))

if (import.meta.main) await main()
