/**
 * Takes secrets out of a message before it is sent, in the way in which a prompt is cleaned: the store and the journal hold the
 * same text.
 */
import type { UserPart } from "../../domain/Message.ts"
import { redactEvent } from "../../run/internal/redact.ts"
import type { Scrubber } from "../../tool/Scrubber.ts"

/** The message without secrets. Its id is no text: it must stay what the sender knows it by. */
export const redactMessage = <Message extends { readonly content: ReadonlyArray<UserPart> }>(
  scrubber: Scrubber,
  message: Message
): Message => {
  const { content } = message
  const event = redactEvent(scrubber, { _tag: "message.queued", at: 0, content })
  return event._tag === "message.queued" ? { ...message, content: event.content } : message
}
