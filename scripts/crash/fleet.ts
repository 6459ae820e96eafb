/**
 * Worker processes on one store, the log that they left, and whether it agrees with the store.
 */
import * as ChildProcess from "node:child_process"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { SqliteStore } from "@fermata/node"
import type { Decision, Id } from "@fermata/sdk/domain"
import { RunStore, type RunStoreError } from "@fermata/sdk/store"
import { RunChecker } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { collect } from "../../packages/sdk/src/testing/internal/simulation/world.ts"
import { environment } from "../internal/run.ts"
import { sourceFlags } from "../internal/sourceFlags.ts"
import { secretsIn } from "./canary.ts"
import { dumpTables } from "./postgresDatabases.ts"
import { connect } from "./postgresSessions.ts"
import type { Orders } from "./worker.ts"
import { countUnused } from "./world.ts"

/** A worker process. */
export interface Worker {
  readonly owner: string
  readonly process: ChildProcess.ChildProcess
  /** Resolves when it has opened its store, or has ended. */
  readonly ready: Promise<void>
  readonly exit: Promise<{ readonly code: number | null; readonly output: string }>
}

/** Marks our processes and all their children. */
const marker = `FERMATA_CAMPAIGN=${process.pid}`

let spawned = 0

// A campaign that fails leaves no worker behind.
const children = new Set<ChildProcess.ChildProcess>()
process.once("exit", () => children.forEach((child) => child.kill("SIGKILL")))

/** Starts a worker. */
export const spawn = (
  orders: Omit<Orders, "owner">,
  options: { readonly fileBlocks?: number } = {}
): Worker => {
  const owner = `worker-${++spawned}`
  const args = [
    ...sourceFlags,
    Path.join(import.meta.dirname, "worker.ts"),
    JSON.stringify({ ...orders, owner } satisfies Orders)
  ]
  const [name, value] = marker.split("=")
  const limit = options.fileBlocks
  const child = ChildProcess.spawn(
    limit === undefined ? process.execPath : "bash",
    limit === undefined
      ? args
      : ["-c", `ulimit -f ${limit}; trap '' XFSZ; exec "$0" "$@"`, process.execPath, ...args],
    { stdio: ["ignore", "pipe", "pipe"], env: { ...environment, [name!]: value } }
  )
  children.add(child)
  child.once("exit", () => children.delete(child))
  let output = ""
  const exit = new Promise<{ readonly code: number | null; readonly output: string }>((resolve) =>
    child.once("close", (code) => resolve({ code, output }))
  )
  const ready = new Promise<void>((resolve) => {
    const listen = (text: string) => {
      output = (output + text).slice(-20_000)
      if (output.includes("ready\n")) resolve()
    }
    child.stdout?.setEncoding("utf8").on("data", listen)
    child.stderr?.setEncoding("utf8").on("data", listen)
    void exit.then(() => resolve())
  })
  return { owner, process: child, ready, exit }
}

/** Our processes and their children that still exist. */
export const survivors = (): ReadonlyArray<number> =>
  Fs.readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return []
    try {
      const environ = Fs.readFileSync(`/proc/${name}/environ`, "utf8")
      const isZombie = /\) Z /.test(Fs.readFileSync(`/proc/${name}/stat`, "utf8"))
      return environ.split("\0").includes(marker) && !isZombie ? [Number(name)] : []
    } catch {
      return []
    }
  })

/** An effect, its owner, and its time. */
interface Logged extends RunChecker.Effect {
  readonly owner: string
  readonly at: number
}

/** The log of the workers. */
export interface Log {
  readonly effects: ReadonlyArray<Logged>
  readonly decided: ReadonlyArray<{
    readonly by: string
    readonly requestId: string
    readonly decision: Decision.Decision
  }>
  readonly ended: ReadonlyArray<{ readonly runId: Id.RunId; readonly status: "completed" }>
  /** Attempts to decide. */
  readonly tries: number
  /** Attempts to resume a run that was held and decided. */
  readonly resumes: number
  readonly doubts: number
  /** How often a worker opened the file of its open store again. */
  readonly looks: number
  /** Problems that a worker found itself. */
  readonly problems: ReadonlyArray<string>
  readonly text: string
}

