/**
 * The grants that a commit relies on, and the events that follow if one of them was revoked.
 *
 * A call that a grant allowed starts with a `tool.started` event. The commit of that event checks the grant. If it was revoked, nothing is
 * written, the start is taken back before a body runs, and the call is judged again.
 */
import type { Grant, Revoked } from "../../domain/Grant.ts"
import type { GrantId, ToolCallId } from "../../domain/Id.ts"
import { recordOf } from "../../domain/internal/released.ts"
import { revocations } from "../../domain/revokeInState.ts"
import { type RunEvent, unwrap, wrap } from "../../domain/RunEvent.ts"
import { findCall, findChild, type RunState, type ToolCall } from "../../domain/RunState.ts"
import type { StoredGrant } from "../../store/StoredGrant.ts"

/** A start of a call under a grant. */
interface Start {
  readonly path: ReadonlyArray<ToolCallId>
  readonly call: ToolCall
  readonly grantId: GrantId
}

/** The starts among these events, which are folded into `state`, without those that were taken back. */
const startsIn = (state: RunState, events: ReadonlyArray<RunEvent>): ReadonlyArray<Start> => {
  let starts: Array<Start> | undefined
  for (const wrapped of events) {
    if (wrapped._tag !== "tool.started" && wrapped._tag !== "child.advanced") continue
    const { event, path } = unwrap(wrapped)
    if (event._tag !== "tool.started") continue
    const run = runAt(state, path)
    const call = run === undefined ? undefined : findCall(run, event.callId)
    if (run === undefined || call?.grantId === undefined || call.status !== "started") continue
    // A later decision about the call itself replaces the grant.
    if (recordOf(run, call)?.decision !== undefined) continue
    ;(starts ??= []).push({ path, call, grantId: call.grantId })
  }
  return starts ?? none
}

const none: ReadonlyArray<never> = []

const runAt = (state: RunState, path: ReadonlyArray<ToolCallId>): RunState | undefined =>
  path.reduce<RunState | undefined>(
    (run, callId) => (run === undefined ? undefined : findChild(run, callId)),
    state
  )

/** The grants that a commit relies on; `undefined` if there are none. */
export const grantsUsed = (
  state: RunState,
  events: ReadonlyArray<RunEvent>
): ReadonlyArray<StoredGrant> | undefined => {
  const starts = startsIn(state, events)
  if (starts.length === 0) return undefined
  const used = new Map<GrantId, StoredGrant>()
  for (const { grantId, path } of starts) {
    const grant = grantAt(state, path, grantId)
    if (grant !== undefined) used.set(grantId, { grant, runId: state.runId, sessionId: state.sessionId })
  }
  return [...used.values()]
}

/** A grant of the run at the end of a path, or of a run above it. */
const grantAt = (state: RunState, path: ReadonlyArray<ToolCallId>, grantId: GrantId): Grant | undefined => {
  for (let length = path.length; length >= 0; length -= 1) {
    const found = runAt(state, path.slice(0, length))?.grants.find(({ id }) => id === grantId)
    if (found !== undefined) return found
  }
  return undefined
}

/** The events that record revocations and take back the starts that relied on the revoked grants. */
export const takenBack = (
  state: RunState,
  events: ReadonlyArray<RunEvent>,
  revoked: ReadonlyArray<Revoked>,
  at: number
): ReadonlyArray<RunEvent> => {
  const ids = new Set(revoked.map(({ grantId }) => grantId))
  const back = startsIn(state, events).flatMap(({ call, grantId, path }) =>
    ids.has(grantId) ? [wrap({ _tag: "tool.notStarted", at, callId: call.id }, path)] : []
  )
  return [...back, ...revocations(state, revoked, at)]
}
