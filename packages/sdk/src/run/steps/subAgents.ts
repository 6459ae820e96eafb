/**
 * The sub-agents of a run: started, gone on with, asked about, and stopped.
 *
 * Each goes on in a fiber of its own beside the loop, as many at once as the run's `agentConcurrency`. One that is held, or that
 * waits for a budget above it, has no fiber; whoever decides makes it go on.
 */
import * as Effect from "effect/Effect"
import * as Cancellation from "../../agent/Cancellation.ts"
import type { SubAgent } from "../../agent/Entry.ts"
import { missingCalled, obstacleAt, subAgentAt } from "../../agent/internal/definitions.ts"
import { isTurnDue, turn } from "../../agent/internal/eventLoop.ts"
import { carve } from "../../domain/Budget.ts"
import * as Id from "../../domain/Id.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { isAnyReleased, isTurnReleased } from "../../domain/internal/released.ts"
import * as Limits from "../../domain/Limits.ts"
import { text } from "../../domain/Message.ts"
import { constraintsOf, canAdvance, mayStart, next, type Step } from "../../domain/next.ts"
import {
  children,
  findCall,
  findChild,
  isEnded,
  isOpen,
  isSettled,
  type BackgroundRun,
  type RunState
} from "../../domain/RunState.ts"
import { isEnding, awaitChange, isThere, statesOf, stateOf, Scope } from "../internal/AgentRun.ts"
import { childCancellation, closedRequests } from "../internal/cancellation.ts"
import { flush, confirmHeld } from "../internal/commit.ts"
import { emit, now, type Drive } from "../internal/Drive.ts"
import { failRun, stopAll, stopUnder } from "../internal/failRun.ts"
import type { JournalError } from "../internal/Journal.ts"
import { takeMailBeside } from "../internal/leave.ts"
import { profileOptions } from "../internal/startOptions.ts"
import { beginsUnheard, hearStops, isHalted, mayBeHalted } from "../internal/stops.ts"
import { askAbove, roomAbove } from "./limits.ts"

/** The run of a sub-agent in the run that started it; `undefined` of one that the program does not have. */
const scopeOf = (parent: Scope, callId: ToolCallId, found: SubAgent | undefined): Scope =>
  new Scope(parent.drive, Cancellation.make(parent.token), parent.perform, {
    parent,
    callId,
    startedWith: found?.bound
  })

/**
 * Begins the run of the sub-agent of a call, with what is left of the budgets above it. Where nothing is, whoever can top it up
 * is asked; where nobody can, the call has failed.
 */
const begin = (scope: Scope, callId: ToolCallId): void => {
  const state = stateOf(scope)
  const call = findCall(state, callId)
  if (call === undefined) return
  const found = subAgentAt(scope.first, state, callId)
  if (found === undefined) {
    const problem = missingCalled(scope.bound, call)
    return scope.drive.addMissing({ id: callId, arguments: call.arguments, problem })
  }
  const { name, bound } = found
  const limits = carve(statesOf(scope), bound.limits)
  if ("depth" in limits) {
    if (askAbove(scope, limits)) return
    const { budget } = limits.exceeded
    const content = [text(`${name} was not started: nothing is left of the ${budget} budget.`)]
    return emit(scope, { _tag: "tool.failed", at: now(scope.drive), callId, content })
  }
  const { prompt } = call.arguments as { readonly prompt: string }
  emit(
    { drive: scope.drive, path: [...scope.path, callId] },
    {
      _tag: "run.started",
      at: now(scope.drive),
      runId: Id.childRunId(callId),
      sessionId: state.sessionId,
      agent: bound.identity,
      agentPath: [...state.agentPath, name],
      prompt: [text(prompt)],
      limits,
      policy: bound.agent.policy,
      startedWith: profileOptions(scope.drive.runtime),
      ...(state.mayRepeat === undefined ? {} : { mayRepeat: state.mayRepeat }),
      asks: state.asks,
      structured: bound.output !== undefined
    }
  )
}

/** Starts the sub-agent of a call in the background. */
export const startBackground = (scope: Scope, callId: ToolCallId): Effect.Effect<void> =>
  Effect.sync(() => begin(scope, callId))

