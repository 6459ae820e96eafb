/**
 * Runs a prompt as a stream of its updates and its result.
 */
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import type { RunResult } from "../RunResult.ts"

/** An update of a run, or its result, which is the last element of a stream. */
export type PromptUpdate<Output = unknown> =
  | RunUpdate
  | { readonly _tag: "result"; readonly result: RunResult<Output> }

/** Emits the updates that `drive` publishes, then its result. The buffer is unbounded, because a run waits for no reader. */
export const streamed = <Output, E, R>(
  drive: (onUpdate: (update: RunUpdate) => void) => Effect.Effect<RunResult<Output>, E, R>,
  onUpdate: ((update: RunUpdate) => unknown) | undefined
): Stream.Stream<PromptUpdate<Output>, E, R> =>
  Stream.callback<PromptUpdate<Output>, E, R>(
    (queue) =>
      drive((update) => {
        Queue.offerUnsafe(queue, update)
        return onUpdate?.(update)
      }).pipe(
        Effect.map((result) => {
          Queue.offerUnsafe(queue, { _tag: "result", result })
          Queue.endUnsafe(queue)
        })
      ),
    { bufferSize: Infinity }
  )
