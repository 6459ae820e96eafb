/**
 * Standing approvals, as data.
 *
 * A grant is created by an approval ("and from now on"). It covers calls of one agent's tool, by the tool's definition, with arguments
 * that match; it ends by time or by revocation, and is noted on every call that it let through. It is consulted when a call is
 * classified and again right before the body starts, and never releases a request that is already waiting; a sub-agent's calls are
 * covered only if the grant says so.
 *
 * A store keeps one row per grant and looks at it inside the commit that starts a call, so that a revocation holds in every run, fork
 * and process. Without a store, grants and revocations live in the state that the caller keeps.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { sentence } from "./Display.ts"
import { GrantId, grantId, Timestamp } from "./Id.ts"
import { defined } from "./internal/defined.ts"
import { matchesGlob } from "./internal/glob.ts"
import { canonicalJson } from "./internal/json.ts"
import { Safety, type ToolApprovalItem } from "./Interruption.ts"
import { type Attributed, Principal } from "./Principal.ts"
import { type Definition, difference, type Peers } from "./ToolIdentity.ts"

/** An argument matches a value that is equal, or a text pattern in which `*` stands for any characters. */
export const ArgumentPattern = Schema.Union([
  Schema.TaggedStruct("equals", { value: Schema.Json }),
  Schema.TaggedStruct("glob", { pattern: Schema.String })
])
export type ArgumentPattern = typeof ArgumentPattern.Type

/** What an approver asks for when approving for more than this once. */
export const GrantRequest = Schema.Struct({
  /** `run`: until this run ends; `session`: for later runs of the session too, which a sub-agent's request cannot be granted for. */
  scope: Schema.Literals(["run", "session"]),
  /**
   * Top-level arguments and what they must be; an argument that is not named may be anything. Left out: exactly the approved
   * arguments. `{}`: any arguments.
   */
  arguments: Schema.optionalKey(Schema.Record(Schema.String, ArgumentPattern)),
  expiresAt: Schema.optionalKey(Timestamp),
  /** Whether calls of sub-agents are covered too. Default: no. */
  inherit: Schema.optionalKey(Schema.Boolean)
})
export type GrantRequest = typeof GrantRequest.Type

/** Who revoked a grant, and when. */
export const Revocation = Schema.Struct({
  by: Schema.String,
  principal: Schema.optionalKey(Principal),
  at: Timestamp
})
export type Revocation = typeof Revocation.Type

/** A standing approval for calls of one tool. */
export const Grant = Schema.Struct({
  id: GrantId,
  /** The definition's own name. */
  tool: Schema.String,
  /** Name of the agent that has the tool. Grants of earlier versions may lack the definition: they cover no call. */
  agent: Schema.optionalKey(Schema.String),
  /** Fingerprint of the tool's argument schema. */
  schema: Schema.optionalKey(Schema.String),
  safety: Schema.optionalKey(Safety),
  /** Names of all tools that the agent had: an alias that leads to one of them leads to another tool. */
  peers: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Names of the agents beside that one: an alias that leads to one of them leads to another agent. */
  agentPeers: Schema.optionalKey(Schema.Array(Schema.String)),
  scope: Schema.Literals(["run", "session"]),
  arguments: Schema.Record(Schema.String, ArgumentPattern),
  /** Set when the arguments must be exactly these; `arguments` is then empty. */
  exact: Schema.optionalKey(Schema.Json),
  by: Schema.String,
  principal: Schema.optionalKey(Principal),
  at: Timestamp,
  expiresAt: Schema.optionalKey(Timestamp),
  inherit: Schema.Boolean,
  revoked: Schema.optionalKey(Revocation)
})
export type Grant = typeof Grant.Type

