/**
 * Checks a call's authorization again right before its body starts.
 *
 * A call that was approved, covered by a grant or allowed may have waited since: behind another call, for a decision, or over a deploy. The
 * tool's definition, the decided arguments, the grant, the policies, the tool's approval rule and what the run has read are checked again; `factsStanding`
 * compares the facts. If one of them no longer allows the call, a policy denies it, or it is judged again, which usually opens a new
 * request with the reason. A call whose definition or arguments have changed is classified and judged like a new one.
 */
import type * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import type { Decision } from "../../domain/Decision.ts"
import { sentence } from "../../domain/Display.ts"
import * as Grant from "../../domain/Grant.ts"
import { sameJson } from "../../domain/internal/json.ts"
import { recordOf } from "../../domain/internal/released.ts"
import { callIdOf, type Interruption } from "../../domain/Interruption.ts"
import { policiesAbove, policiesOf, type ToolCall } from "../../domain/RunState.ts"
import { type Difference, difference, identityIn, type ToolIdentity } from "../../domain/ToolIdentity.ts"
import { stateOf, type AgentRun } from "../internal/AgentRun.ts"
import { now } from "../internal/Drive.ts"
import { askNeed, fixedNeed, type Need, permitsOf, ruleOf, untrustedFor } from "./approvalNeed.ts"
import { approvalDigest } from "./digest.ts"
import { findGrant } from "./findGrant.ts"
import { strictest } from "./judgeCall.ts"
import { shownOf } from "./openRequest.ts"
import { type ToolEntry } from "./userCalls.ts"

/** A call whose authorization is checked. */
export interface Judging {
  readonly run: AgentRun
  readonly call: ToolCall
  readonly entry: ToolEntry
  /** Whether an earlier attempt may have taken effect. Such a call is not denied by a policy: an `inDoubt` request is opened instead. */
  readonly mayHaveRun: boolean
}

/** The authorization of a call right before its body. */
export type Standing =
  /** With the facts, if those of the call have to stay the same through its tries. */
  | { readonly _tag: "holds"; readonly facts?: Schema.Json | undefined }
  /** The tool or the arguments have changed: the call is classified again. */
  | { readonly _tag: "changed"; readonly reason: string }
  /** The authorization is no longer in force: the call is judged again. */
  | { readonly _tag: "lapsed"; readonly reason: string }
  /** The tool states other facts than those that were approved: the call is asked about again. */
  | { readonly _tag: "restated"; readonly reason: string; readonly facts: Schema.Json | undefined }
  /** A policy denies the call. */
  | { readonly _tag: "denied"; readonly message: string }

export const holds: Standing & { readonly _tag: "holds" } = { _tag: "holds" }

export const lapsed = (reason: string) => ({ _tag: "lapsed", reason }) as const satisfies Standing

const changed = (reason: string): Standing => ({ _tag: "changed", reason })

/** The request whose decision released a call, and the decision. */
export const releaseOf = (
  run: AgentRun,
  call: ToolCall
): { readonly request: Interruption; readonly decision: Decision } | undefined => {
  const record = recordOf(stateOf(run), call)
  return record?.decision === undefined ? undefined : { request: record.request, decision: record.decision }
}

/**
 * The arguments to which an approval edited those of a call. They are the call's arguments through every check and retry, until another
 * approval request shows others. `undefined` if the call has none.
 */
export const editOf = (run: AgentRun, call: ToolCall): Schema.Json | undefined => {
  if (call.proposed === undefined) return undefined
  let edit: Schema.Json | undefined
  for (const { decision, request } of stateOf(run).requests) {
    if (callIdOf(request) !== call.id) continue
    if (request._tag === "approval" && edit !== undefined && !sameJson(request.arguments, edit))
      edit = undefined
    if (decision?._tag === "approve") edit = decision.arguments ?? edit
  }
  return edit
}

