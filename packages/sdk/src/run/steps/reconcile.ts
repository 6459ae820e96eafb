/**
 * Bodies that a process that is gone had started, or that may have run in a store that is lost.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { sentence } from "../../domain/Display.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { text } from "../../domain/Message.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import { findCall, isRepeatable } from "../../domain/RunState.ts"
import type { Reconciled } from "../../tool/ToolOptions.ts"
import type { AgentRun } from "../internal/AgentRun.ts"
import { stateOf, isStopped } from "../internal/AgentRun.ts"
import { differenceOf } from "../internal/authorize.ts"
import { now, emit } from "../internal/Drive.ts"
import { toolEntryOf, openInDoubt } from "../internal/openRequest.ts"
import { valueOf } from "../internal/prepareCall.ts"
import { isTurnHalted } from "../internal/stops.ts"
import { idempotencyKey } from "../internal/toolBody.ts"
import { askTool } from "../internal/userCalls.ts"
import { settle, shown, notStarted, recordStart } from "./settle.ts"

/**
 * Bodies that a process that is gone had started, or that may have run in a store that is lost: repeats them, asks the tool, or
 * opens an `inDoubt` request.
 */

export const reconcile = Effect.fnUntraced(function* (run: AgentRun, callIds: ReadonlyArray<ToolCallId>) {
  for (const callId of callIds) {
    const found = findCall(stateOf(run), callId)
    if (found === undefined) continue
    const entry = toolEntryOf(run.bound, found)
    // What a tool says of itself today counts too. One that is missing is waited for.
    if (
      isRepeatable(found) &&
      (entry === undefined || entry.tool.idempotent || entry.tool.safety === "readOnly")
    ) {
      yield* settle(run, [callId])
      continue
    }
    const call = found.status === "started" ? found : presumeStarted(run, found)
    const answer = yield* ask(run, call)
    if (answer === undefined) return
    const at = now(run.drive)
    switch (answer._tag) {
      case "happened":
        emit(run, { _tag: "tool.completed", at, callId, content: shown(run, call, answer.result) })
        break
      case "failed":
        emit(run, {
          _tag: "tool.failed",
          at,
          callId,
          content: [text(run.drive.runtime.scrubber.scrub(answer.message))]
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
        openInDoubt(
          run,
          call,
          isRepeatable(found) ? sentence`${found.name} may not be repeated any more.` : undefined
        )
    }
  }
})

/** The call as one whose start is lost with its journal. The start counts as an attempt, so that the body sees a later one. */
const presumeStarted = (run: AgentRun, call: ToolCall): ToolCall => {
  recordStart(run, call)
  return findCall(stateOf(run), call.id) ?? call
}

/** What the tool itself can find out; `unknown` if it cannot, or fails to, and `undefined` if the run was stopped meanwhile. */
function* ask(run: AgentRun, call: ToolCall): Effect.fn.Return<Reconciled | undefined> {
  try {
    const entry = toolEntryOf(run.bound, call)
    // Another tool knows nothing of it.
    if (entry === undefined || differenceOf(run, call, entry) !== undefined) return unknown
    const { tool } = entry
    const { reconcile } = tool.options
    if (reconcile === undefined) return unknown
    const decoded = yield* run.supervisor.run<unknown, unknown>(valueOf(run, call, entry))
    if (Exit.isFailure(decoded)) return isStopped(run, decoded.cause) ? undefined : unknown
    const found = yield* askTool<unknown>(run, call, tool, "reconcile", () =>
      reconcile(idempotencyKey(call), decoded.value)
    )
    if (found === undefined) return undefined
    return Exit.isSuccess(found) && isReconciled(found.value) ? found.value : unknown
  } catch {
    return unknown
  }
}

const unknown: Reconciled = { _tag: "unknown" }

/** A tool that answers something else has not found out anything. */
const isReconciled = (found: unknown): found is Reconciled => {
  if (typeof found !== "object" || found === null || !("_tag" in found)) return false
  if (found._tag === "failed") return "message" in found && typeof found.message === "string"
  return found._tag === "happened" || found._tag === "notHappened"
}
