/**
 * Judging a call again right before its body starts.
 *
 * A call that was approved, covered by a grant or let through may have waited since: behind another call, for a person, over a deploy.
 * What released it is looked at again: the tool's definition, the arguments that were decided on, the grant, the policy and the tool's
 * own rule. What no longer holds is asked about again, with the reason; a definition or an argument that cannot be matched never runs.
 */
import * as Effect from "effect/Effect"
import type { Decision } from "../../domain/Decision.ts"
import { sentence } from "../../domain/Display.ts"
import * as Grant from "../../domain/Grant.ts"
import { sameJson } from "../../domain/internal/json.ts"
import type { Interruption } from "../../domain/Interruption.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import { type Difference, difference, type ToolIdentity } from "../../domain/ToolIdentity.ts"
import type { BoundAgent } from "../BoundAgent.ts"
import { deny, needsOf, strictest, type ToolEntry } from "./classify.ts"
import { approvalDigest } from "./digest.ts"
import { now, type Scope, stateOf } from "./Drive.ts"
import { findGrant } from "./findGrant.ts"

/** How a call that may run stands right before its body. */
export type Standing =
  | { readonly _tag: "holds" }
  /** The tool or the arguments are others: the call is understood anew. */
  | { readonly _tag: "changed"; readonly reason: string }
  /** What let it through is no longer in force: it is judged anew. */
  | { readonly _tag: "lapsed"; readonly reason: string }
  /** A policy denies it; its result says so. */
  | { readonly _tag: "denied" }

const holds: Standing = { _tag: "holds" }

const lapsed = (reason: string): Standing => ({ _tag: "lapsed", reason })

const changed = (reason: string): Standing => ({ _tag: "changed", reason })

/** The tool that a call names: by the definition's own name where the call used an alias of it. */
export const toolEntryOf = (bound: BoundAgent, call: ToolCall): ToolEntry | undefined => {
  const entry = bound.entries.get(call.tool ?? call.name)
  return entry !== undefined && "tool" in entry ? entry : undefined
}

/** The arguments of a call as they were shown. */
export const shownOf = (call: ToolCall) => call.value ?? call.arguments ?? {}

/** The request that a call was released by, and its decision. */
const releaseOf = (
  scope: Scope<unknown>,
  call: ToolCall
): { readonly request: Interruption; readonly decision: Decision } | undefined => {
  if (call.requestId === undefined) return undefined
  const record = stateOf(scope).requests.find(({ request }) => request.requestId === call.requestId)
  return record?.decision === undefined ? undefined : { request: record.request, decision: record.decision }
}

/** The approval that edited the arguments of a call, if it was released by one. */
export const isEdited = (scope: Scope<unknown>, call: ToolCall): boolean =>
  isEdit(releaseOf(scope, call)?.decision)

const isEdit = (decision: Decision | undefined): boolean =>
  decision?._tag === "approve" && decision.arguments !== undefined

/** Judges a call again. Costs no step of the fiber where the tool's own rule need not be asked. */
export const authorize = (
  scope: Scope<unknown>,
  call: ToolCall,
  entry: ToolEntry,
  value: () => Effect.Effect<unknown, unknown>
): Effect.Effect<Standing> => {
  const release = releaseOf(scope, call)
  const other = differenceOf(scope, call, entry, release?.request)
  // Edited arguments are whole and are decoded as they are: the schema of today says whether it takes them.
  if (other !== undefined && !(other === "schema" && isEdit(release?.decision))) {
    return Effect.succeed(changed(differenceText(other, call, entry)))
  }
  if (release?.decision._tag === "approve") return authorizeApproved(scope, call, entry, release)
  // What has started already was judged then; a retry is a decision of its own.
  if (call.attempt > 0 || release !== undefined) return Effect.succeed(holds)
  return call.grantId === undefined
    ? authorizeUnasked(scope, call, entry, value)
    : Effect.succeed(authorizeGranted(scope, call, entry))
}

/** How the tool differs from the one that the call was classified as, or that a person was asked about. */
export const differenceOf = (
  scope: Scope<unknown>,
  call: ToolCall,
  { definition }: ToolEntry,
  request?: Interruption
): Difference | undefined => {
  const { agent } = stateOf(scope)
  const tool = call.tool ?? call.name
  const schemaOf = (name: string) => (Object.hasOwn(agent.tools, name) ? agent.tools[name] : undefined)
  const known: Partial<ToolIdentity> = { agent: agent.name, tool, safety: call.safety }
  const schema = call.schema ?? schemaOf(tool)
  if (schema !== undefined) Object.assign(known, { schema })
  const peers = { tools: Object.keys(agent.tools), agents: agent.peers }
  const own = difference(known, definition, peers)
  if (own !== undefined || request?._tag !== "approval") return own
  const { agentPath, safety, tool: asked } = request
  const shown = request.schema ?? schemaOf(asked)
  const identity: Partial<ToolIdentity> = { agent: agentPath.at(-1) ?? "", tool: asked, safety }
  return difference(shown === undefined ? identity : { ...identity, schema: shown }, definition, peers)
}

