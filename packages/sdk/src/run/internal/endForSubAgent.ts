/**
 * Ending a sub-agent from outside, by a message.
 */
import * as Effect from "effect/Effect"
import { lineOf, type RunId } from "../../domain/Id.ts"
import { textOf } from "../../domain/Message.ts"
import { wrap } from "../../domain/RunEvent.ts"
import { findChild, isEnded, type RunState } from "../../domain/RunState.ts"
import type { Mail } from "../Mail.ts"
import { stopBeside } from "./beside.ts"
import { childCancellation } from "./cancellation.ts"
import { takeMessage } from "./takeMessage.ts"
import { type Drive, emitRoot, now } from "./Drive.ts"

/**
 * Stops the sub-agent that a message ends, with everything under it, and takes the message. The message and the ends are committed
 * together, so that a process that dies in between leaves both to do.
 */
export const endForSubAgent = Effect.fnUntraced(function* (
  drive: Drive,
  message: Mail["messages"][number] & { readonly to: RunId }
) {
  const { path } = lineOf(message.to)
  const reason = textOf(message.content)
  const last = path.at(-1)
  if (last !== undefined) yield* stopBeside(drive, [last], reason)
  const at = now(drive)
  emitRoot(drive, takeMessage(drive.state, message, at))
  const child = path.reduce<RunState | undefined>(
    (state, callId) => (state === undefined ? undefined : findChild(state, callId)),
    drive.state
  )
  if (last === undefined || child === undefined || isEnded(child)) return
  for (const event of childCancellation(child, at, reason)) emitRoot(drive, wrap(event, path))
})
