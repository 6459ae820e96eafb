/**
 * One model call of a run: prepares the context, sends the request, and emits the events of its outcome.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type { BoundAgent } from "../../agent/Entry.ts"
import { attempt, attemptEffect, call, describe, ignoreRejection } from "../../agent/internal/userCode.ts"
import type { ContextUsage } from "../../context/ContextUsage.ts"
import type { ContextTooLarge, PreparedContext, WindowUnknown } from "../../context/PolicyDefinition.ts"
import { exceeded, isWrappingUp, nearing } from "../../domain/Budget.ts"
import type { Exceeded } from "../../domain/Limits.ts"
import type { Message } from "../../domain/Message.ts"
import { exhausted } from "../../domain/next.ts"
import { ContentMissing } from "../../domain/RunError.ts"
import { mayCallComplete, streamCut } from "../../model/internal/modelError.ts"
import { reading } from "../../model/internal/streamOfIterable.ts"
import { ModelError, TimedOut } from "../../model/ModelError.ts"
import { type Collector, type ModelPart, makeCollector } from "../../model/ModelPart.ts"
import type { ModelRequest } from "../../model/ModelRequest.ts"
import { RunStoreError } from "../../store/RunStoreError.ts"
import { calledOf } from "../calls/userCalls.ts"
import { type AgentRun, budgetTime, isStopped, isThere, timeLeftOf, stateOf } from "../internal/AgentRun.ts"
import { dueIn, prune } from "../internal/compactionDue.ts"
import { hasStoredFile, requireInline } from "../internal/Contents.ts"
import { contextInput } from "../internal/contextInput.ts"
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
import { isUnsent, requestOf } from "../internal/modelRequest.ts"
import { isRetrievalDue, retrieve } from "../internal/retrieve.ts"
import { instructionsContext } from "../internal/runContext.ts"
import { renderSections } from "../internal/sections.ts"
import { ShownParts } from "../internal/ShownParts.ts"
import { isHalted } from "../internal/stops.ts"
import type { Deadline } from "../internal/Supervisor.ts"
import { openLimit } from "./limits.ts"

/** Calls the model for a turn unless a budget is exhausted, then emits `budget.nearing` for each budget that is nearly exhausted. */
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
 * Calls the model with streaming. If the stream fails before its first content, with an error that a complete call may avoid, makes one
 * complete call. A generator inside `callModel`: an Effect of its own would take steps of the fiber in each turn, and memory while the run
 * waits.
 */
function* askModel(run: AgentRun, turn: number): Effect.fn.Return<void, DriveError> {
  const { drive, supervisor } = run
  const { agent } = run.bound
  // Most agents have constant instructions and no sections, which need no effect.
  const isPlain = typeof agent.options.instructions !== "function" && agent.options.sections === undefined
  const fixed = isPlain
    ? { instructions: (agent.options.instructions as string | undefined) ?? "", sections: none }
    : yield* instructionsAndSections(run, turn)
  if (fixed === undefined) return
  const { sections } = fixed
  let selection = yield* selectContext(run, fixed)
  if (selection === undefined) return
  if (isRetrievalDue(run)) {
    yield* retrieve(run, selection.context)
    if (hasRetrieved(run)) selection = yield* selectContext(run, fixed)
    if (selection === undefined) return
  }
  const selected = selection.context
  // Most requests have no file in the store, and need no effect.
  const isFilled = attempt(() => !hasStoredFile(selected?.messages)) === true
  const filled = isFilled
    ? Exit.succeed(selected)
    : yield* supervisor.run(attemptEffect(() => withFiles(run, selected)))
  if (Exit.isFailure(filled)) return yield* notFilled(run, filled.cause)
  const request = attempt(() => requestOf(run, turn, filled.value, sections))
  if (request === undefined || Exit.isExit(request)) return yield* notPrepared(run, Cause.fail(noContext))

  if (selected.usage !== undefined) publishUsage(run, turn, selected)
  announce(run, request)
  const collector = makeCollector()
  const publishing = drive.onUpdate === undefined ? undefined : publisher(run, request, collector)
  const begun = begin(run, request, publishing ?? collector)
  const streamed = yield* supervisor.run(begun, modelDeadline(run, request))
  publishing?.close()
  const response = Exit.isSuccess(streamed) ? collector.response() : undefined
  if (response !== undefined) {
    const fault = takeAnswer(run, request, response, selected)
    return fault === undefined ? undefined : yield* notAnswered(run, request, Cause.fail(fault))
  }
  const cause = Exit.isSuccess(streamed) ? Cause.fail(streamCut()) : streamed.cause
  if (isStopped(run, cause)) keepSaid(run, collector)
  const error: unknown = Cause.squash(cause)
  if (isOverflow(error) && mayCompact(run, selected)) return overflowed(run, error, selected)
  const mayFallBack = isModelError(error) && !collector.hasContent() && mayRepeat(error) && !isUnsent(request)
  if (!mayFallBack || isOutOfTime(run) || isHalted(run)) return yield* notAnswered(run, request, cause)
  return yield* callComplete(run, request, error, selected)
}