/** The grant that an approval of a call creates. */
export const make = (options: {
  readonly id: GrantId
  /** The tool that was approved; `schema` is unknown where an earlier version asked. */
  readonly definition: {
    readonly agent: string
    readonly tool: string
    readonly schema?: string | undefined
    readonly safety: Safety
  }
  readonly peers?: Peers
  readonly approved: Schema.Json
  readonly request: GrantRequest
  readonly by: Attributed
  readonly at: Timestamp
}): Grant => {
  const { agent, safety, schema, tool } = options.definition
  const { arguments: args, expiresAt, inherit = false, scope } = options.request
  const peers = options.peers?.tools?.filter((name) => name !== tool) ?? []
  return {
    id: options.id,
    tool,
    agent,
    safety,
    scope,
    arguments: args ?? {},
    by: options.by.by,
    at: options.at,
    inherit,
    ...(args === undefined ? { exact: options.approved } : {}),
    ...(peers.length === 0 ? {} : { peers }),
    ...defined({ schema, agentPeers: options.peers?.agents, principal: options.by.principal, expiresAt })
  }
}

/** The grant that the approval of a request creates, by what is known of the agent that asked. */
export const fromApproval = (
  request: ToolApprovalItem,
  decision: Attributed & {
    readonly at: Timestamp
    readonly arguments?: Schema.Json
    readonly grant: GrantRequest
  },
  {
    peers,
    tools
  }: { readonly tools: Readonly<Record<string, string>>; readonly peers?: ReadonlyArray<string> }
): Grant =>
  make({
    id: grantId(request.requestId),
    definition: {
      agent: request.agentPath.at(-1) ?? "",
      tool: request.tool,
      schema: request.schema ?? (Object.hasOwn(tools, request.tool) ? tools[request.tool] : undefined),
      safety: request.safety
    },
    peers: { tools: Object.keys(tools), agents: peers },
    approved: decision.arguments ?? request.arguments,
    request: decision.grant,
    by: decision,
    at: decision.at
  })

/** The grant after its revocation. */
export const revoke = (grant: Grant, { at, by, principal }: Revocation): Grant => ({
  ...grant,
  revoked: { by, ...defined({ principal }), at }
})

/** Whether the grant is in force at `now`. */
export const isActive = (grant: Grant, now: Timestamp): boolean =>
  grant.revoked === undefined && (grant.expiresAt === undefined || now < grant.expiresAt)

/**
 * Whether the grant covers a call of this tool with these arguments.
 *
 * **Details**
 *
 * With `inherited`, the grant was given in a run above: the tool may be a sub-agent's, but has the same name, schema and safety.
 */
export const covers = (
  grant: Grant,
  definition: Definition,
  args: Schema.Json,
  inherited: "own" | "inherited" = "own"
): boolean => {
  const identity = inherited === "own" ? grant : { ...grant, agent: definition.agent }
  if (difference(identity, definition, { tools: grant.peers, agents: grant.agentPeers }) !== undefined)
    return false
  return matches(grant, args)
}

/** Whether arguments are those that the grant names. */
const matches = (grant: Grant, args: Schema.Json): boolean => {
  if (grant.exact !== undefined) return canonicalJson(grant.exact) === canonicalJson(args)
  const object =
    typeof args === "object" && args !== null && !Array.isArray(args) ? (args as Schema.JsonObject) : {}
  return Object.entries(grant.arguments).every(([name, pattern]) => {
    const value = Object.hasOwn(object, name) ? object[name] : undefined
    if (value === undefined) return false
    return pattern._tag === "equals"
      ? canonicalJson(pattern.value) === canonicalJson(value)
      : typeof value === "string" && matchesGlob(pattern.pattern, value)
  })
}

/** A revocation that holds, whatever the states of runs say. */
export interface Revoked {
  readonly grantId: GrantId
  readonly revocation: Revocation
}

/** There is no such grant here. Nothing was changed. */
export class GrantNotFound extends Schema.TaggedError<GrantNotFound>()("GrantNotFound", {
  /** As it was asked for, which need not be an id. */
  grantId: Schema.String,
  runId: Schema.optionalKey(Schema.String),
  /** What was given in the place of an id, when that was no string. */
  given: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    if (this.given !== undefined) {
      return sentence`A grant is revoked by its id, and this is ${this.given}: list the grants, and pass the id, a string, of one of those.`
    }
    const where = this.runId === undefined ? "here" : sentence`of the run ${this.runId} or its session`
    return sentence`There is no grant ${this.grantId} ${where}: list the grants, and revoke one of those.`
  }
}
