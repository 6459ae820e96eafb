/**
 * What a runtime is told when it is created. What is plain data is a schema, so that it can come from a file; the rest are values.
 *
 * Everything is checked before anything is made: an option that nobody knows is refused rather than ignored, and what is wrong is
 * told with what the option takes.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import type { DecisionInput } from "../domain/Decision.ts"
import type { Interruption } from "../domain/Interruption.ts"
import { checkPolicy, limitsShape } from "../domain/internal/given.ts"
import { hintFor, keysOf, misfits } from "../domain/internal/misfits.ts"
import { readOnce } from "../domain/internal/readOnce.ts"
import type { Awaitable } from "../tool/Tool.ts"
import type { Agent } from "./Agent.ts"
import type { CancellationToken } from "./Cancellation.ts"
import { AgentSelection, CapabilityProfile, ToolSelection } from "./CapabilityProfile.ts"
import { RuntimeOptionsInvalid } from "./RuntimeError.ts"
import type { RuntimeExtension } from "./RuntimeExtension.ts"
import type { RuntimeHooks } from "./RuntimeHooks.ts"

const millisOf = (value: unknown): number | undefined => {
  const duration = Option.getOrUndefined(Duration.fromInput(value as Duration.Input))
  return duration === undefined ? undefined : Duration.toMillis(duration)
}

const durationFrom = (least: number) =>
  Schema.declare((value): value is Duration.Input => {
    const ms = millisOf(value)
    return ms !== undefined && Number.isFinite(ms) && ms >= least
  })

/** A duration of a millisecond or more; and one that may also be nothing. */
const someTime = durationFrom(1)
const anyTime = durationFrom(0)

/** The options that are data. */
export const Knobs = Schema.Struct({
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
export interface Knobs extends Schema.Schema.Type<typeof Knobs> {}

/** What a runtime is told when it is created. `R` are the services that its tools need. */
export interface RuntimeOptions<R, Output> extends Knobs {
  readonly agent: Agent<R, Output>
  /**
   * Decides requests as they come up, without holding the run: return a decision, or `undefined` to hold. A callback that fails
   * holds the run, and so does a decision about another request than the one it was asked about. It is asked about what is open
   * whenever somebody goes on with a run. Default: every request holds the run.
   */
  readonly approvalCallback?: (request: Interruption) => Awaitable<DecisionInput | undefined>
  /** Adds tools that need to know the runtime, and what is opened and closed with it. Default: none. */
  readonly extensions?: ReadonlyArray<RuntimeExtension<any>>
  /** Told what happens in the runs. Default: nobody. */
  readonly hooks?: RuntimeHooks
  /** Cancels all runs of the runtime. Default: the token of whatever is going on where it is created. */
  readonly cancellation?: CancellationToken
}

/** What each option takes, for people. */
const takes = {
  agent: "an agent, as Agent.make returns it",
  profile: 'the name of a capability profile, such as "plan" (default: "default")',
  profiles: "a list of capability profiles with different names (default: none)",
  mode: 'a word such as "plan" or "act" (default: the profile\'s)',
  model: "the name of a model profile (default: the capability profile's, or the agent's)",
  interactive: "true or false (default: true)",
  peers: "a list of names of agents (default: those that the agent hands over to)",
  owner: "a name that is not empty (default: one made of chance)",
  leaseTtl: 'a duration of a millisecond or more, such as "15 seconds" (the default) or 15000',
  cancelGrace: 'a duration, such as "2 seconds" (the default) or 2000',
  closeTimeout: 'a duration, such as "5 seconds" (the default) or 5000',
  approvalCallback: "a function from a request to a decision or undefined (default: none)",
  extensions:
    "a list of extensions with different names: { name, tools?, onStart?, onClose? } (default: none)",
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

/** What is wrong inside a knob, such as `profiles.0.tools.safety`. */
const invalidInside = (knob: string, path: ReadonlyArray<string>, message: string): Problems => [
  {
    knob,
    problem: `"${[knob, ...path].join(".")}" cannot be used: ${
      message === "Expected no excess property" ? "there is no such field" : message
    }`
  }
]

/** A name that two profiles have. */
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

/** What is wrong in a profile beside what its schema says. */
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

const decodeKnobs = Schema.decodeUnknownResult(Knobs, { errors: "all", onExcessProperty: "error" })
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
  // An instance of a class may keep what it likes.
  const isPlain = Object.getPrototypeOf(value) === Object.prototype
  return !isPlain || hasOnly(rest, ["tools", "onStart", "onClose"], isFunction)
}

const hasOnly = (
  object: Readonly<Record<string, unknown>>,
  names: ReadonlyArray<string>,
  is: (value: unknown) => boolean
): boolean =>
  Object.entries(object).every(([name, value]) => value === undefined || (names.includes(name) && is(value)))

/** The options that are not data, and whether a value can be one. */
const values: Readonly<Record<string, (value: unknown) => boolean>> = {
  agent: (value) => isObject(value) && typeof value["name"] === "string" && isObject(value["options"]),
  approvalCallback: isFunction,
  cancellation: (value) => isObject(value) && isFunction(value["onCancel"]),
  hooks: (value) => isObject(value) && hasOnly(value, hookNames, isFunction),
  extensions: (value) =>
    Array.isArray(value) &&
    value.every(isExtension) &&
    new Set(value.map(({ name }) => name)).size === value.length
}

/**
 * Reads the options that are data, as from a file.
 *
 * **Errors**
 *
 * - `RuntimeOptionsInvalid` — names every knob that is wrong or unknown, and what it takes.
 */
export const decode = (given: unknown): Result.Result<Knobs, RuntimeOptionsInvalid> => {
  if (!isObject(given)) {
    return Result.fail(
      new RuntimeOptionsInvalid({ problems: [{ knob: "", problem: "the options are an object" }] })
    )
  }
  const own = readOnce(given)
  const inside = invalidIn(own["profiles"])
  if (inside.length > 0) return Result.fail(new RuntimeOptionsInvalid({ problems: inside }))
  const decoded = decodeKnobs(own)
  if (Result.isFailure(decoded)) {
    const problems = formatIssues(decoded.failure.issue).issues.flatMap(({ message, path = [] }) => {
      const [knob = "", ...rest] = path.map(String)
      return rest.length === 0 ? invalid(knob) : invalidInside(knob, rest, message)
    })
    return Result.fail(new RuntimeOptionsInvalid({ problems }))
  }
  const problems = invalidTwice(decoded.success.profiles)
  return problems.length > 0
    ? Result.fail(new RuntimeOptionsInvalid({ problems }))
    : Result.succeed(decoded.success)
}

/** The options without what is `undefined`, checked. */
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
