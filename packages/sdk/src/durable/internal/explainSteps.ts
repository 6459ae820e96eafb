/**
 * Describes in words what resuming a run would do, up to the next model call.
 */
import { sentence } from "../../domain/Display.ts"
import { evolve } from "../../domain/evolve.ts"
import { type Constraints, next, type Step } from "../../domain/next.ts"
import { findCall, isQueued, isRepeatable, type RunState } from "../../domain/RunState.ts"

/** Describes the steps before the next model call, as computed by `next`; no step is executed. */
export const resumingOf = (
  before: RunState,
  constraints: Constraints,
  changed: ReadonlySet<string> = new Set()
): ReadonlyArray<string> => {
  let state = before
  if (state.status === "completed" || state.status === "cancelled") return []
  if (state.status === "error" || isQueued(state))
    state = evolve(state, { _tag: "run.resumed", at: state.startedAt })
  const steps: Array<string> = []
  // The result of a call is unknown here; an empty one is enough to compute the steps that follow.
  for (let bound = 0; bound < 1000; bound += 1) {
    const step = next(state, constraints)
    const said = stepText(state, step, changed)
    if (said !== undefined) steps.push(said)
    // A call whose tool has changed may open a request.
    if (step._tag !== "SettleToolCalls" && step._tag !== "RecordResults") break
    if (step._tag === "SettleToolCalls" && step.callIds.some((callId) => changed.has(callId))) break
    const content = [{ _tag: "text", text: "" }] as const
    for (const callId of step.callIds) {
      state = evolve(state, { _tag: "tool.completed", at: state.startedAt, callId, content })
    }
  }
  return steps
}

const stepText = (state: RunState, step: Step, changed: ReadonlySet<string>): string | undefined => {
  const names = (callIds: ReadonlyArray<Parameters<typeof findCall>[1]>) =>
    callIds.map((callId) => findCall(state, callId)?.name ?? callId).join(" and ")
  const subAgents = (callIds: Parameters<typeof names>[0]) =>
    sentence`the sub-agent${callIds.length === 1 ? "" : "s"} ${names(callIds)}`
  switch (step._tag) {
    case "CallModel":
      return "call the model"
    case "Compact":
      return "compact its context, then call the model"
    case "ClassifyCalls":
      return sentence`check the calls that the model asked for (${names(step.callIds)})`
    case "SettleToolCalls": {
      const checked = step.callIds.filter((callId) => changed.has(callId))
      const others = step.callIds.filter((callId) => !changed.has(callId))
      return [
        ...(others.length === 0 ? [] : [sentence`run ${names(others)}`]),
        ...(checked.length === 0
          ? []
          : [sentence`check ${names(checked)} again, because the definition has changed`])
      ].join(" and ")
    }
    case "RecordResults":
      return sentence`take the result of ${names(step.callIds)}`
    case "ResumeChildren": {
      const stopped = step.callIds.filter((callId) => findCall(state, callId)?.child?.stop !== undefined)
      const others = step.callIds.filter((callId) => !stopped.includes(callId))
      return [
        ...(others.length === 0 ? [] : [`continue ${subAgents(others)}`]),
        ...(stopped.length === 0 ? [] : [`end ${subAgents(stopped)}, as was decided`])
      ].join(" and ")
    }
    case "StartBackground":
      return sentence`start a sub-agent in the background (${names([step.callId])})`
    case "AwaitChildren":
      return "continue the sub-agents in the background"
    case "SettleAgents":
      return sentence`answer ${names([step.callId])}`
    case "HandOff":
      return sentence`give the conversation to another agent (${names([step.callId])})`
    case "Withdraw":
      return "withdraw its request, because the budget has room again"
    case "AskWrapUp":
      return sentence`let the model summarize its progress, because the ${step.exceeded.budget} budget is used up`
    case "Reconcile": {
      const again = step.callIds.filter((callId) => {
        const call = findCall(state, callId)
        return call !== undefined && isRepeatable(call) && !changed.has(callId)
      })
      const doubtful = step.callIds.filter((callId) => !again.includes(callId))
      return [
        ...(again.length === 0 ? [] : [sentence`repeat ${names(again)}, which does no harm`]),
        ...(doubtful.length === 0
          ? []
          : [sentence`find out whether ${names(doubtful)} has happened, without running it again`])
      ].join(" and ")
    }
    case "AskLimit":
      return sentence`ask for a larger ${step.exceeded.budget} budget`
    case "DecodeOutput":
      return "check the answer against the output schema"
    case "Hold":
      // Without requests, the run waits for a missing definition.
      return step.requests.length === 0 ? undefined : waitingText(step.requests.length)
    case "Finish":
      return step.end._tag === "completed" ? "complete the run" : sentence`end the run (${step.end._tag})`
  }
}

const waitingText = (open: number): string =>
  open === 1 ? "wait for the open request" : sentence`wait for the ${open} open requests`
