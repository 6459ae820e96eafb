import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import { agent, approve, createFermata, isRunStoreError, tool } from "@fermata/node"
import { RunStore, SqlRunStore } from "@fermata/sdk/store"
import { FaultySqlClient } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { z } from "zod"
import { stepOf } from "../../../scripts/internal/effort.ts"
import * as SqliteClient from "../src/internal/sqlite/client.ts"
import { model, program } from "./fixtures/stores/agents.ts"
import { temporaryFile } from "./temporaryStore.ts"

const folder = join(import.meta.dirname, "fixtures/stores")
const frozen = readdirSync(folder).filter((name) => name.endsWith(".sql"))

/** Thawed stores by name: copying a file is faster than creating its tables. */
const thawed = new Map<string, Buffer>()

const thaw = (name: string, filename: string) => {
  const known = thawed.get(name)
  if (known !== undefined) return writeFileSync(filename, known)
  const database = new DatabaseSync(filename)
  database.exec(readFileSync(join(folder, name), "utf8"))
  database.close()
  thawed.set(name, readFileSync(filename))
}

/** A store that an earlier version wrote, opened by a program of this version. */
const opened = (name: string) =>
  Effect.gen(function* () {
    const filename = yield* temporaryFile
    thaw(name, filename)
    const { agents, effects } = program()
    const fermata = yield* Effect.acquireRelease(
      Effect.promise(() => createFermata({ agents, model: model(), store: filename, by: "bob" })),
      (fermata) => Effect.promise(() => fermata.close())
    )
    return { effects, fermata, filename }
  })

const statuses = {
  approval: "held",
  budget: "held",
  cancelled: "cancelled",
  completed: "completed",
  decided: "held",
  left: "running",
  question: "held",
  second: "completed",
  "sub-agent": "held"
}

