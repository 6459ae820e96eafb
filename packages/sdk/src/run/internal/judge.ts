import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
/**
 * Whether a call may run as it is, or somebody is asked: by its tool, by the policies that bind its agent, and by grants.
 */
import type { Entry } from "../../agent/Entry.ts"
import { call as callUserCode, describe } from "../../agent/internal/userCode.ts"
import * as ApprovalPolicy from "../../domain/ApprovalPolicy.ts"
import { sentence } from "../../domain/Display.ts"
import * as Grant from "../../domain/Grant.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { isDeeperThan, maxGivenDepth, sameJson } from "../../domain/internal/json.ts"
import type { Safety } from "../../domain/Interruption.ts"
import { text } from "../../domain/Message.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import { policiesAbove, policiesOf } from "../../domain/RunState.ts"
import type { Target } from "../../domain/ToolCall.ts"
import type { Decoder } from "../../tool/DataSchema.ts"
import { type DecodedArguments, describeDecoded } from "../../tool/internal/decodedArguments.ts"
import type { AnyTool } from "../../tool/Tool.ts"
import type { Awaitable } from "../../tool/ToolOptions.ts"
import { calledOf } from "./calledOf.ts"
import { approvalDigest } from "./digest.ts"
import { type Scope, isCallOpen, emit, now, stateOf, judgingMs, nextRequestId, isStopped } from "./Drive.ts"
import { failCall } from "./failCall.ts"
import { findGrant } from "./findGrant.ts"
import { redactJson, holdsWithheld } from "./redact.ts"

/** What is left to do; nothing, where it is done. */
export type Rest = Effect.Effect<void, unknown> | undefined

/** Folds an event of a call, unless a decision has settled it meanwhile. */
export const emitIfOpen = (
  scope: Scope,
  event: Extract<RunEvent, { readonly callId: ToolCallId }>
): undefined => {
  if (isCallOpen(scope, event.callId)) emit(scope, event)
}

/** What the schema made of the arguments, without secrets: what is shown, and its digest, are of what is written. */
export const describeArguments = (
  scope: Scope,
  { decoder }: Pick<Entry, "decoder">,
  json: Schema.Json,
  value: unknown
): DecodedArguments => {
  const { scrubber } = scope.drive.runtime
  const described = describeDecoded(decoder as Decoder<unknown>, json, value)
  const clean = (json: Schema.Json): Schema.Json => {
    const redacted = redactJson(scrubber, json)
    if (redacted !== json && holdsWithheld(redacted))
      throw new TypeError("the scrubber failed on its arguments")
    return redacted
  }
  return {
    arguments: clean(described.arguments),
    shown: clean(described.shown),
    rendering: described.rendering === undefined ? undefined : clean(described.rendering)
  }
}

/** An empty text is no arguments; anything that is not JSON, or is too deep, is `undefined`. */
export const parse = (argumentsText: string): Schema.Json | undefined => {
  if (argumentsText.trim() === "") return {}
  try {
    const json = JSON.parse(argumentsText) as Schema.Json
    // What could not be read back from the journal is refused before it gets there.
    return isDeeperThan(json, maxGivenDepth) ? undefined : json
  } catch {
    return undefined
  }
}
export const allow = (
  scope: Scope,
  call: ToolCall,
  what: { readonly target: Target; readonly safety: Safety; readonly idempotent?: boolean },
  args: Schema.Json,
  allowed: Pick<
    Extract<RunEvent, { readonly _tag: "tool.classified" }>,
    "allowedBy" | "grantId" | "rendering" | "schema" | "tool" | "value"
  >
): undefined =>
  emitIfOpen(scope, {
    _tag: "tool.classified",
    at: now(scope.drive),
    callId: call.id,
    target: what.target,
    safety: what.safety,
    idempotent: what.idempotent ?? false,
    arguments: args,
    ...allowed
  })

