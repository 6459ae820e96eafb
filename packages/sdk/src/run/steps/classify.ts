/**
 * Understanding the calls of an answer: which tool, which arguments, and who has to be asked.
 *
 * What the model got wrong becomes a result that tells it so. Arguments are decoded before anybody is asked about them. A
 * judgement that cannot be made counts as "ask", and "ask" where nobody can be asked counts as "deny".
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import * as ApprovalPolicy from "../../domain/ApprovalPolicy.ts"
import { sentence } from "../../domain/Display.ts"
import * as Grant from "../../domain/Grant.ts"
import { isDeeperThan, maxGivenDepth, sameJson } from "../../domain/internal/json.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { text } from "../../domain/Message.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import { policiesAbove, policiesOf, type ToolCall } from "../../domain/RunState.ts"
import type { Safety } from "../../domain/Interruption.ts"
import type { Target } from "../../domain/ToolCall.ts"
import type { Decoder } from "../../tool/DataSchema.ts"
import type { Question } from "../../tool/Tool.ts"
import type { Delegate, Entry } from "../../agent/Entry.ts"
import { decodeArguments } from "../../agent/internal/decoding.ts"
import { approvalDigest } from "../internal/digest.ts"
import { type DecodedArguments, describeDecoded } from "../../tool/internal/decodedArguments.ts"
import { type Scope, emit, isCallOpen, nextRequestId, now, stateOf, judgingMs } from "../internal/Drive.ts"
import { findGrant } from "../internal/findGrant.ts"
import { holdsWithheld, redactJson } from "../internal/redact.ts"
import { awaitedWithin, describe } from "../../agent/internal/userCode.ts"

/** What is still to be done; nothing, where everything could be done at once. */
type Rest = Effect.Effect<void, unknown> | undefined

/** Classifies one call: emits its fate, or what has to be decided about it, at once where nobody has to be waited for. */
export const classify = (scope: Scope, call: ToolCall): Rest => {
  const entry = scope.bound.entries.get(call.name)
  if (entry === undefined) return refuseUnknown(scope, call)
  const json = parse(call.argumentsText)
  if (json === undefined) {
    return refuse(
      scope,
      call,
      `The arguments for ${call.name} are not valid JSON: they may have been cut off. Call it again with an object.`
    )
  }
  const decoded: Effect.Effect<unknown, unknown> = decodeArguments(entry, stateOf(scope).limits, json)
  return Exit.isExit(decoded)
    ? understand(scope, call, entry, json, decoded)
    : understandLater(scope, call, entry, json, decoded)
}

const understandLater = (
  scope: Scope,
  call: ToolCall,
  entry: Entry,
  json: Schema.Json,
  decoding: Effect.Effect<unknown, unknown>
): Rest =>
  Effect.flatMap(
    Effect.exit(decoding),
    (decoded) => understand(scope, call, entry, json, decoded) ?? Effect.void
  )

const refuseUnknown = (scope: Scope, call: ToolCall): undefined => {
  const names = scope.bound.definitions.map(({ name }) => name)
  return refuse(
    scope,
    call,
    names.length === 0
      ? `There is no tool "${call.name}", and no other. Answer without calling one.`
      : `There is no tool "${call.name}". The tools are: ${names.join(", ")}.`
  )
}

const refuse = (scope: Scope, call: ToolCall, message: string): undefined =>
  told(scope, { _tag: "tool.failed", at: now(scope.drive), callId: call.id, content: [text(message)] })

const told = (scope: Scope, event: Extract<RunEvent, { readonly callId: ToolCallId }>): undefined => {
  if (isCallOpen(scope, event.callId)) emit(scope, event)
}

const understand = (
  scope: Scope,
  call: ToolCall,
  entry: Entry,
  json: Schema.Json,
  decoded: Exit.Exit<unknown, unknown>
): Rest => {
  const { drive } = scope
  if (Exit.isFailure(decoded)) {
    return refuse(
      scope,
      call,
      `${call.name} does not take these arguments: ${describe(drive.runtime, Cause.squash(decoded.cause))}`
    )
  }
  const value: unknown = decoded.value
  const args = describeArguments(scope, entry, json, value)

  switch (entry.target) {
    case "agent":
    case "agents":
    case "handoff":
      return allow(scope, call, { target: entry.target, safety: "sideEffecting" }, args.arguments, {
        allowedBy: "tool"
      })
    case "delegate": {
      const target = (value as Delegate).background === true ? "background" : "agent"
      return allow(scope, call, { target, safety: "sideEffecting" }, args.arguments, { allowedBy: "tool" })
    }
    case "question":
      return drive.runtime.options.interactive === false
        ? refuse(
            scope,
            call,
            "Nobody can be asked in this run. Go on with what you know, or say what is missing."
          )
        : askQuestion(scope, call, entry, args)
    case "tool":
      return judge(scope, call, entry, { args, value })
  }
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

const allow = (
  scope: Scope,
  call: ToolCall,
  what: { readonly target: Target; readonly safety: Safety; readonly idempotent?: boolean },
  args: Schema.Json,
  allowed: Pick<
    Extract<RunEvent, { readonly _tag: "tool.classified" }>,
    "allowedBy" | "grantId" | "rendering" | "schema" | "tool" | "value"
  >
): undefined =>
  told(scope, {
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

const askQuestion = (scope: Scope, call: ToolCall, entry: ToolEntry, args: DecodedArguments): undefined => {
  classifyTool(scope, call, entry, args, {})
  if (!isCallOpen(scope, call.id)) return
  const state = stateOf(scope)
  const { question, options } = args.arguments as typeof Question.Type
  const at = now(scope.drive)
  emit(scope, {
    _tag: "request.opened",
    at,
    request: {
      _tag: "question",
      requestId: nextRequestId(scope),
      runId: state.runId,
      agentPath: state.agentPath,
      at,
      callId: call.id,
      question,
      ...(options === undefined ? {} : { options })
    }
  })
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
  const needs = needsOf(scope, entry, understood.value)
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
export const needsOf = (scope: Scope, { tool }: ToolEntry, value: unknown): Need | Effect.Effect<Need> => {
  const needs = tool.options.needsApproval ?? tool.safety !== "readOnly"
  if (typeof needs === "boolean") return { needed: needs }
  const { runId, sessionId, agentPath } = stateOf(scope)
  const asked = awaitedWithin<boolean>(scope.drive.runtime, judgingMs(scope, tool), () =>
    needs(value, { runId, sessionId, agentPath })
  )
  return Effect.map(Effect.exit(asked), (answer) =>
    Exit.isSuccess(answer)
      ? { needed: answer.value !== false }
      : { needed: true, reason: `The approval rule of ${tool.name} failed, so it is asked about.` }
  )
}

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
  told(scope, { _tag: "tool.denied", at: now(scope.drive), callId: call.id, content: [text(message)] })

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
      : yield* Effect.option(
          awaitedWithin<unknown>(drive.runtime, judgingMs(scope, tool), () => preview(value))
        )
  const risky =
    typeof risk === "function"
      ? yield* Effect.option(awaitedWithin<unknown>(drive.runtime, judgingMs(scope, tool), () => risk(value)))
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
