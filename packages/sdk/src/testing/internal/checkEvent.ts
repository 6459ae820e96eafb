/**
 * Checks one event of a journal against the state before it, and counts it in a ledger.
 */
import type * as Schema from "effect/Schema"
import type { Decision } from "../../domain/Decision.ts"
import * as Grant from "../../domain/Grant.ts"
import type { RequestId, ToolCallId } from "../../domain/Id.ts"
import { callIdOf, type Interruption, isExpired } from "../../domain/Interruption.ts"
import { type RunEvent, unwrap } from "../../domain/RunEvent.ts"
import { findCall, findChild, isEnded, isSettled, messages, type RunState } from "../../domain/RunState.ts"
import type { Invariant, Journal } from "../Evidence.ts"
import { validateHistory } from "../ScriptedModel.ts"

export type Report = (invariant: Invariant, detail: string) => void

/** The facts about one call, counted from the events of the journal alone. */
export interface CallLedger {
  readonly callId: ToolCallId
  repeatable: boolean
  /** Whether the call needs an approval, because its `tool.classified` has no `allowedBy`. */
  needsApproval: boolean
  /** The arguments of each start. */
  readonly starts: Array<Schema.Json | undefined>
  /** The arguments of the last approval. */
  approved?: { readonly arguments: Schema.Json }
  /** The number of `retry` decisions. */
  retries: number
  /** The number of starts of an already started body without a `retry` decision. */
  restarts: number
  /** Whether the call completed: its body returned, or its result came from outside. */
  completed: boolean
}

/** The facts that were counted from the events of a run so far. */
export interface OpenLedger {
  readonly calls: Map<string, CallLedger>
  readonly requests: Map<RequestId, Interruption>
  readonly decisions: Map<RequestId, Decision>
  readonly superseded: Set<RequestId>
  readonly messages: Set<string>
}

export const checkEvent = (root: RunState, wrapped: RunEvent, ledger: OpenLedger, say: Report): void => {
  const { event, path } = unwrap(wrapped)
  if (event._tag === "message.queued" && event.messageId !== undefined) {
    const { messageId } = event
    if (ledger.messages.has(messageId)) say("oneMessage", `the message ${messageId} is queued twice`)
    ledger.messages.add(messageId)
  }
  checkRoot(root, event._tag, path.length > 0, say)
  const line = states(root, path)
  if (line === undefined) {
    if (event._tag !== "run.started")
      say("terminal", `${event._tag} belongs to a sub-agent that is not running`)
    return
  }
  const state = line[line.length - 1]!
  switch (event._tag) {
    case "model.answered": {
      if (state.calls.length > 0) say("validHistory", "the model was called while calls were open")
      const problem = validateHistory(messages(state))
      if (problem !== undefined) say("validHistory", problem)
      return
    }
    case "tool.classified": {
      const call = callOf(ledger, event.callId)
      call.repeatable = event.safety === "readOnly" || event.idempotent
      call.needsApproval = event.allowedBy === undefined
      if (call.needsApproval) delete call.approved
      if (event.grantId !== undefined && !isCovered(line, event.grantId, event.at)) {
        say(
          "approvedOnly",
          `${event.callId} was allowed by the grant ${event.grantId}, which is not in force`
        )
      }
      return
    }
    case "tool.started": {
      const call = callOf(ledger, event.callId)
      const before = findCall(state, event.callId)
      if (before === undefined || isSettled(before))
        say("oneResult", `${event.callId} is started and is not open`)
      if (call.needsApproval && call.approved === undefined) {
        say("approvedOnly", `${event.callId} is started without an approval`)
      }
      if (before?.status === "started") call.restarts += 1
      const { attempt = 0, grantId } = before ?? {}
      if (attempt === 0 && grantId !== undefined && !isCovered(line, grantId, event.at)) {
        say("approvedOnly", `${event.callId} is started under the grant ${grantId}, which is not in force`)
      }
      call.starts.push(before?.value ?? before?.arguments)
      return
    }
    case "tool.notStarted":
      callOf(ledger, event.callId).starts.pop()
      return
    case "tool.completed":
    case "tool.failed":
    case "tool.denied": {
      const before = findCall(state, event.callId)
      if (before === undefined || isSettled(before)) say("oneResult", `${event.callId} gets a second result`)
      if (event._tag === "tool.completed") callOf(ledger, event.callId).completed = true
      return
    }
    case "request.opened": {
      const { requestId } = event.request
      if (ledger.requests.has(requestId)) say("oneDecision", `${requestId} is opened twice`)
      ledger.requests.set(requestId, event.request)
      return
    }
    case "request.superseded":
      ledger.superseded.add(event.requestId)
      return
    case "request.decided":
      return checkDecision(event.decision, state, ledger, say)
  }
}

