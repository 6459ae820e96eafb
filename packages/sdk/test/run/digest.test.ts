import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { approvalDigest, argumentsDigest } from "../../src/run/calls/digest.ts"

/** The digest computed by Web Crypto. */
const byWebCrypto = async (text: string) => {
  const hash = await globalThis.crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))
  return Buffer.from(hash).toString("hex")
}

describe("the digest of an approval request", () => {
  it.effect("covers the facts, and is the one of earlier versions without them", () =>
    Effect.gen(function* () {
      const identity = {
        agentPath: ["lead", "buyer"],
        tool: "buy",
        schema: "s",
        safety: "sideEffecting"
      } as const
      const args = { item: "cello" }
      const plain = yield* approvalDigest(identity, args)
      const json = '["buyer","buy","s","sideEffecting",{"item":"cello"}]'
      assert.strictEqual(plain, yield* Effect.promise(() => byWebCrypto(json)))
      const digests = [plain]
      for (const facts of [null, 1, { price: 100 }, { price: 120 }])
        digests.push(yield* approvalDigest({ ...identity, facts }, args))
      assert.strictEqual(new Set(digests).size, digests.length)
    })
  )
})

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
