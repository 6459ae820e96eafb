/**
 * Whether a call may run as it is, or somebody is asked: by its tool, by the policies that bind its agent, and by grants.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import { isAgent } from "../../agent/BoundAgent.ts"
import type { BoundAgent, Entry } from "../../agent/Entry.ts"
import { starterOf } from "../../agent/internal/definitions.ts"
import { describe } from "../../agent/internal/userCode.ts"
import * as ApprovalPolicy from "../../domain/ApprovalPolicy.ts"
import { sentence } from "../../domain/Display.ts"
import * as Grant from "../../domain/Grant.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { isDeeperThan, maxGivenDepth, sameJson } from "../../domain/internal/json.ts"
import { text } from "../../domain/Message.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import { type ToolCall, policiesAbove, policiesOf } from "../../domain/RunState.ts"
import type { Target } from "../../domain/ToolCall.ts"
import type { Decoder } from "../../tool/DataSchema.ts"
import { type DecodedArguments, describeDecoded } from "../../tool/internal/decodedArguments.ts"
import { isStopped, isCallOpen, stateOf, type AgentRun } from "./AgentRun.ts"
import { emit, now } from "./Drive.ts"
import { openApproval } from "./openRequest.ts"
import { redactJson, holdsWithheld } from "./redact.ts"
import { askTool, failCall, type ToolEntry } from "./userCalls.ts"

/** What is left to do; nothing, where it is done. */
export type Rest = Effect.Effect<void, unknown> | undefined

/** Folds an event of a call, unless a decision has settled it meanwhile. */
export const emitIfOpen = (
  run: AgentRun,
  event: Extract<RunEvent, { readonly callId: ToolCallId }>
): undefined => {
  if (isCallOpen(run, event.callId)) emit(run, event)
}

/** What the schema made of the arguments, without secrets: what is shown, and its digest, are of what is written. */
export const describeArguments = (
  run: AgentRun,
  { decoder }: Pick<Entry, "decoder">,
  json: Schema.Json,
  value: unknown
): DecodedArguments => {
  const { scrubber } = run.drive.runtime
  const described = describeDecoded(decoder as Decoder<unknown>, json, value)
  const clean = (json: Schema.Json): Schema.Json => {
    const redacted = redactJson(scrubber, json)
    if (redacted !== json && holdsWithheld(redacted))
      throw new TypeError("the scrubber failed on its arguments")
    return redacted
  }
  const args = clean(described.arguments)
  return {
    arguments: args,
    shown: sameJson(described.shown, described.arguments) ? args : clean(described.shown),
    rendering: described.rendering === undefined ? undefined : clean(described.rendering)
  }
}

/** An empty text is no arguments; anything that is not JSON, or is too deep, is `undefined`. */
export const parse = (argumentsText: string): Schema.Json | undefined => {
  if (argumentsText.trim() === "") return {}
  try {
    const json = JSON.parse(argumentsText) as Schema.Json
    // What could not be read back from the journal is refused before it gets there. Every level takes a character at least.
    return argumentsText.length > maxGivenDepth && isDeeperThan(json, maxGivenDepth) ? undefined : json
  } catch {
    return undefined
  }
}

/** Records that a call without a tool of its own may run: of a sub-agent, or of what the SDK itself does. */
export const allow = (run: AgentRun, call: ToolCall, target: Target, args: Schema.Json): undefined =>
  emitIfOpen(run, {
    _tag: "tool.classified",
    at: now(run.drive),
    callId: call.id,
    target,
    safety: "sideEffecting",
    idempotent: false,
    arguments: args,
    allowedBy: "tool"
  })

/** Records what the call of a tool is: its definition, and the arguments that its body gets. */
export const classifyTool = (
  run: AgentRun,
  call: ToolCall,
  { definition, target, tool }: ToolEntry,
  args: DecodedArguments,
  { allowedBy, grantId }: { readonly allowedBy?: string; readonly grantId?: Grant.Grant["id"] }
): undefined => {
  // Judged with what the tool's own rule says now: not asked again before the body unless the run has waited meanwhile.
  if (allowedBy !== undefined && typeof tool.options.needsApproval === "function")
    (run.drive.justAllowed ??= new Set()).add(call.id)
  const event: Mutable<Extract<RunEvent, { readonly _tag: "tool.classified" }>> = {
    _tag: "tool.classified",
    at: now(run.drive),
    callId: call.id,
    target,
    safety: definition.safety,
    idempotent: tool.idempotent,
    arguments: args.arguments
  }
  if (!sameJson(args.shown, args.arguments)) event.value = args.shown
  if (args.rendering !== undefined) event.rendering = args.rendering
  if (tool.name !== call.name) event.tool = tool.name
  event.schema = definition.schema
  if (allowedBy !== undefined) event.allowedBy = allowedBy
  if (grantId !== undefined) event.grantId = grantId
  return emitIfOpen(run, event)
}

type Mutable<A> = { -readonly [Key in keyof A]: A[Key] }

/** The arguments of a call: as they are recorded, and as the tool's own functions get them. */
export interface Understood {
  readonly args: DecodedArguments
  readonly value: unknown
}

/** Decides what happens to a call: it may run, is denied, or is asked about. `reason` says why a call is judged again. */
export const judge = (
  run: AgentRun,
  call: ToolCall,
  entry: ToolEntry,
  understood: Understood,
  reason?: string
): Rest => {
  const needs = needsOf(run, call, entry, understood.value)
  if (!Effect.isEffect(needs)) return judged(run, call, entry, understood, needs.needed, reason)
  return Effect.flatMap(
    needs,
    (need) => judged(run, call, entry, understood, need.needed, reason ?? need.reason) ?? Effect.void
  )
}

