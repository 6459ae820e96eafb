/**
 * Constructors for `ModelError`, copies of one with some fields changed, and the errors of incomplete and invalid responses.
 */
import { defined } from "../../domain/internal/defined.ts"
import { ConnectionLost, InvalidResponse, ModelError, type Reason } from "../ModelError.ts"

/** Optional fields of a `ModelError`. */
type Details = {
  readonly [Name in "requestId" | "retryable" | "usage" | "attempts"]?: ModelError[Name] | undefined
}

/** Makes an error with this reason. */
export const modelError = (reason: Reason, details: Details = {}): ModelError =>
  new ModelError({ reason, ...defined(details) })

/** Copies an error with some fields changed. */
export const changed = (
  { attempts, reason, requestId, retryable, usage }: ModelError,
  changes: Details & { readonly reason?: Reason }
): ModelError => modelError(changes.reason ?? reason, { requestId, retryable, usage, attempts, ...changes })

/** Copies a reason with another description. */
export const described = (reason: Reason, description: string): Reason => {
  if (reason.description === description) return reason
  const Same = reason.constructor as new (fields: object) => Reason
  return new Same({ ...reason, description })
}

/**
 * Whether a complete call may succeed after a failed stream. Overloads and rate limits affect both, and the client has waited for them
 * already.
 */
export const mayCallComplete = (error: ModelError): boolean => {
  switch (error.reason._tag) {
    case "StreamUnsupported":
      return true
    case "ConnectionLost":
    case "TimedOut":
    case "InvalidResponse":
      return error.isRetryable
    default:
      return false
  }
}

/** The error of a stream that ended before the response was complete. */
export const streamCut = (): ModelError =>
  modelError(new ConnectionLost({ description: "The answer was cut off before its end." }))

/** The error of an invalid response. */
export const invalid = (description: string, retryable?: boolean): ModelError =>
  modelError(new InvalidResponse({ description }), { retryable })

/** The error of a tool call that the output limit cut off. A retry would be cut off at the same place. */
export const callCut = (name: string): ModelError =>
  invalid(
    `The answer reached its limit on output tokens while it was calling ${name}: raise maxOutputTokens, or ask for less at once.`,
    false
  )

/** The error of a tool call without a name, or of one that the provider marked as incomplete. */
export const brokenCall = (name: string): ModelError => invalid(`The call to ${name} is incomplete.`)

/** The error of an unreadable event that is not the last one. */
export const notJson = (): ModelError => invalid("The answer contains an event that is not JSON.")

/** The error of a response with more items or tool calls than any real one. */
export const tooManyPieces = (): ModelError => invalid("The answer has too many items or tool calls.")

/** The error of a body that is not a response of the protocol. `answer` names the expected one, such as `a chat completion`. */
export const notAnAnswer = (answer: string): ModelError =>
  invalid(
    `The server did not return ${answer}. Check the profile's base URL, and that the server speaks this protocol.`
  )

/**
 * The error of a custom client, perhaps written without types, that returned something other than a response. A retry would return the
 * same.
 */
export const ofClient = (what: string): ModelError =>
  invalid(`The model client answered with ${what}: mend the client, whose answer is a ModelResponse.`, false)
