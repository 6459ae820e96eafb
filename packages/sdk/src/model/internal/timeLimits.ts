/** The time limits of an attempt at a request, with their defaults and errors, the same for clients and bridges. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { type ModelError, TimedOut } from "../ModelError.ts"
import type { Timeouts } from "../ModelProfile.ts"
import { modelError } from "./modelError.ts"

/** The time limit for the head. A server sends the head of a response that is not streamed only when it has finished the response. */
export const headLimitOf = ({ firstByte, response }: Timeouts, streaming: boolean): Duration.Duration => {
  const head = Duration.fromInputUnsafe(response ?? "60 seconds")
  return streaming ? head : Duration.max(head, Duration.fromInputUnsafe(firstByte ?? "5 minutes"))
}

/** The time limit for the next part of the response; `begun` is `true` after the first. */
export const partLimitOf = ({ firstByte, idle }: Timeouts, begun: boolean): Duration.Duration =>
  Duration.fromInputUnsafe((begun ? idle : firstByte) ?? "5 minutes")

/** Fails with `TimedOut` when the head of a response does not arrive in time. `who` names the server. */
export const headWithin = <A, E, R>(
  head: Effect.Effect<A, E, R>,
  limit: Duration.Duration,
  who: string
): Effect.Effect<A, E | ModelError, R> =>
  Effect.timeoutOrElse(head, {
    duration: limit,
    orElse: () => Effect.fail(timedOut(limit, (ms) => `${who} did not answer within ${ms} ms.`))
  })

/** Fails with `TimedOut` when a part of a response does not arrive in time. */
export const partWithin = <A, E, R>(
  part: Effect.Effect<A, E, R>,
  limit: Duration.Duration,
  begun: boolean
): Effect.Effect<A, E | ModelError, R> =>
  Effect.timeoutOrElse(part, {
    duration: limit,
    orElse: () =>
      Effect.fail(
        timedOut(limit, (ms) => `No ${begun ? "further " : ""}part of the answer arrived within ${ms} ms.`)
      )
  })

const timedOut = (limit: Duration.Duration, describe: (ms: number) => string): ModelError => {
  const timeoutMs = Duration.toMillis(limit)
  return modelError(new TimedOut({ description: describe(timeoutMs), timeoutMs }))
}
