/**
 * A worker of the campaign with real processes: it starts runs, decides pending requests and drives the runs that it can claim, until all
 * have ended. It may be killed, frozen or terminated at any moment. Its tools append their effects to a file, and the worker appends the
 * acknowledgements of the store, which the campaign compares with the store.
 */
import { spawn } from "node:child_process"
import * as Fs from "node:fs"
import { setImmediate } from "node:timers/promises"
import {
  agent,
  approve,
  createFermata,
  isAlreadyDecided,
  isLeaseLost,
  isRequestSuperseded,
  isRunBusy,
  isRunConflict,
  isRunSuspended,
  isRunStoreError,
  retry,
  SqliteStore,
  supply,
  tool
} from "@fermata/node"
import type { FilePart } from "@fermata/sdk/domain/Message"
import { type BlobPort, RunStore } from "@fermata/sdk/store"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { ownLocks } from "../../packages/node/test/locks.ts"
import { canary, scrubber } from "./canary.ts"

/** The arguments of a worker. */
export interface Orders {
  readonly store: string
  readonly log: string
  readonly runs: number
  readonly owner: string
  readonly leaseMs: number
  /** The work of each run. */
  readonly work: "mixed" | "charges" | "resumes" | "child" | "tree"
  /** Prints a line for every run. */
  readonly chatty: boolean
  /** Opens the file of its open store again meanwhile: checks it, backs it up, opens and closes a second store. */
  readonly looks?: boolean
}

const orders = JSON.parse(process.argv[2] ?? "{}") as Orders
const { log, owner, runs, store } = orders

const write = (...line: ReadonlyArray<unknown>) => Fs.appendFileSync(log, `${JSON.stringify(line)}\n`)
const happened = (key: string) => Fs.readFileSync(log, "utf8").includes(`["effect","${key}"`)

const parameters = Schema.Struct({ amount: Schema.Number, memo: Schema.optionalKey(Schema.String) })
type Arguments = typeof parameters.Type
interface Context {
  readonly idempotencyKey: string
  readonly attempt: number
}

/** The gaps let a kill cause doubt: before the effect, and between the effect and its record. */
const acting =
  (name: string) =>
  async (args: Arguments, { attempt, idempotencyKey }: Context) => {
    for (let i = 0; i < 20; i++) await setImmediate()
    write("effect", idempotencyKey, name, args, attempt, owner, Date.now())
    for (let i = 0; i < 20; i++) await setImmediate()
    return `${name} ${canary}`
  }

/** Starts a program that would outlive everybody. */
const child = (_: Arguments, { signal }: { readonly signal: AbortSignal }) =>
  new Promise<string>((resolve, reject) => {
    const program = spawn("sleep", ["600"], { stdio: "ignore", signal })
    program.on("error", reject).on("exit", () => resolve("over"))
    write("child", program.pid)
  })

const tools = [
  tool("look", { safety: "readOnly", handler: async () => setImmediate({ seen: canary }) }),
  tool("note", { parameters, needsApproval: false, handler: acting("note") }),
  tool("put", { parameters, needsApproval: false, idempotent: true, handler: acting("put") }),
  tool("charge", { parameters, handler: acting("charge") }),
  tool("child", { parameters, needsApproval: false, handler: child })
]
const delegateAll = (agent: string) => ({
  calls: [1, 2, 3, 4].map(() => ({
    tool: "delegate",
    arguments: { agent, prompt: "Do it.", background: true }
  }))
})
const call = (name: string, amount = 1) => ({ tool: name, arguments: { amount, memo: canary } })
const stories: { readonly [work in Orders["work"]]: ReadonlyArray<ScriptedModel.ScriptedAnswer> } = {
  mixed: [
    { calls: [{ tool: "look" }, { tool: "look" }, call("note")] },
    { calls: [call("charge", 2), { tool: "look" }, call("charge", 3)] },
    { calls: [call("put", 4)] }
  ],
  charges: [{ calls: [1, 2, 3, 4, 5].map((amount) => call("charge", amount)) }],
  resumes: [{ calls: [call("charge", 1)] }, { calls: [call("charge", 2)] }],
  child: [{ calls: [call("child")] }],
  tree: []
}
/** A tree of four branches with four leaves each, all at work beside each other, each level with a held call. */
const tree = (name: string | undefined, turn: number): ScriptedModel.ScriptedAnswer | undefined => {
  if (name === "leaf") return turn === 1 ? { calls: [call("charge", 3)] } : undefined
  const story: ReadonlyArray<ScriptedModel.ScriptedAnswer> = [
    delegateAll(name === "branch" ? "leaf" : "branch"),
    { calls: [call("charge", name === "branch" ? 2 : 1), call("note")] },
    { calls: [{ tool: "wait_for_agent" }] }
  ]
  return story[turn - 1]
}
const model = ScriptedModel.make(({ agentPath, turn }) => {
  const answer = orders.work === "tree" ? tree(agentPath.at(-1), turn) : stories[orders.work][turn - 1]
  return answer ?? `All is booked with ${canary}.`
})

