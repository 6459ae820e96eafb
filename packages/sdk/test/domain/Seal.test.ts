import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as fc from "fast-check"
import { type SealKey, open, seal } from "../../src/domain/Seal.ts"
import * as Journal from "./Journal.ts"
import { difference } from "./Ledger.ts"
import { simulate } from "./Simulation.ts"
import { tape } from "./Tape.ts"

const key = (id: string, secret = `${id}: 32 bytes of a secret, or more of it`): SealKey => ({
  id,
  secret: Redacted.make(secret)
})
const state = Journal.fold(
  Journal.started(),
  Journal.calls("write_file"),
  ...Journal.askedAbout(Journal.callId(1, 1), Journal.requestId(1), { preview: "ünï 🎼" })
)
const tagOf = <A, E extends { readonly _tag: string }>(effect: Effect.Effect<A, E>) =>
  effect.pipe(Effect.match({ onFailure: (error): string => error._tag, onSuccess: () => "opened" }))

describe("seal", () => {
  it.effect("opens a sealed state unchanged", () =>
    Effect.gen(function* () {
      const sealed = yield* seal(state, key("k1"))
      assert.match(sealed, /^fermata1\.k1\.[\w-]+\.[\w-]{43}$/)
      assert.deepStrictEqual(yield* open(sealed, [key("k1")]), state)
    })
  )

  it("opens every reachable state unchanged", () =>
    fc.assert(
      fc.asyncProperty(tape(200), async (numbers) => {
        const { end } = simulate(numbers)
        const opened = await Effect.runPromise(
          Effect.flatMap(seal(end, key("k1")), (sealed) => open(sealed, [key("k1")]))
        )
        assert.isUndefined(difference(opened, end))
      }),
      { numRuns: 50 }
    ))

  it("refuses a sealed state with a changed bit or character", async () => {
    const sealed = await Effect.runPromise(seal(state, key("k1")))
    const keys = [key("k1"), key("k2")]
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          // The seal is short compared with the state, so it is sampled as often.
          fc.nat(sealed.length - 1),
          fc.integer({ min: sealed.length - 44, max: sealed.length - 1 }),
          fc.nat(12)
        ),
        fc.oneof(
          fc.nat(6).map((bit) => (before: string) => String.fromCharCode(before.charCodeAt(0) ^ (1 << bit))),
          fc.constantFrom(..."ABYZabyz0189-_.= \n").map((after) => () => after),
          fc.constant(() => "")
        ),
        async (at, change) => {
          const changed = sealed.slice(0, at) + change(sealed[at]!) + sealed.slice(at + 1)
          fc.pre(changed !== sealed)
          assert.strictEqual(await Effect.runPromise(tagOf(open(changed, keys))), "SealBroken")
        }
      ),
      { numRuns: 500 }
    )
  })

  it("refuses every other last character of the seal, including those that decode to the same bytes", async () => {
    const sealed = await Effect.runPromise(seal(state, key("k1")))
    for (const last of "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") {
      if (sealed.endsWith(last)) continue
      const changed = sealed.slice(0, -1) + last
      assert.strictEqual(await Effect.runPromise(tagOf(open(changed, [key("k1")]))), "SealBroken")
    }
  })

  it.effect("refuses a truncated or extended seal", () =>
    Effect.gen(function* () {
      const sealed = yield* seal(state, key("k1"))
      for (let length = 0; length < sealed.length; length += 7) {
        assert.strictEqual(yield* tagOf(open(sealed.slice(0, length), [key("k1")])), "SealBroken")
      }
      assert.strictEqual(yield* tagOf(open(`${sealed}.`, [key("k1")])), "SealBroken")
      assert.strictEqual(yield* tagOf(open(sealed + sealed, [key("k1")])), "SealBroken")
    })
  )

  it.effect("refuses another key, and the same secret under another id", () =>
    Effect.gen(function* () {
      const sealed = yield* seal(state, key("k1"))
      const secret = Redacted.value(key("k1").secret)
      assert.strictEqual(yield* tagOf(open(sealed, [])), "SealBroken")
      assert.strictEqual(yield* tagOf(open(sealed, [key("k2")])), "SealBroken")
      assert.strictEqual(
        yield* tagOf(open(sealed, [key("k1", "another secret of the same key, 32 bytes")])),
        "SealBroken"
      )
      assert.strictEqual(
        yield* tagOf(open(sealed.replace(".k1.", ".k2."), [key("k2", secret)])),
        "SealBroken"
      )
    })
  )

  it.effect("opens a state sealed with an old key while that key is given", () =>
    Effect.gen(function* () {
      const old = yield* seal(state, key("2025"))
      const fresh = yield* seal(state, key("2026"))
      const both = [key("2026"), key("2025")]
      assert.deepStrictEqual(yield* open(old, both), state)
      assert.deepStrictEqual(yield* open(fresh, both), state)
      assert.strictEqual(yield* tagOf(open(old, [key("2026")])), "SealBroken")
    })
  )

  it.effect("refuses a secret of less than 32 bytes and an invalid key id", () =>
    Effect.gen(function* () {
      const short = key("k1", "x".repeat(31))
      const error = yield* Effect.flip(seal(state, short))
      assert.deepStrictEqual([error._tag, error.keyId, error.reason], ["SealKeyInvalid", "k1", "tooShort"])
      assert.notInclude(error.message, "xxx")
      assert.strictEqual(yield* tagOf(seal(state, key("k1", "ü".repeat(16)))), "opened")
      for (const id of ["", "a.b", "a b", "ä", undefined as never])
        assert.strictEqual(yield* tagOf(seal(state, key(id))), "SealKeyInvalid")
      const sealed = yield* seal(state, key("k2"))
      assert.strictEqual(yield* tagOf(open(sealed, [key("k2"), short])), "SealKeyInvalid")
    })
  )

  it.effect("reports RunStateTooNew for a valid seal over a newer state", () =>
    Effect.gen(function* () {
      const newer = { ...state, version: 2 as 1 }
      const sealed = yield* seal(newer, key("k1"))
      assert.strictEqual(yield* tagOf(open(sealed, [key("k1")])), "RunStateTooNew")
    })
  )
})
