/**
 * Measures memory: the quality of retrieval on recorded conversations, and the times of searching, opening and writing.
 *
 * `npm run bench:memory -- [chunks …]`, by default 10,000 chunks, in a SQLite file and, with `--postgres`, in Postgres. The texts are the
 * messages of the recorded conversations again and again, each with a word of its own, in one scope.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { gunzipSync } from "node:zlib"
import { SqliteStore } from "@fermata/node"
import { PostgresStore } from "@fermata/node/postgres"
import { Id } from "@fermata/sdk"
import * as Memory from "@fermata/sdk/memory/Memory"
import { RunStore } from "@fermata/sdk/store"
import type { MemoryRow } from "@fermata/sdk/store/MemoryPort"
import * as Effect from "effect/Effect"
// oxlint-disable-next-line no-restricted-imports
import { encodeTerms } from "../packages/sdk/src/memory/internal/encodedTerms.ts"
// The repository's own scripts and internals, not the packages that are measured.
// oxlint-disable-next-line no-restricted-imports
import { readOptions } from "../scripts/internal/help.ts"
// oxlint-disable-next-line no-restricted-imports
import { openPostgres } from "../scripts/internal/postgres.ts"

interface Chat {
  readonly id: string
  readonly docs: ReadonlyArray<{
    readonly id: number
    readonly role: "user" | "assistant"
    readonly text: string
  }>
  readonly questions: ReadonlyArray<{
    readonly question: string
    readonly evidence: ReadonlyArray<number>
  }>
}

const file = new URL("../packages/sdk/test/fixtures/memory/beam-100k-dev.jsonl.gz", import.meta.url)
const chats = gunzipSync(readFileSync(file))
  .toString()
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Chat)

const rowOf = (scope: string, sequence: number, role: "user" | "assistant", text: string): MemoryRow => ({
  id: `${scope}/${sequence}`,
  scope: `session:${scope}`,
  kind: "message",
  text,
  terms: encodeTerms(text),
  version: 1,
  at: sequence,
  role,
  sessionId: Id.SessionId.make(scope),
  sequence
})

const percentile = (times: ReadonlyArray<number>, part: number): string =>
  `${(times.toSorted((a, b) => a - b)[Math.floor(times.length * part)] ?? 0).toFixed(2)} ms`

/** The time that the process has worked, in milliseconds: on a machine with other work, the clock says more of that. */
const worked = (): number => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1000
}

const timed = Effect.fnUntraced(function* <A, E>(effect: Effect.Effect<A, E>) {
  const start = performance.now()
  const work = worked()
  yield* effect
  return [performance.now() - start, worked() - work] as const
})

const recallAt = (
  count: number,
  found: ReadonlyArray<number | undefined>,
  evidence: ReadonlyArray<number>
): number => evidence.filter((id) => found.slice(0, count).includes(id)).length / evidence.length

const measureQuality = Effect.fnUntraced(function* (memory: Memory.MemoryOperations) {
  let five = 0
  let ten = 0
  let questions = 0
  for (const chat of chats) {
    yield* memory["~port"]!.write(chat.docs.map(({ id, role, text }) => rowOf(chat.id, id, role, text)))
    for (const { evidence, question } of chat.questions) {
      const found = yield* memory.recall(question, { scope: { session: chat.id }, limit: 10 })
      const sequences = found.map(({ item }) => item.sequence)
      five += recallAt(5, sequences, evidence)
      ten += recallAt(10, sequences, evidence)
      questions += 1
    }
  }
  const percent = (sum: number) => ((100 * sum) / questions).toFixed(1)
  console.log(`  recall at 5: ${percent(five)} %, at 10: ${percent(ten)} % (${questions} questions)`)
})

const measureTimes = Effect.fnUntraced(function* (store: RunStore.RunStore["Service"], chunks: number) {
  const memory = yield* Memory.make(store)
  const scope = `session-of-${chunks}`
  const docs = chats.flatMap((chat) => chat.docs)
  const writes: Array<number> = []
  let written = 0
  for (let sequence = 0; written < chunks; sequence += 1) {
    const { role, text } = docs[sequence % docs.length]!
    const own = `${text} word${sequence}`
    written += Math.ceil(own.length / 1200)
    const start = performance.now()
    const row = rowOf(scope, sequence, role, own)
    // As a run does, in the transaction of its events. Alone, a transaction of a file would wait for the disk.
    yield* memory["~port"]!.write([row])
    writes.push(performance.now() - start)
  }
  const analyses = docs.map(({ text }) => {
    const start = performance.now()
    encodeTerms(text)
    return performance.now() - start
  })
  const questions = chats.flatMap((chat) => chat.questions.map(({ question }) => question))
  const ask = (question: string) => timed(memory.recall(question, { scope: { session: scope } }))
  const [opening, openingWork] = yield* ask(questions[0]!)
  const times: Array<number> = []
  let work = 0
  for (let round = 0; round < 5; round += 1)
    for (const question of questions) {
      const [ms, own] = yield* ask(question)
      times.push(ms)
      work += own
    }
  console.log(
    `  ${chunks} chunks in ${writes.length} messages: search p50 ${percentile(times, 0.5)}, p95 ${percentile(times, 0.95)}, mean work ${(work / times.length).toFixed(2)} ms; first search ${opening.toFixed(0)} ms, work ${openingWork.toFixed(0)} ms`
  )
  console.log(
    `    a message: analysis p50 ${percentile(analyses, 0.5)}, p95 ${percentile(analyses, 0.95)}; with a transaction of its own p50 ${percentile(writes, 0.5)}, p95 ${percentile(writes, 0.95)}`
  )
})

const { positionals, values } = readOptions({
  options: { postgres: { type: "boolean", default: false } },
  allowPositionals: true
})
const sizes = positionals.map(Number)
const measure = Effect.gen(function* () {
  const store = yield* RunStore.RunStore
  yield* measureQuality(yield* Memory.make(store))
  for (const chunks of sizes.length === 0 ? [10_000] : sizes) yield* measureTimes(store, chunks)
})

const directory = mkdtempSync(join(tmpdir(), "fermata-bench-memory-"))
try {
  console.log("SQLite")
  const layer = SqliteStore.layer({ filename: join(directory, "runs.db"), synchronous: "normal" })
  await Effect.runPromise(Effect.provide(measure, layer))
  if (values.postgres) {
    console.log("Postgres")
    const postgres = await openPostgres()
    try {
      const url = await postgres.database("fermata_memory")
      await Effect.runPromise(Effect.provide(measure, PostgresStore.layer({ url })))
    } finally {
      await postgres.close()
    }
  }
} finally {
  rmSync(directory, { recursive: true, force: true })
}
