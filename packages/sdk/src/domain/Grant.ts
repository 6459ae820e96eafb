/**
 * Standing approvals, as data.
 *
 * A grant is created by an approval ("and from now on"), names the tool and the arguments that it covers, ends by time or by
 * revocation, and is noted on every call that it let through. It is consulted when a new call is classified, so that it never
 * releases a request that is already waiting; a sub-agent's calls are covered only if the grant says so.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { GrantId, Timestamp } from "./Id.ts"
import { matchesGlob } from "./internal/glob.ts"
import { canonicalJson } from "./internal/json.ts"

/** An argument matches a value that is equal, or a text pattern in which `*` stands for any characters. */
export const ArgumentPattern = Schema.Union([
  Schema.TaggedStruct("equals", { value: Schema.Json }),
  Schema.TaggedStruct("glob", { pattern: Schema.String })
])
export type ArgumentPattern = typeof ArgumentPattern.Type

/** What an approver asks for when approving for more than this once. */
export const GrantRequest = Schema.Struct({
  /** `run`: until this run ends; `session`: for later runs of the session too. */
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

export const Grant = Schema.Struct({
  id: GrantId,
  tool: Schema.String,
  scope: Schema.Literals(["run", "session"]),
  arguments: Schema.Record(Schema.String, ArgumentPattern),
  /** Set when the arguments must be exactly these; `arguments` is then empty. */
  exact: Schema.optionalKey(Schema.Json),
  by: Schema.String,
  at: Timestamp,
  expiresAt: Schema.optionalKey(Timestamp),
  inherit: Schema.Boolean,
  revoked: Schema.optionalKey(Schema.Struct({ by: Schema.String, at: Timestamp }))
})
export type Grant = typeof Grant.Type

/** The grant that an approval of `call` creates. */
export const make = (options: {
  readonly id: GrantId
  readonly tool: string
  readonly approved: Schema.Json
  readonly request: GrantRequest
  readonly by: string
  readonly at: Timestamp
}): Grant => ({
  id: options.id,
  tool: options.tool,
  scope: options.request.scope,
  arguments: options.request.arguments ?? {},
  ...(options.request.arguments === undefined ? { exact: options.approved } : {}),
  by: options.by,
  at: options.at,
  ...(options.request.expiresAt === undefined ? {} : { expiresAt: options.request.expiresAt }),
  inherit: options.request.inherit ?? false
})

/** Whether the grant is in force at `now`. */
export const isActive = (grant: Grant, now: Timestamp): boolean =>
  grant.revoked === undefined && (grant.expiresAt === undefined || now < grant.expiresAt)

/** Whether the grant covers a call of `tool` with these arguments. */
export const covers = (grant: Grant, tool: string, args: Schema.Json): boolean => {
  if (grant.tool !== tool) return false
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
