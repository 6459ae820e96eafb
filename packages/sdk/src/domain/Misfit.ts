/**
 * One problem of a value that a program passed, such as an unknown or a missing option.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/** One problem of a key or of a value. */
export const Misfit = Schema.Struct({
  /** The object that has or lacks the key, or else the value of the wrong kind, in words: `"grant" of the decision`. */
  place: Schema.String,
  /** The key that is unknown, missing, misplaced, not enumerable or without a value. Absent if a value is of the wrong kind. */
  key: Schema.optionalKey(Schema.String),
  /**
   * For an unknown key, the known key that it most probably means: one of similar spelling, or one that it abbreviates. Absent if there is
   * none.
   */
  nearest: Schema.optionalKey(Schema.String),
  /** The problem as a sentence without its full stop. */
  problem: Schema.String
})
export type Misfit = typeof Misfit.Type
