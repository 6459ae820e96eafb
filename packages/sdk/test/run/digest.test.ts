import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { argumentsDigest } from "../../src/run/calls/digest.ts"

/** The digest computed by Web Crypto. */
const byWebCrypto = async (text: string) => {
  const hash = await globalThis.crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))
  return Buffer.from(hash).toString("hex")
}

describe("the digest of arguments", () => {
  for (const text of ["", "plain", "größer", "日本", "👍", "\ud83d", "a\u0000b"]) {
    it.effect(`is the SHA-256 of the UTF-8 of canonical JSON: ${JSON.stringify(text)}`, () =>
      Effect.gen(function* () {
        const json = `["tool",{"a":1,"b":${JSON.stringify(text)}}]`
        assert.strictEqual(
          yield* argumentsDigest("tool", { b: text, a: 1 }),
          yield* Effect.promise(() => byWebCrypto(json))
        )
      })
    )
  }
})