const none: ReadonlyArray<never> = []

/**
 * Asks the policy for the context, which may be any value if the policy was written without types. Returns `undefined` if the run has failed,
 * or if a compaction comes first, which is requested then.
 */
function* selectContext(
  run: AgentRun,
  fixed: Fixed
): Effect.fn.Return<{ readonly context: PreparedContext } | undefined, DriveError> {
  let prepared = yield* prepare(run, fixed)
  if (Exit.isSuccess(prepared)) return { context: prepared.value }
  let due = dueIn(prepared.cause)
  if (due?.plan._tag === "Prune") {
    prune(run, due.plan)
    prepared = yield* prepare(run, fixed)
    if (Exit.isSuccess(prepared)) return { context: prepared.value }
    due = dueIn(prepared.cause)
  }
  if (due === undefined) yield* notPrepared(run, prepared.cause)
  else requestCompaction(run, "full", due.usage)
  return undefined
}

const prepare = (run: AgentRun, { instructions, sections }: Fixed) => {
  const { bound, drive, supervisor } = run
  const { runtime } = drive
  return supervisor.run(
    attemptEffect(() =>
      runtime.contextPolicy.prepare(
        contextInput({ bound, runtime, state: stateOf(run) }, instructions, { sections })
      )
    )
  )
}

/** The parts of a context besides the history: the instructions and the sections. */
interface Fixed {
  readonly instructions: string
  readonly sections: ReadonlyArray<Message>
}

/** The instructions and the rendered sections; `undefined` if the run has failed or was stopped meanwhile. */
export const instructionsAndSections = Effect.fnUntraced(function* (
  run: AgentRun,
  turn: number
): Effect.fn.Return<Fixed | undefined> {
  const { instructions: given = "", sections } = run.bound.agent.options
  const instructions = typeof given === "string" ? given : yield* callInstructions(run, turn, given)
  if (instructions === undefined) return undefined
  const rendered = sections === undefined ? none : yield* renderSections(run, turn, sections)
  return rendered === undefined ? undefined : { instructions, sections: rendered }
})

const hasRetrieved = (run: AgentRun): boolean => (stateOf(run).retrieved?.items.length ?? 0) > 0

const requestCompaction = (run: AgentRun, reason: "full" | "overflow", usage?: ContextUsage): void =>
  emit(run, {
    _tag: "compaction.requested",
    at: now(run.drive),
    by: "runtime",
    reason,
    ...(usage === undefined ? {} : { used: usage.used, usable: usage.usable })
  })

/** Publishes the use of the context, and warns once when it is nearly full. */
const publishUsage = (run: AgentRun, turn: number, { isNearlyFull, usage }: PreparedContext): void => {
  const { drive } = run
  const { agentPath, runId: agentRunId, warned } = stateOf(run)
  if (usage === undefined) return
  if (isNearlyFull === true && warned?.includes("context") !== true)
    emit(run, {
      _tag: "budget.nearing",
      at: now(drive),
      budget: "context",
      limit: usage.usable,
      spent: usage.used
    })
  drive.onUpdate?.({ _tag: "context.usage", runId: drive.state.runId, agentRunId, agentPath, turn, usage })
}

const isOverflow = (error: unknown): error is ModelError =>
  isModelError(error) && error.reason._tag === "ContextOverflow"

/** Whether a compaction may help a call that was too long: not if two in a row did not. */
const mayCompact = (run: AgentRun, { overflowed }: PreparedContext): boolean =>
  overflowed !== undefined && (stateOf(run).compaction?.overflows ?? 0) < mostOverflows && !isHalted(run)

const mostOverflows = 2

