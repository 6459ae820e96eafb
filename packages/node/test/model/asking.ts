import type { ReplayServer } from "@fermata/node/testing"
/**
 * Requests for the tests of the model clients, and short answers in the shape of `/chat/completions`.
 */
import type { Id } from "@fermata/sdk/domain"
import type { ModelRequest } from "@fermata/sdk/model"

/** A request with one user message. */
export const ask = (changes: Partial<ModelRequest.ModelRequest> = {}): ModelRequest.ModelRequest => ({
  runId: "run" as Id.RunId,
  sessionId: "session" as Id.SessionId,
  agentPath: ["agent"],
  turn: 1,
  instructions: "Be brief.",
  messages: [{ role: "user", sequence: 0, at: 0, content: [{ _tag: "text", text: "Hello?" }] }],
  tools: [],
  ...changes
})

/** One event of a stream. */
export const event = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`

/** The events of an answer in these pieces, without its end. */
export const pieces = (...texts: ReadonlyArray<string>): string =>
  texts.map((content) => event({ choices: [{ index: 0, delta: { content } }] })).join("")

/** The proper end of an answer. */
export const end = `${event({
  choices: [{ index: 0, delta: {}, finish_reason: "stop" }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
})}data: [DONE]\n\n`

/** The headers of a streamed answer. */
export const eventStream = { "content-type": "text/event-stream" }
export const json = { "content-type": "application/json" }

/** A streamed answer. */
export const streamed = (
  body: string,
  changes: Partial<ReplayServer.Response> = {}
): ReplayServer.Response => ({ headers: eventStream, body, ...changes })

/** An answer in the pieces `Hel` and `lo.` */
export const hello: ReplayServer.Response = streamed(pieces("Hel", "lo.") + end)

/** The same answer as one JSON value. */
export const helloWhole: ReplayServer.Response = {
  headers: json,
  body: JSON.stringify({
    choices: [{ index: 0, message: { role: "assistant", content: "Hello." }, finish_reason: "stop" }],
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
  })
}

/** An error response. */
export const refusal = (
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {}
): ReplayServer.Response => ({
  status,
  headers: { ...json, ...headers },
  body: JSON.stringify({ error: { message } })
})
