/**
 * Runs that a decision has stopped (`deny` with `then: "stop"`), and turns that one has superseded (`send` with
 * `whenHeld: "supersede"`): nothing begins in them or in the sub-agents under them.
 *
 * A decision counts from when it was acknowledged, not from when the loop reads it. Where a pending request could stop a run, its mail
 * is therefore read before something begins without a commit of its own; a commit that starts a body says itself whether there is mail.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { lineTo } from "../../domain/internal/subAgents.ts"
import type { Step } from "../../domain/next.ts"
import { findCall, interruptions, type RunState } from "../../domain/RunState.ts"
import type { AgentRun } from "./AgentRun.ts"
import type { Drive } from "./Drive.ts"
import type { JournalError } from "./Journal.ts"
import { takeMailInTask } from "./takeMail.ts"

/** The states from the root's to that of the run, as far as they are there. */
const lineOf = ({ drive, path }: AgentRun): ReadonlyArray<RunState> => lineTo(drive.state, path)

/** Whether a decision has stopped the run, or one above it. */
export const isHalted = (run: AgentRun): boolean =>
  run.path.length === 0
    ? run.drive.state.stop !== undefined
    : lineOf(run).some(({ stop }) => stop !== undefined)

/** Whether a step begins something before a commit that would tell of mail. */
export const beginsUnheard = (state: RunState, step: Step): boolean => {
  switch (step._tag) {
    case "CallModel":
    case "ClassifyCalls":
    case "StartBackground":
    case "SettleAgents":
    case "HandOff":
    case "AskWrapUp":
      return true
    case "ResumeChildren":
      // A sub-agent that has begun looks itself.
      return step.callIds.some((callId) => findCall(state, callId)?.child === undefined)
    default:
      return false
  }
}

/** Whether nothing more of the run's open turn begins: a decision has stopped the run, or superseded the turn. */
export const isTurnHalted = (run: AgentRun): boolean =>
  isHalted(run) || lineOf(run).at(-1)?.superseded !== undefined

/**
 * Whether a decision on a pending request could stop the run, or supersede a turn that it works in: the request may be
 * anywhere in the tree. A request that is not stored yet has no decision.
 */
export const mayBeHalted = ({ drive }: AgentRun): boolean =>
  interruptions(drive.state).some(({ requestId }) => !isStaged(drive, requestId))

const isStaged = ({ staged }: Drive, requestId: string): boolean =>
  staged.some((event) => {
    let inner = event
    while (inner._tag === "child.advanced") inner = inner.event
    return inner._tag === "request.opened" && inner.request.requestId === requestId
  })

/** Takes the mail, if one of its decisions could stop the run. */
export const hearStops = (run: AgentRun): Effect.Effect<void, JournalError> =>
  Effect.suspend(() => {
    if (!mayBeHalted(run)) return Effect.void
    run.drive.hasMail = true
    return takeMailInTask(run.drive)
  })

/** Whether more of what the run has begun may begin. A store that cannot be read has not said that nothing was decided. */
export const mayGoOn = (run: AgentRun): Effect.Effect<boolean> =>
  Effect.map(Effect.exit(hearStops(run)), (exit) => Exit.isSuccess(exit) && !isTurnHalted(run))
