/**
 * The runtime options that are plain data, as a schema, so that they can come from a file.
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

/** A duration of a millisecond or more. */
const positiveDuration = durationFrom(1)

/** A duration of 0 or more. */
const anyDuration = durationFrom(0)

/** The schema of the runtime options that are plain data. */
export const RuntimeSettings = Schema.Struct({
  /** The name of the capability profile that the runtime starts with. Default: `default`. */
  profile: Schema.optionalKey(Schema.NonEmptyString),
  /**
   * The capability profiles, with different names, besides `default`, which changes nothing; one of that name replaces it. Default: none.
   */
  profiles: Schema.optionalKey(Schema.Array(CapabilityProfile)),
  /** The mode, such as `plan` or `act`, for extensions and front ends. Default: the profile's mode, or its name. */
  mode: Schema.optionalKey(Schema.NonEmptyString),
  /**
   * The name of the model profile of the prompted agent and its handoffs, and of those sub-agents that select none themselves. Default:
   * that of the capability profile, the agent or the model client, in this order.
   */
  model: Schema.optionalKey(Schema.NonEmptyString),
  /**
   * Whether a person or program decides requests. Default: `true`. With `false`, a call that needs approval is denied, a question fails
   * with a text for the model, and an exhausted budget or a missing login fails the run. A call in doubt, a wait and an external call open
   * a request even then. Without a store, an exhausted budget or a missing login always fails the run.
   */
  interactive: Schema.optionalKey(Schema.Boolean),
  /**
   * Names of the program's other agents. They are stored with each run, and an agent with a stored name does not take the run over by an
   * alias. Default: none, besides the agents that the agent hands over to.
   */
  peers: Schema.optionalKey(Schema.Array(Schema.NonEmptyString)),
  /** The name under which the runtime claims stored runs; `RunBusy` names it to other processes. Default: a random name. */
  owner: Schema.optionalKey(Schema.NonEmptyString),
  /** How long a lease lasts without renewal. At least a millisecond. Default: 15 seconds. */
  leaseTtl: Schema.optionalKey(positiveDuration),
  /**
   * The grace period: how long a tool, a model client or a callback may take to return after it was interrupted, as a promise or an
   * effect. After it, the code is abandoned and its result is ignored. Default: 2 seconds.
   */
  cancelGrace: Schema.optionalKey(anyDuration),
  /**
   * How long each wait of a close lasts at most: for a start in progress, for the end of the runs, for each extension's `onClose`, and for
   * the release of the extensions' resources. Default: 5 seconds.
   */
  closeTimeout: Schema.optionalKey(anyDuration),
  /** The directory in which new sandboxes act. Default: chosen by their provider. */
  workingDirectory: Schema.optionalKey(Schema.NonEmptyString),
  /** The longest result or error of a tool that has no `maxResultLength` of its own, in characters; at least 1. Default: 1,000,000. */
  maxResultLength: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)))
})

/** The runtime options that are plain data. */
export interface RuntimeSettings extends Schema.Schema.Type<typeof RuntimeSettings> {}
