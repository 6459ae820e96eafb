/**
 * The mail of a run: the decisions and messages that its journal does not hold yet.
 *
 * @since 0.1.0
 */
import type { Decision } from "../domain/Decision.ts"
import type { RunId } from "../domain/Id.ts"
import type { UserPart } from "../domain/Message.ts"
import type { Reopens } from "../domain/RunState.ts"

/** The decisions and messages for a run, each oldest first. */
export interface Mail {
  readonly decisions: ReadonlyArray<Decision>
  readonly messages: ReadonlyArray<{
    readonly content: ReadonlyArray<UserPart>
    /** The id of a message in a store; absent without a store. */
    readonly messageId?: string
    /** The run of the sub-agent that the message is for; absent if it is for the root. */
    readonly to?: RunId
    /** Present if the message asks to end that sub-agent. */
    readonly ends?: true
    /** Present if the message reopens a denied request. */
    readonly reopens?: Reopens
  }>
}

/** A user's message: text, or parts. */
export type Prompt = string | ReadonlyArray<UserPart>
