/**
 * Builders of events for a synthetic run, `run-1`, at the time 1000 by default.
 */
import type * as Schema from "effect/Schema"
import type { Decision, DecisionInput } from "../../src/domain/Decision.ts"
import { evolveAll } from "../../src/domain/evolve.ts"
import * as Id from "../../src/domain/Id.ts"
import type { Interruption, ToolApprovalItem } from "../../src/domain/Interruption.ts"
import * as Limits from "../../src/domain/Limits.ts"
import { text } from "../../src/domain/Message.ts"
import type { AnsweredPart, RunEvent } from "../../src/domain/RunEvent.ts"
import type { RunState } from "../../src/domain/RunState.ts"

type Of<Tag extends RunEvent["_tag"]> = Extract<RunEvent, { readonly _tag: Tag }>

export const at = 1000
const runId = "run-1" as Id.RunId
/** The id of a call by turn and by its place in the answer, both from 1. */
export const callId = (turn: number, ordinal: number, run: string = runId) =>
  Id.toolCallId(run as Id.RunId, turn, ordinal)
export const requestId = (index: number, run: string = runId) => Id.requestId(run as Id.RunId, index)

export const fold = (...events: ReadonlyArray<RunEvent>): RunState => evolveAll(undefined, events)!
export const foldOnto = (state: RunState, ...events: ReadonlyArray<RunEvent>): RunState =>
  evolveAll(state, events)!

export const started = (fields: Partial<Of<"run.started">> = {}): RunEvent => ({
  _tag: "run.started",
  at,
  runId,
  sessionId: "session-1" as Id.SessionId,
  agent: { name: "main", instructions: "i", tools: {} },
  agentPath: ["main"],
  prompt: [text("Do it.")],
  limits: Limits.defaults,
  policy: { mode: "ask" },
  asks: true,
  structured: false,
  ...fields
})

/** An answer with a text or with calls of these tools. */
export const answered = (content: string | ReadonlyArray<AnsweredPart>, costUsd = 0.01): RunEvent => ({
  _tag: "model.answered",
  at,
  content: typeof content === "string" ? [text(content)] : content,
  usage: { inputTokens: 10, outputTokens: 5, costUsd },
  finishReason: typeof content === "string" ? "stop" : "toolCalls"
})

export const calls = (...names: ReadonlyArray<string>): RunEvent =>
  answered(names.map((name) => called(name, { of: name })))

export const called = (name: string, args: Schema.Json, providerCallId = "call_0"): AnsweredPart => ({
  _tag: "toolCall",
  providerCallId,
  name,
  arguments: JSON.stringify(args)
})

/** A call that was let through: of a side-effecting tool by default. */
export const allowed = (id: Id.ToolCallId, fields: Partial<Of<"tool.classified">> = {}): RunEvent => ({
  _tag: "tool.classified",
  at,
  callId: id,
  target: "tool",
  safety: "sideEffecting",
  idempotent: false,
  arguments: { of: "tool" },
  allowedBy: "tool",
  ...fields
})

export const read = (id: Id.ToolCallId): RunEvent => allowed(id, { safety: "readOnly" })

/** A classified call with an open approval request. */
export const askedAbout = (
  id: Id.ToolCallId,
  request: Id.RequestId,
  fields: Partial<ToolApprovalItem> = {}
): ReadonlyArray<RunEvent> => {
  const { allowedBy: _, ...classified } = allowed(id) as Of<"tool.classified">
  return [
    {
      ...classified,
      safety: fields.safety ?? "sideEffecting",
      arguments: fields.arguments ?? { of: "tool" }
    },
    opened(approval(id, request, fields))
  ]
}

export const approval = (
  id: Id.ToolCallId,
  request: Id.RequestId,
  fields: Partial<ToolApprovalItem> = {}
): ToolApprovalItem => ({
  _tag: "approval",
  requestId: request,
  runId,
  agentPath: ["main"],
  at,
  callId: id,
  tool: "write_file",
  arguments: { of: "tool" },
  digest: "digest",
  safety: "sideEffecting",
  ...fields
})

