/**
 * The options of a control plane.
 *
 * @since 0.2.0
 */
import type * as Schema from "effect/Schema"
import type { Runtime } from "../agent/Runtime.ts"
import { atLeastOne, atLeastZero, jsonObject, required, shapeOf } from "../domain/internal/misfits.ts"
import type { Principal } from "../domain/Principal.ts"
import type { PolicySetting } from "./RuntimeEvent.ts"

/** The options of a control plane, besides its agents. */
export interface ControlOptions {
  /** The author of commands whose submitter names none. Default: `unnamed`. */
  readonly by?: string | Principal
  /** The approval policy of tasks, until a command sets another one. Default: that of each agent. */
  readonly policy?: PolicySetting
  /**
   * The part of the runs of a store that the plane is for, such as `{ tenant: "acme" }`. The plane gives this context to each of its tasks, beside
   * what a prompt's own context holds. A session whose last run has another context does not exist for the plane: no command lists, resumes
   * or deletes it, and no cursor replays it. Default: all runs.
   */
  readonly context?: Readonly<Record<string, Schema.Json>>
  /** The number of prompts that may wait in a session; one more is rejected with `QueueFull`. Default: 100. */
  readonly maxQueued?: number
  /**
   * The number of durable events that are kept in memory; up to twice as many for a time. Earlier ones are read again from the journals.
   * Without a store, about the last 260,000 events are kept. Default: 4,096.
   */
  readonly keepEvents?: number
  /**
   * The number of characters of finished answers and outputs that are kept in parts for slow subscribers. A subscriber that is further
   * behind receives an answer with `model.messageFinal` alone. Default: 4,194,304.
   */
  readonly keepText?: number
}

/** The options of `ControlPlane.make`. */
export interface ControlPlaneOptions extends ControlOptions {
  /** The runtimes of the agents; the first one is the agent of new sessions that name none. Their names differ. */
  readonly agents: readonly [Runtime, ...ReadonlyArray<Runtime>]
}

const isRuntime = (value: unknown): boolean =>
  typeof value === "object" && value !== null && "bound" in value && "runs" in value && "ids" in value

/** The options as a shape, with which unknown keys are refused. */
export const controlShape = shapeOf<ControlPlaneOptions>({
  agents: required({
    takes: "a list of one or more runtimes",
    is: (value: unknown) => Array.isArray(value) && value.length > 0 && value.every(isRuntime)
  }),
  by: "anything",
  policy: "anything",
  context: jsonObject,
  maxQueued: atLeastZero,
  keepEvents: atLeastOne,
  keepText: atLeastZero
})
