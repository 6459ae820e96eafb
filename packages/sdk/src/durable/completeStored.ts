/**
 * Delivers the results of calls that end elsewhere: from a webhook, a queue or another program, in any process.
 *
 * A handler that returns `Hold.pending` leaves its call to a token. The result for the token is recorded as the decision on the call's
 * request, in one transaction, once. The run is not driven: its owner, a worker, a handle or the next caller that resumes it goes on.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { turnOnFailure } from "../agent/internal/eventLoop.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import type { Runtime } from "../agent/Runtime.ts"
import type { BlobRef } from "../domain/Blob.ts"
import type { Decision } from "../domain/Decision.ts"
import type { RequestId } from "../domain/Id.ts"
import { defined } from "../domain/internal/defined.ts"
import {
  duration,
  json,
  type Kind,
  keysOf,
  optionMisfits,
  shapeOf,
  string
} from "../domain/internal/misfits.ts"
import { sha256Of } from "../domain/internal/sha256.ts"
import { kindOf } from "../domain/internal/untyped.ts"
import { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import { attribute, type Principal } from "../domain/Principal.ts"
import { type Rejection, TokenNotFound } from "../domain/Rejection.ts"
import { redactJson, redactText } from "../run/internal/redact.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import { cutPart, cutText, longestResult } from "../tool/internal/cutResult.ts"
import { tokenKind } from "../tool/internal/tokenKind.ts"
import { contained, Scrubber } from "../tool/Scrubber.ts"
import { checkStored } from "./decideStored.ts"

/** The outcome of work that a call started elsewhere: a `result`, or a `failure` that the model reads. */
export type Completion =
  | { readonly result: Schema.Json; readonly failure?: never }
  | { readonly failure: string; readonly result?: never }

/** Options of `completeStored`. */
export interface CompleteOptions {
  /** Who delivers the result: a principal, or an unverified name. Default: the service `external`. */
  readonly by?: string | Principal
  /**
   * How long to look for the token, because a result can arrive before the call that waits for it is recorded. Default: 5 seconds.
   */
  readonly waitFor?: Duration.Input
}

/** Checked before the token is looked for, which may take a while. */
const author: Kind = {
  takes: "a name, or a principal with id and kind",
  is: (value) => Result.isSuccess(attribute(value))
}

const completeShape = shapeOf<CompleteOptions>({ by: author, waitFor: duration })

/**
 * Records the completion of the call that waits for this token, once, and returns the recorded decision. The run is not driven.
 *
 * **Details**
 *
 * The model receives the result as if the handler had returned it. A text or JSON of more than a million characters is cut, unless one of
 * `runtimes` permits more; the store keeps the whole text, as for a handler's result. A repeated delivery of the same completion returns
 * the first one's decision. A call in doubt gets its outcome in the same way if its tool declares that its work ends elsewhere
 * (`external`); its token is then its idempotency key.
 *
 * The function waits up to `waitFor`, 5 seconds by default, for a call that is not recorded yet.
 *
 * The caller has to authenticate the sender: a token is a name, not a secret.
 *
 * **Errors**
 *
 * - `TokenNotFound` — no call waits for the token, or not yet, also if a person has decided to run it again: answer so that the sender
 *   delivers again later, with the status 503 for example.
 * - `AlreadyDecided` — another result, a person, the expiry or a message that superseded the request was first; the decision is in the error.
 * - `RequestSuperseded` — the request was closed without a decision, for example because the run was cancelled.
 * - `SuppliedResultInvalid` — one of `runtimes` has the tool, whose `success` schema does not accept the result. The token stays open. A
 *   process without the tool records such a result, and the call fails when the run continues: the model reads what does not fit.
 * - `OptionsInvalid` — the token is not a text of 1 to 512 characters, the completion has neither a result of JSON nor a failure, or both,
 *   or an option's key or value is wrong.
 * - `DecisionMalformed` — `by` is not a name or a valid principal.
 * - `RunStoreError` — the store failed; see its `reason`.
 *
 * @category running
 * @since 0.1.0
 */
