/**
 * Checks the keys of a tool's definition. A misspelt key would otherwise be ignored silently, and with it, for example, an approval rule.
 */
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import {
  callable,
  duration,
  either,
  flag,
  optionMisfits,
  oneOf,
  demanded,
  shapeOf,
  string,
  strings
} from "../../domain/internal/misfits.ts"
import { Safety } from "../../domain/Interruption.ts"
import type { Misfit } from "../../domain/Misfit.ts"
import type { ApprovalOptions, ToolOptions } from "../ToolOptions.ts"

const shape = shapeOf<ToolOptions<unknown, unknown>>({
  description: string,
  parameters: "anything",
  handler: callable,
  failure: { takes: "an Effect Schema", is: Schema.isSchema },
  safety: oneOf(...Safety.literals),
  needsApproval: either(flag, callable),
  idempotent: flag,
  reconcile: callable,
  timeout: duration,
  retry: { takes: "a schedule", is: Schedule.isSchedule },
  approval: demanded(shapeOf<ApprovalOptions>({ expiresIn: duration, onExpiry: oneOf("deny", "stay") })),
  risk: either(string, callable),
  preview: callable,
  aliases: strings,
  identity: string,
  otherNames: strings
})

/** Returns the unknown keys of a tool's definition and the values of the wrong type. */
export const definitionMisfits = (options: unknown): ReadonlyArray<Misfit> =>
  optionMisfits(options, shape, "its definition")
