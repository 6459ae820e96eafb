/**
 * Opens the requests about calls: `approval`, whether a call may run, and `inDoubt`, what the outcome of a call is that may have run.
 */
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import type { BoundAgent } from "../../agent/Entry.ts"
import { defined } from "../../domain/internal/defined.ts"
import type { MayRepeat, ToolCall } from "../../domain/RunState.ts"
import type { ToolIdentity } from "../../domain/ToolIdentity.ts"
import type { UntrustedResult } from "../../domain/Untrusted.ts"
import { counted } from "../../tool/internal/scrub/redactions.ts"
import type { AnyTool } from "../../tool/Tool.ts"
import { type AgentRun, stateOf, isCallOpen, nextRequestId } from "../internal/AgentRun.ts"
import { now, emit } from "../internal/Drive.ts"
import { callbackContext } from "../internal/runContext.ts"
import { untrustedFor } from "./approvalNeed.ts"
import { deniedBefore, denyAgain } from "./deniedBefore.ts"
import { approvalDigest } from "./digest.ts"
import { type Facts, failUnread, noFacts, readFacts } from "./facts.ts"
import { idempotencyKey } from "./idempotencyKey.ts"
import { askTool, type ToolEntry } from "./userCalls.ts"

/** The expiry of a request that is opened at `at`; `undefined` if there is none or it exceeds the range of `Date`. */
const expiryOf = (at: number, expiresIn: Duration.Input | undefined): number | undefined => {
  if (expiresIn === undefined) return undefined
  const expiresAt = at + Duration.toMillis(Duration.fromInputUnsafe(expiresIn))
  return expiresAt <= lastDate ? Math.ceil(expiresAt) : undefined
}

const lastDate = 8.64e15

/** The time at which a request with a lead time of its own is announced to expire. */
const warningOf = (
  expiresAt: number | undefined,
  warnBefore: Duration.Input | undefined
): { readonly warnAt?: number } =>
  expiresAt === undefined || warnBefore === undefined
    ? {}
    : { warnAt: expiresAt - Math.ceil(Duration.toMillis(Duration.fromInputUnsafe(warnBefore))) }

/** The reasons and the data of an approval request. */
interface Asked {
  /** The reason, if it is unusual. */
  readonly reason: string | undefined
  /** The tool's reason why each such call needs a decision. */
  readonly always?: string | undefined
  /** The untrusted results to list. Default: those that the run has read. */
  readonly untrusted?: ReadonlyArray<UntrustedResult>
  /** The facts, if they have been read. */
  readonly facts?: Facts
}

/**
 * Opens an `approval` request, with the tool's facts, risk and preview; without what they compute if the arguments did not decode.
 */
export function* openApproval(
  run: AgentRun,
  call: ToolCall,
  { definition, tool }: ToolEntry,
  args: Schema.Json,
  decoded: Exit.Exit<unknown, unknown>,
  { always, facts, reason, untrusted = untrustedFor(run, tool) }: Asked
): Effect.fn.Return<void> {
  const { drive } = run
  const read = facts ?? (Exit.isFailure(decoded) ? noFacts : yield* readFacts(run, call, tool, decoded.value))
  if (read === undefined) return
  if (Exit.isFailure(read)) return failUnread(run, call, tool, read.cause)
  const { approval, preview, risk } = tool.options
  const shown =
    preview === undefined || Exit.isFailure(decoded)
      ? Exit.void
      : yield* askTool(run, call, tool, "preview", () => preview(decoded.value, callbackContext(run, tool)))
  const said =
    typeof risk !== "function"
      ? Exit.succeed(risk)
      : Exit.isFailure(decoded)
        ? Exit.void
        : yield* askTool(run, call, tool, "risk", () => risk(decoded.value, callbackContext(run, tool)))
  if (shown === undefined || said === undefined) return
  const previewText = textOf(shown)
  yield* requestApproval(run, call, definition, args, {
    approval,
    facts: read.value,
    risk: textOf(said),
    preview:
      previewText === undefined ? undefined : counted(previewText, drive.runtime.scrubber.scrub(previewText)),
    always: always === undefined ? undefined : counted(always, drive.runtime.scrubber.scrub(always)),
    untrusted,
    reason
  })
}

