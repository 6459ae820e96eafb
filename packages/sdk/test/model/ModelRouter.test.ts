import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { RunId, SessionId } from "../../src/domain/Id.ts"
import { priced } from "../../src/model/internal/cost.ts"
import { collect } from "../../src/model/ModelClient.ts"
import {
  ContextOverflow,
  InvalidRequest,
  ModelError,
  ProviderFault,
  QuotaExhausted,
  type Reason
} from "../../src/model/ModelError.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import * as ModelRouter from "../../src/model/ModelRouter.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

const request: ModelRequest = {
  runId: "r" as RunId,
  sessionId: "s" as SessionId,
  agentPath: ["a"],
  turn: 1,
  instructions: "",
  messages: [],
  tools: []
}

const answering = (text: string) => ScriptedModel.make(() => text).client
const failing = (reason: Reason, failAfter?: number) =>
  ScriptedModel.make(() => ({
    text: "partial",
    error: reason,
    ...(failAfter === undefined ? {} : { failAfter })
  })).client

const both = (client: ModelRouter.ModelRouter, given: Partial<ModelRequest> = {}) => {
  const asked = { ...request, ...given }
  return [collect(client.stream(asked)), client.complete(asked)] as const
}

const away = new ProviderFault({ description: "overloaded" })

describe("a router", () => {
  it.effect("routes a request to the profile that it names, and reports the profile that answered", () =>
    Effect.gen(function* () {
      const router = ModelRouter.make({ clients: { fast: answering("fast"), deep: answering("deep") } })
      for (const answer of both(router, { profile: "deep" })) {
        const { content, profile } = yield* answer
        assert.deepStrictEqual([content, profile], [[{ _tag: "text", text: "deep" }], "deep"])
      }
      for (const answer of both(router)) assert.strictEqual((yield* answer).profile, "fast")
    })
  )

  it.effect("uses another profile from the next request on", () =>
    Effect.gen(function* () {
      const router = ModelRouter.make({
        clients: { fast: answering("fast"), deep: answering("deep") },
        default: "deep"
      })
      assert.strictEqual(router.current(), "deep")
      assert.isTrue(router.use("fast"))
      assert.isFalse(router.use("other"))
      for (const answer of both(router)) assert.strictEqual((yield* answer).profile, "fast")
    })
  )

  it.effect("refuses an unknown profile, and lists the known ones", () =>
    Effect.gen(function* () {
      const router = ModelRouter.make({
        clients: { fast: answering("fast") },
        fallbacks: { other: ["fast"] }
      })
      for (const answer of both(router, { profile: "other" })) {
        const { reason } = yield* Effect.flip(answer)
        assert.strictEqual(reason._tag, "InvalidRequest")
        assert.include(reason.description, "The profiles are: fast.")
      }
    })
  )

  it.effect("knows no profile by an inherited property name", () =>
    Effect.gen(function* () {
      const router = ModelRouter.make({ clients: { fast: answering("fast") }, fallbacks: {} })
      for (const profile of ["constructor", "toString", "__proto__"]) {
        for (const answer of both(router, { profile })) {
          assert.strictEqual((yield* Effect.flip(answer)).reason._tag, "InvalidRequest")
        }
      }
    })
  )

  it.effect("falls back along the chain when a provider is down or out of quota, and notifies", () =>
    Effect.gen(function* () {
      const told: Array<string> = []
      const router = ModelRouter.make({
        clients: {
          one: failing(away),
          two: failing(new QuotaExhausted({ description: "no money" })),
          three: answering("three")
        },
        fallbacks: { one: ["two", "three"] },
        onFallback: ({ error, from, to }) => told.push(`${from} → ${to}: ${error.reason._tag}`)
      })
      for (const answer of both(router)) assert.strictEqual((yield* answer).profile, "three")
      const once = ["one → two: ProviderFault", "two → three: QuotaExhausted"]
      assert.deepStrictEqual(told, [...once, ...once])
    })
  )

  it.effect("does not fall back when the request is refused or the chain is used up", () =>
    Effect.gen(function* () {
      for (const reason of [
        new InvalidRequest({ description: "no" }),
        new ContextOverflow({ description: "too long" })
      ]) {
        const router = ModelRouter.make({
          clients: { one: failing(reason), two: answering("two") },
          fallbacks: { one: ["two"] }
        })
        for (const answer of both(router)) assert.strictEqual((yield* Effect.flip(answer)).reason, reason)
      }
      const last = ModelRouter.make({ clients: { one: failing(away) } })
      for (const answer of both(last)) assert.strictEqual((yield* Effect.flip(answer)).reason, away)
    })
  )

  it.effect("does not fall back after the first part of an answer", () =>
    Effect.gen(function* () {
      const router = ModelRouter.make({
        clients: { one: failing(away, 1), two: answering("two") },
        fallbacks: { one: ["two"] }
      })
      const parts: Array<string> = []
      const error = yield* Effect.flip(
        Stream.runForEach(router.stream(request), (part) => Effect.sync(() => void parts.push(part._tag)))
      )
      assert.instanceOf(error, ModelError)
      assert.deepStrictEqual(parts, ["text-delta"])
    })
  )
})

describe("the price of a call", () => {
  it("is reported by the provider, computed from prices, or unknown", () => {
    const usage = {
      inputTokens: 1_000_000,
      cachedInputTokens: 400_000,
      cacheWriteTokens: 100_000,
      outputTokens: 50_000
    }
    const prices = { input: 2, cachedInput: 0.5, cacheWrite: 2.5, output: 10 }
    assert.closeTo(priced({ prices }, usage).costUsd ?? 0, 1 + 0.2 + 0.25 + 0.5, 1e-9)
    assert.closeTo(priced({ prices: { input: 2, output: 10 } }, usage).costUsd ?? 0, 2 + 0.5, 1e-9)
    assert.strictEqual(priced({ prices }, { ...usage, costUsd: 0.01 }).costUsd, 0.01)
    assert.isUndefined(priced({}, usage).costUsd)
    // A call without reported usage is not free.
    assert.isUndefined(priced({ prices }, { inputTokens: 0, outputTokens: 0 }).costUsd)
  })
})
