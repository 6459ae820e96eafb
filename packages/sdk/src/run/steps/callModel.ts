/**
 * One model call of a run: prepare the context, ask, and turn what happened into events.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type { BoundAgent } from "../../agent/Entry.ts"
import { attempt, attemptEffect, call, describe, ignoreRejection } from "../../agent/internal/userCode.ts"
import type { ContextTooLarge } from "../../context/ContextPolicy.ts"
import { exceeded, isWrappingUp, nearing } from "../../domain/Budget.ts"
import type { Exceeded } from "../../domain/Limits.ts"
import { exhausted } from "../../domain/next.ts"
import { streamCut } from "../../model/internal/modelError.ts"
import { reading } from "../../model/internal/streamOfIterable.ts"
import { ModelError, TimedOut } from "../../model/ModelError.ts"
import { type Collector, type ModelPart, makeCollector } from "../../model/ModelPart.ts"
import type { ModelRequest } from "../../model/ModelRequest.ts"
import { type AgentRun, budgetTime, isStopped, isThere, timeLeftOf, stateOf } from "../internal/AgentRun.ts"
import { type DriveError, emit, now } from "../internal/Drive.ts"
import { failRun } from "../internal/failRun.ts"
import {
  charge,
  failDefect,
  isModelError,
  isOutOfTime,
  notAnswered,
  takeAnswer
} from "../internal/modelAnswer.ts"
import { contextInput, requestOf } from "../internal/modelRequest.ts"
import { isHalted } from "../internal/stops.ts"
import type { Deadline } from "../internal/Supervisor.ts"
import { calledOf } from "../internal/userCalls.ts"
import { openLimit } from "./limits.ts"

/** Asks the model for the turn's answer within the budgets, and says which of them are running out then. */
export const callModel = Effect.fnUntraced(function* (
  run: AgentRun,
  turn: number
): Effect.fn.Return<void, DriveError> {
  const { drive } = run
  const before = stateOf(run)
  const late = isWrappingUp(before) ? undefined : exceeded(before, budgetTime(run))
  if (late !== undefined) return yield* outOfBudget(run, late)
  if (before.queued.length > 0) emit(run, { _tag: "messages.read", at: now(drive) })
  drive.modelCalls += 1
  yield* askModel(run, turn)
  drive.modelCalls -= 1
  warn(run)
})

/**
 * Asks for the answer in parts. Where that failed before the first part was out, asks for a whole one, once. A part of `callModel`: an
 * effect of its own would take steps of the fiber each turn, and memory while the run waits.
 */
function* askModel(run: AgentRun, turn: number): Effect.fn.Return<void, DriveError> {
  const { bound, drive, supervisor } = run
  const { instructions: given = "" } = bound.agent.options
  const instructions = typeof given === "string" ? given : yield* callInstructions(run, turn, given)
  if (instructions === undefined) return
  const { contextPolicy } = drive.runtime
  const prepared = yield* supervisor.run(
    attemptEffect(() => contextPolicy.prepare(contextInput(run, instructions)))
  )
  if (Exit.isFailure(prepared)) return yield* notPrepared(run, prepared.cause)
  const request = attempt(() => requestOf(run, turn, prepared.value))
  if (request === undefined || Exit.isExit(request)) return yield* notPrepared(run, Cause.fail(noContext))

  const collector = makeCollector()
  const publishing = drive.onUpdate === undefined ? undefined : publisher(run, request, collector)
  const begun = begin(run, request, publishing ?? collector)
  const streamed = yield* supervisor.run(begun, deadlineOf(run))
  publishing?.close()
  const response = Exit.isSuccess(streamed) ? collector.response() : undefined
  if (response !== undefined) {
    const fault = takeAnswer(run, request, response)
    return fault === undefined ? undefined : yield* notAnswered(run, Cause.fail(fault))
  }
  const cause = Exit.isSuccess(streamed) ? Cause.fail(streamCut()) : streamed.cause
  const error: unknown = Cause.squash(cause)
  const mayComeWhole = isModelError(error) && !collector.hasContent() && mayBeWhole(error)
  if (!mayComeWhole || isOutOfTime(run) || isHalted(run)) return yield* notAnswered(run, cause)
  return yield* askWhole(run, request, error)
}

const noContext = new TypeError("it has returned no instructions and messages")

/** Does about a budget what the run's limits and whoever can be asked say. */
const outOfBudget = (run: AgentRun, exceeded: Exceeded): Effect.Effect<void, DriveError> => {
  const step = exhausted(stateOf(run), exceeded)
  if (step._tag === "AskLimit" || step._tag === "AskWrapUp") return run.perform(run, step)
  return step._tag === "Finish" && step.end._tag === "failed" ? failRun(run, step.end.failure) : Effect.void
}

