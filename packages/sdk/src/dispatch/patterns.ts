/**
 * Two common shapes of work over a conductor, as short as they would be in a program of yours: copy and change them.
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
  /** What its conductor calls the run. */
  readonly name?: string
  /** Its prompt, made of what the one before has come to. Default: the text of that. */
  readonly prompt?: (before: Completed<unknown>) => Prompt
}

/**
 * Runs one agent after the other: what each comes to is the prompt of the next. Returns what the last one has come to, or the first
 * that did not complete.
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
 * Runs one agent on many prompts at once, as many as the conductor has slots, and another one on what they come to, in the order of
 * the prompts.
 */
export const mapReduce = Effect.fnUntraced(function* <Item, Output>(
  conductor: Conductor.Conductor,
  options: {
    readonly map: { readonly runtime: Runtime<Item>; readonly prompts: ReadonlyArray<Prompt> }
    readonly reduce: {
      readonly runtime: Runtime<Output>
      /** Its prompt, made of what the others came to, however they ended. */
      readonly prompt: (results: ReadonlyArray<RunResult<Item>>) => Prompt
    }
    /** What the conductor calls the runs: `name/1`, `name/2`, …, and `name/reduce`. Default: `mapReduce`. */
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
