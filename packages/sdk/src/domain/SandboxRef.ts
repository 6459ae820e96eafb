/**
 * The stored identity of a sandbox.
 *
 * A run that acts in a sandbox keeps the sandbox's reference in its state. Another process passes it to the sandbox provider, which attaches
 * to the same place. A reference contains no credentials.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"

/** The stored identity of a sandbox. */
export const SandboxRef = Schema.Struct({
  /** The kind of the sandbox, such as `local` or `bubblewrap`. The provider of that kind attaches to it. */
  backend: Schema.NonEmptyString,
  /** The id of the sandbox within its backend. */
  id: Schema.NonEmptyString,
  /** The working directory, as commands in the sandbox see it. */
  workdir: Schema.NonEmptyString,
  /** Further data that the backend needs to attach, such as the id of a snapshot. */
  state: Schema.optionalKey(Schema.Json)
})
export type SandboxRef = typeof SandboxRef.Type
