/**
 * The view of a history that a model call receives: the summary, the kept messages, and the messages that the summary does not cover.
 *
 * The view is a function of the history and of the compaction in the state, so that it is the same in every process, and its beginning stays
 * the same from turn to turn. Most of it is computed once per full chunk of the history, and only the tail in each turn.
 */
import type { Compaction, Summary } from "../../domain/Compaction.ts"
import * as History from "../../domain/History.ts"
import { type Message, standsAlone, text, type UserMessage } from "../../domain/Message.ts"
import { withoutFiles } from "./earlierFiles.ts"
import { clear, isClearable, shorten } from "./shortened.ts"

/** The input of a view. Equal input gives an equal view. */
export interface ViewInput {
  readonly history: History.History
  readonly compaction: Compaction | undefined
  /** Sequence numbers of the pinned messages. */
  readonly pinned: ReadonlyArray<number>
  /** The sequence number of the message that began the run: earlier files are replaced by texts. */
  readonly promptAt: number
  /** The name of the tool that reads files and results again, if there is one. */
  readonly recall: string | undefined
  /** Counts the tokens of a message. The same function counts the same message in the same way. */
  readonly count: (message: Message) => number
}

/** The messages that a model call receives, and their tokens. */
export interface View {
  readonly messages: ReadonlyArray<Message>
  /** The tokens of the messages, without the summary. */
  readonly tokens: number
  readonly summaryTokens: number
}

/** The view of the messages from the history's full chunks, which most turns share. */
interface Beginning {
  readonly input: ViewInput
  readonly messages: ReadonlyArray<Message>
  readonly tokens: number
}

const beginnings = new WeakMap<object, Beginning>()

/** Computes the view of a history. */
export const viewOf = (input: ViewInput): View => {
  const { compaction, count, history } = input
  const beginning = beginningOf(input)
  const messages = beginning.messages.slice()
  let { tokens } = beginning
  const first = history.chunks.length * History.chunkSize
  const from = Math.max(first, compaction?.summary?.to ?? 0)
  for (let sequence = from; sequence < first + history.tail.length; sequence += 1) {
    const shown = shownAt(input, sequence)
    messages.push(shown)
    tokens += count(shown)
  }
  const summary = compaction?.summary
  if (summary === undefined) return { messages, tokens, summaryTokens: 0 }
  return { messages, tokens, summaryTokens: count(summaryMessage(summary)) }
}

/** The part of the view that changes only with a chunk, a compaction or a prompt. */
const beginningOf = (input: ViewInput): Beginning => {
  const { compaction, count, history } = input
  const known = beginnings.get(history.chunks)
  if (known !== undefined && isSame(known.input, input)) return known
  const messages: Array<Message> = []
  let tokens = 0
  const summary = compaction?.summary
  const to = summary?.to ?? 0
  if (summary !== undefined) messages.push(summaryMessage(summary))
  const add = (sequence: number) => {
    const shown = shownAt(input, sequence)
    messages.push(shown)
    tokens += count(shown)
  }
  for (const sequence of keptIn(input, to)) add(sequence)
  for (let sequence = to; sequence < history.chunks.length * History.chunkSize; sequence += 1) add(sequence)
  // The tail is part of the input, and must not be kept in memory.
  const made = { input: { ...input, history: History.empty }, messages, tokens }
  beginnings.set(history.chunks, made)
  return made
}

/** The messages that the summary covers and that stay: those that the compaction kept, and those that are pinned now. */
export const keptIn = ({ compaction, history, pinned }: ViewInput, to: number): ReadonlyArray<number> => {
  const kept = compaction?.summary?.kept ?? []
  const others = pinned.filter(
    (sequence) => sequence < to && !kept.includes(sequence) && standsAlone(History.at(history, sequence))
  )
  return others.length === 0 ? kept : [...kept, ...others].toSorted((a, b) => a - b)
}

const isSame = (a: ViewInput, b: ViewInput): boolean =>
  a.compaction === b.compaction &&
  a.pinned === b.pinned &&
  a.promptAt === b.promptAt &&
  a.recall === b.recall &&
  a.count === b.count

/** The message as the view shows it. */
export const shownAt = (
  {
    compaction,
    history,
    promptAt,
    recall
  }: Pick<ViewInput, "compaction" | "history" | "promptAt" | "recall">,
  sequence: number
): Message => {
  const original = History.at(history, sequence)!
  const { cleared = 0, cut } = compaction ?? {}
  const message = sequence < promptAt ? withoutFiles(original, recall) : original
  if (message.role !== "tool") return message
  if (sequence < cleared && isClearable(original)) return clear(original, recall)
  return cut !== undefined && sequence < cut.before ? shorten(message, cut.characters) : message
}

const summaries = new WeakMap<Summary, UserMessage>()

/** The message that holds a summary. */
const summaryMessage = (summary: Summary): UserMessage => {
  const known = summaries.get(summary)
  if (known !== undefined) return known
  const { at, to } = summary
  const made: UserMessage = {
    role: "user",
    // It precedes every message that follows it.
    sequence: 0,
    at,
    origin: "runtime",
    content: [text(`${opening(to)}\n\n${summary.text}\n\n${closing}`)]
  }
  summaries.set(summary, made)
  return made
}

const opening = (to: number): string =>
  `[Summary of the first ${to} messages of this conversation, which are no longer shown. It records what was said and done; it gives no instructions of its own.]`

const closing = "[End of the summary. The conversation continues.]"
