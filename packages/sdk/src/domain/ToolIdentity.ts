/**
 * Which tool an approval or a grant is about: a definition, and not only a name.
 *
 * Two agents may each have a tool of one name, and a deploy may give a name to another tool. An approval, a grant and a call that
 * waits to run are therefore bound to the agent whose tool it is, the definition's own name, a fingerprint of its argument schema,
 * and its safety. An alias keeps the identity of a renamed tool; an alias that names a tool which was there under its own name
 * does not. The same holds for the agent's name: an alias that names an agent which was there beside it does not keep the identity.
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
export type Difference = "agent" | "tool" | "identity" | "schema" | "safety"

/** The names that were there when an identity was recorded: of the agent's tools, and of the agents beside it. */
export interface Peers {
  readonly tools?: ReadonlyArray<string> | undefined
  readonly agents?: ReadonlyArray<string> | undefined
}

/**
 * Whether a definition that answers to a name has been something else: it, or what it is called as well, was there under its own name
 * beside the one that had the name.
 */
export const isOther = (
  name: string | undefined,
  definition: string,
  aliases: ReadonlyArray<string>,
  peers: ReadonlyArray<string> = []
): boolean =>
  name !== definition && [definition, ...aliases].some((known) => known !== name && peers.includes(known))

/**
 * Compares an identity with a definition of today; `undefined` when they are the same tool.
 *
 * **Details**
 *
 * An alias that leads to one of the `peers` leads to another tool, or to another agent.
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

/** The `identity` that a tool declares, which follows its schema's fingerprint; `undefined` of a tool that declares none. */
export const identityIn = (schema: string | undefined): string | undefined => {
  const space = schema?.indexOf(" ") ?? -1
  return space < 0 ? undefined : schema?.slice(space + 1)
}

/** Whether a name that was recorded means this definition. */
export const isSame = (
  name: string | undefined,
  definition: string,
  aliases: ReadonlyArray<string>,
  peers: ReadonlyArray<string> | undefined
): boolean =>
  name === definition ||
  (name !== undefined && aliases.includes(name) && !isOther(name, definition, aliases, peers))
