import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import { agent, createFermata, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import { temporaryFile } from "./temporaryStore.ts"

const copies = 10_000

const program = (filename: string) => {
  let ran = 0
  const act = tool("act", {
    handler: () => {
      ran += 1
    }
  })
  const model = ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "act" }] } : "done")).client
  return Effect.map(
    Effect.acquireRelease(
      Effect.promise(() =>
        createFermata({ agents: [agent("ops", { tools: [act] })], model, store: filename })
      ),
      (fermata) => Effect.promise(() => fermata.close())
    ),
    (fermata) => ({ fermata, ran: () => ran })
  )
}

/** A store with one run that is held on an approval, and its copies. */
const parked = Effect.gen(function* () {
  const filename = yield* temporaryFile
  yield* Effect.scoped(
    Effect.flatMap(program(filename), ({ fermata }) =>
      Effect.promise(() => fermata.runPrompt("ops", "go", { runId: "original" }))
    )
  )
  const database = new DatabaseSync(filename)
  const columns = (table: string) =>
    (database.prepare(`SELECT name FROM pragma_table_info('${table}')`).all() as Array<{ name: string }>).map(
      ({ name }) =>
        ["run_id", "request_id", "session_id", "request", "events"].includes(name)
          ? `replace(replace(${name}, 'original', 'copy-' || n), 'ses_', 'ses-' || n || '_') AS ${name}`
          : name === "number"
            ? "number + n AS number"
            : name === "id"
              ? "id + (n << 32) AS id"
              : name
    )
  for (const table of ["fermata_runs", "fermata_journal", "fermata_requests"]) {
    database.exec(`WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${copies})
      INSERT INTO ${table} SELECT ${columns(table).join(", ")} FROM ${table} CROSS JOIN numbers WHERE run_id = 'original'`)
  }
  return { database, filename }
})

describe(`a store with ${copies} held runs`, () => {
  it.live(
    "resumes only the decided one, and lists all pending requests page by page",
    () =>
      Effect.gen(function* () {
        const { database, filename } = yield* parked
        const untouched = () =>
          (database.prepare("SELECT count(*) AS n FROM fermata_runs WHERE epoch = 1").get() as { n: number })
            .n
        const { fermata, ran } = yield* program(filename)
        assert.deepStrictEqual(yield* Effect.promise(() => fermata.recover()), [])
        assert.strictEqual(untouched(), copies + 1)

        const [waiting] = yield* Effect.promise(() => fermata.pending({ runId: "copy-7777" as never }))
        yield* Effect.promise(() => fermata.decide(waiting!, { _tag: "approve" }))
        const recovered = yield* Effect.promise(() => fermata.recover())
        assert.deepStrictEqual(
          recovered.map(({ reason, runId, status }) => `${runId} ${reason} ${status}`),
          ["copy-7777 decided completed"]
        )
        assert.strictEqual(ran(), 1)
        assert.strictEqual(untouched(), copies)

        const seen = new Set<string>()
        for (let after: string | undefined; ;) {
          const page = yield* Effect.promise(() =>
            fermata.pending({ limit: 1000, ...(after === undefined ? {} : { after: after as never }) })
          )
          for (const { request } of page) seen.add(request.requestId)
          after = page.at(-1)?.request.requestId
          if (after === undefined) break
        }
        assert.strictEqual(seen.size, copies)
        database.close()
      }).pipe(Effect.scoped),
    300_000
  )
})