export const external = (id: Id.ToolCallId, request: Id.RequestId): Interruption => ({
  _tag: "external",
  requestId: request,
  runId,
  agentPath: ["coder"],
  at,
  callId: id,
  tool: "write_file",
  arguments: {},
  token: "job-17",
  expiresAt: at + 5000,
  onExpiry: "deny"
})

export const timer = (id: Id.ToolCallId, request: Id.RequestId): Interruption => ({
  _tag: "timer",
  requestId: request,
  runId,
  agentPath: ["coder"],
  at,
  callId: id,
  tool: "write_file",
  arguments: {},
  expiresAt: at + 5000,
  reason: "the disk is slow"
})

export const inDoubt = (id: Id.ToolCallId, request: Id.RequestId, token?: string): Interruption => ({
  _tag: "inDoubt",
  requestId: request,
  runId,
  agentPath: ["main"],
  at,
  callId: id,
  tool: "write_file",
  arguments: { of: "tool" },
  idempotencyKey: id,
  ...(token === undefined ? {} : { token }),
  startedAt: at,
  attempt: 1
})

export const question = (id: Id.ToolCallId, request: Id.RequestId): Interruption => ({
  _tag: "question",
  requestId: request,
  runId,
  agentPath: ["main"],
  at,
  callId: id,
  question: "Which branch?",
  options: ["main", "next"]
})

export const limit = (
  request: Id.RequestId,
  budget: Limits.Budget,
  limit: number,
  spent: number = limit
): Interruption => ({
  _tag: "limit",
  requestId: request,
  runId,
  agentPath: ["main"],
  at,
  budget,
  limit,
  spent
})

export const login = (request: Id.RequestId): Interruption => ({
  _tag: "login",
  requestId: request,
  runId,
  agentPath: ["main"],
  at,
  profile: "fast",
  message: "The login has run out."
})

export const opened = (request: Interruption): RunEvent => ({ _tag: "request.opened", at, request })
export const decided = (decision: DecisionInput): RunEvent => ({
  _tag: "request.decided",
  at,
  decision: { at, ...decision } as Decision
})
export const begun = (id: Id.ToolCallId): RunEvent => ({
  _tag: "tool.started",
  at,
  callId: id,
  idempotencyKey: id
})
export const completed = (id: Id.ToolCallId, said = `result of ${id}`): RunEvent => ({
  _tag: "tool.completed",
  at,
  callId: id,
  content: [text(said)]
})
export const failed = (id: Id.ToolCallId, said = "It failed."): RunEvent => ({
  _tag: "tool.failed",
  at,
  callId: id,
  content: [text(said)]
})
export const said = (words: string): RunEvent => ({ _tag: "message.queued", at, content: [text(words)] })
export const held: RunEvent = { _tag: "run.held", at }
export const resumed: RunEvent = { _tag: "run.resumed", at }
export const done: RunEvent = { _tag: "run.completed", at }
export const cancelled: RunEvent = { _tag: "run.cancelled", at, reason: "the user pressed stop", calls: [] }
export const broke: RunEvent = {
  _tag: "run.failed",
  at,
  failure: { _tag: "RunDefect", description: "a hook threw" }
}

/** An event of the sub-agent of a call. */
export const inside = (id: Id.ToolCallId, event: RunEvent): RunEvent => ({
  _tag: "child.advanced",
  at,
  callId: id,
  event
})

/** The start of a sub-agent's run. */
export const childStarted = (id: Id.ToolCallId, fields: Partial<Of<"run.started">> = {}): RunEvent =>
  inside(
    id,
    started({
      runId: Id.childRunId(id),
      agent: { name: "researcher", instructions: "r", tools: {} },
      agentPath: ["main", "researcher"],
      ...fields
    })
  )

/** A call of a sub-agent that was let through. */
export const delegated = (id: Id.ToolCallId): RunEvent => allowed(id, { target: "agent" })
