import { assert, describe, it } from "@effect/vitest"
import { agent, approve, createFermata, tool } from "@fermata/node"
import type { Id } from "@fermata/sdk"
import { RunStore, SqlRunStore } from "@fermata/sdk/store"
import { RunStoreContract, ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import { temporaryFile } from "../temporaryStore.ts"
import { driver } from "./effectsDriver.ts"

const suite = RunStoreContract.suite({ assert, describe, it })
const store = (filename: string) => Layer.provideMerge(SqlRunStore.layer, driver.layer({ filename }))

suite("Effect's SQLite driver, on a file", Layer.unwrap(Effect.map(temporaryFile, store)))

const create = (store: RunStore.RunStore["Service"], runId: string) =>
  store.create({
    runId: runId as Id.RunId,
    sessionId: `session-${runId}` as Id.SessionId,
    agent: "ops",
    status: "held",
    owner: "me",
    ttl: 0,
    events: [{ _tag: "message.queued", at: 1, content: [] }]
  })

describe("a store over Effect's SQLite driver", () => {
  it.live("keeps every run that two connections to one file store at the same time", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const writer = (name: string) =>
        Effect.gen(function* () {
          const store = yield* RunStore.RunStore
          yield* Effect.forEach(Array.from({ length: 50 }), (_, index) => create(store, `${name}-${index}`))
          return store
        }).pipe(Effect.provide(Layer.fresh(store(filename))))
      yield* Effect.all([writer("a"), writer("b")], { concurrency: "unbounded" })
      const listed = yield* Effect.provide(
        RunStore.RunStore.use((store) => store.list({ limit: 1000 })),
        Layer.fresh(store(filename))
      )
      assert.lengthOf(listed, 100)
    })
  )

  it.effect("commits a message together with the rows of the program, or neither", () =>
    Effect.gen(function* () {
      const runs = yield* RunStore.RunStore
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TABLE orders (id text)`
      const { runId } = yield* create(runs, "a")
      const order = (text: string) =>
        Effect.andThen(
          sql`INSERT INTO orders (id) VALUES (${text})`,
          runs.send(runId, { messageId: text, content: [{ _tag: "text", text }] })
        )
      yield* sql.withTransaction(order("kept"))
      yield* Effect.ignore(sql.withTransaction(Effect.andThen(order("lost"), Effect.fail("no stock"))))
      assert.deepStrictEqual(yield* sql`SELECT id FROM orders`, [{ id: "kept" }])
      const messages = yield* runs.messages(runId)
      assert.deepStrictEqual(
        messages.map(({ messageId }) => messageId),
        ["kept"]
      )
    }).pipe(Effect.provide(store(":memory:")))
  )

  it.live("holds a run that a Fermata with the default store releases from the same file", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const open = (store: Parameters<typeof createFermata>[0]["store"]) =>
        createFermata({
          agents: [agent("ops", { tools: [tool("act", { handler: () => "done" })] })],
          model: ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "act" }] } : "Done."))
            .client,
          ...(store === undefined ? {} : { store })
        })
      yield* Effect.promise(async () => {
        const own = await open(store(filename))
        const held = await own.runPrompt("ops", "go")
        await own.close()
        if (held.status !== "interrupted") return assert.fail(held.status)
        await using fermata = await open(filename)
        await fermata.decide(held.interruptions[0]!, approve())
        assert.strictEqual((await fermata.resume(held.runId)).status, "completed")
      })
    })
  )
})