/** Checks a call's authorization. Returns `undefined` if the run was stopped meanwhile. `value` decodes the argument of the tool's rule. */
export function* authorize(
  judging: Judging,
  value: () => Effect.Effect<unknown, unknown>
): Effect.fn.Return<Standing | undefined> {
  const { call, entry, run } = judging
  const release = releaseOf(run, call)
  const other = differenceOf(run, call, entry, release?.request)
  if (other !== undefined && !(other === "schema" && tookEdit(entry, release?.decision))) {
    return changed(differenceText(run, other, call, entry))
  }
  if (release?.decision._tag === "approve") return yield* authorizeApproved(judging, release)
  if (release !== undefined) return authorizeRetried(judging, release.request)
  // No decision: the tool, its rule, a policy or a grant allowed the call.
  const need = yield* needNow(judging, value)
  if (need === undefined || "_tag" in need) return need
  return call.grantId === undefined ? standingOf(judging, need) : authorizeGranted(judging, need)
}

/** What the tool says about the call now. Its rule is not asked again if the run has not waited since. */
function* needNow(
  { call, entry, run }: Judging,
  value: () => Effect.Effect<unknown, unknown>
): Effect.fn.Return<Need | typeof holds | undefined> {
  const { tool } = entry
  if (ruleOf(tool) === undefined) return fixedNeed(tool)
  const isJustAllowed = run.drive.justAllowed?.has(call.id) === true && !isTimed(run)
  if (isJustAllowed && untrustedFor(run, tool).length === 0) return allowed
  const decoded = yield* run.supervisor.run(value())
  // `prepare` decodes the arguments for the body, too, and reports the failure.
  if (Exit.isFailure(decoded)) return holds
  return yield* askNeed(run, call, tool, decoded.value)
}

/** Whether an approval's edited arguments were decoded with the tool's current schema. */
const tookEdit = ({ definition }: ToolEntry, decision: Decision | undefined): boolean =>
  decision?._tag === "approve" && decision.arguments !== undefined && decision.schema === definition.schema

/** The difference between the tool and the one that the call was classified with, or that its request showed. */
export const differenceOf = (
  run: AgentRun,
  call: ToolCall,
  { definition }: Pick<ToolEntry, "definition">,
  request?: Interruption
): Difference | undefined => {
  const { agent } = stateOf(run)
  const tool = call.tool ?? call.name
  const schemaOf = (name: string) => (Object.hasOwn(agent.tools, name) ? agent.tools[name] : undefined)
  const known: Partial<ToolIdentity> = { agent: agent.name, tool, safety: call.safety }
  const schema = call.schema ?? schemaOf(tool)
  const peers = { tools: Object.keys(agent.tools), agents: agent.peers }
  const own = difference(schema === undefined ? known : { ...known, schema }, definition, peers)
  if (own !== undefined || request?._tag !== "approval") return own
  const { agentPath, safety, tool: asked } = request
  const shown = request.schema ?? schemaOf(asked)
  const identity: Partial<ToolIdentity> = { agent: agentPath.at(-1) ?? "", tool: asked, safety }
  return difference(shown === undefined ? identity : { ...identity, schema: shown }, definition, peers)
}

export const differenceText = (
  run: AgentRun,
  other: Difference,
  call: ToolCall,
  { definition, tool }: ToolEntry
): string => {
  switch (other) {
    case "agent":
      return sentence`${tool.name} is a tool of the agent ${definition.agent} now.`
    case "tool":
      return sentence`"${call.tool ?? call.name}" now names another tool, ${tool.name}.`
    case "identity": {
      const { tools } = stateOf(run).agent
      const was = identityIn(call.schema ?? tools[call.tool ?? call.name])
      const is = identityIn(definition.schema)
      return sentence`${tool.name} is another tool now: it has ${identityText(is)}, and had ${identityText(was)}.`
    }
    case "schema":
      return sentence`The arguments that ${tool.name} takes have changed since.`
    case "safety":
      return sentence`${tool.name} is ${definition.safety} now, and was ${call.safety}.`
  }
}

