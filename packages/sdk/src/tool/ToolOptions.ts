/**
 * The options of a tool's definition.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { Safety } from "../domain/Interruption.ts"
import type { RunContext } from "../domain/RunContext.ts"
import type { OutputChunk, Shape as Sandbox } from "../sandbox/Sandbox.ts"
import type { SandboxLost, SandboxUnavailable } from "../sandbox/SandboxError.ts"
import type { DataSchema } from "./DataSchema.ts"
import type { InSandbox, ToolContext } from "./ToolContext.ts"

/** A value, a promise of it, or an effect that returns it. The effect runs in its own scope. */
export type Awaitable<A, R = never> = A | Promise<A> | Effect.Effect<A, unknown, R | Scope.Scope>

/** The answer of a tool's `reconcile` about a started call whose outcome is not recorded, for example after a crash. */
export type Reconciled =
  /** The call happened, with this result, which may be a hold: the work goes on elsewhere. */
  | { readonly _tag: "happened"; readonly result: unknown }
  /** The call did not happen: the body runs, if the call is still permitted. */
  | { readonly _tag: "notHappened" }
  /** The call failed and will not happen. The model reads the message. */
  | { readonly _tag: "failed"; readonly message: string }
  /** Outcome unknown: open an `inDoubt` request. */
  | { readonly _tag: "unknown" }

/**
 * An item of a tool that streams: one whose handler returns an async iterable, such as an async generator, or a `Stream`. What a generator
 * returns is its last item. Output and progress are published while the tool runs and are not kept; the last `result` is the result of the
 * call. A stream without a `result`, or with an item of another shape, fails the call.
 */
export type StreamItem<Result = unknown> =
  | { readonly output: string | OutputChunk; readonly progress?: undefined; readonly result?: undefined }
  | { readonly progress: string; readonly output?: undefined; readonly result?: undefined }
  | { readonly result: Result; readonly output?: undefined; readonly progress?: undefined }

/**
 * Options of a tool's approval requests.
 *
 * **Example** (Announcing a request two hours before it expires)
 *
 * ```ts run
 * import { Agent, createRuntime, RuntimeHooks, runPrompt, Tool } from "@fermata/sdk"
 * import { ScriptedModel } from "@fermata/sdk/testing"
 * import { Effect } from "effect"
 *
 * const pay = Tool.make("pay", {
 *   approval: { expiresIn: "3 days", warnBefore: "2 hours" },
 *   handler: () => "paid"
 * })
 * const hooks: RuntimeHooks.RuntimeHooks = {
 *   onRequest: ({ status, request }) => {
 *     if (status === "expiring") console.log(`decide ${request.requestId} soon`)
 *   }
 * }
 * const program = Effect.gen(function* () {
 *   const runtime = yield* createRuntime({ agent: Agent.make("clerk", { tools: [pay] }), hooks })
 *   return yield* runPrompt(runtime, { prompt: "Pay it" })
 * }).pipe(Effect.scoped)
 * const model = ScriptedModel.make([{ calls: [{ tool: "pay" }] }]).layer
 * const { status } = await Effect.runPromise(Effect.provide(program, model)) // "interrupted"
 * ```
 */
export interface ApprovalOptions {
  /** How long an approval request waits for a decision; longer than 0. Default: without a limit. */
  readonly expiresIn?: Duration.Input
  /** The effect of the expiry: `deny` denies the call, `stay` keeps the request open. Default: `deny`. */
  readonly onExpiry?: "deny" | "stay"
  /**
   * How long before its expiry a request is announced as `expiring` to `onUpdate`, to hooks and in the journal, once; shorter than
   * `expiresIn`, and not for a request that stays open. Default: an hour, or a quarter of `expiresIn` if that is shorter.
   */
  readonly warnBefore?: Duration.Input
}

/**
 * The answer of `needsApproval` for a call that needs a decision of its own each time, such as a change of a file that is executed later.
 * The policies `all` and `until`, rules that approve, and grants do not permit it. An approval of it with a grant is refused.
 */
export interface AlwaysAsk {
  /** Why, in a sentence for the person who decides; the request has it as `always`. */
  readonly always: string
}

/**
 * The run of a call, for the callbacks of its tool: the last argument of `needsApproval`, `facts`, `risk`, `preview` and `reconcile`. It does
 * not identify the call. `Context` is the context of the run as the tool reads it.
 */
export interface ApprovalContext<Context = RunContext> {
  readonly runId: string
  readonly sessionId: string
  readonly agentPath: ReadonlyArray<string>
  /** The context of the run, which its caller gave. Without a schema, JSON. */
  readonly context: Context
}

