/**
 * Grants: standing approvals as data.
 *
 * An approval with a `grant` creates a grant. It covers calls of one agent's tool whose definition and arguments match. It ends with its
 * scope, by expiry or by revocation. A call that a grant let through records the grant's id.
 *
 * Grants are checked when a call is classified and again directly before its body starts. A grant does not release a request that is
 * already open. It covers the calls of sub-agents only with `inherit`, no call that a policy denies, no call of a `privileged` tool, and no
 * call that its tool always asks about.
 *
 * A store keeps one row per grant and reads it in the commit that starts a call, so a revocation takes effect in every run, fork
 * and process. Without a store, grants and revocations exist only in the state that the caller keeps.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { sentence } from "./Display.ts"
import { GrantId, grantId, Timestamp, ToolCallId } from "./Id.ts"
import { defined } from "./internal/defined.ts"
import { matchesGlob } from "./internal/glob.ts"
import { canonicalJson, sameJson } from "./internal/json.ts"
import { Safety, type ToolApprovalItem } from "./Interruption.ts"
import { type Attributed, Principal } from "./Principal.ts"
import { TaggedError } from "./TaggedError.ts"
import { type Definition, difference, type Peers } from "./ToolIdentity.ts"
import type { UntrustedResult } from "./Untrusted.ts"

/**
 * What a granted argument must be: equal to `value`, or a string that matches `pattern`, in which `*` stands for any number of characters.
 */
export const ArgumentPattern = Schema.Union([
  Schema.TaggedStruct("equals", { value: Schema.Json }),
  Schema.TaggedStruct("glob", { pattern: Schema.String })
])
export type ArgumentPattern = typeof ArgumentPattern.Type

/**
 * The grant that an approver requests with an approval. An approval with a grant is refused if the tool is `privileged` or the grant would
 * have expired.
 */
export const GrantRequest = Schema.Struct({
  /** `run`: until the run that asked ends. `session`: also for later runs of the session; refused for a sub-agent's request. */
  scope: Schema.Literals(["run", "session"]),
  /**
   * Patterns for top-level arguments. Each named argument must be there and match; the others may have any value. `{}` covers any
   * arguments. Default: exactly the approved arguments, edited ones included.
   */
  arguments: Schema.optionalKey(Schema.Record(Schema.String, ArgumentPattern)),
  expiresAt: Schema.optionalKey(Timestamp),
  /**
   * `any`: the grant covers calls with any facts. Default: only calls for which the tool states the facts that the request showed.
   */
  facts: Schema.optionalKey(Schema.Literal("any")),
  /**
   * `any`: the grant covers calls after any untrusted results. Default: only calls of a run that has read no untrusted results except those
   * that the request listed.
   */
  untrusted: Schema.optionalKey(Schema.Literal("any")),
  /**
   * Whether the grant also covers calls of tools with the same name, schema and safety, in the sub-agents of the grant's agent at any
   * depth. Default: false.
   */
  inherit: Schema.optionalKey(Schema.Boolean)
})
export type GrantRequest = typeof GrantRequest.Type

/** The author and time of a revocation. */
export const Revocation = Schema.Struct({
  by: Schema.String,
  principal: Schema.optionalKey(Principal),
  at: Timestamp
})
export type Revocation = typeof Revocation.Type

/**
 * A standing approval for calls of one tool of one agent, with certain arguments and facts, until its scope ends, it expires or it is
 * revoked.
 */
export const Grant = Schema.Struct({
  id: GrantId,
  /** The tool's own name, not an alias. */
  tool: Schema.String,
  /** Name of the tool's agent. A grant of an earlier version may lack `agent`, `schema` or `safety`; it covers no call. */
  agent: Schema.optionalKey(Schema.String),
  /** Fingerprint of the tool's argument schema, with the identity that the tool declares; see `ToolIdentity`. */
  schema: Schema.optionalKey(Schema.String),
  safety: Schema.optionalKey(Safety),
  /** Names of the agent's other tools when the grant was given. A tool of one of these names is not covered through an alias. */
  peers: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Names of the agents beside `agent` when the grant was given. An agent of one of these names is not covered through an alias. */
  agentPeers: Schema.optionalKey(Schema.Array(Schema.String)),
  scope: Schema.Literals(["run", "session"]),
  arguments: Schema.Record(Schema.String, ArgumentPattern),
  /** The facts for which calls are covered. Absent if the tool stated none: then no call is covered for which it states some. */
  facts: Schema.optionalKey(Schema.Union([Schema.Literal("any"), Schema.Struct({ equal: Schema.Json })])),
  /**
   * The calls whose untrusted results the request listed: the grant covers calls with outside effects of a run that has read no others.
   * Absent if it listed none.
   */
  untrusted: Schema.optionalKey(Schema.Union([Schema.Literal("any"), Schema.Array(ToolCallId)])),
  /** The only arguments that are covered. If set, `arguments` is empty. */
  exact: Schema.optionalKey(Schema.Json),
  by: Schema.String,
  principal: Schema.optionalKey(Principal),
  at: Timestamp,
  expiresAt: Schema.optionalKey(Timestamp),
  inherit: Schema.Boolean,
  revoked: Schema.optionalKey(Revocation)
})
export type Grant = typeof Grant.Type

