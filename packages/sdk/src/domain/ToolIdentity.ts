/**
 * Tool identities: the definition that an approval, a grant or a pending call refers to.
 *
 * A name does not identify a tool: two agents may each have a tool of one name, and a deploy may give the name to another tool.
 * Approvals, grants and pending calls are therefore bound to the tool's agent, the tool's own name, a fingerprint of its argument schema
 * with the identity that the tool declares, and its safety.
 *
 * An alias keeps the identity of a renamed tool or agent. It does not count if the tool or agent that now has the alias existed under
 * its own name beside the aliased one when the identity was recorded: then it was another tool or agent.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Safety } from "./Interruption.ts"

/** The definition of an agent's tool, as data. */
export const ToolIdentity = Schema.Struct({
  /** Name of the tool's agent. */
  agent: Schema.String,
  /** The tool's own name, even if the call used an alias. */
  tool: Schema.String,
  /** Fingerprint of the argument schema, followed by the identity that the tool declares, if it declares one; see {@link identityIn}. */
  schema: Schema.String,
  safety: Safety
})
export type ToolIdentity = typeof ToolIdentity.Type

/** A tool as the program currently defines it, with the earlier names of the tool and of its agent. */
export interface Definition extends ToolIdentity {
  readonly agentAliases: ReadonlyArray<string>
  readonly toolAliases: ReadonlyArray<string>
}

/** The first part in which a definition differs from an identity; `identity` is the identity that a tool declares itself. */
export type Difference = "agent" | "tool" | "identity" | "schema" | "safety"

/** The names of the agent's other tools, and of the other agents beside it, when an identity was recorded. Aliases are none of them. */
export interface Peers {
  readonly tools?: ReadonlyArray<string> | undefined
  readonly agents?: ReadonlyArray<string> | undefined
}

/**
 * Whether a definition that has `name` as an alias was another definition when the name was recorded: its own name, or another of its
 * aliases, is among the `peers` that existed beside `name`.
 */
export const isOther = (
  name: string | undefined,
  definition: string,
  aliases: ReadonlyArray<string>,
  peers: ReadonlyArray<string> = []
): boolean =>
  name !== definition && [definition, ...aliases].some((known) => known !== name && peers.includes(known))

/**
 * Compares a recorded identity with a current definition. Returns `undefined` if they are the same tool, otherwise the first part that
 * differs.
 *
 * **Details**
 *
 * A definition that was one of the `peers` does not match through an alias; see {@link isOther}.
 */
export const difference = (
  identity: Partial<ToolIdentity>,
  definition: Definition,
  peers: Peers = {}
): Difference | undefined => {
  const { agent, agentAliases, tool, toolAliases } = definition
  if (!isSame(identity.agent, agent, agentAliases, peers.agents)) return "agent"
  if (!isSame(identity.tool, tool, toolAliases, peers.tools)) return "tool"
  if (identityIn(identity.schema) !== identityIn(definition.schema)) return "identity"
  if (identity.schema !== definition.schema) return "schema"
  return identity.safety === definition.safety ? undefined : "safety"
}

/** The identity that a tool declares, which is stored after its schema's fingerprint and a space; `undefined` if it declares none. */
export const identityIn = (schema: string | undefined): string | undefined => {
  const space = schema?.indexOf(" ") ?? -1
  return space < 0 ? undefined : schema?.slice(space + 1)
}

/**
 * Whether a recorded name refers to this definition, by its own name or by an alias. An alias does not count if the definition {@link
 * isOther}.
 */
export const isSame = (
  name: string | undefined,
  definition: string,
  aliases: ReadonlyArray<string>,
  peers: ReadonlyArray<string> | undefined
): boolean =>
  name === definition ||
  (name !== undefined && aliases.includes(name) && !isOther(name, definition, aliases, peers))
