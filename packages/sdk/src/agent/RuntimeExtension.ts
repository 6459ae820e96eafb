/**
 * An extension of a runtime: tools that need to know the runtime that they act in, and what has to be opened and closed with it.
 *
 * A tool that stands in an agent's definition knows nothing but its call. An extension's tools are made when the runtime is created,
 * and again whenever it is reconfigured, from the profile and the mode then in force. They are subject to the profile like any other
 * tool.
 *
 * @since 0.1.0
 */
import type * as Context from "effect/Context"
import type { Awaitable, Services, Tool } from "../tool/Tool.ts"
import type { Any } from "./Agent.ts"
import type { CancellationToken } from "./Cancellation.ts"
import type { CapabilityProfile } from "./CapabilityProfile.ts"
import type { Runtime } from "./Runtime.ts"
import type { CloseStatus } from "./RuntimeError.ts"

/** What an extension is told about the runtime that it is in. */
export interface RuntimeContext {
  /** As it was defined, whatever the profile leaves of it. */
  readonly agent: Any
  readonly profile: CapabilityProfile
  readonly mode: string
  /** The services that handlers run with. */
  readonly services: Context.Context<any>
  /** Cancelled when the runtime is closed. */
  readonly cancellation: CancellationToken
  /**
   * The runtime itself, to run or dispatch something on it. Ask for it in a handler or in `onStart`: while the tools of a new runtime
   * are being made, there is none yet.
   */
  readonly runtime: () => Runtime<any>
}

/** Adds tools to a runtime. `R` are the services that these, and opening and closing, need. */
export interface RuntimeExtension<R = never> {
  /** For errors and logs; no two extensions of a runtime have the same. */
  readonly name: string
  /** Its tools. Asked when the runtime is created and whenever it is reconfigured; it must do nothing else. */
  readonly tools?: (context: RuntimeContext) => ReadonlyArray<Tool<R>>
  /** Opens what its tools need; once, in the order of the extensions. */
  readonly onStart?: (context: RuntimeContext) => Awaitable<void, R>
  /** Closes it; once, after the runs have ended, in the opposite order, and only what was opened. */
  readonly onClose?: (status: CloseStatus, context: RuntimeContext) => Awaitable<void, R>
}

/**
 * Defines an extension; knows the services that it needs by what its functions return.
 *
 * **Example** (A tool that knows the mode)
 *
 * ```ts
 * const notes = RuntimeExtension.make("notes", {
 *   tools: ({ mode }) => [Tool.make("note", { handler: () => (mode === "plan" ? "kept for later" : "done") })]
 * })
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = <T extends Tool<any> = never, Start = void, Close = void>(
  name: string,
  options: {
    readonly tools?: (context: RuntimeContext) => ReadonlyArray<T>
    readonly onStart?: (context: RuntimeContext) => Start & Awaitable<void, any>
    readonly onClose?: (status: CloseStatus, context: RuntimeContext) => Close & Awaitable<void, any>
  }
): RuntimeExtension<ToolServices<T> | Services<Start> | Services<Close>> => ({ name, ...options })

/** The services that a tool, or each tool of a union, needs. */
export type ToolServices<T> = T extends Tool<infer R> ? R : never

type ServicesOfTools<F> = F extends (...args: never) => ReadonlyArray<infer T> ? ToolServices<T> : never
type ServicesOfHook<F> = F extends (...args: never) => infer Out ? Services<Out> : never

/** The services that an extension, or each extension of a union, needs. */
export type ExtensionServices<X> = X extends {
  readonly tools?: infer Tools
  readonly onStart?: infer Start
  readonly onClose?: infer Close
}
  ? ServicesOfTools<Tools> | ServicesOfHook<Start> | ServicesOfHook<Close>
  : never
