/**
 * The result of a tool as the model reads it: scrubbed, and cut to the longest length.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { textOfBytes, withBytes } from "../../domain/internal/files.ts"
import { type FilePart, text, UserPart } from "../../domain/Message.ts"
import type { Scrubber } from "../Scrubber.ts"
import { toContent } from "../Tool.ts"
import { ToolResultInvalid } from "../ToolError.ts"
import { cutResult, type Keep } from "./cutResult.ts"
import { counted } from "./scrub/redactions.ts"

/** The parts of a result, or why it cannot be shown. `keep` stores the whole of what is cut. */
export const shownResult = (
  scrubber: Scrubber,
  value: unknown,
  longest: number,
  keep?: Keep
): Result.Result<ReadonlyArray<UserPart>, string> => {
  const { scrub } = scrubber
  try {
    const content = toContent(value)
    if (!isText(content) && !isContent(content)) return Result.fail("its parts are not valid")
    return Result.succeed(cutResult(scrubbedParts(scrubber, content), longest, keep))
  } catch (cause) {
    return Result.fail(
      cause instanceof ToolResultInvalid ? scrub(cause.problem) : "it throws when it is read"
    )
  }
}

/** Texts that follow each other are one text if a secret is in two of them. */
const scrubbedParts = (scrubber: Scrubber, content: ReadonlyArray<UserPart>): ReadonlyArray<UserPart> => {
  const { scrub } = scrubber
  const parts: Array<UserPart> = []
  let texts: Array<string> = []
  const addTexts = () => {
    const each = texts.map((part) => scrub(part))
    const whole = counted(texts.join(""), texts.length < 2 ? each.join("") : scrub(texts.join("")))
    parts.push(...(whole === each.join("") ? each : [whole]).map((part) => text(part)))
    texts = []
  }
  for (const part of content) {
    if (part._tag === "text") {
      texts.push(part.text)
      continue
    }
    addTexts()
    parts.push(scrubbedFile(scrubber, part))
  }
  addTexts()
  return parts
}

/** The file without secrets in its name, its address and its text. An address keeps the paths of the host. */
const scrubbedFile = ({ redact, scrub }: Scrubber, file: FilePart): FilePart => {
  const name = file.name === undefined ? {} : { name: counted(file.name, scrub(file.name)) }
  const words = textOfBytes(file)
  const clean = words === undefined ? undefined : counted(words, scrub(words))
  const part = { ...(clean === undefined || clean === words ? file : withBytes(file, clean)), ...name }
  if (part.source._tag !== "url") return part
  const url = counted(part.source.url, (redact ?? scrub)(part.source.url))
  return { ...part, source: { ...part.source, url } }
}

/** A fast check for the most common content, a single text; the schema is slower. */
const isText = (content: ReadonlyArray<UserPart>): boolean => {
  const first = content[0]
  return content.length === 1 && first?._tag === "text" && typeof first.text === "string"
}

const isContent: (content: unknown) => boolean = Schema.is(Schema.Array(UserPart))
