/**
 * The loop: asks `next` what has to happen, makes it happen, folds the events, until the run is held or over.
 *
 * This is the only place with effects between a state and its successor. It never runs user code to find out where it was, it
 * calls the model only when every call of the turn is settled, and it commits before it does what must not be done twice. One
 * mechanism stops it, whoever asks: the cancellation token interrupts the fiber that drives, and interrupting the fiber that
 * waits for it cancels the token.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Schema from "effect/Schema"
import type { Decision } from "../domain/Decision.ts"
import { decide, expiryDecision } from "../domain/decide.ts"
import { evolve } from "../domain/evolve.ts"
import type { ToolCallId } from "../domain/Id.ts"
import * as Id from "../domain/Id.ts"
import { type Interruption, isExpired } from "../domain/Interruption.ts"
import { text } from "../domain/Message.ts"
import type { Step } from "../domain/next.ts"
import { next } from "../domain/next.ts"
import { AgentNotFound, type ToolUnavailable } from "../domain/RunError.ts"
import { type RunEvent, wrap } from "../domain/RunEvent.ts"
import type { RunState } from "../domain/RunState.ts"
import { findCall, findRequest, interruptions, isEnded } from "../domain/RunState.ts"
import type * as Cancellation from "./Cancellation.ts"
import { callModel, openLimit } from "./internal/callModel.ts"
import { classify } from "./internal/classify.ts"
import type { Drive, Journal, Restore, Scope } from "./internal/Drive.ts"
import {
  awaited,
  confirmHeld,
  isPromise,
  describe,
  emit,
  emitRoot,
  flush,
  isEnding,
  isStopped,
  now,
  stateOf,
  tellAll
} from "./internal/Drive.ts"
import { eventsOf } from "./internal/eventsOf.ts"
import { reportCalls } from "./internal/reportCalls.ts"
import { checkEditedRequest, decodeDecision } from "./internal/staging.ts"
import { reconcile, settle } from "./internal/settle.ts"
import type { Leaving } from "./runPrompt.ts"
import type { Runtime } from "./Runtime.ts"
import type { RunUpdate } from "./RunUpdate.ts"

/** How a run is driven. */
export interface DriveOptions<E> {
  readonly runtime: Runtime<any>
  readonly journal: Journal<E>
  readonly token: Cancellation.CancellationToken
  readonly onUpdate: ((update: RunUpdate) => void) | undefined
  /** The state to go on from. */
  readonly state: RunState
  /** Events that are folded into `state` already and not committed. */
  readonly staged: ReadonlyArray<RunEvent>
  /** Events that are committed already and that nobody has been told. */
  readonly committed?: ReadonlyArray<RunEvent>
  /** Lets go of the run without ending it. */
  readonly leaving?: Leaving | undefined
}

/** Drives a run until it is held or over, or let go of, and returns its state then. */
export const drive = <E>(
  options: DriveOptions<E>
): Effect.Effect<RunState, E | ToolUnavailable | AgentNotFound> =>
  // An interruption may come at any time; it must find somebody who turns it into a cancellation.
  Effect.uninterruptibleMask((restoreCaller) => driving(options, restoreCaller))

const driving = Effect.fnUntraced(function* <E>(
  options: DriveOptions<E>,
  restoreCaller: Restore
): Effect.fn.Return<RunState, E | ToolUnavailable | AgentNotFound> {
  const { token } = options
  const running: Drive<E> = {
    runtime: options.runtime,
    token,
    leaving: options.leaving,
    clock: yield* Clock.Clock,
    journal: options.journal,
    onUpdate: options.onUpdate === undefined ? undefined : guarded(options.onUpdate),
    state: options.state,
    staged: options.staged.slice(),
    untold: []
  }
  if (running.onUpdate !== undefined) {
    const untold = [...(options.committed ?? []), ...options.staged]
    const before = options.state.revision - untold.length
    untold.forEach((event, index) => running.untold.push({ event, revision: before + index + 1 }))
  }
  // The fiber that drives ends interrupted when the run is cancelled; what it came to is kept here.
  let end: Exit.Exit<RunState, E | ToolUnavailable | AgentNotFound> | undefined
  const fiber = yield* Effect.forkChild(
    Effect.uninterruptibleMask((restore) =>
      Effect.map(Effect.exit(loop(running, restore)), (exit) => {
        end = exit
      })
    ),
    { startImmediately: true }
  )
  const unlink = token.onCancel(() => fiber.interruptUnsafe())
  const unleave = options.leaving?.now.onCancel(() => fiber.interruptUnsafe())
  yield* Effect.onInterrupt(restoreCaller(Fiber.await(fiber)), () =>
    Effect.suspend(() => {
      token.cancel("The program that ran it stopped it.")
      return Fiber.await(fiber)
    })
  )
  unlink()
  unleave?.()
  return yield* end ?? Effect.die(new Error("The loop ended without a state."))
})

