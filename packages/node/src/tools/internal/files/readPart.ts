/**
 * Reads a file for a model: lines with their numbers, in parts, or an image or a PDF as an attachment.
 */
import { Display, Message, Tool, ToolError } from "@fermata/sdk"
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import { mediaOf } from "../mediaType.ts"
import { count } from "./count.ts"
import { failureOf } from "./places.ts"
import { decodeFile, encodingNames, hasControls, type TextFile } from "./textFile.ts"

/** A file and the lines of it to read, counted from 1 and both included. */
export interface Range {
  readonly path: string
  readonly startLine?: number
  readonly endLine?: number
}

export interface Limits {
  /** The most lines of a part. */
  readonly maxLines: number
  /** The most characters of a part. */
  readonly maxLength: number
  /** The largest image or PDF that is attached, in bytes. */
  readonly maxFileSize: number
}

/** The largest file that is read as a whole, in bytes. Of larger ones, the lines up to the wanted ones are read. */
const wholeBytes = 10 * 1024 * 1024

/** How far a large file is searched for lines, in bytes. */
const furthestBytes = 256 * 1024 * 1024

/** The longest line that is shown among others, in characters. */
const longestLine = 2_000

type Failing<A> = Effect.Effect<A, ToolError.ToolFailure>

const fail = (description: string): Failing<never> => Effect.fail(new ToolError.ToolFailure({ description }))

/**
 * Reads lines of a text file, or an image or a PDF as an attachment. Fails with a sentence for the model for a directory, for another
 * binary file, for an attachment over `maxFileSize`, and for a first line after the end of the file.
 * `info` describes the file, if it is known.
 */
export const readPart = (
  files: FileSystem.FileSystem,
  range: Range,
  limits: Limits,
  info?: FileSystem.File.Info
): Failing<string | Tool.Content> =>
  Effect.gen(function* () {
    const { path } = range
    const { size, type } =
      info ?? (yield* files.stat(path).pipe(Effect.mapError((error) => failureOf(path, error))))
    if (type === "Directory")
      return yield* fail(Display.sentence`The path "${path}" is a directory: list it with list_dir.`)
    const bytes = Number(ByteSize.toBigInt(size))
    if (bytes > wholeBytes) return yield* readLarge(files, range, limits, bytes)
    const content = yield* files.readFile(path).pipe(Effect.mapError((error) => failureOf(path, error)))
    const media = mediaOf(content, { mediaType: "", charset: undefined })
    if (media._tag === "file") return yield* attached(path, content, media.mediaType, limits)
    const file = decodeFile(content)
    return file === undefined ? yield* binary(path, bytes) : yield* shown(file, range, limits)
  })

const attached = (
  path: string,
  bytes: Uint8Array,
  mediaType: string,
  { maxFileSize }: Limits
): Failing<string | Tool.Content> => {
  const what = Display.sentence`${path} is ${mediaType}, ${count(bytes.length, "byte")}`
  if (bytes.length > maxFileSize)
    return fail(`${what}. Files of more than ${count(maxFileSize, "byte")} are not attached.`)
  const source = { _tag: "bytes" as const, base64: Buffer.from(bytes).toString("base64") }
  const name = path.replace(/\/+$/, "").split("/").at(-1) ?? path
  return Effect.succeed(
    Tool.content([Message.text(`${what}. It is attached.`), { _tag: "file", mediaType, source, name }])
  )
}

const binary = (path: string, bytes: number) =>
  fail(
    Display.sentence`The file "${path}" is binary (${count(bytes, "byte")}): it is neither text, nor an image, nor a PDF, and cannot be shown.`
  )

const shown = (file: TextFile, range: Range, limits: Limits): Failing<string> => {
  if (file.text === "") return Effect.succeed("[The file is empty.]")
  const lines = file.text.split("\n")
  // The line feed of the last line does not begin another line.
  if (lines.at(-1) === "") lines.pop()
  const isCrlf = lines.every((line, index) => line.endsWith("\r") || index === lines.length - 1)
  const notes = [
    encodingNames[file.encoding] === undefined ? [] : `The encoding is ${encodingNames[file.encoding]}.`,
    isCrlf && lines.length > 1 ? "Its lines end with CR LF." : [],
    file.text.endsWith("\n") ? [] : "The last line has no line end."
  ].flat()
  const { startLine = 1 } = range
  if (startLine > lines.length)
    return fail(`The file has ${count(lines.length, "line")}: startLine ${startLine} is after its end.`)
  return Effect.succeed(partOf(lines.slice(startLine - 1), range, limits, { total: lines.length, notes }))
}