/** Goes on with the sub-agents of these calls, and waits until one of them has got somewhere. */
export const resumeChildren = Effect.fnUntraced(function* (scope: Scope, callIds: ReadonlyArray<ToolCallId>) {
  for (const callId of callIds) {
    // What was promised to the one before may be all that was left.
    if (findCall(stateOf(scope), callId)?.child === undefined && mayStart(statesOf(scope))) {
      begin(scope, callId)
    }
  }
  const wanted = new Set(callIds)
  yield* goOn(
    scope,
    children(stateOf(scope)).filter(({ callId }) => wanted.has(callId))
  )
  const isWaitedFor = callIds.some((callId) => scope.drive.tasks.has(callId))
  if (isWaitedFor) yield* awaitChange(scope)
})

/** Goes on with what is in the background, and waits until something of it has got somewhere. */
export const awaitChildren = Effect.fnUntraced(function* (scope: Scope) {
  const { missing } = scope.drive
  const known = missing?.size
  yield* goOnInBackground(scope)
  // What was found missing does not go on: then there may be nothing to wait for.
  if (scope.drive.missing !== missing || missing?.size !== known) return
  yield* awaitChange(scope)
})

/** Goes on with everything in the background that can and for which there is room. */
export const goOnInBackground = (scope: Scope): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { background } = stateOf(scope)
    return background === undefined || !isAnyIdle(scope.drive, background)
      ? Effect.void
      : goOn(scope, background)
  })

/** Whether one of them has no fiber. Most of the time all have: then there is nothing to look at more closely. */
const isAnyIdle = (drive: Drive, background: ReadonlyArray<BackgroundRun>): boolean =>
  background.some(({ callId, child }) => child !== undefined && !drive.tasks.has(callId))

/** How many sub-agents of a run are at work. */
const countAtWork = (drive: Drive, state: RunState): number =>
  children(state).filter(({ callId }) => drive.tasks.has(callId)).length

/** Goes on with those that can, as far as there is room. */
const goOn = Effect.fnUntraced(function* (
  scope: Scope,
  candidates: ReadonlyArray<Pick<BackgroundRun, "callId" | "child">>
) {
  const { drive } = scope
  const before = stateOf(scope)
  // One at least: with none, nobody would ever get anywhere.
  const most = Math.max(1, before.limits.agentConcurrency ?? Limits.defaults.agentConcurrency)
  let room = most - countAtWork(drive, before)
  const constraints = constraintsOf(statesOf(scope), drive.constraints)
  for (const { callId, child } of candidates) {
    if (room <= 0 || isEnding(scope)) return
    if (child === undefined || isEnded(child) || drive.tasks.has(callId) || !canAdvance(child, constraints))
      continue
    if (drive.tasks.isStopped(callId)) continue
    // Another that was gone on with may have let this one come to its end meanwhile.
    if (!isThere(scope)) return
    const latest = findChild(stateOf(scope), callId)
    if (latest === undefined || isEnded(latest)) continue
    const missing = obstacleAt(scope.first, stateOf(scope), { callId, child: latest })
    if (missing !== undefined) {
      drive.addMissing(missing)
      // It can still come to an end that was decided for it.
      if (!canAdvance(latest, constraintsOf(statesOf(scope), drive.constraints))) continue
    }
    const childScope = scopeOf(scope, callId, subAgentAt(scope.first, stateOf(scope), callId))
    room -= 1
    // It hears what is said to it, also while its lead is asked something that takes long.
    yield* drive.journal.watch
    yield* drive.tasks.start(
      callId,
      childScope.token,
      Effect.andThen(
        driveChild(childScope, callId),
        // There is room for another one now, whatever its parent is doing.
        Effect.suspend(() => (isEnding(scope) || !isThere(scope) ? Effect.void : goOnInBackground(scope)))
      )
    )
  }
})