/** Compacts the context of a call that the provider refused as too long, and corrects the estimate. */
const overflowed = (run: AgentRun, error: ModelError, selected: PreparedContext): void => {
  charge(run, error)
  selected.overflowed?.()
  requestCompaction(run, "overflow", selected.usage)
}

/** Publishes that the model is about to be called. */
const announce = ({ drive }: AgentRun, { agentPath, profile, runId: agentRunId, turn }: ModelRequest): void =>
  drive.onUpdate?.({
    _tag: "request",
    runId: drive.state.runId,
    agentRunId,
    agentPath,
    turn,
    ...(profile === undefined ? {} : { profile })
  })

/** Keeps what the model had said, in case the run is cancelled. */
const keepSaid = (run: AgentRun, collector: Collector): void => {
  const said = collector.said()
  if (said.some((part) => part.text.trim() !== ""))
    (run.drive.said ??= new Map()).set(stateOf(run).runId, said)
}

const noContext = new TypeError("it did not return instructions and messages")

/** Budget exhausted: opens a `limit` request, asks the model for a summary, or fails the run. */
export const outOfBudget = (run: AgentRun, exceeded: Exceeded): Effect.Effect<void, DriveError> => {
  const step = exhausted(stateOf(run), exceeded)
  if (step._tag === "AskLimit" || step._tag === "AskWrapUp") return run.perform(run, step)
  return step._tag === "Finish" && step.end._tag === "failed" ? failRun(run, step.end.failure) : Effect.void
}

/** Emits `budget.nearing` in the run and in each run above it. */
const warn = (run: AgentRun): void => {
  const { drive } = run
  for (let at: AgentRun | undefined = run; at !== undefined; at = at.parent) {
    if (!isThere(at)) continue
    for (const budget of nearing(stateOf(at), budgetTime(at))) {
      emit(at, { _tag: "budget.nearing", at: now(drive), ...budget })
    }
  }
}

/** Calls the agent's instructions function. Returns `undefined` if it failed, which fails the run, or if the run was stopped. */
const callInstructions = Effect.fnUntraced(function* (
  run: AgentRun,
  turn: number,
  instructions: Exclude<BoundAgent["agent"]["options"]["instructions"], string | undefined>
) {
  const { runtime } = run.drive
  const instructed = yield* run.supervisor.run(
    call<unknown>(runtime, calledOf(run, "instructions"), () => instructions(instructionsContext(run, turn)))
  )
  if (Exit.isFailure(instructed) && isStopped(run, instructed.cause)) return undefined
  if (Exit.isSuccess(instructed) && typeof instructed.value === "string") return instructed.value
  const why = Exit.isFailure(instructed)
    ? describe(runtime, Cause.squash(instructed.cause))
    : "they did not return a text"
  const description = `The instructions of ${run.bound.agent.name} failed: ${why}`
  yield* failRun(run, { _tag: "RunDefect", description })
  return undefined
})

/** The context with the bytes of the files that are in the store. */
const withFiles = (
  { drive }: AgentRun,
  { instructions, messages }: PreparedContext
): Effect.Effect<PreparedContext, ContentMissing | RunStoreError> => {
  const { contents } = drive.journal
  const resolving = contents === undefined ? requireInline(messages) : contents.resolve(messages)
  return Effect.map(resolving, (messages) => ({ instructions, messages }))
}

/** Fails the run if the store does not have a file that the model was to receive. Another failure of the store ends the drive. */
const notFilled = (
  run: AgentRun,
  cause: Cause.Cause<ContentMissing | RunStoreError>
): Effect.Effect<void, DriveError> => {
  if (isStopped(run, cause)) return Effect.void
  const error: unknown = Cause.squash(cause)
  if (error instanceof ContentMissing) {
    const { file, problem, sha256 } = error
    return failRun(run, { _tag: "ContentMissing", sha256, file, problem })
  }
  return error instanceof RunStoreError ? Effect.fail(error) : notPrepared(run, cause)
}

export const notPrepared = (run: AgentRun, cause: Cause.Cause<unknown>): Effect.Effect<void> => {
  if (isStopped(run, cause)) return Effect.void
  const error: unknown = Cause.squash(cause)
  if (isContextTooLarge(error)) return overContext(run, error)
  if (isWindowUnknown(error))
    return failRun(run, {
      _tag: "WindowUnknown",
      ...(typeof error.profile === "string" ? { profile: error.profile } : {})
    })
  return failDefect(run, "context policy", cause)
}

