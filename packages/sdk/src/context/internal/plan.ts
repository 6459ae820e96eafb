/**
 * Plans what to do with a context: keep it, prune it, summarize its oldest steps, or give up.
 *
 * The plan is pure. Counts are those of the configured tokenizer, of the summary and the messages alone: the caller has subtracted everything
 * else from `usable`. A plan never splits a step, never touches an open one, and always keeps the user's latest message and pinned messages.
 * After a plan, no further one is due at once.
 */
import type { Cut } from "../../domain/Compaction.ts"
import * as History from "../../domain/History.ts"
import { defined } from "../../domain/internal/defined.ts"
import { standsAlone, textOf, type ToolMessage } from "../../domain/Message.ts"
import type { Prune, Summarize } from "../CompactionPlan.ts"
import { clear, isClearable, shorten } from "./shortened.ts"
import { type HistoryStep, stepsFrom } from "./steps.ts"
import { keptIn, shownAt, type View, type ViewInput, viewOf } from "./view.ts"

/** The input of a plan. */
export interface PlanInput extends ViewInput {
  /** Returns the sequence numbers of further messages that stay unchanged. Called only if a summary is due. */
  readonly alsoPinned: () => ReadonlyArray<number>
  /** The most tokens of the summary and the messages. */
  readonly usable: number
  /** The part of `usable` above which something is done. */
  readonly trigger: number
  /** Whether to summarize also below the trigger. */
  readonly isForced: boolean
}

/** The plan for a context: keep it, prune it, summarize its oldest steps, or report that it is too large. */
export type Plan =
  | { readonly _tag: "Keep"; readonly view: View }
  | Prune
  | Summarize
  /** The context needs `need` tokens at least. */
  | { readonly _tag: "TooLarge"; readonly need: number; readonly because: "latest" | "pinned" | "tail" }

/** The part of `usable` that a compaction aims at. */
export const target = 0.6

/** Newest steps whose results are not replaced. */
const protectedSteps = 3

/** The tokens of the message around a summary. */
export const aroundSummary = 80

/** The most tokens that a summary may have, with its message. */
const mostSummaryOf = (usable: number): number =>
  Math.max(aroundSummary + 40, Math.min(4000, Math.floor(0.15 * usable)))

/** Plans what to do with a context. */
export const plan = (input: PlanInput): Plan => {
  const { count, history, isForced, trigger, usable } = input
  const latest = latestPrompt(history)
  if (latest !== undefined) {
    const need = count(shownAt(input, latest))
    if (need > usable) return { _tag: "TooLarge", need, because: "latest" }
  }
  const view = viewOf(input)
  const used = view.tokens + view.summaryTokens
  if (!isForced && used <= trigger * usable) return { _tag: "Keep", view }
  const steps = stepsFrom(history, input.compaction?.summary?.to ?? 0)
  return (isForced ? undefined : pruneOf(input, steps, used)) ?? summarizeOf(input, steps, used, latest, view)
}

/** The sequence number of the user's latest message; `undefined` if there is none. */
const latestPrompt = (history: History.History): number | undefined => {
  for (let sequence = History.size(history) - 1; sequence >= 0; sequence -= 1) {
    const message = History.at(history, sequence)
    if (message?.role === "user" && message.origin !== "runtime") return sequence
  }
  return undefined
}

/** Replaces old results, if that frees enough to be worth the loss of the provider's cache. */
const pruneOf = (input: PlanInput, steps: ReadonlyArray<HistoryStep>, used: number): Prune | undefined => {
  const { compaction, count, history, recall, usable } = input
  const open = steps.findIndex(({ isOpen }) => isOpen)
  const last = Math.min(steps.length - protectedSteps, open === -1 ? steps.length : open)
  const before = steps[last]?.start
  if (before === undefined || last <= 0) return undefined
  let freed = 0
  for (let sequence = Math.max(steps[0]!.start, compaction?.cleared ?? 0); sequence < before; sequence += 1) {
    const message = History.at(history, sequence)!
    if (isClearable(message))
      freed += Math.max(0, count(shownAt(input, sequence)) - count(clear(message, recall)))
  }
  const after = used - freed
  const isWorthIt = freed >= Math.max(2000, 0.05 * usable) && after <= 0.8 * input.trigger * usable
  return isWorthIt ? { _tag: "Prune", before, tokensBefore: used, tokensAfter: after } : undefined
}

