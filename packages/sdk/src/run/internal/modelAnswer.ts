/**
 * The outcome of a model call: an answer, checked because its client may be written without types, or a failure.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { attempt, describe, logFailure } from "../../agent/internal/userCode.ts"
import type { PreparedContext } from "../../context/PolicyDefinition.ts"
import { isDeeperThan, maxGivenDepth } from "../../domain/internal/json.ts"
import { AnsweredPart, FinishReason } from "../../domain/RunEvent.ts"
import type { ModelUsage } from "../../domain/Usage.ts"
import { changed, ofClient } from "../../model/internal/modelError.ts"
import { ModelError } from "../../model/ModelError.ts"
import type { Ending, ModelResponse } from "../../model/ModelPart.ts"
import type { ModelRequest } from "../../model/ModelRequest.ts"
import { remember } from "../../model/Tokenizer.ts"
import { calledOf } from "../calls/userCalls.ts"
import { type AgentRun, stateOf, nextRequestId, isEnding, isStopped, timeLeftOf } from "./AgentRun.ts"
import { isStored } from "./Contents.ts"
import { now, emit } from "./Drive.ts"
import { failRun } from "./failRun.ts"
import { isUnsent } from "./modelRequest.ts"

/** An answer that can be stored, or the error of one that cannot. Both have the usage. */
type Answer = Sound | { readonly fault: ModelError; readonly usage: ModelUsage }

interface Sound extends Omit<Ending, "paused"> {
  readonly content: ReadonlyArray<AnsweredPart>
}

/** Checks an answer. Corrects its usage; any other problem is a fault. */
const soundAnswer = (response: ModelResponse | undefined): Answer => {
  let usage = noUsage
  try {
    usage = soundUsage(response?.usage)
    const answer = read(response, usage)
    return typeof answer === "string" ? { fault: ofClient(answer), usage } : answer
  } catch {
    return { fault: ofClient("an object that throws when it is read"), usage }
  }
}

/** The checked answer, or a description of its problem, which completes the sentence of `ofClient`. */
const read = (response: ModelResponse | undefined, usage: ModelUsage): Sound | string => {
  const { content, finishReason, lastInputTokens, profile }: Loose = response ?? {}
  if (!Array.isArray(content)) return "content that is not an array"
  let parts: ReadonlyArray<AnsweredPart> = content
  for (let index = 0; index < content.length; index += 1) {
    const given: unknown = content[index]
    const part = soundPart(given)
    if (part === undefined) return "a content part that is not valid"
    if (refersToStore(part)) return "a reference to a content of the run store, in place of the bytes"
    if (part !== given) parts = parts.with(index, part)
  }
  if (!isFinishReason(finishReason)) return "no valid finishReason"
  const answer: { -readonly [Key in keyof Sound]: Sound[Key] } = { content: parts, finishReason, usage }
  if (typeof profile === "string") answer.profile = profile
  else if (profile !== undefined) return "a profile that is not a string"
  if (lastInputTokens !== undefined) answer.lastInputTokens = count(lastInputTokens)
  return answer
}

type Loose = { readonly [Key in keyof ModelResponse]?: unknown }

const isFinishReason = (reason: unknown): reason is FinishReason =>
  (FinishReason.literals as ReadonlyArray<unknown>).includes(reason)

/** A part in the journal's form; `undefined` if it is not valid. Most parts are returned unchanged. */
const soundPart = (part: unknown): AnsweredPart | undefined => {
  if (typeof part !== "object" || part === null) return undefined
  if (isPlain(part as AnsweredPart)) return part as AnsweredPart
  // Refuses a part that could not be read back from the journal.
  if (isDeeperThan(part, maxGivenDepth)) return undefined
  const fields = Object.fromEntries(Object.entries(part).filter(([, field]) => field !== undefined))
  return Result.getOrUndefined(decodePart(fields))
}

/** Whether a part refers to a content of the store, which may be one of another session. */
const refersToStore = (part: AnsweredPart): boolean =>
  (part._tag === "text" && part.whole !== undefined) || isStored(part)

const decodePart = Schema.decodeUnknownResult(AnsweredPart)

/** A fast check for texts and calls without further fields; the schema is slower. */
const isPlain = (part: AnsweredPart): boolean => {
  switch (part._tag) {
    case "text":
    case "reasoning":
      return typeof part.text === "string" && hasFields(part, 2)
    case "toolCall": {
      const { arguments: args, name, providerCallId } = part
      const areTexts =
        typeof args === "string" && typeof name === "string" && typeof providerCallId === "string"
      return areTexts && hasFields(part, 4)
    }
    default:
      return false
  }
}

const hasFields = (part: object, count: number): boolean => {
  let found = 0
  for (const _ in part) found += 1
  return found === count
}

/**
 * Usage that can be stored. Providers may report invalid values: an invalid count becomes 0, an invalid cost is left out, and counts and
 * costs are capped at the largest representable value.
 */
