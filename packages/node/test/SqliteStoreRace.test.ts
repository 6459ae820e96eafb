import { chmodSync } from "node:fs"
import { dirname } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Id, type RunEvent } from "@fermata/sdk"
import { RunStore } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import * as SqliteStore from "../src/SqliteStore.ts"
import { temporaryFile } from "./temporaryStore.ts"
import { killAfter, startWorkers } from "./workers/startWorkers.ts"

const count = 4

const run = (index: number) => Id.RunId.make(`run_${index}`)
const said = (text: string) => ({ _tag: "message.queued", at: 1, content: [{ _tag: "text", text }] }) as const

const create = (
  store: RunStore.RunStore["Service"],
  runId: Id.RunId,
  events: readonly [RunEvent.RunEvent, ...ReadonlyArray<RunEvent.RunEvent>]
) =>
  store.create({
    runId,
    sessionId: Id.SessionId.make(`s_${runId}`),
    agent: "root",
    events,
    status: "held",
    owner: "test",
    ttl: "10 minutes"
  })

const asked = (runId: Id.RunId): RunEvent.RunEvent => ({
  _tag: "request.opened",
  at: 1,
  request: {
    _tag: "question",
    requestId: Id.requestId(runId, 1),
    runId,
    agentPath: ["root"],
    at: 1,
    callId: Id.toolCallId(runId, 1, 1),
    question: "?"
  }
})

const race = (filename: string, task: string, argument?: unknown) =>
  Effect.map(
    Effect.promise(() => startWorkers({ filename, task, argument, count })),
    (outcomes) =>
      outcomes.map(({ error, value }) => {
        assert.strictEqual(error, undefined)
        return value
      })
  )

describe("SqliteStore with several processes", () => {
  it.effect("opens in every process when all of them create the file together", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      assert.deepStrictEqual(yield* race(filename, "open"), Array(count).fill("opened"))
    })
  )

  it.effect("accepts each of 100 decisions from exactly one process", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* Effect.gen(function* () {
        const store = yield* RunStore.RunStore
        for (let index = 0; index < 100; index += 1) yield* create(store, run(index), [asked(run(index))])
        const requestIds = (yield* store.pending()).map(({ request }) => request.requestId)
        assert.strictEqual(requestIds.length, 100)
        const outcomes = yield* race(filename, "decide", requestIds)
        assert.deepStrictEqual((outcomes as Array<Array<string>>).flat().toSorted(), requestIds.toSorted())
        assert.deepStrictEqual(yield* store.pending(), [])
      }).pipe(Effect.provide(SqliteStore.layer({ filename })))
    })
  )

  it.effect("accepts two decisions that are made together from one process, or neither", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* Effect.gen(function* () {
        const store = yield* RunStore.RunStore
        for (let index = 0; index < 60; index += 1) yield* create(store, run(index), [asked(run(index))])
        const requestIds = (yield* store.pending()).map(({ request }) => request.requestId)
        // Each request is in two pairs, so that processes which won one of a pair would show.
        const pairs = requestIds.map((requestId, index) => [requestId, requestIds[(index + 1) % 60]])
        const outcomes = (yield* race(filename, "decideAll", pairs)) as Array<Array<string>>
        const deciders = new Map<string, string>()
        for (let index = 0; index < 60; index += 1) {
          for (const { by, requestId } of yield* store.decisions(run(index))) deciders.set(requestId, by)
        }
        assert.lengthOf(outcomes.flat(), deciders.size)
        outcomes.forEach((won, worker) => {
          for (const requestId of won) assert.strictEqual(deciders.get(requestId), `worker ${worker}`)
        })
        // Two neighbors that are both open would have been decided together.
        for (const [first, second] of pairs) assert.isTrue(deciders.has(first!) || deciders.has(second!))
      }).pipe(Effect.provide(SqliteStore.layer({ filename })))
    })
  )

  it.effect("leases each run to one process at a time", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* Effect.gen(function* () {
        const store = yield* RunStore.RunStore
        const runIds = [run(1), run(2), run(3)]
        for (const runId of runIds) yield* store.release(yield* create(store, runId, [said("start")]))
        yield* race(filename, "claim", runIds)
        for (const runId of runIds) {
          const texts = (yield* store.events(runId, { from: 1 })).map(textOf)
          assert.strictEqual(texts.length, count * 10 * 2)
          for (let index = 0; index < texts.length; index += 2) {
            assert.strictEqual(texts[index]?.replace("enter", "leave"), texts[index + 1])
          }
        }
      }).pipe(Effect.provide(SqliteStore.layer({ filename })))
    })
  )

  it.effect("loses no append when several processes append at once", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* Effect.gen(function* () {
        const store = yield* RunStore.RunStore
        const lease = yield* create(store, run(1), [said("start")])
        yield* race(filename, "append", lease)
        const texts = (yield* store.load(run(1))).events.map(textOf)
        assert.strictEqual(new Set(texts).size, 1 + count * 100)
        for (let worker = 0; worker < count; worker += 1) {
          const own = texts.filter((text) => text.startsWith(`worker ${worker} `))
          assert.deepStrictEqual(
            own,
            Array.from({ length: 100 }, (_, index) => `worker ${worker} ${index}`)
          )
        }
      }).pipe(Effect.provide(SqliteStore.layer({ filename })))
    })
  )

  it.effect(
    "keeps whole batches and every acknowledged event when a process is killed",
    () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        for (const lines of [1, 20, 100, 300]) {
          const task = { filename, task: "endless", argument: `run_${lines}` }
          const acknowledged = Number((yield* Effect.promise(() => killAfter({ ...task, lines }))).at(-1))
          yield* Effect.gen(function* () {
            const store = yield* RunStore.RunStore
            const { events, head } = yield* store.load(run(lines))
            assert.strictEqual(head.revision, events.length)
            assert.isTrue(head.revision >= acknowledged, `${head.revision} of ${acknowledged}`)
            assert.strictEqual(head.revision % 3, 0)
            const error = yield* Effect.flip(
              store.claim({ runId: run(lines), owner: "heir", ttl: "1 minute" })
            )
            assert.strictEqual(error._tag, "RunBusy")
          }).pipe(Effect.provide(SqliteStore.layer({ filename })))
        }
      }),
    300_000
  )

  it.effect("refuses a read-only file in a read-only directory", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* Effect.provide(RunStore.RunStore, SqliteStore.layer({ filename }))
      chmodSync(filename, 0o444)
      chmodSync(dirname(filename), 0o555)
      // Root may write everything, so another user opens the file.
      const root = process.getuid?.() === 0
      const [outcome] = yield* Effect.promise(() =>
        startWorkers({ filename, task: "open", count: 1, ...(root ? { uid: 65_534 } : {}) })
      )
      chmodSync(dirname(filename), 0o755)
      assert.isTrue(outcome?.error?.includes("cannot be opened"), outcome?.error)
    })
  )
})

const textOf = (event: RunEvent.RunEvent): string =>
  event._tag === "message.queued" && event.content[0]?._tag === "text" ? event.content[0].text : ""