describe.each(frozen)("a store that an earlier version wrote: %s", (name) => {
  it.live("exports archives that another store imports with the same states and pending requests", () =>
    Effect.gen(function* () {
      const { fermata } = yield* opened(name)
      const { agents } = program()
      for (const { runId, status } of yield* Effect.promise(() => fermata.runs())) {
        if (status === "running") continue
        const archive = yield* Effect.promise(() => fermata.exportRun(runId))
        // As an earlier version wrote it: without the count of events.
        const older = {
          ...archive,
          runs: archive.runs.map((run) => ({
            ...run,
            revision: undefined,
            ...(run.since === undefined ? {} : { since: { ...run.since, revision: undefined } })
          }))
        }
        for (const given of [archive, older]) {
          const other = yield* Effect.promise(() =>
            createFermata({ agents, model: model(), store: ":memory:", by: "bob" })
          )
          yield* Effect.promise(async () => {
            assert.strictEqual(await other.importRun(given), runId)
            assert.deepStrictEqual(await other.pending({ runId }), await fermata.pending({ runId }))
            assert.deepStrictEqual(await other.state(runId), await fermata.state(runId))
            await other.close()
          })
        }
      }
    }).pipe(Effect.scoped)
  )

  it.live("lists every run and open request, and every run can be read", () =>
    Effect.gen(function* () {
      const { fermata } = yield* opened(name)
      const runs = yield* Effect.promise(() => fermata.runs())
      assert.deepStrictEqual(
        Object.fromEntries(runs.map(({ runId, status }) => [String(runId), String(status)])),
        statuses
      )
      const pending = yield* Effect.promise(() => fermata.pending())
      assert.deepStrictEqual(pending.map(({ request, runId }) => `${runId}: ${request._tag}`).toSorted(), [
        "approval: approval",
        "budget: limit",
        "decided: approval",
        "question: question",
        "sub-agent: approval"
      ])
      for (const { runId, status } of runs) {
        assert.strictEqual((yield* Effect.promise(() => fermata.state(runId))).status, status)
        assert.include((yield* Effect.promise(() => fermata.explain(runId))).text, runId)
      }
    }).pipe(Effect.scoped)
  )

  it.live("completes all runs after all requests are decided, each effect once", () =>
    Effect.gen(function* () {
      const { effects, fermata } = yield* opened(name)
      yield* Effect.promise(() => fermata.recover())
      const decide = async () => {
        for (const { request } of await fermata.pending()) {
          const decision =
            request._tag === "question"
              ? ({ _tag: "answer", answer: "that one" } as const)
              : request._tag === "limit"
                ? ({ _tag: "topUp", limit: 5 } as const)
                : request._tag === "inDoubt"
                  ? ({ _tag: "supply", result: "it happened" } as const)
                  : ({ _tag: "approve" } as const)
          await fermata.decide(request, decision)
        }
        return fermata.recover()
      }
      while ((yield* Effect.promise(decide)).length > 0);
      const runs = yield* Effect.promise(() => fermata.runs())
      assert.deepStrictEqual(
        runs.filter(({ status }) => status !== "completed").map(({ runId }) => runId as string),
        ["cancelled"]
      )
      // The process that died may have made the note of the run `left`: it is not made again.
      assert.deepStrictEqual(effects.toSorted(), ["pay 10", "pay 7", "pay 8", "pay 9"])
      const next = yield* Effect.promise(() =>
        fermata.runPrompt("clerk", "the third of its session", { sessionId: "long" })
      )
      assert.strictEqual(next.status, "completed")
      assert.strictEqual(next.state.sessionUsage.turns, 3)
    }).pipe(Effect.scoped)
  )

  it.live(
    "opens with all its runs after a crash or disk error at any statement of its migration",
    () =>
      Effect.gen(function* () {
        const open = (filename: string, plan: FaultySqlClient.Plan) =>
          Effect.gen(function* () {
            const scope = yield* Scope.make()
            const connect = SqliteClient.make({ filename }).pipe(Scope.provide(scope))
            const faulty = FaultySqlClient.make(yield* connect, plan)
            const exit = yield* SqlRunStore.make().pipe(
              Effect.provideService(SqlClient.SqlClient, faulty.client),
              Effect.flatMap((store) => store.list()),
              Effect.exit
            )
            const statements = faulty.statements()
            faulty.crash()
            yield* Scope.close(scope, Exit.void)
            return { exit, statements }
          }).pipe(Effect.provide(Layer.fresh(Reactivity.layer)))

        const whole = yield* temporaryFile
        thaw(name, whole)
        const { statements } = yield* open(whole, () => "pass")
        assert.isAbove(statements, 4)
        for (let number = 1; number <= statements; number += stepOf(2)) {
          // A crash after a statement equals one before the next.
          const last = number === statements ? (["crashAfter"] as const) : []
          for (const fault of ["crashBefore", number % 2 === 0 ? "full" : "ioError", ...last] as const) {
            const filename = yield* temporaryFile
            thaw(name, filename)
            yield* open(filename, (statement) => (statement.number === number ? fault : "pass"))
            const { exit } = yield* open(filename, () => "pass")
            assert.isTrue(Exit.isSuccess(exit), `${fault} at statement ${number}`)
            assert.strictEqual(Exit.isSuccess(exit) ? exit.value.length : 0, Object.keys(statuses).length)
          }
        }
      }).pipe(Effect.scoped),
    300_000
  )

  it.live("accepts messages and forks, and refuses a second run at a position of a session", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      thaw(name, filename)
      const client = Layer.effect(SqlClient.SqlClient, SqliteClient.make({ filename }))
      yield* Effect.gen(function* () {
        const store = yield* RunStore.RunStore
        const message = { messageId: "m1", content: [{ _tag: "text", text: "hello" }] } as const
        assert.deepStrictEqual((yield* store.load("approval" as never)).messages, [])
        yield* store.send("approval" as never, message)
        assert.deepStrictEqual(
          (yield* store.ready()).flatMap(({ reason, runId }) => (reason === "message" ? [`${runId}`] : [])),
          ["approval"]
        )
        const over = yield* Effect.flip(store.send("second" as never, message))
        assert.strictEqual(over._tag, "RunEnded")

        const start = Effect.fnUntraced(function* (runId: string, sessionId: string, after?: string) {
          const revision = after === undefined ? undefined : (yield* store.head(after as never)).revision
          return yield* store.create({
            runId: runId as never,
            sessionId: sessionId as never,
            agent: "clerk",
            events: [{ _tag: "message.queued", at: 1, content: message.content }],
            status: "running",
            owner: "me",
            ttl: "1 minute",
            ...(revision === undefined ? {} : { parent: { runId: after as never, revision } })
          })
        })
        for (const after of [undefined, "completed"]) {
          const busy = yield* Effect.flip(start("third", "long", after))
          assert.strictEqual(busy._tag, "SessionBusy")
        }
        yield* start("fork", "other", "completed")
        assert.strictEqual((yield* Effect.flip(start("root", "other")))._tag, "SessionBusy")
        yield* start("third", "long", "second")
        assert.strictEqual((yield* store.latest("long" as never))?.runId as string, "third")
      }).pipe(Effect.provide(SqlRunStore.layer.pipe(Layer.provide(client), Layer.provide(Reactivity.layer))))
    }).pipe(Effect.scoped)
  )

  it.live(
    "accepts a decision from a program that was open before another one opened it and resumes the run",
    () =>
      Effect.gen(function* () {
        const first = yield* opened(name)
        const { agents, effects } = program()
        const second = yield* Effect.acquireRelease(
          Effect.promise(() => createFermata({ agents, model: model(), store: first.filename, by: "eve" })),
          (fermata) => Effect.promise(() => fermata.close())
        )
        const [waiting] = yield* Effect.promise(() => first.fermata.pending({ runId: "approval" as never }))
        yield* Effect.promise(() => first.fermata.decide(waiting!, { _tag: "approve" }))
        const done = yield* Effect.promise(() => second.resume("approval"))
        assert.strictEqual(done.status, "completed")
        assert.deepStrictEqual([...first.effects, ...effects], ["pay 7"])
      }).pipe(Effect.scoped)
  )
})

