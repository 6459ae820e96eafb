/**
 * Performs every operation of a program on a damaged store and reports the violations. Damage to one row may stop one run, with an error
 * that names it, and nothing else.
 */
import { copyFileSync, rmSync, statSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { answer, approve, deny, type Fermata, SqliteStore } from "@fermata/node"
import type { Id } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import { type Case, descendants } from "./cases.ts"
import { type Did, open } from "./story.ts"

/** The statuses of the runs. */
type Standing = Readonly<Record<string, string>>

/** The results of an undamaged store. */
export interface Reference {
  readonly filename: string
  /** The effects before the damage. */
  readonly before: ReadonlyArray<Did>
  readonly heads: ReadonlyArray<string>
  readonly pending: ReadonlyArray<string>
  readonly grants: ReadonlyArray<string>
  readonly read: Standing
  readonly ended: Standing
  readonly growth: number
}

/** Calls that were approved before the damage, and not acted on. */
const approved = ["decided.t1.1"]

const mostMillis = 15_000
const mostGrowth = 400_000

class Hangs extends Error {}

const within = async <A>(what: string, promise: Promise<A>): Promise<A> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Hangs(`${what} does not come to an end`)), mostMillis)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** The complaint about an error that a caller cannot act on; `undefined` for a typed one. */
const untyped = (error: unknown): string | undefined => {
  if (error instanceof Hangs) return error.message
  if (!(error instanceof Error)) return `throws ${String(error)}`
  const { _tag: tag, reason } = error as {
    readonly _tag?: unknown
    readonly reason?: { readonly _tag?: unknown }
  }
  if (typeof tag !== "string" || tag === "UnknownError") return `throws an untyped ${error.stack}`
  return reason?._tag === "StoreFault" ? `fails with a StoreFault: ${error.message}` : undefined
}

const isUnreadable = (error: unknown): boolean =>
  (error as { readonly reason?: { readonly _tag?: unknown } } | undefined)?.reason?._tag === "StoreUnreadable"

/** The results of one trial. */
interface Seen extends Omit<Reference, "filename" | "before"> {
  readonly complaints: ReadonlyArray<string>
}

