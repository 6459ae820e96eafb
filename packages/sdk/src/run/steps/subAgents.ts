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
import { isEnding, awaitChange, isThere, statesOf, stateOf, AgentRun } from "../internal/AgentRun.ts"
import { childCancellation, closedRequests } from "../internal/cancellation.ts"
import { flush } from "../internal/commit.ts"
import { confirmLease } from "../internal/confirmLease.ts"
import { emit, now, type Drive } from "../internal/Drive.ts"
import { failRun, stopAll, stopUnder } from "../internal/failRun.ts"
import type { JournalError } from "../internal/Journal.ts"
import { profileOptions } from "../internal/startOptions.ts"
import { beginsUnheard, hearStops, isHalted, mayBeHalted } from "../internal/stops.ts"
import { takeMailInTask } from "../internal/takeMail.ts"
import { askAbove, roomAbove } from "./limits.ts"

/** The run of a sub-agent in the run that started it; `undefined` of one that the program does not have. */
const childRunOf = (parent: AgentRun, callId: ToolCallId, found: SubAgent | undefined): AgentRun =>
  new AgentRun(parent.drive, Cancellation.make(parent.token), parent.perform, {
    parent,
    callId,
    startedWith: found?.bound
  })

/**
 * Begins the run of the sub-agent of a call, with what is left of the budgets above it. Where nothing is, whoever can top it up
 * is asked; where nobody can, the call has failed.
 */
const begin = (run: AgentRun, callId: ToolCallId): void => {
  const state = stateOf(run)
  const call = findCall(state, callId)
  if (call === undefined) return
  const found = subAgentAt(run.first, state, callId)
  if (found === undefined) {
    const problem = missingCalled(run.bound, call)
    return run.drive.addMissing({ id: callId, arguments: call.arguments, problem })
  }
  const { name, bound } = found
  const limits = carve(statesOf(run), bound.limits)
  if ("depth" in limits) {
    if (askAbove(run, limits)) return
    const { budget } = limits.exceeded
    const content = [text(`${name} was not started: nothing is left of the ${budget} budget.`)]
    return emit(run, { _tag: "tool.failed", at: now(run.drive), callId, content })
  }
  const { prompt } = call.arguments as { readonly prompt: string }
  emit(
    { drive: run.drive, path: [...run.path, callId] },
    {
      _tag: "run.started",
      at: now(run.drive),
      runId: Id.childRunId(callId),
      sessionId: state.sessionId,
      agent: bound.identity,
      agentPath: [...state.agentPath, name],
      prompt: [text(prompt)],
      limits,
      policy: bound.agent.policy,
      startedWith: profileOptions(run.drive.runtime),
      ...(state.mayRepeat === undefined ? {} : { mayRepeat: state.mayRepeat }),
      asks: state.asks,
      structured: bound.output !== undefined
    }
  )
}

/** Starts the sub-agent of a call in the background. */
export const startBackground = (run: AgentRun, callId: ToolCallId): Effect.Effect<void> =>
  Effect.sync(() => begin(run, callId))

/** Goes on with the sub-agents of these calls, and waits until one of them has got somewhere. */
export const resumeChildren = Effect.fnUntraced(function* (
  run: AgentRun,
  callIds: ReadonlyArray<ToolCallId>
) {
  for (const callId of callIds) {
    // What was promised to the one before may be all that was left.
    if (findCall(stateOf(run), callId)?.child === undefined && mayStart(statesOf(run))) {
      begin(run, callId)
    }
  }
  const wanted = new Set(callIds)
  yield* goOn(
    run,
    children(stateOf(run)).filter(({ callId }) => wanted.has(callId))
  )
  const isWaitedFor = callIds.some((callId) => run.drive.tasks.has(callId))
  if (isWaitedFor) yield* awaitChange(run)
})

/** Goes on with what is in the background, and waits until something of it has got somewhere. */
export const awaitChildren = Effect.fnUntraced(function* (run: AgentRun) {
  const { missing } = run.drive
  const known = missing?.size
  yield* goOnInBackground(run)
  // What was found missing does not go on: then there may be nothing to wait for.
  if (run.drive.missing !== missing || missing?.size !== known) return
  yield* awaitChange(run)
})

/** Goes on with everything in the background that can and for which there is room. */
export const goOnInBackground = (run: AgentRun): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { background } = stateOf(run)
    return background === undefined || !isAnyIdle(run.drive, background) ? Effect.void : goOn(run, background)
  })

/** Whether one of them has no fiber. Most of the time all have: then there is nothing to look at more closely. */
const isAnyIdle = (drive: Drive, background: ReadonlyArray<BackgroundRun>): boolean =>
  background.some(({ callId, child }) => child !== undefined && !drive.tasks.has(callId))

/** How many sub-agents of a run are at work. */
const countAtWork = (drive: Drive, state: RunState): number =>
  children(state).filter(({ callId }) => drive.tasks.has(callId)).length

