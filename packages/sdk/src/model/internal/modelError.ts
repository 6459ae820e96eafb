/**
 * Making a model's errors, and making them anew with something changed; and what is wrong with answers that did not come to their end,
 * or came to it and still are none.
 */
import { defined } from "../../domain/internal/defined.ts"
import { ConnectionLost, InvalidResponse, ModelError, type Reason } from "../ModelError.ts"

/** What there is of an error besides its reason; what is left out is not known. */
type Details = { readonly [Name in "requestId" | "retryable" | "usage"]?: ModelError[Name] | undefined }

/** An error of this reason. */
export const modelError = (reason: Reason, details: Details = {}): ModelError =>
  new ModelError({ reason, ...defined(details) })

/** The same error, with some of it changed. */
export const changed = (
  { reason, requestId, retryable, usage }: ModelError,
  changes: Details & { readonly reason?: Reason }
): ModelError => modelError(changes.reason ?? reason, { requestId, retryable, usage, ...changes })

/** The same reason in other words. */
export const described = (reason: Reason, description: string): Reason => {
  if (reason.description === description) return reason
  const Same = reason.constructor as new (fields: object) => Reason
  return new Same({ ...reason, description })
}

/** A stream without its proper end. */
export const streamCut = (): ModelError =>
  modelError(new ConnectionLost({ description: "The answer was cut off before its end." }))

/** What came is something else. */
export const invalid = (description: string, retryable?: boolean): ModelError =>
  modelError(new InvalidResponse({ description }), { retryable })

/** An answer that ended in the middle of acting. Asking again would end in the same place. */
export const callCut = (name: string): ModelError =>
  invalid(
    `The answer reached its limit on output tokens while it was calling ${name}: raise maxOutputTokens, or ask for less at once.`,
    false
  )

/** A call that cannot be acted on. */
export const brokenCall = (name: string): ModelError => invalid(`The call to ${name} is not whole.`)

/** An event that says nothing, in the middle of others. */
export const notJson = (): ModelError => invalid("There is an event in the answer that is not JSON.")

/** An answer in more pieces than any answer has. */
export const tooManyPieces = (): ModelError => invalid("The answer has too many pieces to be one.")

/** A body that is no answer of the protocol, such as `a chat completion`. */
export const notAnAnswer = (answer: string): ModelError =>
  invalid(
    `What came back is not ${answer}. Check the profile's base URL, and that the server speaks this protocol.`
  )

/** An answer of a custom client, maybe written without types, that is none. Asking again would bring the same. */
export const ofClient = (what: string): ModelError =>
  invalid(`The model client answered with ${what}: mend the client, whose answer is a ModelResponse.`, false)