/** Performs every operation on a copy of the store. */
const attempt = async (
  { before, filename }: Pick<Reference, "before" | "filename">,
  damage: Case | undefined
): Promise<Seen> => {
  const copy = `${filename}.copy`
  for (const suffix of ["", "-wal", "-shm"]) rmSync(copy + suffix, { force: true })
  rmSync(`${copy}.backup`, { force: true })
  copyFileSync(filename, copy)
  if (damage !== undefined) {
    const database = new DatabaseSync(copy)
    database.prepare(damage.sql).run(...damage.values)
    database.close()
  }
  const complaints: Array<string> = []
  const did: Array<Did> = []
  const shown = new Set(approved)
  let unreadable: string | undefined
  const attempt = async <A>(what: string, act: () => Promise<A>): Promise<A | undefined> => {
    try {
      return await within(what, act())
    } catch (error) {
      const wrong = untyped(error)
      if (wrong !== undefined) complaints.push(`${what}: ${wrong}`)
      if (isUnreadable(error)) unreadable ??= `${what}: ${(error as Error).message}`
      return undefined
    }
  }
  /** Lists all runs, which one damaged row must not prevent. */
  const list = async <A>(what: string, act: () => Promise<ReadonlyArray<A>>): Promise<ReadonlyArray<A>> => {
    const listed = await attempt(what, act)
    if (listed === undefined && damage?.table !== "fermata_schema") complaints.push(`${what} fails for all`)
    return listed ?? []
  }
  const size = statSync(copy).size
  const nothing: Seen = { complaints, heads: [], pending: [], grants: [], read: {}, ended: {}, growth: 0 }
  const checked = await attempt("check", () => Effect.runPromise(SqliteStore.check({ filename: copy })))
  const fermata = await attempt("open", () => open(copy, did))
  if (fermata === undefined) {
    if (damage?.table !== "fermata_schema") complaints.push("the store cannot be opened")
    return nothing
  }
  try {
    const heads = (await list("runs()", () => fermata.runs())).map(({ runId }) => runId as string)
    const pending = await list("pending()", () => fermata.pending())
    const grants = await list("grants()", () => fermata.grants())
    await list("damagedRuns()", () => fermata.damagedRuns())
    const read: Record<string, string> = {}
    for (const runId of names) {
      read[runId] = await standing(() => attempt(`state(${runId})`, () => fermata.state(runId)))
    }
    const victim = damage?.runId ?? "held"
    await attempt("explain", () => fermata.explain(victim))
    await attempt("checkResume", () => fermata.checkResume(victim))
    await attempt("rewindPoints", () => fermata.rewindPoints(victim))
    await attempt("exportRun", () => fermata.exportRun(victim))
    await attempt("backup", () =>
      Effect.runPromise(SqliteStore.backup({ filename: copy, to: `${copy}.backup` }))
    )
    await work(fermata, attempt, complaints, shown)
    const ended: Record<string, string> = {}
    for (const runId of names) {
      const status = await standing(() => attempt(`state(${runId})`, () => fermata.state(runId)))
      ended[runId] = `${status}, ${did.filter((one) => isOf(one, runId)).map(({ callId }) => callId)}`
    }
    const [listed] = (await list("runs()", () => fermata.runs())).filter(({ runId }) => runId === victim)
    // A run at work has more to come.
    if (listed?.status !== "running") await attempt("events", () => all(fermata.events(victim)))
    const session = sessionOf(victim)
    await attempt("decide", () => fermata.decide(`${victim}.r1`, deny("late")))
    await attempt("send", () => fermata.send(victim, "Go on.", { messageId: "late" }))
    await attempt("resume", () => fermata.resume(victim))
    await attempt("runPrompt", () => fermata.runPrompt("desk", "pay", { sessionId: session }))
    const begun = await attempt("runPrompt in a new session", () => fermata.runPrompt("desk", "hello"))
    if (begun?.status !== "completed") complaints.push("a new run does not come to an end")
    await attempt("runPrompt under its id", () => fermata.runPrompt("desk", "pay", { runId: victim }))
    await attempt("fork", () => fermata.fork(victim, "pay", { newRunId: "late-fork" }))
    await attempt("grants of the run", () => fermata.grants({ runId: victim as Id.RunId }))
    await attempt("revokeGrant", () => fermata.revokeGrant(victim, damage?.grantId ?? "granted-1.r1.grant"))
    await attempt("cancel", () => fermata.cancel(victim))
    await round(fermata, attempt)
    await attempt("prune", () => fermata.prune({ endedBefore: Date.now() + 1000 }))
    for (const runId of heads) {
      if (damage !== undefined && descendants(copy, runId).size === 1) {
        await attempt(`remove(${runId})`, () => fermata.remove(runId))
      }
    }
    await attempt("remove", () => fermata.remove(victim))
    const ids = new Set(before.map(({ callId }) => callId))
    for (const { callId, tool } of did) {
      if (ids.has(callId)) complaints.push(`${tool} is done twice: ${callId}`)
      ids.add(callId)
      const isGranted =
        tool === "refund" &&
        (callId.startsWith("granted-") || (damage?.grantId !== undefined && damage.column === undefined))
      if (!isGranted && !shown.has(callId)) complaints.push(`${tool} is done without approval: ${callId}`)
    }
    if (unreadable !== undefined && checked?.ok === true) complaints.push(`check misses that ${unreadable}`)
    return {
      complaints,
      heads,
      pending: pending.map(({ request }) => request.requestId),
      grants: grants.map(({ grant }) => grant.id),
      read,
      ended,
      growth: statSync(copy).size - size
    }
  } finally {
    await attempt("close", () => fermata.close())
  }
}

type Attempt = <A>(what: string, act: () => Promise<A>) => Promise<A | undefined>

