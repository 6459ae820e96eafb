import { assert, describe, it } from "@effect/vitest"
import type { RunEvent, RunState } from "@fermata/sdk/domain"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { emptyDatabase, withSql } from "./database.ts"
import { proxyTo } from "./proxy.ts"
import { answer, answering, asked, at, create, openStore, runId, type Store } from "./storedRuns.ts"

/** The connections that listen. */
const listeners = (url: string) =>
  withSql(
    url,
    (sql) => sql<{ readonly pid: number }>`SELECT pid FROM pg_stat_activity
      WHERE datname = current_database() AND query LIKE 'LISTEN%'`
  )

const soon = Schedule.spaced("5 millis")

/** The notifications of a store, from the moment that its connection listens. */
const listenTo = Effect.fnUntraced(function* (store: Store, url: string) {
  const notified = yield* Queue.unbounded<void>()
  yield* Effect.forkScoped(Stream.runForEach(store.changes, () => Queue.offer(notified, undefined)))
  yield* Effect.repeat(listeners(url), { until: (rows) => rows.length > 0, schedule: soon })
  yield* Queue.take(notified)
  return notified
})

describe("the changes of a PostgresStore", () => {
  it.live("emit after a decision and after a cancellation by another process", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const worker = yield* openStore({ url, maxConnections: 1 })
      const inbox = yield* openStore({ url })
      yield* create(worker, runId("a"), asked(runId("a")))
      const notified = yield* listenTo(worker, url)
      yield* answer(inbox, runId("a"), "ann")
      yield* Queue.take(notified)
      yield* inbox.requestCancel(runId("a"), "enough")
      yield* Queue.take(notified)
    })
  )

  it.live("emit after several decisions that another process takes together", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const worker = yield* openStore({ url, maxConnections: 1 })
      const inbox = yield* openStore({ url })
      yield* create(worker, runId("a"), asked(runId("a")))
      const notified = yield* listenTo(worker, url)
      // A subscription begins with two emissions: one for this process, one for the others.
      yield* Queue.take(notified)
      yield* inbox.decideAll([answering(runId("a"), "ann")])
      yield* Queue.take(notified)
    })
  )

  it.live("emit after another process has resumed a held run, ended a run and removed it", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const watcher = yield* openStore({ url, maxConnections: 1 })
      const other = yield* openStore({ url })
      const a = runId("a")
      const lease = yield* create(other, a, asked(a))
      const notified = yield* listenTo(watcher, url)
      // A subscription begins with two emissions: one for this process, one for the others.
      yield* Queue.take(notified)
      const append = (expected: number, event: RunEvent.RunEvent, status: RunState.Status) =>
        other.append({ lease, expected: at(expected), events: [event], status })
      yield* append(1, { _tag: "run.resumed", at: 0 }, "running")
      yield* Queue.take(notified)
      yield* append(2, { _tag: "run.cancelled", at: 0, reason: "enough", calls: [] }, "cancelled")
      yield* other.release(lease)
      yield* Queue.take(notified)
      yield* other.remove(a)
      yield* Queue.take(notified)
    })
  )

  it.live("emit after another process has stored a request that expires, or its announcement", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const worker = yield* openStore({ url, maxConnections: 1 })
      const other = yield* openStore({ url })
      const a = runId("a")
      const lease = yield* create(other, a)
      const notified = yield* listenTo(worker, url)
      // A subscription begins with two emissions: one for this process, one for the others.
      yield* Queue.take(notified)
      const request = { ...asked(a).request, expiresAt: 8e12 }
      const events = [{ _tag: "request.opened", at: 1, request }] as const
      yield* other.append({ lease, expected: at(1), events, status: "running" })
      yield* Queue.take(notified)
      assert.strictEqual(yield* worker.nextDue(), 8e12 - 60 * 60 * 1000)
      const warning = { _tag: "request.expiring", at: 2, requestId: request.requestId } as const
      yield* other.park({ lease, expected: at(2), events: [warning], status: "held" })
      yield* Queue.take(notified)
      assert.strictEqual(yield* worker.nextDue(), 8e12)
    })
  )

  it.live("emit again when the listening connection has died, and go on over a new one", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const worker = yield* openStore({ url })
      const inbox = yield* openStore({ url })
      yield* create(worker, runId("a"), asked(runId("a")))
      const notified = yield* listenTo(worker, url)
      for (let round = 0; round < 5; round += 1) {
        yield* Queue.clear(notified)
        const [listener] = yield* Effect.repeat(listeners(url), {
          until: (rows) => rows.length === 1,
          schedule: soon
        })
        yield* withSql(url, (sql) => sql`SELECT pg_terminate_backend(${listener!.pid})`)
        yield* Queue.take(notified)
      }
      yield* Queue.clear(notified)
      yield* answer(inbox, runId("a"), "ann")
      yield* Queue.take(notified)
    })
  )

  it.live("emit again when the listening connection has fallen silent, and go on over a new one", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const proxy = yield* proxyTo(url)
      const worker = yield* openStore({
        url: proxy.url,
        busyDeadline: "300 millis",
        answerTimeout: "1 second"
      })
      const inbox = yield* openStore({ url })
      yield* create(worker, runId("a"), asked(runId("a")))
      const notified = yield* listenTo(worker, url)
      // A subscription begins with two emissions: one for this process, one for the others.
      yield* Queue.take(notified)
      proxy.silence(["client", "server"])
      yield* Queue.take(notified)
      yield* answer(inbox, runId("a"), "ann")
      yield* Queue.take(notified)
    })
  )

  it.live("keep the listening connection while the server answers", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const store = yield* openStore({ url, busyDeadline: "300 millis", answerTimeout: "2 seconds" })
      yield* listenTo(store, url)
      const [before] = yield* listeners(url)
      const [after] = yield* Effect.repeat(
        withSql(
          url,
          (sql) => sql<{ readonly pid: number }>`SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'fermata' AND query LIKE 'LISTEN%'
              AND (pid <> ${before!.pid} OR query_start > backend_start + interval '4 seconds')`
        ),
        { until: (rows) => rows.length > 0, schedule: soon }
      )
      assert.deepStrictEqual(after, before)
    })
  )

  it.live("use one connection for all subscribers, and none without a subscriber", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const store = yield* openStore({ url })
      yield* create(store, runId("a"), asked(runId("a")))
      yield* Effect.scoped(
        Effect.gen(function* () {
          const all = yield* Effect.forEach([1, 2, 3], () => listenTo(store, url))
          const inbox = yield* openStore({ url })
          for (const notified of all) yield* Queue.clear(notified)
          yield* answer(inbox, runId("a"), "ann")
          for (const notified of all) yield* Queue.take(notified)
          assert.strictEqual((yield* listeners(url)).length, 1)
        })
      )
      // The server forgets a connection a moment after it is closed.
      yield* Effect.repeat(listeners(url), { until: (rows) => rows.length === 0, schedule: soon })
    })
  )
})
