/**
 * The options of a runtime, and their checks. `RuntimeSettings` is the schema of those that are plain data, which can come from a file.
 *
 * All options are checked before anything is created. Unknown options are refused, not ignored, and the error says what each invalid
 * option takes.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import { checkPolicy, limitsShape } from "../domain/internal/given.ts"
import { hintFor, keysOf, misfits } from "../domain/internal/misfits.ts"
import { readOnce } from "../domain/internal/untyped.ts"
import { AgentSelection, CapabilityProfile, ToolSelection } from "./CapabilityProfile.ts"
import { agentKind } from "./internal/definitionOptions.ts"
import type { RuntimeOptions } from "./RuntimeDefinition.ts"
import { RuntimeOptionsInvalid } from "./RuntimeError.ts"
import type { RuntimeHooks } from "./RuntimeHooks.ts"
import { RuntimeSettings } from "./RuntimeSettings.ts"

export type { RuntimeOptions } from "./RuntimeDefinition.ts"

/** @deprecated Use `RuntimeSettings`. */
export { RuntimeSettings as Knobs } from "./RuntimeSettings.ts"

/** What each option takes, in words. */
const takes = {
  agent: "an agent, as Agent.make returns it",
  profile: 'the name of a capability profile, such as "plan" (default: "default")',
  profiles: "a list of capability profiles with different names (default: none)",
  mode: 'a word such as "plan" or "act" (default: the profile\'s)',
  model: "the name of a model profile (default: the capability profile's, or the agent's)",
  interactive: "true or false (default: true)",
  peers: "a list of names of agents (default: none, besides those that the agent hands over to)",
  owner: "a name that is not empty (default: a random one)",
  leaseTtl: 'a duration of a millisecond or more, such as "15 seconds" (the default) or 15000',
  cancelGrace: 'a duration, such as "2 seconds" (the default) or 2000',
  closeTimeout: 'a duration, such as "5 seconds" (the default) or 5000',
  workingDirectory: "the path of a directory (default: chosen by the provider of the sandbox)",
  sandbox:
    "a sandbox provider: an object with create, attach and destroy (default: that of the context, if any)",
  sandboxes:
    'an object of sandbox providers by the names of capability profiles, such as "daytona" (default: none)',
  maxResultLength: "a whole number of characters, 1 or more (default: 1,000,000)",
  approvalCallback: "a function from a request to a decision or undefined (default: none)",
  extensions:
    "a list of extensions with different names: { name, tools?, sections?, onStart?, onClose? } (default: none)",
  hooks: "an object of functions: onTurn, onModelCall, onToolCall, onRequest, onRunEnd, onReconfigured",
  cancellation: "a cancellation token, as Cancellation.make returns it"
} satisfies { readonly [K in keyof RuntimeOptions<never, unknown>]-?: string }

const isTaken = (knob: string): knob is keyof typeof takes => Object.hasOwn(takes, knob)

type Problems = ReadonlyArray<{ readonly knob: string; readonly problem: string }>

const invalid = (knob: string): Problems => [
  {
    knob,
    problem: isTaken(knob)
      ? `"${knob}" takes ${takes[knob]}`
      : `there is no option "${knob}"${hintFor(knob, Object.keys(takes))}`
  }
]

/** The problem of a value inside an option, such as `profiles.0.tools.safety`. */
const invalidInside = (knob: string, path: ReadonlyArray<string>, message: string): Problems => [
  {
    knob,
    problem: `"${[knob, ...path].join(".")}" cannot be used: ${
      message === unknownField ? "there is no such field" : message
    }`
  }
]

const unknownField = "Expected no excess property"

/** Whether `invalidIn` reports what the schema reports about a field of a profile. */
const isReported = (inside: Problems, [index, field]: ReadonlyArray<string>, message: string): boolean =>
  message === unknownField ||
  inside.some(
    ({ problem }) =>
      problem.includes(`"profiles.${index}.${field}"`) ||
      (problem.includes(`"profiles.${index}"`) && problem.includes(`"${field}`))
  )

/** The problem of two profiles with one name. */
const invalidTwice = (profiles: ReadonlyArray<CapabilityProfile> = []): Problems => {
  const names = profiles.map(({ name }) => name)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  return twice === undefined
    ? []
    : [{ knob: "profiles", problem: `two of the "profiles" are called "${twice}"` }]
}

const profileShape = keysOf(Object.keys(CapabilityProfile.fields), {
  tools: keysOf(Object.keys(ToolSelection.fields)),
  subAgents: keysOf(Object.keys(AgentSelection.fields)),
  limits: limitsShape
})

/** The problems of profiles that their schema does not report: unknown keys, and policies. */
const invalidIn = (profiles: unknown): Problems =>
  Array.isArray(profiles)
    ? profiles.flatMap((profile: unknown, index) => {
        const found = misfits(profile, profileShape, `"profiles.${index}"`)
        const policy = isObject(profile) ? profile["policy"] : undefined
        const checked = policy === undefined ? undefined : checkPolicy(policy)
        const problems = [
          ...found.map(({ problem }) => problem),
          ...(checked !== undefined && Result.isFailure(checked)
            ? [`"profiles.${index}.policy" cannot be used: ${checked.failure.issues}`]
            : [])
        ]
        return problems.map((problem) => ({ knob: "profiles", problem }))
      })
    : []

