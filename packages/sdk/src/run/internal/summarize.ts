/**
 * Writes the summary of a compaction: asks a model, checks its answer, and falls back to a digest.
 *
 * The caller provides the function that calls the model, so that a step of a driven run and a compaction by command share this module.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { BoundAgent } from "../../agent/Entry.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { Summarize } from "../../context/CompactionPlan.ts"
import type { ContextUsage } from "../../context/ContextUsage.ts"
import { digestMessages, fit } from "../../context/internal/digest.ts"
import { aroundSummary, target } from "../../context/internal/plan.ts"
import { stepsFrom } from "../../context/internal/steps.ts"
import {
  instructions,
  judgeSummary,
  promptVersion,
  requestText
} from "../../context/internal/summaryRequest.ts"
import { transcribe } from "../../context/internal/transcript.ts"
import { viewOf } from "../../context/internal/view.ts"
import type { SummaryOptions } from "../../context/PolicyDefinition.ts"
import { evolve } from "../../domain/evolve.ts"
import * as History from "../../domain/History.ts"
import { defined } from "../../domain/internal/defined.ts"
import { type Message, text, textOf } from "../../domain/Message.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { ModelUsage } from "../../domain/Usage.ts"
import type { ModelResponse } from "../../model/ModelPart.ts"
import type { ModelRequest } from "../../model/ModelRequest.ts"
import { contextInput, known } from "./contextInput.ts"
import { isModelError, soundUsage } from "./modelAnswer.ts"
import { redactText } from "./redact.ts"

/** The run, the plan and the functions from which a summary is written. */
export interface Summarizing {
  readonly runtime: Runtime
  readonly bound: BoundAgent
  readonly state: RunState
  readonly plan: Summarize
  readonly usage: ContextUsage
  readonly options: SummaryOptions
  /** Whether a model may be called. If not, the summary is a digest. */
  readonly mayCallModel: boolean
  /** Calls the model. The exit is an interruption if the run was stopped. */
  readonly complete: (request: ModelRequest) => Effect.Effect<Exit.Exit<ModelResponse, unknown>>
  readonly emit: (event: RunEvent) => void
  readonly now: () => number
  /** Called before each model call, with a description of it. */
  readonly onProgress?: (what: string) => void
}

/** A failed model call after which no digest is written: the caller treats it like any failed model call. */
export interface SummaryFailed {
  readonly request: ModelRequest
  readonly cause: Cause.Cause<unknown>
}

/** A range of the plan that one model call takes. */
interface Part {
  readonly to: number
  readonly transcript: string
}

/** Output tokens beyond those of the summary, for models that reason first. */
const forReasoning = (window: number): number => Math.min(4096, Math.floor(window / 8))

/**
 * Writes the summary of one part of the plan, and emits `context.compacted`. Returns the model call that failed, if no summary was written.
 */
export const summarize = Effect.fnUntraced(function* (
  summarizing: Summarizing
): Effect.fn.Return<SummaryFailed | undefined> {
  const { bound, emit, mayCallModel, now, options, plan, runtime, state } = summarizing
  const { countText } = viewFunctions(summarizing)
  const profiles = [options.profile ?? bound.agent.options.profile, bound.agent.options.profile]
  const part = partOf(summarizing, profiles[0])
  const most = plan.mostSummary - aroundSummary
  const previous = state.compaction?.summary?.text
  if (mayCallModel) {
    for (const [index, profile] of profiles.entries()) {
      const request = requestOf(summarizing, part, profile)
      summarizing.onProgress?.(index === 0 ? "summarizing" : "summarizing again")
      const exit = yield* summarizing.complete(request)
      if (Exit.isFailure(exit)) {
        const error: unknown = Cause.squash(exit.cause)
        const isLast = index === profiles.length - 1
        if (!isModelError(error) || (isLast && !isFinal(error.reason._tag)))
          return { request, cause: exit.cause }
        if (error.usage !== undefined)
          emit({ _tag: "model.charged", at: now(), usage: soundUsage(error.usage) })
        continue
      }
      const { usage } = exit.value
      const judged = attemptJudge(exit.value)
      if ("text" in judged) {
        const summary = fit(judged.text, most, countText) ?? judged.text.slice(0, most)
        const { profile: model = profile } = exit.value
        record(summarizing, part, { summary, quality: "model", model, usage: soundUsage(usage) })
        return undefined
      }
      yield* Effect.logWarning(`The summary of the run ${state.runId} was refused: ${judged.refused}.`)
      emit({ _tag: "model.charged", at: now(), usage: soundUsage(usage) })
    }
  }
  const summary = digestMessages(messagesOf(state.history, plan.from, part.to), {
    previous,
    most,
    count: countText
  })
  yield* Effect.logWarning(`No model summarized the run ${state.runId}; its context holds a digest.`)
  record(summarizing, part, { summary: redactText(runtime.scrubber, summary), quality: "degraded" })
  return undefined
})

/** The highest cost of a plan's summary, in requests and estimated tokens, if no request is repeated. */
export interface SummaryCost {
  readonly requests: number
  readonly inputTokens: number
  readonly maxOutputTokens: number
}