/** Records what the call of a tool is: its definition, and the arguments that its body gets. */
export const classifyTool = (
  scope: Scope,
  call: ToolCall,
  { definition, target, tool }: ToolEntry,
  args: DecodedArguments,
  allowed: { readonly allowedBy?: string; readonly grantId?: Grant.Grant["id"] }
): undefined => {
  const { rendering } = args
  // Judged with what the tool's own rule says now: not asked again before the body unless the run has waited meanwhile.
  if (allowed.allowedBy !== undefined) (scope.drive.fresh ??= new Set()).add(call.id)
  return allow(
    scope,
    call,
    { target, safety: definition.safety, idempotent: tool.idempotent },
    args.arguments,
    {
      ...(sameJson(args.shown, args.arguments) ? {} : { value: args.shown }),
      ...(rendering === undefined ? {} : { rendering }),
      ...(tool.name === call.name ? {} : { tool: tool.name }),
      schema: definition.schema,
      ...allowed
    }
  )
}
export type ToolEntry = Extract<Entry, { readonly target: "tool" | "question" }>

/** The arguments of a call: as they are recorded, and as the tool's own functions get them. */
export interface Understood {
  readonly args: DecodedArguments
  readonly value: unknown
}

/** Decides what happens to a call: it may run, is denied, or is asked about. `reason` says why a call is judged again. */
export const judge = (
  scope: Scope,
  call: ToolCall,
  entry: ToolEntry,
  understood: Understood,
  reason?: string
): Rest => {
  const needs = needsOf(scope, call, entry, understood.value)
  if (!Effect.isEffect(needs)) return judged(scope, call, entry, understood, { ...needs, ...because(reason) })
  return Effect.flatMap(
    needs,
    (need) =>
      judged(scope, call, entry, understood, { ...need, ...because(reason ?? need.reason) }) ?? Effect.void
  )
}
const because = (reason: string | undefined) => (reason === undefined ? {} : { reason })

/** Whether the tool says that a call needs approval, and why, where that is not plain. */
export interface Need {
  readonly needed: boolean
  readonly reason?: string
}

/** What the tool's own rule says about a call. A rule that fails asks. */
export const needsOf = (
  scope: Scope,
  call: ToolCall,
  { tool }: ToolEntry,
  value: unknown
): Need | Effect.Effect<Need> => {
  const needs = tool.options.needsApproval ?? tool.safety !== "readOnly"
  if (typeof needs === "boolean") return { needed: needs }
  const { runId, sessionId, agentPath } = stateOf(scope)
  const asked = askTool(scope, call, tool, "needsApproval", () =>
    needs(value, { runId, sessionId, agentPath })
  )
  return Effect.map(Effect.exit(asked), (answer) =>
    Exit.isSuccess(answer)
      ? { needed: answer.value !== false }
      : { needed: true, reason: `The approval rule of ${tool.name} failed, so it is asked about.` }
  )
}

/** Asks a tool's own code about a call: it may take as long as the call may. */
export const askTool = <A>(
  scope: Scope,
  call: ToolCall,
  tool: AnyTool,
  code: "needsApproval" | "risk" | "preview" | "reconcile",
  ask: () => Awaitable<A, unknown>
): Effect.Effect<A, unknown> =>
  callUserCode(scope.drive.runtime, calledOf(scope, code, call, tool), ask, judgingMs(scope, tool))

const judged = (
  scope: Scope,
  call: ToolCall,
  entry: ToolEntry,
  { args, value }: Understood,
  needs: Need
): Rest => {
  const { drive } = scope
  const { tool } = entry
  const verdict = strictest(scope, tool.name, needs.needed)
  if (verdict._tag === "run") return classifyTool(scope, call, entry, args, { allowedBy: verdict.by })
  if (verdict._tag === "deny") return deny(scope, call, verdict.message)

  const at = now(drive)
  const grant =
    tool.safety === "privileged"
      ? undefined
      : findGrant(
          scope,
          (one, reach) => Grant.isActive(one, at) && Grant.covers(one, entry.definition, args.shown, reach)
        )?.grant
  if (grant !== undefined) {
    return classifyTool(scope, call, entry, args, {
      allowedBy: sentence`grant of ${grant.by}`,
      grantId: grant.id
    })
  }
  if (drive.runtime.options.interactive === false) {
    return deny(
      scope,
      call,
      `${tool.name} needs approval, and nobody can be asked in this run. It has not run.`
    )
  }
  classifyTool(scope, call, entry, args, {})
  return openApproval(scope, call, entry, args.shown, value, needs.reason)
}
export const deny = (scope: Scope, call: ToolCall, message: string): undefined =>
  emitIfOpen(scope, { _tag: "tool.denied", at: now(scope.drive), callId: call.id, content: [text(message)] })

