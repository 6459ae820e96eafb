/**
 * Puts calls on hold: their bodies have ended, and their results come later.
 */
import * as Effect from "effect/Effect"
import { instant, sentence } from "../../domain/Display.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { defined } from "../../domain/internal/defined.ts"
import { isOnHold, recordOf } from "../../domain/internal/released.ts"
import type { Interruption } from "../../domain/Interruption.ts"
import { text } from "../../domain/Message.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import { findCall } from "../../domain/RunState.ts"
import { endOf, isPending, type Hold } from "../../tool/Hold.ts"
import { type AgentRun, nextRequestId, stateOf } from "../internal/AgentRun.ts"
import { flush } from "../internal/commit.ts"
import { emit, now } from "../internal/Drive.ts"
import type { JournalError } from "../internal/Journal.ts"
import { hearStops, isTurnHalted } from "../internal/stops.ts"

/** Opens the request that a call waits for. A wait whose end has passed settles at once; an external call may still have its result. */
export const openHold = (run: AgentRun, call: ToolCall, hold: Hold): void => {
  const at = now(run.drive)
  const expiresAt = endOf(hold, at)
  if (!isPending(hold) && expiresAt !== undefined && expiresAt <= at) {
    const content = [text(`There is nothing to wait for: it is ${instant(at)}.`)]
    return emit(run, { _tag: "tool.completed", at, callId: call.id, content })
  }
  const state = stateOf(run)
  const { arguments: args = {}, value = args } = call
  const asked = {
    requestId: nextRequestId(run),
    runId: state.runId,
    agentPath: state.agentPath,
    at,
    callId: call.id,
    tool: call.tool ?? call.name,
    arguments: value,
    ...(hold.reason === undefined ? {} : { reason: hold.reason })
  }
  const request: Interruption = isPending(hold)
    ? { _tag: "external", ...asked, token: hold.token ?? call.id, ...defined({ expiresAt }) }
    : { _tag: "timer", ...asked, expiresAt: expiresAt ?? at }
  emit(run, { _tag: "request.opened", at, request })
}

/**
 * Commits the requests of the calls whose bodies ended with a hold. If the turn was stopped or superseded while the bodies ran, the
 * decisions on its requests came before these were opened, so they are withdrawn. So is a request whose token names another call.
 */
export const commitHolds = Effect.fnUntraced(function* (
  run: AgentRun,
  callIds: ReadonlyArray<ToolCallId>
): Effect.fn.Return<void, JournalError> {
  if (!callIds.some((callId) => isHeld(run, callId))) return
  yield* flush(run.drive)
  if (run.drive.hasMail) yield* hearStops(run)
  for (const callId of callIds) {
    const call = findCall(stateOf(run), callId)
    const request = call === undefined ? undefined : recordOf(stateOf(run), call)?.request
    if (request === undefined || !isHeld(run, callId)) continue
    if (isTurnHalted(run)) withdraw(run, callId, request, "its turn was superseded", supersededText)
    else if (request._tag === "external" && (yield* run.drive.journal.isTokenTaken(request.token, callId))) {
      const said = sentence`This call was started. Its result cannot arrive: another call has the token "${request.token}".`
      withdraw(run, callId, request, "another call has its token", said)
    }
  }
})

const withdraw = (
  run: AgentRun,
  callId: ToolCallId,
  { requestId }: Interruption,
  reason: string,
  said: string
): void => {
  const at = now(run.drive)
  emit(run, { _tag: "request.superseded", at, requestId, reason })
  emit(run, { _tag: "tool.failed", at, callId, content: [text(said)] })
}

const isHeld = (run: AgentRun, callId: ToolCallId): boolean => {
  const call = findCall(stateOf(run), callId)
  return call !== undefined && isOnHold(stateOf(run), call)
}

const supersededText =
  "This call was started. Its result is not waited for: the user has said something else instead."
