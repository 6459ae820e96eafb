/**
 * Decoding with schemas of the program. A schema that throws fails the decoding, and one that takes too long is abandoned.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { messageOf } from "../../domain/Display.ts"
import { copyJson } from "../../domain/internal/json.ts"
import type { Limits } from "../../domain/Limits.ts"
import type { Decoder } from "../../tool/DataSchema.ts"
import type { Entry } from "../Entry.ts"
import { withTimeout } from "./userCode.ts"

/** Decodes the arguments of a call, within the timeout of its body. */
export const decodeArguments = (
  entry: Entry,
  { toolTimeoutMs }: Pick<Limits, "toolTimeoutMs">,
  json: unknown
): Effect.Effect<unknown, string> => {
  const timeout = "tool" in entry ? entry.tool.options.timeout : undefined
  const ms = timeout === undefined ? toolTimeoutMs : Duration.toMillis(Duration.fromInputUnsafe(timeout))
  // A copy, because a schema must not change the arguments that the model sent or a person approved.
  return decodeWithin(entry.decoder, ms, copyJson(json) ?? json)
}

/** Decodes a value within `ms` milliseconds. A synchronous schema costs no timer. */
export const decodeWithin = (
  { decode }: Pick<Decoder<unknown>, "decode">,
  ms: number,
  json: unknown
): Effect.Effect<unknown, string> => {
  let decoding: Effect.Effect<unknown, string>
  try {
    decoding = decode(json)
  } catch (defect) {
    return Exit.fail(messageOf(defect))
  }
  if (Exit.isExit(decoding)) return asFailure(decoding as Exit.Exit<unknown, string>)
  const late = () => `its schema did not answer within ${ms} ms`
  return Effect.catchCause(withTimeout(ms, 0, decoding, late), (cause) => asFailure(Exit.failCause(cause)))
}

/** Turns a defect of the schema into a failure. Fiber interruption is kept. */
const asFailure = (exit: Exit.Exit<unknown, string>): Exit.Exit<unknown, string> =>
  Exit.isFailure(exit) && Cause.hasDies(exit.cause) ? Exit.fail(messageOf(Cause.squash(exit.cause))) : exit
