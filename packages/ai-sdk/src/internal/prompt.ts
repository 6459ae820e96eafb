/** A request as the call options of an AI SDK model. */
import type {
  LanguageModelV2ToolResultOutput,
  LanguageModelV3ToolResultOutput,
  LanguageModelV4CallOptions,
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4TextPart,
  LanguageModelV4ToolResultOutput,
  LanguageModelV4ToolResultPart,
  SharedV4FileData,
  SharedV4ProviderOptions
} from "@ai-sdk/provider"
import { type Id, Message } from "@fermata/sdk/domain"
import { ModelBridge, type ModelRequest } from "@fermata/sdk/model"

/** The specification that a model implements. Specifications differ in the shape of files and of results, and only `v4` has `reasoning`. */
export type Version = "v2" | "v3" | "v4"

/** The options of a call. Reasoning and payloads of a model other than `provider` are left out. */
export const callOptions = (
  request: ModelRequest.ModelRequest,
  provider: string,
  version: Version,
  callIdLength?: number
): LanguageModelV4CallOptions => {
  const { output, settings = {}, tools } = request
  const { maxOutputTokens, reasoningEffort, seed, stop, temperature, toolChoice, topP } = settings
  const providerOptions = providerOptionsOf(request, provider)
  return {
    prompt: promptOf(request, provider, version, callIdLength),
    ...(tools.length === 0
      ? {}
      : {
          tools: tools.map(({ description, name, parameters }) => ({
            type: "function" as const,
            name,
            inputSchema: parameters as object,
            ...(description === "" ? {} : { description })
          })),
          toolChoice: choiceOf(toolChoice)
        }),
    ...(output === undefined
      ? {}
      : { responseFormat: { type: "json" as const, schema: output.schema as object, name: output.name } }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { topP }),
    ...(seed === undefined ? {} : { seed }),
    ...(stop === undefined ? {} : { stopSequences: [...stop] }),
    ...(reasoningEffort === undefined || version !== "v4" ? {} : { reasoning: reasoningEffort }),
    ...(providerOptions === undefined ? {} : { providerOptions })
  }
}

/** The options by which known providers switch parallel calls, for which the AI SDK has no setting. */
const parallelCalls = (provider: string, allowed: boolean): SharedV4ProviderOptions | undefined =>
  /[@.]anthropic\./.test(provider)
    ? { anthropic: { disableParallelToolUse: !allowed } }
    : provider.startsWith("ai-sdk@openai.")
      ? { openai: { parallelToolCalls: allowed } }
      : undefined

/** The provider options of a request. Those in `extra` override those that are made from settings. */
const providerOptionsOf = (
  { settings = {}, tools }: ModelRequest.ModelRequest,
  provider: string
): SharedV4ProviderOptions | undefined => {
  const extra = settings.extra as SharedV4ProviderOptions | undefined
  if (settings.parallelToolCalls === undefined || tools.length === 0) return extra
  const made = parallelCalls(provider, settings.parallelToolCalls)
  if (made === undefined) return extra
  const [name, options] = Object.entries(made)[0]!
  return { ...extra, [name]: { ...options, ...extra?.[name] } }
}

/**
 * A sentence for each of these settings that is not passed to this model, with the reason: `reasoningEffort` before v4, and
 * `parallelToolCalls: false`, with tools, for a provider whose own option is not known. Whether `extra` has that option is not checked.
 */
export const settingsLeftOut = (
  { settings = {}, tools }: ModelRequest.ModelRequest,
  provider: string,
  version: Version
): ReadonlyArray<string> => {
  const { parallelToolCalls, reasoningEffort } = settings
  const out: Array<string> = []
  if (reasoningEffort !== undefined && version !== "v4") {
    const why = `the specification ${version.slice(1)} of the AI SDK does not have it; give the provider's own option in extra`
    out.push(ModelBridge.settingLeftOut("reasoningEffort", why))
  }
  if (parallelToolCalls === false && tools.length > 0 && parallelCalls(provider, false) === undefined) {
    const why = "the AI SDK does not have it; give the provider's own option in extra"
    out.push(ModelBridge.settingLeftOut("parallelToolCalls", why))
  }
  return out
}

type Choice = NonNullable<ModelRequest.ModelSettings["toolChoice"]>

const choiceOf = (choice: Choice = "auto") =>
  typeof choice === "string" ? { type: choice } : { type: "tool" as const, toolName: choice.tool }