describe("an approval request that an earlier version opened", () => {
  it.live("is opened again when the body would get other arguments than were shown", () =>
    Effect.gen(function* () {
      for (const name of frozen) {
        const filename = yield* temporaryFile
        thaw(name, filename)
        const ran: Array<unknown> = []
        // Earlier versions showed arguments as the model wrote them, without the schema's defaults.
        const pay = tool("pay", {
          parameters: z.object({ amount: z.number(), to: z.string().default("eve") }),
          handler: (args) => {
            ran.push(args)
            return "paid"
          }
        })
        const fermata = yield* Effect.acquireRelease(
          Effect.promise(() =>
            createFermata({
              agents: [agent("clerk", { tools: [pay] })],
              model: model(),
              store: filename,
              by: "bob"
            })
          ),
          (fermata) => Effect.promise(() => fermata.close())
        )
        const asked = async () => {
          const [waiting] = await fermata.pending({ runId: "approval" })
          return waiting?.request._tag === "approval" ? waiting.request : assert.fail("nothing is pending")
        }
        yield* Effect.promise(async () => {
          const first = await asked()
          assert.deepStrictEqual(first.arguments, { amount: 7 })
          await fermata.decide(first, approve())
          assert.strictEqual((await fermata.resume("approval")).status, "interrupted")
          assert.deepStrictEqual(ran, [])
          const second = await asked()
          assert.deepStrictEqual(second.arguments, { amount: 7, to: "eve" })
          await fermata.decide(second, approve())
          assert.strictEqual((await fermata.resume("approval")).status, "completed")
          assert.deepStrictEqual(ran, [{ amount: 7, to: "eve" }])
        })
      }
    }).pipe(Effect.scoped)
  )
})

describe("a store that a newer version wrote", () => {
  it.live("is refused before anything is written", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      thaw(frozen.at(-1)!, filename)
      const database = new DatabaseSync(filename)
      database.exec("INSERT INTO fermata_schema VALUES (99, 1)")
      const before = database.prepare("SELECT count(*) AS n FROM sqlite_master").get()
      const error = yield* Effect.promise(() =>
        createFermata({ agents: program().agents, model: model(), store: filename }).then(
          () => undefined,
          (error: unknown) => error
        )
      )
      assert.isTrue(isRunStoreError(error))
      assert.include(String(error), "written by a newer version of Fermata")
      assert.deepStrictEqual(database.prepare("SELECT count(*) AS n FROM sqlite_master").get(), before)
      database.close()
    }).pipe(Effect.scoped)
  )

  it.live("keeps a journal with an unknown event unchanged, and lists all runs", () =>
    Effect.gen(function* () {
      const { fermata, filename } = yield* opened(frozen.at(-1)!)
      const database = new DatabaseSync(filename)
      database.exec(
        `UPDATE fermata_journal SET events = replace(events, '"run.held"', '"run.suspended"') WHERE run_id = 'approval'`
      )
      const rows = () => JSON.stringify(database.prepare("SELECT * FROM fermata_journal").all())
      const before = rows()
      const error = yield* Effect.promise(() =>
        fermata.resume("approval").then(
          () => undefined,
          (error: unknown) => error
        )
      )
      assert.isTrue(isRunStoreError(error))
      assert.include(String(error), "the journal of approval at revision")
      assert.strictEqual(rows(), before)
      assert.strictEqual((yield* Effect.promise(() => fermata.runs())).length, 9)
      database.close()
    }).pipe(Effect.scoped)
  )
})

