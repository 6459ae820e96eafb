/**
 * A message that was sent to a run: what a store keeps of it until the run has taken it into its journal.
 *
 * Messages reach a run while a process drives it, or while it is held; see `RunStore.send`.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { RunId, Timestamp } from "../domain/Id.ts"
import { UserPart } from "../domain/Message.ts"

/** What identifies a message among those of its run: any 1 to 256 visible ASCII characters, such as a UUID or the id of an e-mail. */
export const MessageId = Schema.String.check(Schema.isPattern(/^[\x21-\x7e]{1,256}$/))

/** A message as a store keeps it. */
export const SentMessage = Schema.Struct({
  messageId: MessageId,
  content: Schema.Array(UserPart),
  /** The run of the sub-agent that it is for. Left out of one that is for the run itself. */
  to: Schema.optionalKey(RunId),
  /** Set when that sub-agent is to end; the content says why. */
  ends: Schema.optionalKey(Schema.Literal(true)),
  /** When it was sent first. */
  at: Timestamp
})
export type SentMessage = typeof SentMessage.Type

/** A message to send. */
export interface MessageInput {
  /** Chosen by the caller, so that a message that is sent again is not a second one. Default: made. */
  readonly messageId?: string
  readonly content: ReadonlyArray<UserPart>
  /** The run of the sub-agent that it is for. Default: the run itself. */
  readonly to?: RunId
  /** Ends that sub-agent; the content says why. */
  readonly ends?: true
}

/** The receipt that the sender of a message gets. */
export interface Receipt {
  readonly messageId: string
  /** When it was sent first. */
  readonly at: Timestamp
}
