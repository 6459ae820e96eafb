/**
 * What a store promises inside a transaction that the caller began with the store's own client.
 */
import { assert, describe, it } from "@effect/vitest"
import {
  Agent,
  decideStored,
  type Id,
  recover,
  Runtime,
  runPromptStored,
  sendMessage,
  Tool
} from "@fermata/sdk"
import { submitPrompt } from "@fermata/sdk"
import { RunStore, SqlRunStore } from "@fermata/sdk/store"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"

/** The store and a table of orders behind one client. */
export const overClient = <E>(
  client: Layer.Layer<SqlClient.SqlClient, E>,
  options: SqlRunStore.Options = {}
) =>
  Layer.effectDiscard(
    Effect.flatMap(SqlClient.SqlClient, (sql) => sql`CREATE TABLE IF NOT EXISTS orders (id text)`)
  ).pipe(Layer.provideMerge(SqlRunStore.layerWith(options)), Layer.provideMerge(client), Layer.fresh)

export const refund = Effect.gen(function* () {
  const model = ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "refund" }] } : "done"))
  let ran = 0
  const tool = Tool.make("refund", { handler: () => void (ran += 1) })
  const runtime = yield* Effect.provide(
    Runtime.make({ agent: Agent.make("a", { tools: [tool] }) }),
    model.layer
  )
  return { model, ran: () => ran, runtime }
})

/** The caller's own row. */
export const order = (id: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql`INSERT INTO orders VALUES (${id})`)

export const orders = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.map(sql<{ readonly id: string }>`SELECT id FROM orders ORDER BY id`, (rows) =>
    rows.map(({ id }) => id)
  )
)

export const transact = <A, E, R>(body: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(body))

/** A run that is held on its approval request. */
export const held = Effect.gen(function* () {
  const made = yield* refund
  const result = yield* runPromptStored(made.runtime, { prompt: "go" })
  if (result.status !== "interrupted") return yield* Effect.die(result.status)
  const [request] = result.interruptions
  const decision = { _tag: "approve", requestId: request!.requestId, by: "ana" } as const
  return { ...made, decision, runId: result.runId }
})

const runId = "order-1" as Id.RunId

const transactOnce = () => transact(order("once"))