/** Somebody who watches must not be able to break the run. */
const guarded =
  (onUpdate: (update: RunUpdate) => void) =>
  (update: RunUpdate): void => {
    // The watcher's own failure, at once or later; the run is not the place to tell it.
    const ignore = () => {}
    try {
      const told: unknown = onUpdate(update)
      if (isPromise(told)) told.then(ignore, ignore)
    } catch {
      ignore()
    }
  }

const loop = Effect.fnUntraced(function* <E>(drive: Drive<E>, restore: Restore) {
  const root: Scope<E> = { drive, bound: drive.runtime.bound, path: [], parent: undefined }
  if (drive.staged.length === 0) tellAll(drive)
  yield* flush(drive)
  while (true) {
    const cancelled = drive.token.reason()
    const step = next(drive.state)
    if (cancelled !== undefined && !(step._tag === "Finish" && isEnded(drive.state))) {
      emitRoot(drive, {
        _tag: "run.cancelled",
        at: now(drive),
        reason: cancelled,
        calls: reportCalls(drive.state)
      })
      yield* flush(drive)
      return drive.state
    }
    switch (step._tag) {
      case "Finish":
        finish(root, step)
        yield* flush(drive)
        return drive.state
      case "Hold":
        if (yield* hold(drive, restore)) return drive.state
        break
      default:
        if (isEnding(drive)) {
          yield* flush(drive)
          return drive.state
        }
        yield* confirmHeld(drive)
        yield* perform(root, step, restore)
    }
  }
})

/** Parks the run, unless something can be decided right now. */
const hold = Effect.fnUntraced(function* <E>(drive: Drive<E>, restore: Restore) {
  if (!isEnding(drive) && (yield* decideInline(drive, restore))) return false
  const event = { _tag: "run.held", at: now(drive) } as const
  const held = evolve(drive.state, event)
  if (yield* drive.journal.park([...drive.staged, event], held)) {
    drive.staged.length = 0
    drive.state = held
    drive.untold.push({ event, revision: held.revision })
    tellAll(drive)
    return true
  }
  yield* flush(drive)
  takeDecisions(drive, yield* drive.journal.decisions)
  const { cancelReason } = yield* drive.journal.pulse
  if (cancelReason !== undefined) drive.token.cancel(cancelReason)
  return false
})

/** Decisions that need nobody to come back: expiry, and the approval callback. */
const decideInline = Effect.fnUntraced(function* (drive: Drive<unknown>, restore: Restore) {
  let decided = false
  for (const request of interruptions(drive.state)) {
    if (isEnding(drive)) return true
    if (isExpired(request, now(drive))) {
      decided = takeDecisions(drive, [expiryDecision(request)])
      continue
    }
    // A callback that fails, or answers what does not fit, has not decided: the run is held.
    const answer = yield* Effect.exit(restore(askCallback(drive, request)))
    if (Exit.isFailure(answer) || answer.value === undefined) continue
    for (const event of answer.value) emitRoot(drive, event)
    decided = true
  }
  return decided || isEnding(drive)
})

/** What the approval callback makes of a request: events, or nothing. */
const askCallback = Effect.fnUntraced(function* (drive: Drive<unknown>, request: Interruption) {
  const { runtime } = drive
  const { approvalCallback } = runtime.options
  if (approvalCallback === undefined) return undefined
  const answer = yield* awaited(runtime, () => approvalCallback(request))
  if (answer === undefined) return undefined
  const decision = yield* decodeDecision({ ...answer, requestId: request.requestId }, drive.clock)
  yield* checkEditedRequest(runtime, request, decision)
  return yield* Effect.fromResult(decide(drive.state, decision))
})

/** Folds decisions. One that no longer applies is put on record as such, so that nobody waits for its effect. */
const takeDecisions = (drive: Drive<any>, decisions: ReadonlyArray<Decision>): boolean => {
  for (const decision of decisions)
    for (const event of eventsOf(drive.state, decision)) emitRoot(drive, event)
  return decisions.length > 0
}

const finish = (scope: Scope<any>, step: Extract<Step, { readonly _tag: "Finish" }>): void => {
  const state = stateOf(scope)
  if (isEnded(state)) return
  const at = now(scope.drive)
  // The store closes the requests of a run that has ended; those of a sub-agent's run are closed here.
  if (scope.parent !== undefined) {
    const reason = `the run of ${state.agent.name} has ended`
    for (const { requestId } of interruptions(state)) {
      const path = findRequest(state, requestId)?.path ?? []
      emit(scope, wrap({ _tag: "request.superseded", at, requestId, reason }, path))
    }
  }
  switch (step.end._tag) {
    case "completed":
      return emit(scope, { _tag: "run.completed", at })
    case "cancelled":
      return emit(scope, { _tag: "run.cancelled", at, reason: step.end.reason, calls: reportCalls(state) })
    case "failed":
      return emit(scope, { _tag: "run.failed", at, failure: step.end.failure })
  }
}

