/**
 * The context of a run: data of its caller, such as a tenant and a user, that is stored with the run and passed to its handlers,
 * instructions and approval rules, in any process that drives the run.
 *
 * A context is a JSON object, because a run may be held and released elsewhere: an object of the process would be gone. Agents and tools
 * declare the schema of what they read. The model does not receive the context. A sub-agent's run has the context of the run that it works
 * for, and an agent that takes over keeps it. A fork and a prompt that continues an ended run inherit it, unless they give another one; a
 * prompt that names only the session does not.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"

/** The schema of {@link RunContext}. */
export const RunContext = Schema.Record(Schema.String, Schema.Json)

/** The context of a run. */
export type RunContext = typeof RunContext.Type

/** The most characters of a context as JSON. A context refers to data; the data itself belongs in the program's own store. */
export const maxCharacters = 16_384

/** The most levels of nested objects and lists in a context. */
export const maxDepth = 16

/** The context of a run that was given none and inherits none. */
export const empty: RunContext = Object.freeze({})

/** The context of a root run; empty if it has none. */
export const contextOf = (state: {
  readonly startedWith?: { readonly context?: RunContext | undefined } | undefined
}): RunContext => state.startedWith?.context ?? empty
