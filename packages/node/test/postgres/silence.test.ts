import { spawn } from "node:child_process"
import { once } from "node:events"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { agent, createFermata, tool } from "@fermata/node"
import { PostgresStore } from "@fermata/node/postgres"
import { ScriptedModel } from "@fermata/node/testing"
import type { RunStoreError } from "@fermata/sdk/store"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Schedule from "effect/Schedule"
import { startPostgres } from "../../../../scripts/internal/postgres.ts"
import { sourceFlags } from "../../../../scripts/internal/sourceFlags.ts"
import { emptyDatabase, withSql } from "./database.ts"
import { proxyTo, type Sender } from "./proxy.ts"
import { answer, asked, at, create, openStore, runId, said } from "./storedRuns.ts"

const run = runId("a")

/** A store that gives up a silent connection soon, and the operation moments later: before the server ends an idle transaction. */
const impatient = {
  busyDeadline: "600 millis",
  connectTimeout: "2 seconds",
  answerTimeout: "1500 millis"
} as const
/** Leaves room for a busy machine. */
const mostMs = 60_000

const unanswered =
  "The store failed: the database does not answer. Check that its server runs and can be reached, then try again."

/** A store whose connections can fall silent, and a witness that sees its writes. */
const behindProxy = Effect.gen(function* () {
  const { url } = yield* emptyDatabase
  const proxy = yield* proxyTo(url)
  const store = yield* openStore({ url: proxy.url, ...impatient })
  const witness = yield* openStore({ url })
  return { url, proxy, store, witness }
})

/** The error of an operation that fails within a bounded time. */
const failure = <A, E>(operation: Effect.Effect<A, E | RunStoreError.RunStoreError>) =>
  Effect.gen(function* () {
    const from = performance.now()
    const error = (yield* Effect.flip(operation)) as RunStoreError.RunStoreError
    assert.isBelow(performance.now() - from, mostMs)
    return error
  })

