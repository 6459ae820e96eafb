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
  length,
  optionMisfits,
  type Kind,
  oneOf,
  demanded,
  required,
  type Shape,
  shapeOf,
  string,
  strings
} from "../../domain/internal/misfits.ts"
import { Safety } from "../../domain/Interruption.ts"
import type { Misfit } from "../../domain/Misfit.ts"
import type { ApprovalOptions, ToolOptions } from "../ToolOptions.ts"
import { dataSchemaKind } from "./dataSchemaKind.ts"
import { isPattern } from "./secretReferences.ts"

const alwaysAsk: Kind = {
  takes: 'an object { always: "why each call is asked about" }',
  is: (value) =>
    typeof value === "object" &&
    value !== null &&
    "always" in value &&
    typeof value.always === "string" &&
    value.always !== ""
}

const { keys } = shapeOf<ToolOptions<unknown, unknown>>({
  description: string,
  parameters: dataSchemaKind,
  context: dataSchemaKind,
  handler: required(callable),
  success: { takes: "an Effect Schema", is: Schema.isSchema },
  failure: { takes: "an Effect Schema", is: Schema.isSchema },
  safety: oneOf(...Safety.literals),
  needsApproval: either(flag, either(callable, alwaysAsk)),
  untrusted: flag,
  effects: oneOf("outside", "workspace"),
  idempotent: flag,
  reconcile: callable,
  external: flag,
  timeout: duration,
  retry: { takes: "a schedule", is: Schedule.isSchedule },
  approval: demanded(
    shapeOf<ApprovalOptions>({ expiresIn: duration, onExpiry: oneOf("deny", "stay"), warnBefore: duration })
  ),
  risk: either(string, callable),
  facts: callable,
  secrets: {
    takes:
      'a list of names of secrets, such as "github-token" or "db/*": words of letters, digits and "_", joined by ".", "/" or "-"',
    is: (value) => Array.isArray(value) && value.every((one) => typeof one === "string" && isPattern(one))
  },
  preview: callable,
  sandbox: flag,
  aliases: strings,
  identity: string,
  otherNames: strings,
  maxResultLength: length
})

/** Names of other SDKs. */
const shape: Shape = {
  keys: {
    ...keys,
    inputSchema: { elsewhere: 'the schema of the arguments is "parameters"' },
    schema: { elsewhere: 'the schema of the arguments is "parameters"' },
    execute: { elsewhere: 'the function that does the work is "handler"' },
    run: { elsewhere: 'the function that does the work is "handler"' },
    name: { elsewhere: "the name is the first argument" }
  }
}

/** The kind of an option that takes a tool, as `Tool.make` returns it. */
export const toolKind: Kind = {
  takes: "a tool, as tool() and Tool.make return it",
  is: (value) =>
    typeof value === "object" &&
    value !== null &&
    "parameters" in value &&
    "name" in value &&
    typeof value.name === "string" &&
    "options" in value &&
    typeof value.options === "object" &&
    value.options !== null
}

/** Returns the unknown keys of a tool's definition and the values of the wrong type. */
export const definitionMisfits = (options: unknown): ReadonlyArray<Misfit> =>
  optionMisfits(options, shape, "its definition")