/** What an `approval` request says besides the call. */
interface Described {
  readonly approval?: AnyTool["options"]["approval"]
  readonly facts?: Schema.Json | undefined
  readonly risk?: string | undefined
  readonly preview?: string | undefined
  readonly always?: string | undefined
  readonly untrusted?: ReadonlyArray<UntrustedResult>
  readonly reason?: string | undefined
}

/** Opens an `approval` request about a call of the tool that `definition` identifies. */
export function* requestApproval(
  run: AgentRun,
  call: ToolCall,
  { safety, schema, tool }: ToolIdentity,
  args: Schema.Json,
  { always, approval, facts, preview, reason, risk, untrusted = [] }: Described
): Effect.fn.Return<void> {
  const state = stateOf(run)
  const identity = { agentPath: state.agentPath, tool, schema, safety, ...defined({ facts }) }
  const digest = yield* approvalDigest(identity, args)
  if (!isCallOpen(run, call.id)) return
  const denial = yield* deniedBefore(run, { tool, schema, safety }, args, facts)
  if (denial !== undefined) return denyAgain(run, call, denial)
  const at = now(run.drive)
  const expiresAt = expiryOf(at, approval?.expiresIn)
  emit(run, {
    _tag: "request.opened",
    at,
    request: {
      _tag: "approval",
      requestId: nextRequestId(run),
      runId: state.runId,
      ...identity,
      at,
      callId: call.id,
      arguments: args,
      digest,
      ...(expiresAt === undefined ? {} : { expiresAt, onExpiry: approval?.onExpiry ?? "deny" }),
      ...warningOf(expiresAt, approval?.warnBefore),
      ...(risk === undefined ? {} : { risk }),
      ...(preview === undefined ? {} : { preview }),
      ...(always === undefined ? {} : { always }),
      ...(untrusted.length === 0 ? {} : { untrusted }),
      ...(reason === undefined ? {} : { reason })
    }
  })
}

/** The text that a tool's callback returned; `undefined` if it failed or returned something else. */
const textOf = (said: Exit.Exit<unknown, unknown>): string | undefined =>
  Exit.isSuccess(said) && typeof said.value === "string" ? said.value : undefined

/** Opens an `inDoubt` request about a call that started, or may have started under a journal that was lost. */
export const openInDoubt = (
  run: AgentRun,
  call: ToolCall,
  reason?: string,
  facts?: Schema.Json
): undefined => {
  if (!isCallOpen(run, call.id)) return undefined
  const state = stateOf(run)
  const at = now(run.drive)
  const entry = toolEntryOf(run.bound, call)
  const definition = entry?.definition
  const why = reason ?? (state.mayRepeat === undefined ? undefined : whyDoubted(state.mayRepeat))
  emit(run, {
    _tag: "request.opened",
    at,
    request: {
      _tag: "inDoubt",
      requestId: nextRequestId(run),
      runId: state.runId,
      agentPath: state.agentPath,
      at,
      callId: call.id,
      tool: call.tool ?? call.name,
      arguments: shownOf(call),
      idempotencyKey: idempotencyKey(call),
      ...(entry?.tool.options.external === true ? { token: idempotencyKey(call) } : {}),
      ...(definition === undefined ? {} : { schema: definition.schema, safety: definition.safety }),
      startedAt: call.startedAt ?? at,
      attempt: call.attempt,
      ...defined({ facts }),
      ...(why === undefined ? {} : { reason: why })
    }
  })
}

const whyDoubted = ({ since }: MayRepeat): string =>
  since === undefined
    ? "the prompt was sent again to a store that had lost it, and the call may have run before"
    : `the store was restored from a backup, and the call may have run after ${new Date(since).toISOString()}`

/** The tool of a call. A call under an alias records the tool's own name when it is classified. */
export const toolEntryOf = (bound: BoundAgent, call: ToolCall): ToolEntry | undefined => {
  const entry = bound.entries.get(call.tool ?? call.name)
  return entry !== undefined && "tool" in entry ? entry : undefined
}

/** The arguments of a call as its request shows them. */
export const shownOf = ({ arguments: args = {}, value = args }: ToolCall) => value
