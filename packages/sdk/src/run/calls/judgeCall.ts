/**
 * Judges a call by its tool, the policies of its run and of the runs above it, the untrusted results that they have read, earlier denials of
 * equal calls, and grants: the call may run, is denied, needs approval, or fails because its facts cannot be read.
 */
import * as Cause from "effect/Cause"
import type * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import { describe } from "../../agent/internal/userCode.ts"
import * as ApprovalPolicy from "../../domain/ApprovalPolicy.ts"
import { sentence } from "../../domain/Display.ts"
import * as Grant from "../../domain/Grant.ts"
import { hasDenial } from "../../domain/internal/denials.ts"
import { type ToolCall, policiesAbove, policiesOf } from "../../domain/RunState.ts"
import type { UntrustedResult } from "../../domain/Untrusted.ts"
import type { DecodedArguments } from "../../tool/internal/decodedArguments.ts"
import type { AnyTool } from "../../tool/Tool.ts"
import { stateOf, type AgentRun } from "../internal/AgentRun.ts"
import { now } from "../internal/Drive.ts"
import { askNeed, type Need, permitsOf, untrustedFor, untrustedText } from "./approvalNeed.ts"
import { deniedBefore, denyAgain } from "./deniedBefore.ts"
import { failUnread, noFacts, readFacts } from "./facts.ts"
import { findGrant } from "./findGrant.ts"
import { openApproval, openInDoubt } from "./openRequest.ts"
import { classifyTool, deny } from "./recordClassification.ts"
import { failCall, type ToolEntry } from "./userCalls.ts"

/** The arguments of a call: as they are recorded, and as the tool's callbacks receive them. */
export interface Understood {
  readonly args: DecodedArguments
  readonly value: unknown
}

/**
 * Judges a call: allows it, denies it, opens an approval request, or fails it if its facts cannot be read. A call that equals one whose
 * denial stands is denied, even if a policy or a grant allows it. In a run that is not interactive, a call that needs approval is denied.
 * `reason` states why a call is judged again.
 */
export function* judgeCall(
  run: AgentRun,
  call: ToolCall,
  entry: ToolEntry,
  { args, value }: Understood,
  reason?: string
): Effect.fn.Return<void> {
  const { drive } = run
  const { tool } = entry
  const need = yield* askNeed(run, call, tool, value)
  if (need === undefined) return
  const untrusted = untrustedFor(run, tool)
  const verdict = strictest(run, tool.name, need.needed, permitsOf(need, untrusted))
  if (verdict._tag === "deny") return deny(run, call, verdict.message)
  // An allowed call shows no one its facts; they only tell whether an equal call was denied.
  const isShown = verdict._tag !== "run" || hasDenial(drive.state, tool.name)
  const read = isShown ? yield* readFacts(run, call, tool, value) : noFacts
  if (read === undefined) return
  if (Exit.isFailure(read)) return failUnread(run, call, tool, read.cause)
  const facts = read.value
  const denial = yield* deniedBefore(run, entry.definition, args.shown, facts)
  if (denial !== undefined) return denyAgain(run, call, denial)
  if (verdict._tag === "run") return classifyTool(run, call, entry, args, { allowedBy: verdict.by })

  const found = grantFor(run, entry, args.shown, facts, need)
  if (found !== undefined && Grant.coversUntrusted(found, untrusted)) {
    const { by, id } = found
    return classifyTool(run, call, entry, args, { allowedBy: sentence`grant of ${by}`, grantId: id })
  }
  const why = reasonOf([reason, need.reason, liftedReason(run, tool, need, untrusted, found)])
  if (drive.runtime.options.interactive === false) {
    const message = `${tool.name} needs approval, and this run is not interactive. It has not run.`
    return deny(run, call, why === undefined ? message : `${message} ${why}`)
  }
  classifyTool(run, call, entry, args, {})
  yield* openApproval(run, call, entry, args.shown, Exit.succeed(value), {
    reason: why,
    always: need.always,
    untrusted,
    facts: read
  })
}

/**
 * A grant that covers a call, preferably one that covers it after any untrusted results. `undefined` if there is none, for a privileged
 * tool, and for a call that is always asked about.
 */
export const grantFor = (
  run: AgentRun,
  { definition, tool }: ToolEntry,
  shown: Schema.Json,
  facts: Schema.Json | undefined,
  need: Need
): Grant.Grant | undefined => {
  if (tool.safety === "privileged" || need.isAlways) return undefined
  const at = now(run.drive)
  const untrusted = untrustedFor(run, tool)
  const fits = (one: Grant.Grant, reach: "own" | "inherited") =>
    Grant.isActive(one, at) && Grant.covers(one, definition, shown, reach) && Grant.coversFacts(one, facts)
  const best = findGrant(run, (one, reach) => fits(one, reach) && Grant.coversUntrusted(one, untrusted))
  return (best ?? (untrusted.length === 0 ? undefined : findGrant(run, fits)))?.grant
}

/** Why a call is asked about that a policy or a grant would permit, if the run had read no untrusted results. */
export const liftedReason = (
  run: AgentRun,
  { name }: AnyTool,
  need: Need,
  untrusted: ReadonlyArray<UntrustedResult>,
  grant: Grant.Grant | undefined
): string | undefined =>
  untrusted.length > 0 &&
  !need.isAlways &&
  (grant !== undefined || strictest(run, name, need.needed)._tag === "run")
    ? untrustedText(untrusted)
    : undefined

const reasonOf = (reasons: ReadonlyArray<string | undefined>): string | undefined => {
  const given = reasons.filter((reason) => reason !== undefined)
  return given.length === 0 ? undefined : [...new Set(given)].join(" ")
}

/** The strictest verdict of the policies of the run and the runs above it: a sub-agent may do no more than its parents. */
export const strictest = (
  run: AgentRun,
  tool: string,
  needed: boolean,
  permits: ApprovalPolicy.Permits = "any"
): ApprovalPolicy.Verdict => {
  const at = now(run.drive)
  let verdict = ApprovalPolicy.judgeAll(policiesOf(stateOf(run)), tool, needed, at, permits)
  for (let below = run; below.parent !== undefined; below = below.parent) {
    const policies = policiesAbove(stateOf(below.parent), below.path.at(-1)!)
    verdict = ApprovalPolicy.stricter(verdict, ApprovalPolicy.judgeAll(policies, tool, needed, at, permits))
  }
  return verdict
}

/**
 * Runs a part of a step that judges a call. If it throws, for example in a tool's definition, the call fails, since it would be judged
 * again forever otherwise. For a call that may have run, an `inDoubt` request is opened.
 */
export function* guarded<A>(
  run: AgentRun,
  call: ToolCall,
  judging: Effect.fn.Return<A>,
  mayHaveRun = false
): Effect.fn.Return<A | undefined> {
  try {
    return yield* judging
  } catch (defect) {
    if (mayHaveRun) return openInDoubt(run, call, sentence`${call.name} could not be judged again.`)
    const why = describe(run.drive.runtime, defect)
    failCall(
      run,
      call,
      "definition",
      Cause.die(defect),
      `${call.name} could not be prepared, and has not run: ${why}`
    )
    return undefined
  }
}
