/**
 * Messages to runs, as a store keeps them until the run's journal contains them.
 *
 * The process that drives a run reads the messages of that run. A message to a held run makes the run ready; see `RunStore.send`.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { RunId, Timestamp } from "../domain/Id.ts"
import { UserPart } from "../domain/Message.ts"
import { Reopens } from "../domain/RunState.ts"

/** The id of a message, unique within its run: 1 to 256 visible ASCII characters, such as a UUID or the id of an e-mail. */
export const MessageId = Schema.String.check(Schema.isPattern(/^[\x21-\x7e]{1,256}$/))

/** A stored message. */
export const SentMessage = Schema.Struct({
  messageId: MessageId,
  content: Schema.Array(UserPart),
  /** The run of the sub-agent that receives the message; absent when the run itself receives it. */
  to: Schema.optionalKey(RunId),
  /** Set when the message ends that sub-agent; the content is the reason. */
  ends: Schema.optionalKey(Schema.Literal(true)),
  /** Set when the message reopens a denied request. */
  reopens: Schema.optionalKey(Reopens),
  /** The time of the first `send` with this id. */
  at: Timestamp
})
export type SentMessage = typeof SentMessage.Type

/** A message to send to a run. */
export interface MessageInput {
  /** Identifies the message, so that a repeated `send` stores it once. A different message with the same id is refused. Default: a random id. */
  readonly messageId?: string
  /** At least one part. */
  readonly content: ReadonlyArray<UserPart>
  /** The run of the sub-agent that receives the message; it must be part of the run. Default: the run itself. */
  readonly to?: RunId
  /** Ends that sub-agent; the content is the reason. Without `to`, a run reads the message like any other. */
  readonly ends?: true
  /** Reopens a denied request, of the run that receives the message or of one inside it; see `reopenRequest`. */
  readonly reopens?: Reopens
}

/** The acknowledgement of a stored message. */
export interface Receipt {
  readonly messageId: string
  /** The time of the first `send` with this id. */
  readonly at: Timestamp
}