/** Estimates the cost of a plan's summary. Calls no model. */
export const costOf = (
  summarizing: Pick<Summarizing, "bound" | "options" | "plan" | "runtime" | "state" | "usage">
): SummaryCost => {
  const { bound, options, plan, runtime } = summarizing
  const profile = options.profile ?? bound.agent.options.profile
  const { countText } = viewFunctions(summarizing)
  let cost = { requests: 0, inputTokens: 0, maxOutputTokens: 0 }
  let from = plan.from
  while (from < plan.to) {
    const part = partOf({ ...summarizing, plan: { ...plan, from } }, profile)
    const request = requestOf(summarizing, part, profile)
    const tokens = countText(textOf(request.messages[0]?.content ?? [])) + countText(request.instructions)
    cost = {
      requests: cost.requests + 1,
      inputTokens: cost.inputTokens + Math.round(tokens * options.ratio),
      maxOutputTokens:
        cost.maxOutputTokens +
        Math.ceil(plan.mostSummary * options.ratio) +
        forReasoning(windowOf(runtime, options, profile))
    }
    from = part.to
  }
  return cost
}

/** Reasons that a repetition cannot remove, after which the summary is a digest. */
const isFinal = (reason: string): boolean => reason === "InvalidRequest" || reason === "ContextOverflow"

/** A client without types may return any value. */
const attemptJudge = (response: ModelResponse): ReturnType<typeof judgeSummary> => {
  try {
    return judgeSummary(response)
  } catch {
    return { refused: "it is no answer" }
  }
}

const viewFunctions = ({ bound, runtime, state }: Pick<Summarizing, "bound" | "runtime" | "state">) =>
  contextInput({ bound, runtime, state }, "").view!

function* messagesOf(history: History.History, from: number, to: number): Generator<Message> {
  for (let sequence = from; sequence < to; sequence += 1) yield History.at(history, sequence)!
}

const windowOf = (runtime: Runtime, { assumedWindow }: SummaryOptions, profile: string | undefined): number =>
  known(runtime, "contextTokens", profile) ?? assumedWindow

/** As many steps of the plan as the summarizing model can take, at least one. */
const partOf = (
  summarizing: Pick<Summarizing, "bound" | "options" | "plan" | "runtime" | "state">,
  profile: string | undefined
): Part => {
  const { options, plan, runtime, state } = summarizing
  const { countText } = viewFunctions(summarizing)
  const window = windowOf(runtime, options, profile)
  const previous = countText(state.compaction?.summary?.text ?? "")
  const room =
    Math.floor((window * 0.85 - forReasoning(window)) / options.ratio) - plan.mostSummary - previous - 600
  const texts: Array<string> = []
  let left = Math.max(500, room)
  let { from: to } = plan
  for (const step of stepsFrom(state.history, plan.from)) {
    if (step.end > plan.to) break
    const said = [...messagesOf(state.history, step.start, step.end)].map(transcribe).join("\n\n")
    const tokens = countText(said)
    if (texts.length > 0 && tokens > left) break
    texts.push(tokens > left ? (fit(said, left, countText) ?? "") : said)
    left -= tokens
    to = step.end
  }
  return { to, transcript: redactText(runtime.scrubber, texts.join("\n\n")) }
}

const requestOf = (
  { options, plan, runtime, state }: Pick<Summarizing, "options" | "plan" | "runtime" | "state">,
  { transcript }: Part,
  profile: string | undefined
): ModelRequest => ({
  runId: state.runId,
  sessionId: state.sessionId,
  agentPath: state.agentPath,
  turn: state.usage.turns + 1,
  instructions,
  messages: [
    {
      role: "user",
      sequence: 0,
      at: state.startedAt,
      content: [
        text(
          requestText({
            transcript,
            previous: state.compaction?.summary?.text,
            guidance: options.guidance,
            mostWords: Math.max(50, Math.floor(plan.mostSummary * 0.6))
          })
        )
      ]
    }
  ],
  tools: [],
  settings: {
    maxOutputTokens:
      Math.ceil(plan.mostSummary * options.ratio) + forReasoning(windowOf(runtime, options, profile))
  },
  ...defined({ profile })
})

/** Emits the event of a summary, with the size of the context after it. */
const record = (
  summarizing: Summarizing,
  { to }: Part,
  written: {
    readonly summary: string
    readonly quality: "model" | "degraded"
    readonly model?: string | undefined
    readonly usage?: ModelUsage
  }
): void => {
  const { bound, emit, now, options, plan, runtime, state, usage } = summarizing
  const isWhole = to >= plan.to
  const event = {
    _tag: "context.compacted",
    at: now(),
    from: plan.from,
    to,
    summary: written.summary,
    quality: written.quality,
    tokensBefore: usage.used,
    tokensAfter: 0,
    promptVersion,
    ...defined({
      kept: nonEmpty(plan.kept.filter((sequence) => sequence < to)),
      cut: isWhole ? plan.cut : undefined,
      model: written.model,
      usage: written.usage
    }),
    ...(isWhole ? {} : { more: true as const })
  } as const
  const after = evolve(state, event)
  const input = contextInput({ bound, runtime, state: after }, "")
  const view = viewOf({
    history: after.history,
    compaction: after.compaction,
    promptAt: input.promptAt ?? 0,
    recall: input.recall,
    pinned: input.view!.pinned,
    count: input.view!.countMessage
  })
  const fixed = usage.system + usage.tools + usage.sections + usage.memory
  const history = Math.round((view.tokens + view.summaryTokens) * options.ratio)
  const isMissed = isWhole && history > target * (usage.usable - fixed)
  emit({ ...event, tokensAfter: fixed + history, ...(isMissed ? { missed: true as const } : {}) })
}

const nonEmpty = <A>(list: ReadonlyArray<A>): ReadonlyArray<A> | undefined =>
  list.length === 0 ? undefined : list
