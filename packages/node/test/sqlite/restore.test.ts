import { spawn } from "node:child_process"
import { existsSync, readdirSync, statSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { createInterface } from "node:readline"
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import { approve, type Fermata, Id, type Interruption, retry, RunEvent, supply } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { sourceFlags } from "../../../../scripts/internal/sourceFlags.ts"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { effectsIn, openShop } from "../programs/orders.ts"
import { temporaryDirectory, temporaryFile } from "../temporaryStore.ts"
import { foreign, run, said, started, withStore } from "./fixtures.ts"

const program = join(import.meta.dirname, "../programs/orders.ts")

/** A process that works on a store, until the test ends. */
const shopProcess = (store: string, log: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const child = spawn(process.execPath, [...sourceFlags, program, store, log], {
        stdio: ["pipe", "pipe", "inherit"]
      })
      const said: Array<string> = []
      const lines = createInterface({ input: child.stdout })
      const open = new Promise<void>((resolve) => {
        lines.on("line", (line) => {
          said.push(line)
          resolve()
        })
      })
      await open
      return { child, said, order: (line: string) => child.stdin.write(`${line}\n`) }
    }),
    ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
  )

/** Another program that decides, until the test ends. */
const openOffice = (store: string, log: string) =>
  Effect.acquireRelease(
    Effect.promise(() => openShop(store, log)),
    (shop) => Effect.promise(() => shop.close())
  )

/** Polls until the check is true. */
const until = (check: () => boolean | Promise<boolean>) =>
  Effect.repeat(
    Effect.promise(async () => check()),
    { until: (holds) => holds, schedule: Schedule.spaced("5 millis") }
  )

/** A person's decision on a request. */
type Decide = (request: Interruption.Interruption) => ReturnType<typeof retry>

/** Decides all pending requests while `isOpen` holds; returns the idempotency keys of the calls that were in doubt. */
const decideAll = async (office: Fermata.Fermata, isOpen: () => boolean, decision: Decide) => {
  const doubted = new Set<string>()
  while (isOpen()) {
    for (const { request } of await office.pending()) {
      if (!isOpen()) break
      if (request._tag === "inDoubt") doubted.add(request.idempotencyKey)
      await office.decide(request, decision(request), { by: "ann" })
    }
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return doubted
}

/** The error of a promise that is rejected. */
const rejection = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => assert.fail("It was not rejected."),
    (error: Error) => error
  )

/** The ids of the runs in a store. */
const knownIn = (filename: string) =>
  withStore(filename, (store) =>
    Effect.map(store.list({ limit: 1000 }), (heads) => new Set(heads.map(({ runId }) => String(runId))))
  )

/** The keys of the calls that the journals of a store have started. */
const startedIn = (filename: string) =>
  withStore(filename, (store) =>
    Effect.gen(function* () {
      const keys: Array<string> = []
      for (const { runId } of yield* store.list({ limit: 1000 })) {
        for (const outer of yield* store.events(runId)) {
          const { event } = RunEvent.unwrap(outer)
          if (event._tag === "tool.started") keys.push(event.idempotencyKey)
        }
      }
      return keys
    })
  )

