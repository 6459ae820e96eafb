/**
 * Decodes the decisions that callers give, and checks them against their requests.
 */
import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import { decodeArguments } from "../../agent/internal/decoding.ts"
import { definitionAt } from "../../agent/internal/definitions.ts"
import { describeRefusal } from "../../agent/internal/userCode.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { DecisionInput, Decision, Supply } from "../../domain/Decision.ts"
import { decodeDecision as decodeGiven } from "../../domain/internal/given.ts"
import { expiredGrant } from "../../domain/internal/judgeDecision.ts"
import { type Interruption, type ToolApprovalItem, toolOf } from "../../domain/Interruption.ts"
import type { DecisionMalformed } from "../../domain/Rejection.ts"
import {
  ArgumentsChanged,
  EditedArgumentsInvalid,
  type GrantRefused,
  SuppliedResultInvalid
} from "../../domain/Rejection.ts"
import type { RunState } from "../../domain/RunState.ts"
import { findRequest, findChild, findCall } from "../../domain/RunState.ts"
import { decodeEdited } from "../../tool/internal/decodedArguments.ts"
import { decodeSuccess, encodeSuccess } from "../../tool/internal/encodeSuccess.ts"
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

/** Whether the tool of the request's call determines if the decision can be used. */
export const needsTool = (request: Interruption, decision: Decision): boolean =>
  decision._tag === "approve" ? decision.arguments !== undefined : isCompletion(request, decision)

/**
 * Whether a decision completes a call whose work ended elsewhere: one on hold, or one in doubt by its token. Any other result is a text of
 * the party that decides, which no schema checks.
 */
const isCompletion = (request: Interruption, decision: Decision): decision is Supply =>
  decision._tag === "supply" &&
  (request._tag === "external" ||
    (request._tag === "inDoubt" && request.token !== undefined && request.token === decision.idempotencyKey))

/**
 * Refuses a decision that the tool of the requesting agent cannot use: an approval with edited arguments, the result of a call that ended
 * elsewhere, and a grant that has expired. Returns an edited approval with the tool's schema.
 */
export const checkByTool = (
  runtime: Runtime,
  state: RunState,
  decision: Decision
): Effect.Effect<Decision, EditedArgumentsInvalid | GrantRefused | SuppliedResultInvalid> => {
  const record = findRequest(state, decision.requestId)?.record
  const refusal =
    record?.decision === undefined && record !== undefined
      ? expiredGrant(record.request, decision)
      : undefined
  if (refusal !== undefined) return Effect.fail(refusal)
  return decision._tag === "supply"
    ? Effect.fromResult(checkSupplied(runtime, state, decision))
    : checkEdited(runtime, state, decision)
}

/** A program without the tool cannot check its result, which then fails the call when the run continues. */
const checkSupplied = (
  runtime: Runtime,
  state: RunState,
  decision: Supply
): Result.Result<Decision, SuppliedResultInvalid> => {
  const { requestId, result } = decision
  const found = findRequest(state, requestId)
  if (found === undefined || !isCompletion(found.record.request, decision)) return Result.succeed(decision)
  const tool = toolOf(found.record.request) ?? ""
  const entry = definitionAt(runtime.bound, state, found.path)?.entries.get(tool)
  if (entry === undefined || !("tool" in entry)) return Result.succeed(decision)
  const { success } = entry.tool.options
  return decodeSuccess(success, result).pipe(
    Result.flatMap((value) => encodeSuccess(success, value)),
    Result.map(() => decision),
    Result.mapError(
      (problem) => new SuppliedResultInvalid({ requestId, tool, issues: describeRefusal(runtime, problem) })
    )
  )
}

const checkEdited = Effect.fnUntraced(function* (
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
  if (Exit.isFailure(decoded)) return yield* refused(describeRefusal(runtime, Cause.squash(decoded.cause)))
  return { ...decision, schema: entry.definition.schema }
})
