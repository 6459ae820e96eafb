/** How many requests a turn sends when the provider fails, and what the error states. */
import { assert, describe, it } from "@effect/vitest"
import { agent, createFermata, openAi } from "@fermata/node"
import { ReplayServer } from "@fermata/node/testing"
import type { OpenAiChat } from "@fermata/sdk/model"
import * as Effect from "effect/Effect"
import { end, event, eventStream, helloWhole, json, pieces } from "./asking.ts"
import { type Protocol, protocols, served } from "./serving.ts"

/** The result of a run against these responses, the requests that it sent, and its updates about the model. */
const asked = (
  protocol: Protocol,
  responses: ReplayServer.Responses,
  retry: OpenAiChat.Options["retry"] = { base: "1 millis" }
) =>
  Effect.gen(function* () {
    const { client, server } = yield* served(protocol, responses, { retry })
    const updates: Array<string> = []
    const result = yield* Effect.promise(async () => {
      await using fermata = await createFermata({ agents: [agent("a")], model: client, store: false })
      return fermata.runPrompt("a", "Hello?", {
        onUpdate: ({ _tag }) => {
          if (_tag === "retry" || _tag === "fallback") updates.push(_tag)
        }
      })
    })
    return { result, updates, streamed: server.requests.map(({ body }) => JSON.parse(body).stream === true) }
  })

const cut: ReplayServer.Response = {
  headers: eventStream,
  body: pieces("Hello.") + end,
  fault: { after: 0, kind: "end" }
}

const messageOf = (result: unknown): string =>
  (result as { readonly error?: { readonly message: string } }).error?.message ?? ""

describe("a turn whose streams fail", () => {
  for (const times of [0, 1, 4]) {
    it.live(`sends ${times + 1} requests when the profile states ${times} retries`, () =>
      Effect.gen(function* () {
        const { result, streamed, updates } = yield* asked("chat", () => cut, { times, base: "1 millis" })
        assert.strictEqual(result.status, "error")
        assert.strictEqual(streamed.length, times + 1)
        // Only a retry is a whole answer: the first request streams.
        assert.strictEqual(streamed.filter((isStream) => !isStream).length, times === 0 ? 0 : 1)
        assert.deepStrictEqual(updates, [
          ...Array.from({ length: times }, () => "retry"),
          ...(times === 0 ? [] : ["fallback"])
        ])
      })
    )
  }

  it.live("gets a whole answer by the last of its requests", () =>
    Effect.gen(function* () {
      const { result, streamed } = yield* asked("chat", (_, index) => (index < 4 ? cut : helloWhole))
      assert.strictEqual(result.status === "completed" ? result.text : messageOf(result), "Hello.")
      assert.deepStrictEqual(streamed, [true, true, true, true, false])
    })
  )

  it.live("asks for a whole answer, with all retries, when the model cannot stream", () =>
    Effect.gen(function* () {
      const refused = {
        status: 400,
        headers: json,
        body: JSON.stringify({ error: { message: "This model cannot be streamed.", param: "stream" } })
      }
      const { streamed } = yield* asked(
        "chat",
        (request) => (JSON.parse(request.body).stream === true ? refused : { ...refused, status: 503 }),
        { times: 1, base: "1 millis" }
      )
      assert.deepStrictEqual(streamed, [true, false, false])
    })
  )
})

describe("a circuit breaker of a profile", () => {
  it.live("stops the requests of every run of the process, also in another Fermata", () =>
    Effect.gen(function* () {
      const server = yield* ReplayServer.make(() => ({ status: 503, headers: json, body: "{}" }))
      const runs = yield* Effect.forEach([1, 2, 3], () =>
        Effect.promise(async () => {
          const model = openAi({
            model: "m",
            baseUrl: server.url,
            apiKey: "key-of-the-test",
            retry: { times: 0 },
            circuitBreaker: { failures: 2 }
          })
          await using fermata = await createFermata({ agents: [agent("a")], model, store: false })
          return messageOf(await fermata.runPrompt("a", "Hello?"))
        })
      )
      assert.strictEqual(server.requests.length, 2)
      assert.include(runs[2], "is not asked at the moment")
    })
  )
})

describe("an error in words within a successful response", () => {
  const text = "The model 'x' does not exist"
  const bodies = [
    { error: text },
    { detail: text },
    { detail: [{ msg: text }] },
    { error: { message: text } }
  ]
  for (const protocol of protocols) {
    it.live(`is shown and not repeated, streamed or not (${protocol})`, () =>
      Effect.gen(function* () {
        const responses = bodies.flatMap((body): ReadonlyArray<ReplayServer.Response> => [
          { headers: json, body: JSON.stringify(body) },
          { headers: eventStream, body: event(body) },
          { headers: eventStream, body: `event: error\n${event(body)}` }
        ])
        responses.push({ headers: json, body: JSON.stringify({ success: false, message: text }) })
        for (const response of responses) {
          const { result, streamed } = yield* asked(protocol, () => response)
          assert.include(messageOf(result), text, String(response.body))
          assert.strictEqual(streamed.length, 1, String(response.body))
        }
      })
    )

    it.live(`is repeated when its words are about a fault that may pass (${protocol})`, () =>
      Effect.gen(function* () {
        const body = JSON.stringify({ error: "The server is overloaded, please try again" })
        const { streamed } = yield* asked(protocol, () => ({ headers: json, body }))
        assert.strictEqual(streamed.length, 5)
      })
    )
  }
})
