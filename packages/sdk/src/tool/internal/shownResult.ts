/**
 * The result of a tool as the model reads it: scrubbed, and cut to the longest length.
 */
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { text, UserPart } from "../../domain/Message.ts"
import { textOfFile } from "../../model/internal/inWords.ts"
import type { Scrubber } from "../Scrubber.ts"
import { toContent } from "../Tool.ts"
import { ToolResultInvalid } from "../ToolError.ts"
import { cutResult } from "./cutResult.ts"

/** The parts of a result, or why it cannot be shown. */
export const shownResult = (
  { scrub }: Scrubber,
  value: unknown,
  longest: number
): Result.Result<ReadonlyArray<UserPart>, string> => {
  try {
    const content = toContent(value)
    if (!isText(content) && !isContent(content)) return Result.fail("its parts are not valid")
    return Result.succeed(
      cutResult(
        content.map((part) => scrubbed(scrub, part)),
        longest
      )
    )
  } catch (cause) {
    return Result.fail(
      cause instanceof ToolResultInvalid ? scrub(cause.problem) : "it throws when it is read"
    )
  }
}

const scrubbed = (scrub: Scrubber["scrub"], part: UserPart): UserPart => {
  if (part._tag === "text") return text(scrub(part.text))
  const words = textOfFile(part)
  const clean = words === undefined ? undefined : scrub(words)
  return clean === undefined || clean === words
    ? part
    : { ...part, source: { _tag: "bytes", base64: Base64.encode(clean) } }
}

/** A fast check for the most common content, a single text; the schema is slower. */
const isText = (content: ReadonlyArray<UserPart>): boolean => {
  const first = content[0]
  return content.length === 1 && first?._tag === "text" && typeof first.text === "string"
}

const isContent: (content: unknown) => boolean = Schema.is(Schema.Array(UserPart))
