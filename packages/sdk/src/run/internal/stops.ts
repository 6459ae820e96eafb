/**
 * Stopped runs (`deny` with `then: "stop"`) and superseded turns (`send` with `whenHeld: "supersede"`): no work starts in them or in the
 * sub-agents under them.
 *
 * A decision takes effect when it is acknowledged, not when the loop reads it. If a pending request could stop a run, the loop therefore
 * reads the mail before work that starts without a commit. A commit that starts a body reports mail itself.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { lineTo } from "../../domain/internal/subAgents.ts"
import type { Step } from "../../domain/next.ts"
import { findCall, interruptions, type RunState } from "../../domain/RunState.ts"
import type { AgentRun } from "./AgentRun.ts"
import { flush } from "./commit.ts"
import { takeNotice } from "./confirmLease.ts"
import { type Drive, isActedOn } from "./Drive.ts"
import type { JournalError } from "./Journal.ts"
import { takeMailInTask } from "./takeMail.ts"

/** The states from the root's to the run's, as far as they exist. */
const lineOf = ({ drive, path }: AgentRun): ReadonlyArray<RunState> => lineTo(drive.state, path)

/** Whether a decision has stopped the run or a run above it. */
export const isHalted = (run: AgentRun): boolean =>
  run.path.length === 0
    ? run.drive.state.stop !== undefined
    : lineOf(run).some(({ stop }) => stop !== undefined)

/** Whether a step starts work before a commit that would report mail. */
const beginsUnheard = (state: RunState, step: Step): boolean => {
  switch (step._tag) {
    case "CallModel":
    case "Compact":
    case "ClassifyCalls":
    case "StartBackground":
    case "SettleAgents":
    case "HandOff":
    case "AskWrapUp":
      return true
    case "ResumeChildren":
      // The loop of a started sub-agent reads the mail itself.
      return step.callIds.some((callId) => findCall(state, callId)?.child === undefined)
    default:
      return false
  }
}

/** Whether the run's open turn starts no more work: a decision has stopped the run or superseded the turn. */
export const isTurnHalted = (run: AgentRun): boolean =>
  isHalted(run) || lineOf(run).at(-1)?.superseded !== undefined

/**
 * Whether a decision on a pending request, anywhere in the tree, could stop the run or supersede its turn. Staged requests do not count:
 * they cannot have been decided yet.
 */
const mayBeHalted = ({ drive }: AgentRun): boolean =>
  interruptions(drive.state).some(({ requestId }) => !isStaged(drive, requestId))

const isStaged = ({ staged }: Drive, requestId: string): boolean =>
  staged.some((event) => {
    let inner = event
    while (inner._tag === "child.advanced") inner = inner.event
    return inner._tag === "request.opened" && inner.request.requestId === requestId
  })

/**
 * Reads the mail before work that starts without a commit, if a decision in it could stop the run, or if a model call would miss a message:
 * one that was sent since the last commit, which reported the mail. Returns whether there may be another step to perform now.
 */
export const hearBefore = Effect.fnUntraced(function* (
  run: AgentRun,
  state: RunState,
  step: Step
): Effect.fn.Return<boolean, JournalError> {
  if (!beginsUnheard(state, step)) return false
  const { drive } = run
  if (mayBeHalted(run)) {
    yield* hearStops(run)
    return true
  }
  if (step._tag !== "CallModel" || drive.staged.length === 0) return false
  // Committed for those who act on it while the model answers: the start of a sub-agent, or a request. The commit reports mail, too.
  if (drive.staged.some(isActedOn)) yield* flush(drive)
  else takeNotice(drive, yield* drive.journal.news)
  return drive.hasMail || run.token.reason() !== undefined
})

/** Takes the mail if a decision in it could stop the run. */
export const hearStops = (run: AgentRun): Effect.Effect<void, JournalError> =>
  Effect.suspend(() => {
    if (!mayBeHalted(run)) return Effect.void
    run.drive.hasMail = true
    return takeMailInTask(run.drive)
  })

/** Whether the turn may start more work. `false` if the mail cannot be read, since it may contain a stop. */
export const mayGoOn = (run: AgentRun): Effect.Effect<boolean> =>
  Effect.map(Effect.exit(hearStops(run)), (exit) => Exit.isSuccess(exit) && !isTurnHalted(run))
