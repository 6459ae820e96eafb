/**
 * One model call of a run: prepare the context, ask, and turn what happened into events.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import { attempt, attemptEffect, call, describe, ignoreRejection } from "../../agent/internal/userCode.ts"
import type { ContextInput, ContextTooLarge, PreparedContext } from "../../context/ContextPolicy.ts"
import { isWrappingUp } from "../../domain/Budget.ts"
import * as History from "../../domain/History.ts"
import { cutOff } from "../../model/internal/answerFaults.ts"
import { reading } from "../../model/internal/iterated.ts"
import { changed } from "../../model/internal/modelError.ts"
import { ModelError, TimedOut } from "../../model/ModelError.ts"
import { type Collector, makeCollector, type ModelPart, type ModelResponse } from "../../model/ModelPart.ts"
import type { ModelRequest } from "../../model/ModelRequest.ts"
import { countRequest, remember } from "../../model/Tokenizer.ts"
import { calledOf } from "../internal/calledOf.ts"
import {
  type Drive,
  type Scope,
  emit,
  isStopped,
  nextRequestId,
  now,
  stateOf,
  timeLeftOf
} from "../internal/Drive.ts"
import { failRun } from "../internal/failRun.ts"
import { soundAnswer, soundUsage } from "../internal/soundAnswer.ts"
import { isHalted } from "../internal/stops.ts"
import { type Supervisor, type Deadline } from "../internal/Supervisor.ts"
import { whenKnown } from "../internal/whenKnown.ts"
import { openLimit } from "./limits.ts"

/** A turn's question to the model. */
interface Question {
  readonly scope: Scope
  readonly turn: number
  readonly supervisor: Supervisor
  /** Called once the model has been asked, whatever came of it. */
  readonly whenAsked: (scope: Scope) => void
}

/** Asks the model for the turn's answer. Ends without an event when it was interrupted. */
export const callModel = (question: Question): Effect.Effect<void> => {
  const { supervisor, scope, turn } = question
  const { runtime } = scope.drive
  const { agent } = scope.bound
  const { instructions = "" } = agent.options
  if (typeof instructions === "string") return askWith(question, instructions)
  const state = stateOf(scope)
  const instructed = supervisor.run(
    call<string>(runtime, calledOf(scope, "instructions"), () => instructions({ state, turn }))
  )
  return whenKnown(instructed, (instructed) => {
    const text: unknown = Exit.isSuccess(instructed) ? instructed.value : undefined
    if (typeof text === "string") return askWith(question, text)
    if (Exit.isFailure(instructed) && isStopped(scope, instructed.cause)) return ended(question, Effect.void)
    const why = Exit.isFailure(instructed)
      ? describe(runtime, Cause.squash(instructed.cause))
      : "what they returned is not a text"
    const description = `The instructions of ${agent.name} failed: ${why}`
    return ended(question, failRun(scope, { _tag: "RunDefect", description }))
  })
}

/** What is left to do, and then the question is over. */
const ended = ({ scope, whenAsked }: Question, rest: Effect.Effect<void>): Effect.Effect<void> => {
  if (!Exit.isExit(rest)) return Effect.map(rest, () => whenAsked(scope))
  whenAsked(scope)
  return rest
}

/** Prepares the context, and asks. */
const askWith = (question: Question, instructions: string): Effect.Effect<void> => {
  const { supervisor, scope } = question
  const { drive, bound } = scope
  const { contextPolicy, tokenizer } = drive.runtime
  const { history, limits } = stateOf(scope)
  const prepared = supervisor.run(
    attemptEffect(() =>
      contextPolicy.prepare({
        instructions,
        messages: History.toArray(history),
        limits,
        ...roomOf(scope),
        countTokens: (context) => countRequest(tokenizer, { ...context, tools: bound.definitions })
      })
    )
  )
  return whenKnown(prepared, (prepared) => {
    if (Exit.isFailure(prepared)) return ended(question, notPrepared(scope, prepared.cause))
    const request = attempt(() => requestOf(question, prepared.value))
    return Exit.isExit(request)
      ? ended(question, notPrepared(scope, Cause.fail(noContext)))
      : askFor(question, request)
  })
}

const noContext = new TypeError("it has returned no instructions and messages")

const notPrepared = (scope: Scope, cause: Cause.Cause<unknown>): Effect.Effect<void> => {
  if (isStopped(scope, cause)) return Effect.void
  const error: unknown = Cause.squash(cause)
  if (isContextTooLarge(error)) return overContext(scope, error)
  return failRun(scope, {
    _tag: "RunDefect",
    description: `The context policy failed: ${describe(scope.drive.runtime, error)}`
  })
}

