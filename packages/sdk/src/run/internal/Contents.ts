/**
 * The contents of a stored run: bytes that its events refer to.
 *
 * The bytes in an event are replaced by their reference before the event is folded, so that the state in memory is the one that the journal
 * gives. They are stored before the commit of the event, all of one commit in one transaction. For a model call, the references are
 * replaced by the bytes again.
 */
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Stream from "effect/Stream"
import { type BlobRef, type Sha256, smallestStored } from "../../domain/Blob.ts"
import { bytesOf, mapParts, mapUnlessSame } from "../../domain/internal/files.ts"
import { sha256Of } from "../../domain/internal/sha256.ts"
import type { AssistantPart, FilePart, Message, UserPart } from "../../domain/Message.ts"
import { ContentMissing } from "../../domain/RunError.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { BlobPort } from "../../store/BlobPort.ts"
import { joined } from "../../store/internal/blobs.ts"
import type { RunStoreError } from "../../store/RunStoreError.ts"

/** A file whose bytes are in the store. */
export interface StoredFile extends FilePart {
  readonly source: Extract<FilePart["source"], { readonly _tag: "stored" }>
}

/** The contents of one driven run, or of one operation on a stored run. */
export class Contents {
  readonly blobs: BlobPort
  private readonly cache: Cache
  /** The contents that the next flush stores, by their SHA-256. */
  private readonly unstored = new Map<Sha256, Uint8Array>()

  constructor(blobs: BlobPort) {
    this.blobs = blobs
    this.cache = cacheOf(blobs)
  }

  /** The event with references in place of the bytes of its files. Returns the same object if it has no file to store. */
  separate(event: RunEvent): RunEvent {
    return mapParts(event, (part) => this.separated(part))
  }

  /** The parts with references in place of their bytes. */
  separateParts(parts: ReadonlyArray<UserPart>): ReadonlyArray<UserPart> {
    return mapUnlessSame(parts, (part) => this.separated(part))
  }

  /** The part with a reference in place of its bytes, unless they are few. */
  separated<Part extends { readonly _tag: string }>(part: Part): Part {
    if (!isFile(part) || part.source._tag !== "bytes" || isSmall(part.source.base64)) return part
    const bytes = bytesOf(part)
    if (bytes === undefined || bytes.length < smallestStored) return part
    return { ...part, source: { _tag: "stored", ...this.add(bytes) } }
  }

  /** Adds a content to the next commit, and returns its reference. */
  add(bytes: Uint8Array): BlobRef {
    const sha256 = sha256Of(bytes)
    this.unstored.set(sha256, bytes)
    return { sha256, bytes: bytes.length }
  }

  /** Whether contents were added since the last commit. */
  get hasUnstored(): boolean {
    return this.unstored.size > 0
  }

  /** Stores the added contents, in one transaction. */
  readonly flush: Effect.Effect<void, RunStoreError> = Effect.suspend(() => {
    if (this.unstored.size === 0) return Effect.void
    const stored = Array.from(this.unstored)
    return Effect.map(this.blobs.putAll(stored.map(([, bytes]) => bytes)), () => {
      for (const [sha256, bytes] of stored) {
        this.cache.set(sha256, Base64.encode(bytes))
        this.unstored.delete(sha256)
      }
    })
  })

  /** The messages with the bytes of their files. */
  resolve(
    messages: ReadonlyArray<Message>
  ): Effect.Effect<ReadonlyArray<Message>, ContentMissing | RunStoreError> {
    return Effect.forEach(messages, (message) =>
      hasStored(message) ? this.resolved(message) : Effect.succeed(message)
    )
  }

  private resolved(message: Message): Effect.Effect<Message, ContentMissing | RunStoreError> {
    // The same message, so that what a client or a tokenizer keeps about it stays valid.
    const known = this.cache.messages.get(message)
    if (known !== undefined) return Effect.succeed(known)
    return Effect.map(
      Effect.forEach(message.content, (part: AssistantPart | UserPart) =>
        isStored(part) ? this.withBytes(part) : Effect.succeed(part)
      ),
      (content) => {
        const made = { ...message, content } as Message
        if (message.content.every((part) => !isStored(part) || this.cache.has(part.source.sha256)))
          this.cache.messages.set(message, made)
        return made
      }
    )
  }

