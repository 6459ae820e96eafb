/**
 * Folds the state of a stored run from its events.
 */
import * as Effect from "effect/Effect"
import { evolveAll } from "../../domain/evolve.ts"
import type { RunId } from "../../domain/Id.ts"
import type { RunState } from "../../domain/RunState.ts"
import { RunStoreError, StoreUnreadable } from "../../store/RunStoreError.ts"
import type { RunHead, StoredRun } from "../../store/RunStorePort.ts"

/** Folds a stored run. Fails with `StoreUnreadable` if its journal does not lead to the run in its head. */
export const foldStored = ({ events, head }: StoredRun): Effect.Effect<RunState, RunStoreError> =>
  Effect.suspend(() => {
    let state: RunState | undefined
    try {
      state = evolveAll(undefined, events)
    } catch {
      // Reported below, like a journal that cannot be parsed.
    }
    if (state === undefined) return Effect.fail(unreadable(head.runId, "does not add up to a run"))
    return isStateOf(state, head)
      ? Effect.succeed(state)
      : Effect.fail(unreadable(head.runId, "is of another run, session or status than its entry says"))
  })

/**
 * Whether a state belongs to the run with this head. A state that is stored under the head of another run must not be continued as that
 * run.
 */
export const isStateOf = (state: RunState, head: RunHead): boolean =>
  state.runId === head.runId &&
  state.revision === head.revision &&
  state.status === head.status &&
  state.parent?.runId === head.parent?.runId &&
  state.parent?.revision === head.parent?.revision &&
  // Earlier versions allowed two runs at one position; a migration gave the later one a session of its own.
  (state.sessionId === head.sessionId || head.sessionId.startsWith(`${state.sessionId}.fork.`))

const unreadable = (runId: RunId, what: string): RunStoreError =>
  new RunStoreError({
    operation: "load",
    reason: new StoreUnreadable({
      detail: `the journal of ${runId} ${what}: restore the store from a backup, or remove the run.`
    })
  })
