/**
 * Short hashes of texts, which show that a text has changed. Not for security.
 */
import * as Hash from "effect/Hash"

/** A short hash of a text. */
export const fingerprint = (text: string): string => (Hash.string(text) >>> 0).toString(36)
