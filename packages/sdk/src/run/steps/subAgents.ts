/**
 * Starts, resumes, awaits and stops the sub-agents of a run.
 *
 * Each sub-agent is driven in a fiber of its own beside the root's loop, at most `agentConcurrency` sub-agents of one run at once. A
 * sub-agent that is held, or that waits for a budget above it, has no fiber; a decision resumes it.
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
import { mayStartCall } from "../calls/judgeAgentCall.ts"
import { isEnding, awaitChange, isThere, statesOf, stateOf, AgentRun } from "../internal/AgentRun.ts"
import { childCancellation, closedRequests } from "../internal/cancellation.ts"
import { flush } from "../internal/commit.ts"
import { confirmLease } from "../internal/confirmLease.ts"
import { emit, now, type Drive } from "../internal/Drive.ts"
import { failRun, stopAll, stopUnder } from "../internal/failRun.ts"
import type { JournalError } from "../internal/Journal.ts"
import { profileOptions, turnsOf } from "../internal/startOptions.ts"
import { hearBefore, isHalted } from "../internal/stops.ts"
import { takeMailInTask } from "../internal/takeMail.ts"
import { askAbove, roomAbove } from "./limits.ts"

/**
 * Makes the run of a sub-agent under the run that started it. `found` is its definition, `undefined` if the program does not have it. Its
 * token is linked to the drive's, since it may outlast the task of its parent, which is held meanwhile.
 */
const childRunOf = (parent: AgentRun, callId: ToolCallId, found: SubAgent | undefined): AgentRun =>
  new AgentRun(parent.drive, Cancellation.make(parent.drive.token), parent.perform, {
    parent,
    callId,
    startedWith: found?.bound
  })

/**
 * Starts the run of a call's sub-agent with a share of the budgets above it. If one of them is exhausted, opens a `limit` request, or
 * fails the call if that is not possible.
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
      ...turnsOf(bound, {}),
      policy: bound.agent.policy,
      startedWith: profileOptions(run.drive.runtime),
      ...(state.mayRepeat === undefined ? {} : { mayRepeat: state.mayRepeat }),
      asks: state.asks,
      structured: bound.output !== undefined
    }
  )
}

/** Starts the sub-agent of a call in the background. */
export const startBackground = Effect.fnUntraced(function* (run: AgentRun, callId: ToolCallId) {
  if (yield* mayStartCall(run, callId)) begin(run, callId)
})

/** Starts or resumes the sub-agents of these calls, and waits until one of them makes progress. */
export const resumeChildren = Effect.fnUntraced(function* (
  run: AgentRun,
  callIds: ReadonlyArray<ToolCallId>
) {
  for (const callId of callIds) {
    // The sub-agent started before may have been given all that was left of a budget.
    const isNew = findCall(stateOf(run), callId)?.child === undefined && mayStart(statesOf(run))
    if (isNew && (yield* mayStartCall(run, callId))) begin(run, callId)
  }
  const wanted = new Set(callIds)
  yield* resumeIdle(
    run,
    children(stateOf(run)).filter(({ callId }) => wanted.has(callId))
  )
  const isWaitedFor = callIds.some((callId) => run.drive.tasks.has(callId))
  if (isWaitedFor) yield* awaitChange(run)
})

/** Resumes the sub-agents in the background, and waits until one of them makes progress. */
export const awaitChildren = Effect.fnUntraced(function* (run: AgentRun) {
  const { missing } = run.drive
  const known = missing?.size
  yield* resumeBackground(run)
  // A definition was found missing: its sub-agent stays idle, so there may be nothing to wait for.
  if (run.drive.missing !== missing || missing?.size !== known) return
  yield* awaitChange(run)
})

/** Resumes the sub-agents in the background that can advance, up to the concurrency limit. */
export const resumeBackground = (run: AgentRun): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { background } = stateOf(run)
    return background === undefined || !isAnyIdle(run.drive, background)
      ? Effect.void
      : resumeIdle(run, background)
  })

/** Whether a running sub-agent has no fiber. A cheap check that usually saves the work of `resumeIdle`. */
const isAnyIdle = (drive: Drive, background: ReadonlyArray<BackgroundRun>): boolean =>
  background.some(({ callId, child }) => child !== undefined && !drive.tasks.has(callId))

