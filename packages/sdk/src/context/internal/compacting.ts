/**
 * The policy that compacts a context: it measures, plans, and reports what is due. The run performs the plan.
 */
import * as Effect from "effect/Effect"
import * as History from "../../domain/History.ts"
import { defined } from "../../domain/internal/defined.ts"
import { callable, flag, fraction, nonEmpty, positive, shapeOf } from "../../domain/internal/misfits.ts"
import type { Message } from "../../domain/Message.ts"
import { problemOf } from "../../domain/OptionsInvalid.ts"
import type { Awaitable } from "../../tool/ToolOptions.ts"
import type { Summarize } from "../CompactionPlan.ts"
import type { ContextUsage } from "../ContextUsage.ts"
import type {
  BeforeCompaction,
  CompactionDue,
  ContextInput,
  ContextPolicy,
  ContextTooLarge,
  ContextView,
  PreparedContext,
  WindowUnknown
} from "../PolicyDefinition.ts"
import { type Plan, plan } from "./plan.ts"
import { assumedWindow, type Room, roomOf } from "./room.ts"
import { viewOf } from "./view.ts"

/** The options of the compacting policy. */
export interface CompactingOptions {
  /** The model profile that writes summaries, such as a cheaper one. If its answer is refused, the agent's own profile is asked. Default: the agent's. */
  readonly profile?: string
  /** If `true`, a run whose model client does not know the window fails with `WindowUnknown`. Default: `false`. */
  readonly strict?: boolean
  /** The size of the window in tokens if the model client does not know it. Default: 128,000. */
  readonly contextTokens?: number
  /** The part of the usable tokens above which the context is pruned or compacted. Default: 0.85. */
  readonly trigger?: number
  /** The part of the usable tokens at which `budget.nearing` warns once. Default: 0.75. */
  readonly warnAt?: number
  /**
   * Selects further messages that stay as they are when their place is summarized, besides the pinned ones. Called for each message of the
   * history when a summary is due. It must not throw. Default: none.
   */
  readonly pinned?: (message: Message) => boolean
  /** A further sentence in the request of a summary, such as what to record in a field of work. */
  readonly guidance?: string
  /**
   * Called before a summary is written. It can veto the compaction, or name further messages that stay. Its timeout is the run's
   * `toolTimeoutMs`. If it fails, the failure is logged and the compaction goes on.
   */
  readonly before?: (plan: Summarize) => Awaitable<BeforeCompaction | void>
}

const shape = shapeOf<CompactingOptions>({
  profile: nonEmpty,
  strict: flag,
  contextTokens: positive,
  trigger: fraction,
  warnAt: fraction,
  pinned: callable,
  guidance: nonEmpty,
  before: callable
})

/** The smallest and the largest ratio that is used. Beyond them, the provider counts something other than the request. */
const leastRatio = 0.25
const mostRatio = 4

/** The weight of the latest report in the ratio. */
const weight = 0.3

/** Compactions in a row, without success, after which the run asks. */
const mostMisses = 2

/** Makes the policy. Throws `OptionsInvalid`. */
export const make = (options: CompactingOptions): ContextPolicy => {
  const problem = problemOf("ContextPolicy.compacting", options, shape)
  if (problem !== undefined) throw problem
  /** Reported input tokens by estimated ones, by model profile. */
  const ratios = new Map<string, number>()
  return {
    prepare: (input) =>
      Effect.suspend(() => {
        const outcome = prepare(input, options, ratios)
        return "_tag" in outcome ? Effect.fail(outcome) : Effect.succeed(outcome)
      })
  }
}

