/**
 * Errors of an AI SDK model as `ModelError`s. They are recognized by their names, so that the version of the AI SDK does not matter.
 */
import { ModelBridge, ModelError } from "@fermata/sdk/model"
import * as Effect from "effect/Effect"

/**
 * Makes a `ModelError` of a thrown value, without secrets: the values of the client's `headers` are removed, and texts that look like keys,
 * since the model has a key of its own.
 */
export const errorsWithout =
  (secrets: ReadonlyArray<string>) =>
  (thrown: unknown): Effect.Effect<ModelError.ModelError> =>
    Effect.map(errorFrom(thrown), (error) => ModelBridge.clean(error, secrets))

const errorFrom = (thrown: unknown): Effect.Effect<ModelError.ModelError> => {
  const error = unwrapped(thrown)
  if (!(error instanceof Error)) return ModelBridge.errorOf({ body: error })
  if (error.name === "AI_APICallError") return fromCall(error)
  const { message } = error
  if (isConnection(error)) return known(new ModelError.ConnectionLost({ description: message }))
  if (names.notAuthorized.has(error.name))
    return known(new ModelError.NotAuthorized({ description: message }))
  if (names.invalidRequest.has(error.name))
    return known(new ModelError.InvalidRequest({ description: message }))
  if (names.invalidResponse.has(error.name)) {
    // Their messages contain the whole answer.
    return (
      stated("value" in error ? error.value : undefined) ??
      known(
        new ModelError.InvalidResponse({
          description: "The answer does not have the form that the AI SDK expects."
        })
      )
    )
  }
  return ModelBridge.errorOf({ body: message, retryable: false })
}

/** The last error of an `AI_RetryError`. */
const unwrapped = (error: unknown): unknown =>
  error instanceof Error && error.name === "AI_RetryError" && "lastError" in error ? error.lastError : error

interface ApiCallError extends Error {
  readonly statusCode?: number
  readonly responseHeaders?: Readonly<Record<string, string>>
  readonly responseBody?: string
  readonly isRetryable?: boolean
}

const fromCall = (error: ApiCallError): Effect.Effect<ModelError.ModelError> => {
  const { cause, isRetryable, message, responseBody, responseHeaders, statusCode } = error
  if (cause instanceof Error && isConnection(cause) && statusCode !== undefined && statusCode < 300) {
    return known(new ModelError.ConnectionLost({ description: "The connection was cut within the answer." }))
  }
  if (statusCode === undefined) {
    return known(new ModelError.ConnectionLost({ description: message }), isRetryable ?? true)
  }
  if (statusCode < 300) {
    // An answer arrived and could not be read. It may be an error in words.
    return (
      stated(bodyOf(responseBody ?? "")) ?? known(new ModelError.InvalidResponse({ description: message }))
    )
  }
  return ModelBridge.errorOf({
    body: responseBody === undefined || responseBody.trim() === "" ? message : bodyOf(responseBody),
    status: statusCode,
    ...(responseHeaders === undefined ? {} : { headers: responseHeaders })
  })
}

/** The error that the server states in an answer which the AI SDK cannot read. */
const stated = (body: unknown): Effect.Effect<ModelError.ModelError> | undefined => {
  const error = ModelBridge.errorStatedIn(body)
  return error === undefined ? undefined : Effect.succeed(error)
}

const bodyOf = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const known = (
  reason: ModelError.Reason,
  retryable = reason.isRetryable
): Effect.Effect<ModelError.ModelError> =>
  Effect.succeed(
    new ModelError.ModelError({ reason, ...(retryable === reason.isRetryable ? {} : { retryable }) })
  )

/** Whether this is an error of `fetch` for a connection that cannot be made or is cut. */
const isConnection = (error: Error): boolean =>
  (error.name === "TypeError" && /fetch failed|terminated|network/i.test(error.message)) ||
  ("code" in error && typeof error.code === "string" && /^(E[A-Z]+|UND_ERR_[A-Z_]+)$/.test(error.code))

const names = {
  notAuthorized: new Set(["AI_LoadAPIKeyError"]),
  invalidRequest: new Set([
    "AI_InvalidArgumentError",
    "AI_InvalidPromptError",
    "AI_LoadSettingError",
    "AI_NoSuchModelError",
    "AI_TooManyEmbeddingValuesForCallError",
    "AI_UnsupportedFunctionalityError",
    "AI_UnsupportedModelVersionError"
  ]),
  invalidResponse: new Set([
    "AI_EmptyResponseBodyError",
    "AI_InvalidResponseDataError",
    "AI_JSONParseError",
    "AI_NoContentGeneratedError",
    "AI_TypeValidationError"
  ])
} as const