/** The events that may follow a run's failure: they prepare or record its resumption, or revoke a grant. */
const afterFailure: ReadonlySet<RunEvent["_tag"]> = new Set([
  "request.decided",
  "request.superseded",
  "message.queued",
  "limits.changed",
  "run.resumed",
  "grant.revoked"
])

/** The events that may follow the end of a run: those of a compaction by command and of a pin, which concern the session's next run. */
const afterEnd: ReadonlySet<RunEvent["_tag"]> = new Set([
  "grant.revoked",
  "compaction.requested",
  "compaction.skipped",
  "context.pruned",
  "context.compacted",
  "message.pinned",
  "message.unpinned",
  "model.charged"
])

const checkRoot = (root: RunState, tag: RunEvent["_tag"], inside: boolean, say: Report): void => {
  if (!isEnded(root)) return
  const allowed = afterEnd.has(tag) || (root.status === "error" && afterFailure.has(tag))
  if (!allowed && !(inside && root.status === "error" && tag.startsWith("request."))) {
    say("terminal", `${tag} follows the end of the run (${root.status})`)
  }
}

/**
 * Checks that the last event of a failed run is its failure: the events that may follow a failure belong to a run that is resumed. Earlier
 * versions also recorded revocations after the end.
 */
export const checkLast = ({ events }: Journal, state: RunState, report: Report): void => {
  if (state.status !== "error") return
  const last = events.findLast(({ _tag }) => !afterEnd.has(_tag))
  if (last !== undefined && last._tag !== "run.failed") {
    report("terminal", `its last event is ${last._tag} and it has failed`)
  }
}

/** The states from the root to the run at the end of `path`. Returns `undefined` if a run below the root does not exist or has ended. */
const states = (root: RunState, path: ReadonlyArray<ToolCallId>): ReadonlyArray<RunState> | undefined => {
  const line = [root]
  for (const callId of path) {
    const state = line[line.length - 1]!
    const call = findCall(state, callId)
    const child = findChild(state, callId)
    if (child === undefined || isEnded(child)) return undefined
    if (call?.child !== undefined && isSettled(call)) return undefined
    line.push(child)
  }
  return line
}

const isCovered = (line: ReadonlyArray<RunState>, grantId: string, at: number): boolean =>
  line.some((state, index) =>
    state.grants.some(
      (grant) =>
        grant.id === grantId &&
        Grant.isActive(grant, at) &&
        (index === line.length - 1 ? isOfAgent(grant, state) : grant.inherit)
    )
  )

/**
 * Whether a grant is for the agent that has the run's conversation. A grant of another run is not compared, because a deploy may have
 * renamed the agent since.
 */
const isOfAgent = (grant: Grant.Grant, { agent, agentPath, runId }: RunState): boolean =>
  grant.agent === undefined ||
  !grant.id.startsWith(`${runId}.r`) ||
  grant.agent === agent.name ||
  grant.agent === agentPath.at(-1)

const callOf = (ledger: OpenLedger, callId: ToolCallId): CallLedger => {
  const known = ledger.calls.get(callId)
  if (known !== undefined) return known
  const call: CallLedger = {
    callId,
    repeatable: false,
    needsApproval: true,
    starts: [],
    retries: 0,
    restarts: 0,
    completed: false
  }
  ledger.calls.set(callId, call)
  return call
}

const checkDecision = (decision: Decision, state: RunState, ledger: OpenLedger, say: Report): void => {
  const { requestId } = decision
  const request = ledger.requests.get(requestId)
  if (ledger.decisions.has(requestId)) say("oneDecision", `${requestId} is decided twice`)
  if (ledger.superseded.has(requestId)) say("oneDecision", `${requestId} is decided after it was superseded`)
  ledger.decisions.set(requestId, decision)
  if (request === undefined) return say("oneDecision", `${requestId} is decided and was never opened`)
  if (decision.by !== "expiry" && isExpired(request, decision.at)) {
    say("oneDecision", `${requestId} is decided by ${decision.by} after it had expired`)
  }
  const callId = callIdOf(request)
  if (callId === undefined) return
  const call = callOf(ledger, callId)
  if (decision._tag === "retry") call.retries += 1
  else if (decision._tag === "approve" && request._tag === "approval") {
    if (decision.digest !== undefined && decision.digest !== request.digest) {
      say("asApproved", `${requestId} was approved with the digest of other arguments`)
    }
    call.approved = { arguments: decision.arguments ?? request.arguments }
  } else {
    const before = findCall(state, callId)
    if (before === undefined || isSettled(before))
      say("oneResult", `${requestId} settles ${callId}, which is not open`)
  }
}
