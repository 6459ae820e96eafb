import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { agent, createFermata, SqliteStore, tool } from "@fermata/node"
import { RunStore } from "@fermata/sdk/store"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
/**
 * Measures every operation of a SQLite store that has a million held runs, and a tenth as many decided ones.
 *
 * `node --conditions=@fermata/source benchmarks/million.ts` takes some minutes and 4 GB of disk. `--runs 100000` makes a smaller store,
 * `--folder /tmp/million` keeps it, and measures it again if it is there. It prints the median CPU time of each operation in
 * milliseconds, and ends with 1 if one takes more than 3 ms.
 */
// The repository's own script, not the packages that are measured.
// oxlint-disable-next-line no-restricted-imports
import { readOptions } from "../scripts/internal/help.ts"

const { values } = readOptions({
  options: { runs: { type: "string", default: "1000000" }, folder: { type: "string" } }
})
const runs = Number(values.runs)
const folder = values.folder ?? Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-million-"))
const filename = Path.join(folder, "runs.db")
const mostMs = 3

/** The agents of the copies: nine in ten belong to the first. */
const names = ["ops", "sales"]

const fermata = () => {
  const act = tool("act", { approval: { expiresIn: "30 days" }, handler: () => "done" })
  const model = ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "act" }] } : "done")).client
  return createFermata({ agents: names.map((name) => agent(name, { tools: [act] })), model, store: filename })
}

/** Makes a held run, a decided one, and their copies. Every hundredth copy has a journal. */
const fill = async () => {
  const first = await fermata()
  await first.runPrompt("ops", "go", { runId: "original-held" })
  await first.runPrompt("ops", "go", { runId: "original-decided" })
  const [request] = await first.pending({ runId: "original-decided" as never })
  await first.decide(request!, { _tag: "approve" })
  await first.close()
  const database = new DatabaseSync(filename)
  database.exec("PRAGMA synchronous = OFF")
  let offset = 0
  for (const [original, count] of [
    ["original-held", runs],
    ["original-decided", runs / 10]
  ] as const) {
    const columns = (table: string) =>
      (
        database.prepare(`SELECT name FROM pragma_table_info('${table}')`).all() as Array<{ name: string }>
      ).map(({ name }) => {
        if (["run_id", "request_id", "session_id", "request", "events", "decision"].includes(name))
          return `replace(replace(${name}, '${original}', '${original}-' || n), 'ses_', 'ses-' || n || '_')`
        if (name === "number") return `${offset} + 2 + n`
        if (name === "id") return `id % 4294967296 + ((${offset} + 2 + n) << 32)`
        if (name === "agent") return `iif(n % 10 = 0, 'sales', ${name})`
        return name === "created_at" || name === "decided_at" ? `${name} + n` : name
      })
    for (const [table, step] of [
      ["fermata_runs", 1],
      ["fermata_requests", 1],
      ["fermata_journal", 100]
    ] as const) {
      database.exec(`WITH RECURSIVE numbers (n) AS (SELECT ${step} UNION ALL SELECT n + ${step} FROM numbers WHERE n + ${step} <= ${count})
        INSERT INTO ${table} SELECT ${columns(table).join(", ")} FROM ${table} CROSS JOIN numbers WHERE run_id = '${original}'`)
    }
    offset += count
  }
  database.close()
}

const median = (times: ReadonlyArray<number>) =>
  times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)] ?? NaN

/** The median CPU time of an operation, after the first two times. */
const measured = async (once: (index: number) => Promise<unknown>): Promise<number> => {
  const times: Array<number> = []
  const patience = performance.now() + 10_000
  for (let index = 0; index < 25 && (index < 3 || performance.now() < patience); index += 1) {
    const before = process.cpuUsage()
    await once(index)
    const { system, user } = process.cpuUsage(before)
    if (index >= 2) times.push((user + system) / 1000)
  }
  return median(times)
}

if (!Fs.existsSync(filename)) await fill()

type Store = RunStore.RunStore["Service"]
const said = { _tag: "message.queued", at: 1, content: [] } as const

/** A copy with a journal. */
const id = (index: number) => `original-held-${(index + 1) * 100}` as never
const request = (index: number) => `original-held-${(index + 1) * 100}.r1` as never
let made = 0

