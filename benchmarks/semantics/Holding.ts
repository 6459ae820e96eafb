/**
 * What a system is asked to do when its runs are held, approved, killed and approved again: {@link Holding}, implemented by each
 * system in terms of its public API, as its documentation shows it. Every operation is called in a process of its own, which knows
 * nothing of the others but the folder.
 */
import type { Answer, Tool } from "../System.ts"

/** The run of a cell. */
export interface HeldScript {
  readonly prompt: string
  readonly tools: ReadonlyArray<Tool>
  /** The model's answer to a request of the system, with the number of its calls without a result. */
  readonly ask: (request: unknown, open: number) => Answer
}

/** A call that waits for an approval. */
export interface Waiting {
  /** The argument of the call. */
  readonly build: number
  /** The system's own reference to the call, as JSON. */
  readonly handle: unknown
}

/** How far a run has come. */
export interface Outcome {
  /** `asks`: the system requests the outcome of a call. */
  readonly status: "held" | "finished" | "asks"
  readonly text?: string
}

/** One process on a store with one run. */
export interface Holding {
  /** Starts the run. Returns when it is held, and is on disk. */
  readonly start: () => Promise<void>
  /** What waits for an approval, as the store has it. */
  readonly waiting: () => Promise<ReadonlyArray<Waiting>>
  /** Approves these, and nothing else, and goes on. */
  readonly approve: (these: ReadonlyArray<Waiting>) => Promise<Outcome>
  /** The user says something to the run, or in its conversation. */
  readonly say: (text: string) => Promise<Outcome>
  /** Goes on where a process has died. `held` where an approval is needed again. */
  readonly recover: () => Promise<Outcome>
  /** Tells the system that the call it asks about was done, and goes on. For those that ask. */
  readonly supply?: (result: string) => Promise<Outcome>
  /** The final text, if the run is over, as the store has it. */
  readonly ended: () => Promise<string | undefined>
  readonly close: () => Promise<void>
}

/** Makes new objects on what is in the folder. */
export type OpenHolding = (folder: string, script: HeldScript) => Promise<Holding>
