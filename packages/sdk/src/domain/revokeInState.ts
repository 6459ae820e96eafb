/**
 * Revokes grants in a state, for runs without a store. The grants and revocations of such a run exist only in the state that the caller
 * keeps.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import { evolve } from "./evolve.ts"
import { GrantNotFound, type Revoked } from "./Grant.ts"
import type { GrantId, Timestamp, ToolCallId } from "./Id.ts"
import { defined } from "./internal/defined.ts"
import { attribute, type Principal, type PrincipalInvalid } from "./Principal.ts"
import { type RunEvent, wrap } from "./RunEvent.ts"
import { children, type RunState } from "./RunState.ts"

const none: ReadonlyArray<never> = []

/** The events that record revocations in every run of a tree that has the grants and does not hold the revocation yet. */
export const revocations = (
  state: RunState,
  revoked: ReadonlyArray<Revoked>,
  at: number,
  path: ReadonlyArray<ToolCallId> = none
): ReadonlyArray<RunEvent> => {
  const own = revoked.flatMap(({ grantId, revocation: { by, principal } }) =>
    state.grants.some((grant) => grant.id === grantId && grant.revoked === undefined)
      ? [wrap({ _tag: "grant.revoked", at, grantId, by, ...defined({ principal }) }, path)]
      : []
  )
  const inside = children(state).flatMap(({ callId, child }) =>
    revocations(child, revoked, at, [...path, callId])
  )
  return inside.length === 0 ? own : [...own, ...inside]
}

/** Whether a state, or one of its sub-agents' states, has a grant. */
const hasGrant = (state: RunState, grantId: string): boolean =>
  state.grants.some(({ id }) => id === grantId) ||
  children(state).some(({ child }) => hasGrant(child, grantId))

/**
 * Revokes a grant in a state and in the states of its sub-agents. No further call starts under the grant in the returned state and in
 * the states that follow from it.
 *
 * **Gotchas**
 *
 * Other copies of the state, such as an older one, still have the grant. For a stored run, use `revokeGrant` instead.
 *
 * **Errors**
 *
 * - `GrantNotFound` — the state has no such grant.
 * - `PrincipalInvalid` — `by` is not a name or a valid principal.
 */
export const revokeInState = (
  state: RunState,
  grantId: string,
  options: { readonly by: string | Principal; readonly at: Timestamp }
): Result.Result<RunState, GrantNotFound | PrincipalInvalid> => {
  const who = attribute(options.by)
  if (Result.isFailure(who)) return Result.fail(who.failure)
  if (!hasGrant(state, grantId)) return Result.fail(new GrantNotFound({ grantId, runId: state.runId }))
  const revocation = { ...who.success, at: options.at }
  const events = revocations(state, [{ grantId: grantId as GrantId, revocation }], options.at)
  return Result.succeed(events.reduce<RunState>((state, event) => evolve(state, event), state))
}