/** Decides all pending requests and lets a worker resume the runs, until none is pending. */
const work = async (
  fermata: Fermata.Fermata,
  attempt: Attempt,
  complaints: Array<string>,
  shown: Set<string>
) => {
  for (let turn = 0; turn < 4; turn += 1) {
    const pending = (await attempt("pending()", () => fermata.pending())) ?? []
    if (pending.length === 0 && turn > 0) return
    for (const entry of pending) {
      const { request } = entry
      const decided = await attempt(`decide(${request.requestId})`, () =>
        fermata.decide(
          entry,
          request._tag === "approval" ? approve() : request._tag === "question" ? answer("So.") : deny("no")
        )
      )
      if (decided !== undefined && request._tag === "approval") shown.add(request.callId)
    }
    for (const { error, runId } of (await attempt("recover()", () => fermata.recover())) ?? []) {
      const wrong = error === undefined ? undefined : untyped(error)
      if (wrong !== undefined) complaints.push(`recover() of ${runId}: ${wrong}`)
    }
  }
}

/** One round of a worker. */
const round = async (fermata: Fermata.Fermata, attempt: Attempt) => {
  const controller = new AbortController()
  const working = attempt("work", () => fermata.work({ signal: controller.signal, pollInterval: 5 }))
  await new Promise((resolve) => setTimeout(resolve, 15))
  controller.abort()
  await working
}

const all = async (updates: AsyncIterable<unknown>) => {
  for await (const _ of updates);
}

const standing = async (
  read: () => Promise<{ readonly status: string; readonly revision: number } | undefined>
): Promise<string> => {
  const state = await read()
  return state === undefined ? "unreadable" : `${state.status} at ${state.revision}`
}

const isOf = ({ runId }: Did, root: string) => runId === root || runId.startsWith(`${root}.`)

const names = [
  "done",
  "held",
  "asking",
  "decided",
  "answered",
  "denied",
  "failed",
  "cancelled",
  "ending",
  "inside",
  "beside",
  "handed",
  "talk-1",
  "talk-2",
  "talk-3",
  "fork",
  "told",
  "granted-1",
  "granted-2",
  "revoked-1",
  "revoked-2",
  "left"
]

const sessionOf = (runId: string) => /^(talk|granted|revoked)-/.exec(runId)?.[1] ?? `s-${runId}`

/** The results of the undamaged store, which must be without complaints. */
export const reference = async (filename: string, before: ReadonlyArray<Did>): Promise<Reference> => {
  const { complaints, ...seen } = await attempt({ filename, before }, undefined)
  if (complaints.length > 0) throw new Error(complaints.join("\n"))
  return { ...seen, filename, before }
}

/** The runs that a case may stop. */
const affected = (reference: Reference, { grantId, runId, table }: Case): ReadonlySet<string> => {
  // A checkpoint is a copy.
  if (table === "fermata_checkpoints" || table === "fermata_chunks" || runId === undefined) return new Set()
  const stopped = descendants(reference.filename, runId)
  if (grantId === undefined) return stopped
  // Calls that rely on the grant open requests again.
  return new Set([...stopped, ...names.filter((name) => sessionOf(name) === sessionOf(runId))])
}

/** The violations in a damaged store. */
export const complaintsOf = async (reference: Reference, damage: Case): Promise<ReadonlyArray<string>> => {
  const seen = await attempt(reference, damage)
  const complaints = [...seen.complaints]
  if (damage.table === "fermata_schema") return complaints
  const stopped = affected(reference, damage)
  const isSound = (id: string) => ![...stopped].some((runId) => id === runId || id.startsWith(`${runId}.`))
  const missing = (what: string, expected: ReadonlyArray<string>, found: ReadonlyArray<string>) => {
    const lost = expected.filter((id) => isSound(id) && !found.includes(id))
    if (lost.length > 0) complaints.push(`${what} leaves out ${lost}`)
  }
  missing("runs()", reference.heads, seen.heads)
  missing("pending()", reference.pending, seen.pending)
  missing("grants()", reference.grants, seen.grants)
  for (const what of ["read", "ended"] as const) {
    for (const [runId, expected] of Object.entries(reference[what])) {
      if (isSound(runId) && seen[what][runId] !== expected) {
        complaints.push(`${runId} is not ${expected}, but ${seen[what][runId]} when ${what}`)
      }
    }
  }
  if (seen.growth > reference.growth + mostGrowth) complaints.push(`the file grew by ${seen.growth} bytes`)
  return complaints
}
