/**
 * Checks that an archived run can have happened: its events follow from each other, and each decision answers a request of the run. The
 * store trusts a journal, and a run that contradicts itself could not be resumed.
 *
 * This does not prove where an archive comes from: a consistent archive can have been written by anyone.
 */
import * as Result from "effect/Result"
import { check, expiryDecision } from "../../domain/decide.ts"
import type { Decision } from "../../domain/Decision.ts"
import { instant, lines, sentence } from "../../domain/Display.ts"
import { evolve } from "../../domain/evolve.ts"
import { isWithin, type RequestId, type Timestamp, type ToolCallId } from "../../domain/Id.ts"
import { contradictions } from "../../domain/internal/contradictions.ts"
import { callIdOf, type Interruption, isExpired } from "../../domain/Interruption.ts"
import { misattribution, of as principalOf } from "../../domain/Principal.ts"
import { type RunEvent, unwrap } from "../../domain/RunEvent.ts"
import {
  children,
  findCall,
  findChild,
  findRequest,
  isOpen,
  isSettled,
  type RunState
} from "../../domain/RunState.ts"
import type { SentMessage } from "../../store/SentMessage.ts"

/** The ids that the events of a run have introduced so far. */
export interface KnownIds {
  readonly calls: Set<ToolCallId>
  readonly requests: Set<RequestId>
  readonly messages: Set<string>
}

export const noKnownIds = (): KnownIds => ({ calls: new Set(), requests: new Set(), messages: new Set() })

type Inner = ReturnType<typeof unwrap>["event"]

/** Folds these events, or fails with what cannot have happened. Adds their ids to `known`. */
export const foldSoundly = (
  before: RunState | undefined,
  events: ReadonlyArray<RunEvent>,
  known: KnownIds,
  now: Timestamp
): Result.Result<RunState | undefined, string> => {
  let state = before
  for (const [index, wrapped] of events.entries()) {
    const { event, path } = unwrap(wrapped)
    const run = state === undefined ? undefined : runAt(state, path)
    const problem = problemOf(event, path, run, known, now)
    if (problem !== undefined) {
      return Result.fail(sentence`event ${index + 1} (${event._tag}) cannot have happened: ${lines(problem)}`)
    }
    try {
      state = evolve(state, wrapped)
    } catch {
      return Result.fail("its events do not add up to a run")
    }
    if (event._tag === "model.answered") {
      for (const { id } of runAt(state, path)?.calls ?? []) known.calls.add(id)
    }
    if (event._tag === "request.opened") known.requests.add(event.request.requestId)
    if (event._tag === "message.queued" && event.messageId !== undefined) known.messages.add(event.messageId)
  }
  return Result.succeed(state)
}

/** The run that a path of calls leads to, if it has not ended. */
const runAt = (state: RunState, path: ReadonlyArray<ToolCallId>): RunState | undefined => {
  let run: RunState | undefined = state
  for (const callId of path) run = run === undefined ? undefined : findChild(run, callId)
  return run
}

const problemOf = (
  event: Inner,
  path: ReadonlyArray<ToolCallId>,
  run: RunState | undefined,
  known: KnownIds,
  now: Timestamp
): string | undefined => {
  const stranger = path.find((callId) => !known.calls.has(callId))
  if (stranger !== undefined) return sentence`the run has not made the call ${stranger}`
  switch (event._tag) {
    case "model.answered":
      return run !== undefined && run.calls.length > 0
        ? sentence`the calls of the answer before it are not settled`
        : undefined
    case "tool.classified":
    case "tool.notStarted":
    case "tool.completed":
    case "tool.failed":
    case "tool.denied":
      return known.calls.has(event.callId)
        ? undefined
        : sentence`the run has not made the call ${event.callId}`
    case "tool.started":
      return startProblem(run, event.callId)
    case "request.opened":
      return known.requests.has(event.request.requestId)
        ? sentence`the request ${event.request.requestId} was asked before`
        : requestProblem(run, event.request)
    case "request.superseded":
    case "request.expiring":
      return known.requests.has(event.requestId)
        ? undefined
        : sentence`the run has not asked the request ${event.requestId}`
    case "request.decided":
      return decisionProblem(run, event.decision, now, true)
    case "message.queued":
      return event.messageId !== undefined && known.messages.has(event.messageId)
        ? sentence`the run has the message ${event.messageId} already`
        : undefined
    default:
      return undefined
  }
}

/** A body starts only for a call that was allowed: by its tool, a rule, a policy, a grant or a decision. */
const startProblem = (run: RunState | undefined, callId: ToolCallId): string | undefined => {
  const call = run === undefined ? undefined : findCall(run, callId)
  if (call === undefined) return sentence`the run has no open call ${callId}`
  switch (call.status) {
    case "ready":
    case "started":
      return undefined
    case "settled":
      return sentence`the call ${callId} has its result already`
    case "requested":
      return sentence`nothing has allowed the call ${callId}`
    case "waiting":
    case "inDoubt":
      return sentence`the request ${call.requestId} about the call ${callId} is not decided`
  }
}

