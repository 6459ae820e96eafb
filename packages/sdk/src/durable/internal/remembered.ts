/**
 * Remembers the states in which this process left the latest sessions of a store, up to 256, for as long as the states are in use or memory
 * is not needed.
 *
 * The next run of a session builds on the last run's state, which is often still in memory. The run's head in the store shows whether the
 * remembered state is still the run's state: journals only grow, so a run with the same id and revision, created at the same time, is the
 * same. If the state is not, or was collected, the journals are read.
 */
import type { SessionId } from "../../domain/Id.ts"
import { isEnded, type RunState } from "../../domain/RunState.ts"
import type { RunStore } from "../../store/RunStore.ts"
import type { RunHead } from "../../store/RunStorePort.ts"
import type { CheckpointedState } from "./checkpoints.ts"

type Store = RunStore["Service"]

/** The earliest and the latest time at which a run may have been created, in milliseconds since 1970. */
export interface Creation {
  readonly from: number
  readonly to: number
}

interface Remembered extends Creation, Pick<CheckpointedState, "saved"> {
  readonly state: WeakRef<RunState>
}

/** The maximum number of remembered sessions of a store. */
const capacity = 256

const stores = new WeakMap<Store, Map<SessionId, Remembered>>()

/** Remembers the state in which a session's last run ended. */
export const remember = (store: Store, { saved, state }: CheckpointedState, { from, to }: Creation): void => {
  // If the checkpoints are unknown, the next run reads the state and its checkpoints from the store.
  if (!isEnded(state) || saved === "unknown") return
  let sessions = stores.get(store)
  if (sessions === undefined) stores.set(store, (sessions = new Map()))
  // A map is ordered by insertion: an entry that is set again becomes the newest.
  sessions.delete(state.sessionId)
  sessions.set(state.sessionId, { state: new WeakRef(state), saved, from, to })
  if (sessions.size <= capacity) return
  for (const oldest of sessions.keys()) {
    sessions.delete(oldest)
    return
  }
}

/** The remembered state of an ended run, if it is the state that the store has. */
export const rememberedState = (store: Store, head: RunHead): CheckpointedState | undefined => {
  const found = stores.get(store)?.get(head.sessionId)
  if (found === undefined || head.createdAt < found.from || head.createdAt > found.to) return undefined
  const state = found.state.deref()
  return state?.runId === head.runId && state.revision === head.revision && state.status === head.status
    ? { state, saved: found.saved }
    : undefined
}
