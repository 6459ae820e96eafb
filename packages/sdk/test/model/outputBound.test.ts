import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import { messages } from "../../src/model/internal/anthropic/messages.ts"
import { chat } from "../../src/model/internal/openai/chat.ts"
import { responses } from "../../src/model/internal/openai/responses.ts"
import { outputBound, roomFor } from "../../src/model/internal/outputBound.ts"
import type { Protocol } from "../../src/model/internal/protocol.ts"
import type { ModelProfile } from "../../src/model/ModelProfile.ts"
import * as ModelRouter from "../../src/model/ModelRouter.ts"
import * as OpenAiChat from "../../src/model/OpenAiChat.ts"
import { estimate, remember } from "../../src/model/Tokenizer.ts"
import { requestOf, user } from "./Histories.ts"

const protocols = [
  { protocol: chat, field: "max_completion_tokens", name: "chat" },
  { protocol: responses, field: "max_output_tokens", name: "responses" },
  { protocol: messages, field: "max_tokens", name: "messages" }
] as const

const profileOf = (changes: Partial<ModelProfile>): ModelProfile => ({
  name: "m",
  protocol: "chat",
  baseUrl: "https://models.example/v1",
  model: "m",
  ...changes
})

/** The bound in the body of a request for this many output tokens. */
const bound = (
  { field, protocol }: { readonly field: string; readonly protocol: Protocol },
  asked: number,
  profile: Partial<ModelProfile>,
  room?: number
) =>
  protocol.encode(requestOf([], { settings: { maxOutputTokens: asked } }), profileOf(profile), true, room)[
    field
  ]

describe("the bound on output", () => {
  for (const entry of protocols) {
    it(`of ${entry.name} is the least of the requested tokens, the model's maximum and the room`, () => {
      assert.strictEqual(bound(entry, 5000, {}), 5000)
      assert.strictEqual(bound(entry, 5000, { maxOutputTokens: 4000 }), 4000)
      assert.strictEqual(bound(entry, 5000, { maxOutputTokens: 4000 }, 3000), 3000)
      assert.strictEqual(bound(entry, 2000, { maxOutputTokens: 4000 }, 3000), 2000)
    })
  }

  it("is absent unless requested", () => {
    assert.isUndefined(outputBound(undefined, { maxOutputTokens: 4000 }, 3000))
    assert.notProperty(chat.encode(requestOf([]), profileOf({ maxOutputTokens: 10 }), true, 10), "max_tokens")
  })

  it("of messages, which is required, fits the room by default", () => {
    assert.strictEqual(messages.encode(requestOf([]), profileOf({}), true, 3000)["max_tokens"], 3000)
    assert.strictEqual(messages.encode(requestOf([]), profileOf({}), true, 30_000)["max_tokens"], 8192)
  })
})

describe("the room for output", () => {
  const long = requestOf([user("x".repeat(30_000))])

  it("is the context size less the request, and unknown for an unknown size", () => {
    assert.isUndefined(roomFor(long, profileOf({}), estimate))
    assert.strictEqual(roomFor(long, profileOf({ contextTokens: 16_000 }), estimate), 16_000 - 10_004)
  })

  it("starts from the provider's count of the same history", () => {
    const told = requestOf([user("x".repeat(30_000))])
    remember(told, { inputTokens: 4000, outputTokens: 1 })
    assert.strictEqual(roomFor(told, profileOf({ contextTokens: 16_000 }), estimate), 12_000)
  })

  it("is at least 1,024 tokens", () => {
    assert.strictEqual(roomFor(long, profileOf({ contextTokens: 8000 }), estimate), 1024)
  })
})

describe("the size of a model's context", () => {
  const never = HttpClient.make(() => Effect.never)
  const client = (contextTokens?: number) =>
    OpenAiChat.make({ model: "m", ...(contextTokens === undefined ? {} : { contextTokens }) }).pipe(
      Effect.provideService(HttpClient.HttpClient, never)
    )

  it.effect("is reported by its client, and by a router per profile", () =>
    Effect.gen(function* () {
      const small = yield* client(8000)
      const unknown = yield* client()
      assert.strictEqual(small.contextTokens?.(), 8000)
      assert.isUndefined(unknown.contextTokens?.())
      const bare = { stream: small.stream, complete: small.complete }
      const router = ModelRouter.make({ clients: { small, large: yield* client(200_000), unknown, bare } })
      assert.strictEqual(router.contextTokens?.("large"), 200_000)
      assert.strictEqual(router.contextTokens?.(), 8000)
      assert.isTrue(router.use("large"))
      assert.strictEqual(router.contextTokens?.(), 200_000)
      for (const name of ["unknown", "bare", "nobody"]) assert.isUndefined(router.contextTokens?.(name))
    })
  )
})
