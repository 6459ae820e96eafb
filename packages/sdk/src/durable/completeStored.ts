/**
 * Delivers the results of calls that end elsewhere: from a webhook, a queue or another program, in any process.
 *
 * A handler that returns `Hold.pending` leaves its call to a token. The result for the token is recorded as the decision on the call's
 * request, in one transaction, once. The run is not driven: its owner, a worker, a handle or the next caller that resumes it goes on.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { turnOnFailure } from "../agent/internal/eventLoop.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import type { Runtime } from "../agent/Runtime.ts"
import type { Decision } from "../domain/Decision.ts"
import {
  duration,
  json,
  type Kind,
  keysOf,
  optionMisfits,
  shapeOf,
  string
} from "../domain/internal/misfits.ts"
import { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import { attribute, type Principal } from "../domain/Principal.ts"
import { type Rejection, TokenNotFound } from "../domain/Rejection.ts"
import { redactJson, redactText } from "../run/internal/redact.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import { cutText, longestResult } from "../tool/internal/cutResult.ts"
import { contained, Scrubber } from "../tool/Scrubber.ts"
import { decideStored } from "./decideStored.ts"

/** How work that a call started has ended: with a result, or with a failure that the model reads. */
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
 * Records how the work of a token has ended, once, and returns the recorded decision.
 *
 * **Details**
 *
 * The result is shown to the model as if the handler had returned it. A text or JSON of more than a million characters is cut, unless
 * one of `runtimes` permits more. A repeated delivery of the same completion returns the first one's decision. A call in doubt whose token
 * is its idempotency key gets its outcome in the same way.
 *
 * The caller authenticates the sender: a token is a name, and no secret.
 *
 * **Errors**
 *
 * - `TokenNotFound` — no call waits for the token, or not yet: answer so that the sender delivers again later, with the status 503 for example.
 * - `AlreadyDecided` — another result, a person or the expiry was first; it is in the error.
 * - `RequestSuperseded` — the run has ended, or goes another way.
 * - `OptionsInvalid` — the completion has neither a result of JSON nor a failure, or both, or an option's key or value is wrong.
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
    const { requestId } = yield* findToken(token, Duration.toMillis(Duration.fromInputUnsafe(waitFor)))
    const given = { requestId, by, idempotencyKey: token }
    const longest = Math.max(longestResult, ...runtimes.map(({ options }) => options.maxResultLength ?? 0))
    const scrubber = runtimes[0]?.scrubber ?? contained(yield* Scrubber)
    const { failure, result } = completion
    if (failure !== undefined) {
      const message = cutText(redactText(scrubber, failure), longest)
      return yield* decideStored(runtimes, { _tag: "fail", ...given, message })
    }
    const shown = typeof result === "string" ? result : JSON.stringify(result)
    const kept = shown.length <= longest ? result : cutText(asText(redactJson(scrubber, result)), longest)
    return yield* decideStored(runtimes, { _tag: "supply", ...given, result: kept })
  }, turnOnFailure)

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

/** Finds the request that a token names, which may be recorded only after its result arrives. */
const findToken = Effect.fnUntraced(function* (token: string, waitMs: number) {
  const store = yield* RunStore
  if (typeof token !== "string") return yield* new TokenNotFound({ token: String(token) })
  const end = (yield* Clock.currentTimeMillis) + waitMs
  while (true) {
    const [found] = yield* store.withToken(token)
    if (found !== undefined) return found.request
    const left = end - (yield* Clock.currentTimeMillis)
    if (left <= 0) return yield* new TokenNotFound({ token })
    yield* Effect.sleep(Math.min(pauseMs, left))
  }
})