const differenceText = (other: Difference, call: ToolCall, { definition, tool }: ToolEntry): string => {
  switch (other) {
    case "agent":
      return sentence`${tool.name} is a tool of the agent ${definition.agent} now.`
    case "tool":
      return sentence`"${call.tool ?? call.name}" now names another tool, ${tool.name}.`
    case "schema":
      return sentence`The arguments that ${tool.name} takes have changed since.`
    case "safety":
      return sentence`${tool.name} is ${definition.safety} now, and was ${call.safety}.`
  }
}

const authorizeApproved = Effect.fnUntraced(function* (
  scope: Scope<unknown>,
  call: ToolCall,
  { tool }: ToolEntry,
  { decision, request }: NonNullable<ReturnType<typeof releaseOf>>
) {
  if (request._tag !== "approval" || decision._tag !== "approve") return holds
  const decided = decision.arguments ?? request.arguments
  const isShown = (yield* approvalDigest(request, request.arguments)) === request.digest
  if (!isShown || !sameJson(shownOf(call), decided)) {
    return changed(sentence`The stored arguments of ${tool.name} are not the ones that were approved.`)
  }
  return isDenied(scope, call, tool.name, true) ? ({ _tag: "denied" } as const) : holds
})

const authorizeGranted = (scope: Scope<unknown>, call: ToolCall, entry: ToolEntry): Standing => {
  const { grantId } = call
  const found = findGrant(scope, ({ id }) => id === grantId)
  if (found === undefined) return lapsed(sentence`The grant ${grantId} is not known here.`)
  const { grant, reach } = found
  if (grant.revoked !== undefined)
    return lapsed(sentence`The grant ${grantId} was revoked by ${grant.revoked.by}.`)
  if (!Grant.isActive(grant, now(scope.drive))) return lapsed(sentence`The grant ${grantId} has expired.`)
  if (!Grant.covers(grant, entry.definition, shownOf(call), reach)) {
    return lapsed(sentence`The grant ${grantId} does not cover this call.`)
  }
  return isDenied(scope, call, entry.tool.name, true) ? { _tag: "denied" } : holds
}

/** A call that was let through without a person: by the tool, by a rule, by the policy. */
const authorizeUnasked = (
  scope: Scope<unknown>,
  call: ToolCall,
  entry: ToolEntry,
  value: () => Effect.Effect<unknown, unknown>
): Effect.Effect<Standing> => {
  const { tool } = entry
  if (strictest(scope, tool.name, true)._tag === "run") return Effect.succeed(holds)
  const { needsApproval } = tool.options
  if (typeof needsApproval !== "function") {
    return Effect.succeed(standingOf(scope, call, entry, needsApproval ?? tool.safety !== "readOnly"))
  }
  if (scope.drive.fresh?.has(call.id) === true && !isTimed(scope)) {
    return Effect.succeed(standingOf(scope, call, entry, false))
  }
  return Effect.gen(function* () {
    const needs = needsOf(scope, entry, yield* value())
    const { needed } = Effect.isEffect(needs) ? yield* needs : needs
    return standingOf(scope, call, entry, needed)
  }).pipe(
    // Arguments that cannot be read again have no value for the body either: the next step says so.
    Effect.catch(() => Effect.succeed(holds))
  )
}

const standingOf = (
  scope: Scope<unknown>,
  call: ToolCall,
  { tool }: ToolEntry,
  needed: boolean
): Standing => {
  const verdict = strictest(scope, tool.name, needed)
  if (verdict._tag === "run") return holds
  if (isDenied(scope, call, tool.name, needed)) return { _tag: "denied" }
  return lapsed(sentence`${tool.name} was let through without approval, and needs one now.`)
}

/** Whether a policy of the line lets calls through only until a time. */
const isTimed = (scope: Scope<unknown>): boolean => {
  for (let at: Scope<unknown> | undefined = scope; at !== undefined; at = at.parent) {
    if (stateOf(at).policy.mode === "until") return true
  }
  return false
}

/** Denies the call where a policy says so now. */
const isDenied = (scope: Scope<unknown>, call: ToolCall, tool: string, needed: boolean): boolean => {
  const verdict = strictest(scope, tool, needed)
  if (verdict._tag !== "deny") return false
  deny(scope, call, verdict.message)
  return true
}
