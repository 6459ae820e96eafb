/**
 * Decodes the context of a run with the schema of a tool or an agent.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import { cloneJson } from "../../domain/internal/json.ts"
import type { RunContext } from "../../domain/RunContext.ts"
import { type DataSchema, type Decoder, decoder } from "../DataSchema.ts"

type Schema = DataSchema<unknown>

const decoders = new WeakMap<object, Result.Result<Decoder<unknown>, string>>()

/** The decoder of a schema of contexts, or the reason why the schema cannot be used. */
export const contextDecoder = (schema: Schema): Result.Result<Decoder<unknown>, string> => {
  const known = decoders.get(schema)
  if (known !== undefined) return known
  const made = decoder(schema)
  decoders.set(schema, made)
  return made
}

/** Decodes a context. Without a schema, returns a copy of it. Fails with a sentence. */
export const decodeContext = (
  schema: Schema | undefined,
  context: RunContext
): Result.Result<unknown, string> => {
  // A copy, since user code may change what it receives, and the state of the run must not change.
  const own = cloneJson(context)
  if (schema === undefined) return Result.succeed(own)
  const found = contextDecoder(schema)
  if (Result.isFailure(found)) return Result.fail(found.failure)
  const decoded = Effect.runSyncExit(found.success.decode(own))
  if (Exit.isSuccess(decoded)) return Result.succeed(decoded.value)
  const [reason] = decoded.cause.reasons
  return Result.fail(
    reason?._tag === "Fail" ? reason.error : "its schema failed, or is asynchronous: it has to decode at once"
  )
}
