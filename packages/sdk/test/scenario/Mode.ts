/**
 * The two ways to pass a held run between processes: as JSON in the caller's hands, or by its id in a store. Each scenario runs in both.
 */
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { Runtime } from "../../src/agent/Runtime.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { Limits } from "../../src/domain/Limits.ts"
import { type RunPromptStoredError, runPromptStored } from "../../src/durable/runPromptStored.ts"
import type { RunOptions } from "../../src/run/runInput.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import type { RunResult } from "../../src/run/RunResult.ts"
import { type RunStore, layerMemory } from "../../src/store/RunStore.ts"
import type { RunStoreError } from "../../src/store/RunStoreError.ts"
import { throughJson } from "../helpers/Fixture.ts"

export interface Mode {
  readonly name: string
  readonly isStored: boolean
  /** The store of one test; a fresh one each time. */
  readonly layer: Layer.Layer<RunStore, RunStoreError>
  readonly start: <Output>(
    runtime: Runtime<Output>,
    prompt: string,
    options?: RunOptions & { readonly limits?: Partial<Limits> }
  ) => Effect.Effect<RunResult<Output>, RunPromptStoredError, RunStore>
  /** Continues from a result of this or another process. */
  readonly resume: <Output>(
    runtime: Runtime<Output>,
    from: RunResult<any>,
    input?: {
      readonly decisions?: ReadonlyArray<DecisionInput>
      readonly prompt?: string
      readonly limits?: Partial<Limits>
    },
    options?: RunOptions
  ) => Effect.Effect<RunResult<Output>, RunPromptStoredError, RunStore>
}

/** The caller keeps the state, and passes it on as JSON. */
export const unstored: Mode = {
  name: "without a store, through JSON",
  isStored: false,
  layer: layerMemory,
  start: (runtime, prompt, { limits, ...options } = {}) =>
    runPrompt(runtime, { prompt, ...(limits === undefined ? {} : { limits }) }, options),
  resume: (runtime, from, input = {}, options) =>
    Effect.suspend(() => runPrompt(runtime, { ...input, state: throughJson(from.state) }, options))
}

/** The run is in a store, and its id suffices. */
export const stored = (name: string, layer: Layer.Layer<RunStore, RunStoreError>): Mode => ({
  name: `stored in ${name}`,
  isStored: true,
  layer,
  start: (runtime, prompt, { limits, ...options } = {}) =>
    runPromptStored(runtime, { prompt, ...(limits === undefined ? {} : { limits }) }, options),
  resume: (runtime, { runId }, { prompt, ...input } = {}, options) =>
    runPromptStored(
      runtime,
      { ...input, runId, ...(prompt === undefined ? {} : { message: prompt }) },
      options
    )
})
