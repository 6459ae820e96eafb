/**
 * The end of a drive: holds, suspends or ends its run.
 */
import * as Effect from "effect/Effect"
import { evolve } from "../../domain/evolve.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import type { Step } from "../../domain/next.ts"
import { next, constraintsOf, canAdvance } from "../../domain/next.ts"
import { type RunEvent, wrap } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"
import { children, isEnded } from "../../domain/RunState.ts"
import type { AgentRun } from "./AgentRun.ts"
import { isEnding, awaitChange } from "./AgentRun.ts"
import { cancellation } from "./cancellation.ts"
import { flush } from "./commit.ts"
import { wakeAtExpiry, decideUnattended, isToBeAsked } from "./decideUnattended.ts"
import type { Drive } from "./Drive.ts"
import { emitRoot, now, publishAll } from "./Drive.ts"
import { redactEvent } from "./redact.ts"
import { isHalted } from "./stops.ts"
import { takeMail } from "./takeMail.ts"
import { approvalCallbackTask } from "./Tasks.ts"

/** Suspends the run: stops its tasks and commits what is staged. */
export const suspend = Effect.fnUntraced(function* (drive: Drive) {
  yield* drive.tasks.stop([approvalCallbackTask], "The run is suspended.")
  yield* drive.tasks.ended
  yield* flush(drive)
})

/**
 * Parks a run that can only wait, unless expiry or the approval callback decides a request. A run that could continue with a missing
 * definition, or with an answer of the callback after a suspension, is suspended instead. Returns whether the drive is over.
 */
export const hold = Effect.fnUntraced(function* (root: AgentRun) {
  const { drive } = root
  const { revision } = drive.state
  if (isEnding(root)) {
    // The process that resumes the run calls the callback. A held run would wait for a decision, so the run is suspended instead.
    const waitsForCallback = drive.token.reason() === undefined && isToBeAsked(drive)
    yield* drive.tasks.stop([approvalCallbackTask], "The run is suspended.")
    if (waitsForCallback && drive.token.reason() === undefined) {
      yield* suspend(drive)
      return true
    }
  } else if (yield* decideUnattended(root)) return false
  if (!drive.isAlone()) {
    if (drive.isSuspended()) {
      yield* drive.tasks.ended
      return false
    }
    const unset = wakeAtExpiry(drive)
    yield* Effect.ensuring(awaitChange(root), Effect.sync(unset))
    return false
  }
  // The approval callback may have cancelled the run or changed its state.
  if (drive.state.revision !== revision || drive.token.reason() !== undefined) return false
  if (isEnding(root) && isToBeAsked(drive)) return false
  if (drive.journal.isShared === true && waitsForDefinition(drive)) {
    // Suspended instead of held, so that a process that has the definition can claim the run.
    yield* suspend(drive)
    return true
  }
  return yield* park(drive, { _tag: "run.held", at: now(drive) })
})

/** Whether the run could advance in a program that has the definitions that are missing here. */
const waitsForDefinition = ({ constraints, state }: Drive): boolean =>
  constraints.unavailable !== undefined && next(state)._tag !== "Hold"

/**
 * Ends the root's run and returns whether the drive is over. A run does not complete while it has mail. A failed run keeps its sub-agents
 * as they are, since it may be continued.
 */
export const finish = Effect.fnUntraced(function* (
  root: AgentRun,
  step: Extract<Step, { readonly _tag: "Finish" }>
) {
  const { drive } = root
  if (isHalted(root) && !isEnded(drive.state)) {
    yield* drive.tasks.stop([approvalCallbackTask], endReason(step))
    // Sub-agents that are at work finish first.
    if (!drive.isAlone()) {
      if (drive.isSuspended()) {
        yield* suspend(drive)
        return true
      }
      yield* awaitChange(root)
      return false
    }
  }
  yield* drive.tasks.stop(
    [approvalCallbackTask, ...children(drive.state).map(({ callId }) => callId)],
    endReason(step)
  )
  yield* drive.tasks.ended
  const at = now(drive)
  if (!isEnded(drive.state)) {
    switch (step.end._tag) {
      case "completed":
        return yield* park(drive, { _tag: "run.completed", at })
      case "cancelled":
        for (const event of cancellation(drive.state, at, step.end.reason, drive.said)) emitRoot(drive, event)
        break
      case "failed":
        emitRoot(drive, { _tag: "run.failed", at, failure: step.end.failure })
    }
  }
  yield* flush(drive)
  if (step.end._tag === "cancelled") yield* drive.runtime["~sandboxes"].cancelled(drive.state.runId)
  return true
})

const endReason = ({ end }: Extract<Step, { readonly _tag: "Finish" }>): string =>
  end._tag === "cancelled" ? end.reason : "The run that started it has ended."

/** Marks sub-agents that can only wait as held, so that the waiting time does not count against their time budgets. */
export const holdIdle = (drive: Drive): void => {
  const mark = (line: ReadonlyArray<RunState>, path: ReadonlyArray<ToolCallId>) => {
    const waiting = children(line[line.length - 1]!)
    if (waiting.length === 0) return
    const constraints = constraintsOf(line, drive.constraints)
    for (const { callId, child } of waiting) {
      const inside = [...path, callId]
      if (isEnded(child) || child.status === "held") continue
      if (canAdvance(child, constraints)) mark([...line, child], inside)
      else emitRoot(drive, wrap({ _tag: "run.held", at: now(drive) }, inside))
    }
  }
  mark([drive.state], [])
}

/** Commits a last event and releases the lease. Returns `false` and commits nothing if there is mail or a cancellation to act on. */
export const park = Effect.fnUntraced(function* (drive: Drive, last: RunEvent) {
  const event = redactEvent(drive.runtime.scrubber, last)
  const after = evolve(drive.state, event)
  if (!(yield* drive.journal.park(drive.staged.concat(event), after))) {
    yield* takeMail(drive)
    const { cancelReason } = yield* drive.journal.renewLease
    if (cancelReason !== undefined) drive.token.cancel(cancelReason)
    return false
  }
  drive.staged.length = 0
  drive.state = after
  drive.committed = after
  if (drive.onUpdate !== undefined) drive.unpublished.push({ event, revision: after.revision })
  publishAll(drive)
  return true
})