  private withBytes(file: StoredFile): Effect.Effect<FilePart, ContentMissing | RunStoreError> {
    const { sha256 } = file.source
    return Effect.map(this.base64Of(file, sha256), (base64) => ({
      ...file,
      source: { _tag: "bytes", base64 }
    }))
  }

  private base64Of(file: FilePart, sha256: Sha256): Effect.Effect<string, ContentMissing | RunStoreError> {
    const known = this.cache.get(sha256)
    if (known !== undefined) return Effect.succeed(known)
    const unstored = this.unstored.get(sha256)
    if (unstored !== undefined) return Effect.succeed(Base64.encode(unstored))
    return Effect.flatMap(this.read(sha256), (bytes) => {
      if (bytes === undefined) return Effect.fail(missing(file, sha256, "missing"))
      if (sha256Of(bytes) !== sha256) return Effect.fail(missing(file, sha256, "changed"))
      const base64 = Base64.encode(bytes)
      this.cache.set(sha256, base64)
      return Effect.succeed(base64)
    })
  }

  /** The bytes of a content; `undefined` if the store does not have it. */
  read(sha256: Sha256): Effect.Effect<Uint8Array | undefined, RunStoreError> {
    return Stream.runCollect(this.blobs.read(sha256)).pipe(
      Effect.map((pieces): Uint8Array | undefined => joined(pieces)),
      Effect.catchIf(isMissing, () => Effect.succeed(undefined))
    )
  }
}

/** Whether a message has a file that is in the store. A context policy without types may have returned any value as messages. */
export const hasStoredFile = (messages: ReadonlyArray<Message> | undefined): boolean =>
  Array.isArray(messages) && messages.some(hasStored)

/** The messages of a run without a store. Fails if one has a file that is in a store. */
export const requireInline = (
  messages: ReadonlyArray<Message>
): Effect.Effect<ReadonlyArray<Message>, ContentMissing> => {
  for (const { content } of messages) {
    for (const part of content)
      if (isStored(part)) return Effect.fail(missing(part, part.source.sha256, "noStore"))
  }
  return Effect.succeed(messages)
}

/** Whether an operation failed because the store does not have a content. */
const isMissing = (error: RunStoreError): boolean => error.reason._tag === "BlobMissing"

const missing = (
  { mediaType, name }: FilePart,
  sha256: Sha256,
  problem: ContentMissing["problem"]
): ContentMissing => new ContentMissing({ sha256, file: name ?? mediaType, problem })

const isFile = (part: { readonly _tag: string }): part is FilePart => part._tag === "file"

export const isStored = (part: { readonly _tag: string }): part is StoredFile =>
  isFile(part) && part.source._tag === "stored"

const hasStored = ({ content }: Message): boolean => {
  if (!Array.isArray(content)) return false
  for (const part of content) if (isStored(part)) return true
  return false
}

/** Whether base64 is certainly of fewer bytes than are stored. */
const isSmall = (base64: string): boolean => base64.length < smallestStored

/** The length of the base64 that a cache keeps: of about 24 MiB of contents. */
const cacheLength = 32 * 1024 * 1024

/**
 * The contents that were stored or read last, as base64, so that the steps of a run do not read a file again. All runs of a store share it.
 */
class Cache {
  private readonly entries = new Map<Sha256, string>()
  private length = 0
  /** Messages with the bytes of their files. */
  messages = new WeakMap<Message, Message>()

  get(sha256: Sha256): string | undefined {
    const found = this.entries.get(sha256)
    if (found === undefined) return undefined
    this.entries.delete(sha256)
    this.entries.set(sha256, found)
    return found
  }

  has(sha256: Sha256): boolean {
    return this.entries.has(sha256)
  }

  set(sha256: Sha256, base64: string): void {
    if (base64.length > cacheLength || this.entries.has(sha256)) return
    this.entries.set(sha256, base64)
    this.length += base64.length
    if (this.length <= cacheLength) return
    for (const [oldest, text] of this.entries) {
      if (this.length <= cacheLength) break
      this.entries.delete(oldest)
      this.length -= text.length
    }
    // The messages would keep the evicted contents in memory.
    this.messages = new WeakMap()
  }
}

const caches = new WeakMap<BlobPort, Cache>()

const cacheOf = (blobs: BlobPort): Cache => {
  let cache = caches.get(blobs)
  if (cache === undefined) caches.set(blobs, (cache = new Cache()))
  return cache
}
