/**
 * Taking a decision where the agents are known.
 *
 * The store checks what can be checked anywhere. A program that has the agents can also check, before anybody relies on the
 * approval, that edited arguments are what the tool takes.
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
import type { RunId } from "../domain/Id.ts"
import { kindOf } from "../domain/internal/untyped.ts"
import type { Interruption } from "../domain/Interruption.ts"
import { ArgumentsChanged, DecisionMalformed, RequestNotFound, type Rejection } from "../domain/Rejection.ts"
import { checkEdited } from "../run/internal/decisions.ts"
import { decodeDecision } from "../run/internal/decisions.ts"
import { approvalDigest } from "../run/internal/digest.ts"
import { holdsWithheld, redactDecision } from "../run/internal/redact.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import { contained, Scrubber } from "../tool/Scrubber.ts"
import { loadRun } from "./internal/loadRun.ts"

/**
 * Takes a decision, once per request, and returns the one that was recorded. With a `runId`, only on that run's requests.
 *
 * **Errors**
 *
 * - A `Rejection` — see `RunStore.decide`; and `EditedArgumentsInvalid` if the tool does not take the edited arguments.
 *
 * @category running
 * @since 0.1.0
 */
export const decideStored: (
  runtimes: ReadonlyArray<Runtime>,
  given: DecisionInput,
  runId?: RunId
) => Effect.Effect<Decision, Rejection | RunStoreError, RunStore> = Effect.fnUntraced(function* (
  runtimes: ReadonlyArray<Runtime>,
  given: DecisionInput,
  runId?: RunId
) {
  const decision = yield* checkStored(runtimes, given, runId)
  return (yield* (yield* RunStore).decide(decision)).decision
}, turnOnFailure)

/**
 * Takes several decisions, all or none, and returns those that were recorded, in their order. With a `runId`, only on that run's
 * requests.
 *
 * **Errors**
 *
 * - A `Rejection` of one of them, which names its request; none was taken.
 *
 * @category running
 * @since 0.1.0
 */
export const decideAllStored: (
  runtimes: ReadonlyArray<Runtime>,
  given: ReadonlyArray<DecisionInput>,
  runId?: RunId
) => Effect.Effect<ReadonlyArray<Decision>, Rejection | RunStoreError, RunStore> = Effect.fnUntraced(
  function* (runtimes: ReadonlyArray<Runtime>, given: ReadonlyArray<DecisionInput>, runId?: RunId) {
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
 * The decision as it would be recorded, checked against its request and the tools of this program. Nothing is written, and what is
 * decided meanwhile can still refuse it.
 */
export const checkStored = Effect.fnUntraced(function* (
  runtimes: ReadonlyArray<Runtime>,
  given: DecisionInput,
  runId?: RunId
) {
  const store = yield* RunStore
  const scrubber = runtimes[0]?.scrubber ?? contained(yield* Scrubber)
  const decision = redactDecision(scrubber, yield* decodeDecision(given, yield* Clock.Clock))
  // Nothing is decided in other words than those that were given.
  if (holdsWithheld(decision)) return yield* new DecisionMalformed({ issues: "the scrubber failed on it" })
  const { requestId } = decision
  const found = yield* store.request(requestId)
  if (runId !== undefined && found.runId !== runId) return yield* new RequestNotFound({ requestId })
  // Whatever was decided or withdrawn, the store says so when the decision is taken.
  if (found.decision !== undefined) return decision
  const { request } = found
  yield* checkShown(request)
  yield* Effect.fromResult(check(request, decision))
  const runtime = runtimes.find(({ bound }) => answersTo(bound.agent, found.agent))
  if (runtime === undefined || decision._tag !== "approve" || decision.arguments === undefined)
    return decision
  // Whose tool it is, the run says.
  const { state } = yield* Effect.catchTag(loadRun(store, found.runId), "RunNotFound", () =>
    Effect.fail(new RequestNotFound({ requestId }))
  )
  return yield* checkEdited(runtime, state, decision)
})

/** What the inbox shows must be what its digest says: a store may have been changed since. */
const checkShown = Effect.fnUntraced(function* (request: Interruption) {
  if (request._tag !== "approval") return
  const actual = yield* approvalDigest(request, request.arguments)
  if (actual === request.digest) return
  return yield* new ArgumentsChanged({ requestId: request.requestId, expected: request.digest, actual })
})
