/**
 * Reconfigures a live runtime between turns: its capability profile, tools, model and mode.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { hintFor } from "../domain/internal/misfits.ts"
import { kindOf } from "../domain/internal/untyped.ts"
import { clientKind } from "../model/internal/clientKind.ts"
import type { ModelClient } from "../model/ModelClient.ts"
import { toolKind } from "../tool/internal/definitionOptions.ts"
import type { AnyTool, Tool } from "../tool/Tool.ts"
import type { RegistryError } from "./buildRuntimeRegistry.ts"
import { choose, nextOf } from "./internal/choose.ts"
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

/** The changes to a runtime. What is left out stays as it is, unless a field says otherwise: a new profile also brings its mode and model. */
export interface RuntimeChange<R = never> {
  /**
   * The name of the new capability profile. Unless the change names a mode, the mode becomes the profile's. Unless the change names a
   * model, the model profile becomes the profile's if it names one; otherwise a model profile that a change or an option named stays, and
   * one that came from the earlier profile does not.
   */
  readonly profile?: string
  /**
   * Tools that replace those of the prompted agent's definition, until a later change. The profile restricts them, too. The tools of
   * extensions, sub-agents and handoffs stay.
   */
  readonly tools?: ReadonlyArray<Tool<R>>
  /**
   * The name of a model profile, or another model client. A new client is called with the model profile of the capability profile or the
   * agent; an earlier choice by name is dropped.
   */
  readonly model?: string | ModelClient["Service"]
  /** The new mode. */
  readonly mode?: string
}

/** The errors of {@link reconfigureRuntime}. */
export type ReconfigureError =
  | RuntimeBusy
  | RuntimeClosed
  | ReconfigureRefused
  | RuntimeOptionsInvalid
  | CapabilityProfileNotFound
  | ModelProfileNotFound
  | RegistryError

/**
 * Changes a runtime's profile, tools, model and mode atomically, and returns the new configuration.
 *
 * **Details**
 *
 * Every run of the runtime uses the new configuration from its next turn on. A run keeps the policy and limits of the profile under which
 * it started. A waiting call of a removed tool does not run: resuming its run fails with `ToolUnavailable`, and the run stays as it is,
 * until the tool is available again or a decision settles the call without it, such as a denial.
 *
 * **Errors**
 *
 * - `RuntimeBusy` — runs are in the middle of a turn; retry between turns.
 * - `RuntimeClosed` — create another one.
 * - `ReconfigureRefused` — the profile has another sandbox provider than the current one: create another runtime.
 * - `CapabilityProfileNotFound`, `ModelProfileNotFound` — name the existing profiles.
 * - `RuntimeOptionsInvalid` — a change is unknown or has an invalid value.
 * - `ToolNameTaken`, `ToolDefinitionError`, `AgentDefinitionError`, `ExtensionFailed` — correct the tools or the extension.
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
    // The services of the earlier tools take precedence over those of the new ones.
    const services =
      change.tools === undefined
        ? runtime.services
        : Context.merge(servicesOf(yield* Effect.context<ToolServices<Tools[number]>>()), runtime.services)
    return yield* choose(runtime, { ...nextOf(runtime.profiles, change), services })
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
  tools: (value) => Array.isArray(value) && Array.from<unknown>(value).every(toolKind.is),
  model: (value) => isName(value) || clientKind.is(value)
}

/** Refuses unknown keys, which would otherwise be ignored. */
const checkChange = (change: object): Effect.Effect<void, RuntimeOptionsInvalid> => {
  if (typeof change !== "object" || change === null) {
    const problem = `the change is ${kindOf(change)}, and has to be an object`
    return Effect.fail(new RuntimeOptionsInvalid({ problems: [{ knob: "", problem }] }))
  }
  const problems = Object.entries(change).flatMap(([knob, value]) => {
    if (value === undefined) return []
    if (!Object.hasOwn(takes, knob)) {
      const known = Object.keys(takes)
      return [{ knob, problem: `there is no option "${knob}"${hintFor(knob, known)}` }]
    }
    const known = knob as keyof typeof takes
    return fits[known](value) ? [] : [{ knob, problem: `"${knob}" takes ${takes[known]}` }]
  })
  return problems.length === 0 ? Effect.void : Effect.fail(new RuntimeOptionsInvalid({ problems }))
}
