/**
 * A server for tests, clients of all three protocols that call it, and answers that all of them can read.
 */
import { ReplayServer } from "@fermata/node/testing"
import {
  AnthropicMessages,
  ModelClient,
  type ModelError,
  type ModelPart,
  OpenAiChat,
  OpenAiResponses
} from "@fermata/sdk/model"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import type * as HttpClient from "effect/http/HttpClient"
import type * as Scope from "effect/Scope"
import { ask, end, event, pieces } from "./asking.ts"

export type Client = ModelClient.ModelClient["Service"]
export type Protocol = "chat" | "responses" | "messages"

const services = { chat: OpenAiChat, responses: OpenAiResponses, messages: AnthropicMessages }
export const protocols = ["chat", "responses", "messages"] as const
/** The key of a client, with letters that are spelled differently elsewhere. */
export const secret = "sk-secret+of/the=test"

/** A server with these responses, and a client of the protocol that calls it without retries. */
export const served = (
  protocol: Protocol,
  responses: ReplayServer.Responses,
  options: Partial<OpenAiChat.Options> = {}
): Effect.Effect<
  { readonly server: ReplayServer.ReplayServer; readonly client: Client },
  never,
  Scope.Scope
> =>
  Effect.gen(function* () {
    const server = yield* ReplayServer.make(responses)
    const make: (options: OpenAiChat.Options) => Effect.Effect<Client, never, HttpClient.HttpClient> =
      services[protocol].make
    const client = yield* make({
      model: "m",
      name: "served",
      baseUrl: `${server.url}/v1`,
      apiKey: secret,
      retry: { times: 0 },
      ...options
    })
    return { server, client }
  }).pipe(Effect.provide(FetchHttpClient.layer))

/** The two ways to call a client: streamed and whole. */
export const both = (
  client: Client
): ReadonlyArray<Effect.Effect<ModelPart.ModelResponse, ModelError.ModelError>> => [
  ModelClient.collect(client.stream(ask())),
  client.complete(ask())
]

export const textIn = ({ content }: ModelPart.ModelResponse) =>
  content.map((part) => (part._tag === "text" ? part.text : part._tag)).join("|")

/** The events of an answer in these pieces, in a protocol. */
export const say = (protocol: Protocol, ...texts: ReadonlyArray<string>): string => {
  switch (protocol) {
    case "chat":
      return pieces(...texts)
    case "responses":
      return texts
        .map((delta) => event({ type: "response.output_text.delta", output_index: 0, delta }))
        .join("")
    case "messages":
      return [
        { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
        ...texts.map((text) => ({
          type: "content_block_delta",
          index: 0,
          delta: { type: "text_delta", text }
        }))
      ]
        .map(event)
        .join("")
  }
}

/** The proper end of an answer, in each protocol. */
export const ends: Readonly<Record<Protocol, string>> = {
  chat: end,
  responses: event({ type: "response.completed", response: { status: "completed", output: [] } }),
  messages:
    event({ type: "message_delta", delta: { stop_reason: "end_turn" } }) + event({ type: "message_stop" })
}