const prepare = (
  input: ContextInput,
  options: CompactingOptions,
  ratios: Map<string, number>
): PreparedContext | CompactionDue | ContextTooLarge | WindowUnknown => {
  const view = input.view ?? viewOutside(input)
  const { limits, promptAt = lastPrompt(view.history) } = input
  const { trigger = 0.85, warnAt = 0.75 } = options
  if (options.strict === true && input.contextTokens === undefined)
    return { _tag: "WindowUnknown", ...defined({ profile: view.profile }) }
  const { contextTokens, maxOutputTokens, reservedTokens } = input
  // The input is not spread: that would read the list of all messages.
  const room = roomOf(
    { contextTokens, maxOutputTokens, reservedTokens, maxContextTokens: limits.maxContextTokens },
    options.contextTokens ?? assumedWindow
  )
  const key = view.profile ?? ""
  const ratio = ratios.get(key) ?? 1
  const parts = partsOf(input, view)
  const fixed = parts.system + parts.tools + parts.sections + parts.memory
  const usable = Math.floor(room.budget / ratio) - fixed
  const limit = limits.maxContextTokens ?? room.budget
  const tooLarge = (tokens: number, reason: string): ContextTooLarge => ({
    _tag: "ContextTooLarge",
    // A top-up has to be above what is needed, and above what did not suffice.
    tokens: Math.max(limit + 1, Math.ceil(tokens * ratio)),
    limit,
    reason
  })
  const planInput = {
    history: view.history,
    compaction: view.compaction,
    promptAt,
    recall: input.recall,
    count: view.countMessage,
    pinned: view.pinned,
    alsoPinned: () => (options.pinned === undefined ? none : pinnedBy(options.pinned, view.history)),
    usable,
    trigger,
    isForced: view.compacting !== undefined && view.compacting.reason !== "full"
  }
  if (usable <= 0)
    return tooLarge(
      fixed + 1,
      "the instructions, the tools and the sections alone leave no room for messages"
    )
  const made = plan(planInput)
  const selected = made._tag === "Keep" ? made.view : viewOf(planInput)
  const usage = usageOf({ room, parts, ratio, trigger, fixed, usable }, selected)
  if (made._tag === "TooLarge") return tooLarge(fixed + made.need, reasons[made.because])
  if (made._tag !== "Keep") {
    const { missed = 0, overflows = 0, skippedAt } = view.compaction ?? {}
    const fits = usage.used <= usage.usable
    if (made._tag === "Summarize" && (missed >= mostMisses || overflows > mostMisses))
      return tooLarge(fixed + made.tokensBefore, reasons.missed)
    const isSkipped = skippedAt === History.size(view.history)
    // A vetoed compaction is not proposed again before the conversation has gone on.
    if (!isSkipped || !fits || view.compacting !== undefined) return due(made, usage, options, ratio)
    if (!fits) return tooLarge(fixed + made.tokensBefore, reasons.tail)
  }
  const estimated = fixed + selected.tokens + selected.summaryTokens
  return {
    instructions: input.instructions,
    messages: selected.messages,
    usage,
    isNearlyFull: usage.used >= warnAt * usage.usable,
    counted: (inputTokens) => {
      const reported = inputTokens / Math.max(1, estimated)
      if (reported < leastRatio || reported > mostRatio) return
      const before = ratios.get(key)
      ratios.set(key, before === undefined ? reported : before + weight * (reported - before))
    },
    overflowed: () => {
      ratios.set(key, Math.min(mostRatio, (ratios.get(key) ?? 1) * 1.1))
    }
  }
}

const none: ReadonlyArray<never> = []

const due = (
  made: Extract<Plan, { readonly _tag: "Prune" | "Summarize" }>,
  usage: ContextUsage,
  { before, contextTokens = assumedWindow, guidance, profile }: CompactingOptions,
  ratio: number
): CompactionDue => ({
  _tag: "CompactionDue",
  plan: made,
  usage,
  summary: { assumedWindow: contextTokens, ratio, ...defined({ before, guidance, profile }) }
})

const reasons = {
  latest: "the latest message alone does not fit",
  pinned: "the pinned messages and the latest one alone do not fit: unpin some",
  tail: "the newest step alone does not fit",
  missed:
    "two compactions in a row did not make enough room: fork the run, choose a model with a larger window, or unpin messages"
} as const

interface Parts {
  readonly system: number
  readonly tools: number
  readonly sections: number
  readonly memory: number
}

const partsOf = ({ instructions, memory = [], sections = [] }: ContextInput, view: ContextView): Parts => {
  const sum = (messages: ReadonlyArray<Message>) =>
    messages.reduce((tokens, message) => tokens + view.countMessage(message), 0)
  return {
    system: view.countText(instructions),
    tools: view.toolTokens,
    sections: sum(sections),
    memory: sum(memory)
  }
}

const usageOf = (
  measured: {
    readonly room: Room
    readonly parts: Parts
    readonly ratio: number
    readonly trigger: number
    readonly fixed: number
    readonly usable: number
  },
  { summaryTokens, tokens }: { readonly tokens: number; readonly summaryTokens: number }
): ContextUsage => {
  const { fixed, parts, ratio, room, trigger, usable } = measured
  const corrected = (count: number) => Math.round(count * ratio)
  return {
    window: room.window,
    isWindowKnown: room.isWindowKnown,
    output: room.output,
    reserve: room.reserve,
    system: corrected(parts.system),
    tools: corrected(parts.tools),
    sections: corrected(parts.sections),
    memory: corrected(parts.memory),
    summary: corrected(summaryTokens),
    history: corrected(tokens),
    used: corrected(fixed + tokens + summaryTokens),
    usable: room.budget,
    trigger: corrected(fixed + trigger * Math.max(0, usable)),
    ratio
  }
}

/** The view of a caller that has the messages only, such as a policy around this one. */
const viewOutside = ({ messages }: ContextInput): ContextView => ({
  history: History.fromArray(messages),
  pinned: [],
  countMessage: roughMessage,
  countText: roughText,
  toolTokens: 0
})

const roughText = (text: string): number => Math.ceil(text.length / 3)
const roughMessage = (message: Message): number => roughText(JSON.stringify(message.content))

const lastPrompt = (history: History.History): number => {
  let sequence = History.size(history) - 1
  while (sequence > 0) {
    const message = History.at(history, sequence)
    if (message?.role === "user" && message.origin !== "runtime") break
    sequence -= 1
  }
  return Math.max(0, sequence)
}

/** The messages that a predicate pins. It is asked once for each message. */
const pinnedBy = (
  isPinned: (message: Message) => boolean,
  history: History.History
): ReadonlyArray<number> => {
  const found: Array<number> = []
  for (let sequence = 0; sequence < History.size(history); sequence += 1) {
    const message = History.at(history, sequence)!
    if (isPinned(message)) found.push(sequence)
  }
  return found
}
