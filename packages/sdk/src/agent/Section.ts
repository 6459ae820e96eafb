/**
 * Sections: parts of the instructions that are rendered from the state of a run before each model call.
 *
 * A section follows the history, so that the part of the request that a provider caches stays the same from turn to turn. A section is not
 * part of the history: it is neither stored nor summarized, and a compaction does not change it.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import type { Inferred } from "../tool/Tool.ts"
import type { Awaitable } from "../tool/ToolOptions.ts"
import type { AnySection, Section, SectionContext } from "./AgentDefinition.ts"

export type { AnySection, Section, SectionContext } from "./AgentDefinition.ts"

/**
 * Makes a section with this name. `render` returns its text for the next model call; for `undefined` or an empty text, the section is left
 * out. A text of more than 20,000 characters loses its middle. If `render` fails or takes longer than the run's `toolTimeoutMs`, the
 * section says so instead.
 *
 * **When to use**
 *
 * For text that changes between turns and that the model must see as it is now: a plan, open tasks, the time, the screen of a terminal.
 *
 * **Example** (Showing the open tasks in each turn)
 *
 * ```ts run
 * import { Agent, Section } from "@fermata/sdk"
 *
 * const tasks = ["book the flight"]
 * const agent = Agent.make("assistant", {
 *   instructions: "You plan journeys.",
 *   sections: [Section.make("Open tasks", () => tasks.join("\n"))]
 * })
 * ```
 *
 * @category constructors
 * @since 0.2.0
 */
export const make = <R = never>(
  name: string,
  render: (context: SectionContext) => Awaitable<string | undefined, R>
): Section<Inferred<R>> => ({ name, render: render as AnySection["render"] })

/**
 * Makes a section with the visible text of the terminal in which the commands of the run's sandbox run. It is left out while the sandbox is
 * not open in this process, and if the sandbox lacks the capability `screen`.
 *
 * @category constructors
 * @since 0.2.0
 */
export const screen = (name = "Terminal"): Section =>
  make(name, ({ sandbox }) =>
    sandbox?.capabilities.has("screen") === true ? sandbox.screen : Effect.succeed(undefined)
  )
