/**
 * The crash campaign: real workers on one SQLite file are killed with SIGKILL at random moments, over and over, until all runs are
 * over. What holds is checked from outside: the file that the tools themselves wrote, the journal, and the inbox.
 *
 * `npm run crash -- --runs 20 --kills 30 --seed 7 --workers 2` prints one line of JSON and exits with 1 on a violation.
 */
import * as ChildProcess from "node:child_process"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { parseArgs } from "node:util"
import { environment } from "./internal/run.ts"

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "30" },
    kills: { type: "string", default: "60" },
    workers: { type: "string", default: "2" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) }
  }
})
const runs = Number(values.runs)
const kills = Number(values.kills)
const workers = Number(values.workers)
const seed = Number(values.seed)

let state = (seed % 2147483646) + 1
const random = () => (state = (state * 16807) % 2147483647) / 2147483647

const folder = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-crash-"))
const store = Path.join(folder, "runs.db")
const log = Path.join(folder, "effects.log")
Fs.writeFileSync(log, "")

interface Worker {
  readonly child: ChildProcess.ChildProcess
  readonly ready: Promise<void>
  readonly exit: Promise<{ readonly code: number | null; readonly output: string }>
}

let spawned = 0
const spawnWorker = (): Worker => {
  const child = ChildProcess.spawn(
    process.execPath,
    [
      "--conditions=@fermata/source",
      Path.join(import.meta.dirname, "crash/worker.ts"),
      store,
      log,
      String(runs),
      `worker-${++spawned}`
    ],
    { stdio: ["ignore", "pipe", "pipe"], env: environment }
  )
  let output = ""
  const exit = new Promise<{ readonly code: number | null; readonly output: string }>((resolve) =>
    child.once("close", (code) => resolve({ code, output }))
  )
  const ready = new Promise<void>((resolve) => {
    const listen = (text: string) => {
      output += text
      if (output.includes("ready\n")) resolve()
    }
    child.stdout.setEncoding("utf8").on("data", listen)
    child.stderr.setEncoding("utf8").on("data", listen)
    void exit.then(() => resolve())
  })
  return { child, ready, exit }
}

const violations: Array<string> = []
let killed = 0
let failures = 0

/** One place in the campaign: a worker that is killed and replaced until the kills are used up. */
const place = async (): Promise<void> => {
  while (true) {
    const worker = spawnWorker()
    await worker.ready
    if (killed < kills) {
      killed += 1
      // Most kills fall early, where the work is; a few let the worker get far.
      const timer = setTimeout(() => worker.child.kill("SIGKILL"), Math.floor(random() ** 2 * 400))
      await worker.exit
      clearTimeout(timer)
      continue
    }
    const { code, output } = await worker.exit
    if (code === 0) return
    failures += 1
    violations.push(`a worker ended with ${code}: ${output.slice(-400)}`)
    return
  }
}
const started = performance.now()
await Promise.all(Array.from({ length: workers }, place))

const lines = Fs.readFileSync(log, "utf8").trim().split("\n")
const count = (word: string) => {
  const counts = new Map<string, number>()
  for (const line of lines) {
    const [what, key = ""] = line.split(" ")
    if (what === word) counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  return counts
}
const done = count("done")
for (const [key, times] of done) if (times !== 1) violations.push(`${key} took effect ${times} times`)
const expected = runs * 3
if (done.size !== expected) violations.push(`${done.size} effects instead of ${expected}`)

const database = new DatabaseSync(store, { readOnly: true })
const number = (sql: string) => Number((database.prepare(sql).get() as { readonly n: number }).n)
const completed = number("SELECT count(*) AS n FROM fermata_runs WHERE status = 'completed'")
if (completed !== runs) violations.push(`${completed} of ${runs} runs are completed`)
const open = number("SELECT count(*) AS n FROM fermata_requests WHERE status = 'open'")
if (open !== 0) violations.push(`${open} requests are still open`)
const integrity = (database.prepare("PRAGMA integrity_check").get() as { readonly integrity_check: string })
  .integrity_check
if (integrity !== "ok") violations.push(`the database is damaged: ${integrity}`)
database.close()

console.log(
  JSON.stringify({
    seed,
    runs,
    workers,
    kills: killed,
    effects: done.size,
    inDoubt: count("doubt").size,
    violations,
    seconds: Math.round((performance.now() - started) / 100) / 10
  })
)
if (violations.length > 0) {
  console.error(`The campaign's files are in ${folder}; run it again with --seed ${seed}.`)
  process.exit(1)
}
Fs.rmSync(folder, { recursive: true, force: true })
