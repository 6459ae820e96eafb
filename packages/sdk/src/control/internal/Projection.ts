/**
 * The types of the derivation of runtime events from a run.
 */
import type { RunId, SessionId, Timestamp } from "../../domain/Id.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"

/** The data that a projection needs besides the journal. */
export interface ProjectionOptions {
  /** The size of the context of a model profile in tokens, if it is known. `root` is the state of the task's run. */
  readonly contextTokens: (root: RunState, profile: string | undefined) => number | undefined
}

/** The place of an event in its task. */
export interface Scope {
  readonly sessionId: SessionId
  readonly taskId: RunId
  readonly turn: number
  readonly agentPath: ReadonlyArray<string>
  readonly agentRunId: RunId
}

/** One event of one run of the tree, with the state of that run before and after it. */
export interface Change {
  readonly before: RunState | undefined
  readonly after: RunState
  readonly event: Exclude<RunEvent, { readonly _tag: "child.advanced" }>
  readonly at: Scope
  readonly clock: TurnClock
  /** The state of the task's run; before the event, if the event is a sub-agent's. */
  readonly root: RunState
}

/** The times of a turn, from the events of its run. */
export interface TurnClock {
  lastAt: Timestamp
  modelMs: number
  toolsMs: number
  waitingMs: number
}