/** Starts reading a stream. A client that throws has failed. No stream is opened once the run is stopped, since nothing would close it. */
const begin = ({ drive, supervisor }: AgentRun, request: ModelRequest, sink: Pick<Collector, "add">) =>
  supervisor.isStopped()
    ? Exit.interrupt()
    : attempt(() => reading(requireStream(drive.runtime.model.stream(request)), sink))

/** Makes a complete call after a failed stream. */
const callComplete = Effect.fnUntraced(function* (
  run: AgentRun,
  request: ModelRequest,
  error: ModelError,
  selected: PreparedContext
) {
  const { drive, supervisor } = run
  charge(run, error)
  request.onFallback?.(error.reason._tag)
  const whole = yield* supervisor.run(
    attemptEffect(() => drive.runtime.model.complete(request)),
    modelDeadline(run, request)
  )
  const fault = Exit.isSuccess(whole) ? takeAnswer(run, request, whole.value, selected) : undefined
  if (Exit.isFailure(whole)) {
    const failure: unknown = Cause.squash(whole.cause)
    if (isOverflow(failure) && mayCompact(run, selected)) overflowed(run, failure, selected)
    else yield* notAnswered(run, request, whole.cause)
  } else if (fault !== undefined) yield* notAnswered(run, request, Cause.fail(fault))
})

/** Checks the return value of a client, which may be written without types. */
const requireStream = <A>(stream: A): A => {
  if (Stream.isStream(stream)) return stream
  ignoreRejection(stream)
  throw new TypeError("its stream method did not return a Stream")
}

/** Publishes each part, without secrets, before the next one is read. */
const publisher = ({ drive }: AgentRun, request: ModelRequest, collector: Collector) => {
  const { agentPath, runId: agentRunId, turn } = request
  const { runId } = drive.state
  let isOver = false
  const shown =
    drive.onUpdate === undefined
      ? undefined
      : new ShownParts(drive.runtime.scrubber, (part) =>
          drive.onUpdate?.({ _tag: "delta", runId, agentRunId, agentPath, turn, part })
        )
  return {
    add: (part: ModelPart): void => {
      // Drops the parts of an abandoned stream.
      if (isOver) return
      collector.add(part)
      shown?.add(part)
    },
    close: (): void => {
      isOver = true
      shown?.end()
    }
  }
}

/** The timeout of a model call: the run's `modelTimeoutMs`, or the time left to the run and the runs above it if that is less. */
export const modelDeadline = (run: AgentRun, request: ModelRequest): Deadline<ModelError> => {
  const { modelTimeoutMs } = stateOf(run).limits
  return {
    ms: Math.max(1, Math.min(modelTimeoutMs, timeLeftOf(run) ?? modelTimeoutMs)),
    late: (timeoutMs) =>
      new ModelError({ reason: new TimedOut({ description: lateText(request, timeoutMs), timeoutMs }) })
  }
}

const lateText = (request: ModelRequest, ms: number): string =>
  isUnsent(request)
    ? `The request waited for its turn under the rate limit of its model and was not sent within ${ms} ms. Raise modelTimeoutMs or the rate limit, or run less at once.`
    : `The answer was not complete within ${ms} ms.`

const isContextTooLarge = (error: unknown): error is ContextTooLarge =>
  attempt(() => {
    const { _tag, limit, tokens } = (error ?? {}) as Partial<ContextTooLarge>
    return _tag === "ContextTooLarge" && Number.isFinite(limit) && Number.isFinite(tokens)
  }) === true

const isWindowUnknown = (error: unknown): error is WindowUnknown =>
  attempt(() => (error as WindowUnknown | undefined)?._tag === "WindowUnknown") === true

const overContext = (run: AgentRun, { limit, reason, tokens }: ContextTooLarge): Effect.Effect<void> => {
  const exceeded = { budget: "context", limit, spent: tokens } as const
  const why = typeof reason === "string" ? { reason } : {}
  return stateOf(run).asks
    ? Effect.sync(() => openLimit(run, exceeded, why.reason))
    : failRun(run, { _tag: "BudgetExceeded", ...exceeded, ...why })
}

/** Whether the run itself makes a complete call after a failed stream. A client that retries has made one as its last attempt. */
const mayRepeat = (error: ModelError): boolean =>
  mayCallComplete(error) && (error.attempts === undefined || error.reason._tag === "StreamUnsupported")