/** Asks for the answer in parts. A client that throws has failed. */
const askFor = (question: Question, request: ModelRequest): Effect.Effect<void> => {
  const { supervisor, scope } = question
  const { model } = scope.drive.runtime
  const collector = makeCollector()
  const told = scope.drive.onUpdate === undefined ? undefined : telling(scope, request, collector)
  // Nobody would close what it opens.
  const begun = supervisor.isStopped()
    ? Exit.interrupt()
    : attempt(() => reading(requireStream(model.stream(request)), told ?? collector))
  return Effect.flatMap(Effect.exit(supervisor.run(begun, deadlineOf(scope))), (exit) => {
    told?.close()
    return streamed(question, request, collector, exit)
  })
}

/** What a client of a program without types returns may be anything. */
const requireStream = <A>(stream: A): A => {
  if (Stream.isStream(stream)) return stream
  ignoreRejection(stream)
  throw new TypeError("It has returned something that is no stream.")
}

/** Tells each part before it is the next one's turn. */
const telling = ({ drive }: Scope, request: ModelRequest, collector: Collector) => {
  const { agentPath, runId: agentRunId, turn } = request
  const { runId } = drive.state
  let isOver = false
  return {
    add: (part: ModelPart): void => {
      // A stream that was left behind has nothing more to say.
      if (isOver) return
      collector.add(part)
      drive.onUpdate?.({ _tag: "delta", runId, agentRunId, agentPath, turn, part })
    },
    close: (): void => {
      isOver = true
    }
  }
}

/** Takes the answer. Where asking failed before the first part was out, asks for a whole one, once. */
const streamed = (
  question: Question,
  request: ModelRequest,
  collector: Collector,
  exit: Exit.Exit<void, ModelError>
): Effect.Effect<void> => {
  const { supervisor, scope, turn } = question
  const { drive } = scope
  const response = Exit.isSuccess(exit) ? collector.response() : undefined
  if (response !== undefined) return ended(question, answered(scope, request, response))
  const cause = Exit.isSuccess(exit) ? Cause.fail(cutOff()) : exit.cause
  const error: unknown = Cause.squash(cause)
  const isWhole = isModelError(error) && !collector.hasContent() && mayBeWhole(error)
  if (!isWhole || isOutOfTime(scope) || isHalted(scope)) return ended(question, notAnswered(scope, cause))
  charge(scope, error)
  const { agentPath, runId: agentRunId } = request
  const { runId } = drive.state
  drive.onUpdate?.({ _tag: "fallback", runId, agentRunId, agentPath, turn, reason: error.reason._tag })
  const whole = attemptEffect(() => drive.runtime.model.complete(request))
  return Effect.flatMap(Effect.exit(supervisor.run(whole, deadlineOf(scope))), (exit) =>
    ended(
      question,
      Exit.isSuccess(exit) ? answered(scope, request, exit.value) : notAnswered(scope, exit.cause)
    )
  )
}

/** Throws where the policy, maybe written without types, has returned no context. */
const requestOf = ({ scope, turn }: Question, prepared: PreparedContext): ModelRequest => {
  const { instructions, messages } = prepared
  if (typeof instructions !== "string" || !Array.isArray(messages)) throw noContext
  const { drive, bound } = scope
  const state = stateOf(scope)
  const { profile, settings } = bound.agent.options
  const { onUpdate } = drive
  const { agentPath, runId } = state
  const request: Mutable<ModelRequest> = {
    runId,
    sessionId: state.sessionId,
    agentPath,
    turn,
    instructions,
    messages,
    tools: bound.definitions
  }
  if (bound.output !== undefined) {
    request.output = { name: bound.agent.name, schema: bound.output.jsonSchema }
  }
  if (profile !== undefined) request.profile = profile
  // Who is asked to come to an end is shown the tools, which the history speaks of, and may call none.
  if (isWrappingUp(state)) request.settings = { ...settings, toolChoice: "none" }
  else if (settings !== undefined) request.settings = settings
  if (onUpdate !== undefined) request.onRetry = retryOf(drive, request)
  return request
}

type Mutable<A> = { -readonly [Key in keyof A]: A[Key] }

const retryOf =
  (
    drive: Drive,
    { agentPath, runId: agentRunId, turn }: ModelRequest
  ): NonNullable<ModelRequest["onRetry"]> =>
  (retry) =>
    drive.onUpdate?.({ _tag: "retry", runId: drive.state.runId, agentRunId, agentPath, turn, ...retry })

