/**
 * Spans for programs that have a tracer.
 */
import * as Effect from "effect/Effect"
import { isTraced } from "../../agent/internal/userCode.ts"

/** Runs the effect in a span of this name, if the program has a tracer. A span would otherwise be retained while a run waits. */
export const traced = <A, E, R>(effect: Effect.Effect<A, E, R>, name: string): Effect.Effect<A, E, R> =>
  Effect.withFiber(({ context }) =>
    // The stack trace would be retained as well.
    isTraced(context) ? Effect.withSpan(effect, name, { captureStackTrace: false }) : effect
  )