const limits = { maxRecoveries: 1000, maxTurns: 100 }
const leaf = agent("leaf", { tools, limits })
const branch = agent("branch", { tools, limits, subAgents: [leaf], delegation: "delegate" })
const conductor = agent("bookkeeper", { tools, limits, subAgents: [branch], delegation: "delegate" })

/** The contents of the store that was opened first. */
let blobs: BlobPort.BlobPort | undefined
const keepBlobs = Effect.tap(RunStore.RunStore, (opened) =>
  Effect.sync(() => {
    blobs ??= opened.blobs
  })
)

const layerOf = async () => {
  const layer = store.startsWith("postgres")
    ? (await import("@fermata/node/postgres")).PostgresStore.layer({ url: store, maxConnections: 4 })
    : SqliteStore.layer({ filename: store })
  return Layer.effect(RunStore.RunStore, keepBlobs).pipe(Layer.provide(layer))
}

/** Larger than what is stored in one transaction. */
const photo = new Uint8Array(1_100_000).fill(7)

/** Stores the file of a run. Runs share their files; every tenth has the photo. */
const fileOf = async (runId: string): Promise<FilePart> => {
  const number = Number(runId.slice("crash-".length))
  const content = number % 10 === 0 ? photo : new TextEncoder().encode(`The file ${number % 7}.`)
  const ref = await Effect.runPromise(blobs!.put(Stream.make(content)))
  return { _tag: "file", mediaType: "image/png", source: { _tag: "stored", ...ref } }
}

/** Errors after which another worker goes on: it was faster, owns the lease, or will own it. An unreachable store comes back. */
const isPassing = (error: unknown) =>
  isRunBusy(error) ||
  isRunConflict(error) ||
  isLeaseLost(error) ||
  isRunSuspended(error) ||
  isAlreadyDecided(error) ||
  isRequestSuperseded(error) ||
  (isRunStoreError(error) && error.isRetryable)

let passed = 0
const attempt = async <A>(work: () => Promise<A>): Promise<A | undefined> => {
  try {
    return await work()
  } catch (error) {
    if (!isPassing(error)) throw error
    passed += 1
    if (isRunStoreError(error)) await new Promise((resolve) => setTimeout(resolve, 50))
    return undefined
  }
}

const open = async () => {
  while (true) {
    const fermata = await attempt(async () =>
      createFermata({
        agents: [orders.work === "tree" ? conductor : agent("bookkeeper", { tools, limits })],
        model: model.client,
        store: await layerOf(),
        owner,
        by: owner,
        scrubber,
        leaseTtl: orders.leaseMs,
        cancelGrace: "500 millis"
      })
    )
    if (fermata !== undefined) return fermata
  }
}

let leaving = false
const fermata = await open()
process.on("SIGTERM", () => {
  leaving = true
  void fermata.close().then(() => process.exit(0))
})
const say = (text: string) => process.stdout.write(`${text}\n`)
say("ready")

const isOpen = async () => {
  for (const status of ["running", "held"] as const) {
    const found = await attempt(() => fermata.runs({ status, limit: 1 }))
    if (found === undefined || found.length > 0) return true
  }
  return false
}

const shuffled = <A>(items: ReadonlyArray<A>): ReadonlyArray<A> =>
  items
    .map((item) => ({ item, at: Math.random() }))
    .toSorted((one, other) => one.at - other.at)
    .map(({ item }) => item)

const decideAll = async () => {
  const pending = (await attempt(() => fermata.pending({ limit: 200 }))) ?? []
  // In random order, and not all at once.
  const chosen = orders.work === "tree" ? shuffled(pending).slice(0, 7) : pending
  for (const { request } of chosen) {
    if (leaving) return
    // A call in doubt is looked up in the log.
    const answer =
      request._tag === "inDoubt"
        ? happened(request.idempotencyKey)
          ? supply(request.tool)
          : retry()
        : approve()
    if (request._tag === "inDoubt") write("doubt", request.idempotencyKey)
    write("try", request.requestId)
    const decided = await attempt(() => fermata.decide(request, answer, { note: `as ${canary} says` }))
    if (decided !== undefined) write("decided", decided.by, request.requestId, decided)
  }
}