/** Makes one step happen, in the run of one agent of the tree. */
const perform = <E>(
  scope: Scope<E>,
  step: Exclude<Step, { readonly _tag: "Hold" | "Finish" }>,
  restore: Restore
): Effect.Effect<void, E | ToolUnavailable | AgentNotFound> => {
  switch (step._tag) {
    case "CallModel":
      return callModel(scope, step.turn, restore)
    case "ClassifyCalls":
      return classifyAll(scope, step.callIds, restore)
    case "SettleToolCalls":
      return settle(scope, step.callIds, restore)
    case "Reconcile":
      return reconcile(scope, step.callIds, restore)
    case "AskLimit":
      return Effect.sync(() => openLimit(scope, step.exceeded))
    case "DecodeOutput":
      return decodeOutput(scope, step.text)
    case "ResumeChild":
      return resumeChild(scope, step.callId, restore)
  }
}

const classifyAll = Effect.fnUntraced(function* (
  scope: Scope<unknown>,
  callIds: ReadonlyArray<ToolCallId>,
  restore: Restore
) {
  for (const callId of callIds) {
    const call = findCall(stateOf(scope), callId)
    if (call === undefined || isEnding(scope.drive)) return
    const classified = yield* Effect.exit(restore(classify(scope, call)))
    if (Exit.isSuccess(classified) || isStopped(scope.drive, classified.cause)) continue
    // The definition of the tool is at fault. The call is over, or it would be classified for ever.
    const why = describe(scope.drive.runtime, Cause.squash(classified.cause))
    const content = [text(`${call.name} could not be prepared, and has not run: ${why}`)]
    emit(scope, { _tag: "tool.failed", at: now(scope.drive), callId, content })
  }
})

/** Goes on with the sub-agent of a call until it is held or over. */
const resumeChild = Effect.fnUntraced(function* <E>(scope: Scope<E>, callId: ToolCallId, restore: Restore) {
  const { drive } = scope
  const state = stateOf(scope)
  const call = findCall(state, callId)
  if (call === undefined) return
  const entry = scope.bound.entries.get(call.name)
  if (entry === undefined || entry.target !== "agent") {
    return yield* new AgentNotFound({ agent: call.name, known: [...scope.bound.entries.keys()] })
  }
  const child: Scope<E> = { drive, bound: entry.bound, path: [...scope.path, callId], parent: scope }
  if (call.child === undefined) {
    const { prompt } = call.arguments as { readonly prompt: string }
    emit(child, {
      _tag: "run.started",
      at: now(drive),
      runId: Id.childRunId(callId),
      sessionId: state.sessionId,
      agent: entry.bound.identity,
      agentPath: [...state.agentPath, entry.name],
      prompt: [text(prompt)],
      limits: entry.bound.limits,
      policy: entry.bound.agent.policy,
      asks: state.asks,
      structured: entry.bound.output !== undefined
    })
  }
  while (!isEnding(drive)) {
    const current = findCall(stateOf(scope), callId)?.child
    if (current === undefined || isEnded(current)) return
    const step = next(current)
    if (step._tag === "Hold") return
    if (step._tag === "Finish") {
      finish(child, step)
    } else {
      yield* confirmHeld(drive)
      yield* perform(child, step, restore)
    }
  }
}) as <E>(
  scope: Scope<E>,
  callId: ToolCallId,
  restore: Restore
) => Effect.Effect<void, E | ToolUnavailable | AgentNotFound>

const decodeOutput = Effect.fnUntraced(function* (scope: Scope<unknown>, answer: string) {
  const { bound, drive } = scope
  const decoder = bound.output
  if (decoder === undefined) return emit(scope, { _tag: "run.completed", at: now(drive) })
  const json = parseAnswer(answer)
  const decoded = json === undefined ? Exit.fail("it is not JSON") : yield* Effect.exit(decoder.decode(json))
  if (Exit.isSuccess(decoded)) {
    const output = (decoder.encode?.(decoded.value) ?? json) as Schema.Json
    return emit(scope, { _tag: "run.completed", at: now(drive), output })
  }
  const issues = describe(drive.runtime, Cause.squash(decoded.cause))
  emit(scope, {
    _tag: "output.rejected",
    at: now(drive),
    message: `The answer does not fit the required form: ${issues}. Answer again, with nothing but JSON that fits.`
  })
})

/** The JSON of an answer, also when the model put it into a code fence. */
const parseAnswer = (answer: string): unknown => {
  const fenced = /^\s*```(?:json)?\s*\n([\s\S]*?)\n\s*```\s*$/.exec(answer)
  try {
    return JSON.parse(fenced?.[1] ?? answer) as unknown
  } catch {
    return undefined
  }
}
