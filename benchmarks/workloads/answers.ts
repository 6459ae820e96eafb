/**
 * Answers in the form of each protocol, and their readers. Apart from the workload's own module, which every process loads.
 */
import { Id } from "@fermata/sdk"
import { AnthropicMessages, type ModelRequest, OpenAiChat, OpenAiResponses } from "@fermata/sdk/model"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Stream from "effect/Stream"

export const deltas = 20_000
const event = (data: { readonly type?: string }): string =>
  `${data.type === undefined ? "" : `event: ${data.type}\n`}data: ${JSON.stringify(data)}\n\n`
const answerOf = (
  before: object,
  delta: (text: string) => object,
  after: ReadonlyArray<object>
): Uint8Array =>
  new TextEncoder().encode(
    [before, ...Array.from({ length: deltas }, (_, index) => delta(`word${index} `)), ...after]
      .map(event)
      .join("")
  )

/** An answer of 20,000 deltas in each protocol. */
export const answers = {
  chat: answerOf(
    { choices: [{ index: 0, delta: { role: "assistant", content: "" } }] },
    (content) => ({
      id: "chatcmpl-1",
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta: { content }, finish_reason: null }]
    }),
    [{ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }]
  ),
  responses: answerOf(
    {
      type: "response.output_item.added",
      output_index: 0,
      item: { id: "msg_1", type: "message", role: "assistant", content: [] }
    },
    (delta) => ({
      type: "response.output_text.delta",
      item_id: "msg_1",
      output_index: 0,
      content_index: 0,
      delta
    }),
    [{ type: "response.completed", response: { status: "completed", output: [] } }]
  ),
  messages: answerOf(
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    (text) => ({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } }),
    [
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "end_turn" } },
      { type: "message_stop" }
    ]
  )
}

/** The answer in network chunks of 4 kB. */
const body = (answer: Uint8Array) =>
  new ReadableStream<Uint8Array>({
    start: (controller) => {
      for (let from = 0; from < answer.length; from += 4096)
        controller.enqueue(answer.subarray(from, from + 4096))
      controller.close()
    }
  })

/** The data of each event, unparsed. */
export const splitEvents = async (answer: Uint8Array): Promise<void> => {
  const decoder = new TextDecoder()
  let rest = ""
  let events = 0
  for await (const chunk of body(answer)) {
    const pieces = (rest + decoder.decode(chunk, { stream: true })).split("\n\n")
    rest = pieces.pop() ?? ""
    for (const piece of pieces) if (piece.slice(6) !== "") events += 1
  }
  if (events <= deltas) throw new Error(`There are ${events} events.`)
}

const protocols = { chat: OpenAiChat, responses: OpenAiResponses, messages: AnthropicMessages }

export const decodeAnswer = (protocol: keyof typeof answers): Promise<void> =>
  Effect.runPromise(
    Effect.gen(function* () {
      const client = yield* protocols[protocol].make({ model: "m", apiKey: "none" })
      let parts = 0
      yield* Stream.runForEachArray(client.stream(asked), (some) => {
        parts += some.length
        return Effect.void
      })
      if (parts < deltas) throw new Error(`There are ${parts} parts.`)
    }).pipe(
      Effect.provideService(
        HttpClient.HttpClient,
        HttpClient.make((request) =>
          Effect.sync(() =>
            HttpClientResponse.fromWeb(
              request,
              new Response(body(answers[protocol]), { headers: { "content-type": "text/event-stream" } })
            )
          )
        )
      )
    )
  )
const asked: ModelRequest.ModelRequest = {
  runId: Id.RunId.make("run"),
  sessionId: Id.SessionId.make("session"),
  agentPath: ["a"],
  turn: 1,
  instructions: "",
  messages: [],
  tools: []
}