const warn = (run: AgentRun): void => {
  const { drive } = run
  for (let at: AgentRun | undefined = run; at !== undefined; at = at.parent) {
    if (!isThere(at)) continue
    for (const budget of nearing(stateOf(at), budgetTime(at))) {
      emit(at, { _tag: "budget.nearing", at: now(drive), ...budget })
    }
  }
}

/** What a function of the program gives as instructions; `undefined` where it failed, or the run was stopped. */
const callInstructions = Effect.fnUntraced(function* (
  run: AgentRun,
  turn: number,
  instructions: Exclude<BoundAgent["agent"]["options"]["instructions"], string | undefined>
) {
  const { runtime } = run.drive
  const state = stateOf(run)
  const instructed = yield* run.supervisor.run(
    call<unknown>(runtime, calledOf(run, "instructions"), () => instructions({ state, turn }))
  )
  if (Exit.isFailure(instructed) && isStopped(run, instructed.cause)) return undefined
  if (Exit.isSuccess(instructed) && typeof instructed.value === "string") return instructed.value
  const why = Exit.isFailure(instructed)
    ? describe(runtime, Cause.squash(instructed.cause))
    : "what they returned is not a text"
  const description = `The instructions of ${run.bound.agent.name} failed: ${why}`
  yield* failRun(run, { _tag: "RunDefect", description })
  return undefined
})

const notPrepared = (run: AgentRun, cause: Cause.Cause<unknown>): Effect.Effect<void> => {
  if (isStopped(run, cause)) return Effect.void
  const error: unknown = Cause.squash(cause)
  if (isContextTooLarge(error)) return overContext(run, error)
  return failDefect(run, "context policy", cause)
}

/** Begins to read an answer. A client that throws has failed; what would not be closed is not opened. */
const begin = ({ drive, supervisor }: AgentRun, request: ModelRequest, sink: Pick<Collector, "add">) =>
  supervisor.isStopped()
    ? Exit.interrupt()
    : attempt(() => reading(requireStream(drive.runtime.model.stream(request)), sink))

/** Asks for a whole answer where asking for parts has failed. */
const askWhole = Effect.fnUntraced(function* (run: AgentRun, request: ModelRequest, error: ModelError) {
  const { drive, supervisor } = run
  charge(run, error)
  const { agentPath, runId: agentRunId, turn } = request
  const { runId } = drive.state
  drive.onUpdate?.({ _tag: "fallback", runId, agentRunId, agentPath, turn, reason: error.reason._tag })
  const whole = yield* supervisor.run(
    attemptEffect(() => drive.runtime.model.complete(request)),
    deadlineOf(run)
  )
  const fault = Exit.isSuccess(whole) ? takeAnswer(run, request, whole.value) : undefined
  if (Exit.isFailure(whole)) yield* notAnswered(run, whole.cause)
  else if (fault !== undefined) yield* notAnswered(run, Cause.fail(fault))
})

/** What a client of a program without types returns may be anything. */
const requireStream = <A>(stream: A): A => {
  if (Stream.isStream(stream)) return stream
  ignoreRejection(stream)
  throw new TypeError("It has returned something that is no stream.")
}

/** Tells each part before it is the next one's turn. */
const publisher = ({ drive }: AgentRun, request: ModelRequest, collector: Collector) => {
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

/** How long one model call may take: its own time, or what is left of that of the run and of those above it. */
const deadlineOf = (run: AgentRun): Deadline<ModelError> => {
  const { modelTimeoutMs } = stateOf(run).limits
  return { ms: Math.max(1, Math.min(modelTimeoutMs, timeLeftOf(run) ?? modelTimeoutMs)), late: timedOut }
}

const timedOut = (ms: number): ModelError =>
  new ModelError({
    reason: new TimedOut({ description: `There was no whole answer within ${ms} ms.`, timeoutMs: ms })
  })

const isContextTooLarge = (error: unknown): error is ContextTooLarge =>
  attempt(() => {
    const { _tag, limit, tokens } = (error ?? {}) as Partial<ContextTooLarge>
    return _tag === "ContextTooLarge" && Number.isFinite(limit) && Number.isFinite(tokens)
  }) === true

const overContext = (run: AgentRun, { tokens, limit }: ContextTooLarge): Effect.Effect<void> => {
  const exceeded = { budget: "context", limit, spent: tokens } as const
  return stateOf(run).asks
    ? Effect.sync(() => openLimit(run, exceeded))
    : failRun(run, { _tag: "BudgetExceeded", ...exceeded })
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