const decodeKnobs = Schema.decodeUnknownResult(RuntimeSettings, { errors: "all", onExcessProperty: "error" })
const formatIssues = SchemaIssue.makeFormatterStandardSchemaV1()

const isFunction = (value: unknown): boolean => typeof value === "function"

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

const hookNames = [
  "onTurn",
  "onModelCall",
  "onToolCall",
  "onRequest",
  "onRunEnd",
  "onReconfigured"
] satisfies ReadonlyArray<keyof RuntimeHooks>

const isExtension = (value: unknown): value is { readonly name: string } => {
  if (!isObject(value)) return false
  const { name, ...rest } = value
  if (typeof name !== "string" || name === "") return false
  // An instance of a class may have other fields.
  const isPlain = Object.getPrototypeOf(value) === Object.prototype
  return !isPlain || hasOnly(rest, ["tools", "sections", "onStart", "onClose"], isFunction)
}

const hasOnly = (
  object: Readonly<Record<string, unknown>>,
  names: ReadonlyArray<string>,
  is: (value: unknown) => boolean
): boolean =>
  Object.entries(object).every(([name, value]) => value === undefined || (names.includes(name) && is(value)))

const isProvider = (value: unknown): boolean =>
  isObject(value) &&
  typeof value["backend"] === "string" &&
  ["create", "attach", "destroy", "accepts"].every((name) => isFunction(value[name]))

const isProfileName = Schema.is(CapabilityProfile.fields.name)

/** The options that are not data, each with a predicate for its values. */
const values: Readonly<Record<string, (value: unknown) => boolean>> = {
  agent: agentKind.is,
  approvalCallback: isFunction,
  cancellation: (value) => isObject(value) && isFunction(value["onCancel"]),
  sandbox: isProvider,
  sandboxes: (value) =>
    isObject(value) &&
    Object.entries(value).every(([name, provider]) => isProfileName(name) && isProvider(provider)),
  hooks: (value) => isObject(value) && hasOnly(value, hookNames, isFunction),
  extensions: (value) =>
    Array.isArray(value) &&
    value.every(isExtension) &&
    new Set(value.map(({ name }) => name)).size === value.length
}

/**
 * Decodes the options that are plain data, for example from a file.
 *
 * **Errors**
 *
 * - `RuntimeOptionsInvalid` — names the invalid and unknown options.
 */
export const decode = (given: unknown): Result.Result<RuntimeSettings, RuntimeOptionsInvalid> => {
  if (!isObject(given)) {
    return Result.fail(
      new RuntimeOptionsInvalid({ problems: [{ knob: "", problem: "the options have to be an object" }] })
    )
  }
  const own = readOnce(given)
  const inside = invalidIn(own["profiles"])
  const decoded = decodeKnobs(own)
  const issues = Result.isFailure(decoded) ? formatIssues(decoded.failure.issue).issues : []
  const outside = issues.flatMap(({ message, path = [] }) => {
    const [knob = "", ...rest] = path.map(String)
    if (rest.length === 0) return invalid(knob)
    return knob === "profiles" && isReported(inside, rest, message) ? [] : invalidInside(knob, rest, message)
  })
  const problems = [
    ...inside,
    ...outside,
    ...(Result.isSuccess(decoded) ? invalidTwice(decoded.success.profiles) : [])
  ]
  return problems.length === 0 && Result.isSuccess(decoded)
    ? Result.succeed(decoded.success)
    : Result.fail(new RuntimeOptionsInvalid({ problems }))
}

/**
 * Checks all options of a runtime, and fails with `RuntimeOptionsInvalid` if one is unknown or has a wrong value. Returns them without the
 * keys whose value is `undefined`.
 */
export const check = <R, Output>(
  given: RuntimeOptions<R, Output>
): Effect.Effect<RuntimeOptions<R, Output>, RuntimeOptionsInvalid> =>
  Effect.suspend(() => {
    const entries = Object.entries(isObject(given) ? given : {}).filter(([, value]) => value !== undefined)
    const isValue = ([key]: readonly [string, unknown]) => Object.hasOwn(values, key)
    const rest = entries.filter(isValue)
    const data = entries.filter((entry) => !isValue(entry))
    const decoded = decode(Object.fromEntries(data))
    const problems = [
      ...(rest.some(([key]) => key === "agent") ? [] : invalid("agent")),
      ...rest.flatMap(([key, value]) => (values[key]?.(value) === true ? [] : invalid(key))),
      ...(Result.isFailure(decoded) ? decoded.failure.problems : [])
    ]
    return problems.length > 0
      ? Effect.fail(new RuntimeOptionsInvalid({ problems }))
      : Effect.succeed({
          ...Object.fromEntries(rest),
          ...Result.getOrUndefined(decoded)
        } as unknown as RuntimeOptions<R, Output>)
  })
