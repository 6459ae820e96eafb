/**
 * Denials that stand: the denial of an approval request also settles the later equal calls of the run, until a person reopens the request.
 *
 * Calls are equal if their requests have the same digest. The runs of a tree share their denials, since a sub-agent that is started once more
 * would otherwise ask again. The last decision on a digest counts. A denial by expiry does not stand, because no party made it; a denial
 * that a new message caused does not stand, because the message may change what the call is for.
 */
import type { Deny } from "../Decision.ts"
import type { RequestId } from "../Id.ts"
import type { ToolApprovalItem } from "../Interruption.ts"
import type { Reopening, Reopens, RequestRecord, RunState } from "../RunState.ts"
import { sameJson } from "./json.ts"
import { updateRequest } from "./turn.ts"

/** A denied request and its decision. */
export interface Denial {
  readonly request: ToolApprovalItem
  readonly decision: Deny
}

/** Whether a request about a call of this tool was denied, in the run or a sub-agent inside it. Allocates nothing: most runs have none. */
export const hasDenial = (state: RunState, tool: string): boolean =>
  state.requests.some((record) => denialIn(record)?.request.tool === tool) ||
  state.calls.some(({ child }) => child !== undefined && hasDenial(child, tool)) ||
  state.background?.some(({ child }) => child !== undefined && hasDenial(child, tool)) === true

/** The records of the approval requests about calls of this tool, of the run and of the sub-agents inside it. */
export const recordsOf = (state: RunState, tool: string): ReadonlyArray<RequestRecord> => {
  const own = state.requests.filter(({ request }) => request._tag === "approval" && request.tool === tool)
  const inside = childrenOf(state).flatMap((child) => recordsOf(child, tool))
  return inside.length === 0 ? own : [...own, ...inside]
}

/** Every sub-agent's run that the state holds. A settled call keeps that of its sub-agent until the turn closes. */
const childrenOf = ({ background = none, calls }: RunState): ReadonlyArray<RunState> =>
  [...calls, ...background].flatMap(({ child }) => (child === undefined ? [] : [child]))

const none: ReadonlyArray<never> = []

/** The denial of this record, if it stands unless a later decision follows. */
export const denialIn = (record: RequestRecord): Denial | undefined => {
  const { decision, reopened, request } = record
  const stands =
    request._tag === "approval" &&
    decision?._tag === "deny" &&
    decision.by !== "expiry" &&
    decision.supersedes === undefined &&
    reopened === undefined
  return stands ? { request, decision } : undefined
}

/** The denial that stands for calls with this digest: the last one in the records, unless an approval or a reopening followed it. */
export const standingDenial = (records: ReadonlyArray<RequestRecord>, digest: string): Denial | undefined => {
  let last: Denial | undefined
  for (const record of records) {
    const denial = denialIn(record)
    if (denial?.request.digest !== digest) continue
    if (last === undefined || denial.decision.at >= last.decision.at) last = denial
  }
  if (last === undefined) return undefined
  const { decision, request } = last
  return records.some(
    (record) => isApprovedSince(record, request, decision.at) || isReopenedSince(record, digest, decision.at)
  )
    ? undefined
    : last
}

/** Whether a record approves, after this time, the call that another request showed: as shown, or by an edit. */
const isApprovedSince = (
  { decision, request }: RequestRecord,
  shown: ToolApprovalItem,
  at: number
): boolean => {
  if (request._tag !== "approval" || decision?._tag !== "approve" || decision.at <= at) return false
  if (decision.arguments === undefined) return request.digest === shown.digest
  return (
    request.agentPath.at(-1) === shown.agentPath.at(-1) &&
    request.schema === shown.schema &&
    request.safety === shown.safety &&
    sameJson(decision.arguments, shown.arguments)
  )
}

const isReopenedSince = ({ reopened, request }: RequestRecord, digest: string, at: number): boolean =>
  request._tag === "approval" && request.digest === digest && reopened !== undefined && reopened.at >= at

/** Marks the denied request that a message reopens, of the run or of a sub-agent in it. */
export const reopened = (state: RunState, reopens: Reopens | undefined): RunState => {
  if (reopens === undefined) return state
  const { requestId, ...reopening } = reopens
  return mark(state, requestId, reopening)
}

const mark = (state: RunState, requestId: RequestId, reopening: Reopening): RunState => {
  if (state.requests.some(({ request }) => request.requestId === requestId))
    return updateRequest(state, requestId, (record) => ({
      ...record,
      reopened: record.reopened ?? reopening
    }))
  const inside = <Entry extends { readonly child?: RunState }>(entry: Entry): Entry =>
    entry.child === undefined ? entry : { ...entry, child: mark(entry.child, requestId, reopening) }
  const { background, calls } = state
  return {
    ...state,
    calls: calls.map(inside),
    ...(background === undefined ? {} : { background: background.map(inside) })
  }
}
