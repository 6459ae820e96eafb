/**
 * What one event of a journal may do where it stands, and the ledger that it is counted in.
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

/** What the journal says about one call, counted from its events alone. */
export interface CallLedger {
  readonly callId: ToolCallId
  repeatable: boolean
  /** Set when it was not let through without asking. */
  needsApproval: boolean
  /** The arguments of each start. */
  readonly starts: Array<Schema.Json | undefined>
  /** What the last approval released. */
  approved?: { readonly arguments: Schema.Json }
  /** Decisions to run it again. */
  retries: number
  /** Starts of a body that had been started, without a decision to run it again. */
  restarts: number
  /** A body returned. */
  completed: boolean
}

/** What the events of a run have brought so far. */
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
    if (ledger.messages.has(messageId)) say("oneMessage", `the message ${messageId} is taken twice`)
    ledger.messages.add(messageId)
  }
  checkRoot(root, event._tag, path.length > 0, say)
  const line = states(root, path)
  if (line === undefined) {
    if (event._tag !== "run.started")
      say("terminal", `${event._tag} is about a sub-agent that is not at work`)
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
        say("approvedOnly", `${event.callId} was let through by ${event.grantId}, which is not in force`)
      }
      return
    }
    case "tool.started": {
      const call = callOf(ledger, event.callId)
      const before = findCall(state, event.callId)
      if (before === undefined || isSettled(before))
        say("oneResult", `${event.callId} is started when it is over`)
      if (call.needsApproval && call.approved === undefined) {
        say("approvedOnly", `${event.callId} is started without an approval`)
      }
      if (before?.status === "started") call.restarts += 1
      const { attempt = 0, grantId } = before ?? {}
      if (attempt === 0 && grantId !== undefined && !isCovered(line, grantId, event.at)) {
        say("approvedOnly", `${event.callId} is started under ${grantId}, which is not in force`)
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

/** What may still happen to a run that has ended: a failed one may be taken up again, a grant may be withdrawn. */
const afterFailure: ReadonlySet<RunEvent["_tag"]> = new Set([
  "request.decided",
  "request.superseded",
  "message.queued",
  "limits.changed",
  "run.resumed",
  "grant.revoked"
])

const checkRoot = (root: RunState, tag: RunEvent["_tag"], inside: boolean, say: Report): void => {
  if (!isEnded(root)) return
  const allowed = root.status === "error" ? afterFailure.has(tag) : tag === "grant.revoked"
  if (!allowed && !(inside && root.status === "error" && tag.startsWith("request."))) {
    say("terminal", `${tag} follows the end of the run (${root.status})`)
  }
}

/**
 * The last event of a failed run is its failure: what may follow one belongs to a run that goes on. Earlier versions recorded a
 * revocation behind the end.
 */
export const checkLast = ({ events }: Journal, state: RunState, report: Report): void => {
  if (state.status !== "error") return
  const last = events.findLast(({ _tag }) => _tag !== "grant.revoked")
  if (last !== undefined && last._tag !== "run.failed") {
    report("terminal", `its last event is ${last._tag} and it has failed`)
  }
}

/** The states from the root to the run at the end of `path`; `undefined` when one of them does not go on. */
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

/** Whether a grant that a run gave is for a tool of the agent that has its conversation. A deploy may have renamed that of another run. */
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
  if (ledger.superseded.has(requestId)) say("oneDecision", `${requestId} is decided after it was withdrawn`)
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
      say("oneResult", `${callId} is settled by ${requestId} again`)
  }
}
