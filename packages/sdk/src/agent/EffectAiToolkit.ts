/**
 * Bridges between the tools of Fermata and the toolkits of Effect AI (`effect/ai`).
 *
 * {@link fromToolkit} makes tools for an agent of a toolkit whose handlers are a layer: their calls are held, approved, recorded and
 * recovered like those of every tool. {@link toToolkit} makes a toolkit of tools, for a `LanguageModel` outside of a run.
 *
 * @since 0.2.0
 */
import * as AiTool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { messageOf } from "../domain/Display.ts"
import type { RunId, SessionId, ToolCallId } from "../domain/Id.ts"
import { keysOf, shapeOf } from "../domain/internal/misfits.ts"
import { withoutUndefined } from "../domain/internal/untyped.ts"
import { type OptionsInvalid, problemOf } from "../domain/OptionsInvalid.ts"
import * as RunContext from "../domain/RunContext.ts"
import type { DataSchema } from "../tool/DataSchema.ts"
import { holdOf } from "../tool/Hold.ts"
import { readBlobs, unreadBlobs } from "../tool/internal/blobs.ts"
import { decodeContext } from "../tool/internal/decodeContext.ts"
import { encodeFailure } from "../tool/internal/encodeFailure.ts"
import { encodeSuccess } from "../tool/internal/encodeSuccess.ts"
import { modelOutputOf, partsOf } from "../tool/internal/modelOutput.ts"
import { targetIn, virtualPath } from "../tool/internal/toolTarget.ts"
import { type AnyTool, content, isContent, make, toContent, type Tool } from "../tool/Tool.ts"
import type { ToolContext } from "../tool/ToolContext.ts"
import { ToolDefinitionError, ToolFailure } from "../tool/ToolError.ts"
import type { ToolOptions } from "../tool/ToolOptions.ts"
import { WebAccess } from "../tool/WebAccess.ts"
import { requireOptions } from "./internal/soundOptions.ts"
import { Reading, readStream } from "./internal/streamedResult.ts"
import { isPromise } from "./internal/userCode.ts"
import type { ToolServices } from "./RuntimeExtension.ts"

/**
 * The options of a tool of Fermata that add to a tool of a toolkit, such as `approval` and `preview`, or replace one that is derived from
 * its annotations, such as `safety`.
 */
export type ToolOverrides<T> = Partial<
  Omit<ToolOptions<AiTool.Parameters<T>, unknown>, "handler" | "parameters" | "success" | "failure">
>

/**
 * Makes tools of a toolkit, for the `tools` of an agent.
 *
 * **Details**
 *
 * The tools need the toolkit's handlers (`toolkit.toLayer`) as services. Names, descriptions and the schemas of parameters, successes and
 * failures are those of the toolkit. A tool with the annotation `Tool.Readonly` is `readOnly`, and every other is `sideEffecting`; one with
 * `Tool.Idempotent` is `idempotent`. Unless it says `needsApproval`, its calls need approval if it is not `readOnly`, as with `Tool.make`.
 * A function `needsApproval` receives no messages. The second argument gives further options per tool, which replace those of the toolkit.
 * Preliminary results are published as output. A failure fails the call in both failure modes: the model reads it.
 *
 * **Errors**
 *
 * Throws `ToolDefinitionError` for a tool that a provider defines, which has no handler, and for an invalid option of a tool; throws
 * `OptionsInvalid` for options of a tool that the toolkit does not have.
 *
 * **Example** (Holding the calls of a toolkit)
 *
 * ```ts run
 * import { Agent, Runtime, runPrompt } from "@fermata/sdk"
 * import { ScriptedModel } from "@fermata/sdk/testing"
 * import { fromToolkit } from "@fermata/sdk/toolkit"
 * import { Effect, Layer, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 *
 * const Refund = Tool.make("refund", { parameters: Schema.Struct({ order: Schema.String }), success: Schema.String })
 * const toolkit = Toolkit.make(Refund)
 * const handlers = toolkit.toLayer({ refund: ({ order }) => Effect.succeed(`refunded ${order}`) })
 *
 * const tools = fromToolkit(toolkit, { refund: { preview: ({ order }) => `the order ${order}` } })
 * const program = Effect.gen(function* () {
 *   const runtime = yield* Runtime.make({ agent: Agent.make("support", { tools }) })
 *   return (yield* runPrompt(runtime, { prompt: "Refund A-17" })).status
 * })
 * const model = ScriptedModel.make([{ calls: [{ tool: "refund", arguments: { order: "A-17" } }] }, "Done."])
 * console.log(await Effect.runPromise(Effect.provide(program, Layer.merge(handlers, model.layer)))) // interrupted
 * ```
 *
 * @category converting
 * @since 0.2.0
 */