/** The number of a run's sub-agents that have a fiber. */
const countAtWork = (drive: Drive, state: RunState): number =>
  children(state).filter(({ callId }) => drive.tasks.has(callId)).length

/** Starts a fiber for each candidate that can advance, up to the concurrency limit. */
const resumeIdle = Effect.fnUntraced(function* (
  run: AgentRun,
  candidates: ReadonlyArray<Pick<BackgroundRun, "callId" | "child">>
) {
  const { drive } = run
  const before = stateOf(run)
  // At least one, or no sub-agent would ever advance.
  const most = Math.max(1, before.limits.agentConcurrency ?? Limits.defaults.agentConcurrency)
  let room = most - countAtWork(drive, before)
  const constraints = constraintsOf(statesOf(run), drive.constraints)
  for (const { callId, child } of candidates) {
    if (room <= 0 || isEnding(run)) return
    if (child === undefined || isEnded(child) || drive.tasks.has(callId) || !canAdvance(child, constraints))
      continue
    if (drive.tasks.isStopped(callId)) continue
    // A sub-agent that was resumed before this one may have ended it or the run meanwhile.
    if (!isThere(run)) return
    const latest = findChild(stateOf(run), callId)
    if (latest === undefined || isEnded(latest)) continue
    const missing = obstacleAt(run.first, stateOf(run), { callId, child: latest })
    if (missing !== undefined) {
      drive.addMissing(missing)
      // Without its definition, a sub-agent can still end as decided.
      if (!canAdvance(latest, constraintsOf(statesOf(run), drive.constraints))) continue
    }
    const childRun = childRunOf(run, callId, subAgentAt(run.first, stateOf(run), callId))
    room -= 1
    yield* drive.tasks.start(
      callId,
      childRun.token,
      Effect.andThen(
        driveChild(childRun, callId),
        // The end frees a place in the concurrency limit.
        Effect.suspend(() => (isEnding(run) || !isThere(run) ? Effect.void : resumeBackground(run)))
      )
    )
  }
})

/** Drives one sub-agent until it ends, is held, or waits for a budget above it. */
const driveChild = Effect.fnUntraced(function* (run: AgentRun, callId: ToolCallId) {
  const { drive, parent } = run
  if (parent === undefined) return
  let isHeard = false
  // A parent that has ended is no longer in the state, and neither is this run.
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
      // Under a stopped run, a sub-agent waits for the run's end and is not held.
      if (child.status === "running" && !isHalted(parent)) emit(run, { _tag: "run.held", at: now(drive) })
      break
    }
    if (!isHeard && (yield* hearBefore(run, child, step))) {
      isHeard = true
      continue
    }
    isHeard = false
    if (child.status === "held") emit(run, { _tag: "run.resumed", at: now(drive) })
    if (step._tag === "Finish") {
      // Sub-agents at work under a stopped run finish first.
      if (child.stop !== undefined && countAtWork(drive, child) > 0) {
        yield* awaitChange(run)
        continue
      }
      yield* finishChild(run, step)
      break
    }
    if (drive.journal.isStale()) yield* confirmLease(drive)
    yield* resumeBackground(run)
    const room = roomAbove(run, step)
    if (room === "room") yield* run.perform(run, step)
    else if (room !== "waits") yield* failRun(run, room)
  }
  // Commits the sub-agent's requests to the inbox while others continue.
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
    const events = childCancellation(stateOf(run), now(drive), end.reason, drive.said)
    for (const event of events) emit(run, event)
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
 * Asks the model once for a summary of its progress. Before that, the turn's open calls are ended: their sub-agents are stopped, and
 * their requests are withdrawn.
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
  // Committed before the next step: the commit takes the withdrawals back if a decision was acknowledged first.
  yield* flush(drive)
})

const isReleasedIn = (run: AgentRun, callId: ToolCallId): boolean => {
  const child = findChild(stateOf(run), callId)
  return child !== undefined && isAnyReleased(child)
}

/** Takes the mail. Returns whether a decision releases a call of the turn, which then runs before the summary. */
const isReleasedMeanwhile = (run: AgentRun): Effect.Effect<boolean, JournalError> =>
  Effect.suspend(() => {
    run.drive.hasMail = true
    return Effect.map(takeMailInTask(run.drive), () => isTurnReleased(stateOf(run)))
  })
