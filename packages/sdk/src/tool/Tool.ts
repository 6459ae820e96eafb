/**
 * Definitions of the tools that an agent can call.
 *
 * A tool is a name, a schema for its arguments and a handler. It declares its effect (`safety`) and whether its calls need approval; by
 * default it is `sideEffecting`, and the calls of every tool that is not `readOnly` need approval. The handler receives decoded arguments
 * and is never called to rebuild the state of a run. A started body is repeated only if the tool is `readOnly` or `idempotent`, if its
 * `reconcile` reports that the call did not happen, or by a `retry` decision.
 *
 * @since 0.1.0
 */
import type * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import { kindOf } from "../domain/internal/untyped.ts"
import type { Safety } from "../domain/Interruption.ts"
import type { UserPart } from "../domain/Message.ts"
import type { RunContext } from "../domain/RunContext.ts"
import type { Target } from "../domain/ToolCall.ts"
import { type DataSchema, type Decoder, decoder } from "./DataSchema.ts"
import type { Hold } from "./Hold.ts"
import { definitionMisfits } from "./internal/definitionOptions.ts"
import { resultParts } from "./internal/resultParts.ts"
import { ToolDefinitionError, ToolResultInvalid } from "./ToolError.ts"
import type { StreamItem, ToolOptions } from "./ToolOptions.ts"

export type {
  AlwaysAsk,
  ApprovalContext,
  ApprovalOptions,
  Awaitable,
  MayOpenSandbox,
  Reconciled,
  StreamItem,
  ToolOptions,
  WhenStarted
} from "./ToolOptions.ts"

/** The services that the return value of a handler requires, except `Scope`: each call has its own. */
export type Services<Out> =
  Out extends Effect.Effect<infer A, infer _E, infer R>
    ? Exclude<R, Scope.Scope> | StreamServices<A>
    : StreamServices<Awaited<Out>>

/** The services of a stream, and {@link NotStreamItems} if its items have another shape. */
type StreamServices<Out> =
  Out extends Stream.Stream<infer Item, infer _E, infer R>
    ? Exclude<R, Scope.Scope> | ItemServices<Item>
    : Out extends AsyncGenerator<infer Item, infer Last>
      ? ItemServices<Item | Exclude<Last, void | undefined>>
      : Out extends AsyncIterable<infer Item>
        ? ItemServices<Item>
        : never

type ItemServices<Item> = [Item] extends [StreamItem] ? never : NotStreamItems<Item>

/**
 * A service that no program has: a tool that needs it streams `Item`, which is no {@link StreamItem}, and would fail when it runs. It makes
 * the program's types refuse the tool.
 */
export interface NotStreamItems<Item> {
  readonly "A tool that streams gives { output: text }, { progress: text } and, at last, { result: value }": Item
}

/** The value of a handler's result. */
type ResultOf<Out> =
  Out extends Effect.Effect<infer A, infer _E, infer _R> ? ResultOf<A> : ItemResult<Awaited<Out>>

type ItemResult<Out> =
  Out extends Stream.Stream<infer Item, infer _E, infer _R>
    ? ResultIn<Item>
    : Out extends AsyncGenerator<infer Item, infer Last>
      ? ResultIn<Item | Last>
      : Out extends AsyncIterable<infer Item>
        ? ResultIn<Item>
        : Out

type ResultIn<Item> = Item extends { readonly result: infer Value } ? Value : never

/** {@link NotOfSuccess} if a handler's result is not of the type of the tool's `success` schema. */
type Unfit<Out, Success> = unknown extends Success
  ? never
  : [Exclude<ResultOf<Out>, Content | Hold>] extends [Success]
    ? never
    : NotOfSuccess<Success>

/**
 * A service that no program has: a tool that needs it returns something else than its `success` schema encodes, and would fail when it runs.
 * It makes the program's types refuse the tool.
 */
export interface NotOfSuccess<Success> {
  readonly "The handler returns what the success schema encodes": Success
}

/**
 * A tool, as {@link make} defines it, for the `tools` of an agent.
 *
 * @category models
 * @since 0.1.0
 */
export interface Tool<R = never> {
  readonly name: string
  readonly description: string
  readonly target: Target
  /** The decoder of the arguments, or the reason why the schema cannot be shown to a model. */
  readonly parameters: Result.Result<Decoder<unknown>, string>
  readonly safety: Safety
  readonly idempotent: boolean
  readonly aliases: ReadonlyArray<string>
  readonly options: ToolOptions<unknown, unknown>
  /** The services that the handler and the callbacks require. Exists only as a type. */
  readonly "~services"?: (_: never) => R
}