/** Resumes every run that is held and decided, twice at once. Every other worker does the same. */
const resumeAll = async () => {
  const held = (await attempt(() => fermata.runs({ status: "held", limit: 200 }))) ?? []
  const undecided = (await attempt(() => fermata.pending({ limit: 1000 }))) ?? []
  const waiting = new Set(undecided.map(({ runId }) => runId))
  for (const { runId } of held) {
    if (waiting.has(runId)) continue
    const resume = async () => {
      write("resume", runId)
      const result = await attempt(() => fermata.resume(runId))
      if (result?.status === "completed") write("ended", runId, result.status)
    }
    await Promise.all([resume(), resume()])
  }
}

const twice = async () => {
  const second = await open()
  await attempt(() => second.runs({ limit: 10 }))
  await second.close()
}
const checked = async () => {
  const report = await attempt(() => Effect.runPromise(SqliteStore.check({ filename: store })))
  for (const problem of report?.problems ?? []) write("problem", `a check says: ${problem}`)
}
const backedUp = async () => {
  const to = `${store}.${owner}.copy`
  await attempt(() => Effect.runPromise(SqliteStore.backup({ filename: store, to })))
  const { problems } = await Effect.runPromise(SqliteStore.check({ filename: to }))
  for (const problem of problems) write("problem", `a check of a backup says: ${problem}`)
  Fs.rmSync(to)
}
const reopened = () =>
  attempt(() =>
    Effect.runPromise(Effect.scoped(Layer.build(Layer.fresh(SqliteStore.layer({ filename: store })))))
  )
const looks = [checked, twice, backedUp, reopened]
let looked = Number(/\d+$/.exec(owner)?.[0] ?? 0)

/** Opens the file again, each time in another way. The locks of the open store must be there afterwards. */
const look = async () => {
  if (orders.looks !== true) return
  const way = looks[looked++ % looks.length]!
  await way()
  write("look", way.name)
  if (
    process.platform === "linux" &&
    !ownLocks().some(({ inode }) => inode === String(Fs.statSync(store).ino))
  ) {
    write("problem", `the locks of the open store are gone after ${way.name}`)
  }
}

/** Opens the file again from time to time while the work goes on. */
const keepLooking = async (work: Promise<void>) => {
  let over = false
  const end = work.finally(() => (over = true))
  // The work may fail during a look.
  end.catch(() => {})
  while (orders.looks === true && !over && !leaving) {
    await look()
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  await end
}

const work = async () => {
  const first = Number(/\d+$/.exec(owner)?.[0] ?? 0) * 7919
  const starting = Array.from({ length: runs }, (_, i) => `crash-${(i + first) % runs}`)
  for (let runId = starting.shift(); runId !== undefined && !leaving; runId = starting.shift()) {
    try {
      const asked = { _tag: "text", text: `Book ${runId}, the key is ${canary}` } as const
      const result = await fermata.runPrompt("bookkeeper", [asked, await fileOf(runId)], { runId })
      if (result.status === "completed") write("ended", runId, result.status)
    } catch (error) {
      const exists =
        typeof error === "object" && error !== null && "_tag" in error && error._tag === "RunExists"
      if (!exists && !isPassing(error)) throw error
      // A second start finds out whether the run was stored before the store failed.
      if (!exists) starting.push(runId)
      if (isRunStoreError(error)) await new Promise((resolve) => setTimeout(resolve, 50))
    }
    if (orders.chatty) say(runId)
    if (starting.length % 20 === 0) await decideAll()
  }
  // Every second worker leaves the search for ready runs to `work`.
  const isStanding = orders.work !== "resumes" && Number(/\d+$/.exec(owner)?.[0] ?? 0) % 2 === 0
  if (isStanding) fermata.work({ pollInterval: 100 }).catch(() => {})
  while (!leaving) {
    await decideAll()
    if (orders.work === "resumes") await resumeAll()
    if (isStanding) await new Promise((resolve) => setTimeout(resolve, 20))
    for (const { runId, status } of isStanding
      ? []
      : ((await attempt(() => fermata.recover({ limit: 200 }))) ?? [])) {
      if (status === "completed") write("ended", runId, status)
      if (orders.chatty) say(runId)
    }
    if (!(await isOpen())) return
  }
}
try {
  await keepLooking(work())
} catch (error) {
  if (!leaving) throw error
}
if (!leaving) {
  write("over", owner, passed)
  await fermata.close()
  say("over")
}
