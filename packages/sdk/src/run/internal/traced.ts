/**
 * Spans, where somebody looks at them.
 */
import * as Effect from "effect/Effect"
import * as Tracer from "effect/Tracer"

/**
 * The effect in a span of this name, if there is a tracer that does something with spans: Effect's own keeps them in memory for nobody,
 * and one would be kept for as long as a run waits.
 */
export const traced = <A, E, R>(effect: Effect.Effect<A, E, R>, name: string): Effect.Effect<A, E, R> =>
  Effect.flatMap(Effect.tracer, (tracer) =>
    tracer === Tracer.nativeTracer
      ? effect
      : // Without the stack of the call, which would be kept too.
        Effect.withSpan(effect, name, { captureStackTrace: false })
  )
