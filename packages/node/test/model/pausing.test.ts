import { assert, describe, it } from "@effect/vitest"
import { ReplayServer } from "@fermata/node/testing"
import { AnthropicMessages, ModelClient } from "@fermata/sdk/model"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import { ask, event, json, refusal, streamed } from "./asking.ts"

const text = (words: string) => ({ type: "text", text: words })
const search = (id: string) => ({ type: "server_tool_use", id, name: "web_search", input: { query: id } })
const found = (id: string) => ({ type: "web_search_tool_result", tool_use_id: id, content: [] })

interface Message {
  readonly content: ReadonlyArray<object>
  readonly reason?: string
  readonly container?: string
}

const usage = { input_tokens: 10, output_tokens: 2 }

const whole = ({ container, content, reason = "end_turn" }: Message): ReplayServer.Response => ({
  headers: json,
  body: JSON.stringify({
    type: "message",
    content,
    stop_reason: reason,
    usage,
    ...(container === undefined ? {} : { container: { id: container } })
  })
})

const streaming = ({ container, content, reason = "end_turn" }: Message): ReplayServer.Response =>
  streamed(
    [
      { type: "message_start", message: { usage } },
      ...content.flatMap((block, index) => [
        { type: "content_block_start", index, content_block: block },
        { type: "content_block_stop", index }
      ]),
      {
        type: "message_delta",
        delta: {
          stop_reason: reason,
          ...(container === undefined ? {} : { container: { id: container } })
        },
        usage
      },
      { type: "message_stop" }
    ]
      .map(event)
      .join("")
  )

const served = (responses: ReplayServer.Responses) =>
  Effect.gen(function* () {
    const server = yield* ReplayServer.make(responses)
    const client = yield* AnthropicMessages.make({
      model: "claude-sonnet-4-5",
      baseUrl: `${server.url}/v1`,
      apiKey: "key",
      retry: { base: "1 millis" }
    })
    return { server, client }
  }).pipe(Effect.provide(FetchHttpClient.layer))

const bodies = (server: ReplayServer.ReplayServer): ReadonlyArray<any> =>
  server.requests.map(({ body }) => JSON.parse(body))

const paused = (content: ReadonlyArray<object>, container?: string): Message => ({
  content,
  reason: "pause_turn",
  ...(container === undefined ? {} : { container })
})

const turn: ReadonlyArray<Message> = [
  paused([text("Searching. "), search("s1")], "container_1"),
  paused([found("s1"), text("Again:\n"), search("s2")]),
  { content: [found("s2"), text("Found.")] }
]

const types = (blocks: ReadonlyArray<{ readonly type: string }>) => blocks.map(({ type }) => type)