export const completeStored: (
  runtimes: ReadonlyArray<Runtime>,
  token: string,
  completion: Completion,
  options?: CompleteOptions
) => Effect.Effect<Decision, TokenNotFound | OptionsInvalid | Rejection | RunStoreError, RunStore> =
  Effect.fnUntraced(function* (
    runtimes: ReadonlyArray<Runtime>,
    token: string,
    completion: Completion,
    options: CompleteOptions = {}
  ) {
    const { by = service, waitFor = "5 seconds" } = yield* requireOptions("complete", options, completeShape)
    yield* requireCompletion(completion)
    yield* requireToken(token)
    const scrubber = runtimes[0]?.scrubber ?? contained(yield* Scrubber)
    const longest = Math.max(longestResult, ...runtimes.map(({ options }) => options.maxResultLength ?? 0))
    const store = yield* RunStore
    const { bytes, outcome, whole } = outcomeOf(completion, scrubber, longest, store.blobs !== undefined)
    const record = Effect.fnUntraced(function* (requestId: RequestId) {
      const decision = yield* checkStored(runtimes, { ...outcome, requestId, by, idempotencyKey: token })
      if (bytes !== undefined) yield* store.blobs!.putAll([bytes])
      return (yield* store.decide({ ...decision, ...defined({ whole }) })).decision
    })
    const [first, ...others] = yield* findToken(token, Duration.toMillis(Duration.fromInputUnsafe(waitFor)))
    // A request that another call of the token has lost is superseded. The call that has the token may have its result already.
    return yield* others
      .reduce(
        (recorded, requestId) =>
          Effect.catchTag(recorded, "RequestSuperseded", (error) =>
            Effect.catchTag(record(requestId), "RequestSuperseded", () => Effect.fail(error))
          ),
        record(first)
      )
      .pipe(Effect.uninterruptible)
  }, turnOnFailure)

/** The decision that records a completion, without secrets and of at most `longest` characters, and the whole text if it is kept. */
const outcomeOf = (completion: Completion, scrubber: Scrubber, longest: number, isKept: boolean): Outcome => {
  const { failure, result } = completion
  if (failure !== undefined) {
    return { outcome: { _tag: "fail", message: cutText(redactText(scrubber, failure), longest) } }
  }
  if (asText(result).length <= longest) return { outcome: { _tag: "supply", result } }
  let bytes: Uint8Array | undefined
  const keep = (given: Uint8Array) => {
    bytes = given
    return { sha256: sha256Of(given), bytes: given.length }
  }
  const { text, whole } = cutPart(asText(redactJson(scrubber, result)), longest, isKept ? keep : undefined)
  return { outcome: { _tag: "supply", result: text }, ...defined({ bytes, whole }) }
}

interface Outcome {
  readonly outcome:
    | { readonly _tag: "fail"; readonly message: string }
    | { readonly _tag: "supply"; readonly result: Schema.Json }
  /** The whole text of a shortened result, and its reference. */
  readonly bytes?: Uint8Array
  readonly whole?: BlobRef
}

const service: Principal = { id: "external", kind: "service" }

const asText = (value: Schema.Json): string => (typeof value === "string" ? value : JSON.stringify(value))

const completionShape = keysOf([], { result: json, failure: string })

const requireCompletion = (given: Completion): Effect.Effect<void, OptionsInvalid> => {
  const place = "the completion"
  const found = optionMisfits(given ?? null, completionShape, place)
  const { failure, result } = (given ?? {}) as { readonly failure?: unknown; readonly result?: unknown }
  if (found.length > 0) return Effect.fail(new OptionsInvalid({ of: "complete", misfits: found }))
  if ((failure === undefined) !== (result === undefined)) return Effect.void
  const problem = `${place} has either a "result" or a "failure"`
  return Effect.fail(new OptionsInvalid({ of: "complete", misfits: [{ place, problem }] }))
}

/** The pause between two looks for a token, in milliseconds. */
const pauseMs = 100

const requireToken = (token: unknown): Effect.Effect<void, OptionsInvalid> => {
  if (tokenKind.is(token)) return Effect.void
  const place = "the token"
  const problem = `${place} takes ${tokenKind.takes}, and ${kindOf(token)} was given`
  return Effect.fail(new OptionsInvalid({ of: "complete", misfits: [{ place, problem }] }))
}

/**
 * Finds the requests that a token names, which may be recorded only after its result arrives; the one to decide first. A call that runs again
 * by a decision will open another one.
 */
const findToken = Effect.fnUntraced(function* (token: string, waitMs: number) {
  const store = yield* RunStore
  const end = (yield* Clock.currentTimeMillis) + waitMs
  while (true) {
    const found = (yield* store.withToken(token)).filter(({ decision }) => decision?._tag !== "retry")
    const ids = found.map(({ request }) => request.requestId)
    if (Arr.isArrayNonEmpty(ids)) return ids
    const left = end - (yield* Clock.currentTimeMillis)
    if (left <= 0) return yield* new TokenNotFound({ token })
    yield* Effect.sleep(Math.min(pauseMs, left))
  }
})
