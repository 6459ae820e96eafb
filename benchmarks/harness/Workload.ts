/**
 * What a workload is: its cases, what is measured of each, how that is shown, and what Fermata is to reach.
 */
import type { Adapter, Offer, System } from "../System.ts"

/** What was measured, by key. A figure may be a word. */
export type Figures = Readonly<Record<string, number | string>>

/** One figure in the tables. */
export interface Column {
  readonly key: string
  readonly title: string
  /** Digits after the point. Default: 1. */
  readonly digits?: number
  /** Whether the ratio to the floor's figure of the same process is shown beside it. */
  readonly ratio?: boolean
}

/** Medians over the rounds; `undefined` for what was not measured. */
export interface Medians {
  readonly get: (system: string, name: string, key: string) => number | undefined
  /** To the floor, in the same process. */
  readonly ratio: (system: string, name: string, key: string) => number | undefined
}

/** What Fermata is to reach. */
interface Target {
  readonly says: string
  /** What it has reached; `undefined` where this run does not tell. */
  readonly reached: (medians: Medians) => number | undefined
  readonly most: number
}

/** Where a case is measured. */
export interface Bench {
  readonly system: System
  readonly adapter: Adapter
  /**
   * Milliseconds to spend on something: all of them on a system, fewer on the floor, which has little to compile and is measured
   * twice.
   */
  readonly ms: (milliseconds: number) => number
  /** A new folder on the disk of this workspace, removed when the process ends. */
  readonly folder: () => string
  /** A copy, in a new folder, of what `make` writes; it is made once for a system and a key, and its cost is in no figure. */
  readonly prepared: (key: string, make: (folder: string) => Promise<void>) => Promise<string>
}

/** One workload. */
export interface Workload {
  /** What `--only` calls it. */
  readonly name: string
  readonly title: string
  /** What is done, and what is measured. */
  readonly what: string
  readonly cases: ReadonlyArray<string>
  /** What an adapter has to offer for this. Left out for what needs no adapter. */
  readonly task?: keyof Adapter
  /** For what needs no adapter: the sentence that says why a system cannot. Default: all can. */
  readonly cannot?: (system: string) => string | undefined
  /** The only systems that this is about. Default: all. */
  readonly systems?: ReadonlyArray<string>
  /** Whether each case has a process of its own. Default: all cases of a system share one. */
  readonly apart?: boolean
  /** Whether the floor is measured beside each system. Default: yes. */
  readonly floor?: boolean
  /** What is said under the table in the documentation about one system's figures; `""`: nothing. */
  readonly note?: (figures: Figures) => string
  /** The figure by which systems are compared. Less is better. */
  readonly primary: string
  readonly columns: ReadonlyArray<Column>
  readonly targets: ReadonlyArray<Target>
  /** After this many seconds a process is stopped, and the case it was at counts as too long. Default: 120. */
  readonly patience?: number
  /** At most this many rounds. */
  readonly rounds?: number
  /** Flags of Node that the process needs. */
  readonly flags?: ReadonlyArray<string>
  readonly measure: (bench: Bench, name: string) => Promise<Figures>
}

/** The task that an adapter offers. Whether it does was asked before. */
export const offered = <Task>(offer: Offer<Task>): Task => {
  if (isRefusal(offer)) throw new Error(offer.cannot)
  return offer
}

/** Whether an adapter says that the system cannot. */
export const isRefusal = <Task>(offer: Offer<Task>): offer is { readonly cannot: string } =>
  typeof offer === "object" && offer !== null && "cannot" in offer
