/**
 * What of the options of a runtime is plain data: a schema, so that it can come from a file.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import { millisOf } from "../domain/internal/untyped.ts"
import { CapabilityProfile } from "./CapabilityProfile.ts"

const durationFrom = (least: number) =>
  Schema.declare((value): value is Duration.Input => {
    const ms = millisOf(value)
    return ms !== undefined && Number.isFinite(ms) && ms >= least
  })

/** A duration of a millisecond or more; and one that may also be nothing. */
const someTime = durationFrom(1)
const anyTime = durationFrom(0)

/** The options that are data. */
export const RuntimeSettings = Schema.Struct({
  /** The name of the capability profile to begin with. Default: `default`, which leaves all that the agent's definition says. */
  profile: Schema.optionalKey(Schema.NonEmptyString),
  /** The capability profiles to choose from, besides `default`; one of that name replaces it. Default: none. */
  profiles: Schema.optionalKey(Schema.Array(CapabilityProfile)),
  /** A word for how the agent works, such as `plan` or `act`, for extensions and front ends. Default: the profile's, or its name. */
  mode: Schema.optionalKey(Schema.NonEmptyString),
  /** The model profile that the agent asks for. Default: the capability profile's, the agent's, or the model client's, in this order. */
  model: Schema.optionalKey(Schema.NonEmptyString),
  /**
   * Whether somebody can be asked. Default: yes. With `false`, a call that needs approval is denied, and a question, a used-up
   * budget or a login ends as an error instead of holding the run.
   */
  interactive: Schema.optionalKey(Schema.Boolean),
  /**
   * Names of the program's agents. An alias that names an agent which was there when a run was stored does not take its place. Default:
   * those that the agent hands over to.
   */
  peers: Schema.optionalKey(Schema.Array(Schema.NonEmptyString)),
  /** Who drives the stored runs, for whoever finds them busy. Default: a name made of chance. */
  owner: Schema.optionalKey(Schema.NonEmptyString),
  /** How long a stored run stays claimed without a sign of life. At least a millisecond. Default: 15 seconds. */
  leaseTtl: Schema.optionalKey(someTime),
  /**
   * How long a tool, a model or a callback that was told to stop may take to do so, be it a promise or an effect. Default: 2 seconds. What
   * takes longer is left behind, and what it comes to is not heard any more.
   */
  cancelGrace: Schema.optionalKey(anyTime),
  /** How long closing waits for runs to end, and then for each extension to close. Default: 5 seconds. */
  closeTimeout: Schema.optionalKey(anyTime)
})

/** The options that are data. */
export interface RuntimeSettings extends Schema.Schema.Type<typeof RuntimeSettings> {}
