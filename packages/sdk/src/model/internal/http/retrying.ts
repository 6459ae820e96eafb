/**
 * A client that is asked again after errors that may pass, as long as nothing of an answer is out. What the attempts before used is in
 * the usage of the answer, or of the error, that the caller gets in the end.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { ModelClient } from "../../ModelClient.ts"
import type { ModelError } from "../../ModelError.ts"
import type { ModelPart, ModelResponse } from "../../ModelPart.ts"
import type { RetryOptions } from "../../ModelProfile.ts"
import type { ModelRequest } from "../../ModelRequest.ts"
import { afterSpending, failedAfterSpending, type Spent, spentWith } from "../cost.ts"
import { beforeRetry } from "./retry.ts"

type Client = ModelClient["Service"]

/** The client, asked again. */
export const retrying = (client: Client, options?: RetryOptions): Client => {
  const again = (request: ModelRequest, error: ModelError, attempt: number) =>
    beforeRetry(error, attempt, options, request.onRetry)
  return {
    ...client,
    stream: (request) => {
      const attempt = (number: number): Next<Stream.Stream<ModelPart, ModelError>> => ({
        ask: client.stream(request),
        after: (error) => Effect.map(again(request, error, number), () => attempt(number + 1))
      })
      return streamFirst(attempt(1))
    },
    complete: (request) => {
      const attempt = (number: number): Next<Effect.Effect<ModelResponse, ModelError>> => ({
        ask: client.complete(request),
        after: (error) => Effect.map(again(request, error, number), () => attempt(number + 1))
      })
      return completeFirst(attempt(1))
    }
  }
}

/** One request, and what to ask when it fails; that fails in turn when there is nothing more to ask. */
export interface Next<Answer> {
  readonly ask: Answer
  readonly after: (error: ModelError) => Effect.Effect<Next<Answer>, ModelError>
}

/** The first of these streams that begins to answer. */
export const streamFirst = (
  { after, ask }: Next<Stream.Stream<ModelPart, ModelError>>,
  spent?: Spent
): Stream.Stream<ModelPart, ModelError> =>
  Stream.suspend(() => {
    let seen = false
    return ask.pipe(
      Stream.mapArray((parts) => {
        seen = true
        return spent === undefined
          ? parts
          : Arr.map(parts, (part) => (part._tag === "finish" ? afterSpending(spent, part) : part))
      }),
      Stream.catch((error) =>
        seen
          ? Stream.fail(failedAfterSpending(spent, error))
          : Stream.unwrap(
              Effect.matchEffect(after(error), {
                onFailure: (last) => Effect.fail(failedAfterSpending(spent, last)),
                onSuccess: (next) => Effect.succeed(streamFirst(next, spentWith(spent, error.usage)))
              })
            )
      )
    )
  })

/** The first of these that answers. */
export const completeFirst = (
  { after, ask }: Next<Effect.Effect<ModelResponse, ModelError>>,
  spent?: Spent
): Effect.Effect<ModelResponse, ModelError> =>
  Effect.matchEffect(ask, {
    onSuccess: (response) => Effect.succeed(afterSpending(spent, response)),
    onFailure: (error) =>
      Effect.matchEffect(after(error), {
        onFailure: (last) => Effect.fail(failedAfterSpending(spent, last)),
        onSuccess: (next) => completeFirst(next, spentWith(spent, error.usage))
      })
  })
