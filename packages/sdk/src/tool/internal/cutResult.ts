/**
 * Cuts the results of tools that are too long for a journal and a model.
 */
import type { BlobRef } from "../../domain/Blob.ts"
import { bytesOf } from "../../domain/internal/files.ts"
import { withoutUndefined } from "../../domain/internal/untyped.ts"
import { type FilePart, text, type TextPart, type UserPart } from "../../domain/Message.ts"

/** The default of `maxResultLength`. */
export const longestResult = 1_000_000

/** Keeps a content that is cut out of a result, and returns its reference. Absent in a run whose store keeps no contents. */
export type Keep = ((bytes: Uint8Array) => BlobRef) | undefined

/**
 * A result of at most `longest` characters, marks not counted. The shortest parts stay whole. A longer text keeps its head and its tail,
 * with a mark between them; a longer file is left out, and a text says so. A whole that was kept can be read again by the id in the mark.
 */
export const cutResult = (
  parts: ReadonlyArray<UserPart>,
  longest: number,
  keep?: Keep
): ReadonlyArray<UserPart> => {
  if (parts.reduce((sum, part) => sum + sizeOf(part), 0) <= longest) return parts
  let room = longest
  const cut = [...parts]
  const shortestFirst = parts
    .map((part, index) => ({ part, index }))
    .sort((a, b) => sizeOf(a.part) - sizeOf(b.part))
  for (const [before, { index, part }] of shortestFirst.entries()) {
    const kept = Math.floor(room / (parts.length - before))
    if (sizeOf(part) <= kept) room -= sizeOf(part)
    else if (part._tag === "file") cut[index] = leftOut(part, longest, keep)
    else {
      cut[index] = cutPart(part.text, kept, keep)
      room -= kept
    }
  }
  return cut
}

const sizeOf = (part: UserPart): number => {
  if (part._tag === "text") return part.text.length
  return part.source._tag === "bytes" ? part.source.base64.length : 0
}

const leftOut = (file: FilePart, longest: number, keep: Keep): TextPart => {
  const bytes = keep === undefined ? undefined : bytesOf(file)
  const ref = bytes === undefined ? undefined : keep?.(bytes)
  const why = `with its ${group(sizeOf(file))} characters of base64, the result is longer than ${group(longest)} characters.`
  const how = ref === undefined ? "" : ` Its id is ${idOf(ref)}.`
  const shown = text(`[A file of ${file.mediaType} is left out: ${why}${how}]`)
  if (ref === undefined) return shown
  const { mediaType, name } = file
  return { ...shown, whole: { ...ref, mediaType, ...withoutUndefined({ name }) } }
}

/** A text of at most `longest` characters, with the reference of the whole one if it is kept. */
export const cutPart = (value: string, longest: number, keep: Keep): TextPart => {
  if (value.length <= longest) return text(value)
  const whole = keep?.(new TextEncoder().encode(value))
  if (whole === undefined) return text(cutText(value, longest))
  return { ...text(cutText(value, longest, idOf(whole))), whole }
}

/** The digits by which a model names a content: fewer than the 64 of its SHA-256, and enough to tell it from the others of a session. */
const idOf = ({ sha256 }: BlobRef): string => sha256.slice(0, 16)

/**
 * The head and the tail of a text that is longer than `longest` characters, with a mark that counts the missing ones; a shorter text as it
 * is.
 */
export const cutText = (value: string, longest: number, id?: string): string => {
  if (value.length <= longest) return value
  const head = wholeBefore(value, Math.ceil(longest / 2))
  const tail = wholeBefore(value, value.length - Math.floor(longest / 2))
  const where = id === undefined ? "" : `; the id of the whole text is ${id}`
  const mark = `[… ${group(tail - head)} of ${group(value.length)} characters are missing here${where} …]`
  return [value.slice(0, head), mark, value.slice(tail)].filter((piece) => piece !== "").join("\n")
}

/** A position at or before `at` that does not split a surrogate pair. */
const wholeBefore = (value: string, at: number): number => {
  const code = value.charCodeAt(at)
  return at > 0 && code >= 0xdc00 && code <= 0xdfff ? at - 1 : at
}

const group = (count: number): string => count.toLocaleString("en-US")
