/**
 * Fixtures of the contract suite: requests and decisions.
 */
import type { Decision } from "../../../domain/Decision.ts"
import * as Id from "../../../domain/Id.ts"
import type {
  ExternalRequest,
  InDoubtRequest,
  Interruption,
  TimerRequest,
  ToolApprovalItem
} from "../../../domain/Interruption.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"

/** An approval request. */
export const approval = (
  runId: Id.RunId,
  index: number,
  fields: Partial<ToolApprovalItem> = {}
): ToolApprovalItem => ({
  _tag: "approval",
  requestId: Id.requestId(runId, index),
  runId,
  agentPath: ["root"],
  at: index,
  callId: Id.toolCallId(runId, 1, index),
  tool: "deploy",
  arguments: { index },
  digest: `digest ${index}`,
  safety: "sideEffecting",
  ...fields
})

/** A question. */
export const question = (runId: Id.RunId, index: number): Interruption => ({
  _tag: "question",
  requestId: Id.requestId(runId, index),
  runId,
  agentPath: ["root"],
  at: index,
  callId: Id.toolCallId(runId, 1, index),
  question: "Which one?"
})

/** A wait for a time. */
export const timer = (
  runId: Id.RunId,
  index: number,
  fields: Pick<TimerRequest, "expiresAt"> & Partial<TimerRequest>
): TimerRequest => ({
  _tag: "timer",
  requestId: Id.requestId(runId, index),
  runId,
  agentPath: ["root"],
  at: index,
  callId: Id.toolCallId(runId, 1, index),
  tool: "wait",
  arguments: { index },
  ...fields
})

/** A call that ends elsewhere. */
export const external = (
  runId: Id.RunId,
  index: number,
  fields: Partial<ExternalRequest> = {}
): ExternalRequest => ({
  _tag: "external",
  requestId: Id.requestId(runId, index),
  runId,
  agentPath: ["root"],
  at: index,
  callId: Id.toolCallId(runId, 1, index),
  tool: "render",
  arguments: { index },
  token: `job ${index}`,
  ...fields
})

/** A call in doubt, which has no token unless its work ends elsewhere. */
export const inDoubt = (
  runId: Id.RunId,
  index: number,
  fields: Partial<InDoubtRequest> = {}
): InDoubtRequest => ({
  _tag: "inDoubt",
  requestId: Id.requestId(runId, index),
  runId,
  agentPath: ["root"],
  at: index,
  callId: Id.toolCallId(runId, 1, index),
  tool: "charge",
  arguments: { index },
  idempotencyKey: `job ${index}`,
  startedAt: index,
  attempt: 1,
  ...fields
})

export const opened = (request: Interruption): RunEvent => ({
  _tag: "request.opened",
  at: request.at,
  request
})

export const approve = (requestId: Id.RequestId, by = "ada") => ({ _tag: "approve", requestId, by }) as const
export const deny = (requestId: Id.RequestId, by = "bob") => ({ _tag: "deny", requestId, by }) as const

/** The event that records a decision. */
export const decided = (decision: Decision, at = 9): RunEvent => ({ _tag: "request.decided", at, decision })
