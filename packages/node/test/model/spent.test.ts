import { assert, describe, it } from "@effect/vitest"
import type { ReplayServer } from "@fermata/node/testing"
import { ModelClient, type ModelError, ModelRouter, type OpenAiChat } from "@fermata/sdk/model"
import * as Effect from "effect/Effect"
import { ask, event, hello, json, pieces, refusal, streamed } from "./asking.ts"
import { type Client, type Protocol, served as serving } from "./serving.ts"

const prices = { input: 1, output: 10 }

/** A client with prices and one retry. */
const served = (
  protocol: Protocol,
  responses: ReplayServer.Responses,
  options: Partial<OpenAiChat.Options> = {}
) => serving(protocol, responses, { prices, retry: { base: "1 millis", times: 1 }, ...options })

const failed = (client: Client) => Effect.flip(ModelClient.collect(client.stream(ask())))

/** Tokens in, tokens out and millionths of a dollar. */
const spentIn = ({ usage }: Pick<ModelError.ModelError, "usage">) =>
  usage && [usage.inputTokens, usage.outputTokens, Math.round((usage.costUsd ?? NaN) * 1e6)]

const bill = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 }
const begun = event({
  type: "message_start",
  message: { id: "m", usage: { input_tokens: 100, output_tokens: 1 } }
})
const overloaded = event({ type: "error", error: { type: "overloaded_error", message: "Overloaded" } })
const call = { type: "function_call", call_id: "c", name: "look", arguments: '{"a":' }
const responseOf = (status: string, fields: object = {}) => ({
  id: "r",
  status,
  output: [],
  usage: { input_tokens: 100, output_tokens: 20 },
  ...fields
})

