/**
 * Describes a run that a decision stopped, directly or with a run above it: who stopped it, which calls do not run any more, and what
 * resuming it still does.
 */
import type { Decision } from "../../domain/Decision.ts"
import { sentence } from "../../domain/Display.ts"
import { isWithin } from "../../domain/Id.ts"
import { recordOf } from "../../domain/internal/released.ts"
import { type Constraints, next } from "../../domain/next.ts"
import { findCall, type RunState, type ToolCall } from "../../domain/RunState.ts"
import { releasedBy } from "../../run/internal/cancellation.ts"

/** The decision that stopped the last run of a line, directly or with a run above it. */
export const stopDecisionIn = (line: ReadonlyArray<RunState>): NonNullable<RunState["stop"]> | undefined =>
  line.find(({ stop }) => stop !== undefined)?.stop

/** Says who stopped the run, and which of its calls do not run, including approved ones. */
export const stopText = (state: RunState, { by }: NonNullable<RunState["stop"]>): string => {
  const left = state.calls.filter(({ status }) => status === "ready" || status === "requested")
  const names = left.map((call) => leftText(state, call)).join(" and ")
  const notRun = left.length === 0 ? "" : sentence`; ${names} ${left.length === 1 ? "is" : "are"} not run`
  return sentence`${by} has stopped it: nothing more begins in it${notRun}.`
}

const leftText = (state: RunState, call: ToolCall): string => {
  const { decided } = releasedBy(state, call)
  const by = recordOf(state, call)?.decision?.by
  if (decided === undefined || by === undefined) return call.name
  return decided.decision === "approve"
    ? sentence`${call.name} (approved by ${by})`
    : sentence`${call.name} (to be run again, as ${by} has decided)`
}

/** Says who superseded the run's open turn, in folded decisions or in `decisions`, and which of its calls do not run. */
export const supersededText = (
  state: RunState,
  after: RunState,
  decisions: ReadonlyArray<Decision>
): string => {
  const by =
    after.superseded?.by ??
    decisions.find(
      (one) => "supersedes" in one && one.supersedes !== undefined && isWithin(state.runId, one.supersedes)
    )?.by
  if (by === undefined) return ""
  const dropped = state.calls.filter(
    ({ child, result, status }) =>
      status === "ready" || status === "requested" || (result?.outcome === "cancelled" && child === undefined)
  )
  const names = dropped.map((call) => leftText(state, call)).join(" and ")
  const notRun =
    dropped.length === 0 ? "" : sentence`; ${names} ${dropped.length === 1 ? "is" : "are"} not run`
  return sentence`${by} has said something else instead: nothing more of the open turn begins${notRun}.`
}

/** Describes what resuming the run still does, in order. */
export const stoppedSteps = (state: RunState, constraints: Constraints): ReadonlyArray<string> => {
  const step = next(state, constraints)
  const end = state.stop === undefined ? "end it with the run above it" : "end the run (cancelled)"
  switch (step._tag) {
    case "Reconcile": {
      const names = step.callIds.map((callId) => findCall(state, callId)?.name ?? callId).join(" and ")
      return [sentence`find out whether ${names} has happened, without running it again`, end]
    }
    case "ResumeChildren":
    case "AwaitChildren":
      return ["find out what became of the calls that its sub-agents have started", end]
    default:
      return [end]
  }
}