describe("a lease", () => {
  it.effect("is timed by the clock of the database, not by that of the process", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      thaw(frozen.at(-1)!, filename)
      yield* Effect.gen(function* () {
        const store = yield* RunStore.RunStore
        const runId = "approval" as never
        // The clock of this process stands at 1970.
        const lease = yield* store.claim({ runId, owner: "one", ttl: "1 hour" })
        assert.isAbove(lease.until, Date.now())
        const busy = yield* Effect.flip(store.claim({ runId, owner: "two", ttl: "1 hour" }))
        assert.strictEqual(busy._tag, "RunBusy")
      }).pipe(
        Effect.provide(
          SqlRunStore.layer.pipe(
            Layer.provide(Layer.effect(SqlClient.SqlClient, SqliteClient.make({ filename }))),
            Layer.provide(Reactivity.layer)
          )
        )
      )
    }).pipe(Effect.scoped)
  )
})

describe("a session that forked before forks were refused", () => {
  it.live("becomes one line, and its other runs become sessions of their own with their requests", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      thaw("tables-1.sql", filename)
      const database = new DatabaseSync(filename)
      // The run `approval` becomes a second follower of the session's first run.
      database.exec(
        "UPDATE fermata_runs SET session_id = 'long', parent_run_id = 'completed', parent_revision = 3 WHERE run_id = 'approval'"
      )
      database.exec("UPDATE fermata_requests SET session_id = 'long' WHERE run_id = 'approval'")
      database.close()
      const { agents } = program()
      const fermata = yield* Effect.acquireRelease(
        Effect.promise(() => createFermata({ agents, model: model(), store: filename })),
        (fermata) => Effect.promise(() => fermata.close())
      )
      const sessions = new Map(
        (yield* Effect.promise(() => fermata.runs())).map(({ runId, sessionId }) => [
          String(runId),
          String(sessionId)
        ])
      )
      assert.strictEqual(sessions.get("second"), "long")
      assert.strictEqual(sessions.get("approval"), "long.fork.approval")
      const [asked] = yield* Effect.promise(() => fermata.pending({ runId: "approval" as never }))
      assert.strictEqual<string | undefined>(asked?.sessionId, "long.fork.approval")
      const third = yield* Effect.promise(() =>
        fermata.runPrompt("clerk", "the third of its session", { sessionId: "long" })
      )
      assert.strictEqual<string | undefined>(third.state.parent?.runId, "second")
    }).pipe(Effect.scoped)
  )
})

describe("a journal with a gap", () => {
  it.live("is refused when one of its batches is missing", () =>
    Effect.gen(function* () {
      for (const which of ["0", "1"]) {
        const { fermata, filename } = yield* opened(frozen.at(-1)!)
        const database = new DatabaseSync(filename)
        const { changes } = database
          .prepare(`DELETE FROM fermata_journal WHERE run_id = 'approval' AND sequence = ${which}`)
          .run()
        database.close()
        assert.strictEqual(changes, 1)
        const error = yield* Effect.promise(() =>
          fermata.state("approval").then(
            () => undefined,
            (error: unknown) => error
          )
        )
        assert.include(String(error), "the journal of approval has a gap")
      }
    }).pipe(Effect.scoped)
  )

  it.live("is refused when the run that it builds on is missing, or only that run's journal", () =>
    Effect.gen(function* () {
      for (const table of ["fermata_journal", "fermata_runs"]) {
        const { fermata, filename } = yield* opened(frozen.at(-1)!)
        const [first, second] = yield* Effect.promise(async () => [
          await fermata.runPrompt("clerk", "one", { sessionId: "chat" }),
          await fermata.runPrompt("clerk", "two", { sessionId: "chat" })
        ])
        const database = new DatabaseSync(filename)
        database.prepare(`DELETE FROM ${table} WHERE run_id = ?`).run(first!.runId)
        database.close()
        const error = yield* Effect.promise(() =>
          fermata.state(second!.runId).then(
            () => undefined,
            (error: unknown) => error
          )
        )
        assert.include(String(error), "has a gap")
      }
    }).pipe(Effect.scoped)
  )
})