const promptOf = (
  { instructions, messages }: ModelRequest.ModelRequest,
  provider: string,
  version: Version,
  callIdLength: number | undefined
): Array<LanguageModelV4Message> => {
  const ids = ModelBridge.callIds(messages, callIdLength)
  const out: Array<LanguageModelV4Message> = []
  if (instructions !== "") out.push({ role: "system", content: instructions })
  let results: Array<LanguageModelV4ToolResultPart> = []
  for (const message of messages) {
    if (message.role === "tool") {
      const part = resultPart(message, ids.get(message.callId) ?? message.callId, version)
      if (results.length === 0) out.push({ role: "tool", content: (results = []) })
      results.push(part)
      continue
    }
    results = []
    if (message.role === "user") {
      out.push({ role: "user", content: message.content.map((part) => userPart(part, version)) })
    } else {
      const content = assistantParts(message, provider, ids, version)
      if (content.length > 0) out.push({ role: "assistant", content })
    }
  }
  return out
}

type Assistant = Extract<LanguageModelV4Message, { role: "assistant" }>["content"]

const assistantParts = (
  { content }: Message.AssistantMessage,
  provider: string,
  ids: ReadonlyMap<Id.ToolCallId, string>,
  version: Version
): Assistant =>
  content.flatMap((part): Assistant => {
    if (part._tag === "file") return [userPart(part, version)]
    const own = part.provider === provider ? optionsOf(part.payload) : undefined
    const options = own === undefined ? {} : { providerOptions: own }
    switch (part._tag) {
      case "text":
        return part.text === "" && own === undefined ? [] : [{ type: "text", text: part.text, ...options }]
      case "reasoning":
        return part.provider === provider ? [{ type: "reasoning", text: part.text, ...options }] : []
      case "toolCall":
        return [
          {
            type: "tool-call",
            toolCallId: ids.get(part.callId) ?? part.callId,
            toolName: ModelBridge.toolName(part.name),
            input: ModelBridge.argumentsOf(part.arguments),
            ...options
          }
        ]
    }
  })

/** The options of a part: the metadata with which the provider sent it. */
const optionsOf = (payload: unknown): SharedV4ProviderOptions | undefined =>
  typeof payload === "object" && payload !== null && !Array.isArray(payload)
    ? (payload as SharedV4ProviderOptions)
    : undefined

const userPart = (
  part: Message.UserPart,
  version: Version
): LanguageModelV4TextPart | LanguageModelV4FilePart => {
  if (part._tag === "text") return { type: "text", text: part.text }
  const data = dataOf(part)
  const { mediaType, name } = part
  if (data === undefined) return { type: "text", text: leftOut(part) }
  return {
    type: "file",
    mediaType,
    data: version === "v4" ? data : (untagged(data) as unknown as SharedV4FileData),
    ...(name === undefined ? {} : { filename: name })
  }
}

type FileData = Extract<SharedV4FileData, { type: "data" | "url" }>

/** The data of a file; `undefined` for a file that only its own provider knows, and for an invalid URL. */
const dataOf = ({ source }: Message.FilePart): FileData | undefined => {
  if (source._tag === "bytes") return { type: "data", data: source.base64 }
  const url = source._tag === "url" ? URL.parse(source.url) : null
  return url === null ? undefined : { type: "url", url }
}

/** The data of a file before specification 4: the base64 text or the URL itself. */
const untagged = (data: FileData) => (data.type === "url" ? data.url : data.data)

const leftOut = ({ mediaType, name }: Message.FilePart) =>
  `[${name ?? mediaType}: not available to this model]`

const resultPart = (
  message: Message.ToolMessage,
  toolCallId: string,
  version: Version
): LanguageModelV4ToolResultPart => ({
  type: "tool-result",
  toolCallId,
  toolName: ModelBridge.toolName(message.name),
  output: outputOf(message, version) as LanguageModelV4ToolResultOutput
})

type Output =
  | LanguageModelV4ToolResultOutput
  | LanguageModelV3ToolResultOutput
  | LanguageModelV2ToolResultOutput

const outputOf = ({ content, outcome }: Message.ToolMessage, version: Version): Output => {
  const value = Message.textOf(content)
  const failed = outcome !== "completed" && outcome !== "supplied"
  if (content.every((part) => part._tag === "text")) return { type: failed ? "error-text" : "text", value }
  // Only a result that is not marked as failed can have files, so the mark becomes a text.
  const marked = failed ? [Message.text("The call failed:"), ...content] : content
  const parts = marked.map((part) => {
    const data = part._tag === "text" ? undefined : dataOf(part)
    if (part._tag === "text" || data === undefined) {
      return { type: "text", text: part._tag === "text" ? part.text : leftOut(part) }
    }
    const { mediaType } = part
    if (version === "v4") return { type: "file", data, mediaType }
    if (data.type === "url") {
      return version === "v3"
        ? { type: "file-url", url: data.url.href }
        : { type: "text", text: data.url.href }
    }
    return { type: version === "v3" ? "file-data" : "media", data: data.data, mediaType }
  })
  return { type: "content", value: parts } as Output
}