/** `connections` is the number of connections of the client. */
export const joinedSuite = <E>(
  name: string,
  layer: Layer.Layer<RunStore.RunStore | SqlClient.SqlClient, E>,
  connections = 1
) => {
  const test = <E2>(
    title: string,
    body: () => Effect.Effect<void, E2, RunStore.RunStore | SqlClient.SqlClient>
  ) => it.effect(title, () => Effect.provide(body(), layer))

  describe(`a transaction of the caller, ${name}`, () => {
    test("commits a submitted run together with the caller's row, and a worker drives it", () =>
      Effect.gen(function* () {
        const { runtime } = yield* refund
        const { status } = yield* transact(
          Effect.andThen(order("1"), submitPrompt(runtime, { prompt: "go", runId }))
        )
        assert.strictEqual(status, "running")
        const [driven] = yield* recover([runtime])
        assert.deepInclude(driven, { runId, status: "held" })
        assert.deepStrictEqual(yield* orders, ["1"])
      }))

    test("leaves neither the run nor the row after a rollback", () =>
      Effect.gen(function* () {
        const { runtime } = yield* refund
        const store = yield* RunStore.RunStore
        const body = Effect.andThen(order("1"), submitPrompt(runtime, { prompt: "go", runId }))
        const failing = Effect.andThen(body, Effect.fail("no"))
        assert.strictEqual(yield* Effect.flip(transact(failing)), "no")
        assert.deepStrictEqual(yield* orders, [])
        assert.deepStrictEqual(yield* store.list(), [])
        // The rolled back run leaves its id and its session free.
        yield* submitPrompt(runtime, { prompt: "go", runId })
      }))

    test("commits or undoes a decision and a message", () =>
      Effect.gen(function* () {
        const { decision, ran, runId, runtime } = yield* held
        const store = yield* RunStore.RunStore
        const both = Effect.andThen(
          decideStored([runtime], decision),
          sendMessage(runId, "hurry", { messageId: "m" })
        )
        yield* Effect.ignore(transact(Effect.andThen(both, Effect.fail("no"))))
        assert.strictEqual((yield* store.pending()).length, 1)
        assert.deepStrictEqual(yield* store.messages(runId), [])
        yield* transact(Effect.andThen(order("1"), both))
        assert.strictEqual((yield* store.pending()).length, 0)
        yield* recover([runtime])
        assert.strictEqual(ran(), 1)
      }))

    test("sees its own writes, and submits into a session that it reads", () =>
      Effect.gen(function* () {
        const model = ScriptedModel.make(["one", "two"])
        const runtime = yield* Effect.provide(Runtime.make({ agent: Agent.make("a") }), model.layer)
        const store = yield* RunStore.RunStore
        const sessionId = "s" as Id.SessionId
        yield* runPromptStored(runtime, { prompt: "1", sessionId })
        const other = yield* Effect.provide(Runtime.make({ agent: Agent.make("a") }), model.layer)
        yield* transact(
          Effect.gen(function* () {
            yield* submitPrompt(other, { prompt: "2", runId, sessionId })
            assert.strictEqual((yield* store.load(runId)).head.status, "running")
            assert.strictEqual((yield* store.latest(sessionId))?.runId, runId)
          })
        )
        yield* recover([runtime])
        assert.strictEqual((yield* store.head(runId)).status, "completed")
      }))

    test("goes on after an operation that was refused, which left nothing", () =>
      Effect.gen(function* () {
        const { decision, runId, runtime } = yield* held
        yield* decideStored([runtime], decision)
        yield* transact(
          Effect.gen(function* () {
            const late = yield* Effect.flip(decideStored([runtime], { ...decision, _tag: "deny", by: "ben" }))
            assert.strictEqual(late._tag, "AlreadyDecided")
            const taken = yield* Effect.flip(submitPrompt(runtime, { prompt: "go", runId }))
            assert.strictEqual(taken._tag, "RunExists")
            yield* order("1")
          })
        )
        assert.deepStrictEqual(yield* orders, ["1"])
      }))

    test("takes operations that run at the same time one after the other", () =>
      Effect.gen(function* () {
        const { runId } = yield* held
        const store = yield* RunStore.RunStore
        const ids = ["a", "b", "c"]
        yield* transact(
          Effect.forEach(ids, (messageId) => sendMessage(runId, messageId, { messageId }), {
            concurrency: "unbounded"
          })
        )
        assert.deepStrictEqual(
          (yield* store.messages(runId)).map(({ messageId }) => messageId).toSorted(),
          ids
        )
      }))

    test("notifies waiting processes after the commit and not before, and never of what is rolled back", () =>
      Effect.gen(function* () {
        const { runId } = yield* held
        const store = yield* RunStore.RunStore
        let notices = 0
        const counting = yield* Stream.runForEach(store.changes, () =>
          Effect.sync(() => (notices += 1))
        ).pipe(Effect.forkChild({ startImmediately: true }))
        const settle = Effect.forEach(Array.from({ length: 20 }), () => Effect.yieldNow)
        yield* settle
        const before = notices
        yield* Effect.ignore(transact(Effect.andThen(sendMessage(runId, "lost"), Effect.fail("no"))))
        yield* settle
        assert.strictEqual(notices, before)
        yield* transact(
          Effect.gen(function* () {
            yield* sendMessage(runId, "kept")
            yield* settle
            assert.strictEqual(notices, before)
          })
        )
        yield* settle
        assert.strictEqual(notices, before + 1)
        yield* Fiber.interrupt(counting)
      }))

    test("does not keep an operation from being interrupted that waits for its connection", () =>
      Effect.gen(function* () {
        const { list } = yield* RunStore.RunStore
        const end = yield* Deferred.make<void>()
        const holding = yield* Effect.forEach(Array.from({ length: connections }), () =>
          Effect.gen(function* () {
            const begun = yield* Deferred.make<void>()
            const body = Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(end))
            return yield* Effect.tap(Effect.forkChild(transact(body)), Deferred.await(begun))
          })
        )
        const listing = Effect.forkChild(list(), { startImmediately: true })
        const waiting = yield* Effect.replicateEffect(listing, 5)
        yield* Fiber.interruptAll(waiting)
        const goesOn = yield* listing
        yield* Deferred.succeed(end, undefined)
        yield* Fiber.joinAll(holding)
        assert.deepStrictEqual(yield* Fiber.join(goesOn), [])
        // The interrupted operations keep no connection.
        yield* Effect.all(Array.from({ length: connections }, transactOnce), { concurrency: "unbounded" })
      }))

    test("refuses to drive a run, before the model is called", () =>
      Effect.gen(function* () {
        const { decision, ran, runId, runtime } = yield* held
        const fresh = yield* refund
        const store = yield* RunStore.RunStore
        const refused = yield* Effect.flip(transact(runPromptStored(fresh.runtime, { prompt: "go" })))
        assert.strictEqual(refused._tag === "RunStoreError" && refused.reason._tag, "InTransaction")
        assert.strictEqual(fresh.model.requests.length, 0)
        yield* decideStored([runtime], decision)
        const again = yield* Effect.flip(transact(runPromptStored(runtime, { runId })))
        assert.strictEqual(again._tag === "RunStoreError" && again.reason._tag, "InTransaction")
        assert.strictEqual(ran(), 0)
        assert.strictEqual((yield* store.list()).length, 1)
      }))

    test("outlives nothing: an interrupted transaction leaves neither a run nor a row", () =>
      Effect.gen(function* () {
        const { runtime } = yield* refund
        const store = yield* RunStore.RunStore
        const body = Effect.andThen(order("1"), submitPrompt(runtime, { prompt: "go", runId }))
        yield* transact(Effect.andThen(body, Effect.interrupt)).pipe(Effect.exit)
        assert.deepStrictEqual(yield* orders, [])
        assert.deepStrictEqual(yield* store.list(), [])
      }))
  })
}