export const fromToolkit = <Tools extends Record<string, AiTool.Any>>(
  toolkit: Toolkit.Toolkit<Tools>,
  overrides: { readonly [Name in keyof Tools]?: ToolOverrides<Tools[Name]> } = {}
): ReadonlyArray<Tool<AiTool.HandlersFor<Tools> | AiTool.HandlerServices<Tools[keyof Tools]>>> => {
  const problem = problemOf("fromToolkit", overrides, keysOf(Object.keys(toolkit.tools)))
  if (problem !== undefined) throw problem
  return Object.entries(toolkit.tools).map(([name, tool]) =>
    fromTool(tool, overrides[name] as ToolOverrides<any> | undefined)
  )
}

const fromTool = (tool: AiTool.Any, overrides: ToolOverrides<any> = {}): Tool<any> => {
  const { name, needsApproval, parametersSchema, toModelOutput } = tool
  if (AiTool.isProviderDefined(tool)) {
    throw new ToolDefinitionError({ tool: name, problem: "the provider defines it, so it has no handler" })
  }
  const handlerService = Context.Service<AiTool.Handler<string>>(tool.id)
  const isEmpty = parametersSchema === AiTool.EmptyParams
  const declared = AiTool.isDynamic(tool) ? tool.jsonSchema : undefined
  const options: ToolOptions<unknown, unknown> = {
    ...withoutUndefined({
      description: AiTool.getDescription(tool),
      parameters: isEmpty ? undefined : ((declared ?? parametersSchema) as DataSchema<unknown>),
      success: declaring(tool.successSchema),
      failure: declaring(tool.failureSchema),
      needsApproval:
        typeof needsApproval === "function"
          ? (args: unknown) => needsApproval(args, { toolCallId: "", messages: [] })
          : needsApproval
    }),
    safety: Context.get(tool.annotations, AiTool.Readonly) ? "readOnly" : "sideEffecting",
    idempotent: Context.get(tool.annotations, AiTool.Idempotent),
    handler: (args: unknown, { callId, output }: ToolContext) =>
      Effect.flatMap(handlerService, ({ context, handler }) => {
        const preliminary = (result: unknown) =>
          Effect.sync(() => output(typeof result === "string" ? result : (JSON.stringify(result) ?? "")))
        const handled = Effect.updateContext(
          handler(args, { toolCallId: callId, preliminary }),
          (given: Context.Context<never>) => Context.merge(context, given)
        )
        return toModelOutput === undefined
          ? handled
          : Effect.map(handled, (result) => content(partsOf(toModelOutput(result))))
      }),
    ...overrides
  }
  return make(name, options)
}

/** A schema that says something about a value: `Void`, `Unknown` and `Never` stand for none. */
const declaring = (schema: Schema.Constraint): Schema.Codec<unknown, unknown> | undefined =>
  ["Void", "Unknown", "Never"].includes(schema.ast._tag)
    ? undefined
    : (schema as unknown as Schema.Codec<unknown, unknown>)

/** The options of {@link toToolkit}. */
export interface ToToolkitOptions {
  /** The context that handlers and callbacks receive. Default: empty. */
  readonly context?: RunContext.RunContext
}

const toToolkitShape = shapeOf<ToToolkitOptions>({ context: "anything" })