/** A sub-agent may never do more than its parents: the strictest policy of the path counts. */
export const strictest = (scope: Scope, tool: string, needed: boolean): ApprovalPolicy.Verdict => {
  const at = now(scope.drive)
  let verdict = ApprovalPolicy.judgeAll(policiesOf(stateOf(scope)), tool, needed, at)
  for (let below = scope; below.parent !== undefined; below = below.parent) {
    const policies = policiesAbove(stateOf(below.parent), below.path.at(-1)!)
    verdict = ApprovalPolicy.stricter(verdict, ApprovalPolicy.judgeAll(policies, tool, needed, at))
  }
  return verdict
}

/** When a request that is asked now expires; never, for a time that no calendar has. */
const expiryOf = (at: number, expiresIn: Duration.Input | undefined): number | undefined => {
  if (expiresIn === undefined) return undefined
  const expiresAt = at + Duration.toMillis(Duration.fromInputUnsafe(expiresIn))
  return expiresAt <= lastDate ? Math.ceil(expiresAt) : undefined
}
const lastDate = 8.64e15

/** Asks whether the call may run. `reason` says why it is asked when that is not plain. */
export const openApproval = Effect.fnUntraced(function* (
  scope: Scope,
  call: ToolCall,
  { definition, tool }: ToolEntry,
  args: Schema.Json,
  value: unknown,
  reason: string | undefined
) {
  const { drive } = scope
  const { approval, preview, risk } = tool.options
  const shown =
    preview === undefined
      ? undefined
      : yield* Effect.option(askTool<unknown>(scope, call, tool, "preview", () => preview(value)))
  const risky =
    typeof risk === "function"
      ? yield* Effect.option(askTool<unknown>(scope, call, tool, "risk", () => risk(value)))
      : undefined
  const state = stateOf(scope)
  const identity = {
    agentPath: state.agentPath,
    tool: tool.name,
    schema: definition.schema,
    safety: definition.safety
  }
  const digest = yield* approvalDigest(identity, args)
  if (!isCallOpen(scope, call.id)) return
  const at = now(drive)
  const { scrub } = drive.runtime.scrubber
  const said: unknown = risky === undefined ? risk : risky._tag === "Some" ? risky.value : undefined
  const expiresAt = expiryOf(at, approval?.expiresIn)
  const riskText = typeof said === "string" ? said : undefined
  emit(scope, {
    _tag: "request.opened",
    at,
    request: {
      _tag: "approval",
      requestId: nextRequestId(scope),
      runId: state.runId,
      ...identity,
      at,
      callId: call.id,
      arguments: args,
      digest,
      ...(expiresAt === undefined ? {} : { expiresAt, onExpiry: approval?.onExpiry ?? "deny" }),
      ...(riskText === undefined ? {} : { risk: riskText }),
      ...(shown?._tag === "Some" && typeof shown.value === "string" ? { preview: scrub(shown.value) } : {}),
      ...(reason === undefined ? {} : { reason })
    }
  })
})

/** Judges a call with user code: what the definition of the tool throws fails this call alone. */
export const guarded = (
  scope: Scope,
  call: ToolCall,
  judge: () => Effect.Effect<void, unknown> | undefined
): Effect.Effect<void> | undefined => {
  try {
    const rest = judge()
    return rest === undefined ? undefined : ending(scope, call, rest)
  } catch (defect) {
    return void failed(scope, call, Cause.die(defect))
  }
}
const ending = (scope: Scope, call: ToolCall, rest: Effect.Effect<void, unknown>) =>
  Effect.map(Effect.exit(rest), (exit) => {
    if (Exit.isFailure(exit) && !isStopped(scope, exit.cause)) failed(scope, call, exit.cause)
  })

/** The definition of the tool is at fault. The call is over, or it would be classified for ever. */
const failed = (scope: Scope, call: ToolCall, cause: Cause.Cause<unknown>): void => {
  const why = describe(scope.drive.runtime, Cause.squash(cause))
  failCall(scope, call, "definition", cause, `${call.name} could not be prepared, and has not run: ${why}`)
}
