/**
 * Fixtures of the contract suite: ids, events and messages.
 */
import type * as Arr from "effect/Array"
import * as Id from "../../../domain/Id.ts"
import * as Limits from "../../../domain/Limits.ts"
import { text } from "../../../domain/Message.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"

export const run = (name: string): Id.RunId => Id.RunId.make(name)
export const [a, b, c, d] = ["run_a", "run_b", "run_c", "run_d"].map(run) as [
  Id.RunId,
  Id.RunId,
  Id.RunId,
  Id.RunId
]
export const session = (name: string): Id.SessionId => Id.SessionId.make(name)
export const rev = (revision: number): Id.Revision => Id.Revision.make(revision)

/** An event that changes nothing in the inbox. */
export const said = (text: string): RunEvent => ({
  _tag: "message.queued",
  at: 1,
  content: [{ _tag: "text", text }]
})

/** The event that starts a run of this agent. */
export const begun = (agent: string): RunEvent => ({
  _tag: "run.started",
  at: 0,
  runId: run("run_a"),
  sessionId: session("s1"),
  agent: { name: agent, instructions: "", tools: {} },
  agentPath: [agent],
  prompt: [text("go")],
  limits: Limits.defaults,
  policy: { mode: "ask" },
  asks: true,
  structured: false
})

/** The event of a handoff to this agent. */
export const handedTo = (agent: string): RunEvent => ({
  _tag: "agent.changed",
  at: 1,
  agent: { name: agent, instructions: "", tools: {} },
  policy: { mode: "ask" },
  structured: false
})

export const ended: RunEvent = { _tag: "run.cancelled", at: 9, reason: "no", calls: [] }
export const failed: RunEvent = {
  _tag: "run.failed",
  at: 9,
  failure: { _tag: "RunDefect", description: "no" }
}
export const resumed: RunEvent = { _tag: "run.resumed", at: 10 }

/** `count` events of {@link said}, numbered from `from`. */
export const manySaid = (count: number, from = 0): Arr.NonEmptyReadonlyArray<RunEvent> => [
  said(String(from)),
  ...Array.from({ length: count - 1 }, (_, index) => said(String(from + index + 1)))
]

/** Wraps an event of a sub-agent. */
export const inChild = (parent: Id.RunId, event: RunEvent): RunEvent => ({
  _tag: "child.advanced",
  at: event.at,
  callId: Id.toolCallId(parent, 1, 1),
  event
})

/** A message to send. */
export const saying = (words: string, messageId?: string) => ({
  content: [text(words)],
  ...(messageId === undefined ? {} : { messageId })
})

/** The event with which a journal contains a message. */
export const taking = (messageId: string, words = "hello"): RunEvent => ({
  _tag: "message.queued",
  at: 9,
  content: [text(words)],
  messageId
})
