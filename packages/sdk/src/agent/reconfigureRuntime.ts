/**
 * Changing what a live runtime works with, between turns: its capability profile, tools, model and mode.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { withoutUndefined } from "../domain/internal/untyped.ts"
import type { ModelClient } from "../model/ModelClient.ts"
import type { AnyTool, Tool } from "../tool/Tool.ts"
import type { RegistryError } from "./buildRuntimeRegistry.ts"
import { choose } from "./internal/choose.ts"
import { servicesOf } from "./internal/userCode.ts"
import type { Runtime } from "./Runtime.ts"
import {
  type CapabilityProfileNotFound,
  type ModelProfileNotFound,
  type ReconfigureRefused,
  type RuntimeBusy,
  type RuntimeClosed,
  RuntimeOptionsInvalid
} from "./RuntimeError.ts"
import type { ToolServices } from "./RuntimeExtension.ts"
import type { Configuration } from "./RuntimeHooks.ts"

/** What to change. What is left out stays as it is. */
export interface RuntimeChange<R = never> {
  /** The name of another capability profile. The mode becomes that profile's; so does the model, if the profile names one. */
  readonly profile?: string
  /** Tools in the place of the agent's own. The profile in force applies to them. */
  readonly tools?: ReadonlyArray<Tool<R>>
  /** The name of another model profile; or another model client, which is then asked for its default or for the profile's. */
  readonly model?: string | ModelClient["Service"]
  /** Another word for how the agent works. */
  readonly mode?: string
}

/** What keeps a runtime as it is. */
export type ReconfigureError =
  | RuntimeBusy
  | RuntimeClosed
  | ReconfigureRefused
  | RuntimeOptionsInvalid
  | CapabilityProfileNotFound
  | ModelProfileNotFound
  | RegistryError

/**
 * Changes what a runtime works with, all of it or nothing, and returns what it works with now.
 *
 * **Details**
 *
 * The next turn of every run on it is run with what is new: the runs that are between two turns, that are held, that are not begun.
 * A profile's policy and limits are those of the runs that start under it. A run that is held on a call of a tool which is gone now stays
 * held, with `ToolUnavailable`, until the tool is back or the call is denied.
 *
 * **Errors**
 *
 * - `RuntimeBusy` — runs are in the middle of a turn; try again between turns.
 * - `RuntimeClosed` — create another one.
 * - `ReconfigureRefused` — its tools act in a remote sandbox: create another runtime.
 * - `CapabilityProfileNotFound`, `ModelProfileNotFound` — name the ones there are.
 * - `RuntimeOptionsInvalid` — a change that there is not, or that takes something else.
 * - `ToolNameTaken`, `ToolDefinitionError`, `AgentDefinitionError`, `ExtensionFailed` — mend the tools.
 *
 * @category running
 * @since 0.1.0
 */
export const reconfigureRuntime = <const Tools extends ReadonlyArray<AnyTool> = []>(
  runtime: Runtime,
  change: Omit<RuntimeChange, "tools"> & { readonly tools?: Tools }
): Effect.Effect<Configuration, ReconfigureError, ToolServices<Tools[number]>> =>
  Effect.gen(function* () {
    yield* checkChange(change)
    const { mode, model, profile, tools } = change
    // What the tools that are there have been given stays theirs.
    const services =
      tools === undefined
        ? runtime.services
        : Context.merge(servicesOf(yield* Effect.context<ToolServices<Tools[number]>>()), runtime.services)
    return yield* choose(runtime, {
      choice: ({ mode: lastMode, model: lastModel, profile: lastProfile, tools: lastTools }) => {
        const named = profile === undefined ? undefined : runtime.profiles.get(profile)
        const isNamed = typeof model === "string"
        const chosenMode = mode ?? (profile === undefined ? lastMode : undefined)
        const chosenModel = isNamed
          ? model
          : model === undefined && named?.model === undefined
            ? lastModel
            : undefined
        const others = withoutUndefined({ mode: chosenMode, model: chosenModel, tools: tools ?? lastTools })
        return { profile: profile ?? lastProfile, ...others }
      },
      services,
      ...(typeof model === "object" ? { model } : {})
    })
  })

const takes = {
  profile: 'the name of a capability profile, such as "plan"',
  tools: "a list of tools, as Tool.make returns them",
  model: "the name of a model profile, or a model client",
  mode: 'a word such as "plan" or "act"'
} satisfies { readonly [K in keyof RuntimeChange]-?: string }

const isName = (value: unknown): boolean => typeof value === "string" && value !== ""

const fits: { readonly [K in keyof typeof takes]: (value: unknown) => boolean } = {
  profile: isName,
  mode: isName,
  tools: Array.isArray,
  model: (value) => isName(value) || (typeof value === "object" && value !== null && "stream" in value)
}

/** A change that nobody knows would change nothing, in silence. */
const checkChange = (change: object): Effect.Effect<void, RuntimeOptionsInvalid> => {
  const problems = Object.entries(change).flatMap(([knob, value]) => {
    if (value === undefined) return []
    if (!Object.hasOwn(takes, knob)) {
      const known = Object.keys(takes).join(", ")
      return [{ knob, problem: `there is nothing called "${knob}" to change (there are ${known})` }]
    }
    const known = knob as keyof typeof takes
    return fits[known](value) ? [] : [{ knob, problem: `"${knob}" takes ${takes[known]}` }]
  })
  return problems.length === 0 ? Effect.void : Effect.fail(new RuntimeOptionsInvalid({ problems }))
}
