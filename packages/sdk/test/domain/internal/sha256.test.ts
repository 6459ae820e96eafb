import { createHash } from "node:crypto"
import { assert, describe, it } from "@effect/vitest"
import { type Hasher, makeHasher, makePortableHasher, sha256Of } from "../../../src/domain/internal/sha256.ts"

const inPieces = (hasher: Hasher, bytes: Uint8Array, length: number): string => {
  for (let at = 0; at < bytes.length; at += length) hasher.update(bytes.subarray(at, at + length))
  return hasher.digest()
}

describe("sha256", () => {
  it("gives the SHA-256 of contents of all lengths around a block, in any pieces, also without the platform's hash", () => {
    for (let length = 0; length < 200; length += 1) {
      const bytes = Uint8Array.from({ length: length + 1 }, (_, at) => (at * 31 + length) % 256).subarray(1)
      const expected = createHash("sha256").update(bytes).digest("hex")
      assert.strictEqual<string>(sha256Of(bytes), expected)
      for (const piece of [1, 7, 64, 1000]) {
        assert.strictEqual(inPieces(makeHasher(), bytes, piece), expected)
        assert.strictEqual(inPieces(makePortableHasher(), bytes, piece), expected)
      }
    }
  })

  it("gives the SHA-256 of a text as UTF-8", () => {
    for (const text of ["", "größer", "👍", "\ud83d"])
      assert.strictEqual(sha256Of(text), sha256Of(new TextEncoder().encode(text)))
  })
})