export const soundUsage = (given: ModelUsage | undefined): ModelUsage => {
  const usage: Partial<ModelUsage> = given ?? {}
  const { cacheWriteTokens, costUsd } = usage
  const sound: { -readonly [Key in keyof ModelUsage]: ModelUsage[Key] } = {
    inputTokens: count(usage.inputTokens),
    cachedInputTokens: count(usage.cachedInputTokens),
    outputTokens: count(usage.outputTokens),
    reasoningTokens: count(usage.reasoningTokens)
  }
  if (cacheWriteTokens !== undefined) sound.cacheWriteTokens = count(cacheWriteTokens)
  if (typeof costUsd === "number" && costUsd >= 0) sound.costUsd = Math.min(costUsd, Number.MAX_VALUE)
  return sound
}

const count = (value: unknown): number =>
  typeof value === "number" && value > 0 ? Math.min(Math.round(value), Number.MAX_SAFE_INTEGER) : 0

const noUsage: ModelUsage = soundUsage(undefined)

/** Fails the run because a service of the program failed. The cause is logged. */
export const failDefect = (
  run: AgentRun,
  code: "context policy" | "model client",
  cause: Cause.Cause<unknown>
): Effect.Effect<void> => {
  const { runtime } = run.drive
  const description = `The ${code} failed: ${describe(runtime, Cause.squash(cause))}`
  return Effect.andThen(
    logFailure(runtime, calledOf(run, code), cause),
    failRun(run, { _tag: "RunDefect", description })
  )
}

/**
 * Emits the event of an answer; `selected` is the context that the policy selected. Returns the error, and emits nothing, if the answer
 * is not valid.
 */
export const takeAnswer = (
  run: AgentRun,
  request: ModelRequest,
  response: ModelResponse,
  selected: PreparedContext
): ModelError | undefined => {
  const answer = soundAnswer(response)
  const { usage } = answer
  // The call's usage is charged although its answer is not valid.
  if ("fault" in answer) return changed(answer.fault, { usage })
  const { content, finishReason, lastInputTokens, profile } = answer
  const counted = lastInputTokens === undefined ? usage : { ...usage, inputTokens: lastInputTokens }
  remember(request, counted)
  // The context policy counts messages without the bytes of stored files, and without sections.
  if (selected.messages !== request.messages) remember({ ...request, messages: selected.messages }, counted)
  selected.counted?.(counted.inputTokens)
  const event = { _tag: "model.answered", at: now(run.drive), content, usage, finishReason } as const
  emit(run, profile === undefined ? event : { ...event, profile })
  return undefined
}

/**
 * Handles a model call without an answer: charges its usage, and then opens a `login` request or fails the run. A run that was stopped or
 * is out of time does not fail here.
 */
export const notAnswered = (
  run: AgentRun,
  request: ModelRequest,
  cause: Cause.Cause<unknown>
): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { drive } = run
    const { runtime } = drive
    const state = stateOf(run)
    const error: unknown = Cause.squash(cause)
    const isOfModel = isModelError(error)
    if (isOfModel) charge(run, error)
    if (isStopped(run, cause) || isSuspendedUnsent(run, request, cause)) return Effect.void
    // The run's time budget ended before the model's timeout. The loop handles that.
    if (isOutOfTime(run)) return Effect.void
    if (!isOfModel) return failDefect(run, "model client", cause)
    const { reason } = error
    if (reason._tag !== "LoginRequired" || !state.asks) {
      return failRun(run, {
        _tag: "ModelFailed",
        reason: reason._tag,
        description: describe(runtime, reason.description),
        isRetryable: error.isRetryable
      })
    }
    const requestId = nextRequestId(run)
    const at = now(drive)
    emit(run, {
      _tag: "request.opened",
      at,
      request: {
        _tag: "login",
        requestId,
        runId: state.runId,
        agentPath: state.agentPath,
        at,
        profile: reason.profile,
        message: describe(runtime, reason.description)
      }
    })
    return Effect.void
  })

/** Whether the wait of a request for its turn was interrupted because the run is being suspended. */
const isSuspendedUnsent = (run: AgentRun, request: ModelRequest, cause: Cause.Cause<unknown>): boolean =>
  Cause.hasInterruptsOnly(cause) && isUnsent(request) && isEnding(run)

/** Charges the usage of a model call without an answer, if the provider reported it. */
export const charge = (run: AgentRun, { usage }: ModelError): void => {
  if (usage === undefined) return
  emit(run, { _tag: "model.charged", at: now(run.drive), usage: soundUsage(usage) })
}

/** Whether the time budget of the run or of a run above it is exhausted. */
export const isOutOfTime = (run: AgentRun): boolean => (timeLeftOf(run) ?? 1) <= 0

/** Whether an error is a `ModelError`. Safe for any thrown value, such as a proxy that throws when it is inspected. */
export const isModelError = (error: unknown): error is ModelError =>
  attempt(() => error instanceof ModelError) === true