/**
 * Makes a toolkit of tools, for `LanguageModel.generateText` and the like, outside of a run.
 *
 * **Details**
 *
 * A tool that needs approval has `needsApproval`, with which `LanguageModel` asks before it runs the tool. A rule that fails requires
 * approval. What else a run does about a call, it does not: nothing is stored, held, recovered, scrubbed, timed out, retried or cut, and no
 * policy or grant applies. The call of a tool that returns a hold fails, since its result comes later. A failure is returned to the model
 * as text. Output and progress are preliminary results. The ids of a handler's context are placeholders, except `callId` and
 * `idempotencyKey`, which are the provider's id of the call.
 *
 * **Gotchas**
 *
 * An `McpServer` does not ask for approval: register only tools that every client of the server may run.
 *
 * **Errors**
 *
 * - `ToolDefinitionError` — the tool's parameters or its context cannot be used; also for `askUser` and a tool with
 *   `secrets`, which need a run.
 * - `OptionsInvalid` — an option is unknown; for a misspelt key, the error names the nearest one.
 *
 * **Example** (Generating text with a tool)
 *
 * ```ts run
 * import { Tool } from "@fermata/sdk"
 * import { toToolkit } from "@fermata/sdk/toolkit"
 * import { Effect, Stream } from "effect"
 *
 * const clock = Tool.make("clock", { safety: "readOnly", handler: () => "noon" })
 * const program = Effect.gen(function* () {
 *   const toolkit = yield* toToolkit([clock])
 *   const results = yield* Stream.runCollect(yield* toolkit.handle("clock", {}))
 *   return results[0]?.encodedResult
 * })
 * console.log(await Effect.runPromise(program)) // noon
 * ```
 *
 * @category converting
 * @since 0.2.0
 */
export const toToolkit = <const T extends AnyTool>(
  tools: ReadonlyArray<T>,
  options: ToToolkitOptions = {}
): Effect.Effect<MadeToolkit, ToolDefinitionError | OptionsInvalid, ToolServices<T>> =>
  Effect.gen(function* () {
    const { context = RunContext.empty } = yield* requireOptions("toToolkit", options, toToolkitShape)
    const services = yield* Effect.context<ToolServices<T>>()
    const made = yield* Effect.forEach(tools, (tool) => toTool(tool, context, services))
    const toolkit = Toolkit.make(...made.map(({ tool }) => tool))
    const handlers = Object.fromEntries(made.map(({ handler, tool }) => [tool.name, handler]))
    const ready = Effect.provideContext(toolkit, yield* toolkit.toHandlers(handlers as never))
    return (yield* ready) as unknown as MadeToolkit
  })

/** The toolkit of {@link toToolkit}, as a `LanguageModel` takes it. */
export type MadeToolkit = Toolkit.WithHandler<Record<string, AiTool.Dynamic<string, ToolkitConfig>>>

/** The schemas of a tool in a toolkit: the arguments are checked by the tool itself. */
export interface ToolkitConfig {
  readonly parameters: Schema.JsonObject
  readonly success: Schema.Unknown
  readonly failure: Schema.String
  readonly failureMode: "return"
}