/** Whether the tool says that a call needs approval, and why, where that is not plain. */
export interface Need {
  readonly needed: boolean
  readonly reason?: string
}

/** What the tool's own rule says about a call. A rule that fails asks. */
export const needsOf = (
  run: AgentRun,
  call: ToolCall,
  { tool }: ToolEntry,
  value: unknown
): Need | Effect.Effect<Need> => {
  const needs = tool.options.needsApproval ?? tool.safety !== "readOnly"
  if (typeof needs === "boolean") return { needed: needs }
  const { runId, sessionId, agentPath } = stateOf(run)
  const asked = askTool(run, call, tool, "needsApproval", () => needs(value, { runId, sessionId, agentPath }))
  return Effect.map(Effect.exit(asked), (answer) =>
    Exit.isSuccess(answer)
      ? { needed: answer.value !== false }
      : { needed: true, reason: `The approval rule of ${tool.name} failed, so it is asked about.` }
  )
}

const judged = (
  run: AgentRun,
  call: ToolCall,
  entry: ToolEntry,
  { args, value }: Understood,
  needed: boolean,
  reason: string | undefined
): Rest => {
  const { drive } = run
  const { tool } = entry
  const verdict = strictest(run, tool.name, needed)
  if (verdict._tag === "run") return classifyTool(run, call, entry, args, { allowedBy: verdict.by })
  if (verdict._tag === "deny") return deny(run, call, verdict.message)

  const at = now(drive)
  const grant =
    tool.safety === "privileged"
      ? undefined
      : findGrant(
          run,
          (one, reach) => Grant.isActive(one, at) && Grant.covers(one, entry.definition, args.shown, reach)
        )?.grant
  if (grant !== undefined) {
    return classifyTool(run, call, entry, args, {
      allowedBy: sentence`grant of ${grant.by}`,
      grantId: grant.id
    })
  }
  if (drive.runtime.options.interactive === false) {
    return deny(
      run,
      call,
      `${tool.name} needs approval, and nobody can be asked in this run. It has not run.`
    )
  }
  classifyTool(run, call, entry, args, {})
  return openApproval(run, call, entry, args.shown, value, reason)
}

export const deny = (run: AgentRun, call: ToolCall, message: string): undefined =>
  emitIfOpen(run, { _tag: "tool.denied", at: now(run.drive), callId: call.id, content: [text(message)] })

/** A sub-agent may never do more than its parents: the strictest policy of the path counts. */
export const strictest = (run: AgentRun, tool: string, needed: boolean): ApprovalPolicy.Verdict => {
  const at = now(run.drive)
  let verdict = ApprovalPolicy.judgeAll(policiesOf(stateOf(run)), tool, needed, at)
  for (let below = run; below.parent !== undefined; below = below.parent) {
    const policies = policiesAbove(stateOf(below.parent), below.path.at(-1)!)
    verdict = ApprovalPolicy.stricter(verdict, ApprovalPolicy.judgeAll(policies, tool, needed, at))
  }
  return verdict
}

/** Judges a call with user code: what the definition of the tool throws fails this call alone. */
export const guarded = (
  run: AgentRun,
  call: ToolCall,
  judge: () => Effect.Effect<void, unknown> | undefined
): Effect.Effect<void> | undefined => {
  try {
    const rest = judge()
    return rest === undefined ? undefined : ending(run, call, rest)
  } catch (defect) {
    return void failJudged(run, call, Cause.die(defect))
  }
}

const ending = (run: AgentRun, call: ToolCall, rest: Effect.Effect<void, unknown>) =>
  Effect.map(Effect.exit(rest), (exit) => {
    if (Exit.isFailure(exit) && !isStopped(run, exit.cause)) failJudged(run, call, exit.cause)
  })

/** A call that cannot be judged is over, or it would be judged for ever. */
export const failJudged = (run: AgentRun, call: ToolCall, cause: Cause.Cause<unknown>): undefined => {
  const why = describe(run.drive.runtime, Cause.squash(cause))
  failCall(run, call, "definition", cause, `${call.name} could not be prepared, and has not run: ${why}`)
}

/** How a grant reaches a call: it was given in the call's own run, or in one above. */
type Reach = "own" | "inherited"

/**
 * The first grant that is meant: of the call's own run, or, inherited, of the runs above it. A grant that is inherited was given to one
 * agent, and reaches the sub-agents that this agent started, whichever agent has the conversation now.
 */
export const findGrant = (
  run: AgentRun,
  isMeant: (grant: Grant.Grant, reach: Reach) => boolean
): { readonly grant: Grant.Grant; readonly reach: Reach } | undefined => {
  for (const grant of stateOf(run).grants) {
    if (isMeant(grant, "own")) return { grant, reach: "own" }
  }
  for (let below = run; below.parent !== undefined; below = below.parent) {
    const { first } = below.parent
    const starter = first === undefined ? undefined : starterOf(first, stateOf(below))
    for (const grant of stateOf(below.parent).grants) {
      if (grant.inherit && isGivenTo(grant, starter) && isMeant(grant, "inherited")) {
        return { grant, reach: "inherited" }
      }
    }
  }
  return undefined
}

/** Whether a grant was given to an agent, by a name that it has or had. */
const isGivenTo = ({ agent, agentPeers }: Grant.Grant, starter: BoundAgent | undefined): boolean =>
  agent === undefined || (starter !== undefined && isAgent(starter.agent, agent, agentPeers))
