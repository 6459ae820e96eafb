/**
 * Judges the calls of agent tools: a sub-agent, `delegate`, a tool for background sub-agents, or a handoff.
 *
 * These calls need no approval by themselves, so the mode of a policy does not apply to them. A rule that names the tool does: it denies
 * the call, or opens an approval request. The call is judged when it is classified, and again directly before it starts, since it may
 * have waited for a decision, for other calls or over a deploy.
 */
import type * as Effect from "effect/Effect"
import type { AgentToolEntry } from "../../agent/Entry.ts"
import type { Verdict } from "../../domain/ApprovalPolicy.ts"
import { sentence } from "../../domain/Display.ts"
import * as Grant from "../../domain/Grant.ts"
import { recordOf } from "../../domain/internal/released.ts"
import { findCall, type ToolCall } from "../../domain/RunState.ts"
import type { Target } from "../../domain/ToolCall.ts"
import type { DecodedArguments } from "../../tool/internal/decodedArguments.ts"
import { stateOf, type AgentRun } from "../internal/AgentRun.ts"
import { now } from "../internal/Drive.ts"
import { differenceOf } from "./authorize.ts"
import { deniedBefore, denyAgain } from "./deniedBefore.ts"
import { findGrant } from "./findGrant.ts"
import { strictest } from "./judgeCall.ts"
import { requestApproval, shownOf } from "./openRequest.ts"
import { allow, classifyAgentTool, deny } from "./recordClassification.ts"

/** Judges a call that is being classified: allows it, denies it, or opens an approval request. */
export function* judgeAgentCall(
  run: AgentRun,
  call: ToolCall,
  entry: AgentToolEntry,
  target: Target,
  args: DecodedArguments
): Effect.fn.Return<void> {
  const verdict = verdictOn(run, entry)
  if (verdict._tag === "run") return allow(run, call, target, args.arguments)
  if (verdict._tag === "deny") return deny(run, call, verdict.message)
  const denial = yield* deniedBefore(run, entry.definition, args.shown)
  if (denial !== undefined) return denyAgain(run, call, denial)
  const found = grantFor(run, entry, args.shown)
  if (found !== undefined) {
    const allowedBy = sentence`grant of ${found.by}`
    return classifyAgentTool(run, call, entry, target, args, { allowedBy, grantId: found.id })
  }
  if (run.drive.runtime.options.interactive === false) return deny(run, call, unattended(entry))
  classifyAgentTool(run, call, entry, target, args, {})
  yield* requestApproval(run, call, entry.definition, args.shown, {})
}

/** Judges a call directly before it starts. Returns whether it may start; if not, the call is denied, or a request is open. */
export function* mayStartCall(run: AgentRun, callId: ToolCall["id"]): Effect.fn.Return<boolean> {
  const call = findCall(stateOf(run), callId)
  const entry = call === undefined ? undefined : run.bound.entries.get(call.name)
  // A missing definition is recorded where the call is started.
  if (call === undefined || entry === undefined || "tool" in entry) return true
  const verdict = verdictOn(run, entry)
  if (verdict._tag === "run") return true
  if (verdict._tag === "deny") {
    deny(run, call, verdict.message)
    return false
  }
  const record = recordOf(stateOf(run), call)
  const isApproved = record?.decision?._tag === "approve" && record.decision.arguments === undefined
  const isSame = differenceOf(run, call, entry, record?.request) === undefined
  const denial = isApproved ? undefined : yield* deniedBefore(run, entry.definition, shownOf(call))
  if (denial !== undefined) {
    denyAgain(run, call, denial)
    return false
  }
  if (
    isSame &&
    (isApproved || (call.grantId !== undefined && grantFor(run, entry, shownOf(call)) !== undefined))
  ) {
    return true
  }
  if (run.drive.runtime.options.interactive === false) {
    deny(run, call, unattended(entry))
    return false
  }
  const { name } = entry
  const shown = shownOf(call)
  if (!isSame) {
    const args = { arguments: call.arguments ?? shown, shown, rendering: undefined }
    classifyAgentTool(run, call, entry, call.target, args, {})
  }
  const reason = isSame
    ? sentence`${name} was let through without approval, and needs one now.`
    : sentence`The definition of ${name} has changed since.`
  yield* requestApproval(run, call, entry.definition, shown, { reason })
  return false
}

/** The verdict of the rules. The tool itself needs no approval. */
const verdictOn = (run: AgentRun, { name }: AgentToolEntry): Verdict => strictest(run, name, false)

const grantFor = (
  run: AgentRun,
  { definition }: AgentToolEntry,
  shown: DecodedArguments["shown"]
): Grant.Grant | undefined => {
  const at = now(run.drive)
  return findGrant(
    run,
    (one, reach) => Grant.isActive(one, at) && Grant.covers(one, definition, shown, reach)
  )?.grant
}

const unattended = ({ name }: AgentToolEntry): string =>
  sentence`${name} needs approval, and this run is not interactive. It was not called.`
