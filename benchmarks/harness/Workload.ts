/**
 * Workloads: their cases, their figures, how these are shown, and the targets for Fermata.
 */
import type { Adapter, Offer, System } from "../System.ts"

/** Measured figures, by key. A figure may be a word. */
export type Figures = Readonly<Record<string, number | string>>

/** One figure in the tables. */
export interface Column {
  readonly key: string
  readonly title: string
  /** Digits after the point. Default: 1. */
  readonly digits?: number
  /** Whether the table also shows the ratio to the floor's figure of the same process. */
  readonly ratio?: boolean
}

/** Medians over the rounds; `undefined` for figures that were not measured. */
export interface Medians {
  readonly get: (system: string, name: string, key: string) => number | undefined
  /** The ratio to the floor, in the same process. */
  readonly ratio: (system: string, name: string, key: string) => number | undefined
}

/** A target for Fermata. */
interface Target {
  readonly says: string
  /** The value that Fermata has reached; `undefined` where this run does not measure it. */
  readonly reached: (medians: Medians) => number | undefined
  readonly most: number
}

/** The context in which a case is measured. */
export interface Bench {
  readonly system: System
  readonly adapter: Adapter
  /**
   * Milliseconds to spend on a measurement: all of them on a system, fewer on the floor, which has little to compile and is measured
   * twice.
   */
  readonly ms: (milliseconds: number) => number
  /** A new folder on the disk of this workspace, removed when the process ends. */
  readonly folder: () => string
  /** A copy, in a new folder, of what `make` writes. `make` runs once for a system and a key, and its cost is in no figure. */
  readonly prepared: (key: string, make: (folder: string) => Promise<void>) => Promise<string>
}

/** One workload. */
export interface Workload {
  /** Its name for `--only`. */
  readonly name: string
  readonly title: string
  /** The work and its figures, for the documentation. */
  readonly what: string
  readonly cases: ReadonlyArray<string>
  /** The task of the adapter that this needs. Left out when it needs no adapter. */
  readonly task?: keyof Adapter
  /** For a workload without an adapter: the reason why a system cannot do it. Default: all can. */
  readonly cannot?: (system: string) => string | undefined
  /** The only systems that are measured. Default: all. */
  readonly systems?: ReadonlyArray<string>
  /** Whether each case runs in its own process. Default: all cases of a system share one. */
  readonly apart?: boolean
  /** Whether the floor is measured beside each system. Default: yes. */
  readonly floor?: boolean
  /** A note on one system's figures, for the documentation; `""`: none. */
  readonly note?: (figures: Figures) => string
  /** The figure by which systems are compared. Less is better. */
  readonly primary: string
  readonly columns: ReadonlyArray<Column>
  readonly targets: ReadonlyArray<Target>
  /** Seconds after which a process is stopped, and its current case counts as too long. Default: 120. */
  readonly patience?: number
  /** At most this many rounds. */
  readonly rounds?: number
  /** Flags of Node that the process needs. */
  readonly flags?: ReadonlyArray<string>
  readonly measure: (bench: Bench, name: string) => Promise<Figures>
}

/** The task that an adapter offers; the caller has checked that it does. */
export const offered = <Task>(offer: Offer<Task>): Task => {
  if (isRefusal(offer)) throw new Error(offer.cannot)
  return offer
}

/** Whether an adapter reports that the system cannot do the task. */
export const isRefusal = <Task>(offer: Offer<Task>): offer is { readonly cannot: string } =>
  typeof offer === "object" && offer !== null && "cannot" in offer
