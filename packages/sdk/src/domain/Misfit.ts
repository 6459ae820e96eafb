/**
 * One thing that is wrong with the keys of something that a program gave.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/** One thing that does not fit. */
export const Misfit = Schema.Struct({
  /** Where it is: `the grant of the decision`. */
  place: Schema.String,
  /** The key, where it is one that there is not. */
  key: Schema.optionalKey(Schema.String),
  /** The known key that is most like it, if one is. */
  nearest: Schema.optionalKey(Schema.String),
  /** What is wrong, in words. */
  problem: Schema.String
})
export type Misfit = typeof Misfit.Type
