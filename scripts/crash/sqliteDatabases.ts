/**
 * SQLite databases for simulated processes: each is a file.
 */
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { SqliteStore } from "@fermata/node"
import { SqlRunStore } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import * as Reactivity from "effect/reactivity/Reactivity"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqliteClient from "../../packages/node/src/internal/sqlite/client.ts"
import { startReader } from "./fileReader.ts"
import {
  countUnused,
  type Databases,
  endLeases,
  everyStatus,
  lostRows,
  runTables,
  startingBatches
} from "./world.ts"

/** SQLITE_BUSY */
const busy = 5

/** The directory for files that need not survive a power cut. */
export const fastDirectory = Fs.existsSync("/dev/shm") ? "/dev/shm" : Os.tmpdir()

/** A connection like that of `SqliteStore`, except that it does not wait for the disk, which a killed process cannot lose. */
const connect = (filename: string): Effect.Effect<SqlClient.SqlClient, never, Scope.Scope> =>
  SqliteClient.make({
    filename,
    settings: "PRAGMA busy_timeout = 0; PRAGMA synchronous = OFF;"
  }).pipe(Effect.provide(Reactivity.layer))

/** Makes SQLite files. */
export const sqliteDatabases = async (): Promise<Databases> => {
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
  const reader = startReader()
  let count = 0
  return {
    make: (_, { empty }) =>
      Effect.sync(() => {
        const file = Path.join(directory, `${++count}.db`)
        const files = ["", "-wal", "-shm"].map((end) => file + end)
        if (!empty) Fs.copyFileSync(template, file)
        let ended = 0
        let control: DatabaseSync | undefined
        const database = () => (control ??= new DatabaseSync(file))
        return {
          open: connect(file),
          expireLeases: unlessBusy(() => {
            const known = database().prepare("SELECT 1 FROM sqlite_master WHERE name = 'fermata_runs'").get()
            if (known === undefined) return
            database().exec(endLeases(++ended))
          }),
          batches: Effect.sync(() =>
            database()
              .prepare(startingBatches)
              .all()
              .map(({ events }) => String(events))
          ),
          statuses: Effect.sync(() => {
            const rows = database().prepare(everyStatus).all()
            return new Map(rows.map(({ run_id, status }) => [String(run_id), String(status)]))
          }),
          execute: (statement, parameters) =>
            Effect.asVoid(
              unlessBusy(() =>
                database()
                  .prepare(statement)
                  .run(...parameters)
              )
            ),
          unusedContents: Effect.sync(() => Number(database().prepare(countUnused).get()?.["count"])),
          damage: Effect.suspend(() => {
            const lost = runTables.filter((table) => database().prepare(lostRows(table)).all().length > 0)
            return lost.length > 0
              ? Effect.succeed(`rows of no run in ${lost.join(" and ")}`)
              : Effect.map(Effect.orDie(SqliteStore.check({ filename: file })), ({ problems }) => problems[0])
          }),
          dump: Effect.promise(() => reader.read(files)),
          activity: () => "idle",
          close: Effect.sync(() => {
            control?.close()
            for (const file of files) Fs.rmSync(file, { force: true })
          })
        }
      }),
    worlds: 1,
    close: async () => {
      await reader.close()
      Fs.rmSync(directory, { recursive: true, force: true })
    }
  }
}

/** Writes, unless another connection does; then returns false. */
const unlessBusy = (write: () => unknown): Effect.Effect<boolean> =>
  Effect.sync(() => {
    try {
      write()
      return true
    } catch (error) {
      if (error instanceof Error && "errcode" in error && (Number(error.errcode) & 0xff) === busy) {
        return false
      }
      throw error
    }
  })
