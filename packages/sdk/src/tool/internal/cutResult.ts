/**
 * Cuts the results of tools that are too long for a journal and a model.
 */
import { text, type UserPart } from "../../domain/Message.ts"

/** The default of `maxResultLength`. */
export const longestResult = 1_000_000

/**
 * A result of at most `longest` characters, marks not counted. The shortest parts stay whole. A longer text keeps its head and its tail, with
 * a mark between them; a longer file is left out, and a text says so.
 */
export const cutResult = (parts: ReadonlyArray<UserPart>, longest: number): ReadonlyArray<UserPart> => {
  if (parts.reduce((sum, part) => sum + sizeOf(part), 0) <= longest) return parts
  let room = longest
  const cut = [...parts]
  const shortestFirst = parts
    .map((part, index) => ({ part, index }))
    .sort((a, b) => sizeOf(a.part) - sizeOf(b.part))
  for (const [before, { index, part }] of shortestFirst.entries()) {
    const kept = Math.floor(room / (parts.length - before))
    if (sizeOf(part) <= kept) room -= sizeOf(part)
    else if (part._tag === "file") cut[index] = text(leftOut(part, longest))
    else {
      cut[index] = text(cutText(part.text, kept))
      room -= kept
    }
  }
  return cut
}

const sizeOf = (part: UserPart): number => {
  if (part._tag === "text") return part.text.length
  return part.source._tag === "bytes" ? part.source.base64.length : 0
}

const leftOut = (file: Extract<UserPart, { readonly _tag: "file" }>, longest: number): string =>
  `[A file of ${file.mediaType} is left out: with its ${group(sizeOf(file))} characters of base64, the result is longer than ${group(longest)} characters.]`

/** The head and the tail of a text that is longer than `longest`, with a mark that counts the missing characters. */
export const cutText = (value: string, longest: number): string => {
  if (value.length <= longest) return value
  const head = wholeBefore(value, Math.ceil(longest / 2))
  const tail = wholeBefore(value, value.length - Math.floor(longest / 2))
  const mark = `[… ${group(tail - head)} of ${group(value.length)} characters are missing here …]`
  return [value.slice(0, head), mark, value.slice(tail)].filter((piece) => piece !== "").join("\n")
}

/** A position at or before `at` that does not split a surrogate pair. */
const wholeBefore = (value: string, at: number): number => {
  const code = value.charCodeAt(at)
  return at > 0 && code >= 0xdc00 && code <= 0xdfff ? at - 1 : at
}

const group = (count: number): string => count.toLocaleString("en-US")
