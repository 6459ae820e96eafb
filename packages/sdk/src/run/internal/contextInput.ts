/**
 * Makes the input of the context policy from the state of a run, with nothing copied or counted that the policy does not read.
 */
import type { BoundAgent } from "../../agent/Entry.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { ContextInput, ContextView } from "../../context/PolicyDefinition.ts"
import * as History from "../../domain/History.ts"
import { defined } from "../../domain/internal/defined.ts"
import type { Message } from "../../domain/Message.ts"
import type { RunState } from "../../domain/RunState.ts"
import {
  countMessage,
  countMessages,
  countRequest,
  countText,
  countTools,
  type Tokenizer
} from "../../model/Tokenizer.ts"
import { isRecallTool } from "../../tool/RecallTool.ts"
import { memoryMessages } from "./memoryMessages.ts"

/** A run and the program that drives it, or that asks about its context. */
export interface ContextOf {
  readonly runtime: Pick<Runtime, "tokenizer" | "model">
  /** The agent that has the conversation. */
  readonly bound: BoundAgent
  readonly state: RunState
}

/** The input of the context policy. */
export const contextInput = (
  { bound, runtime, state }: ContextOf,
  instructions: string,
  options: {
    readonly sections?: ReadonlyArray<Message>
    /** Messages that stay as they are besides the pinned ones. */
    readonly pinned?: ReadonlyArray<number>
  } = {}
): ContextInput => {
  const { sections = none } = options
  const memory = memoryMessages(state)
  const others = memory.length === 0 ? sections : [...memory, ...sections]
  const { history, limits } = state
  const { tokenizer } = runtime
  const counters = countersOf(tokenizer)
  const recall = recallOf(bound)
  const { profile, settings } = bound.agent.options
  const view: ContextView = {
    history,
    compaction: state.compaction,
    compacting: state.compacting,
    pinned:
      options.pinned === undefined ? (state.pinned ?? none) : [...(state.pinned ?? none), ...options.pinned],
    ...counters,
    toolTokens: countTools(tokenizer, bound.definitions),
    profile
  }
  let messages: ReadonlyArray<Message> | undefined
  return {
    instructions,
    get messages() {
      return (messages ??= History.toArray(history))
    },
    promptAt: promptAtOf(state),
    limits,
    view,
    ...defined({
      recall,
      contextTokens: known(runtime, "contextTokens", profile),
      maxOutputTokens: known(runtime, "maxOutputTokens", profile),
      reservedTokens: settings?.maxOutputTokens,
      sections: sections.length === 0 ? undefined : sections,
      memory: memory.length === 0 ? undefined : memory
    }),
    countTokens: (context) =>
      countRequest(tokenizer, { ...context, tools: bound.definitions }) +
      (others.length === 0 ? 0 : countMessages(tokenizer, others))
  }
}

const none: ReadonlyArray<never> = []

/**
 * A limit of a profile as the model client knows it; `undefined` if it does not know it. Throws if a client without types returns a value
 * that is not a number.
 */
export const known = (
  { model }: Pick<Runtime, "model">,
  what: "contextTokens" | "maxOutputTokens",
  profile: string | undefined
): number | undefined => {
  const value: unknown = model[what]?.(profile)
  if (value === undefined || (typeof value === "number" && !Number.isNaN(value))) return value
  throw new TypeError(`the model client's ${what} did not return a number`)
}

/** The counting functions of a tokenizer. One pair per tokenizer, since views are kept by them. */
const counters = new WeakMap<Tokenizer, Pick<ContextView, "countMessage" | "countText">>()

const countersOf = (tokenizer: Tokenizer): Pick<ContextView, "countMessage" | "countText"> => {
  const made = counters.get(tokenizer)
  if (made !== undefined) return made
  // The instructions of an agent are usually the same text in each turn.
  const texts = new Map<string, number>()
  const own = {
    countMessage: (message: Message) => countMessage(tokenizer, message),
    countText: (text: string) => {
      const found = texts.get(text)
      if (found !== undefined) return found
      if (texts.size >= mostTexts) texts.clear()
      const count = countText(tokenizer, text)
      texts.set(text, count)
      return count
    }
  }
  counters.set(tokenizer, own)
  return own
}

const mostTexts = 32

/** The name of the agent's tool that reads contents again. Looked up once per definition. */
const recallOf = (bound: BoundAgent): string | undefined => {
  const found = recalls.get(bound)
  if (found !== undefined) return found.name
  let name: string | undefined
  for (const entry of bound.entries.values()) {
    if (!("tool" in entry) || !isRecallTool(entry.tool)) continue
    name = entry.name
    break
  }
  recalls.set(bound, { name })
  return name
}

const recalls = new WeakMap<BoundAgent, { readonly name: string | undefined }>()

/** The sequence number of the message that began the run. */
const promptAtOf = ({ history, parent, promptAt, startedAt }: RunState): number => {
  if (promptAt !== undefined || parent === undefined) return promptAt ?? 0
  // A run of an earlier version: the messages of earlier runs are older than its start.
  return History.toArray(history).findIndex((message) => message.role === "user" && message.at >= startedAt)
}
