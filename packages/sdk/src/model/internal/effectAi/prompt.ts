/** Converts a `ModelRequest` to the prompt and the toolkit of an `effect/ai` language model. */
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import {
  type AssistantMessage,
  type FilePart,
  textOf,
  type ToolMessage,
  type UserPart
} from "../../../domain/Message.ts"
import { argumentsOf, callIds } from "../../ModelBridge.ts"
import type { ModelRequest, ToolDefinition } from "../../ModelRequest.ts"
import { fieldsOf } from "../fields.ts"
import { instructionsOf, unavailableFile } from "../inWords.ts"
import { wireName } from "../wireNames.ts"

/** Returns the instructions, then the history. Payloads and reasoning of another provider are omitted. */
export const promptOf = (request: ModelRequest, provider: string): Prompt.Prompt => {
  const { messages } = request
  const ids = callIds(messages)
  const idOf = ({ callId }: Pick<ToolMessage, "callId">) => ids.get(callId) ?? callId
  const out: Array<Prompt.Message> = []
  // A language model cannot stream structured output, so the instructions ask for it.
  const system = instructionsOf(request, false)
  if (system !== "") out.push(Prompt.systemMessage({ content: system }))
  let results: Array<Prompt.ToolResultPart> = []
  const pushResults = () => {
    if (results.length > 0) out.push(Prompt.toolMessage({ content: results }))
    results = []
  }
  for (const message of messages) {
    if (message.role === "tool") {
      results.push(resultPart(message, idOf(message)))
      continue
    }
    pushResults()
    if (message.role === "user") {
      out.push(Prompt.userMessage({ content: message.content.map(userPart) }))
    } else {
      const content = assistantParts(message, provider, idOf)
      if (content.length > 0) out.push(Prompt.assistantMessage({ content }))
    }
  }
  pushResults()
  return Prompt.fromMessages(out)
}

const userPart = (part: UserPart): Prompt.TextPart | Prompt.FilePart =>
  part._tag === "text" ? Prompt.textPart({ text: part.text }) : filePart(part)

const filePart = (file: FilePart): Prompt.TextPart | Prompt.FilePart => {
  const { mediaType, name, source } = file
  const url = source._tag === "url" ? URL.parse(source.url) : null
  const data = source._tag === "bytes" ? source.base64 : url
  return data === null
    ? Prompt.textPart({ text: unavailableFile(file) })
    : Prompt.filePart({ mediaType, data, ...(name === undefined ? {} : { fileName: name }) })
}

const assistantParts = (
  { content }: AssistantMessage,
  provider: string,
  idOf: (call: Pick<ToolMessage, "callId">) => string
): ReadonlyArray<Prompt.AssistantMessagePart> =>
  content.flatMap((part): ReadonlyArray<Prompt.AssistantMessagePart> => {
    if (part._tag === "file") return [filePart(part)]
    const own = part.provider === provider ? optionsOf(part.payload) : undefined
    const options = own === undefined ? {} : { options: own }
    switch (part._tag) {
      case "text":
        return part.text === "" && own === undefined ? [] : [Prompt.textPart({ text: part.text, ...options })]
      case "reasoning":
        return part.provider === provider ? [Prompt.reasoningPart({ text: part.text, ...options })] : []
      case "toolCall":
        return [
          Prompt.toolCallPart({
            id: idOf(part),
            name: wireName(part.name),
            params: argumentsOf(part.arguments),
            providerExecuted: false,
            ...options
          })
        ]
    }
  })

/** The metadata that a part arrived with is sent back as its options. */
const optionsOf = (payload: unknown): Prompt.ProviderOptions | undefined =>
  fieldsOf(payload) as Prompt.ProviderOptions | undefined

const resultPart = (message: ToolMessage, id: string): Prompt.ToolResultPart => {
  const { content, name, outcome } = message
  const hasFiles = content.some((part) => part._tag === "file")
  return Prompt.toolResultPart({
    id,
    name: wireName(name),
    isFailure: outcome !== "completed" && outcome !== "supplied",
    result: textOf(content),
    providerExecuted: false,
    ...(hasFiles ? { modelOutput: content.map(userPart) } : {})
  })
}

type AnyToolkit = Toolkit.WithHandler<Record<string, Tool.AnyDynamic>>

const toolkits = new WeakMap<ReadonlyArray<ToolDefinition>, AnyToolkit>()

/** Declares the tools to a model. The language model cannot run them. */
export const toolkitOf = (definitions: ReadonlyArray<ToolDefinition>): AnyToolkit => {
  let toolkit = toolkits.get(definitions)
  if (toolkit === undefined) {
    const tools: Record<string, Tool.AnyDynamic> = {}
    for (const { description, name, parameters } of definitions) {
      tools[name] = Tool.dynamic(name, { parameters, ...(description === "" ? {} : { description }) })
    }
    const handle = () => Effect.die(new Error("Tools are run by the run, not by the model."))
    toolkit = { tools, handle } as unknown as AnyToolkit
    toolkits.set(definitions, toolkit)
  }
  return toolkit
}
