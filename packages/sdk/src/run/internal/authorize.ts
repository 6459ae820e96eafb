/**
 * Judging a call again right before its body starts.
 *
 * A call that was approved, covered by a grant or let through may have waited since: behind another call, for a person, over a deploy.
 * What released it is looked at again: the tool's definition, the arguments that were decided on, the grant, the policy and the tool's
 * own rule. What no longer holds is asked about again, with the reason; a definition or an argument that cannot be matched never runs.
 */
import type * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Decision } from "../../domain/Decision.ts"
import { sentence } from "../../domain/Display.ts"
import * as Grant from "../../domain/Grant.ts"
import { sameJson } from "../../domain/internal/json.ts"
import { recordOf } from "../../domain/internal/released.ts"
import type { Interruption } from "../../domain/Interruption.ts"
import { policiesAbove, policiesOf, type ToolCall } from "../../domain/RunState.ts"
import { type Difference, difference, identityIn, type ToolIdentity } from "../../domain/ToolIdentity.ts"
import { stateOf, type AgentRun } from "./AgentRun.ts"
import { approvalDigest } from "./digest.ts"
import { now } from "./Drive.ts"
import { findGrant } from "./findGrant.ts"
import { askRule, strictest } from "./judge.ts"
import { shownOf } from "./openRequest.ts"
import { type ToolEntry } from "./userCalls.ts"

/** A call that is judged right before its body. */
export interface Judging {
  readonly run: AgentRun
  readonly call: ToolCall
  readonly entry: ToolEntry
  /** Whether an earlier attempt may have taken effect: then the call is never called denied, but asked about. */
  readonly mayHaveRun: boolean
}

/** How a call that may run stands right before its body. */
export type Standing =
  | { readonly _tag: "holds" }
  /** The tool or the arguments are others: the call is understood anew. */
  | { readonly _tag: "changed"; readonly reason: string }
  /** What let it through is no longer in force: it is judged anew. */
  | { readonly _tag: "lapsed"; readonly reason: string }
  /** A policy denies it; its result says so. */
  | { readonly _tag: "denied"; readonly message: string }

const holds: Standing = { _tag: "holds" }

const lapsed = (reason: string): Standing => ({ _tag: "lapsed", reason })

const changed = (reason: string): Standing => ({ _tag: "changed", reason })

/** The request that a call was released by, and its decision. */
const releaseOf = (
  run: AgentRun,
  call: ToolCall
): { readonly request: Interruption; readonly decision: Decision } | undefined => {
  const record = recordOf(stateOf(run), call)
  return record?.decision === undefined ? undefined : { request: record.request, decision: record.decision }
}

/** The approval that edited the arguments of a call, if it was released by one. */
export const isEdited = (run: AgentRun, call: ToolCall): boolean => {
  const decision = releaseOf(run, call)?.decision
  return decision?._tag === "approve" && decision.arguments !== undefined
}

/** Judges a call again; `undefined` if the run was stopped meanwhile. `value` is what the tool's own rule gets. */
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
  // A retry is a decision of its own, about the arguments that it was asked with.
  if (release !== undefined) return authorizeRetried(call, entry, release.request)
  if (call.grantId !== undefined) return authorizeGranted(judging)
  const { tool } = entry
  // Let through without a person: by the tool, by its rule, or by the policy.
  const needsApproval = tool.options.needsApproval ?? tool.safety !== "readOnly"
  if (typeof needsApproval !== "function") return standingOf(judging, needsApproval)
  if (strictest(run, tool.name, true)._tag === "run") return holds
  if (run.drive.justAllowed?.has(call.id) === true && !isTimed(run)) return standingOf(judging, false)
  const decoded = yield* run.supervisor.run(value())
  // Arguments that cannot be read again have no value for the body either: `prepare` says so.
  if (Exit.isFailure(decoded)) return holds
  const need = yield* askRule(run, call, tool, needsApproval, decoded.value)
  return need === undefined ? undefined : standingOf(judging, need.needed)
}

/** Whether the schema of today is the one that took the arguments of an approval that edited them. */
const tookEdit = ({ definition }: ToolEntry, decision: Decision | undefined): boolean =>
  decision?._tag === "approve" && decision.arguments !== undefined && decision.schema === definition.schema

/** How the tool differs from the one that the call was classified as, or that a person was asked about. */
export const differenceOf = (
  run: AgentRun,
  call: ToolCall,
  { definition }: ToolEntry,
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

const differenceText = (
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

const authorizeRetried = (call: ToolCall, { tool }: ToolEntry, request: Interruption): Standing =>
  request._tag === "inDoubt" && !sameJson(shownOf(call), request.arguments)
    ? changed(sentence`The stored arguments of ${tool.name} are not the ones that were asked about.`)
    : holds

const authorizeGranted = (judging: Judging): Standing => {
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
  return policyStanding(judging, true) ?? holds
}

const standingOf = (judging: Judging, needed: boolean): Standing => {
  const { entry, run } = judging
  const { name } = entry.tool
  if (strictest(run, name, needed)._tag === "run") return holds
  return (
    policyStanding(judging, needed) ??
    lapsed(sentence`${name} was let through without approval, and needs one now.`)
  )
}

/** Whether a policy of the line lets calls through only until a time. */
export const isTimed = (run: AgentRun): boolean => {
  for (let below = run; ; below = below.parent) {
    if (policiesOf(stateOf(below)).some(({ mode }) => mode === "until")) return true
    if (below.parent === undefined) return false
    if (policiesAbove(stateOf(below.parent), below.path.at(-1)!).some(({ mode }) => mode === "until"))
      return true
  }
}

/** Where a policy denies the call now: a call that may have taken effect is not called denied, but asked about. */
const policyStanding = ({ entry, mayHaveRun, run }: Judging, needed: boolean): Standing | undefined => {
  const { name } = entry.tool
  const verdict = strictest(run, name, needed)
  if (verdict._tag !== "deny") return undefined
  if (mayHaveRun) return lapsed(sentence`A policy denies ${name} now.`)
  return { _tag: "denied", message: verdict.message }
}
