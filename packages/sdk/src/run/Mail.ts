/**
 * What reaches a run while it is at work, as the loop takes it: decisions and messages.
 *
 * @since 0.1.0
 */
import type { Decision } from "../domain/Decision.ts"
import type { RunId } from "../domain/Id.ts"
import type { UserPart } from "../domain/Message.ts"

/** Decisions and messages, oldest first. */
export interface Mail {
  readonly decisions: ReadonlyArray<Decision>
  readonly messages: ReadonlyArray<{
    readonly content: ReadonlyArray<UserPart>
    /** Of a message that a store has. */
    readonly messageId?: string
    /** The run of the sub-agent that it is for. */
    readonly to?: RunId
    /** Set when that sub-agent is to end. */
    readonly ends?: true
  }>
}

/** What the user says: text, or parts. */
export type Prompt = string | ReadonlyArray<UserPart>
