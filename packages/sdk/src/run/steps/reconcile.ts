/**
 * Reconciliation: determines the outcome of bodies without a recorded result. A process that died had started them, or they may have run
 * under a journal that was lost with its store.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import { decodeArguments } from "../../agent/internal/decoding.ts"
import { sentence } from "../../domain/Display.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { sameJson } from "../../domain/internal/json.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import { findCall, isRepeatable } from "../../domain/RunState.ts"
import { decodeEdited } from "../../tool/internal/decodedArguments.ts"
import { counted } from "../../tool/internal/scrub/redactions.ts"
import type { Reconciled } from "../../tool/ToolOptions.ts"
import { differenceOf, differenceText, editOf } from "../calls/authorize.ts"
import { idempotencyKey } from "../calls/idempotencyKey.ts"
import { commitHolds } from "../calls/openHold.ts"
import { toolEntryOf, openInDoubt, shownOf } from "../calls/openRequest.ts"
import { valueOf } from "../calls/prepareCall.ts"
import { describeArguments } from "../calls/recordClassification.ts"
import { resolved } from "../calls/secrets.ts"
import { askTool, failureText, markOf, recordResult, type ToolEntry } from "../calls/userCalls.ts"
import type { AgentRun } from "../internal/AgentRun.ts"
import { stateOf, isStopped } from "../internal/AgentRun.ts"
import { now, emit } from "../internal/Drive.ts"
import { callbackContext } from "../internal/runContext.ts"
import { isTurnHalted } from "../internal/stops.ts"
import { settle, notStarted, recordStart } from "./settle.ts"

/** Determines the outcome of these calls: repeats their bodies if that is harmless, asks the tool, or opens an `inDoubt` request. */
export const reconcile = Effect.fnUntraced(function* (run: AgentRun, callIds: ReadonlyArray<ToolCallId>) {
  for (const callId of callIds) {
    const found = findCall(stateOf(run), callId)
    if (found === undefined) continue
    const entry = toolEntryOf(run.bound, found)
    // The tool's current definition must permit the repetition, too. `settle` waits for the missing tool of a read-only call.
    const mayRepeat =
      entry === undefined
        ? found.safety === "readOnly"
        : entry.tool.idempotent || entry.tool.safety === "readOnly"
    if (isRepeatable(found) && mayRepeat) {
      yield* settle(run, [callId])
      continue
    }
    const call = found.status === "started" ? found : presumeStarted(run, found)
    const answer = yield* ask(run, call, found.status === "started" ? found.startedAt : undefined)
    if (answer === undefined) return
    switch (answer._tag) {
      case "happened":
        recordResult(run, call, entry?.tool, answer.result)
        yield* commitHolds(run, [callId])
        break
      case "failed":
        emit(run, {
          _tag: "tool.failed",
          at: now(run.drive),
          callId,
          ...markOf(entry?.tool),
          content: [
            failureText(
              run,
              entry?.tool,
              counted(answer.message, run.drive.runtime.scrubber.scrub(answer.message))
            )
          ]
        })
        break
      case "notHappened":
        if (isTurnHalted(run)) {
          notStarted(run, call)
          break
        }
        ;(run.drive.notHappened ??= new Set()).add(callId)
        yield* settle(run, [callId])
        break
      case "unknown":
        openInDoubt(run, call, whyUnknown(run, found, entry))
    }
  }
})

const whyUnknown = (run: AgentRun, call: ToolCall, entry: ToolEntry | undefined): string | undefined => {
  if (entry === undefined) return sentence`The agent has no tool ${call.name} any more.`
  if (isRepeatable(call)) return sentence`${call.name} may not be repeated any more.`
  const other = differenceOf(run, call, entry)
  return other === undefined ? undefined : differenceText(run, other, call, entry)
}

/** Records a start that was lost with its journal. It counts as an attempt, so that the body receives a later attempt number. */
const presumeStarted = (run: AgentRun, call: ToolCall): ToolCall => {
  recordStart(run, call)
  return findCall(stateOf(run), call.id) ?? call
}

/** Calls the tool's `reconcile`. Returns `unknown` if it is missing or fails, and `undefined` if the run was stopped meanwhile. */
function* ask(
  run: AgentRun,
  call: ToolCall,
  startedAt: number | undefined
): Effect.fn.Return<Reconciled | undefined> {
  try {
    const entry = toolEntryOf(run.bound, call)
    if (entry === undefined) return unknown
    const other = differenceOf(run, call, entry)
    // Another tool cannot know the outcome.
    if (other === "agent" || other === "tool" || other === "identity") return unknown
    const { tool } = entry
    const { reconcile } = tool.options
    if (reconcile === undefined) return unknown
    const value = other === "schema" ? startedWith(run, call, entry) : valueOf(run, call, entry)
    // It asks the system that the body used, so it needs the same secrets.
    const decoded = yield* run.supervisor.run<unknown, unknown>(
      Effect.flatMap(value, (value) => resolved(run, call, entry, value))
    )
    if (Exit.isFailure(decoded)) return isStopped(run, decoded.cause) ? undefined : unknown
    const found = yield* askTool<unknown>(run, call, tool, "reconcile", () =>
      reconcile(idempotencyKey(call), decoded.value, Object.assign(callbackContext(run, tool), { startedAt }))
    )
    if (found === undefined) return undefined
    return Exit.isSuccess(found) && isReconciled(found.value) ? found.value : unknown
  } catch {
    return unknown
  }
}

/**
 * The arguments with which a call was started, decoded with the current schema of its tool. Fails if the schema does not take them, or
 * does not keep each of them as it was.
 */
const startedWith = (run: AgentRun, call: ToolCall, entry: ToolEntry): Effect.Effect<unknown, unknown> => {
  const { arguments: args = {} } = call
  const decode = (json: unknown) => decodeArguments(entry, stateOf(run).limits, json)
  return editOf(run, call) === undefined
    ? Effect.filterOrFail(
        decode(args),
        (value) => keeps(describeArguments(run, entry, args, value).shown, shownOf(call)),
        () => "they are not kept"
      )
    : decodeEdited(entry.decoder, decode, shownOf(call))
}

/** Whether arguments contain those of `before`, each with its value. */
const keeps = (args: Schema.Json, before: Schema.Json): boolean =>
  isObject(args) && isObject(before)
    ? Object.entries(before).every(
        ([name, value]) => Object.hasOwn(args, name) && sameJson(args[name]!, value)
      )
    : sameJson(args, before)

const isObject = (json: Schema.Json): json is Schema.JsonObject =>
  typeof json === "object" && json !== null && !Array.isArray(json)

const unknown: Reconciled = { _tag: "unknown" }

/** Checks the return value of `reconcile`. Any other value counts as `unknown`. */
const isReconciled = (found: unknown): found is Reconciled => {
  if (typeof found !== "object" || found === null || !("_tag" in found)) return false
  if (found._tag === "failed") return "message" in found && typeof found.message === "string"
  return found._tag === "happened" || found._tag === "notHappened"
}
