/**
 * What the user says.
 *
 * @since 0.1.0
 */
import type { UserPart } from "../domain/Message.ts"

/** What the user says: text, or parts. */
export type Prompt = string | ReadonlyArray<UserPart>
