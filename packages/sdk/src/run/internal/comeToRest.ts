/**
 * How a drive leaves its run: held, suspended as it stands, or over.
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

/** Leaves the run as it stands. */
export const suspend = Effect.fnUntraced(function* (drive: Drive) {
  yield* drive.tasks.stop([approvalCallbackTask], "The run is suspended.")
  yield* drive.tasks.ended
  yield* flush(drive)
})

/** Parks the run, unless something can be decided right now. */
export const hold = Effect.fnUntraced(function* (root: AgentRun) {
  const { drive } = root
  const { revision } = drive.state
  if (isEnding(root)) {
    // Whoever takes it up asks: what is held waits for somebody to come back.
    const isLetGo = drive.token.reason() === undefined && isToBeAsked(drive)
    yield* drive.tasks.stop([approvalCallbackTask], "The run is suspended.")
    if (isLetGo && drive.token.reason() === undefined) {
      yield* suspend(drive)
      return true
    }
  } else if (yield* decideUnattended(root)) return false
  if (!drive.isAlone()) {
    if (drive.suspension?.now.reason() !== undefined) {
      yield* drive.tasks.ended
      return false
    }
    const unset = wakeAtExpiry(drive)
    yield* Effect.ensuring(awaitChange(root), Effect.sync(unset))
    return false
  }
  // Whoever was asked may have cancelled it, or has not been heard.
  if (drive.state.revision !== revision || drive.token.reason() !== undefined) return false
  if (isEnding(root) && isToBeAsked(drive)) return false
  if (drive.journal.isShared === true && waitsForDefinition(drive)) {
    // Not held: then nobody would look whether what it waits for is there.
    yield* suspend(drive)
    return true
  }
  return yield* park(drive, { _tag: "run.held", at: now(drive) })
})

/** Whether it would go on in a program that has what is missing here. */
const waitsForDefinition = ({ constraints, state }: Drive): boolean =>
  constraints.unavailable !== undefined && next(state)._tag !== "Hold"

/** Ends the run of the root, unless it has mail. A run that has failed keeps its sub-agents as they stand: it may be continued. */
export const finish = Effect.fnUntraced(function* (
  root: AgentRun,
  step: Extract<Step, { readonly _tag: "Finish" }>
) {
  const { drive } = root
  if (isHalted(root) && !isEnded(drive.state)) {
    yield* drive.tasks.stop([approvalCallbackTask], endReason(step))
    // What was started finishes.
    if (!drive.isAlone()) {
      if (drive.suspension?.now.reason() !== undefined) {
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
        for (const event of cancellation(drive.state, at, step.end.reason)) emitRoot(drive, event)
        break
      case "failed":
        emitRoot(drive, { _tag: "run.failed", at, failure: step.end.failure })
    }
  }
  yield* flush(drive)
  return true
})

const endReason = ({ end }: Extract<Step, { readonly _tag: "Finish" }>): string =>
  end._tag === "cancelled" ? end.reason : "The run that started it has ended."

/** Marks the sub-agents that wait as held, as far as they are not, so that the time does not count for them. */
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

/** Gives the run up with a last event, unless there is something new to act on: then `false`, and the run goes on. */
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
