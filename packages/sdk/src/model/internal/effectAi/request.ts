/** Converts the options of an `effect/ai` language model to a `ModelRequest`, and a `ModelResponse` to `effect/ai` parts. */
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Base64 from "effect/encoding/Base64"
import type * as Schema from "effect/Schema"
import { type RunId, type SessionId, toolCallId } from "../../../domain/Id.ts"
import {
  type AssistantPart,
  type FilePart,
  type Message,
  text,
  type ToolMessage,
  type UserPart
} from "../../../domain/Message.ts"
import type { FinishReason } from "../../../domain/RunEvent.ts"
import type { ModelUsage } from "../../../domain/Usage.ts"
import type { ModelResponse, Replay } from "../../ModelPart.ts"
import type { ModelRequest } from "../../ModelRequest.ts"
import { argumentsValue, fieldsOf, textOf, wholeArguments } from "../fields.ts"

/** A call of a language model belongs to no run. A request needs these ids all the same. */
const runId = "effect-ai" as RunId
const sessionId = "effect-ai" as SessionId

/** Makes the request. `schemaOf` converts the schema of structured output to a JSON Schema. */
export const requestOf = (
  options: LanguageModel.ProviderOptions,
  schemaOf: LanguageModel.CodecTransformer
): ModelRequest => {
  const { prompt, responseFormat, toolChoice, tools } = options
  return {
    runId,
    sessionId,
    agentPath: [],
    turn: 1,
    instructions: prompt.content
      .flatMap((message) => (message.role === "system" ? [message.content] : []))
      .join("\n\n"),
    messages: messagesOf(prompt),
    tools: tools.map((tool) => ({
      name: tool.name,
      description: Tool.getDescription(tool) ?? "",
      parameters: Tool.getJsonSchema(tool) as Schema.JsonObject
    })),
    ...(responseFormat.type === "json"
      ? {
          output: {
            name: responseFormat.objectName,
            schema: schemaOf(responseFormat.schema).jsonSchema as Schema.JsonObject
          }
        }
      : {}),
    ...(tools.length === 0 ? {} : { settings: { toolChoice: choiceOf(toolChoice) } })
  }
}

const choiceOf = (choice: LanguageModel.ToolChoice<string>) =>
  typeof choice === "string" ? choice : "tool" in choice ? { tool: choice.tool } : (choice.mode ?? "auto")

/** Makes a valid history. A call without a result gets one that states so. Calls that the provider ran itself are omitted. */
const messagesOf = ({ content }: Prompt.Prompt): ReadonlyArray<Message> => {
  const messages: Array<Message> = []
  const head = () => ({ sequence: messages.length, at: 0 })
  let turn = 0
  const open: Array<Pick<ToolMessage, "callId" | "providerCallId" | "name">> = []
  const addResult = (id: string, result: Pick<ToolMessage, "outcome" | "content">) => {
    const at = open.findIndex((call) => call.providerCallId === id)
    const [call] = at === -1 ? [] : open.splice(at, 1)
    if (call !== undefined) messages.push({ role: "tool", ...head(), ...call, ...result })
  }
  const addMissingResults = () => {
    const missing = { outcome: "cancelled", content: [text("There is no result.")] } as const
    while (open[0] !== undefined) addResult(open[0].providerCallId, missing)
  }
  for (const message of content) {
    switch (message.role) {
      case "system":
        break
      case "user":
        addMissingResults()
        messages.push({ role: "user", ...head(), content: message.content.map(userPart) })
        break
      case "assistant": {
        addMissingResults()
        turn += 1
        const parts: Array<AssistantPart> = []
        for (const part of message.content) {
          switch (part.type) {
            case "text":
            case "reasoning":
              parts.push({ _tag: part.type, text: part.text, ...replayOf(part.options) })
              break
            case "file":
              parts.push(filePart(part))
              break
            case "tool-call": {
              if (part.providerExecuted) break
              const call = {
                callId: toolCallId(runId, turn, open.length + 1),
                providerCallId: part.id,
                name: part.name
              }
              open.push(call)
              const written =
                typeof part.params === "string" ? part.params : JSON.stringify(part.params ?? {})
              parts.push({ _tag: "toolCall", ...call, arguments: written, ...replayOf(part.options) })
            }
          }
        }
        messages.push({ role: "assistant", ...head(), content: parts })
        break
      }
      case "tool":
        for (const part of message.content) {
          if (part.type !== "tool-result") continue
          const { isFailure, modelOutput, result } = part
          const said = typeof result === "string" ? result : (JSON.stringify(result) ?? "")
          addResult(part.id, {
            outcome: isFailure ? "failed" : "completed",
            content: modelOutput === undefined ? [text(said)] : modelOutput.map(userPart)
          })
        }
    }
  }
  addMissingResults()
  return messages
}

