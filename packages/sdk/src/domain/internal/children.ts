/**
 * Sub-agents: what an event in the run of one means for the run that started it.
 */
import type { ApprovalPolicy } from "../ApprovalPolicy.ts"
import { text as shown } from "../Display.ts"
import { text } from "../Message.ts"
import { fromFailure } from "../RunError.ts"
import { type RunEvent, unwrap } from "../RunEvent.ts"
import type { RunState, ToolCall } from "../RunState.ts"
import * as RunState_ from "../RunState.ts"
import type { ModelUsage } from "../Usage.ts"
import * as Usage from "../Usage.ts"
import { asText, requestsInside, deliverMessage, settle, updateCall, type Event } from "./turn.ts"

type Evolve = (state: RunState | undefined, event: RunEvent) => RunState

/** Sub-agents that go on do not outlive the run. */
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

/** What is in the background goes on under the policies of the agent that started it. */
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
    ...booked,
    background: replaced({ callId, name, ended: { status: child.status, at: event.at } }),
    requests: [...booked.requests, ...requestsInside(child)]
  }
  return deliverMessage(ended, [text(`The agent ${name} (${callId}) ${endText(child)}`)], event.at, "runtime")
}

const endText = (child: RunState): string =>
  child.status === "completed" ? `has finished:\n\n${resultText(child)}` : `has ended: ${resultText(child)}`

/** What a sub-agent came to, for the model that called it. */
const resultText = (child: RunState): string => {
  switch (child.status) {
    case "completed":
      return child.output === undefined ? RunState_.text(child) : asText(child.output)
    case "cancelled":
      return `${child.agent.name} was stopped: ${shown(child.cancelled?.reason ?? "cancelled")}.${
        child.cancelled?.calls.some(({ state }) => state === "inDoubt") === true
          ? " It is not known whether some of what it was doing took effect."
          : ""
      }`
    default:
      return `${child.agent.name} failed. ${child.failure === undefined ? "" : fromFailure(child.failure).message}`
  }
}

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

/** Something happened in the run of a sub-agent. */
export const childAdvanced = (state: RunState, event: Event<"child.advanced">, evolve: Evolve): RunState => {
  const call = RunState_.findCall(state, event.callId)
  if (call?.target === "background" && !RunState_.isSettled(call)) {
    return event.event._tag === "run.started" ? startedBackground(state, call, event, evolve) : state
  }
  if (call === undefined || call.target === "background") return backgroundAdvanced(state, event, evolve)
  if (RunState_.isSettled(call)) return state
  // Nothing can be said to a run before it has begun.
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

/** Money and tokens that are no turn of the run: a sub-agent's, or those of a call that brought no answer. */
export const bookUsage = (state: RunState, usage: ModelUsage): RunState => {
  const book = (total: Usage.SessionUsage) => ({ ...Usage.addModelCall(total, usage), turns: total.turns })
  return { ...state, usage: book(state.usage), sessionUsage: book(state.sessionUsage) }
}

/** A sub-agent's model calls are paid by its parent too; they are not turns of the parent. */
const bookChild = (
  state: RunState,
  event: RunEvent,
  before: RunState | undefined,
  after: RunState
): RunState => {
  const { event: inside } = unwrap(event)
  if (inside._tag === "model.charged") return bookUsage(state, inside.usage)
  if (inside._tag !== "model.answered") return state
  const { turns = 0, toolCalls = 0 } = state.below ?? {}
  // Not every call that is in the answer was made: a run that comes to its end makes none.
  const calls = before === undefined ? 0 : madeIn(after) - madeIn(before)
  return { ...bookUsage(state, inside.usage), below: { turns: turns + 1, toolCalls: toolCalls + calls } }
}

const madeIn = ({ below, toolCalls }: RunState): number => toolCalls + (below?.toolCalls ?? 0)
