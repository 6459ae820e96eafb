/**
 * The contents that a run may read: those to which its session refers.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { digestOf, isClearable } from "../../context/internal/shortened.ts"
import type { BlobRef, Sha256 } from "../../domain/Blob.ts"
import * as History from "../../domain/History.ts"
import { bytesOf } from "../../domain/internal/files.ts"
import { sha256Of } from "../../domain/internal/sha256.ts"
import {
  type AssistantPart,
  type FilePart,
  type Message,
  textOf,
  type UserPart
} from "../../domain/Message.ts"
import type { BlobPort } from "../../store/BlobPort.ts"
import { joined } from "../../store/internal/blobs.ts"
import { type Recalled, recalledText } from "../../tool/internal/recalling.ts"
import { isContent, toContent } from "../../tool/Tool.ts"
import { ToolFailure } from "../../tool/ToolError.ts"
import { type AgentRun, statesOf } from "../internal/AgentRun.ts"
import { isStored, type StoredFile } from "../internal/Contents.ts"

/** Finds contents by the first digits of their SHA-256: in the messages of the run and of the runs above it, and among all of its session. */
export const recallIn = Effect.fnUntraced(function* (run: AgentRun, digits: string) {
  const { journal } = run.drive
  const found = new Map<Sha256, Recalled>()
  for (const { history } of statesOf(run)) {
    for (const message of History.toArray(history)) {
      for (const part of message.content) addPart(found, journal.contents?.blobs, digits, part)
      addResult(found, digits, message)
    }
  }
  const isWhole = digits.length === wholeLength && found.size > 0
  if (isWhole || journal.references === undefined || journal.contents === undefined)
    return Array.from(found.values())
  for (const ref of yield* journal.references) {
    if (ref.sha256.startsWith(digits) && !found.has(ref.sha256))
      found.set(ref.sha256, storedContent(journal.contents.blobs, ref))
  }
  return Array.from(found.values())
})

/** The number of digits of a SHA-256. */
const wholeLength = 64

/** Adds the content of a part if it has these digits. A part that says more of the content comes first. */
const addPart = (
  found: Map<Sha256, Recalled>,
  blobs: BlobPort | undefined,
  digits: string,
  part: AssistantPart | UserPart
): void => {
  if (part._tag === "file") {
    const bytes = part.source._tag === "bytes" ? bytesOf(part) : undefined
    if (bytes !== undefined) {
      const sha256 = sha256Of(bytes)
      if (sha256.startsWith(digits)) found.set(sha256, inlineContent(part, bytes))
    } else if (isStored(part) && part.source.sha256.startsWith(digits) && blobs !== undefined) {
      const { mediaType, name, source } = part
      found.set(source.sha256, storedContent(blobs, { ...source, mediaType, name }))
    }
  } else if (part._tag === "text" && part.whole?.sha256.startsWith(digits) === true && blobs !== undefined) {
    if (!found.has(part.whole.sha256)) found.set(part.whole.sha256, storedContent(blobs, part.whole))
  }
}

/** Adds the text of a result that a compaction of the context may have replaced, if it has these digits. */
const addResult = (found: Map<Sha256, Recalled>, digits: string, message: Message): void => {
  if (!isClearable(message)) return
  const sha256 = digestOf(message) as Sha256
  if (!sha256.startsWith(digits) || found.has(sha256)) return
  found.set(sha256, recalledText(textOf(message.content)))
}

const inlineContent = (file: FilePart, bytes: Uint8Array): Recalled => ({
  bytes: bytes.length,
  asFile: () => file,
  read: (from, length) => Effect.succeed(bytes.subarray(from, from + length))
})

const storedContent = (
  blobs: BlobPort,
  {
    bytes,
    mediaType,
    name,
    sha256
  }: BlobRef & { readonly mediaType?: string; readonly name?: string | undefined }
): Recalled => ({
  bytes,
  asFile: (recognized) => ({
    _tag: "file",
    mediaType: mediaType ?? recognized,
    source: { _tag: "stored", sha256, bytes },
    ...(name === undefined ? {} : { name })
  }),
  read: (from, length) => Effect.map(Stream.runCollect(blobs.read(sha256, { from, length })), joined)
})

const none: ReadonlyArray<never> = []

/** The files in a tool's result that are in a store. A result that cannot be read has none; reading it again fails the call. */
export const storedIn = (out: unknown): ReadonlyArray<StoredFile> => {
  try {
    return isContent(out) ? toContent(out).filter(isStored) : none
  } catch {
    return none
  }
}

/** Refuses files that are not in the run's store, before the result is recorded. */
export const requireStored = Effect.fnUntraced(function* (run: AgentRun, files: ReadonlyArray<StoredFile>) {
  const { contents } = run.drive.journal
  const known =
    contents === undefined ? none : yield* contents.blobs.find(files.map(({ source }) => source.sha256))
  const unknown = files.find(
    ({ source }) => !known.some(({ bytes, sha256 }) => sha256 === source.sha256 && bytes === source.bytes)
  )
  if (unknown === undefined) return
  return yield* new ToolFailure({
    description: `its result refers to a file that is not in the run's store (SHA-256 ${unknown.source.sha256})`
  })
})