/** Goes on with one sub-agent until it is over, or held, or waits for a budget above it. */
const driveChild = Effect.fnUntraced(function* (scope: Scope, callId: ToolCallId) {
  const { drive, parent } = scope
  if (parent === undefined) return
  let isHeard = false
  // A parent that has ended is gone from the state, and with it this run.
  while (!isEnding(scope) && isThere(parent)) {
    if (isTurnDue()) {
      yield* turn
      continue
    }
    scope.seen = drive.changes
    if (drive.hasMail) yield* takeMailBeside(drive)
    const child = isThere(parent) ? findChild(stateOf(parent), callId) : undefined
    if (child === undefined || isEnded(child)) break
    const step = next(child, constraintsOf(statesOf(parent), drive.constraints))
    if (step._tag === "Hold") {
      // One that only waits for the end of a run above is not held.
      if (child.status === "running" && !isHalted(parent)) emit(scope, { _tag: "run.held", at: now(drive) })
      break
    }
    if (!isHeard && beginsUnheard(child, step) && mayBeHalted(scope)) {
      isHeard = true
      yield* hearStops(scope)
      continue
    }
    isHeard = false
    if (child.status === "held") emit(scope, { _tag: "run.resumed", at: now(drive) })
    if (step._tag === "Finish") {
      // What was started under a run that was stopped finishes first.
      if (child.stop !== undefined && countAtWork(drive, child) > 0) {
        yield* awaitChange(scope)
        continue
      }
      yield* finishChild(scope, step)
      break
    }
    if (drive.journal.isStale()) yield* confirmHeld(drive)
    yield* goOnInBackground(scope)
    const room = roomAbove(scope, step)
    if (room === "room") yield* scope.perform(scope, step)
    else if (room !== "waits") yield* failRun(scope, room)
  }
  // Whoever stops it waits for all of it.
  const reason = scope.token.reason()
  if (reason !== undefined && isThere(scope)) {
    yield* drive.tasks.stop(
      children(stateOf(scope)).map(({ callId }) => callId),
      reason
    )
  }
  // What it waits for is in the inbox while the others go on.
  if (!isHalted(parent)) yield* flush(drive)
})

const finishChild = Effect.fnUntraced(function* (
  scope: Scope,
  step: Extract<Step, { readonly _tag: "Finish" }>
) {
  const { drive } = scope
  const { end } = step
  if (end._tag === "cancelled") {
    const under = children(stateOf(scope)).map(({ callId }) => callId)
    yield* drive.tasks.stop(under, end.reason)
    for (const event of childCancellation(stateOf(scope), now(drive), end.reason)) emit(scope, event)
    return
  }
  yield* stopUnder(scope, endText(stateOf(scope), end._tag))
  const state = stateOf(scope)
  const at = now(drive)
  for (const event of closedRequests(state, at)) emit(scope, event)
  emit(
    scope,
    end._tag === "completed"
      ? { _tag: "run.completed", at }
      : { _tag: "run.failed", at, failure: end.failure }
  )
})

const endText = ({ agent }: RunState, end: string): string => `The run of ${agent.name} has ended (${end}).`

/**
 * Asks the model, once, to say how far it has come. Its calls come to an end before: the sub-agents that they wait for are
 * stopped, and nobody needs to decide about the others.
 */
export const askWrapUp = Effect.fnUntraced(function* (scope: Scope, { budget, limit }: Limits.Exceeded) {
  const { drive } = scope
  if (yield* isReleasedMeanwhile(scope)) return
  const used = `the ${budget} budget of ${stateOf(scope).agent.name} is used up`
  const attached = stateOf(scope).calls.flatMap((call) =>
    call.child === undefined || isSettled(call) ? [] : [call.id]
  )
  yield* drive.tasks.stop(attached, used)
  const isReleased = yield* isReleasedMeanwhile(scope)
  const toEnd = attached.filter((callId) => !isReleasedIn(scope, callId))
  for (const callId of attached) if (!toEnd.includes(callId)) drive.tasks.allow(callId)
  yield* stopAll(scope, toEnd, used)
  if (isReleased) return
  const { calls, requests } = stateOf(scope)
  const undecided = calls.filter((call) => !isSettled(call)).map(({ requestId }) => requestId)
  for (const { requestId } of requests.filter(isOpen).map(({ request }) => request)) {
    if (!undecided.includes(requestId)) continue
    emit(scope, { _tag: "request.superseded", at: now(drive), requestId, reason: used })
  }
  emit(scope, { _tag: "wrapUp.asked", at: now(drive), budget, limit })
  // Before anything follows from it: a decision that came first takes it back.
  yield* flush(drive)
})

const isReleasedIn = (scope: Scope, callId: ToolCallId): boolean => {
  const child = findChild(stateOf(scope), callId)
  return child !== undefined && isAnyReleased(child)
}

/** Whether a decision that the run has not seen releases a call of its turn: that runs first. */
const isReleasedMeanwhile = (scope: Scope): Effect.Effect<boolean, JournalError> =>
  Effect.suspend(() => {
    scope.drive.hasMail = true
    return Effect.map(takeMailBeside(scope.drive), () => isTurnReleased(stateOf(scope)))
  })