const requestProblem = (run: RunState | undefined, request: Interruption): string | undefined => {
  const { requestId } = request
  if (run === undefined || request.runId !== run.runId) {
    return sentence`the request ${requestId} is of another run`
  }
  const isDerived = isWithin(requestId, run.runId) && /^\.r\d+$/.test(requestId.slice(run.runId.length))
  if (!isDerived) return sentence`the request ${requestId} has the id of another run`
  const callId = callIdOf(request)
  const call = callId === undefined ? undefined : findCall(run, callId)
  return callId !== undefined && (call === undefined || isSettled(call))
    ? sentence`the request ${requestId} is about the call ${callId}, which is not open`
    : undefined
}

/** Why a decision does not answer an open request of this run. */
const decisionProblem = (
  run: RunState | undefined,
  decision: Decision,
  now: Timestamp,
  isJournaled: boolean
): string | undefined => {
  const { requestId } = decision
  const record = run?.requests.find(({ request }) => request.requestId === requestId)
  if (record === undefined) return sentence`${runName(run)} has not asked the request ${requestId}`
  if (record.decision !== undefined) return sentence`the request ${requestId} was decided before`
  if (!isOpen(record)) return sentence`the request ${requestId} was no longer open`
  return misfit(record.request, decision, now, isJournaled)
}

const runName = (run: RunState | undefined): string =>
  run === undefined ? "the run" : sentence`the run ${run.runId}`

/** Why a decision does not fit its request, or cannot be of the principal that it names. */
const misfit = (
  request: Interruption,
  decision: Decision,
  now: Timestamp,
  isJournaled: boolean
): string | undefined => {
  const { requestId } = request
  if (principalOf(decision).kind === "expiry" || decision.by === "expiry") {
    const expiry = expiryDecision(request)
    const isOfTime =
      decision.principal === undefined && decision._tag === expiry._tag && decision.at === expiry.at
    if (!isOfTime || !isExpired(request, now)) {
      return sentence`the request ${requestId} is decided by expiry, and ${whenExpired(request)}`
    }
  } else if (!isJournaled) {
    const problem = misattribution(decision)
    if (problem !== undefined) return sentence`the decision on ${requestId} was made by no caller: ${problem}`
  }
  const checked = check(request, decision)
  if (Result.isSuccess(checked)) return undefined
  const { failure } = checked
  // Earlier versions recorded such decisions; a journal that contains them is accepted.
  const wasTaken =
    (failure._tag === "GrantRefused" && failure.reason === "subAgent") ||
    (failure._tag === "DecisionNotApplicable" && request._tag === "limit" && decision._tag === "topUp")
  return isJournaled && wasTaken
    ? undefined
    : sentence`the decision on ${requestId} does not fit it: ${lines(failure.message)}`
}

const whenExpired = ({ expiresAt, onExpiry }: Interruption): string =>
  expiresAt === undefined || onExpiry === "stay"
    ? "it does not expire"
    : sentence`it expires at ${instant(expiresAt)}, and can only be denied then`

/** Why a run cannot continue from this state. */
export const stateProblem = (state: RunState): string | undefined => {
  const [problem] = contradictions(state)
  if (problem !== undefined) {
    return sentence`its events do not add up to a run that can go on (${state.runId}: ${lines(problem)})`
  }
  for (const { child } of children(state)) {
    const inside = stateProblem(child)
    if (inside !== undefined) return inside
  }
  return undefined
}

/** The decisions and messages of a run that its journal does not contain. */
interface Mail {
  readonly decisions: ReadonlyArray<Decision>
  readonly messages?: ReadonlyArray<SentMessage>
}

/** Why these decisions and messages cannot be the run's mail. */
export const mailProblem = (
  state: RunState,
  { decisions, messages = [] }: Mail,
  known: KnownIds,
  now: Timestamp
): string | undefined => {
  const decided = new Set<RequestId>()
  for (const decision of decisions) {
    const { requestId } = decision
    if (decided.has(requestId)) return sentence`it decides the request ${requestId} twice`
    decided.add(requestId)
    const problem = waitingProblem(state, decision, now)
    if (problem !== undefined) return sentence`it has a decision that cannot wait: ${lines(problem)}`
  }
  const sent = new Set(known.messages)
  for (const { messageId } of messages) {
    if (sent.has(messageId)) return sentence`it has the message ${messageId} twice`
    sent.add(messageId)
  }
  return undefined
}

/** Why a decision cannot be the run's mail. For an ended run, it may also be a decision that the run did not act on before it ended. */
const waitingProblem = (state: RunState, decision: Decision, now: Timestamp): string | undefined => {
  const { requestId } = decision
  const found = findRequest(state, requestId)
  if (found === undefined) return sentence`${runName(state)} has not asked the request ${requestId}`
  const { record } = found
  const isOver = state.status !== "held" && state.status !== "running"
  if (!isOver || record.decision !== undefined) {
    return decisionProblem({ ...state, requests: [record] }, decision, now, false)
  }
  return misfit(record.request, decision, now, false)
}
