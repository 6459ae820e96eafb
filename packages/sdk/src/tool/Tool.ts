/**
 * Tools: what an agent can do, and how carefully.
 *
 * A tool is a name, a schema for its arguments and a handler. It says what it may do (`safety`) and whether somebody has to be
 * asked; a tool that says neither is taken to have effects and is asked about. Its handler is called with decoded arguments
 * and never to find out where a run stood: at most once per decision.
 *
 * @since 0.1.0
 */
import type * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { Safety } from "../domain/Interruption.ts"
import type { UserPart } from "../domain/Message.ts"
import type { Target } from "../domain/ToolCall.ts"
import { type DataSchema, type Decoder, decoder } from "./DataSchema.ts"
import { definitionMisfits } from "./internal/definitionOptions.ts"
import { ToolDefinitionError } from "./ToolError.ts"
import type { ToolOptions } from "./ToolOptions.ts"

export type { ApprovalContext, ApprovalOptions, Awaitable, Reconciled, ToolOptions } from "./ToolOptions.ts"

/** The services that a result needs. Each call has a `Scope` of its own. */
export type Services<Out> =
  Out extends Effect.Effect<infer _A, infer _E, infer R> ? Exclude<R, Scope.Scope> : never

/**
 * A tool, ready to be given to an agent.
 *
 * @category models
 * @since 0.1.0
 */
export interface Tool<R = never> {
  readonly name: string
  readonly description: string
  readonly target: Target
  /** The decoder of the arguments, or why there is none. */
  readonly parameters: Result.Result<Decoder<unknown>, string>
  readonly safety: Safety
  readonly idempotent: boolean
  readonly aliases: ReadonlyArray<string>
  readonly options: ToolOptions<unknown, unknown>
  /** The services that the handler and the callbacks need; a type only. */
  readonly "~services"?: (_: never) => R
}

/**
 * The services that callbacks were inferred to need, and never inferred from what the definition is used for. None where nothing is known of
 * them, as in `ReturnType<typeof make>`.
 */
export type Inferred<R> = [R] extends [infer S]
  ? unknown extends S
    ? never
    : Exclude<S, Scope.Scope>
  : never

/** A tool, whatever it needs. `any`: a list takes every tool, and hands it on to where its services are named. */
export type AnyTool = Tool<any>

/** Services, whichever they are. `any`: what a program's tools need is known where a runtime is made, and nowhere after. */
export type AnyServices = Context.Context<any>

const noArguments = Schema.Struct({})

/**
 * Defines a tool.
 *
 * **Example** (A tool that is asked about)
 *
 * ```ts run
 * import { Tool } from "@fermata/sdk"
 * import { Schema } from "effect"
 *
 * const deploy = Tool.make("deploy", {
 *   description: "Deploys to an environment",
 *   parameters: Schema.Struct({ env: Schema.String }),
 *   handler: ({ env }) => `deployed to ${env}`
 * })
 * ```
 *
 * **Errors**
 *
 * Throws `ToolDefinitionError` for a key that there is not, and for a value of another kind; everything else that can be wrong with a tool
 * is found when an agent that has it is bound to a runtime.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = <
  A = {},
  Out = unknown,
  NeedsApproval = never,
  Reconcile = never,
  Risk = never,
  Preview = never
>(
  name: string,
  // The services of each callback are inferred by themselves.
  options: Omit<ToolOptions<A, Out>, "needsApproval" | "reconcile" | "risk" | "preview"> &
    Pick<ToolOptions<A, Out, NeedsApproval>, "needsApproval"> &
    Pick<ToolOptions<A, Out, Reconcile>, "reconcile"> &
    Pick<ToolOptions<A, Out, Risk>, "risk"> &
    Pick<ToolOptions<A, Out, Preview>, "preview">
): Tool<Services<Out> | Inferred<NeedsApproval | Reconcile | Risk | Preview>> => {
  const misfits = definitionMisfits(options ?? null)
  if (misfits.length > 0) {
    const problem = misfits.map(({ problem }) => problem).join("; ")
    throw new ToolDefinitionError({ tool: String(name), problem, misfits })
  }
  return makeFor("tool", name, options as ToolOptions<unknown, unknown>)
}

/** Its parameters are only looked at when an agent that has it is built: most programs import more tools than they use. */
const makeFor = (target: Tool["target"], name: string, options: ToolOptions<unknown, unknown>): Tool => {
  let parameters: Tool["parameters"] | undefined
  return {
    name,
    description: options.description ?? "",
    target,
    get parameters() {
      return (parameters ??= decoder(options.parameters ?? noArguments))
    },
    safety: options.safety ?? "sideEffecting",
    idempotent: options.idempotent ?? false,
    aliases: options.aliases ?? [],
    options
  }
}

/** The arguments of {@link askUser}. */
export const Question = Schema.Struct({
  question: Schema.String.annotate({ description: "The question, complete in itself" }),
  options: Schema.optionalKey(
    Schema.Array(Schema.String).annotate({ description: "Answers to choose from, if there are some" })
  )
})

/** Lets the model ask the user. The run is held until it is answered; the answer is the call's result. */
export const askUser: Tool = makeFor("question", "ask_user", {
  description:
    "Asks the user a question and waits for the answer. Use it when you cannot go on without knowing.",
  parameters: Question as DataSchema<unknown>,
  safety: "readOnly",
  handler: () => ""
})

const contentTag = "~fermata/content"

/** A result of several parts, such as text and an image. */
export interface Content {
  readonly [contentTag]: ReadonlyArray<UserPart>
}

/** Makes a result of several parts. */
export const content = (parts: ReadonlyArray<UserPart>): Content => ({ [contentTag]: parts })

/** The parts of what a handler returned. */
export const toContent = (value: unknown): ReadonlyArray<UserPart> => {
  if (typeof value === "string") return [{ _tag: "text", text: value }]
  if (value === undefined || value === null) return [{ _tag: "text", text: "" }]
  if (value instanceof Error) return [{ _tag: "text", text: sayable(value) as string }]
  if (typeof value === "object" && contentTag in value) return (value as Content)[contentTag]
  return [{ _tag: "text", text: stringify(value) }]
}

/** What JSON has no form for, or an empty one, in a form that it has. */
const sayable = (item: unknown): unknown => {
  if (typeof item === "bigint") return item.toString()
  if (item instanceof Error) return `${item.name}: ${item.message}`
  return item instanceof Map || item instanceof Set ? [...item] : item
}

/** The JSON of a value; what JSON cannot say is said as text. */
const stringify = (value: unknown): string => {
  try {
    return JSON.stringify(value, (_key, item: unknown) => sayable(item)) ?? String(value)
  } catch {
    return String(value)
  }
}
