/**
 * Random histories for the planner: parallel, failing, denied, held and sub-agent calls, files, pins, and earlier compactions.
 */
import type { Prune, Summarize } from "../../src/context/CompactionPlan.ts"
import { evolve } from "../../src/domain/evolve.ts"
import * as History from "../../src/domain/History.ts"
import type { ToolCallId } from "../../src/domain/Id.ts"
import { defined } from "../../src/domain/internal/defined.ts"
import {
  type AssistantPart,
  type Message,
  standsAlone,
  text,
  type ToolOutcome
} from "../../src/domain/Message.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import * as Journal from "../domain/Journal.ts"

/** A pseudo-random sequence (mulberry32). */
export class Random {
  private state: number
  constructor(seed: number) {
    this.state = seed >>> 0
  }
  next(): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0
    let t = this.state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
  below(bound: number): number {
    return Math.floor(this.next() * bound)
  }
  happens(percent: number): boolean {
    return this.next() * 100 < percent
  }
  one<A>(items: ReadonlyArray<A>): A {
    return items[this.below(items.length)]!
  }
  /** A length: mostly short, rarely very long. */
  length(most: number): number {
    return Math.floor(most * this.next() ** 4)
  }
}

const filler = "The quick brown fox jumps over the lazy dog. ".repeat(1000)

const words = (random: Random, most: number): string => filler.slice(0, random.length(most))

const outcomes: ReadonlyArray<ToolOutcome> = [
  "completed",
  "completed",
  "completed",
  "failed",
  "denied",
  "cancelled",
  "supplied"
]

const png = { _tag: "file", mediaType: "image/png", source: { _tag: "bytes", base64: "AAEC" } } as const

/** Appends one exchange. With `isOpen`, some calls of its last answer have no result. */
const exchange = (random: Random, before: History.History, isOpen: boolean): History.History => {
  let history = before
  const add = (message: Message) => {
    history = History.append(history, message)
  }
  const fields = () => ({ sequence: History.size(history), at: 1000 })
  if (!isOpen || random.happens(70)) {
    const content = [text(words(random, 8000)), ...(random.happens(8) ? [png] : [])]
    add({ role: "user", ...fields(), content, ...(random.happens(10) ? { origin: "runtime" as const } : {}) })
  }
  const rounds = random.below(4)
  for (let round = 0; round <= rounds; round += 1) {
    const isLast = round === rounds
    const count = isLast && !isOpen ? 0 : 1 + random.below(4)
    const sequence = History.size(history)
    const parts: Array<AssistantPart> = []
    if (random.happens(20))
      parts.push({ _tag: "reasoning", text: "hm", provider: "acme", payload: { signature: "s" } })
    if (count === 0 || random.happens(50)) parts.push(text(words(random, 4000)))
    const ids = Array.from({ length: count }, (_, index) => `run-1.t${sequence}.${index + 1}` as ToolCallId)
    for (const callId of ids)
      parts.push({
        _tag: "toolCall",
        callId,
        providerCallId: "call_0",
        name: random.one(["read", "write", "researcher", "scout"]),
        arguments: JSON.stringify({ text: words(random, 2000) })
      })
    add({ role: "assistant", ...fields(), content: parts })
    const answered = isLast && isOpen ? random.below(count) : count
    for (const callId of ids.slice(0, answered))
      add({
        role: "tool",
        ...fields(),
        callId,
        providerCallId: "call_0",
        name: "read",
        outcome: random.one(outcomes),
        content: [text(words(random, 30_000)), ...(random.happens(4) ? [png] : [])]
      })
  }
  return history
}

/** A state with a random history, without open calls in its fields: the planner reads the history. */
export const stateOf = (random: Random): RunState => {
  const base = Journal.fold(Journal.started())
  let history = History.empty
  const exchanges = 1 + random.below(16)
  for (let index = 0; index < exchanges; index += 1) history = exchange(random, history, false)
  if (random.happens(25)) history = exchange(random, history, true)
  return grown(base, history, random)
}

const grown = (state: RunState, history: History.History, random: Random): RunState => {
  const users: Array<number> = []
  const alone: Array<number> = []
  for (const message of History.toArray(history)) {
    if (message.role === "user" && message.origin !== "runtime") users.push(message.sequence)
    if (standsAlone(message)) alone.push(message.sequence)
  }
  const pinned = new Set(random.happens(30) ? [random.one(alone), random.one(alone)] : [])
  return {
    ...state,
    history,
    promptAt: users.at(-1) ?? 0,
    ...(pinned.size === 0 && state.pinned === undefined
      ? {}
      : { pinned: [...pinned].toSorted((a, b) => a - b) })
  }
}

/** The state after further exchanges. An open step of the state gets its results first. */
export const goOn = (state: RunState, random: Random): RunState => {
  let { history } = state
  const all = History.toArray(history)
  const last = all.findLast(({ role }) => role === "assistant")
  const calls = last?.role === "assistant" ? last.content.filter((part) => part._tag === "toolCall") : []
  const given = new Set(all.flatMap((message) => (message.role === "tool" ? [message.callId] : [])))
  for (const { callId } of calls) {
    if (given.has(callId)) continue
    history = History.append(history, {
      role: "tool",
      sequence: History.size(history),
      at: 1000,
      callId,
      providerCallId: "call_0",
      name: "write",
      outcome: random.one(outcomes),
      content: [text(words(random, 8000))]
    })
  }
  const more = 1 + random.below(3)
  for (let index = 0; index < more; index += 1) history = exchange(random, history, false)
  if (random.happens(20)) history = exchange(random, history, true)
  return grown(state, history, random)
}

/** Performs a plan, with a summary of random length. */
export const perform = (state: RunState, plan: Prune | Summarize, random: Random): RunState => {
  if (plan._tag === "Prune") {
    const { before, cut, tokensAfter, tokensBefore } = plan
    return evolve(state, {
      _tag: "context.pruned",
      at: 1000,
      before,
      tokensAfter,
      tokensBefore,
      ...defined({ cut })
    })
  }
  const most = (plan.mostSummary - 80) * 3
  return evolve(state, {
    _tag: "context.compacted",
    at: 1000,
    from: plan.from,
    to: plan.to,
    summary: filler.slice(0, Math.ceil(most * random.next())),
    quality: "model",
    tokensBefore: plan.tokensBefore,
    tokensAfter: plan.tokensAfter,
    promptVersion: 1,
    ...defined({ cut: plan.cut, kept: plan.kept.length === 0 ? undefined : plan.kept })
  })
}

/** Counts one token per three characters, as the default tokenizer counts English, without reading the texts. */
export const count = (message: Message): number => {
  let tokens = 4
  for (const part of message.content) {
    if (part._tag === "text" || part._tag === "reasoning") tokens += Math.ceil(part.text.length / 3)
    else if (part._tag === "toolCall") tokens += 8 + Math.ceil(part.arguments.length / 3)
    else tokens += 1500
  }
  return tokens
}
