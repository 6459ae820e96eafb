/**
 * One problem of a value that a program passed, such as an unknown or a missing option.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/** One problem of a key or of a value. */
export const Misfit = Schema.Struct({
  /** The enclosing value, in words: `"grant" of the decision`. */
  place: Schema.String,
  /** The key that is unknown, missing, misplaced, not enumerable or without a value. Absent if a value is of the wrong kind. */
  key: Schema.optionalKey(Schema.String),
  /** The known key with the most similar spelling, if there is one. */
  nearest: Schema.optionalKey(Schema.String),
  /** The problem as a sentence without its full stop. */
  problem: Schema.String
})
export type Misfit = typeof Misfit.Type
