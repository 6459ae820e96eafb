/**
 * Removes secrets from a message before it is sent, as from a prompt, so that the store and the journal have the same text.
 */
import type { UserPart } from "../../domain/Message.ts"
import { redactEvent } from "../../run/internal/redact.ts"
import type { Scrubber } from "../../tool/Scrubber.ts"

/** Returns the message without secrets. Its id is not scrubbed, because the sender refers to the message by it. */
export const redactMessage = <Message extends { readonly content: ReadonlyArray<UserPart> }>(
  scrubber: Scrubber,
  message: Message
): Message => {
  const { content } = message
  const event = redactEvent(scrubber, { _tag: "message.queued", at: 0, content })
  return event._tag === "message.queued" ? { ...message, content: event.content } : message
}
