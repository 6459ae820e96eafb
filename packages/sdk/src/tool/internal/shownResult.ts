/**
 * The result of a tool as the model reads it: scrubbed, and cut to the longest length.
 */
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type FilePart, text, UserPart } from "../../domain/Message.ts"
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
    return Result.succeed(cutResult(scrubbedParts(scrub, content), longest))
  } catch (cause) {
    return Result.fail(
      cause instanceof ToolResultInvalid ? scrub(cause.problem) : "it throws when it is read"
    )
  }
}

/** Texts that follow each other are one text if a secret is in two of them. */
const scrubbedParts = (
  scrub: Scrubber["scrub"],
  content: ReadonlyArray<UserPart>
): ReadonlyArray<UserPart> => {
  const parts: Array<UserPart> = []
  let texts: Array<string> = []
  const addTexts = () => {
    const each = texts.map((part) => scrub(part))
    const whole = texts.length < 2 ? each.join("") : scrub(texts.join(""))
    parts.push(...(whole === each.join("") ? each : [whole]).map((part) => text(part)))
    texts = []
  }
  for (const part of content) {
    if (part._tag === "text") {
      texts.push(part.text)
      continue
    }
    addTexts()
    parts.push(scrubbedFile(scrub, part))
  }
  addTexts()
  return parts
}

const scrubbedFile = (scrub: Scrubber["scrub"], part: FilePart): FilePart => {
  const words = wordsOf(part)
  const clean = words === undefined ? undefined : scrub(words)
  return clean === undefined || clean === words
    ? part
    : { ...part, source: { _tag: "bytes", base64: Base64.encode(clean) } }
}

/** Media that are no text, although a short one may be valid UTF-8. */
const media = /^(?:image\/(?!svg)|audio\/|video\/|font\/|application\/(?:pdf|zip|gzip|wasm))/

/** The text of a file of any type whose bytes are UTF-8. */
const wordsOf = ({ mediaType, source }: FilePart): string | undefined => {
  if (source._tag !== "bytes" || media.test(mediaType)) return undefined
  return Base64.decode(source.base64).pipe(
    Result.flatMap((bytes) => Result.try(() => utf8.decode(bytes))),
    Result.getOrUndefined
  )
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

/** A fast check for the most common content, a single text; the schema is slower. */
const isText = (content: ReadonlyArray<UserPart>): boolean => {
  const first = content[0]
  return content.length === 1 && first?._tag === "text" && typeof first.text === "string"
}

const isContent: (content: unknown) => boolean = Schema.is(Schema.Array(UserPart))
