import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import { reconfigureRuntime } from "../../src/agent/reconfigureRuntime.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import { captureState, restoreState } from "../../src/run/captureState.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approvalOf, approve, call, expect, probe, safe } from "../helpers/Fixture.ts"

const profiles = [
  { name: "plan", mode: "plan", tools: { safety: ["readOnly" as const] } },
  { name: "careful", policy: { mode: "ask" as const } }
]

/** A runtime as another process would make it. */
const make = (script: ReadonlyArray<ScriptedModel.Script>, options: { readonly name?: string } = {}) =>
  Effect.gen(function* () {
    const write = probe("write")
    const model = ScriptedModel.make(script)
    const agent = Agent.make(options.name ?? "coder", { tools: [safe("read").tool, write.tool] })
    const runtime = yield* createRuntime({ agent, profiles }).pipe(
      Effect.provideService(ModelClient, model.client)
    )
    return { runtime, write, model }
  })

/** A run that is held on `write 1`, under the profile `careful` and the mode `slow`, captured. */
const captured = Effect.gen(function* () {
  const { runtime } = yield* make([{ calls: [call("write", "1")] }])
  yield* reconfigureRuntime(runtime, { profile: "careful", mode: "slow", model: "large" })
  const result = yield* runPrompt(runtime, { prompt: "go" })
  return { result, text: captureState(runtime, result.state) }
})

const changed = (text: string, change: object): string => JSON.stringify({ ...JSON.parse(text), ...change })

describe("captureState and restoreState", () => {
  it.effect("move a run to another process with its profile, mode and model", () =>
    Effect.gen(function* () {
      const { result, text } = yield* captured
      const { runtime, write, model } = yield* make(["done"])
      const { problems, state } = yield* restoreState(runtime, text)
      assert.deepStrictEqual(state, result.state)
      assert.deepStrictEqual(problems, { changes: [], blocking: [] })
      assert.strictEqual(runtime.profileName, "careful")
      assert.strictEqual(runtime.mode, "slow")
      const decisions = [approve(approvalOf(result, "1"))]
      expect(yield* runPrompt(runtime, { state, decisions }), "completed")
      assert.deepStrictEqual(write.ran, ["1"])
      assert.strictEqual(model.requests[0]?.profile, "large")
    })
  )

  it.effect("replace the runtime's profile, mode and model as a whole", () =>
    Effect.gen(function* () {
      const { runtime } = yield* make([])
      const ended = yield* make(["done"])
      const { state } = yield* runPrompt(ended.runtime, { prompt: "go" })
      yield* reconfigureRuntime(runtime, { profile: "plan", mode: "x", model: "large" })
      yield* restoreState(runtime, captureState(ended.runtime, state))
      assert.strictEqual(runtime.profileName, "default")
      assert.strictEqual(runtime.mode, "default")
      assert.isUndefined(runtime.bound.agent.options.profile)
    })
  )

  it.effect("report what blocks resuming, such as a tool that the restored profile excludes", () =>
    Effect.gen(function* () {
      const { text } = yield* captured
      const { runtime } = yield* make([])
      const { problems } = yield* restoreState(runtime, changed(text, { profile: "plan", mode: "plan" }))
      assert.deepStrictEqual(
        problems.blocking.map((problem) => ({ ...problem })).map(({ _tag }) => _tag),
        ["ToolUnavailable"]
      )
      assert.deepInclude(problems.changes, { _tag: "toolRemoved", agent: "coder", tool: "write" })
      assert.strictEqual(runtime.profileName, "plan")
    })
  )

  it.effect("refuse an unknown profile, and change nothing", () =>
    Effect.gen(function* () {
      const { text } = yield* captured
      const { runtime } = yield* make([])
      const error = yield* Effect.flip(restoreState(runtime, changed(text, { profile: "gone" })))
      assert.deepInclude(
        { ...error },
        { _tag: "CapabilityProfileNotFound", profile: "gone", known: ["default", "plan", "careful"] }
      )
      assert.strictEqual(runtime.profileName, "default")
    })
  )

  it.effect("refuse a run of another agent, and change nothing", () =>
    Effect.gen(function* () {
      const { text } = yield* captured
      const { runtime } = yield* make([], { name: "writer" })
      const error = yield* Effect.flip(restoreState(runtime, text))
      assert.deepInclude({ ...error }, { _tag: "AgentNotFound", agent: "coder" })
      assert.strictEqual(runtime.profileName, "default")
    })
  )

  it.effect("refuse a capture of a newer version, and text that is not a capture", () =>
    Effect.gen(function* () {
      const { text } = yield* captured
      const { runtime } = yield* make([])
      const refused = (text: string) => Effect.flip(restoreState(runtime, text))
      const state = JSON.parse(JSON.parse(text).state as string)
      for (const [given, tag] of [
        [changed(text, { version: 2 }), "CaptureTooNew"],
        [changed(text, { state: JSON.stringify({ ...state, version: 99 }) }), "RunStateTooNew"],
        [changed(text, { state: "{}" }), "RunStateMalformed"],
        [changed(text, { state: 7 }), "CaptureMalformed"],
        [changed(text, { profile: 7 }), "CaptureMalformed"],
        ["{", "CaptureMalformed"],
        ["null", "CaptureMalformed"],
        [JSON.parse(text).state as string, "CaptureMalformed"]
      ] as const) {
        assert.strictEqual((yield* refused(given))._tag, tag)
      }
      assert.include((yield* refused(changed(text, { version: 2 }))).message, "update Fermata")
      assert.include((yield* refused("{")).message, "Pass what captureState returned")
      assert.strictEqual(runtime.profileName, "default")
    })
  )

  it.effect("refuse a runtime that is closed or in the middle of a turn", () =>
    Effect.gen(function* () {
      const { text } = yield* captured
      const { runtime } = yield* make([])
      runtime.runs.add({ runId: "run-1", isMidTurn: () => true, cancel: () => {} })
      assert.strictEqual((yield* Effect.flip(restoreState(runtime, text)))._tag, "RuntimeBusy")
      runtime.runs.clear()
      yield* runtime.close("completed")
      assert.strictEqual((yield* Effect.flip(restoreState(runtime, text)))._tag, "RuntimeClosed")
    })
  )
})
