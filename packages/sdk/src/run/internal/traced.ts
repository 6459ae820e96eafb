/**
 * Spans, where somebody looks at them.
 */
import * as Effect from "effect/Effect"
import { isTraced } from "../../agent/internal/userCode.ts"

/** The effect in a span of this name, if it is traced: a span would be kept for as long as a run waits. */
export const traced = <A, E, R>(effect: Effect.Effect<A, E, R>, name: string): Effect.Effect<A, E, R> =>
  Effect.withFiber(({ context }) =>
    // Without the stack of the call, which would be kept too.
    isTraced(context) ? Effect.withSpan(effect, name, { captureStackTrace: false }) : effect
  )