describe("A provider that pauses its turn", () => {
  for (const how of ["stream", "complete"] as const) {
    it.live(`gets its partial answer back until the answer is complete (${how})`, () =>
      Effect.gen(function* () {
        const { client, server } = yield* served(turn.map(how === "stream" ? streaming : whole))
        const request = ask({ settings: { extra: { metadata: { user_id: "u" } } } })
        const answer = yield* how === "stream"
          ? ModelClient.collect(client.stream(request))
          : client.complete(request)

        assert.deepStrictEqual(
          answer.content.map((part) => (part._tag === "text" ? part.text : part._tag)),
          ["Searching. ", "reasoning", "reasoning", "Again:\n", "reasoning", "reasoning", "Found."]
        )
        assert.deepInclude(answer, { finishReason: "stop", lastInputTokens: 10 })
        assert.deepInclude(answer.usage, { inputTokens: 30, outputTokens: 6 })
        assert.notProperty(answer, "paused")

        const [first, second, third] = bodies(server)
        assert.lengthOf(server.requests, 3)
        assert.lengthOf(first.messages, 1)
        assert.notProperty(first, "container")
        assert.strictEqual(second.messages[1].role, "assistant")
        assert.deepStrictEqual(types(second.messages[1].content), ["text", "server_tool_use"])
        assert.deepInclude(second, { container: "container_1", metadata: { user_id: "u" } })
        assert.lengthOf(third.messages, 2)
        assert.deepStrictEqual(types(third.messages[1].content), [
          "text",
          "server_tool_use",
          "web_search_tool_result",
          "text",
          "server_tool_use"
        ])
        assert.strictEqual(third.container, "container_1")
      })
    )
  }

  it.live("gets its searches back, and the cache mark at the same place, behind sections of the turn", () =>
    Effect.gen(function* () {
      const { client, server } = yield* served(turn.map(streaming))
      const user = (sequence: number, words: string) =>
        ({ role: "user", sequence, at: 0, content: [{ _tag: "text", text: words }] }) as const
      const messages = [user(0, "Look it up."), { ...user(1, "The screen."), origin: "runtime" as const }]
      yield* ModelClient.collect(client.stream(ask({ messages, transientMessages: 1 })))
      for (const { messages } of bodies(server)) {
        const [question] = messages[0].content
        assert.deepStrictEqual(question, { ...text("Look it up."), cache_control: { type: "ephemeral" } })
        assert.deepStrictEqual(messages[0].content[1], text("The screen."))
      }
      const [, second, third] = bodies(server)
      assert.deepStrictEqual(types(second.messages[1].content), ["text", "server_tool_use"])
      assert.strictEqual(types(third.messages[1].content).at(-1), "server_tool_use")
    })
  )

  it.live("gets its text back without trailing blanks, which it would refuse", () =>
    Effect.gen(function* () {
      const { client, server } = yield* served([
        streaming(paused([text("Let me look.  \n")])),
        streaming({ content: [text("Found.")] })
      ])
      yield* ModelClient.collect(client.stream(ask()))
      assert.deepStrictEqual(bodies(server)[1].messages[1].content, [text("Let me look.")])
    })
  )

  it.live("is retried when a continuation fails, although a part of the answer was emitted", () =>
    Effect.gen(function* () {
      const { client, server } = yield* served([
        streaming(turn[0]!),
        refusal(529, "overloaded"),
        streaming({ content: [found("s1"), text("Found.")] })
      ])
      const answer = yield* ModelClient.collect(client.stream(ask()))
      assert.strictEqual(answer.usage.inputTokens, 20)
      assert.lengthOf(server.requests, 3)
    })
  )

  it.live("leaves the usage of its pauses in the error when a continuation fails", () =>
    Effect.gen(function* () {
      for (const how of ["stream", "complete"] as const) {
        const { client } = yield* served([
          (how === "stream" ? streaming : whole)(turn[0]!),
          refusal(400, "no such tool")
        ])
        const asked = how === "stream" ? ModelClient.collect(client.stream(ask())) : client.complete(ask())
        const error = yield* Effect.flip(asked)
        assert.strictEqual(error.reason._tag, "InvalidRequest")
        assert.deepInclude(error.usage, { inputTokens: 10, outputTokens: 2 })
      }
    })
  )

  it.live("fails the call with InvalidResponse after ten pauses, with their usage", () =>
    Effect.gen(function* () {
      for (const how of ["stream", "complete"] as const) {
        const { client, server } = yield* served((_, index) =>
          (how === "stream" ? streaming : whole)(paused([search(`s${index}`)]))
        )
        const asked = how === "stream" ? ModelClient.collect(client.stream(ask())) : client.complete(ask())
        const error = yield* Effect.flip(asked)
        assert.strictEqual(error.reason._tag, "InvalidResponse")
        assert.isFalse(error.isRetryable)
        assert.lengthOf(server.requests, 11)
        assert.deepInclude(error.usage, { inputTokens: 110 })
      }
    })
  )

  it.live("ends the answer when it pauses beside a tool call", () =>
    Effect.gen(function* () {
      const calls = { type: "tool_use", id: "c", name: "look", input: {} }
      const { client, server } = yield* served([streaming(paused([search("s1"), calls]))])
      const answer = yield* ModelClient.collect(client.stream(ask()))
      assert.strictEqual(answer.finishReason, "toolCalls")
      assert.lengthOf(server.requests, 1)
    })
  )
})
