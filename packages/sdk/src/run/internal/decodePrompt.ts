/**
 * Decodes prompts, which programs without types may pass in the form of another SDK.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Sha256 } from "../../domain/Blob.ts"
import { isDeeperThan, maxGivenDepth } from "../../domain/internal/json.ts"
import {
  json,
  keysOf,
  type Kind,
  misfits,
  required,
  type Shape,
  shapeOf,
  string
} from "../../domain/internal/misfits.ts"
import { kindOf, readOnce } from "../../domain/internal/untyped.ts"
import { type FilePart, text, type TextPart, UserPart } from "../../domain/Message.ts"
import { EmptyPrompt } from "../../domain/RunError.ts"
import { isStored } from "./Contents.ts"

/** Decodes the parts of a prompt. Fails if it has no part, blank texts only, or a value that is no part. */
export const decodePrompt = (
  prompt: string | ReadonlyArray<UserPart>
): Effect.Effect<ReadonlyArray<UserPart>, EmptyPrompt> => {
  const decoded = typeof prompt === "string" ? Result.succeed([text(prompt)]) : partsOf(prompt)
  if (Result.isFailure(decoded)) return Effect.fail(new EmptyPrompt({ problem: decoded.failure }))
  const parts = decoded.success
  return parts.every((part) => part._tag === "text" && part.text.trim() === "")
    ? Effect.fail(new EmptyPrompt({}))
    : Effect.succeed(parts)
}

/** Decodes the prompt of a run without a store, which cannot read a file that is in one. */
export const decodeUnstoredPrompt = (
  prompt: string | ReadonlyArray<UserPart>
): Effect.Effect<ReadonlyArray<UserPart>, EmptyPrompt> =>
  Effect.filterOrFail(
    decodePrompt(prompt),
    (parts) => !parts.some(isStored),
    () =>
      new EmptyPrompt({
        problem: "it refers to a file in a store, and this run has no store: give the file with its bytes"
      })
  )

const url: Kind = {
  takes: 'a URL, such as "https://example.com/a.png"',
  is: (value) => typeof value === "string" && URL.canParse(value),
  among: ["string"]
}

const digest: Kind = {
  takes: "the SHA-256 of the content as 64 hexadecimal digits",
  is: Schema.is(Sha256),
  among: ["string"]
}

const length: Kind = {
  takes: "the number of bytes of the content",
  is: Schema.is(Schema.Natural),
  among: ["number"]
}

const shape: Shape = {
  cases: {
    text: shapeOf<Omit<TextPart, "whole">>({
      _tag: "anything",
      text: required(string),
      provider: string,
      payload: json
    }),
    file: shapeOf<FilePart>({
      _tag: "anything",
      mediaType: required(string),
      source: {
        required: true,
        cases: {
          bytes: keysOf(["_tag"], { base64: required(string) }),
          url: keysOf(["_tag"], { url: required(url) }),
          reference: keysOf(["_tag"], { id: required(string), provider: required(string) }),
          stored: keysOf(["_tag"], { sha256: required(digest), bytes: required(length) })
        }
      },
      name: string
    })
  }
}

const decode = Schema.decodeUnknownResult(UserPart)

const partsOf = (prompt: unknown): Result.Result<ReadonlyArray<UserPart>, string> => {
  if (!Array.isArray(prompt)) return Result.fail(`it is ${kindOf(prompt)}`)
  if (isDeeperThan(prompt, maxGivenDepth))
    return Result.fail(`it is nested more than ${maxGivenDepth} levels deep`)
  const given = readOnce(prompt)
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
