import * as ChildProcess from "node:child_process"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { createInterface } from "node:readline"
import { assert, describe, it } from "@effect/vitest"
import { Conductor, RunStore, SqliteStore } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { sourceFlags } from "../../../../scripts/internal/sourceFlags.ts"
import { makeRuntime } from "../programs/queueing.ts"
import { temporaryDirectory } from "../temporaryStore.ts"

const shared = Effect.map(temporaryDirectory, (directory) => {
  const [store, log] = ["runs.db", "log"].map((name) => Path.join(directory, name)) as [string, string]
  Fs.writeFileSync(log, "")
  return {
    log,
    inStore: Effect.provide(Layer.fresh(SqliteStore.layer({ filename: store, synchronous: "normal" }))),
    charges: () => Fs.readFileSync(log, "utf8").trim().split("\n").filter(Boolean),
    /** Starts a process, and kills it when it has printed a line that `isDue` accepts. Returns the lines before. */
    killed: (what: "dispatch" | "adopt", isDue: (lines: ReadonlyArray<string>) => boolean) =>
      Effect.promise(async () => {
        const program = Path.join(import.meta.dirname, "../programs/queueing.ts")
        const args = [...sourceFlags, program, what, store, log]
        const child = ChildProcess.spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] })
        const lines: Array<string> = []
        const closed = new Promise((resolve) => child.once("close", resolve))
        for await (const line of createInterface(child.stdout)) {
          lines.push(line)
          if (!isDue(lines)) continue
          child.kill("SIGKILL")
          break
        }
        await closed
        return lines.filter((line) => line !== "ready" && line !== "charged")
      })
  }
})

/** Adopts what is left of the runs, and waits until all cards are charged. */
const settle = Effect.fnUntraced(function* (log: string) {
  const runtime = yield* makeRuntime({ log, owner: "here" })
  const conductor = yield* Conductor.make({ name: "cards", concurrency: 2 })
  const adopted = (yield* conductor.adopt([runtime])).filter(({ name }) => name !== undefined)
  for (const end of yield* Conductor.all(adopted)) assert.strictEqual(end.status, "completed")
})

/** Ends the runs that only fill slots. */
const endOthers = Effect.gen(function* () {
  const store = yield* RunStore.RunStore
  for (const { runId, status } of yield* store.list()) {
    const [first] = yield* store.events(runId, { limit: 1 })
    if (status !== "running" || first?._tag !== "run.started" || first.conductor?.as !== undefined) continue
    yield* store.requestCancel(runId, "enough")
  }
})

describe("queued runs in a SQLite file", () => {
  it.live(
    "survive a kill of their process, and each starts once under the next conductor",
    () =>
      Effect.gen(function* () {
        const { charges, inStore, killed, log } = yield* shared
        const acknowledged = yield* killed("dispatch", (lines) => lines.length === 9)
        assert.strictEqual(acknowledged.length, 9)
        yield* Effect.gen(function* () {
          const store = yield* RunStore.RunStore
          for (const runId of acknowledged) {
            assert.strictEqual((yield* store.head(runId as never)).status, "held")
          }
          const ready = (yield* store.ready()).map(({ runId }) => runId)
          assert.deepStrictEqual(
            ready.filter((runId) => acknowledged.includes(runId)),
            []
          )
          yield* endOthers
        }).pipe(inStore)

        for (const count of [1, 3]) {
          yield* killed("adopt", (lines) => lines.filter((line) => line === "charged").length === count)
        }
        yield* settle(log).pipe(Effect.scoped, inStore)
        const charged = charges().map((key) => key.split(".")[0]!)
        assert.deepStrictEqual(new Set(charged).size, charged.length)
        assert.deepStrictEqual(
          acknowledged.filter((runId) => !charged.includes(runId)),
          []
        )
      }),
    60_000
  )

  it.live(
    "start once if two processes adopt them at the same time and one of them is killed",
    () =>
      Effect.gen(function* () {
        const { charges, inStore, killed, log } = yield* shared
        const acknowledged = yield* killed("dispatch", (lines) => lines.includes("ready"))
        yield* endOthers.pipe(inStore)
        yield* Effect.all(
          [killed("adopt", (lines) => lines.includes("ready")), settle(log).pipe(Effect.scoped, inStore)],
          { concurrency: 2 }
        )
        yield* settle(log).pipe(Effect.scoped, inStore)
        assert.deepStrictEqual(
          charges()
            .map((key) => key.split(".")[0]!)
            .toSorted(),
          acknowledged.toSorted()
        )
      }),
    60_000
  )
})
