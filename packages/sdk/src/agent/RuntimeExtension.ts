/**
 * An extension of a runtime: tools that can use the runtime, and code that runs when the runtime starts and closes.
 *
 * A tool of an agent's definition receives only the context of its call. An extension's tools are made when the runtime is created, and
 * again at each reconfiguration, from the current profile and mode. The profile restricts them like any other tool.
 *
 * @since 0.1.0
 */
import type { AnyTool, Inferred, Services, Tool } from "../tool/Tool.ts"
import type { Awaitable } from "../tool/ToolOptions.ts"
import type { AnySection, Section } from "./AgentDefinition.ts"
import type { RuntimeContext, RuntimeExtension } from "./RuntimeDefinition.ts"
import type { CloseStatus } from "./RuntimeError.ts"

export type { RuntimeContext, RuntimeExtension } from "./RuntimeDefinition.ts"

/**
 * Defines an extension. The services that it needs are inferred from what its functions return.
 *
 * **Example** (A tool that knows the mode)
 *
 * ```ts run
 * import { RuntimeExtension, Tool } from "@fermata/sdk"
 *
 * const notes = RuntimeExtension.make("notes", {
 *   tools: ({ mode }) => [Tool.make("note", { handler: () => (mode === "plan" ? "kept for later" : "done") })]
 * })
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = <
  T extends AnyTool = never,
  Start = never,
  Close = never,
  const S extends AnySection = never
>(
  name: string,
  options: {
    readonly tools?: (context: RuntimeContext) => ReadonlyArray<T>
    readonly sections?: (context: RuntimeContext) => ReadonlyArray<S>
    readonly onStart?: (context: RuntimeContext) => Awaitable<void, Start>
    readonly onClose?: (status: CloseStatus, context: RuntimeContext) => Awaitable<void, Close>
  }
): RuntimeExtension<ToolServices<T> | SectionServices<S> | Inferred<Start | Close>> =>
  ({ name, ...options }) as RuntimeExtension<ToolServices<T> | SectionServices<S> | Inferred<Start | Close>>

/** The services that a tool, or each tool of a union, needs. */
export type ToolServices<T> = T extends Tool<infer R> ? R : never

type SectionServices<S> = S extends Section<infer R> ? R : never

type ServicesOfSections<F> = F extends (...args: never) => ReadonlyArray<infer S> ? SectionServices<S> : never
type ServicesOfTools<F> = F extends (...args: never) => ReadonlyArray<infer T> ? ToolServices<T> : never
type ServicesOfHook<F> = F extends (...args: never) => infer Out ? Services<Out> : never

/** The services that an extension, or each extension of a union, needs. */
export type ExtensionServices<X> = X extends {
  readonly tools?: infer Tools
  readonly sections?: infer Sections
  readonly onStart?: infer Start
  readonly onClose?: infer Close
}
  ? ServicesOfTools<Tools> | ServicesOfSections<Sections> | ServicesOfHook<Start> | ServicesOfHook<Close>
  : never