describe("The usage of a failed answer", () => {
  const cases: ReadonlyArray<
    readonly [string, Protocol, ReplayServer.Response, ModelError.Reason["_tag"], ReadonlyArray<number>]
  > = [
    [
      "a chat whose provider gave up",
      "chat",
      streamed(
        pieces("Hel") + event({ choices: [{ index: 0, delta: {}, finish_reason: "error" }], usage: bill })
      ),
      "ProviderFault",
      [100, 20, 300]
    ],
    [
      "a chat that was cut",
      "chat",
      streamed(event({ choices: [{ index: 0, delta: { content: "Hel" } }], usage: bill })),
      "ConnectionLost",
      [100, 20, 300]
    ],
    [
      "a chat that was cut off in a call",
      "chat",
      streamed(
        event({
          choices: [
            {
              index: 0,
              delta: { tool_calls: [{ index: 0, id: "c", function: { name: "look", arguments: '{"a' } }] },
              finish_reason: "length"
            }
          ],
          usage: bill
        }) + "data: [DONE]\n\n"
      ),
      "InvalidResponse",
      [100, 20, 300]
    ],
    [
      "a chat in one piece that was cut off in a call",
      "chat",
      {
        headers: json,
        body: JSON.stringify({
          choices: [
            {
              message: { tool_calls: [{ id: "c", function: { name: "look", arguments: '{"a' } }] },
              finish_reason: "length"
            }
          ],
          usage: bill
        })
      },
      "InvalidResponse",
      [100, 20, 300]
    ],
    [
      "a response that failed",
      "responses",
      streamed(
        event({ type: "response.output_text.delta", output_index: 0, delta: "Hel" }) +
          event({
            type: "response.failed",
            response: responseOf("failed", { error: { code: "server_error", message: "Sorry." } })
          })
      ),
      "ProviderFault",
      [100, 20, 300]
    ],
    [
      "a response that is incomplete within a call",
      "responses",
      streamed(
        event({
          type: "response.incomplete",
          response: responseOf("incomplete", {
            output: [call],
            incomplete_details: { reason: "max_output_tokens" }
          })
        })
      ),
      "InvalidResponse",
      [100, 20, 300]
    ],
    [
      "a response in one piece that failed",
      "responses",
      {
        headers: json,
        body: JSON.stringify(responseOf("failed", { error: { code: "server_error", message: "Sorry." } }))
      },
      "ProviderFault",
      [200, 40, 600]
    ],
    [
      "a message that was cut, by what its beginning said",
      "messages",
      streamed(
        begun + event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "Hel" } })
      ),
      "ConnectionLost",
      [100, 1, 110]
    ],
    [
      "a message whose provider is overloaded",
      "messages",
      streamed(begun + overloaded),
      "ProviderFault",
      [200, 2, 220]
    ],
    [
      "a message in one piece that was cut off in a call",
      "messages",
      {
        headers: json,
        body: JSON.stringify({
          type: "message",
          content: [{ type: "tool_use", id: "c", name: "look", input: {} }],
          stop_reason: "max_tokens",
          usage: { input_tokens: 90, cache_read_input_tokens: 10, output_tokens: 20 }
        })
      },
      "InvalidResponse",
      [100, 20, 300]
    ]
  ]
  for (const [name, protocol, response, reason, spent] of cases) {
    it.live(`is in the error, summed over all attempts: ${name}`, () =>
      Effect.gen(function* () {
        const { client } = yield* served(protocol, () => response)
        const error = yield* failed(client)
        assert.strictEqual(error.reason._tag, reason)
        assert.deepStrictEqual(spentIn(error), spent)
      })
    )
  }

  it.live("is in the error of a stream that stalls", () =>
    Effect.gen(function* () {
      const body =
        begun + event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "Hel" } })
      const { client } = yield* served(
        "messages",
        [streamed(body, { fault: { after: body.length, kind: "stall" } })],
        { timeouts: { idle: "30 millis" } }
      )
      const error = yield* failed(client)
      assert.strictEqual(error.reason._tag, "TimedOut")
      assert.deepStrictEqual(spentIn(error), [100, 1, 110])
    })
  )

  it.live("is undefined when the provider reported none", () =>
    Effect.gen(function* () {
      for (const [protocol, response] of [
        ["chat", streamed(pieces("Hel"))],
        ["chat", refusal(400, "No.")],
        ["responses", streamed(event({ type: "error", code: "server_error", message: "No." }))],
        ["messages", streamed(overloaded)]
      ] as const) {
        const { client } = yield* served(protocol, () => response)
        assert.isUndefined((yield* failed(client)).usage)
      }
    })
  )

  it.live("is part of the answer of a second attempt, whose `lastInputTokens` are its own", () =>
    Effect.gen(function* () {
      for (const how of ["stream", "complete"] as const) {
        const { client } = yield* served("chat", [
          streamed(event({ error: { message: "upstream", code: 502 }, usage: bill })),
          hello
        ])
        const answer = yield* how === "stream"
          ? ModelClient.collect(client.stream(ask()))
          : client.complete(ask())
        assert.strictEqual(answer.usage.inputTokens, 103)
        assert.strictEqual(answer.usage.outputTokens, 22)
        assert.closeTo(answer.usage.costUsd!, (103 + 220) / 1e6, 1e-12)
        assert.strictEqual(answer.lastInputTokens, 3)
      }
    })
  )

  it.live("has no cost when one of its requests has none", () =>
    Effect.gen(function* () {
      const priced = { ...bill, cost: 0.5 }
      const { client } = yield* served(
        "chat",
        [streamed(event({ error: { message: "upstream", code: 502 }, usage: priced })), hello],
        { prices: undefined as never }
      )
      const { usage } = yield* ModelClient.collect(client.stream(ask()))
      assert.strictEqual(usage.inputTokens, 103)
      assert.isUndefined(usage.costUsd)
    })
  )

  it.live("is added to that of the fallback model, in its answer or its error", () =>
    Effect.gen(function* () {
      const error = streamed(event({ error: { message: "upstream", code: 502 }, usage: bill }))
      const once = { retry: { times: 0 } }
      const first = yield* served("chat", () => error, once)
      const second = yield* served("chat", () => hello, once)
      const third = yield* served("chat", () => error, once)
      const router = (other: Client) =>
        ModelRouter.make({ clients: { first: first.client, other }, fallbacks: { first: ["other"] } })
      for (const answer of [
        yield* ModelClient.collect(router(second.client).stream(ask())),
        yield* router(second.client).complete(ask())
      ]) {
        assert.strictEqual(answer.usage.inputTokens, 103)
        assert.strictEqual(answer.lastInputTokens, 3)
        assert.strictEqual(answer.profile, "served")
      }
      assert.deepStrictEqual(spentIn(yield* failed(router(third.client))), [200, 40, 600])
    })
  )
})