const userPart = (part: Prompt.TextPart | Prompt.FilePart): UserPart =>
  part.type === "text" ? text(part.text) : filePart(part)

const filePart = ({ data, fileName, mediaType }: Prompt.FilePart): FilePart => ({
  _tag: "file",
  mediaType,
  source:
    data instanceof URL || (typeof data === "string" && /^https?:/.test(data))
      ? { _tag: "url", url: String(data) }
      : {
          _tag: "bytes",
          base64: typeof data === "string" ? data.replace(/^data:[^,]*,/, "") : Base64.encode(data)
        },
  ...(fileName === undefined ? {} : { name: fileName })
})

/** The key of `effect/ai` metadata under which a payload is kept. */
const namespace = "fermata"

/** The provider data of a part as metadata, if it has any. */
export const metadataOf = ({
  payload,
  provider
}: Replay): { readonly metadata?: Record<string, Schema.Json> } =>
  payload === undefined && provider === undefined
    ? {}
    : { metadata: { [namespace]: { provider: provider ?? null, payload: payload ?? null } } }

const replayOf = (options: Prompt.ProviderOptions): Replay => {
  const own = fieldsOf(options[namespace])
  const provider = textOf(own?.provider)
  if (own === undefined || provider === undefined) return {}
  return { provider, payload: (own.payload ?? null) as Schema.Json }
}

/** Converts a complete response to `effect/ai` parts. */
export const partsOf = ({ content, finishReason, usage }: ModelResponse): Array<Response.PartEncoded> => {
  const out: Array<Response.PartEncoded> = []
  for (const [index, part] of content.entries()) {
    switch (part._tag) {
      case "text":
      case "reasoning":
        out.push({ type: part._tag, text: part.text, ...metadataOf(part) })
        break
      case "toolCall":
        out.push(callPart(part, index))
        break
      case "file":
        out.push(...fileParts(part))
    }
  }
  out.push(finishPart(finishReason, usage))
  return out
}

/** Converts a tool call. An empty id is replaced, since a result refers to its call by id. */
export const callPart = (
  call: Replay & { readonly providerCallId: string; readonly name: string; readonly arguments: string },
  index: number
): Response.ToolCallPartEncoded => ({
  type: "tool-call",
  id: call.providerCallId === "" ? `call_${index}` : call.providerCallId,
  name: call.name,
  params: paramsOf(call.arguments),
  ...metadataOf(call)
})

const paramsOf = (written: string): unknown =>
  wholeArguments(written) === undefined ? written : argumentsValue(written)

/** Converts a file that contains its bytes. Any other file is omitted. */
export const fileParts = ({ mediaType, source }: FilePart): ReadonlyArray<Response.FilePartEncoded> =>
  source._tag === "bytes" ? [{ type: "file", mediaType, data: source.base64 }] : []

/** Converts the finish reason and the usage. */
export const finishPart = (finishReason: FinishReason, usage: ModelUsage): Response.FinishPartEncoded => {
  const { cacheWriteTokens, cachedInputTokens, inputTokens, outputTokens, reasoningTokens } = usage
  return {
    type: "finish",
    reason: finishReasons[finishReason],
    usage: {
      inputTokens: {
        total: inputTokens,
        uncached: Math.max(0, inputTokens - (cachedInputTokens ?? 0) - (cacheWriteTokens ?? 0)),
        cacheRead: cachedInputTokens,
        cacheWrite: cacheWriteTokens
      },
      outputTokens: {
        total: outputTokens,
        text: reasoningTokens === undefined ? undefined : Math.max(0, outputTokens - reasoningTokens),
        reasoning: reasoningTokens
      }
    }
  }
}

const finishReasons = {
  stop: "stop",
  toolCalls: "tool-calls",
  length: "length",
  contentFilter: "content-filter",
  other: "other"
} as const satisfies Record<FinishReason, Response.FinishReason>
