/**
 * The approval callback while it is asked beside the loop, and the time at which requests expire meanwhile.
 */
import { setDeadline } from "../../agent/internal/deadlines.ts"
import { answerable } from "../../domain/RunState.ts"
import { type Drive, now } from "./Drive.ts"

/** The name under which the callback is asked beside the loop. */
export const asking = "approvalCallback"

/** Stops asking about a request that waits no longer. A callback that never answers must not keep the run, or the next request, waiting. */
export const stopAsking = (drive: Drive): void => {
  const { askedNow, state, tasks } = drive
  if (askedNow === undefined || answerable(state).some(({ requestId }) => requestId === askedNow)) return
  tasks.requestStop(asking, "The request was decided.")
}

/** Timers cannot be set for longer than some weeks. */
const longestMs = 24 * 60 * 60 * 1000

/** The pause before a store is asked again about a request that is expired here and not there. */
const pauseMs = 100

/** Wakes the loop when the next request expires. Returns how to call that off. */
export const wakeAtExpiry = (drive: Drive): (() => void) => {
  const times = answerable(drive.state).flatMap(({ expiresAt, onExpiry }) =>
    expiresAt === undefined || onExpiry === "stay" ? [] : [expiresAt]
  )
  if (times.length === 0) return () => {}
  const left = Math.min(...times) - now(drive)
  return setDeadline(drive.clock, left > 0 ? Math.min(left, longestMs) : pauseMs, () => drive.notify())
}
