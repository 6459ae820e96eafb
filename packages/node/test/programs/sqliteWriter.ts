/**
 * One process that writes to a SQLite store beside others: `sqliteWriter.ts <file> <name> <task>`. It prints `ready`, waits for a
 * line, does its task, and prints the outcome as one line of JSON.
 */
import { once } from "node:events"
import { Id, RunStore, SqliteStore } from "@fermata/node"
import * as Effect from "effect/Effect"
import { begun } from "../sqlite/fixtures.ts"

const [filename = "", name = "", task = ""] = process.argv.slice(2)

type Store = RunStore.RunStore["Service"]

const said = (text: string) => ({ _tag: "message.queued", at: 1, content: [{ _tag: "text", text }] }) as const

const runId = Id.RunId.make(`run_${name}`)
const create = (store: Store) =>
  store.create({
    runId,
    sessionId: Id.SessionId.make(`session_of_${runId}`),
    agent: "root",
    events: [begun(runId)],
    status: "running",
    owner: name,
    ttl: "10 minutes"
  })

const nextLine = () => once(process.stdin, "data")

const tasks: { readonly [task: string]: (store: Store) => Effect.Effect<unknown, unknown> } = {
  /** 1,500 transactions of one event each; measures the longest time for which the event loop was blocked. */
  count: Effect.fnUntraced(function* (store) {
    let last = performance.now()
    let stall = 0
    const pulse = setInterval(() => {
      const now = performance.now()
      stall = Math.max(stall, now - last - 1)
      last = now
    }, 1)
    const lease = yield* create(store)
    let revision = Id.Revision.make(1)
    let busy = 0
    for (let index = 1; index < 500; index += 1) {
      const append = store.append({
        lease,
        expected: revision,
        events: [said(`${index}`)],
        status: "running"
      })
      revision = (yield* Effect.retry(append, {
        while: (error) => error._tag === "RunStoreError" && error.reason._tag === "StoreBusy" && ++busy > 0
      })).revision
    }
    clearInterval(pulse)
    return { revision, busy, stall: Math.round(stall) }
  }),

  /** Appends one large event after the other, until the next line of input. */
  steady: Effect.fnUntraced(function* (store) {
    let isAsked = false
    void nextLine().then(() => (isAsked = true))
    const lease = yield* create(store)
    process.stdout.write("writing\n")
    let revision = Id.Revision.make(1)
    while (!isAsked) {
      const events = [said(`${revision} ${"x".repeat(2000)}`)] as const
      revision = (yield* store.append({ lease, expected: revision, events, status: "running" })).revision
      yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
    }
    return { revision }
  }),

  /** Appends until the store has refused three times, prints the reasons, and appends once more after another line of input. */
  fill: Effect.fnUntraced(function* (store) {
    const lease = yield* create(store)
    let revision = Id.Revision.make(1)
    const append = Effect.suspend(() =>
      store.append({ lease, expected: revision, events: [said("x".repeat(50_000))], status: "running" })
    )
    const failures: Array<string> = []
    for (let full = 0; full < 3;) {
      const outcome = yield* Effect.result(append)
      if (outcome._tag === "Success") revision = outcome.success.revision
      else {
        full += 1
        failures.push(
          outcome.failure._tag === "RunStoreError" ? outcome.failure.reason._tag : outcome.failure._tag
        )
      }
    }
    const readable = (yield* store.load(runId)).events.length
    process.stdout.write(`${JSON.stringify({ failures, revision, readable })}\n`)
    yield* Effect.promise(nextLine)
    revision = (yield* append).revision
    return { revision, readable: (yield* store.load(runId)).events.length }
  })
}

process.stdout.write("ready\n")
await nextLine()
const outcome = await RunStore.RunStore.use((store) => tasks[task]?.(store) ?? Effect.die(task)).pipe(
  Effect.provide(SqliteStore.layer({ filename })),
  Effect.runPromise
)
process.stdin.destroy()
process.stdout.write(`${JSON.stringify(outcome)}\n`)
