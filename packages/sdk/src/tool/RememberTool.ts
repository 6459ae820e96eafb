/**
 * A tool with which a model keeps facts in memory.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { oneOf, shapeOf } from "../domain/internal/misfits.ts"
import type { ScopeKind } from "../domain/MemoryItem.ts"
import { problemOf } from "../domain/OptionsInvalid.ts"
import { type Remembering, remembering } from "./internal/remembering.ts"
import * as Tool from "./Tool.ts"
import { ToolFailure } from "./ToolError.ts"

/** The arguments of the tool. */
export const Arguments = Schema.Struct({
  text: Schema.NonEmptyString.check(Schema.isMaxLength(2000)).annotate({
    description: "The fact, in one or two sentences that are clear without this conversation"
  }),
  key: Schema.optionalKey(
    Schema.NonEmptyString.check(Schema.isMaxLength(100)).annotate({
      description: "What the fact is about, such as home_airport. A later fact with the same key replaces it"
    })
  )
})

/** The options of {@link make}. */
export interface RememberOptions {
  /**
   * Where the tool keeps its facts: only the `session` finds them again, or all runs of the `agent`, or all runs for the `user`, or everyone
   * (`global`). In a run without a user, a tool for the user's facts fails. Default: `user`.
   */
  readonly scope?: ScopeKind
}

/**
 * Makes the tool `remember`, with which the model keeps a fact for later sessions. The runtime needs memory: the option `memory` of
 * `createFermata`, or the service `Memory`.
 *
 * **Details**
 *
 * A fact with a key replaces the earlier one with the key. It records the agent, the session and the run, and whether the run had read
 * untrusted results: a run that later finds the fact has then read them, too.
 *
 * **Gotchas**
 *
 * What is remembered influences later runs, so that the tool has a side effect: by default, each call needs a decision. After the run has read
 * an untrusted result, a policy that allows all calls asks as well.
 *
 * **Example** (An agent that remembers what its users prefer)
 *
 * ```ts run
 * import { Agent, recallTool, rememberTool } from "@fermata/sdk"
 *
 * const agent = Agent.make("concierge", { tools: [recallTool(), rememberTool({ scope: "user" })] })
 * ```
 *
 * @category constructors
 * @since 0.2.0
 */
export const make = (options: RememberOptions = {}): Tool.Tool => {
  const problem = problemOf("rememberTool", options, shape)
  if (problem !== undefined) throw problem
  const { scope = "user" } = options
  return Tool.make("remember", {
    description: `Keeps a fact ${wheres[scope]}, such as a preference or a decision. Not for secrets, and not for what is only needed now.`,
    parameters: Arguments,
    safety: "sideEffecting",
    // The same fact again changes nothing.
    idempotent: true,
    handler: (fact, context) => {
      const { [remembering]: memory } = context as typeof context & { readonly [remembering]?: Remembering }
      if (memory === undefined) return fail("this program has no memory")
      return Effect.flatMap(memory.remember({ ...fact, scope }), (item) =>
        item === undefined
          ? fail("it is not known for which user this run works")
          : Effect.succeed(`Remembered as ${item.id}.`)
      )
    }
  })
}

const shape = shapeOf<RememberOptions>({ scope: oneOf("session", "agent", "user", "global") })

const wheres = {
  session: "for the rest of this conversation",
  agent: "for all later conversations of this agent",
  user: "for later conversations with this user",
  global: "for all later conversations"
} as const

const fail = (description: string) => Effect.fail(new ToolFailure({ description }))
