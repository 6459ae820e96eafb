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
import { type Scope } from "./AgentRun.ts"
import { type Drive } from "./Drive.ts"
import type { JournalError } from "./Journal.ts"
import { takeMailBeside } from "./leave.ts"

/** The states from the root's to that of the scope's own run, as far as they are there. */
const lineOf = ({ drive, path }: Scope): ReadonlyArray<RunState> => lineTo(drive.state, path)

/** Whether a decision has stopped the scope's own run, or one above it. */
export const isHalted = (scope: Scope): boolean =>
  scope.path.length === 0
    ? scope.drive.state.stop !== undefined
    : lineOf(scope).some(({ stop }) => stop !== undefined)

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

/** Whether nothing more of the scope's open turn begins: a decision has stopped the run, or superseded the turn. */
export const isTurnHalted = (scope: Scope): boolean =>
  isHalted(scope) || lineOf(scope).at(-1)?.superseded !== undefined

/**
 * Whether a decision on a pending request could stop the scope's own run, or supersede a turn that it works in: the request may be
 * anywhere in the tree. A request that is not stored yet has no decision.
 */
export const mayBeHalted = ({ drive }: Scope): boolean =>
  interruptions(drive.state).some(({ requestId }) => !isStaged(drive, requestId))

const isStaged = ({ staged }: Drive, requestId: string): boolean =>
  staged.some((event) => {
    let inner = event
    while (inner._tag === "child.advanced") inner = inner.event
    return inner._tag === "request.opened" && inner.request.requestId === requestId
  })

/** Takes the mail, if one of its decisions could stop the scope's own run. */
export const hearStops = (scope: Scope): Effect.Effect<void, JournalError> =>
  Effect.suspend(() => {
    if (!mayBeHalted(scope)) return Effect.void
    scope.drive.hasMail = true
    return takeMailBeside(scope.drive)
  })

/** Whether more of what the scope's own run has begun may begin. A store that cannot be read has not said that nothing was decided. */
export const mayGoOn = (scope: Scope): Effect.Effect<boolean> =>
  Effect.map(Effect.exit(hearStops(scope)), (exit) => Exit.isSuccess(exit) && !isTurnHalted(scope))