/** Goes on with those that can, as far as there is room. */
const goOn = Effect.fnUntraced(function* (
  run: AgentRun,
  candidates: ReadonlyArray<Pick<BackgroundRun, "callId" | "child">>
) {
  const { drive } = run
  const before = stateOf(run)
  // One at least: with none, nobody would ever get anywhere.
  const most = Math.max(1, before.limits.agentConcurrency ?? Limits.defaults.agentConcurrency)
  let room = most - countAtWork(drive, before)
  const constraints = constraintsOf(statesOf(run), drive.constraints)
  for (const { callId, child } of candidates) {
    if (room <= 0 || isEnding(run)) return
    if (child === undefined || isEnded(child) || drive.tasks.has(callId) || !canAdvance(child, constraints))
      continue
    if (drive.tasks.isStopped(callId)) continue
    // Another that was gone on with may have let this one come to its end meanwhile.
    if (!isThere(run)) return
    const latest = findChild(stateOf(run), callId)
    if (latest === undefined || isEnded(latest)) continue
    const missing = obstacleAt(run.first, stateOf(run), { callId, child: latest })
    if (missing !== undefined) {
      drive.addMissing(missing)
      // It can still come to an end that was decided for it.
      if (!canAdvance(latest, constraintsOf(statesOf(run), drive.constraints))) continue
    }
    const childRun = childRunOf(run, callId, subAgentAt(run.first, stateOf(run), callId))
    room -= 1
    // It hears what is said to it, also while its lead is asked something that takes long.
    yield* drive.journal.watch
    yield* drive.tasks.start(
      callId,
      childRun.token,
      Effect.andThen(
        driveChild(childRun, callId),
        // There is room for another one now, whatever its parent is doing.
        Effect.suspend(() => (isEnding(run) || !isThere(run) ? Effect.void : goOnInBackground(run)))
      )
    )
  }
})

/** Goes on with one sub-agent until it is over, or held, or waits for a budget above it. */
const driveChild = Effect.fnUntraced(function* (run: AgentRun, callId: ToolCallId) {
  const { drive, parent } = run
  if (parent === undefined) return
  let isHeard = false
  // A parent that has ended is gone from the state, and with it this run.
  while (!isEnding(run) && isThere(parent)) {
    if (isTurnDue()) {
      yield* turn
      continue
    }
    run.seen = drive.changes
    if (drive.hasMail) yield* takeMailInTask(drive)
    const child = isThere(parent) ? findChild(stateOf(parent), callId) : undefined
    if (child === undefined || isEnded(child)) break
    const step = next(child, constraintsOf(statesOf(parent), drive.constraints))
    if (step._tag === "Hold") {
      // One that only waits for the end of a run above is not held.
      if (child.status === "running" && !isHalted(parent)) emit(run, { _tag: "run.held", at: now(drive) })
      break
    }
    if (!isHeard && beginsUnheard(child, step) && mayBeHalted(run)) {
      isHeard = true
      yield* hearStops(run)
      continue
    }
    isHeard = false
    if (child.status === "held") emit(run, { _tag: "run.resumed", at: now(drive) })
    if (step._tag === "Finish") {
      // What was started under a run that was stopped finishes first.
      if (child.stop !== undefined && countAtWork(drive, child) > 0) {
        yield* awaitChange(run)
        continue
      }
      yield* finishChild(run, step)
      break
    }
    if (drive.journal.isStale()) yield* confirmLease(drive)
    yield* goOnInBackground(run)
    const room = roomAbove(run, step)
    if (room === "room") yield* run.perform(run, step)
    else if (room !== "waits") yield* failRun(run, room)
  }
  // Whoever stops it waits for all of it.
  const reason = run.token.reason()
  if (reason !== undefined && isThere(run)) {
    yield* drive.tasks.stop(
      children(stateOf(run)).map(({ callId }) => callId),
      reason
    )
  }
  // What it waits for is in the inbox while the others go on.
  if (!isHalted(parent)) yield* flush(drive)
})

const finishChild = Effect.fnUntraced(function* (
  run: AgentRun,
  step: Extract<Step, { readonly _tag: "Finish" }>
) {
  const { drive } = run
  const { end } = step
  if (end._tag === "cancelled") {
    const under = children(stateOf(run)).map(({ callId }) => callId)
    yield* drive.tasks.stop(under, end.reason)
    for (const event of childCancellation(stateOf(run), now(drive), end.reason)) emit(run, event)
    return
  }
  yield* stopUnder(run, endText(stateOf(run), end._tag))
  const state = stateOf(run)
  const at = now(drive)
  for (const event of closedRequests(state, at)) emit(run, event)
  emit(
    run,
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
export const askWrapUp = Effect.fnUntraced(function* (run: AgentRun, { budget, limit }: Limits.Exceeded) {
  const { drive } = run
  if (yield* isReleasedMeanwhile(run)) return
  const used = `the ${budget} budget of ${stateOf(run).agent.name} is used up`
  const attached = stateOf(run).calls.flatMap((call) =>
    call.child === undefined || isSettled(call) ? [] : [call.id]
  )
  yield* drive.tasks.stop(attached, used)
  const isReleased = yield* isReleasedMeanwhile(run)
  const toEnd = attached.filter((callId) => !isReleasedIn(run, callId))
  for (const callId of attached) if (!toEnd.includes(callId)) drive.tasks.allow(callId)
  yield* stopAll(run, toEnd, used)
  if (isReleased) return
  const { calls, requests } = stateOf(run)
  const undecided = calls.filter((call) => !isSettled(call)).map(({ requestId }) => requestId)
  for (const { requestId } of requests.filter(isOpen).map(({ request }) => request)) {
    if (!undecided.includes(requestId)) continue
    emit(run, { _tag: "request.superseded", at: now(drive), requestId, reason: used })
  }
  emit(run, { _tag: "wrapUp.asked", at: now(drive), budget, limit })
  // Before anything follows from it: a decision that came first takes it back.
  yield* flush(drive)
})

const isReleasedIn = (run: AgentRun, callId: ToolCallId): boolean => {
  const child = findChild(stateOf(run), callId)
  return child !== undefined && isAnyReleased(child)
}

/** Whether a decision that the run has not seen releases a call of its turn: that runs first. */
const isReleasedMeanwhile = (run: AgentRun): Effect.Effect<boolean, JournalError> =>
  Effect.suspend(() => {
    run.drive.hasMail = true
    return Effect.map(takeMailInTask(run.drive), () => isTurnReleased(stateOf(run)))
  })