/**
 * The services that callbacks require, except `Scope`. `never` if they are unknown, as in `ReturnType<typeof make>`. The tuple keeps
 * TypeScript from inferring them from the type that is expected of the definition.
 */
export type Inferred<R> = [R] extends [infer S]
  ? unknown extends S
    ? never
    : Exclude<S, Scope.Scope>
  : never

/** A tool that requires any services. It is `any` so that a list can hold tools with different services; a runtime's type collects them. */
export type AnyTool = Tool<any>

/** A context of any services. It is `any` because only the code that makes a runtime knows which services its tools require. */
export type AnyServices = Context.Context<any>

const noArguments = Schema.Struct({})

/**
 * Defines a tool.
 *
 * **Example** (Defining a tool that needs approval)
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
 * Throws `ToolDefinitionError` for an empty name, a missing handler, an unknown key and a value of the wrong type. Binding an agent to a
 * runtime checks everything else: for example, that the name has 1 to 64 letters, digits, `_` or `-`, and that the schema is of an object.
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
  Preview = never,
  Facts = never,
  Context = RunContext,
  Success = unknown,
  const Sandboxed extends boolean = false
>(
  name: string,
  // One type parameter a callback: TypeScript infers the services of each independently.
  options: Omit<
    ToolOptions<A, Out, never, Context, Success, Sandboxed>,
    "needsApproval" | "reconcile" | "risk" | "preview" | "facts"
  > &
    Pick<ToolOptions<A, Out, NeedsApproval, Context, any, Sandboxed>, "needsApproval"> &
    Pick<ToolOptions<A, Out, Reconcile, Context, any, Sandboxed>, "reconcile"> &
    Pick<ToolOptions<A, Out, Risk, Context, any, Sandboxed>, "risk"> &
    Pick<ToolOptions<A, Out, Preview, Context, any, Sandboxed>, "preview"> &
    Pick<ToolOptions<A, Out, Facts, Context, any, Sandboxed>, "facts">
): Tool<
  Services<Out> | Unfit<Out, Success> | Inferred<NeedsApproval | Reconcile | Risk | Preview | Facts>
> => {
  if (typeof name !== "string" || name === "") {
    const given = name === "" ? "an empty one" : kindOf(name)
    throw new ToolDefinitionError({
      tool: "",
      problem: `its name is the first argument, a string, and ${given} was given`
    })
  }
  const misfits = definitionMisfits(options ?? null)
  if (misfits.length > 0) {
    const problem = misfits.map(({ problem }) => problem).join("; ")
    throw new ToolDefinitionError({ tool: name, problem, misfits })
  }
  return makeFor("tool", name, options as unknown as ToolOptions<unknown, unknown>)
}

/** Makes a tool. Its decoder is made on first use, when an agent with the tool is bound: most programs import more tools than they use. */
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

/**
 * Asks the user a question. A call opens a `question` request and holds the run; the answer is the call's result. In a run that is not
 * interactive, the call fails instead.
 */
export const askUser: Tool = makeFor("question", "ask_user", {
  description:
    "Asks the user a question and waits for the answer. Use it when you cannot go on without knowing.",
  parameters: Question as DataSchema<unknown>,
  safety: "readOnly",
  handler: () => ""
})

const contentTag = "~fermata/content"

/** A tool result of several parts, such as a text and an image. Made by {@link content}. */
export interface Content {
  readonly [contentTag]: ReadonlyArray<UserPart>
}

/** Makes a tool result of several parts. A handler returns it. Parts that are not valid fail the call, after its body has run. */
export const content = (parts: ReadonlyArray<UserPart>): Content => ({ [contentTag]: parts })

/**
 * The parts of what a handler returned: text and the parts of {@link Content} as they are, bytes as an attachment (also inside another
 * value), an error as its name and message, `undefined` and `null` as an empty text, and any other value as JSON.
 *
 * **Errors**
 *
 * Throws `ToolResultInvalid` for a value that has no JSON, such as a function, a `Response` or an object that contains itself. So it does
 * for a `Blob`, unless a run has read it: a run reads the `Blob`s of a result first, and attaches them as bytes.
 */
export const toContent = (value: unknown): ReadonlyArray<UserPart> => {
  if (isContent(value)) return value[contentTag]
  const parts = resultParts(value)
  if (Result.isFailure(parts)) throw new ToolResultInvalid({ problem: parts.failure })
  return parts.success
}

/** Whether a value was made by {@link content}. */
export const isContent = (value: unknown): value is Content =>
  typeof value === "object" && value !== null && contentTag in value
