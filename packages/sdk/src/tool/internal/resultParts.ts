/**
 * The parts of what a handler returned: text, JSON, and attached bytes.
 */
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import { messageOf } from "../../domain/Display.ts"
import { textIn } from "../../domain/internal/files.ts"
import { isPlain } from "../../domain/internal/untyped.ts"
import { type FilePart, text, type UserPart } from "../../domain/Message.ts"
import { holdOf } from "../Hold.ts"
import { bytesOfBlob } from "./blobs.ts"

/** The parts of a value, or why it cannot be shown, as the end of a sentence. */
export const resultParts = (value: unknown): Result.Result<ReadonlyArray<UserPart>, string> => {
  if (typeof value === "string") return Result.succeed([text(value)])
  if (value === undefined || value === null) return Result.succeed([text("")])
  if (typeof value === "bigint" || typeof value === "number") return Result.succeed([text(String(value))])
  if (typeof value === "function") return Result.fail("it is a function")
  try {
    if (value instanceof Error) return Result.succeed([text(jsonable(value) as string)])
    const file = fileOf(value)
    if (file !== undefined) return Result.succeed([file])
    if (value instanceof Blob) return Result.fail(unreadBlob)
    return isBare(value) ? Result.fail(`it is ${nameOf(value)}, which has no fields`) : ofJson(value)
  } catch (cause) {
    return Result.fail(unreadable(cause))
  }
}

/** A run has read the `Blob`s of a result before. */
const unreadBlob = "it is a Blob, which only a run reads: give its bytes"

const ofJson = (value: unknown): Result.Result<ReadonlyArray<UserPart>, string> => {
  const files: Array<FilePart> = []
  const json = JSON.stringify(value, function (this: Readonly<Record<string, unknown>>, key, item: unknown) {
    const given = isBufferJson(item) ? this[key] : item
    const file = fileOf(given)
    if (file === undefined) return jsonable(given)
    files.push(file)
    return `[attachment ${files.length}: ${file.mediaType}, ${bytesOf(given)?.length} bytes]`
  })
  return Result.succeed([text(json ?? String(value)), ...files])
}

/** The form in which a `Buffer` presents itself to `JSON.stringify`. */
const isBufferJson = (item: unknown): boolean =>
  typeof item === "object" && item !== null && "type" in item && item.type === "Buffer" && "data" in item

/** A value that JSON cannot hold, or would show as an empty object or `null`, in a form that it can hold. */
const jsonable = (item: unknown): unknown => {
  switch (typeof item) {
    case "bigint":
      return item.toString()
    case "number":
      return Number.isFinite(item) ? item : String(item)
    case "object":
      if (item === null || Array.isArray(item)) return item
      if (item instanceof Error) return `${item.name}: ${item.message}`
      if (holdOf(item) !== undefined) throw heldInside
      if (item instanceof Map || item instanceof Set || isNumbers(item)) return [...item]
      return isBare(item) ? `[${nameOf(item)} without fields]` : item
    default:
      return item
  }
}

/** Thrown for a hold inside a result: the model would read its fields, and nothing would wait. */
const heldInside = new Error("it contains a hold, which a handler has to return by itself")

const isNumbers = (item: object): item is Float64Array =>
  ArrayBuffer.isView(item) && Symbol.iterator in item && bytesOf(item) === undefined

/** Whether a value is an instance of a class that JSON shows as an empty object, such as a `Response`. */
const isBare = (value: unknown): boolean => {
  if (typeof value !== "object" || value === null || Array.isArray(value) || isPlain(value)) return false
  if (value instanceof Map || value instanceof Set || ArrayBuffer.isView(value)) return false
  if ("toJSON" in value && typeof value.toJSON === "function") return false
  if (value instanceof Number || value instanceof String || value instanceof Boolean) return false
  return Object.keys(value).length === 0
}

const nameOf = (value: unknown): string => {
  const { name }: { readonly name?: unknown } = (value as object).constructor ?? {}
  const known = typeof name === "string" && name !== "" ? name.slice(0, 100) : "object"
  return `${/^[AEIOU]/i.test(known) ? "an" : "a"} ${known}`
}

const unreadable = (cause: unknown): string => {
  if (cause === heldInside) return heldInside.message
  if (cause instanceof TypeError && /circular|cyclic/i.test(cause.message)) return "it contains itself"
  if (cause instanceof RangeError) return "it is too large, or nested too deeply"
  return `reading it as JSON failed: ${messageOf(cause)}`
}

/** The bytes of a value as an attachment; a `Blob` keeps its type, and a `File` its name. `undefined` if the value has no bytes. */
const fileOf = (value: unknown): FilePart | undefined => {
  const bytes = bytesOf(value)
  if (bytes === undefined) return undefined
  return value instanceof Blob
    ? attachment(bytes, value.type, "name" in value ? String(value.name) : "")
    : attachment(bytes)
}

/** The bytes of a value; `undefined` if it has none. Arrays of larger numbers are not bytes. */
const bytesOf = (value: unknown): Uint8Array | undefined => {
  if (typeof value !== "object" || value === null) return undefined
  if (value instanceof Uint8Array) return value
  if (value instanceof Blob) return bytesOfBlob(value)
  if (value instanceof ArrayBuffer) return new Uint8Array(value)
  if (value instanceof Uint8ClampedArray || value instanceof DataView) {
    return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
  }
  return undefined
}

/** Bytes as a file part. Its media type is recognized from the bytes unless one is given. */
export const attachment = (bytes: Uint8Array, mediaType = "", name = ""): FilePart => ({
  _tag: "file",
  mediaType: mediaType === "" ? mediaTypeOf(bytes) : mediaType,
  source: { _tag: "bytes", base64: Base64.encode(bytes) },
  ...(name === "" ? {} : { name })
})

/** The media type of the files that models read: images, PDF and text. */
export const mediaTypeOf = (bytes: Uint8Array): string => {
  const start = String.fromCharCode(...bytes.subarray(0, 12))
  if (start.startsWith("\u0089PNG\r\n")) return "image/png"
  if (start.startsWith("\u00ff\u00d8\u00ff")) return "image/jpeg"
  if (/^GIF8[79]a/.test(start)) return "image/gif"
  if (/^RIFF[^]{4}WEBP/.test(start)) return "image/webp"
  if (start.startsWith("%PDF-")) return "application/pdf"
  return textIn(bytes) === undefined ? "application/octet-stream" : "text/plain"
}
