/**
 * Records decisions in a program that has the agents.
 *
 * The store checks what needs no definitions. A program that has the agents also checks edited arguments, and the result of a call that
 * ended elsewhere, against the tool's schemas, before it records the decision.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { answersTo } from "../agent/BoundAgent.ts"
import { turnOnFailure } from "../agent/internal/eventLoop.ts"
import type { Runtime } from "../agent/Runtime.ts"
import { check } from "../domain/decide.ts"
import type { Decision, DecisionInput } from "../domain/Decision.ts"
import { kindOf } from "../domain/internal/untyped.ts"
import type { Interruption } from "../domain/Interruption.ts"
import { ArgumentsChanged, DecisionMalformed, RequestNotFound, type Rejection } from "../domain/Rejection.ts"
import { approvalDigest } from "../run/calls/digest.ts"
import { checkByTool, decodeDecision, needsTool } from "../run/internal/decisions.ts"
import { holdsWithheld, redactDecision } from "../run/internal/redact.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import { contained, Scrubber } from "../tool/Scrubber.ts"
import { loadRun } from "./internal/loadRun.ts"

/**
 * Records a decision, once per request, and returns the recorded one. The run is not driven: its owner, a worker, a handle or the next
 * caller that resumes the run acts on the decision. With the `runId` of a root, a request outside its tree is refused with
 * `RequestNotFound`.
 *
 * **Errors**
 *
 * - A `Rejection` — see `RunStore.decide`, such as `DecisionMalformed` for a `by` that is no valid principal; also `ArgumentsChanged` if
 *   the request was changed in the store, `EditedArgumentsInvalid` if edited arguments cannot be used: the tool's schema does not
 *   accept them, for example, and `SuppliedResultInvalid` if the tool's `success` schema does not accept the result of an external call. Both
 *   are checked only if one of `runtimes` has the agent with which the run was started.
 * - `RunStoreError` — the store failed; see its `reason`.
 *
 * @category running
 * @since 0.1.0
 */
export const decideStored: (
  runtimes: ReadonlyArray<Runtime>,
  given: DecisionInput,
  runId?: string
) => Effect.Effect<Decision, Rejection | RunStoreError, RunStore> = Effect.fnUntraced(function* (
  runtimes: ReadonlyArray<Runtime>,
  given: DecisionInput,
  runId?: string
) {
  const decision = yield* checkStored(runtimes, given, runId)
  return (yield* (yield* RunStore).decide(decision)).decision
}, turnOnFailure)

/**
 * Records several decisions as {@link decideStored} does, all or none, and returns the recorded ones in the same order. With the `runId` of
 * a root, requests outside its tree are refused.
 *
 * **Errors**
 *
 * - A `Rejection` of one decision, which names its request; none was recorded.
 * - `RunStoreError` — the store failed; see its `reason`.
 *
 * @category running
 * @since 0.1.0
 */
export const decideAllStored: (
  runtimes: ReadonlyArray<Runtime>,
  given: ReadonlyArray<DecisionInput>,
  runId?: string
) => Effect.Effect<ReadonlyArray<Decision>, Rejection | RunStoreError, RunStore> = Effect.fnUntraced(
  function* (runtimes: ReadonlyArray<Runtime>, given: ReadonlyArray<DecisionInput>, runId?: string) {
    if (!Array.isArray(given)) {
      return yield* new DecisionMalformed({ issues: `the decisions are ${kindOf(given)}, and not a list` })
    }
    const decisions: Array<Decision> = []
    for (const input of given) decisions.push(yield* checkStored(runtimes, input, runId))
    if (decisions.length === 0) return []
    return (yield* (yield* RunStore).decideAll(decisions)).map(({ decision }) => decision)
  },
  turnOnFailure
)

/**
 * Checks a decision against its request and the tools of this program, and returns it as it would be recorded. Nothing is written; a
 * decision that another process records meanwhile can still cause a rejection.
 */
export const checkStored = Effect.fnUntraced(function* (
  runtimes: ReadonlyArray<Runtime>,
  given: DecisionInput,
  runId?: string
) {
  const store = yield* RunStore
  const scrubber = runtimes[0]?.scrubber ?? contained(yield* Scrubber)
  const decision = redactDecision(scrubber, yield* decodeDecision(given, yield* Clock.Clock))
  // A decision is recorded in the caller's words or not at all.
  if (holdsWithheld(decision)) return yield* new DecisionMalformed({ issues: "the scrubber failed on it" })
  const { requestId } = decision
  const found = yield* store.request(requestId)
  if (runId !== undefined && found.runId !== runId) return yield* new RequestNotFound({ requestId })
  // The store answers for a decided request: with the recorded decision or with a rejection.
  if (found.decision !== undefined) return decision
  const { request } = found
  yield* checkShown(request)
  yield* Effect.fromResult(check(request, decision))
  const runtime = runtimes.find(({ bound }) => answersTo(bound.agent, found.agent))
  if (runtime === undefined || !needsTool(request, decision)) return decision
  // The run's state determines which agent's tool the call uses.
  const { state } = yield* Effect.catchTag(loadRun(store, found.runId), "RunNotFound", () =>
    Effect.fail(new RequestNotFound({ requestId }))
  )
  return yield* checkByTool(runtime, state, decision)
})

/** Requires that the arguments in the inbox match their digest: a store that was changed may show other arguments. */
const checkShown = Effect.fnUntraced(function* (request: Interruption) {
  if (request._tag !== "approval") return
  const actual = yield* approvalDigest(request, request.arguments)
  if (actual === request.digest) return
  return yield* new ArgumentsChanged({ requestId: request.requestId, expected: request.digest, actual })
})