/** Reads a log; the last line of a killed worker may be cut. */
export const readLog = (path: string): Log => {
  const effects: Array<Logged> = []
  const decided: Array<Log["decided"][number]> = []
  const ended: Array<Log["ended"][number]> = []
  let tries = 0
  let resumes = 0
  let doubts = 0
  let looks = 0
  const problems: Array<string> = []
  const text = Fs.readFileSync(path, "utf8")
  for (const written of text.split("\n")) {
    let line: ReadonlyArray<any>
    try {
      line = JSON.parse(written) as ReadonlyArray<any>
    } catch {
      continue
    }
    if (line[0] === "effect") {
      const [, idempotencyKey, tool, args, attempt, owner, at] = line
      effects.push({ idempotencyKey, tool, arguments: args, attempt, owner, at })
    } else if (line[0] === "decided") {
      decided.push({ by: line[1], requestId: line[2], decision: line[3] })
    } else if (line[0] === "ended") ended.push({ runId: line[1], status: line[2] })
    else if (line[0] === "try") tries += 1
    else if (line[0] === "resume") resumes += 1
    else if (line[0] === "doubt") doubts += 1
    else if (line[0] === "look") looks += 1
    else if (line[0] === "problem") problems.push(String(line[1]))
  }
  return { effects, decided, ended, tries, resumes, doubts, looks, problems, text }
}

/** The layer of a store, by the name of its file or its URL. */
const layerOf = async (
  store: string
): Promise<Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError>> => {
  if (!store.startsWith("postgres")) return SqliteStore.layer({ filename: store })
  const { PostgresStore } = await import("@fermata/node/postgres")
  return PostgresStore.layer({ url: store, maxConnections: 2 })
}

/** All data of the store, as text: the files as they are, or the tables. */
const dumpOf = async (store: string): Promise<ReadonlyArray<string>> => {
  if (store.startsWith("postgres")) {
    return Effect.runPromise(Effect.scoped(Effect.flatMap(connect(store, {}), dumpTables)))
  }
  const files = [store, `${store}-wal`]
  return files.flatMap((file) => (Fs.existsSync(file) ? [Fs.readFileSync(file, "latin1")] : []))
}

/** The outcome of checking a store against its log. */
export interface Inspected {
  readonly violations: ReadonlyArray<string>
  /** See {@link lateEffects}. */
  readonly late: number
  readonly takeoversMs: ReadonlyArray<number>
}

/** Checks the store against the log. All runs must have ended. */
export const inspect = async (store: string, log: Log, runs: number): Promise<Inspected> => {
  const { inbox, runs: stored } = await Effect.runPromise(
    Effect.provide(Effect.flatMap(RunStore.RunStore, collect), await layerOf(store))
  )
  const journals = stored.map(({ journal }) => journal)
  const violations = RunChecker.check({
    journals,
    inbox,
    effects: log.effects,
    effectTools: ["note", "charge", "put"],
    acknowledged: {
      ended: log.ended,
      decisions: log.decided.map(({ decision, requestId }) => ({
        // The root's id, from a request of any of its sub-agents.
        runId: requestId.replace(/(\.t\d+\.\d+)*\.r\d+$/, "") as Id.RunId,
        decision
      }))
    },
    secrets: secretsIn([JSON.stringify([journals, inbox]), log.text, ...(await dumpOf(store))])
  }).map(({ detail, invariant, runId }) => `${invariant} ${runId ?? ""}: ${detail}`)
  violations.push(...log.problems, ...(await contentProblems(store, journals)))
  // Ending a process ends no run.
  const others = journals.filter(({ status }) => status !== "completed")
  if (journals.length !== runs) violations.push(`there are ${journals.length} runs instead of ${runs}`)
  for (const { events, runId, status } of others) {
    violations.push(`${runId} is ${status}; the last event is ${JSON.stringify(events.at(-1)).slice(0, 300)}`)
  }
  const winners = new Map<string, string>()
  for (const { by, requestId } of log.decided) {
    const first = winners.get(requestId)
    if (first !== undefined && first !== by) violations.push(`${requestId} was won by ${first} and by ${by}`)
    winners.set(requestId, by)
  }
  const actors = new Map<string, string>()
  for (const { attempt, idempotencyKey, owner } of log.effects) {
    const dispatch = `${idempotencyKey} attempt ${attempt}`
    const first = actors.get(dispatch)
    if (first !== undefined && first !== owner) {
      violations.push(`${dispatch} was dispatched by ${first} and by ${owner}`)
    }
    actors.set(dispatch, owner)
  }
  return { violations, late: lateEffects(journals, log), takeoversMs: takeovers(journals) }
}

