/**
 * The states in which sessions were left by this process, for as long as something else keeps them or memory is not needed.
 *
 * The next run of a session builds on the last one's state, which is in memory still where a conversation goes on. The store's
 * head shows whether it is that state: journals only grow, so a run of the same id and revision, created at the same time, is the
 * same. Where that is not so, or the state is gone, the journals are read.
 */
import type { SessionId } from "../../domain/Id.ts"
import { isEnded, type RunState } from "../../domain/RunState.ts"
import type { RunStore } from "../../store/RunStore.ts"
import type { RunHead } from "../../store/RunStorePort.ts"
import type { CheckpointedState } from "./checkpoints.ts"

type Store = RunStore["Service"]

/** When a run was created, at the earliest and at the latest, in milliseconds since 1970. */
export interface Creation {
  readonly from: number
  readonly to: number
}

interface Remembered extends Creation, Pick<CheckpointedState, "saved"> {
  readonly state: WeakRef<RunState>
}

/** Sessions that are remembered of each store. */
const capacity = 256

const stores = new WeakMap<Store, Map<SessionId, Remembered>>()

/** Remembers how a session's last run ended. */
export const remember = (store: Store, { saved, state }: CheckpointedState, { from, to }: Creation): void => {
  // Whoever reads it from the store knows what checkpoints there are.
  if (!isEnded(state) || saved === "unknown") return
  let sessions = stores.get(store)
  if (sessions === undefined) stores.set(store, (sessions = new Map()))
  // What is set again becomes the youngest.
  sessions.delete(state.sessionId)
  sessions.set(state.sessionId, { state: new WeakRef(state), saved, from, to })
  if (sessions.size <= capacity) return
  for (const oldest of sessions.keys()) {
    sessions.delete(oldest)
    return
  }
}

/** The state of a run that has ended, if it is what the store holds. */
export const rememberedState = (store: Store, head: RunHead): CheckpointedState | undefined => {
  const found = stores.get(store)?.get(head.sessionId)
  if (found === undefined || head.createdAt < found.from || head.createdAt > found.to) return undefined
  const state = found.state.deref()
  return state?.runId === head.runId && state.revision === head.revision && state.status === head.status
    ? { state, saved: found.saved }
    : undefined
}