const summarizeOf = (
  input: PlanInput,
  steps: ReadonlyArray<HistoryStep>,
  used: number,
  latest: number | undefined,
  view: View
): Plan => {
  const { alsoPinned, count, history, isForced, pinned, trigger, usable } = input
  const from = input.compaction?.summary?.to ?? 0
  const { start, tokens } = tailOf(input, steps)
  const hasHead = start > from
  if (!hasHead && isForced && used <= usable) return { _tag: "Keep", view }
  const to = hasHead ? start : from
  const kept = hasHead ? keptBefore(history, to, [...pinned, ...alsoPinned()], latest) : keptIn(input, to)
  const keptTokens = kept.reduce((sum, sequence) => sum + count(shownAt(input, sequence)), 0)
  if (keptTokens > usable) return { _tag: "TooLarge", need: keptTokens, because: "pinned" }
  const mostSummary = hasHead ? mostSummaryOf(usable) : view.summaryTokens
  const others = keptTokens + mostSummary
  const isSmall = tokens + others <= trigger * usable && tokens <= target * usable
  const cut = isSmall ? earlierCut(input, to) : cutOf(input, to, others)
  const after =
    others + tailTokens({ ...input, compaction: { ...input.compaction, ...defined({ cut }) } }, to)
  const sizes = { tokensBefore: used, tokensAfter: after }
  if (!hasHead) {
    if (cut !== undefined && after < used && after <= usable)
      return { _tag: "Prune", before: input.compaction?.cleared ?? 0, cut, ...sizes }
    // There is nothing to leave out. The request may still fit.
    return used <= usable ? { _tag: "Keep", view } : { _tag: "TooLarge", need: used, because: "tail" }
  }
  return after > usable
    ? { _tag: "TooLarge", need: after, because: "tail" }
    : { _tag: "Summarize", from, to, kept, mostSummary, ...defined({ cut }), ...sizes }
}

/** The first message of the newest steps that stay, and their tokens: the newest step, each step from an open one on, and what fits. */
const tailOf = (
  input: PlanInput,
  steps: ReadonlyArray<HistoryStep>
): { readonly start: number; readonly tokens: number } => {
  const { usable } = input
  const most = Math.min(0.5 * usable, Math.max(2000, Math.min(15_000, 0.25 * usable)))
  const open = steps.findIndex(({ isOpen }) => isOpen)
  let first = steps.length
  let tokens = 0
  for (let index = steps.length - 1; index >= 0; index -= 1) {
    const size = stepTokens(input, steps[index]!)
    const isNeeded = index === steps.length - 1 || (open !== -1 && index >= open)
    if (!isNeeded && tokens + size > most) break
    first = index
    tokens += size
  }
  return { start: steps[first]?.start ?? History.size(input.history), tokens }
}

const stepTokens = (input: PlanInput, { end, start }: HistoryStep): number => {
  let tokens = 0
  for (let sequence = start; sequence < end; sequence += 1) tokens += input.count(shownAt(input, sequence))
  return tokens
}

const tailTokens = (input: PlanInput, from: number): number =>
  stepTokens(input, { start: from, end: History.size(input.history), isOpen: false })

/** The messages before `to` that stay: the user's latest one, and the pinned ones that are no part of a step. */
const keptBefore = (
  history: History.History,
  to: number,
  pinned: ReadonlyArray<number>,
  latest: number | undefined = latestPrompt(history)
): ReadonlyArray<number> => {
  const all = latest === undefined ? pinned : [...pinned, latest]
  return [...new Set(all)]
    .filter((sequence) => sequence < to && standsAlone(History.at(history, sequence)))
    .toSorted((a, b) => a - b)
}

/** The fewest characters to which a result is shortened. */
const fewestCharacters = 80

/** The cut of an earlier compaction, if messages of the tail were shortened by it. */
const earlierCut = ({ compaction }: PlanInput, to: number): Cut | undefined =>
  compaction?.cut !== undefined && compaction.cut.before > to ? compaction.cut : undefined

/** Shortens the longest results of the tail, all to one length, so that the context reaches its target if it can. */
const cutOf = (input: PlanInput, from: number, others: number): Cut | undefined => {
  const { compaction, count, history, usable } = input
  const before = History.size(history)
  const { cut: earlier, ...uncut } = compaction ?? {}
  const results: Array<ToolMessage> = []
  let fixed = others
  let longest = 0
  for (let sequence = from; sequence < before; sequence += 1) {
    const message = shownAt({ ...input, compaction: uncut }, sequence)
    if (message.role === "tool") {
      results.push(message)
      longest = Math.max(longest, textOf(message.content).length)
    } else fixed += count(message)
  }
  if (longest <= fewestCharacters) return earlierCut(input, from)
  const room = target * usable - fixed
  const fits = (characters: number) =>
    results.reduce((sum, message) => sum + count(shorten(message, characters)), 0) <= room
  let low = fewestCharacters
  let high = longest
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (fits(middle)) low = middle
    else high = middle - 1
  }
  return { before, characters: Math.min(low, earlier?.characters ?? low) }
}
