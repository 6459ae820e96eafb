/**
 * Decodes prompts, which programs without types may pass in the form of another SDK.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { keysOf, misfits, required, type Shape, shapeOf, string } from "../../domain/internal/misfits.ts"
import { kindOf, readOnce } from "../../domain/internal/untyped.ts"
import { FilePart, text, type TextPart, UserPart } from "../../domain/Message.ts"
import { EmptyPrompt } from "../../domain/RunError.ts"

/** Decodes the parts of a prompt. Fails if it has no part, blank texts only, or a value that is no part. */
export const decodePrompt = (
  prompt: string | ReadonlyArray<UserPart>
): Effect.Effect<ReadonlyArray<UserPart>, EmptyPrompt> => {
  const decoded = typeof prompt === "string" ? Result.succeed([text(prompt)]) : partsOf(readOnce(prompt))
  if (Result.isFailure(decoded)) return Effect.fail(new EmptyPrompt({ problem: decoded.failure }))
  const parts = decoded.success
  return parts.every((part) => part._tag === "text" && part.text.trim() === "")
    ? Effect.fail(new EmptyPrompt({}))
    : Effect.succeed(parts)
}

const shape: Shape = {
  cases: {
    text: shapeOf<TextPart>({
      _tag: "anything",
      text: required(string),
      provider: "anything",
      payload: "anything"
    }),
    file: keysOf(Object.keys(FilePart.fields))
  }
}

const decode = Schema.decodeUnknownResult(UserPart)

const partsOf = (given: unknown): Result.Result<ReadonlyArray<UserPart>, string> => {
  if (!Array.isArray(given)) return Result.fail(`it is ${kindOf(given)}`)
  const parts: Array<UserPart> = []
  for (const [index, part] of given.entries()) {
    const whole = `its part ${index}`
    if (typeof part === "object" && part !== null && "role" in part)
      return Result.fail(`${whole} ${ofMessage}`)
    const [misfit] = misfits(part, shape, whole)
    const decoded = decode(part)
    if (misfit !== undefined) return Result.fail(misfit.problem)
    if (Result.isFailure(decoded)) return Result.fail(`${whole} is neither a text nor a file`)
    parts.push(decoded.success)
  }
  return Result.succeed(parts)
}

const ofMessage =
  'is a message with a role, but a session keeps its messages itself: pass only what the user says now, and the "sessionId" to continue a session'
