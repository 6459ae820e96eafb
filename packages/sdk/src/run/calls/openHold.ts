/**
 * Puts calls on hold: their bodies have ended, and their results come later.
 */
import * as Effect from "effect/Effect"
import { instant } from "../../domain/Display.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { isOnHold } from "../../domain/internal/released.ts"
import { text } from "../../domain/Message.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import { findCall } from "../../domain/RunState.ts"
import { endOf, type Hold } from "../../tool/Hold.ts"
import { type AgentRun, nextRequestId, stateOf } from "../internal/AgentRun.ts"
import { flush } from "../internal/commit.ts"
import { emit, now } from "../internal/Drive.ts"
import type { JournalError } from "../internal/Journal.ts"
import { hearStops, isTurnHalted } from "../internal/stops.ts"

/** Opens the request that a call waits for. A wait whose end has passed settles at once. */
export const openHold = (run: AgentRun, call: ToolCall, hold: Hold): void => {
  const at = now(run.drive)
  const expiresAt = endOf(hold, at)
  if (expiresAt <= at) {
    const content = [text(`There is nothing to wait for: it is ${instant(at)}.`)]
    return emit(run, { _tag: "tool.completed", at, callId: call.id, content })
  }
  const state = stateOf(run)
  const { arguments: args = {}, value = args } = call
  emit(run, {
    _tag: "request.opened",
    at,
    request: {
      _tag: "timer",
      requestId: nextRequestId(run),
      runId: state.runId,
      agentPath: state.agentPath,
      at,
      callId: call.id,
      tool: call.tool ?? call.name,
      arguments: value,
      expiresAt,
      ...(hold.reason === undefined ? {} : { reason: hold.reason })
    }
  })
}

/**
 * Commits the requests of the calls whose bodies ended with a hold. If the turn was stopped or superseded while the bodies ran, the
 * decisions on its requests came before these were opened, so they are withdrawn.
 */
export const commitHolds = Effect.fnUntraced(function* (
  run: AgentRun,
  callIds: ReadonlyArray<ToolCallId>
): Effect.fn.Return<void, JournalError> {
  if (!callIds.some((callId) => isHeld(run, callId))) return
  yield* flush(run.drive)
  if (run.drive.hasMail) yield* hearStops(run)
  if (!isTurnHalted(run)) return
  for (const callId of callIds) {
    const call = findCall(stateOf(run), callId)
    if (call?.requestId === undefined || !isHeld(run, callId)) continue
    const at = now(run.drive)
    const reason = "its turn was superseded"
    emit(run, { _tag: "request.superseded", at, requestId: call.requestId, reason })
    emit(run, { _tag: "tool.failed", at, callId, content: [text(withdrawnText)] })
  }
})

const isHeld = (run: AgentRun, callId: ToolCallId): boolean => {
  const call = findCall(stateOf(run), callId)
  return call !== undefined && isOnHold(stateOf(run), call)
}

const withdrawnText =
  "This call was started. Its result is not waited for: the user has said something else instead."