/** Checks that each run has its file, and that no row of a file stays after the runs. Removes the runs. */
const contentProblems = async (
  name: string,
  journals: ReadonlyArray<RunChecker.Journal>
): Promise<ReadonlyArray<string>> => {
  const check = Effect.gen(function* () {
    const store = yield* RunStore.RunStore
    const blobs = store.blobs!
    const problems = (yield* Stream.runCollect(blobs.damaged)).map(
      ({ problem, sha256 }) => `the content ${sha256} is ${problem}`
    )
    const uses = yield* blobs.uses(journals.map(({ runId }) => runId))
    if (uses.length !== journals.length)
      problems.push(`${uses.length} of ${journals.length} runs refer to a content`)
    yield* store.prune({ endedBefore: Number.MAX_SAFE_INTEGER })
    yield* blobs.sweep({ storedBefore: Number.MAX_SAFE_INTEGER })
    return problems
  })
  const problems = await Effect.runPromise(Effect.provide(check, await layerOf(name)))
  const left = await rowsLeft(name)
  return left === 0 ? problems : [...problems, `${left} rows of contents stay after all runs`]
}

const rowsLeft = async (name: string): Promise<number> => {
  if (!name.startsWith("postgres")) {
    using database = new DatabaseSync(name, { readOnly: true })
    return Number(database.prepare(countUnused).get()?.["count"])
  }
  const counting = Effect.flatMap(connect(name, {}), (sql) =>
    sql.unsafe<{ readonly count: string }>(countUnused)
  )
  const [row] = await Effect.runPromise(Effect.scoped(counting))
  return Number(row?.count)
}

/** The time from the last entry of a process about a run until another process took the run up. */
const takeovers = (journals: ReadonlyArray<RunChecker.Journal>): ReadonlyArray<number> =>
  journals.flatMap(({ events }) =>
    events.flatMap((event, index) =>
      event._tag === "run.recovered" ? [event.at - (events[index - 1]?.at ?? event.at)] : []
    )
  )

/**
 * Effects of an attempt after the next attempt had begun: the body was at work when its process was frozen, and continued when the
 * process woke. No store can prevent that; an effect that is dispatched later is refused, and would be a violation.
 */
const lateEffects = (journals: ReadonlyArray<RunChecker.Journal>, { effects }: Log): number => {
  const starts = new Map<string, Array<number>>()
  for (const { events } of journals) {
    for (const event of events) {
      if (event._tag === "tool.notStarted") starts.get(event.callId)?.pop()
      if (event._tag !== "tool.started") continue
      starts.set(event.callId, [...(starts.get(event.callId) ?? []), event.at])
    }
  }
  return effects.filter(({ at, attempt, idempotencyKey }) => {
    const next = starts.get(idempotencyKey)?.[attempt]
    return next !== undefined && at > next
  }).length
}
