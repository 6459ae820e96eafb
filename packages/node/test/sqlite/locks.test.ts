import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { sourceFlags } from "../../../../scripts/internal/sourceFlags.ts"
import { locksOn, noLocks, readLive } from "../locks.ts"
import { openCashier } from "../programs/chargeAgent.ts"
import { temporaryFile } from "../temporaryStore.ts"
import { withStore } from "./fixtures.ts"

const root = join(import.meta.dirname, "../../../..")
const oldest = join(root, "scripts/oldest-node/node_modules/node/bin/node")

/** Both ends of the supported versions: their SQLite versions differ in what happens when a lock is dropped. */
const versions = [
  { name: "the Node of the tests", node: process.execPath, missing: undefined },
  {
    name: "the oldest supported Node",
    node: oldest,
    missing: existsSync(oldest) ? undefined : "npm did not install scripts/oldest-node"
  }
]

const command = (program: string, ...args: ReadonlyArray<string>) => [
  "--no-warnings",
  ...sourceFlags,
  join(import.meta.dirname, "../programs", program),
  ...args
]

/** A process that is driven line by line. It is killed when the scope ends. */
const talk = (node: string, program: string, ...args: ReadonlyArray<string>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = spawn(node, command(program, ...args), { stdio: ["pipe", "pipe", "inherit"] })
      const exited = once(child, "exit")
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
      /** Its next line; log lines of the store are skipped. */
      const next = async (): Promise<string> => {
        const { done, value } = await lines.next()
        if (done === true) throw new Error(`${program} ${args.at(-1)} ended early`)
        return value.startsWith("[") ? next() : value
      }
      return {
        /** Waits for the next line, which must be this one. */
        reaches: (place: string) => Effect.promise(async () => assert.strictEqual(await next(), place)),
        goesOn: Effect.sync(() => void child.stdin.write("go\n")),
        report: Effect.promise(async () => JSON.parse(await next()) as { readonly [key: string]: number }),
        exited: Effect.promise(() => exited),
        kill: Effect.promise(() => {
          child.kill("SIGKILL")
          return exited
        })
      }
    }),
    ({ kill }) => kill
  )

/** Lets a process do all its work; returns its report. */
const finish = Effect.fnUntraced(function* (process: Effect.Success<ReturnType<typeof talk>>) {
  for (const place of ["open", "looked"]) {
    yield* process.reaches(place)
    yield* process.goesOn
  }
  const report = yield* process.report
  yield* process.goesOn
  yield* process.exited
  return report
})

describe("the locks of an open SQLite store", () => {
  for (const { missing, name, node } of versions) {
    it.effect(`stay during every other operation of this process on the file, on ${name}`, ({ skip }) =>
      Effect.gen(function* () {
        const reason = noLocks ?? missing
        if (reason !== undefined) skip(reason)
        const filename = yield* temporaryFile
        const printed = execFileSync(node, command("locksHeld.ts", filename), { encoding: "utf8" })
        const lines = printed.split("\n").filter((line) => line.startsWith("{"))
        const reports = lines.map(
          (line) => JSON.parse(line) as { readonly operation: string; readonly locks: ReadonlyArray<string> }
        )
        assert.isAbove(reports.length, 40)
        const [opened] = reports
        // Shared by SQLite's design: the lock of a reader of the database, and of a user of its log.
        assert.deepStrictEqual(opened, {
          operation: "open",
          locks: ["READ 1073741826-1073742335 on the database", "READ 128-128 on -shm"]
        })
        for (const { locks, operation } of reports.slice(0, -1)) {
          assert.deepStrictEqual(locks, opened?.locks, `after ${operation}`)
        }
        assert.deepStrictEqual(reports.at(-1), { operation: "close", locks: [] })
      })
    )

    it.live(
      `let one of two deciders win, and the approved body run once, after a process opens the file twice, on ${name}`,
      ({ skip }) =>
        Effect.gen(function* () {
          if (missing !== undefined) skip(missing)
          const store = yield* temporaryFile
          const log = `${store}.log`
          writeFileSync(log, "")
          yield* Effect.promise(async () => {
            await using fermata = await openCashier({ store, log, owner: "starter" })
            await fermata.runPrompt("cashier", "Charge the customer.")
          })
          const program = (owner: string, task: string) =>
            talk(node, "secondLook.ts", store, log, owner, task)
          const server = yield* program("server", "looks")
          yield* server.reaches("open")
          yield* server.goesOn
          yield* server.reaches("looked")
          const clerk = yield* program("clerk", "leave")
          yield* finish(clerk)
          yield* server.goesOn
          assert.deepStrictEqual(yield* server.report, { won: 1, tooLate: 0, completed: 1 })
          const late = yield* program("late", "release")
          assert.deepStrictEqual(yield* finish(late), { won: 0, tooLate: 0, completed: 0 })
          yield* server.goesOn
          yield* server.exited
          assert.strictEqual(readFileSync(log, "utf8").trim().split("\n").length, 1)
        }),
      300_000
    )
  }

  it.effect(
    "cannot be dropped by a test: reading the file with node:fs fails while the store is open",
    ({ skip }) =>
      Effect.gen(function* () {
        if (noLocks !== undefined) skip(noLocks)
        const filename = yield* temporaryFile
        yield* withStore(filename, () =>
          Effect.sync(() => {
            const before = locksOn(filename)
            assert.strictEqual(before.length, 2)
            for (const path of [filename, `${filename}-shm`]) {
              assert.throws(() => readFileSync(path), "opens a file that this process has locked")
            }
            assert.isAbove(readLive(filename).length, 0)
            assert.deepStrictEqual(locksOn(filename), before)
          })
        )
        assert.isAbove(readFileSync(filename).length, 0)
      })
  )
})