const toTool = Effect.fnUntraced(function* (
  { name, options, parameters, safety, target, idempotent, description }: AnyTool,
  runContext: RunContext.RunContext,
  services: Context.Context<never>
) {
  const refuse = (problem: string) => new ToolDefinitionError({ tool: name, problem })
  if (target !== "tool") return yield* refuse("only a run can ask a user")
  if (options.secrets !== undefined) return yield* refuse("only a run resolves references to secrets")
  if (Result.isFailure(parameters)) return yield* refuse(parameters.failure)
  const context = decodeContext(options.context, runContext)
  if (Result.isFailure(context)) return yield* refuse(`it does not accept the context: ${context.failure}`)
  const { decode, jsonSchema } = parameters.success
  const whose = {
    runId: "toolkit" as RunId,
    sessionId: "toolkit" as SessionId,
    agentPath: [],
    context: context.success
  }
  const { needsApproval = safety !== "readOnly" } = options
  const tool = AiTool.dynamic(name, {
    description,
    parameters: jsonSchema,
    success: Schema.Unknown,
    failure: Schema.String,
    failureMode: "return",
    needsApproval:
      typeof needsApproval !== "function"
        ? needsApproval !== false
        : (args: unknown) =>
            Effect.flatMap(decode(args), (value) => outcomeOf(() => needsApproval(value, whose))).pipe(
              Effect.map((answer) => answer !== false),
              Effect.scoped,
              Effect.provideContext(services),
              Effect.catchCause(() => Effect.succeed(true))
            ),
    toModelOutput: modelOutputOf
  })
    .annotate(AiTool.Readonly, safety === "readOnly")
    .annotate(AiTool.Idempotent, idempotent)

  const handler = (args: unknown, call: Toolkit.HandlerContext<AiTool.Any>) =>
    Effect.gen(function* () {
      const value = yield* decode(args)
      const callId = (call.toolCallId ?? globalThis.crypto.randomUUID()) as ToolCallId
      const abort = new AbortController()
      const publish = Effect.runForkWith(services)
      const target = targetIn(undefined)
      const web = yield* WebAccess
      const own: ToolContext<any> = {
        ...whose,
        callId,
        attempt: 1,
        idempotencyKey: callId,
        // A tool of a `LanguageModel` does not learn whether the call was approved.
        isApproved: false,
        signal: abort.signal,
        progress: (message) => void publish(call.preliminary({ progress: message })),
        output: (given) =>
          void publish(
            call.preliminary(
              typeof given === "string" ? { output: given } : { output: given.chunk, stream: given.stream }
            )
          ),
        media: ({ mediaType, path: given }) => {
          const path = virtualPath(target, given)
          void publish(call.preliminary({ media: path, mediaType }))
          return path
        },
        target,
        http: web,
        // The policies are those of a run, and there is none.
        policy: { judge: () => Effect.succeed({ _tag: "unknownTool" }) }
      }
      const out = yield* outcomeOf(() => options.handler(value, own), own).pipe(
        Effect.onInterrupt(() => Effect.sync(() => abort.abort())),
        Effect.mapError((error) => failureText(options, error))
      )
      if (holdOf(out) !== undefined) return yield* Effect.fail(onHold)
      const blobs = unreadBlobs(out)
      if (blobs.length > 0) yield* Effect.promise(() => readBlobs(blobs))
      return yield* Effect.fromResult(
        Result.flatMap(encodeSuccess(options.success, out), (encoded) =>
          Result.try({ try: () => shown(encoded), catch: messageOf })
        )
      )
    }).pipe(Effect.scoped, Effect.provideContext(services))
  return { tool, handler }
})

const onHold = "The call was started. Its result comes later, and only a run can wait for it."

/** A result in a toolkit: parts that are not one text are kept as they are, for `toModelOutput`. */
const shown = (value: unknown): unknown => {
  const parts = toContent(value)
  if (isContent(value) || parts.some(({ _tag }) => _tag !== "text")) return content(parts)
  return value === undefined ? "" : value
}

const failureText = (options: AnyTool["options"], failure: unknown): string => {
  const error = failure instanceof Thrown ? failure.value : failure
  const encoded = encodeFailure(options.failure, error)
  const said = error instanceof ToolFailure ? error.description : messageOf(error)
  return encoded === undefined ? said : `${said} ${encoded}`
}

/** A value that user code threw, or with which its promise was rejected. */
class Thrown extends Data.TaggedError("Thrown")<{ readonly value: unknown }> {}

const thrown = (value: unknown) => new Thrown({ value })

/** What user code came to: a value, or a promise, an effect or a stream of one. */
const outcomeOf = (
  call: () => unknown,
  publisher: Pick<ToolContext, "output" | "progress"> = { output: () => {}, progress: () => {} }
): Effect.Effect<unknown, unknown, Scope.Scope> => {
  const settle = (out: unknown): Effect.Effect<unknown, unknown, Scope.Scope> => {
    if (Effect.isEffect(out)) return Effect.flatMap(out as Effect.Effect<unknown, unknown>, settle)
    if (Stream.isStream(out)) return readStream(out as Stream.Stream<unknown>, publisher)
    if (isPromise(out)) return Effect.flatMap(Effect.tryPromise({ try: () => out, catch: thrown }), settle)
    if (typeof out !== "object" || out === null || !(Symbol.asyncIterator in out)) return Effect.succeed(out)
    const reading = new Reading(out as AsyncIterable<unknown>, publisher)
    return Effect.flatten(Effect.tryPromise({ try: () => reading.read(), catch: thrown })).pipe(
      Effect.onInterrupt(() => Effect.promise(() => reading.close()))
    )
  }
  return Effect.flatMap(Effect.try({ try: call, catch: thrown }), settle)
}
