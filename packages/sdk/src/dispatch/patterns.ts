/**
 * Two common patterns over a conductor. They use nothing but its public API, so that a program can copy and change them.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { Runtime } from "../agent/Runtime.ts"
import type { Prompt } from "../run/Mail.ts"
import type { Completed, RunResult } from "../run/RunResult.ts"
import type { HandleError } from "./AgentHandle.ts"
import * as Conductor from "./Conductor.ts"
import type { ConductorFull } from "./DispatchError.ts"

/** One agent of a {@link pipeline}. */
export interface Stage {
  readonly runtime: Runtime
  /** The name under which the run is dispatched. Default: none. */
  readonly name?: string
  /** Makes the prompt from the result of the previous stage. Default: the text of that result. Not used in the first stage. */
  readonly prompt?: (before: Completed<unknown>) => Prompt
}

/**
 * Runs agents in sequence, without a store, each in a session of its own: the text of each result is the prompt of the next, unless its
 * stage makes another prompt. Returns the result of the last one, or the first result that is not `completed`. Fails if a run cannot be
 * dispatched or has no result.
 */
export const pipeline = Effect.fnUntraced(function* (
  conductor: Conductor.Conductor,
  prompt: Prompt,
  [first, ...rest]: readonly [Stage, ...ReadonlyArray<Stage>]
): Effect.fn.Return<RunResult, HandleError | ConductorFull> {
  const run = ({ name, runtime }: Stage, prompt: Prompt) =>
    Effect.flatMap(
      conductor.dispatch(runtime, { prompt }, name === undefined ? {} : { name }),
      ({ done }) => done
    )
  let result = yield* run(first, prompt)
  for (const stage of rest) {
    if (result.status !== "completed") return result
    result = yield* run(stage, stage.prompt?.(result) ?? result.text)
  }
  return result
})

/**
 * Runs one agent on many prompts concurrently, without a store and within the slots of the conductor. When all these runs have ended, runs
 * another agent on their results, which are in the order of the prompts. Fails if a run cannot be dispatched or has no result.
 */
export const mapReduce = Effect.fnUntraced(function* <Item, Output>(
  conductor: Conductor.Conductor,
  options: {
    readonly map: { readonly runtime: Runtime<Item>; readonly prompts: ReadonlyArray<Prompt> }
    readonly reduce: {
      readonly runtime: Runtime<Output>
      /** Makes the prompt from the results, including those of runs that did not complete. */
      readonly prompt: (results: ReadonlyArray<RunResult<Item>>) => Prompt
    }
    /** The name of the pattern. The runs are named `name/1`, `name/2`, …, and `name/reduce`. Default: `mapReduce`. */
    readonly name?: string
  }
): Effect.fn.Return<RunResult<Output>, HandleError | ConductorFull> {
  const { map, name = "mapReduce", reduce } = options
  const handles = yield* Effect.forEach(map.prompts, (prompt, index) =>
    conductor.dispatch(map.runtime, { prompt }, { name: `${name}/${index + 1}` })
  )
  const prompt = reduce.prompt(yield* Conductor.all(handles))
  const handle = yield* conductor.dispatch(reduce.runtime, { prompt }, { name: `${name}/reduce` })
  return yield* handle.done
})
