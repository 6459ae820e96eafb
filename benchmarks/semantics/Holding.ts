/**
 * The operations of a system whose runs are held, approved, killed and approved again: {@link Holding}, implemented by each system in
 * terms of its public API, as its documentation shows it. Every operation runs in a process of its own, which shares only the folder
 * with the others.
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

/** The progress of a run. */
export interface Outcome {
  /** `asks`: the system requests the outcome of a call. */
  readonly status: "held" | "finished" | "asks"
  readonly text?: string
}

/** One process on a store with one run. */
export interface Holding {
  /** Starts the run. Returns when it is held, and is on disk. */
  readonly start: () => Promise<void>
  /** The calls that wait for an approval, read from the store. */
  readonly waiting: () => Promise<ReadonlyArray<Waiting>>
  /** Approves these calls alone, and resumes the run. */
  readonly approve: (these: ReadonlyArray<Waiting>) => Promise<Outcome>
  /** Sends a user's message to the run, or in its conversation. */
  readonly say: (text: string) => Promise<Outcome>
  /** Resumes a run whose process has died. `held` when it needs an approval again. */
  readonly recover: () => Promise<Outcome>
  /** Reports that the call in doubt was done, and resumes the run. For systems that ask. */
  readonly supply?: (result: string) => Promise<Outcome>
  /** The final text of an ended run, read from the store. */
  readonly ended: () => Promise<string | undefined>
  readonly close: () => Promise<void>
}

/** Makes new objects on the folder. */
export type OpenHolding = (folder: string, script: HeldScript) => Promise<Holding>
