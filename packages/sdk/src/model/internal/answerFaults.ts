/** What is wrong with answers that did not come to their end, and with those that came to it and still are none. */
import { FinishReason } from "../../domain/RunEvent.ts"
import { ConnectionLost, InvalidResponse, type ModelError } from "../ModelError.ts"
import type { ModelResponse } from "../ModelPart.ts"
import { modelError } from "./modelError.ts"

/** A stream without its proper end. */
export const cutOff = (): ModelError =>
  modelError(new ConnectionLost({ description: "The answer was cut off before its end." }))

/** What came is something else. */
export const invalid = (description: string, retryable?: boolean): ModelError =>
  modelError(new InvalidResponse({ description }), { retryable })

/** An answer that ended in the middle of acting. Asking again would end in the same place. */
export const cutCall = (name: string): ModelError =>
  invalid(
    `The answer reached its limit on output tokens while it was calling ${name}: raise maxOutputTokens, or ask for less at once.`,
    false
  )

/** A call that nobody can act on. */
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

/** What keeps an answer from being one, that came from a client of somebody's own, maybe written without types. */
export const faultOf = (response: ModelResponse | undefined): ModelError | undefined => {
  const content: unknown = response?.content
  if (!Array.isArray(content)) return ofClient("no list of parts")
  for (const part of content as ReadonlyArray<unknown>) {
    if (!isPart(part)) return ofClient("a part that is none")
  }
  if (!isFinishReason(response?.finishReason)) return ofClient("no reason why it ended")
  return undefined
}

const ofClient = (what: string): ModelError =>
  invalid(`The model client answered with ${what}: mend the client, whose answer is a ModelResponse.`, false)

const isFinishReason = (reason: unknown): boolean =>
  (FinishReason.literals as ReadonlyArray<unknown>).includes(reason)

const isPart = (part: unknown): boolean => {
  if (typeof part !== "object" || part === null || !("_tag" in part)) return false
  switch (part._tag) {
    case "text":
    case "reasoning":
      return "text" in part && typeof part.text === "string"
    case "toolCall":
      return (["providerCallId", "name", "arguments"] as const).every(
        (field) => typeof (part as { readonly [K in typeof field]?: unknown })[field] === "string"
      )
    default:
      return part._tag === "file"
  }
}