describe("SqliteStore.restore", () => {
  it.live(
    "runs no approved call twice without a new decision, though the old processes are still alive",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const [old, backup, fresh, log] = ["old.db", "backup.db", "new.db", "effects"].map((name) =>
          join(directory, name)
        ) as [string, string, string, string]
        writeFileSync(log, "")
        const orders = Array.from({ length: 9 }, (_, index) => `order-${index}`)
        const worker = yield* shopProcess(old, log)
        const office = yield* openOffice(old, log)

        // A backup of runs under way, and many effects after it.
        for (const order of orders.slice(0, 6)) worker.order(order)
        let isOpen = true
        const deciding = decideAll(
          office,
          () => isOpen,
          () => approve()
        ).catch((error: unknown) => error)
        yield* until(() => effectsIn(log).length >= 8)
        yield* SqliteStore.backup({ filename: old, to: backup })
        const before = effectsIn(log).length
        for (const order of orders.slice(6)) worker.order(order)
        yield* until(() => effectsIn(log).length >= before + 10)

        // The old store is fenced while programs work on it.
        yield* SqliteStore.fence({ filename: old })
        isOpen = false
        const refusal = yield* Effect.promise(() => deciding)
        if (refusal instanceof Error) assert.include(refusal.message, "it is fenced")
        const refused = yield* Effect.promise(() => rejection(office.runPrompt("shop", "Send order-99")))
        assert.strictEqual(
          refused.message,
          "The store failed: it is fenced, because a restored copy has replaced it: it can be read and refuses writes. End this process, and start it with the copy."
        )
        // The old process is alive, and its effects are known: they were journaled before the fence.
        worker.order("order-98")
        yield* until(() => worker.said.some((line) => line.startsWith("order-98 failed")))
        assert.isNull(worker.child.exitCode)
        const startedThere = yield* startedIn(old)
        for (const { key } of effectsIn(log)) assert.include(startedThere, key)

        const { doubted } = yield* SqliteStore.restore({ from: backup, to: fresh })
        assert.isAbove(doubted.length, 0)
        const known = yield* knownIn(fresh)
        assert.isBelow(known.size, orders.length)

        const again = yield* shopProcess(fresh, log)
        const newOffice = yield* openOffice(fresh, log)
        // Bodies of the old process may still be running.
        const happened = effectsIn(log)
        const later = happened.slice(before)
        for (const order of orders) if (!known.has(order)) again.order(`${order} again`)
        const isDone = async () =>
          (await newOffice.runs({ status: "completed", limit: 100 })).length === orders.length
        let isOver = false
        const asking = decideAll(
          newOffice,
          () => !isOver,
          (request) => {
            if (request._tag !== "inDoubt") return approve()
            const has = happened.some(({ key }) => key === request.idempotencyKey)
            return has ? supply("It has happened.") : retry()
          }
        )
        yield* until(isDone)
        isOver = true
        const askedAbout = yield* Effect.promise(() => asking)

        const keys = effectsIn(log).map(({ key }) => key)
        assert.deepStrictEqual(keys.toSorted(), [...new Set(keys)].toSorted())
        // Each order charges once, mails twice and posts once.
        assert.strictEqual(keys.length, orders.length * 4)
        for (const { key, what } of later)
          assert.isTrue(askedAbout.has(key), `${what} ${key} was not asked about`)
        const { problems } = yield* SqliteStore.check({ filename: fresh })
        assert.deepStrictEqual(problems, [])
        assert.strictEqual(worker.child.exitCode, null)
      }).pipe(Effect.scoped)
  )

  it.effect("restores a backup with unreadable runs, reports them, and marks all the others", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const to = `${filename}.restored`
      const failed: RunEvent.RunEvent = {
        _tag: "run.failed",
        at: 2,
        failure: { _tag: "WorkersLost", times: 4 }
      }
      yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          yield* started(store, run(1))
          for (const name of [2, 3, 4]) {
            const lease = yield* started(store, run(name))
            const expected = Id.Revision.make((yield* store.head(run(name))).revision)
            yield* store.append({ lease, expected, events: [failed], status: "error" })
          }
        })
      )
      foreign(filename, (database) =>
        database.exec(`UPDATE fermata_journal SET events = '[{}]'
            WHERE run_id = 'run_2';
          UPDATE fermata_runs SET epoch = 9223372036854775807 WHERE run_id = 'run_3'`)
      )
      const { damaged, doubted } = yield* SqliteStore.restore({ from: filename, to })
      assert.deepStrictEqual(doubted.toSorted(), [run(1), run(4)])
      assert.deepStrictEqual(damaged.map(({ runId }) => runId).toSorted(), ["run_2", "run_3"])
      for (const { problem } of damaged) assert.include(problem, "damaged")
      yield* withStore(to, (store) =>
        Effect.gen(function* () {
          assert.include(
            (yield* store.events(run(4))).map(({ _tag }) => _tag),
            "run.restored"
          )
          assert.strictEqual((yield* Effect.flip(store.load(run(2))))._tag, "RunStoreError")
          // No process holds it.
          assert.isUndefined((yield* store.head(run(2))).lease)
        })
      )
    })
  )

  it.effect(
    "leaves the backup unchanged, and creates no file when the target exists or the source is no store",
    () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        const to = `${filename}.restored`
        const missing = yield* Effect.flip(SqliteStore.restore({ from: filename, to }))
        assert.strictEqual(
          missing.message,
          "The store cannot be opened: there is no such file. Check its name."
        )
        yield* withStore(filename, (store) => started(store, run(1)))
        const before = { size: statSync(filename).size, modified: statSync(filename).mtimeMs }
        const { doubted } = yield* SqliteStore.restore({ from: filename, to })
        assert.deepStrictEqual(doubted, [run(1)])
        const after = { size: statSync(filename).size, modified: statSync(filename).mtimeMs }
        assert.deepStrictEqual(after, before)
        const taken = yield* Effect.flip(SqliteStore.restore({ from: filename, to }))
        assert.strictEqual(taken._tag, "BackupExists")
        const folder = yield* Effect.flip(
          SqliteStore.restore({ from: filename, to: join(dirname(filename), "none", "new.db") })
        )
        assert.include(folder.message, "the folder of the new file does not exist or cannot be written")
        writeFileSync(`${filename}.diary`, "Dear diary, ".repeat(1000))
        const diary = yield* Effect.flip(SqliteStore.restore({ from: `${filename}.diary`, to: `${to}.2` }))
        assert.include(diary.message, "not a database")
        assert.isFalse(existsSync(`${to}.2`))
        assert.deepStrictEqual(readdirSync(dirname(filename)).toSorted(), [
          "runs.db",
          "runs.db.diary",
          "runs.db.restored"
        ])
      })
  )
})