const identityText = (identity: string | undefined): string =>
  identity === undefined ? "no identity" : `the identity "${identity}"`

function* authorizeApproved(
  judging: Judging,
  { decision, request }: NonNullable<ReturnType<typeof releaseOf>>
): Effect.fn.Return<Standing> {
  const { call, entry } = judging
  const { tool } = entry
  if (request._tag !== "approval" || decision._tag !== "approve") return holds
  const decided = decision.arguments ?? request.arguments
  const isShown = (yield* approvalDigest(request, request.arguments)) === request.digest
  if (!isShown || !sameJson(shownOf(call), decided)) {
    return changed(sentence`The stored arguments of ${tool.name} are not the ones that were approved.`)
  }
  return policyStanding(judging, true) ?? holds
}

/** A retry decides about the arguments that its request showed. They must be the approver's, if an approval edited them. */
const authorizeRetried = ({ call, entry, run }: Judging, request: Interruption): Standing => {
  const shown = shownOf(call)
  const { name } = entry.tool
  if (request._tag === "inDoubt" && !sameJson(shown, request.arguments))
    return changed(sentence`The stored arguments of ${name} are not the ones that were asked about.`)
  return sameJson(shown, editOf(run, call) ?? shown)
    ? holds
    : changed(sentence`The stored arguments of ${name} are not the ones that were approved.`)
}

/** The need of a call that its tool's rule, a policy or a grant has just allowed. */
const allowed: Need = { needed: false, isAlways: false }

const authorizeGranted = (judging: Judging, need: Need): Standing => {
  const { call, entry, run } = judging
  const { grantId } = call
  const found = findGrant(run, ({ id }) => id === grantId)
  if (found === undefined) return lapsed(sentence`The grant ${grantId} is not known here.`)
  const { grant, reach } = found
  if (grant.revoked !== undefined)
    return lapsed(sentence`The grant ${grantId} was revoked by ${grant.revoked.by}.`)
  if (!Grant.isActive(grant, now(run.drive))) return lapsed(sentence`The grant ${grantId} has expired.`)
  if (!Grant.covers(grant, entry.definition, shownOf(call), reach)) {
    return lapsed(sentence`The grant ${grantId} does not cover this call.`)
  }
  if (need.isAlways) return lapsed(sentence`No grant covers this call of ${entry.tool.name} now.`)
  if (!Grant.coversUntrusted(grant, untrustedFor(run, entry.tool)))
    return lapsed(sentence`The grant ${grantId} was given before the run read untrusted results.`)
  return policyStanding(judging, true) ?? holds
}

const standingOf = (judging: Judging, need: Need): Standing => {
  const { entry, run } = judging
  const { name } = entry.tool
  const permits = permitsOf(need, untrustedFor(run, entry.tool))
  if (strictest(run, name, need.needed, permits)._tag === "run") return holds
  return (
    policyStanding(judging, need.needed) ??
    lapsed(sentence`${name} was let through without approval, and needs one now.`)
  )
}

/** Whether a policy of the run, or of a run above it, has the mode `until`. */
export const isTimed = (run: AgentRun): boolean => {
  for (let below = run; ; below = below.parent) {
    if (policiesOf(stateOf(below)).some(({ mode }) => mode === "until")) return true
    if (below.parent === undefined) return false
    if (policiesAbove(stateOf(below.parent), below.path.at(-1)!).some(({ mode }) => mode === "until"))
      return true
  }
}

/** The standing of a call that a policy denies now; `undefined` if none does. */
const policyStanding = ({ entry, mayHaveRun, run }: Judging, needed: boolean): Standing | undefined => {
  const { name } = entry.tool
  const verdict = strictest(run, name, needed)
  if (verdict._tag !== "deny") return undefined
  if (mayHaveRun) return lapsed(sentence`A policy denies ${name} now.`)
  return { _tag: "denied", message: verdict.message }
}
