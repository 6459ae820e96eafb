/**
 * One process that works on a store beside others. It prints `ready`, waits for a line, does its task, and prints the outcome as
 * JSON: `node --conditions=@fermata/source storeWorker.ts <file> <name> <task> [argument]`.
 */
import { once } from "node:events"
import { Id } from "@fermata/sdk"
import { RunStore } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as SqliteStore from "../../src/SqliteStore.ts"

const [filename = "", name = "", task = "", argument = ""] = process.argv.slice(2)

type Store = RunStore.RunStore["Service"]

const said = (text: string) => ({ _tag: "message.queued", at: 1, content: [{ _tag: "text", text }] }) as const

const soon = Schedule.spaced("2 millis").pipe(Schedule.jittered)

const tasks: { readonly [task: string]: (store: Store) => Effect.Effect<unknown, unknown> } = {
  /** Opens the store, and closes it. */
  open: () => Effect.succeed("opened"),

  /** Decides every open request; the outcome is the ones it won. */
  decide: Effect.fnUntraced(function* (store) {
    const requestIds = JSON.parse(argument) as ReadonlyArray<string>
    const won: Array<string> = []
    for (const requestId of requestIds) {
      const input = {
        _tag: "answer",
        requestId: Id.RequestId.make(requestId),
        by: name,
        answer: "me"
      } as const
      yield* store.decide(input).pipe(
        Effect.tap(() => Effect.sync(() => won.push(requestId))),
        Effect.catchTag("AlreadyDecided", () => Effect.void)
      )
    }
    return won
  }),

  /** Decides pairs of requests that overlap, each pair together; the outcome is the requests it won. */
  decideAll: Effect.fnUntraced(function* (store) {
    const pairs = JSON.parse(argument) as ReadonlyArray<ReadonlyArray<string>>
    const won: Array<string> = []
    for (const requestIds of pairs) {
      const batch = requestIds.map(
        (requestId) =>
          ({ _tag: "answer", requestId: Id.RequestId.make(requestId), by: name, answer: "me" }) as const
      )
      yield* store.decideAll(batch).pipe(
        Effect.tap(() => Effect.sync(() => won.push(...requestIds))),
        Effect.catchTag("AlreadyDecided", () => Effect.void)
      )
    }
    return won
  }),

  /** Enters and leaves each run many times, each time under a lease of its own. */
  claim: Effect.fnUntraced(function* (store) {
    const runIds = (JSON.parse(argument) as ReadonlyArray<string>).map((runId) => Id.RunId.make(runId))
    for (let round = 0; round < 10; round += 1) {
      for (const runId of runIds) {
        const lease = yield* store
          .claim({ runId, owner: name, ttl: "1 minute" })
          .pipe(Effect.retry({ while: (error) => error._tag === "RunBusy", schedule: soon }))
        const { revision } = yield* store.head(runId)
        const entered = yield* store.append({
          lease,
          expected: revision,
          events: [said(`enter ${name}`)],
          status: "running"
        })
        yield* store.park({
          lease,
          expected: entered.revision,
          events: [said(`leave ${name}`)],
          status: "held"
        })
      }
    }
    return "done"
  }),

  /** Appends under a shared lease: reads the revision, appends, and retries on a conflict. */
  append: Effect.fnUntraced(function* (store) {
    const lease = JSON.parse(argument) as RunStore.Lease
    let conflicts = 0
    for (let index = 0; index < 100; index += 1) {
      yield* Effect.gen(function* () {
        const { revision } = yield* store.head(lease.runId)
        yield* store.append({
          lease,
          expected: revision,
          events: [said(`${name} ${index}`)],
          status: "running"
        })
      }).pipe(
        Effect.tapErrorTag("RunConflict", () => Effect.sync(() => (conflicts += 1))),
        Effect.retry({ while: (error) => error._tag === "RunConflict" })
      )
    }
    return conflicts
  }),

  /** Appends three events at a time until it is killed, and prints each revision that was acknowledged. */
  endless: Effect.fnUntraced(function* (store) {
    const runId = Id.RunId.make(JSON.parse(argument))
    const events = [said("one"), said("two"), said("three")] as const
    const sessionId = Id.SessionId.make(`s_${runId}`)
    const run = { runId, sessionId, agent: "root", events, status: "running", owner: name } as const
    const lease = yield* store.create({ ...run, ttl: "1 minute" })
    for (let revision = Id.Revision.make(3); ;) {
      const appended = yield* store.append({ lease, expected: revision, events, status: "running" })
      revision = appended.revision
      process.stdout.write(`${revision}\n`)
    }
  })
}

console.log("ready")
await once(process.stdin, "data")
process.stdin.destroy()
const outcome = await RunStore.RunStore.use(
  (store) => tasks[task]?.(store) ?? Effect.die(`no task ${task}`)
).pipe(
  Effect.provide(SqliteStore.layer({ filename })),
  Effect.map((value) => ({ value })),
  Effect.catch((error) => Effect.succeed({ error: String(error) })),
  Effect.runPromise
)
console.log(JSON.stringify(outcome))