const answered = (scope: Scope, request: ModelRequest, response: ModelResponse): Effect.Effect<void> => {
  const answer = soundAnswer(response)
  const { usage } = answer
  // It has cost something all the same.
  if ("fault" in answer) return notAnswered(scope, Cause.fail(changed(answer.fault, { usage })))
  const { content, finishReason, lastInputTokens, profile } = answer
  remember(request, lastInputTokens === undefined ? usage : { ...usage, inputTokens: lastInputTokens })
  const event = { _tag: "model.answered", at: now(scope.drive), content, usage, finishReason } as const
  emit(scope, profile === undefined ? event : { ...event, profile })
  return Effect.void
}

const notAnswered = (scope: Scope, cause: Cause.Cause<unknown>): Effect.Effect<void> => {
  const { drive } = scope
  const { runtime } = drive
  const state = stateOf(scope)
  const error: unknown = Cause.squash(cause)
  const isOfModel = isModelError(error)
  if (isOfModel) charge(scope, error)
  if (isStopped(scope, cause)) return Effect.void
  // Its time was up before the model's: the loop sees to it.
  if (isOutOfTime(scope)) return Effect.void
  if (!isOfModel) {
    return failRun(scope, {
      _tag: "RunDefect",
      description: `The model client failed: ${describe(runtime, error)}`
    })
  }
  const { reason } = error
  if (reason._tag !== "LoginRequired" || !state.asks) {
    return failRun(scope, {
      _tag: "ModelFailed",
      reason: reason._tag,
      description: describe(runtime, reason.description),
      isRetryable: error.isRetryable
    })
  }
  const requestId = nextRequestId(scope)
  const at = now(drive)
  emit(scope, {
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
}

/** How long one model call may take: its own time, or what is left of that of the run and of those above it. */
const deadlineOf = (scope: Scope): Deadline<ModelError> => {
  const { modelTimeoutMs } = stateOf(scope).limits
  return { ms: Math.max(1, Math.min(modelTimeoutMs, timeLeftOf(scope) ?? modelTimeoutMs)), late: timedOut }
}

const timedOut = (ms: number): ModelError =>
  new ModelError({
    reason: new TimedOut({ description: `There was no whole answer within ${ms} ms.`, timeoutMs: ms })
  })

/** Books what a call has cost that brought no answer, as far as the provider has said. */
const charge = (scope: Scope, { usage }: ModelError): void => {
  if (usage === undefined) return
  emit(scope, { _tag: "model.charged", at: now(scope.drive), usage: soundUsage(usage) })
}

/** What is known of the room that the model has. */
const roomOf = ({ bound, drive }: Scope): Pick<ContextInput, "contextTokens" | "reservedTokens"> => {
  const { profile, settings } = bound.agent.options
  const contextTokens: unknown = drive.runtime.model.contextTokens?.(profile)
  if (contextTokens !== undefined && typeof contextTokens !== "number") {
    throw new TypeError("the model client has not returned a number of tokens")
  }
  const reservedTokens = settings?.maxOutputTokens
  if (reservedTokens === undefined) return contextTokens === undefined ? nothingKnown : { contextTokens }
  return contextTokens === undefined ? { reservedTokens } : { contextTokens, reservedTokens }
}

const nothingKnown = {}

/** Whether the time of the whole run is up, or that of one above it. */
const isOutOfTime = (scope: Scope): boolean => (timeLeftOf(scope) ?? 1) <= 0

/** What was thrown may be anything, such as a proxy that throws when it is looked at. */
const isModelError = (error: unknown): error is ModelError =>
  attempt(() => error instanceof ModelError) === true

const isContextTooLarge = (error: unknown): error is ContextTooLarge =>
  attempt(() => {
    const { _tag, limit, tokens } = (error ?? {}) as Partial<ContextTooLarge>
    return _tag === "ContextTooLarge" && Number.isFinite(limit) && Number.isFinite(tokens)
  }) === true

const overContext = (scope: Scope, { tokens, limit }: ContextTooLarge): Effect.Effect<void> => {
  const exceeded = { budget: "context", limit, spent: tokens } as const
  return stateOf(scope).asks
    ? Effect.sync(() => openLimit(scope, exceeded))
    : failRun(scope, { _tag: "BudgetExceeded", ...exceeded })
}

/** Whether a whole answer may come where a stream did not. An overload or a rate limit is the same for both, and was waited for. */
const mayBeWhole = (error: ModelError): boolean => {
  switch (error.reason._tag) {
    case "StreamUnsupported":
      return true
    case "ConnectionLost":
    case "TimedOut":
    case "InvalidResponse":
      return error.isRetryable
    default:
      return false
  }
}