/**
 * The sandbox in the context of the callbacks of a tool with `sandbox: true`. The effect opens the run's sandbox, or attaches to it, when it
 * first runs; a callback that does not need the sandbox starts none. Without the option, the context has no sandbox.
 */
export type MayOpenSandbox<Sandboxed extends boolean> = [Sandboxed] extends [true]
  ? { readonly sandbox: Effect.Effect<Sandbox, SandboxLost | SandboxUnavailable> }
  : unknown

/** When the body of a call in doubt started. */
export interface WhenStarted {
  /** In milliseconds, by the clock of the process that started it. `undefined` if the start was lost with its store. */
  readonly startedAt: number | undefined
}

/**
 * The definition of a tool. `R` are the services that its callbacks require; those of the handler are in `Out`. `Context` is the context of
 * the run as the tool reads it, `Success` its result if it declares the schema of its results, and `Sandboxed` its option `sandbox`.
 */
export interface ToolOptions<
  A,
  Out,
  R = never,
  Context = any,
  Success = any,
  Sandboxed extends boolean = boolean
> {
  /** What the tool does, for the model. */
  readonly description?: string
  /**
   * The schema of the arguments: a struct of Effect's Schema, an object of a Standard Schema, or a JSON Schema (draft 2020-12 or 07) with
   * `type: "object"`, whose handler declares the type of its arguments itself. Default: no arguments.
   */
  readonly parameters?: DataSchema<A> | Schema.JsonObject
  /**
   * The schema of what the tool reads of the context of the run, for example of its tenant. A run whose context does not fit is refused
   * with `ContextInvalid`; a call that a held run makes after the schema has changed waits for a tool that accepts the context. The schema
   * has to decode at once, without a promise. Default: the context as JSON.
   */
  readonly context?: DataSchema<Context>
  /**
   * Runs the call: returns a value, a promise or an effect, which gets its own scope. The result is a string as it is, bytes or a `Blob` as
   * an attachment (also inside another value), the parts of `Tool.content`, `undefined` or `null` as an empty text, or any other value as
   * JSON. A handler that returns an async generator, another async iterable or a `Stream` of {@link StreamItem} streams output and
   * progress before its result.
   */
  readonly handler: (args: A, context: ToolContext<Context> & InSandbox<Sandboxed>) => Out
  /**
   * Whether the tool acts in the run's sandbox: `context.sandbox` of the handler is the sandbox, and that of the callbacks an effect that
   * opens it. The run has one sandbox, which its calls and its sub-agents share. It is made for the first call, its reference is stored with
   * the run, and a process that resumes the run attaches to it again. Without a provider in the program, or if the sandbox is lost, the call
   * waits (`ToolUnavailable`) and never acts elsewhere. An approval request shows where the call would act. Default: `false`.
   */
  readonly sandbox?: Sandboxed
  /**
   * The schema of the handler's result, which the model receives as the schema encodes it: with dates as texts, without fields that the
   * schema does not have. A result that it does not encode fails the call, after its body has run. Default: the result as it is.
   */
  readonly success?: Schema.Codec<Success, unknown>
  /**
   * The schema of the handler's errors. The model receives an error's message and its encoded fields as JSON, and only the message of an
   * error that the schema does not encode. Default: the error's own schema if it is a `Schema.TaggedError`.
   */
  readonly failure?: Schema.Codec<unknown, unknown>
  /** The effect of a call. Default: `sideEffecting`. */
  readonly safety?: Safety
  /**
   * Whether a call needs approval; the approval policy determines what happens then. With {@link AlwaysAsk}, no policy and no grant permits
   * the call. Default: only if the tool is not `readOnly`. A function that does not return `false` or {@link AlwaysAsk} counts as `true`; a
   * call for which it fails is asked about under every policy. This callback has the same timeout as the body, and so has each of `facts`,
   * `risk`, `preview` and `reconcile`.
   */
  readonly needsApproval?:
    | boolean
    | AlwaysAsk
    | ((
        args: A,
        context: ApprovalContext<Context> & MayOpenSandbox<Sandboxed>
      ) => Awaitable<boolean | AlwaysAsk, R>)
  /**
   * Whether the results of the tool contain text that neither the user nor the program wrote, such as pages, mails or the answers of a
   * server. After such a result, calls with outside effects need a decision; see `effects`. Default: `false`.
   */
  readonly untrusted?: boolean
  /**
   * Where the effects of the tool are. `workspace`: in the workspace alone, so that a call can neither send data away nor change anything
   * elsewhere. `outside`: anywhere. Once a run has read an untrusted result, the modes `all` and `until`, rules with a `*` and earlier grants
   * permit no call with outside effects. Default: `outside`, unless the tool is `readOnly` or acts in a sandbox that is isolated and has no
   * network.
   */
  readonly effects?: "outside" | "workspace"
  /**
   * The names of the secrets that the arguments of a call may refer to, as `secret://name` anywhere in a text, or `secret://{name}` in
   * front of other text; `*` in a name stands for any characters. Only the handler and `reconcile` receive the values, which have to fit
   * `parameters` like the references; see `Secrets`. A call with any other reference fails without running, and one with a stated reference
   * waits if the program has no source of secrets. Default: none, and such a text is an ordinary one.
   */
  readonly secrets?: ReadonlyArray<string>
  /** Whether the tool has the same effect once or repeatedly under one idempotency key. Default: `false`. */
  readonly idempotent?: boolean
  /**
   * Determines the outcome of a call that started, or may have started in a store that was lost, and whose outcome is not recorded. A
   * `readOnly` or `idempotent` tool is not asked: its body runs again. An `inDoubt` request is opened if this callback is missing, fails or
   * returns `unknown`, or if the call's name or alias now stands for another tool or the tool no longer accepts the arguments.
   */
  readonly reconcile?: (
    idempotencyKey: string,
    args: A,
    context: ApprovalContext<Context> & MayOpenSandbox<Sandboxed> & WhenStarted
  ) => Awaitable<Reconciled, R>
  /**
   * Whether the work of a call ends elsewhere, and its result is delivered for its idempotency key, the token of a handler that returns
   * `pending()`. A call in doubt then takes that delivery as its outcome. Without it, a call in doubt takes no result by a token, because it
   * may be a call that never waits for one. Default: `false`.
   */
  readonly external?: boolean
  /** The timeout of the body, or of each of its tries with `retry`. Default: the run's `toolTimeoutMs`. */
  readonly timeout?: Duration.Input
  /**
   * The schedule for repeating a failed body. Only for tools that are `readOnly` or `idempotent`. Unless the tool is `readOnly`, a try that
   * has not stopped within the grace period after its timeout is not repeated, so that tries do not overlap. Default: no repetition.
   */
  readonly retry?: Schedule.Schedule<unknown, unknown>
  readonly approval?: ApprovalOptions
  /**
   * What an approval or a grant depends on besides the arguments, as JSON: a price, a revision. It is read when the call is judged, and an
   * approval request shows it. It is read again right before the body starts, and before each repetition of a failed body (`retry`), which
   * ends if it has changed. If it has changed before the start, the approval is not used: a new request opens with the new facts. A call
   * that the tool, a rule or a policy allows is not asked for it, unless a call of the tool was denied in the run. A call whose facts
   * cannot be read fails without running; a `ToolFailure` is then its result, so that a tool can refuse a call that nothing could permit.
   * Leave out what changes by itself, such as the time. Default: none.
   */
  readonly facts?: (
    args: A,
    context: ApprovalContext<Context> & MayOpenSandbox<Sandboxed>
  ) => Awaitable<Schema.Json, R>
  /** What could go wrong, for the person who decides. A function that fails or returns no string is ignored. */
  readonly risk?:
    | string
    | ((args: A, context: ApprovalContext<Context> & MayOpenSandbox<Sandboxed>) => Awaitable<string, R>)
  /** What would happen, for the person who decides: a diff, an amount. A function that fails or returns no string is ignored. */
  readonly preview?: (
    args: A,
    context: ApprovalContext<Context> & MayOpenSandbox<Sandboxed>
  ) => Awaitable<string, R>
  /** Earlier names of the tool, by which held runs find it after a rename. Default: none. */
  readonly aliases?: ReadonlyArray<string>
  /**
   * Identifies the tool in addition to its name: an approval or a grant for one identity never covers a call of another. Use it for tools
   * that are named outside the program, such as those of an MCP server. Default: none.
   */
  readonly identity?: string
  /**
   * Other names for the tool, tried in order if another tool of the agent has its name; not for two tools of one `identity`. If all are
   * taken, the agent is refused. Default: none.
   */
  readonly otherNames?: ReadonlyArray<string>
  /**
   * The longest result or error, in characters; the base64 of attached bytes counts. A longer text is cut in its middle, with a mark that
   * counts the missing characters; a file that does not fit is left out, and a text says so. Default: the runtime's `maxResultLength`, or
   * 1,000,000.
   */
  readonly maxResultLength?: number
}