/** Makes the grant that an approval of a call creates. */
export const make = (options: {
  readonly id: GrantId
  /** The approved tool. `schema` is undefined if an earlier version opened the request. */
  readonly definition: {
    readonly agent: string
    readonly tool: string
    readonly schema?: string | undefined
    readonly safety: Safety
  }
  readonly peers?: Peers
  readonly approved: Schema.Json
  /** The facts that the request showed. */
  readonly facts?: Schema.Json | undefined
  /** The untrusted results that the request listed. */
  readonly untrusted?: ReadonlyArray<UntrustedResult> | undefined
  readonly request: GrantRequest
  readonly by: Attributed
  readonly at: Timestamp
}): Grant => {
  const { agent, safety, schema, tool } = options.definition
  const { arguments: args, expiresAt, facts, inherit = false, scope, untrusted } = options.request
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
    ...(facts === "any" ? { facts } : options.facts === undefined ? {} : { facts: { equal: options.facts } }),
    ...(untrusted === "any"
      ? { untrusted }
      : options.untrusted === undefined
        ? {}
        : { untrusted: options.untrusted.map(({ callId }) => callId) }),
    ...(peers.length === 0 ? {} : { peers }),
    ...defined({ schema, agentPeers: options.peers?.agents, principal: options.by.principal, expiresAt })
  }
}

/**
 * Makes the grant that the approval of a request creates. `tools` maps the names of the tools of the agent that asked to the fingerprints
 * of their schemas; `peers` are the names of the agents beside it.
 */
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
    facts: request.facts,
    untrusted: request.untrusted,
    request: decision.grant,
    by: decision,
    at: decision.at
  })

/** Marks a grant as revoked. */
export const revoke = (grant: Grant, { at, by, principal }: Revocation): Grant => ({
  ...grant,
  revoked: { by, ...defined({ principal }), at }
})

/** Whether the grant is neither revoked nor expired at `now`. */
export const isActive = (grant: Grant, now: Timestamp): boolean =>
  grant.revoked === undefined && (grant.expiresAt === undefined || now < grant.expiresAt)

/**
 * Whether the grant covers a call of this tool with these arguments. Does not check its scope, whether it {@link isActive}, and whether it
 * {@link coversFacts} and {@link coversUntrusted}.
 *
 * **Details**
 *
 * Pass `inherited` for a grant of a run above the call's run, and check `inherit` yourself. The agent may then differ; the tool's name,
 * schema and safety must match.
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

/** Whether the grant covers calls for which the tool states these facts. Pass `undefined` for a call without facts. */
export const coversFacts = ({ facts: granted }: Grant, facts: Schema.Json | undefined): boolean =>
  granted === "any" || sameJson(granted?.equal, facts)

/** Whether the grant covers calls with outside effects of a run that has read these untrusted results. */
export const coversUntrusted = (
  { untrusted: known }: Grant,
  results: ReadonlyArray<Pick<UntrustedResult, "callId">>
): boolean =>
  results.length === 0 || known === "any" || results.every(({ callId }) => known?.includes(callId) === true)

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

/** A revocation from a store. It takes effect even if the state of a run does not hold it yet. */
export interface Revoked {
  readonly grantId: GrantId
  readonly revocation: Revocation
}

/**
 * `revokeGrant` or `revokeInState` found no grant with this id in the run, its session, the store or the state, or the id is not a string.
 * Nothing was changed.
 */
export class GrantNotFound extends TaggedError<GrantNotFound>()("GrantNotFound", {
  /** The id as the caller gave it; it may have any form. "" if `given` is set. */
  grantId: Schema.String,
  runId: Schema.optionalKey(Schema.String),
  /** The kind of the value, if the caller gave another value than a string. */
  given: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    if (this.given !== undefined) {
      return sentence`A grant is revoked by its id, a string, but ${this.given} was given: list the grants, and pass the id of one of those.`
    }
    const where = this.runId === undefined ? "here" : sentence`of the run ${this.runId} or its session`
    return sentence`There is no grant ${this.grantId} ${where}: list the grants, and revoke one of those.`
  }
}
