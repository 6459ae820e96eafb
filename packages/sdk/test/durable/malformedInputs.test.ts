/** Inputs of programs without types that name neither a prompt nor a run: every door refuses them with a typed error. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import { dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { streamPromptStored } from "../../src/durable/streamPromptStored.ts"
import { submitPrompt } from "../../src/durable/submitPrompt.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { streamPrompt } from "../../src/run/streamPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

type Door = (input: never) => Effect.Effect<unknown, unknown, RunStore | Scope.Scope>

const model = ScriptedModel.make(() => "done")

const doors: Readonly<Record<string, (runtime: Runtime.Runtime) => Door>> = {
  runPrompt: (runtime) => (input) => runPrompt(runtime, input),
  runPromptStored: (runtime) => (input) => runPromptStored(runtime, input),
  submitPrompt: (runtime) => (input) => submitPrompt(runtime, input),
  streamPrompt: (runtime) => (input) => Stream.runDrain(streamPrompt(runtime, input)),
  streamPromptStored: (runtime) => (input) => Stream.runDrain(streamPromptStored(runtime, input)),
  dispatchPrompt: (runtime) => (input) => dispatchPrompt(runtime, input),
  dispatchPromptStored: (runtime) => (input) => dispatchPromptStored(runtime, input),
  forkRun: (runtime) => (input) => forkRun(runtime, input),
  "conductor.dispatch": (runtime) => (input) =>
    Effect.flatMap(Conductor.make({}), ({ dispatch }) => dispatch(runtime, input)),
  "conductor.dispatchStored": (runtime) => (input) =>
    Effect.flatMap(Conductor.make({}), ({ dispatchStored }) => dispatchStored(runtime, input))
}

/** The error of each door for this input. */
const refusals = (input: unknown) =>
  Effect.gen(function* () {
    const runtime = yield* Runtime.make({ agent: Agent.make("a") })
    const found: Array<readonly [string, { readonly _tag: string; readonly message: string }]> = []
    for (const [name, door] of Object.entries(doors)) {
      const opened = Effect.suspend(() => door(runtime)(input as never)).pipe(
        Effect.flatMap((taken) => Effect.die(`${name} took it: ${String(taken)}`))
      )
      const error = yield* Effect.flip(
        opened as Effect.Effect<never, (typeof found)[number][1], RunStore | Scope.Scope>
      )
      found.push([name, error])
    }
    assert.deepStrictEqual(yield* (yield* RunStore).list(), [])
    assert.deepStrictEqual(model.requests, [])
    return found
  }).pipe(Effect.scoped, Effect.provide(Layer.merge(model.layer, Layer.fresh(layerMemory))))

describe("an input without a prompt and without a run", () => {
  it.effect("is refused with the nearest key if it has a misspelt one", () =>
    Effect.gen(function* () {
      for (const [name, { _tag, message }] of yield* refusals({ promt: "go" })) {
        assert.strictEqual(_tag, "OptionsInvalid", name)
        assert.include(message, 'there is no "promt"', name)
        assert.include(message, 'did you mean "prompt"?', name)
      }
    })
  )

  for (const [title, input] of [
    ["has no key", {}],
    ["has a prompt that is undefined", { prompt: undefined }]
  ] as const) {
    it.effect(`is refused as an empty prompt if it ${title}`, () =>
      Effect.gen(function* () {
        for (const [name, { _tag }] of yield* refusals(input)) assert.strictEqual(_tag, "EmptyPrompt", name)
      })
    )
  }

  for (const input of [null, undefined, "go", 7, []]) {
    it.effect(`is refused if it is ${JSON.stringify(input)}`, () =>
      Effect.gen(function* () {
        for (const [name, { _tag }] of yield* refusals(input))
          assert.strictEqual(_tag, "OptionsInvalid", name)
      })
    )
  }
})
