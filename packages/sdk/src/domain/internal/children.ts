/**
 * Folds the events of sub-agents into the run that started them.
 */
import type { ApprovalPolicy } from "../ApprovalPolicy.ts"
import { text as shown } from "../Display.ts"
import { text } from "../Message.ts"
import { fromFailure } from "../RunError.ts"
import type { RunEvent } from "../RunEvent.ts"
import type { RunState, ToolCall } from "../RunState.ts"
import * as RunState_ from "../RunState.ts"
import { bookChild } from "./bookUsage.ts"
import { reportStart } from "./reports.ts"
import { asText, requestsInside, deliverMessage, settle, updateCall, type Event } from "./turn.ts"
import { untrustedIn, withUntrusted } from "./untrusted.ts"

type Evolve = (state: RunState | undefined, event: RunEvent) => RunState

/** Ends the background sub-agents with their run, as cancelled unless they had ended, and keeps the records of their requests among those of the run. */
export const closeBackground = (state: RunState, at: number): RunState => {
  const { background } = state
  if (background === undefined) return state
  const inside = background.flatMap(({ child }) => (child === undefined ? [] : requestsInside(child)))
  return {
    ...state,
    background: background.map(({ callId, ended, name }) => ({
      callId,
      name,
      ended: ended ?? { status: "cancelled", at }
    })),
    requests: inside.length === 0 ? state.requests : [...state.requests, ...inside]
  }
}

/** Records the policies of the agent that started the background sub-agents, which bind them after a handoff. */
export const keepStarterPolicies = (
  state: RunState,
  starterPolicies: readonly [ApprovalPolicy, ...ReadonlyArray<ApprovalPolicy>]
): RunState =>
  state.background === undefined
    ? state
    : {
        ...state,
        background: state.background.map((entry) =>
          entry.child === undefined ? entry : { starterPolicies, ...entry }
        )
      }

const backgroundAdvanced = (state: RunState, event: Event<"child.advanced">, evolve: Evolve): RunState => {
  const before = state.background ?? []
  const entry = before.find(({ callId }) => callId === event.callId)
  if (entry === undefined || entry.child === undefined) return state
  const child = evolve(entry.child, event.event)
  const booked = bookChild(state, event.event, entry.child, child)
  const replaced = (after: RunState_.BackgroundRun) =>
    before.map((other) => (other.callId === event.callId ? after : other))
  if (child.status !== "completed" && child.status !== "cancelled" && child.status !== "error") {
    return { ...booked, background: replaced({ ...entry, child }) }
  }
  const { callId, name } = entry
  const ended: RunState = {
    ...withUntrusted(booked, untrustedIn(child)),
    background: replaced({ callId, name, ended: { status: child.status, at: event.at } }),
    requests: [...booked.requests, ...requestsInside(child)]
  }
  return deliverMessage(ended, [text(`${reportStart(entry)}${endText(child)}`)], event.at, "runtime")
}

const endText = (child: RunState): string =>
  child.status === "completed" ? `finished:\n\n${resultText(child)}` : `ended: ${resultText(child)}`

/** The outcome of a sub-agent, as text for the model that called it. */
const resultText = (child: RunState): string => {
  switch (child.status) {
    case "completed":
      return child.output === undefined ? RunState_.text(child) : asText(child.output)
    case "cancelled":
      return `${child.agent.name} was stopped: ${shown(child.cancelled?.reason ?? "cancelled")}.${
        child.cancelled?.calls.some(({ state }) => state === "inDoubt") === true
          ? " It is not known whether some of what it was doing took effect."
          : ""
      }${cutText(child)}`
    default:
      return `${child.agent.name} failed. ${child.failure === undefined ? "" : fromFailure(child.failure).message}`
  }
}

const cutText = ({ cancelled }: RunState): string =>
  cancelled?.said === undefined ? "" : ` Its answer was cut:\n\n${cancelled.said}`

const startedBackground = (
  state: RunState,
  call: ToolCall,
  event: Event<"child.advanced">,
  evolve: Evolve
): RunState => {
  const child = evolve(undefined, event.event)
  const name = child.agentPath.at(-1) ?? child.agent.name
  const after = {
    ...state,
    background: [...(state.background ?? []), { callId: call.id, name, child }]
  }
  const receipt = `${name} is at work in the background as ${call.id}. What it comes to will be told to you in a message.`
  return settle(after, call.id, "completed", [text(receipt)], event.at)
}

/** Folds an event of a sub-agent. */
export const childAdvanced = (state: RunState, event: Event<"child.advanced">, evolve: Evolve): RunState => {
  const call = RunState_.findCall(state, event.callId)
  if (call?.target === "background" && !RunState_.isSettled(call)) {
    return event.event._tag === "run.started" ? startedBackground(state, call, event, evolve) : state
  }
  if (call === undefined || call.target === "background") return backgroundAdvanced(state, event, evolve)
  if (RunState_.isSettled(call)) return state
  // A run's first event is its start.
  if (call.child === undefined && event.event._tag !== "run.started") return state
  const child = evolve(call.child, event.event)
  const booked = bookChild(state, event.event, call.child, child)
  const after = updateCall(booked, event.callId, (call) => ({
    ...call,
    child,
    status: "started",
    attempt: Math.max(call.attempt, 1),
    ...(call.startedAt === undefined ? { startedAt: event.at } : {})
  }))
  switch (child.status) {
    case "completed":
    case "cancelled":
      return settle(after, event.callId, child.status, [text(resultText(child))], event.at)
    case "error":
      return settle(after, event.callId, "failed", [text(resultText(child))], event.at)
    default:
      return after
  }
}
