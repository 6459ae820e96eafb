/**
 * Decodes the decisions that callers give, and checks them against their requests.
 */
import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { decodeArguments } from "../../agent/internal/decoding.ts"
import { definitionAt } from "../../agent/internal/definitions.ts"
import { describe } from "../../agent/internal/userCode.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { DecisionInput, Decision } from "../../domain/Decision.ts"
import { decodeDecision as decodeGiven } from "../../domain/internal/given.ts"
import type { ToolApprovalItem } from "../../domain/Interruption.ts"
import type { DecisionMalformed } from "../../domain/Rejection.ts"
import { ArgumentsChanged, EditedArgumentsInvalid } from "../../domain/Rejection.ts"
import type { RunState } from "../../domain/RunState.ts"
import { findRequest, findChild, findCall } from "../../domain/RunState.ts"
import { decodeEdited } from "../../tool/internal/decodedArguments.ts"
import { approvalDigest } from "../calls/digest.ts"
import { shownOf } from "../calls/openRequest.ts"

/** A decision on an approval request as a person saw it. The caller may have changed it, for example to edit its arguments. */
export type DecisionOnShown = DecisionInput & { readonly "~shown"?: ToolApprovalItem }

/** Decodes a caller's decision, and adds the current time. Binds it to the shown arguments if it has the request that showed them. */
export const decodeDecision = Effect.fnUntraced(function* (
  given: DecisionInput,
  clock: Clock.Clock
): Effect.fn.Return<Decision, ArgumentsChanged | DecisionMalformed> {
  // A program without types may give anything.
  const { "~shown": shown, ...plain } = ((given as unknown) ?? {}) as DecisionOnShown
  const own = shown === undefined ? given : { ...plain, digest: yield* digestOf(shown) }
  return yield* Effect.fromResult(decodeGiven(own, clock.currentTimeMillisUnsafe()))
})

/** The digest over what a request shows. Its own digest could be that of other arguments. */
const digestOf = Effect.fnUntraced(function* (
  shown: ToolApprovalItem
): Effect.fn.Return<string, ArgumentsChanged> {
  const { digest: expected, requestId } = shown
  const actual = yield* approvalDigest(shown, shown.arguments)
  return actual === expected ? actual : yield* new ArgumentsChanged({ requestId, expected, actual })
})

/** Refuses an approval if the call's arguments differ from those of the request. The state may come from outside the program. */
export const checkUnchanged = Effect.fnUntraced(function* (
  state: RunState,
  decision: Decision
): Effect.fn.Return<void, ArgumentsChanged> {
  if (decision._tag !== "approve" || decision.arguments !== undefined) return
  const found = findRequest(state, decision.requestId)
  if (found === undefined || found.record.request._tag !== "approval") return
  const { request } = found.record
  const { digest, callId } = request
  const run = found.path.reduce<RunState | undefined>(
    (run, callId) => (run === undefined ? undefined : findChild(run, callId)),
    state
  )
  const call = run === undefined ? undefined : findCall(run, callId)
  if (call === undefined) return
  const actual = yield* approvalDigest(request, shownOf(call))
  if (actual === digest) return
  return yield* new ArgumentsChanged({ requestId: decision.requestId, expected: digest, actual })
})

/** Refuses an approval whose edited arguments the tool of the requesting agent does not accept. Returns it with the tool's schema. */
export const checkEdited = Effect.fnUntraced(function* (
  runtime: Runtime,
  state: RunState,
  decision: Decision
): Effect.fn.Return<Decision, EditedArgumentsInvalid> {
  if (decision._tag !== "approve" || decision.arguments === undefined) return decision
  const { requestId } = decision
  const found = findRequest(state, requestId)
  if (found === undefined || found.record.request._tag !== "approval") return decision
  const { tool } = found.record.request
  const refused = (issues: string) => new EditedArgumentsInvalid({ requestId, tool, issues })
  const holder = definitionAt(runtime.bound, state, found.path)
  if (holder === undefined) return yield* refused("the agent that asks is not in this program")
  const entry = holder.entries.get(tool)
  if (entry === undefined) return yield* refused(`the agent ${holder.agent.name} has no such tool`)
  if (!("tool" in entry)) {
    return yield* refused(
      "a call of another agent takes no edited arguments: approve it as it is, or deny it"
    )
  }
  const decode = (json: unknown) => decodeArguments(entry, holder.limits, json)
  const decoded = yield* Effect.exit(decodeEdited(entry.decoder, decode, decision.arguments))
  if (Exit.isFailure(decoded)) return yield* refused(describe(runtime, Cause.squash(decoded.cause)))
  return { ...decision, schema: entry.definition.schema }
})
