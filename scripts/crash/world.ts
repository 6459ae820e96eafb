/**
 * What outlives a process: the database, the effects of the tools, and the acknowledgements of the store.
 */
import { type Id, RunEvent } from "@fermata/sdk/domain"
import type { RunChecker } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as SqlClient from "effect/sql/SqlClient"
import * as SimulatedClock from "../../packages/sdk/src/testing/internal/simulation/clock.ts"
import * as Simulated from "../../packages/sdk/src/testing/internal/simulation/world.ts"

/** A database outside of its processes. */
export interface Database {
  /** A connection of a new process. When it closes, nothing is left open. */
  readonly open: Effect.Effect<SqlClient.SqlClient, never, Scope.Scope>
  /**
   * Ends every lease: sets the clock back to before they were given or, every second time, advances it. False while a process is
   * writing.
   */
  readonly expireLeases: Effect.Effect<boolean>
  /** The committed batches of events, as they are stored. Read beside all processes. */
  readonly batches: Effect.Effect<ReadonlyArray<string>>
  /** The committed status of every run. */
  readonly statuses: Effect.Effect<ReadonlyMap<string, string>>
  /** Runs a statement beside all processes, unless a process is writing. */
  readonly execute: (statement: string, parameters: ReadonlyArray<string | number>) => Effect.Effect<void>
  /** The number of contents to which no run refers, and of their pieces, whole or not. */
  readonly unusedContents: Effect.Effect<number>
  /** The problem that the database itself reports. */
  readonly damage: Effect.Effect<string | undefined>
  /** All its data, as text. */
  readonly dump: Effect.Effect<ReadonlyArray<string>>
  /** Its current activity. */
  readonly activity: () => Activity | Promise<Activity>
  readonly close: Effect.Effect<void>
}

/** No statement; some statement; or only statements that wait for a lock. */
export type Activity = "idle" | "working" | "blocked"

/** Makes databases. */
export interface Databases {
  readonly make: (name: "first" | "second", options: { readonly empty: boolean }) => Effect.Effect<Database>
  /** The most worlds at a time. */
  readonly worlds: number
  readonly close: () => Promise<void>
}

/** The moment of an acknowledgement that ends something: a call that had started by then may continue. */
export interface Moment {
  /** The number of effects. */
  readonly effects: number
  /** The calls whose start was committed. */
  readonly started: ReadonlySet<string>
}

/** What outlives a process. */
export interface World extends Simulated.World {
  readonly databases: ReadonlyArray<Database>
  readonly expireLeases: Effect.Effect<boolean>
  /** The current activity of its databases. */
  readonly activity: () => Promise<Activity>
  /** Effects of tools that must not run in the scenario. */
  readonly strays: Array<RunChecker.Effect>
  /** Runs whose removal was acknowledged. */
  readonly removed: Set<Id.RunId>
  /** Grants whose revocation was acknowledged. */
  readonly revoked: Map<Id.GrantId, Moment>
  /** Runs for which a denial with a stop was acknowledged. */
  readonly stopped: Map<Id.RunId, Moment>
  /** Runs whose cancellation was acknowledged before they had ended. */
  readonly cancelled: Set<Id.RunId>
  /** Runs whose cancellation, or a denial that stops them, was requested, acknowledged or not; see {@link excuseCancelled}. */
  readonly askedToEnd: Set<Id.RunId>
  /** The notes of a user for after a crash. */
  readonly notes: Map<string, string>
}

/** A world with one database, or with two. */
export const make = (
  databases: Databases,
  options: { readonly fresh?: boolean; readonly two?: boolean } = {}
): Effect.Effect<World, never, Scope.Scope> =>
  Effect.gen(function* () {
    const names = options.two === true ? (["first", "second"] as const) : (["first"] as const)
    const made = yield* Effect.forEach(names, (name) =>
      Effect.acquireRelease(databases.make(name, { empty: options.fresh === true }), ({ close }) => close)
    )
    return {
      ...Simulated.make(SimulatedClock.make({ shortMs: 1000 })),
      databases: made,
      expireLeases: Effect.map(
        Effect.forEach(made, ({ expireLeases }) => expireLeases),
        (expired) => expired.every(Boolean)
      ),
      activity: async () => {
        const all = await Promise.all(made.map(({ activity }) => activity()))
        return all.find((one) => one === "working") ?? all.find((one) => one === "blocked") ?? "idle"
      },
      strays: [],
      removed: new Set(),
      revoked: new Map(),
      stopped: new Map(),
      cancelled: new Set(),
      askedToEnd: new Set(),
      notes: new Map()
    }
  })

/** The moment after an acknowledgement. */
export const moment = ({ databases, effects }: World): Effect.Effect<Moment> =>
  Effect.gen(function* () {
    const count = effects.length
    const batches = yield* Effect.forEach(databases, ({ batches }) => batches)
    const started = new Set<string>()
    for (const batch of batches.flat()) {
      for (const wrapped of JSON.parse(batch) as ReadonlyArray<RunEvent.RunEvent>) {
        const { event } = RunEvent.unwrap(wrapped)
        if (event._tag === "tool.started") started.add(event.callId)
      }
    }
    return { effects: count, started }
  })

/** Counts the runs that are cancelled by now as runs whose cancellation was requested: the program that drives them was interrupted. */
export const excuseCancelled = ({ askedToEnd, databases }: World): Effect.Effect<void> =>
  Effect.map(
    Effect.forEach(databases, ({ statuses }) => statuses),
    (all) => {
      for (const [runId, status] of all.flatMap((statuses) => [...statuses])) {
        if (status === "cancelled") askedToEnd.add(runId as Id.RunId)
      }
    }
  )

/** Reads the batches in which a call starts. */
export const startingBatches = "SELECT events FROM fermata_journal WHERE events LIKE '%tool.started%'"

/** Reads the status of every run. */
export const everyStatus = "SELECT run_id, status FROM fermata_runs"

/** The tables of contents, which belong to all runs together. */
export const contentTables = ["fermata_blobs", "fermata_blob_pieces"] as const

/** Counts the contents to which no run refers, and their pieces. */
export const countUnused = `WITH used AS (SELECT blob FROM fermata_blobs WHERE sha256 IN (SELECT sha256 FROM fermata_blob_uses))
  SELECT (SELECT count(*) FROM fermata_blobs WHERE blob NOT IN (SELECT blob FROM used))
    + (SELECT count(*) FROM fermata_blob_pieces WHERE blob NOT IN (SELECT blob FROM used)) AS count`

/** The statement that ends leases, for the `count`-th time. */
export const endLeases = (count: number): string =>
  `UPDATE fermata_runs SET lease_until = ${count % 2 === 1 ? "lease_until + 2220000" : "0"} WHERE lease_until IS NOT NULL`

/** The tables whose rows belong to runs. */
export const runTables = [
  "fermata_journal",
  "fermata_requests",
  "fermata_messages",
  "fermata_checkpoints",
  "fermata_chunks",
  "fermata_grants",
  "fermata_blob_uses"
] as const

/** The rows that belong to no run, of which there must be none. */
export const lostRows = (table: string): string =>
  `SELECT run_id FROM ${table} WHERE run_id NOT IN (SELECT run_id FROM fermata_runs)`