interface About {
  /** How many lines the file has, if that is known. */
  readonly total: number | undefined
  readonly notes: ReadonlyArray<string>
}

/** The lines of a part, with numbers, and how to go on. `lines` begin with the first line of the range. */
const partOf = (
  lines: ReadonlyArray<string>,
  { endLine, startLine = 1 }: Range,
  { maxLength, maxLines }: Limits,
  { notes, total }: About
): string => {
  const wanted = Math.min(endLine === undefined ? lines.length : endLine - startLine + 1, lines.length)
  const out: Array<string> = []
  let length = 0
  for (const line of lines.slice(0, Math.min(wanted, maxLines))) {
    const text = numbered(startLine + out.length, line, wanted === 1 ? maxLength : longestLine)
    if (out.length > 0 && length + text.length > maxLength) break
    out.push(text)
    length += text.length + 1
  }
  const last = startLine + out.length - 1
  const isRest = out.length < wanted || (total !== undefined && last < total) || total === undefined
  const range = `Lines ${startLine} to ${last} of ${total === undefined ? "a larger file" : total.toLocaleString("en-US")}.`
  const isAll = startLine === 1 && !isRest
  const status = [
    ...(isAll ? [] : [range]),
    ...(isRest ? [`To read on, call read_file with startLine ${last + 1}.`] : []),
    ...notes
  ]
  return status.length === 0 ? out.join("\n") : `${out.join("\n")}\n[${status.join(" ")}]`
}

const numbered = (number: number, given: string, longest: number): string => {
  const line = given.replace(/\r$/, "")
  const begin = line.slice(0, boundary(line, longest))
  const missing = line.length - begin.length
  const cut =
    missing === 0
      ? ""
      : `[… ${count(missing, "more character")} of this line${longest === longestLine ? "; to see more of it, read it alone" : ""} …]`
  return `${String(number).padStart(6)}\t${begin}${cut}`
}

/** A position that is not inside a character. */
const boundary = (text: string, position: number): number => {
  const code = text.charCodeAt(position)
  return code >= 0xdc00 && code <= 0xdfff ? position - 1 : position
}

/** Reads lines of a file that is too large to be read as a whole: from its start, in pieces, until it has the wanted ones. */
const readLarge = (
  files: FileSystem.FileSystem,
  range: Range,
  limits: Limits,
  bytes: number
): Failing<string> =>
  Effect.gen(function* () {
    const { endLine = Infinity, path, startLine = 1 } = range
    const file = yield* files.open(path, { flag: "r" })
    const decoder = new TextDecoder("utf-8")
    const lines: Array<string> = []
    const wanted = Math.min(endLine - startLine + 1, limits.maxLines)
    let rest = ""
    let number = 1
    let length = 0
    let position = 0
    let isAtEnd = false
    while (lines.length < wanted && length <= limits.maxLength && !isAtEnd) {
      if (position >= furthestBytes)
        return yield* fail(
          Display.sentence`The line ${startLine} of "${path}" is too far into the file (${count(bytes, "byte")}). Search it with search_files, or use a command.`
        )
      const piece = Option.getOrUndefined(yield* file.readAlloc(1024 * 1024))
      if (piece === undefined || piece.length === 0) isAtEnd = true
      else if (hasControls(piece)) return yield* binary(path, bytes)
      position += piece?.length ?? 0
      const pieces = (rest + decoder.decode(piece, { stream: !isAtEnd })).split("\n")
      rest = isAtEnd ? "" : (pieces.pop() ?? "")
      if (isAtEnd && pieces.at(-1) === "") pieces.pop()
      // A line that goes on in the next piece is not kept as a whole if it is too long to be shown.
      if (rest.length > 2 * limits.maxLength) rest = rest.slice(0, 2 * limits.maxLength)
      for (const line of pieces) {
        if (number >= startLine && lines.length < wanted) {
          lines.push(line)
          length += line.length
        }
        number += 1
      }
    }
    if (lines.length === 0)
      return yield* fail(
        `The file has ${count(number - 1, "line")}: startLine ${startLine} is after its end.`
      )
    const total = isAtEnd ? number - 1 : undefined
    return partOf(lines, range, limits, { total, notes: [`The file has ${count(bytes, "byte")}.`] })
  }).pipe(
    Effect.scoped,
    Effect.mapError((error) => (error._tag === "ToolFailure" ? error : failureOf(range.path, error)))
  )
