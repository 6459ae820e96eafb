import { spawnSync } from "node:child_process"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { type Blob, SqliteStore } from "@fermata/node"
import { PostgresStore } from "@fermata/node/postgres"
import { RunStore } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
/**
 * Measures by how much the memory of a process grows while it stores a content of a GiB, and while it reads one, in SQLite and in Postgres.
 *
 * `node --conditions=@fermata/source benchmarks/contents.ts` takes a minute and 3 GB of disk. `--mebibytes 100` stores less. Each
 * measurement is in a process of its own. It prints the growth of the resident memory and the time, and ends with 1 if storing in SQLite
 * takes more than 50 MB. Reading creates an array for each piece, which the caller may keep; V8 frees arrays when there are 64 MB of them.
 */
// The repository's own scripts, not the packages that are measured.
// oxlint-disable-next-line no-restricted-imports
import { readOptions } from "../scripts/internal/help.ts"
// oxlint-disable-next-line no-restricted-imports
import { openPostgres } from "../scripts/internal/postgres.ts"

const { values } = readOptions({
  options: {
    mebibytes: { type: "string", default: "1024" },
    task: { type: "string" },
    store: { type: "string" }
  }
})
const mebibyte = 1024 * 1024
const chunkBytes = 64 * 1024
const mostMb = 50

interface Cost {
  readonly sha256: Blob.Sha256
  readonly growth: number
  readonly ms: number
}

/** Stores a content, or reads the one with this SHA-256. */
const measure = (store: string, task: string) =>
  Effect.gen(function* () {
    const { blobs } = yield* RunStore.RunStore
    if (blobs === undefined) return yield* Effect.die("The store keeps no contents.")
    yield* blobs.putAll([new Uint8Array([1])])
    const before = process.memoryUsage.rss()
    const start = performance.now()
    let peak = before
    const sample = Effect.sync(() => {
      peak = Math.max(peak, process.memoryUsage.rss())
    })
    const chunk = new Uint8Array(chunkBytes)
    const content = Stream.range(1, (Number(values.mebibytes) * mebibyte) / chunkBytes).pipe(
      Stream.mapEffect((index) => Effect.as(sample, chunk.fill(index)))
    )
    const read = (sha256: Blob.Sha256) =>
      Effect.as(
        Stream.runForEach(blobs.read(sha256), () => sample),
        sha256
      )
    const sha256 =
      task === "put"
        ? yield* Effect.map(blobs.put(content), (ref) => ref.sha256)
        : yield* read(task as Blob.Sha256)
    return { sha256, growth: (peak - before) / mebibyte, ms: performance.now() - start }
  }).pipe(
    Effect.provide(
      store.startsWith("postgres")
        ? PostgresStore.layer({ url: store })
        : SqliteStore.layer({ filename: store })
    ),
    Effect.runPromise
  )

const inProcess = (store: string, task: string): Cost => {
  const given = ["--mebibytes", values.mebibytes, "--store", store, "--task", task]
  const { status, stdout } = spawnSync(
    process.execPath,
    [...process.execArgv, import.meta.filename, ...given],
    {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "inherit"]
    }
  )
  if (status !== 0) process.exit(1)
  return JSON.parse(stdout) as Cost
}

const { store, task } = values
if (store !== undefined && task !== undefined) {
  console.log(JSON.stringify(await measure(store, task)))
} else {
  const folder = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-contents-"))
  const postgres = await openPostgres()
  try {
    const stores = {
      SQLite: Path.join(folder, "runs.db"),
      Postgres: await postgres.database("fermata_contents")
    }
    for (const [name, store] of Object.entries(stores)) {
      const put = inProcess(store, "put")
      const read = inProcess(store, put.sha256)
      for (const [what, { growth, ms }] of Object.entries({ put, read }))
        console.log(`${name}, ${what}: ${growth.toFixed(0)} MB, ${ms.toFixed(0)} ms`)
      if (name === "SQLite" && put.growth > mostMb) process.exitCode = 1
    }
  } finally {
    await postgres.close()
    Fs.rmSync(folder, { recursive: true })
  }
}
