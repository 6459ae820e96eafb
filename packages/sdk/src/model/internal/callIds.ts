/**
 * How calls are called on the wire.
 *
 * A call and its result are tied together by an id, and a provider refuses a request in which an id is empty, said twice, too
 * long or spelled with other letters than it likes. Its own ids may be any of that: they are used where they can be, and ids made
 * from ours, which are unique, where they cannot. The same history always gives the same ids.
 */
import type { ToolCallId } from "../../domain/Id.ts"
import type { Message } from "../../domain/Message.ts"

/** The id of each call of a history. `pattern` is what a whole id has to look like. */
export const wireIds = (
  messages: ReadonlyArray<Message>,
  pattern: RegExp,
  maxLength: number
): ReadonlyMap<ToolCallId, string> => {
  const ids = new Map<ToolCallId, string>()
  const used = new Set<string>()
  for (const message of messages) {
    if (message.role !== "assistant") continue
    for (const part of message.content) {
      if (part._tag !== "toolCall") continue
      const own = part.providerCallId
      const id =
        own.length <= maxLength && pattern.test(own) && !used.has(own)
          ? own
          : madeFrom(part.callId, maxLength, used)
      used.add(id)
      ids.set(part.callId, id)
    }
  }
  return ids
}

/** The end of our id tells calls apart; a number does where it was cut. */
const madeFrom = (callId: string, maxLength: number, used: ReadonlySet<string>): string => {
  const letters = callId.replaceAll(/[^a-zA-Z0-9_-]/g, "_")
  for (let attempt = 0; ; attempt++) {
    const prefix = attempt === 0 ? "call_" : `call_${attempt}_`
    const id = prefix + letters.slice(-(maxLength - prefix.length))
    if (!used.has(id)) return id
  }
}
