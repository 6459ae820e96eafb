/**
 * The bytes of files, and the files of events.
 */
// This module is part of Effect's stable core, although it is in a folder.
// oxlint-disable-next-line no-restricted-imports
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import type { FilePart, UserPart } from "../Message.ts"
import type { AnsweredPart, RunEvent } from "../RunEvent.ts"
import { sameJson } from "./json.ts"
import { sha256Of } from "./sha256.ts"

/** The bytes of a file that has them; `undefined` if they are not valid base64. */
export const bytesOf = ({ source }: FilePart): Uint8Array | undefined =>
  source._tag === "bytes" ? Result.getOrUndefined(Base64.decode(source.base64)) : undefined

/** The file with these bytes in place of its source; a text is encoded as UTF-8. */
export const withBytes = (file: FilePart, bytes: Uint8Array | string): FilePart => ({
  ...file,
  source: { _tag: "bytes", base64: Base64.encode(bytes) }
})

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

/** The bytes as text; `undefined` if they are not UTF-8 or contain a zero byte, as most files that are no texts do. */
export const textIn = (bytes: Uint8Array): string | undefined =>
  bytes.includes(0) ? undefined : utf8In(bytes)

/** The bytes as text; `undefined` if they are not UTF-8. */
export const utf8In = (bytes: Uint8Array): string | undefined => {
  try {
    return strict.decode(bytes)
  } catch {
    return undefined
  }
}

/** Whether files of a media type are no text, although a short one may be valid UTF-8. */
export const isMedia = (mediaType: string): boolean => media.test(mediaType)

const media = /^(?:image\/(?!svg)|audio\/|video\/|font\/|application\/(?:pdf|zip|gzip|wasm))/

/** Base64 characters at the beginning of a file that show whether it may be UTF-8: a multiple of four. */
const sniffed = 4096

/** The text of a file with bytes, of any type whose bytes are UTF-8. */
export const textOfBytes = ({ mediaType, source }: FilePart): string | undefined => {
  if (source._tag !== "bytes" || isMedia(mediaType)) return undefined
  if (source.base64.length > sniffed) {
    const start = Result.getOrUndefined(Base64.decode(source.base64.slice(0, sniffed)))
    if (start === undefined || incompleteAfter(start) === undefined) return undefined
  }
  return Base64.decode(source.base64).pipe(Result.map(utf8In), Result.getOrUndefined)
}

/** The length of an incomplete character after the text with which a file begins; `undefined` if it does not begin with a text. */
export const incompleteAfter = (bytes: Uint8Array): number | undefined =>
  [0, 1, 2, 3].find((cut) => utf8In(bytes.subarray(0, Math.max(0, bytes.length - cut))) !== undefined)

/** The part with the reference of its content in place of its bytes. */
const asReference = <Part extends AnsweredPart | UserPart>(part: Part): Part => {
  const bytes = part._tag === "file" ? bytesOf(part) : undefined
  return bytes === undefined
    ? part
    : { ...part, source: { _tag: "stored", sha256: sha256Of(bytes), bytes: bytes.length } }
}

/** The event with references in place of the bytes of its files, also of small ones. */
export const asReferences = (event: RunEvent): RunEvent => mapParts(event, asReference)

/** Whether two contents are equal. A file with its bytes equals a reference to them. */
export const sameContent = (one: ReadonlyArray<UserPart>, other: ReadonlyArray<UserPart>): boolean =>
  sameJson(one, other) ||
  (one.length === other.length &&
    [...one, ...other].some((part) => part._tag === "file" && part.source._tag === "stored") &&
    sameJson(mapUnlessSame(one, asReference), mapUnlessSame(other, asReference)))

/** Replaces the parts of an event of a run, or of a sub-agent in it. Returns the same object if `f` changes none. */
export const mapParts = (
  event: RunEvent,
  f: <Part extends AnsweredPart | UserPart>(part: Part) => Part
): RunEvent => {
  switch (event._tag) {
    case "child.advanced": {
      const inner = mapParts(event.event, f)
      return inner === event.event ? event : { ...event, event: inner }
    }
    case "run.started": {
      const prompt = mapUnlessSame(event.prompt, f)
      return prompt === event.prompt ? event : { ...event, prompt }
    }
    case "model.answered": {
      const content = mapUnlessSame(event.content, f)
      return content === event.content ? event : { ...event, content }
    }
    case "message.queued":
    case "tool.completed":
    case "tool.failed":
    case "tool.denied": {
      const content = mapUnlessSame(event.content, f)
      return content === event.content ? event : { ...event, content }
    }
    default:
      return event
  }
}

/** Maps a list. Returns the same list if `f` returns the same items. */
export const mapUnlessSame = <A>(items: ReadonlyArray<A>, f: (item: A) => A): ReadonlyArray<A> => {
  let changed: Array<A> | undefined
  for (let index = 0; index < items.length; index += 1) {
    const item = items[index]!
    const mapped = f(item)
    if (mapped !== item) changed ??= items.slice(0, index)
    changed?.push(mapped)
  }
  return changed ?? items
}
