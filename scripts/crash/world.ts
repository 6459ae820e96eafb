/**
 * What stays when a process is gone: the database, what the tools did to the outside world, and what people were told.
 */
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Reactivity from "effect/reactivity/Reactivity"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { SqlRunStore } from "@fermata/sdk/store"
import type { RunChecker } from "@fermata/sdk/testing"
import * as SqliteClient from "../../packages/node/vendor/sqlite-client.js"
import * as SimulatedClock from "./simulatedClock.ts"

type Told<K extends keyof RunChecker.Acknowledged> = NonNullable<RunChecker.Acknowledged[K]>[number]

/** What stays. */
export interface World {
  /** A connection of a new process. */
  readonly open: Effect.Effect<SqlClient.SqlClient, never, Scope.Scope>
  /** Time passes until no lease is in force; false when somebody is writing just now. */
  readonly expireLeases: () => boolean
  /** Runs a statement beside every process, unless somebody is writing just now. */
  readonly execute: (statement: string, parameters: ReadonlyArray<string | number>) => void
  /** What is wrong with the database, in its own words. */
  readonly damage: () => string | undefined
  readonly clock: SimulatedClock.SimulatedClock
  /** What the tools did, oldest first. */
  readonly effects: Array<RunChecker.Effect>
  readonly reconciled: Array<RunChecker.Reconciliation>
  /** What a caller of the store was told is stored. */
  readonly appended: Array<Told<"appended">>
  readonly decisions: Array<Told<"decisions">>
  readonly ended: Array<Told<"ended">>
  readonly close: () => void
}

/** SQLITE_BUSY */
const busy = 5

/** Where files are that need not survive a power cut. */
export const fastDirectory = Fs.existsSync("/dev/shm") ? "/dev/shm" : Os.tmpdir()

/** Makes worlds, each with a database of its own. */
export interface Worlds {
  readonly make: (options?: { readonly empty?: boolean }) => World
  readonly close: () => void
}

/** A connection like the one that `SqliteStore` opens, but for the disk, which no killed process can lose. */
const connect = (filename: string): Effect.Effect<SqlClient.SqlClient, never, Scope.Scope> =>
  SqliteClient.make({ filename }).pipe(
    Effect.tap((sql) =>
      Effect.all([sql`PRAGMA busy_timeout = 0`, sql`PRAGMA synchronous = OFF`]).pipe(Effect.orDie)
    ),
    Effect.provide(Reactivity.layer)
  )

/** Worlds on SQLite files. */
export const sqlite = async (): Promise<Worlds> => {
  const directory = Fs.mkdtempSync(Path.join(fastDirectory, "fermata-crash-"))
  const template = Path.join(directory, "template.db")
  await Effect.runPromise(
    Effect.scoped(
      Effect.gen(function* () {
        const sql = yield* connect(template)
        yield* SqlRunStore.make().pipe(Effect.provideService(SqlClient.SqlClient, sql))
        yield* sql`PRAGMA wal_checkpoint(TRUNCATE)`
      })
    )
  )
  let count = 0
  return {
    make: ({ empty = false } = {}) => {
      const file = Path.join(directory, `${++count}.db`)
      if (!empty) Fs.copyFileSync(template, file)
      let control: DatabaseSync | undefined
      const database = () => (control ??= new DatabaseSync(file))
      return {
        ...blank(),
        open: connect(file),
        expireLeases: () =>
          unlessBusy(() => {
            const known = database().prepare("SELECT 1 FROM sqlite_master WHERE name = 'fermata_runs'").get()
            if (known === undefined) return
            database().exec("UPDATE fermata_runs SET lease_until = 0 WHERE lease_until IS NOT NULL")
          }),
        execute: (statement, parameters) => {
          unlessBusy(() =>
            database()
              .prepare(statement)
              .run(...parameters)
          )
        },
        damage: () => {
          const [row] = database().prepare("PRAGMA integrity_check").all()
          const said = String(row?.["integrity_check"])
          return said === "ok" ? undefined : said
        },
        close: () => {
          control?.close()
          for (const end of ["", "-wal", "-shm"]) Fs.rmSync(file + end, { force: true })
        }
      }
    },
    close: () => Fs.rmSync(directory, { recursive: true, force: true })
  }
}

/** Writes, unless another connection does; then false. */
const unlessBusy = (write: () => unknown): boolean => {
  try {
    write()
    return true
  } catch (error) {
    if (error instanceof Error && "errcode" in error && (Number(error.errcode) & 0xff) === busy) return false
    throw error
  }
}

const blank = () => ({
  clock: SimulatedClock.make(),
  effects: [],
  reconciled: [],
  appended: [],
  decisions: [],
  ended: []
})
