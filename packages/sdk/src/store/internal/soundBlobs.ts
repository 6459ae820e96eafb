/**
 * Validates the arguments of the operations on contents, for programs without type checks; see `soundInput.ts`.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Sha256 } from "../../domain/Blob.ts"
import { finite, type Kind, misfits, type Shape, strings } from "../../domain/internal/misfits.ts"
import type { BlobPort } from "../BlobPort.ts"
import { InputInvalid, RunStoreError } from "../RunStoreError.ts"

const isSha256 = Schema.is(Sha256)
const isShort = (value: unknown): boolean => (value as ReadonlyArray<unknown>).length <= 1000

const sha256: Kind = { takes: "a SHA-256 as 64 lower-case hexadecimal digits", is: isSha256 }
const amount: Kind = { takes: "a number", is: (value) => typeof value === "number" && !Number.isNaN(value) }
const range: Shape = { keys: { from: amount, length: amount } }
const contents: Kind = {
  takes: "a list of at most 1,000 SHA-256",
  is: (value) => Array.isArray(value) && isShort(value) && value.every(isSha256)
}
const runIds: Kind = {
  takes: "a list of at most 1,000 strings",
  is: (value) => strings.is(value) && isShort(value)
}
const bytes: Kind = { takes: "a Uint8Array", is: (value) => value instanceof Uint8Array }
const before: Shape = { keys: { storedBefore: { ...finite, required: true } }, demanded: true }

/** Wraps the operations on contents so that they refuse values that do not match their types, with a typed error. */
export const withSoundBlobs = (blobs: BlobPort): BlobPort => ({
  put: (content) =>
    blobs.put(
      Stream.mapEffect(content, (piece) =>
        Effect.as(sound("put", [[piece, bytes, "a piece of the content"]]), piece)
      )
    ),
  putAll: (given) =>
    Effect.andThen(
      sound("putAll", [
        [given, { each: { ...bytes, required: true }, required: true }, "the list of contents"]
      ]),
      Effect.suspend(() => blobs.putAll(given))
    ),
  read: (digest, options = {}) =>
    Stream.unwrap(
      Effect.as(
        sound("read", [
          [digest, sha256, "the SHA-256"],
          [options, range, "the options of read"]
        ]),
        blobs.read(digest, options)
      )
    ),
  find: (given) =>
    Effect.andThen(
      sound("find", [[given, contents, "the list of contents"]]),
      Effect.suspend(() => blobs.find(given))
    ),
  uses: (given) =>
    Effect.andThen(
      sound("uses", [[given, runIds, "the list of runs"]]),
      Effect.suspend(() => blobs.uses(given))
    ),
  sweep: (options) =>
    Effect.andThen(
      sound("sweep", [[options, before, "the options of sweep"]]),
      Effect.suspend(() => blobs.sweep(options))
    ),
  damaged: blobs.damaged
})

const sound = (
  operation: string,
  given: ReadonlyArray<readonly [value: unknown, shape: Shape, what: string]>
): Effect.Effect<void, RunStoreError> =>
  Effect.suspend(() => {
    const found = given.flatMap(([value, shape, what]) => misfits(value, shape, what))
    return found.length === 0
      ? Effect.void
      : Effect.fail(
          new RunStoreError({ operation: `blobs.${operation}`, reason: new InputInvalid({ misfits: found }) })
        )
  })