describe("SqliteStore.fence", () => {
  it.effect("refuses every write of programs that have the store open, and lets them read", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          const lease = yield* started(store, run(1))
          const { revision } = yield* store.head(run(1))
          yield* Effect.flatMap(started(store, run(3)), store.release)
          yield* SqliteStore.fence({ filename })
          yield* SqliteStore.fence({ filename })
          const append = { lease, expected: revision, events: [said("more")], status: "running" } as const
          for (const write of [
            store.append(append),
            store.park(append),
            store.renew(lease, "1 hour"),
            store.release(lease),
            store.requestCancel(run(1), "enough"),
            store.claim({ runId: run(3), owner: "me", ttl: "1 hour" }),
            store.remove(run(3)),
            started(store, run(2))
          ]) {
            const refused = yield* Effect.flip<
              unknown,
              { readonly _tag: string; readonly message: string },
              never
            >(write)
            assert.include(refused.message, "it is fenced")
          }
          assert.strictEqual((yield* store.head(run(1))).revision, revision)
        })
      )
      assert.strictEqual(
        yield* withStore(filename, (store) => Effect.map(store.list(), ({ length }) => length)),
        2
      )
      const { problems } = yield* SqliteStore.check({ filename })
      assert.notInclude(problems.join(), "fence")
      // A store that is restored from it takes writes again.
      yield* SqliteStore.restore({ from: filename, to: `${filename}.restored` })
      yield* withStore(`${filename}.restored`, (store) => started(store, run(2)))
    })
  )

  it.effect("refuses a file that is not a store", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const missing = yield* Effect.flip(SqliteStore.fence({ filename }))
      assert.include(missing.message, "there is no such file")
      const other = new DatabaseSync(filename)
      other.exec("CREATE TABLE diary (day text)")
      other.close()
      const { message } = yield* Effect.flip(SqliteStore.fence({ filename }))
      assert.strictEqual(message, "The store cannot be opened: it is not a store of Fermata. Check its name.")
    })
  )
})
