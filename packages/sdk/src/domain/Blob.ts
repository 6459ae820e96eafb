/**
 * References to bytes that a store keeps beside its journals.
 *
 * A reference is part of an event; the bytes are not. The store keeps each content once, by its SHA-256, for as long as a run refers to it.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/** The SHA-256 of a content, as 64 lower-case hexadecimal digits. */
export const Sha256 = Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/)).pipe(Schema.brand("Sha256"))
export type Sha256 = typeof Sha256.Type

/** The reference of a stored content. */
export const BlobRef = Schema.Struct({
  sha256: Sha256,
  /** Length of the content in bytes. */
  bytes: Schema.Natural
})
export type BlobRef = typeof BlobRef.Type

/** A file of fewer bytes stays in the journal, because its reference and its row would need as much space: 1 KiB. */
export const smallestStored = 1024