const operations: Readonly<Record<string, (store: Store, index: number) => Effect.Effect<unknown, unknown>>> =
  {
    head: (store, index) => store.head(id(index)),
    load: (store, index) => store.load(id(index)),
    events: (store, index) => store.events(id(index)),
    request: (store, index) => store.request(request(index)),
    decisions: (store, index) => store.decisions(id(index)),
    messages: (store, index) => store.messages(id(index)),
    latest: (store, index) =>
      Effect.flatMap(store.head(id(index)), ({ sessionId }) => store.latest(sessionId)),
    "notices of 100 runs": (store) => store.notices!(Array.from({ length: 100 }, (_, index) => id(index))),
    ready: (store) => store.ready({ agents: names }),
    "ready, of one agent": (store) => store.ready({ agents: ["sales"] }),
    "ready, of all agents": (store) => store.ready(),
    "ready, of an agent without runs": (store) => store.ready({ agents: ["none"] }),
    nextDue: (store) => store.nextDue({ agents: names }),
    "nextDue, after a time": (store) => store.nextDue({ agents: names, after: Date.now() }),
    "nextDue, of all agents": (store) => store.nextDue(),
    pending: (store) => store.pending(),
    "pending, of a tool": (store) => store.pending({ tool: "act" }),
    "pending, of a tool without requests": (store) => store.pending({ tool: "none" }),
    "pending, of a kind without requests": (store) => store.pending({ kind: "question" }),
    "pending, of an agent": (store) => store.pending({ agent: "sales" }),
    "pending, of an agent without requests": (store) => store.pending({ agent: "none" }),
    "pending, of a run": (store, index) => store.pending({ runId: id(index) }),
    "pending, of a session": (store, index) =>
      Effect.flatMap(store.head(id(index)), ({ sessionId }) => store.pending({ sessionId })),
    "pending, asked before a time": (store) => store.pending({ askedBefore: 1 }),
    "pending, that expire soon": (store) => store.pending({ expiresBefore: 1 }),
    "pending, that expire at all": (store) => store.pending({ expiresBefore: 8e15 }),
    list: (store) => store.list(),
    "list, of an agent": (store) => store.list({ agent: "sales" }),
    "list, of an agent without runs": (store) => store.list({ agent: "none" }),
    "list, held": (store) => store.list({ status: "held" }),
    "list, failed": (store) => store.list({ status: "error" }),
    "list, held, of an agent": (store) => store.list({ agent: "sales", status: "held" }),
    "list, held, of an agent without runs": (store) => store.list({ agent: "none", status: "held" }),
    "list, failed, of an agent": (store) => store.list({ agent: "sales", status: "error" }),
    sessions: (store) => store.sessions(),
    "sessions, of an agent": (store) => store.sessions({ agent: "sales" }),
    "sessions, of an agent without runs": (store) => store.sessions({ agent: "none" }),
    "sessions, held": (store) => store.sessions({ status: "held" }),
    "sessions, failed": (store) => store.sessions({ status: "error" }),
    "sessions, completed": (store) => store.sessions({ status: "completed" }),
    grants: (store) => store.grants(),
    "grants, of a tool": (store) => store.grants({ tool: "act" }),
    prune: (store) => store.prune({ endedBefore: 8e15 }),
    decide: (store, index) => store.decide({ _tag: "approve", requestId: request(100 + index), by: "ann" }),
    "decideAll, of ten": (store, index) =>
      store.decideAll(
        Array.from({ length: 10 }, (_, one) => ({
          _tag: "approve" as const,
          requestId: request(200 + index * 10 + one),
          by: "ann"
        }))
      ),
    send: (store, index) => store.send(id(600 + index), { content: [{ _tag: "text", text: "hello" }] }),
    requestCancel: (store, index) => store.requestCancel(id(700 + index), "enough"),
    "claim, renew, append, park": (store, index) =>
      Effect.gen(function* () {
        const runId = id(800 + index)
        const lease = yield* store.claim({ runId, owner: "me", ttl: "1 minute" })
        const { lease: renewed } = yield* store.renew(lease, "1 minute")
        const { revision } = yield* store.head(runId)
        const next = yield* store.append({
          lease: renewed,
          expected: revision,
          events: [said],
          status: "running"
        })
        yield* store.park({ lease: renewed, expected: next.revision, events: [said], status: "held" })
      }),
    "create, release": (store) =>
      Effect.flatMap(
        store.create({
          runId: `made-${process.pid}-${++made}` as never,
          sessionId: `made-${process.pid}-${made}` as never,
          agent: "ops",
          status: "held",
          events: [said],
          owner: "me",
          ttl: "1 minute"
        }),
        (lease) => store.release(lease)
      ),
    remove: (store, index) => store.remove(id(900 + index))
  }

const slow = await Effect.runPromise(
  Effect.gen(function* () {
    const store = yield* RunStore.RunStore
    const slow: Array<string> = []
    for (const [name, operation] of Object.entries(operations)) {
      const ms = yield* Effect.promise(() => measured((index) => Effect.runPromise(operation(store, index))))
      if (ms > mostMs) slow.push(name)
      console.log(`${name.padEnd(42)} ${ms.toFixed(2).padStart(8)}${ms > mostMs ? "  more than 3 ms" : ""}`)
    }
    return slow
  }).pipe(Effect.provide(SqliteStore.layer({ filename })))
)
if (values.folder === undefined) Fs.rmSync(folder, { recursive: true })
process.exitCode = slow.length === 0 ? 0 : 1
