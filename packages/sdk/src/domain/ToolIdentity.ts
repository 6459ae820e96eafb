/**
 * Which tool an approval or a grant is about: a definition, and not only a name.
 *
 * Two agents may each have a tool of one name, and a deploy may give a name to another tool. An approval, a grant and a call that
 * waits to run are therefore bound to the agent whose tool it is, the definition's own name, a fingerprint of its argument schema,
 * and its safety. An alias keeps the identity of a renamed tool; an alias that names a tool which was there under its own name
 * does not.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Safety } from "./Interruption.ts"

/** The definition of one agent's tool, as data. */
export const ToolIdentity = Schema.Struct({
  /** Name of the agent that has the tool. */
  agent: Schema.String,
  /** The definition's own name, also where a call used an alias. */
  tool: Schema.String,
  /** Fingerprint of the argument schema; see `AgentIdentity.tools`. */
  schema: Schema.String,
  safety: Safety
})
export type ToolIdentity = typeof ToolIdentity.Type

/** A tool as the program defines it now, with its earlier names. */
export interface Definition extends ToolIdentity {
  readonly agentAliases: ReadonlyArray<string>
  readonly toolAliases: ReadonlyArray<string>
}

/** Why a definition is another one than an identity names. */
export type Difference = "agent" | "tool" | "schema" | "safety"

/**
 * Compares an identity with a definition of today; `undefined` when they are the same tool.
 *
 * **Details**
 *
 * `peers` are the names of all tools that the agent had when the identity was recorded: an alias that leads to one of them leads to
 * another tool.
 */
export const difference = (
  identity: Partial<ToolIdentity>,
  definition: Definition,
  peers: ReadonlyArray<string> = []
): Difference | undefined => {
  if (identity.agent !== definition.agent && !includes(definition.agentAliases, identity.agent))
    return "agent"
  if (identity.tool !== definition.tool) {
    if (!includes(definition.toolAliases, identity.tool) || peers.includes(definition.tool)) return "tool"
  }
  if (identity.schema !== definition.schema) return "schema"
  return identity.safety === definition.safety ? undefined : "safety"
}

const includes = (names: ReadonlyArray<string>, name: string | undefined): boolean =>
  name !== undefined && names.includes(name)
