/**
 * Records the classification of a call: its tool, its arguments without secrets, and what allowed it.
 */
import type * as Schema from "effect/Schema"
import type { AgentToolEntry, Entry } from "../../agent/Entry.ts"
import type { GrantId, ToolCallId } from "../../domain/Id.ts"
import { isDeeperThan, maxGivenDepth, sameJson } from "../../domain/internal/json.ts"
import { text } from "../../domain/Message.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import type { Target } from "../../domain/ToolCall.ts"
import type { Decoder } from "../../tool/DataSchema.ts"
import { type DecodedArguments, describeDecoded } from "../../tool/internal/decodedArguments.ts"
import { isCallOpen, type AgentRun } from "../internal/AgentRun.ts"
import { emit, now } from "../internal/Drive.ts"
import { redactJson, holdsWithheld } from "../internal/redact.ts"
import type { ToolEntry } from "./userCalls.ts"

/** Parses the arguments of a call. Blank text is `{}`. Returns `undefined` for text that is not JSON or is nested too deeply. */
export const parse = (argumentsText: string): Schema.Json | undefined => {
  if (argumentsText.trim() === "") return {}
  try {
    const json = JSON.parse(argumentsText) as Schema.Json
    // Refuses JSON that could not be read back from the journal. Each level takes at least one character, so short texts pass unchecked.
    return argumentsText.length > maxGivenDepth && isDeeperThan(json, maxGivenDepth) ? undefined : json
  } catch {
    return undefined
  }
}

/**
 * The decoded arguments as they are recorded and shown, without secrets. Requests and digests use the redacted arguments. Throws if the
 * scrubber failed.
 */
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

/** Folds an event of a call, unless a decision has settled the call meanwhile. */
export const emitIfOpen = (
  run: AgentRun,
  event: Extract<RunEvent, { readonly callId: ToolCallId }>
): undefined => {
  if (isCallOpen(run, event.callId)) emit(run, event)
}

/** Records that a call of a sub-agent, or of a function of the SDK such as a handoff, may run. */
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

/** Records the classification of an agent tool's call under a policy that asks about it. */
export const classifyAgentTool = (
  run: AgentRun,
  call: ToolCall,
  { definition, name }: AgentToolEntry,
  target: Target,
  args: DecodedArguments,
  authority: { readonly allowedBy?: string; readonly grantId?: GrantId }
): undefined =>
  emitIfOpen(run, {
    _tag: "tool.classified",
    at: now(run.drive),
    callId: call.id,
    target,
    safety: definition.safety,
    idempotent: false,
    arguments: args.arguments,
    schema: definition.schema,
    ...(name === call.name ? {} : { tool: name }),
    ...authority
  })

/**
 * Records the classification of a tool's call: the tool's definition and the arguments of the body. Arguments that are unfit are recorded
 * without a schema, so that they are decoded before a body receives them.
 */
export const classifyTool = (
  run: AgentRun,
  call: ToolCall,
  { definition, target, tool }: ToolEntry,
  args: DecodedArguments,
  {
    allowedBy,
    grantId,
    isUnfit
  }: { readonly allowedBy?: string; readonly grantId?: GrantId; readonly isUnfit?: boolean }
): undefined => {
  // The tool's rule has just been asked. It is asked again before the body only if the run waits meanwhile.
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
  if (isUnfit !== true) event.schema = definition.schema
  if (allowedBy !== undefined) event.allowedBy = allowedBy
  if (grantId !== undefined) event.grantId = grantId
  return emitIfOpen(run, event)
}

type Mutable<A> = { -readonly [Key in keyof A]: A[Key] }

/** Records that a call may not run. The model reads the message. */
export const deny = (run: AgentRun, call: ToolCall, message: string): undefined =>
  emitIfOpen(run, { _tag: "tool.denied", at: now(run.drive), callId: call.id, content: [text(message)] })
