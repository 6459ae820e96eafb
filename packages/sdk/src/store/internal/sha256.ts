/**
 * The SHA-256 of a content that arrives in pieces.
 */
import * as Effect from "effect/Effect"
import { Sha256 } from "../../domain/Blob.ts"

/** Computes the SHA-256 of the pieces that it is given, in order. */
export interface Hasher {
  readonly update: (piece: Uint8Array) => void
  readonly digest: Effect.Effect<Sha256>
}

/** Makes a hasher. On a platform without `node:crypto`, it keeps the pieces, because Web Crypto hashes only whole contents. */
export const makeHasher = (): Hasher => {
  const hash = createHash?.("sha256")
  if (hash !== undefined) {
    return {
      update: (piece) => void hash.update(piece),
      digest: Effect.sync(() => Sha256.make(hash.digest("hex")))
    }
  }
  const pieces: Array<Uint8Array> = []
  return {
    update: (piece) => void pieces.push(piece.slice()),
    digest: Effect.promise(async () => {
      const digest = await globalThis.crypto.subtle.digest("SHA-256", joined(pieces))
      return Sha256.make(
        Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("")
      )
    })
  }
}

/** The SHA-256 of a content in memory. */
export const sha256Of = (content: Uint8Array): Effect.Effect<Sha256> =>
  Effect.suspend(() => {
    const hasher = makeHasher()
    hasher.update(content)
    return hasher.digest
  })

/** The pieces of a content as one array, which shares no memory with them. */
export const joined = (pieces: ReadonlyArray<Uint8Array>): Uint8Array<ArrayBuffer> => {
  const whole = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0))
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}

interface PlatformHash {
  readonly update: (piece: Uint8Array) => unknown
  readonly digest: (encoding: "hex") => string
}

const { createHash } =
  (
    globalThis as {
      readonly process?: {
        readonly getBuiltinModule?: (
          name: string
        ) => { readonly createHash?: (algorithm: "sha256") => PlatformHash } | undefined
      }
    }
  ).process?.getBuiltinModule?.("crypto") ?? {}