const until = <E, R>(check: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(check, { until: (found) => found, schedule: Schedule.spaced("5 millis") })

describe.concurrent("a PostgresStore whose server is silent", { timeout: 40_000 }, () => {
  const silences: ReadonlyArray<readonly [where: string, senders: ReadonlyArray<Sender>]> = [
    ["receives nothing", ["client"]],
    ["sends nothing", ["server"]],
    ["is cut off", ["client", "server"]]
  ]
  for (const [where, senders] of silences) {
    it.live(`fails when the server ${where}, and works again when it answers`, () =>
      Effect.gen(function* () {
        const { proxy, store, witness } = yield* behindProxy
        const lease = yield* create(store, run)
        const append = store.append({ lease, expected: at(1), events: [said("more")], status: "running" })
        yield* Effect.all([store.load(run), store.list(), store.pending()], { concurrency: "unbounded" })
        proxy.silence(senders, { isLasting: true })
        const operations: ReadonlyArray<Effect.Effect<unknown, { readonly _tag: string }>> = [
          store.load(run),
          store.list(),
          store.renew(lease, "1 minute"),
          store.claim({ runId: run, owner: "me", ttl: "1 minute" }),
          ...Array.from({ length: 20 }, () => store.head(run))
        ]
        const errors = yield* Effect.all(operations.map(failure), { concurrency: "unbounded" })
        for (const error of errors) {
          assert.strictEqual(error.message, unanswered)
          assert.isTrue(error.isRetryable)
        }
        assert.strictEqual((yield* failure(append)).message, unanswered)
        proxy.unsilence()
        // Nothing was written, and nothing is written later.
        assert.strictEqual((yield* store.load(run)).head.revision, 1)
        assert.deepStrictEqual(yield* append, { revision: at(2) })
        assert.strictEqual((yield* witness.load(run)).events.length, 2)
      })
    )
  }

  it.live("retries over another connection when one alone is silent", () =>
    Effect.gen(function* () {
      const { proxy, store, witness } = yield* behindProxy
      const lease = yield* create(store, run)
      proxy.silence(["client", "server"])
      const append = store.append({ lease, expected: at(1), events: [said("more")], status: "running" })
      assert.deepStrictEqual(yield* append, { revision: at(2) })
      assert.strictEqual((yield* witness.load(run)).events.length, 2)
    })
  )

  it.live("retries over another connection when the backend process of one is stopped", () =>
    Effect.gen(function* () {
      const server = yield* Effect.acquireRelease(
        Effect.promise(() => startPostgres()),
        (server) => Effect.promise(server.close)
      )
      const store = yield* openStore({ url: server.url, ...impatient })
      const lease = yield* create(store, run)
      const sessions = yield* withSql(
        server.url,
        (sql) =>
          sql<{ readonly pid: number }>`SELECT pid FROM pg_stat_activity WHERE application_name = 'fermata'`
      )
      assert.isAtLeast(sessions.length, 1)
      const signal = (name: NodeJS.Signals) => {
        for (const { pid } of sessions) process.kill(pid, name)
      }
      signal("SIGSTOP")
      const append = store.append({ lease, expected: at(1), events: [said("more")], status: "running" })
      yield* Effect.ensuring(
        Effect.map(append, (appended) => assert.deepStrictEqual(appended, { revision: at(2) })),
        Effect.sync(() => signal("SIGCONT"))
      )
      assert.strictEqual((yield* store.load(run)).events.length, 2)
    })
  )

  it.live("looks up a commit that was not answered, and writes nothing twice", () =>
    Effect.gen(function* () {
      const { proxy, store, witness } = yield* behindProxy
      proxy.breakNextCommit("silent")
      const lease = yield* create(store, run, asked(run))
      proxy.breakNextCommit("silent")
      const { revision } = yield* store.append({
        lease,
        expected: at(1),
        events: [said("more")],
        status: "running"
      })
      assert.strictEqual(revision, 2)
      proxy.breakNextCommit("silent")
      yield* answer(store, run, "ann")
      assert.strictEqual(proxy.broken(), 3)
      assert.strictEqual((yield* witness.load(run)).events.length, 2)
      assert.deepStrictEqual(
        (yield* witness.decisions(run)).map(({ by }) => by),
        ["ann"]
      )
    })
  )

  it.live("fails with OutcomeUnknown when the server stays silent after a commit", () =>
    Effect.gen(function* () {
      const { proxy, store, witness } = yield* behindProxy
      const lease = yield* create(store, run)
      proxy.breakNextCommit("silent")
      const append = store.append({ lease, expected: at(1), events: [said("more")], status: "running" })
      const failing = yield* Effect.forkChild(failure(append), { startImmediately: true })
      yield* until(Effect.sync(() => proxy.broken() === 1))
      proxy.silence(["client", "server"], { isLasting: true })
      const { isRetryable, reason } = yield* Fiber.join(failing)
      assert.deepStrictEqual([reason._tag, isRetryable], ["OutcomeUnknown", true])
      assert.strictEqual((yield* witness.load(run)).events.length, 2)
    })
  )

  it.live("fails with OutcomeUnknown when a commit arrives after the store has given it up", () =>
    Effect.gen(function* () {
      const { proxy, store, witness } = yield* behindProxy
      const lease = yield* create(store, run)
      proxy.breakNextCommit("stall")
      // A retry meets the lock of the first attempt.
      const append = store.append({ lease, expected: at(1), events: [said("more")], status: "running" })
      const { reason } = yield* failure(append)
      assert.strictEqual(reason._tag, "OutcomeUnknown")
      proxy.deliver()
      yield* until(Effect.map(witness.head(run), ({ revision }) => revision === 2))
      assert.strictEqual((yield* Effect.flip(append))._tag, "RunConflict")
    })
  )

  it.live("logs a warning while it opens, and opens when the server answers", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const proxy = yield* proxyTo(url)
      proxy.silence(["client", "server"], { isLasting: true })
      const warned = yield* Deferred.make<unknown>()
      const logger = Logger.make(({ logLevel, message }) => {
        if (logLevel === "Warn") Deferred.doneUnsafe(warned, Effect.succeed(message))
      })
      const opening = yield* Effect.forkChild(
        Effect.provide(
          openStore({ url: proxy.url, busyDeadline: "1 minute", connectTimeout: "4 seconds" }),
          Logger.layer([logger])
        ),
        { startImmediately: true }
      )
      assert.include(String(yield* Deferred.await(warned)), "The database does not answer yet")
      assert.isUndefined(opening.pollUnsafe())
      proxy.unsilence()
      assert.deepStrictEqual(yield* (yield* Fiber.join(opening)).list(), [])
    })
  )

  it.live("logs a warning within 3 seconds when its server refuses connections", () =>
    Effect.gen(function* () {
      const warned = yield* Deferred.make<unknown>()
      const logger = Logger.make(({ logLevel, message }) => {
        if (logLevel === "Warn") Deferred.doneUnsafe(warned, Effect.succeed(message))
      })
      const began = Date.now()
      // No server listens on the first port.
      const opening = openStore({ url: "postgres://ana@127.0.0.1:1/runs" })
      yield* Effect.forkChild(Effect.provide(opening, Logger.layer([logger])), { startImmediately: true })
      assert.include(String(yield* Deferred.await(warned)), "The database does not answer yet")
      assert.isBelow(Date.now() - began, 3000)
    })
  )

  it.live("does not keep a program from ending after its store is closed", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const proxy = yield* proxyTo(url)
      const program = Path.join(import.meta.dirname, "../programs/closingPostgres.ts")
      const child = spawn(process.execPath, [...sourceFlags, program, proxy.url])
      yield* Effect.addFinalizer(() => Effect.sync(() => child.kill("SIGKILL")))
      yield* Effect.promise(() => once(child.stdout, "data"))
      proxy.silence(["client", "server"], { isLasting: true })
      const ended = once(child, "exit")
      child.stdin.end()
      assert.deepStrictEqual(yield* Effect.promise(() => ended), [0, null])
    })
  )

  it.live("refuses an answerTimeout that is not longer than twice its busyDeadline", () =>
    Effect.gen(function* () {
      const refused = yield* Effect.flip(
        Effect.scoped(
          openStore({
            url: "postgres://localhost/none",
            busyDeadline: "1 second",
            answerTimeout: "2 seconds"
          })
        )
      )
      assert.strictEqual(
        refused.message,
        "The store cannot be opened: its `answerTimeout` has to be longer than twice its `busyDeadline`: a server is silent while a statement waits for locks."
      )
    })
  )

  it.live(
    "does not keep a program from closing, and another one holds its run without repeating the body",
    () =>
      Effect.gen(function* () {
        const { url } = yield* emptyDatabase
        const proxy = yield* proxyTo(url)
        const bodies: Array<string> = []
        const begun = yield* Deferred.make<void>()
        const goOn = yield* Deferred.make<void>()
        const open = (name: string, url: string, during: Effect.Effect<void>) => {
          const model = ScriptedModel.make(({ turn }) =>
            turn < 3 ? { calls: [{ tool: "charge_card" }] } : "Both cards are charged."
          )
          const charge = tool("charge_card", {
            handler: async () => {
              bodies.push(name)
              await Effect.runPromise(during)
              return "charged"
            }
          })
          return Effect.promise(() =>
            createFermata({
              agents: [agent("cashier", { tools: [charge] })],
              model: model.client,
              leaseTtl: "500 millis",
              store: PostgresStore.layer({ url, ...impatient })
            })
          )
        }
        const first = yield* open(
          "first",
          proxy.url,
          Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(goOn))
        )
        const working = first.work()
        const running = first.runPrompt("cashier", "Charge both cards", { policy: { mode: "all" } }).then(
          () => "ended",
          () => "failed"
        )
        yield* Deferred.await(begun)
        proxy.silence(["client", "server"], { isLasting: true })
        yield* Deferred.succeed(goOn, undefined)
        assert.strictEqual(yield* Effect.promise(() => running), "failed")

        const second = yield* open("second", url, Effect.void)
        const [held] = yield* Effect.promise(() => second.recover())
        assert.strictEqual(held?.status, "held")
        const from = performance.now()
        yield* Effect.promise(() => first.close())
        yield* Effect.promise(() => working)
        assert.isBelow(performance.now() - from, mostMs)
        yield* Effect.promise(() => second.close())
        assert.deepStrictEqual(bodies, ["first"])
      })
  )
})

describe("a PostgresStore in a process that blocks for longer than its answerTimeout", () => {
  it.live("reads the answer that came meanwhile, and keeps its connection", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const store = yield* openStore({ url, ...impatient })
      yield* store.list()
      const sessions = withSql(
        url,
        (sql) => sql`SELECT pid FROM pg_stat_activity
          WHERE datname = current_database() AND application_name = 'fermata'`
      )
      const before = yield* sessions
      const listing = yield* Effect.forkChild(store.list(), { startImmediately: true })
      // Blocks the whole process, timers included.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2000)
      assert.deepStrictEqual(yield* Fiber.join(listing), [])
      assert.deepStrictEqual(yield* sessions, before)
    })
  )
})
