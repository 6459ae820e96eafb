/** What is wrong with answers that came to their end and still are none. */
import { InvalidResponse, ModelError } from "../ModelError.ts"

/** An answer that ended in the middle of acting. Asking again would end in the same place. */
export const cutCall = (name: string): ModelError =>
  new ModelError({
    reason: new InvalidResponse({
      description: `The answer reached its limit on output tokens while it was calling ${name}: raise maxOutputTokens, or ask for less at once.`
    }),
    retryable: false
  })

/** A call that nobody can act on. */
export const brokenCall = (name: string): ModelError =>
  new ModelError({
    reason: new InvalidResponse({
      description: `The call to ${name} is not whole.`
    })
  })

/** An event that says nothing, in the middle of others. */
export const notJson = (): ModelError =>
  new ModelError({
    reason: new InvalidResponse({ description: "There is an event in the answer that is not JSON." })
  })

/** An answer in more pieces than any answer has. */
export const tooManyPieces = (): ModelError =>
  new ModelError({
    reason: new InvalidResponse({ description: "The answer has too many pieces to be one." })
  })
