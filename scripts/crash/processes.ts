/**
 * Real processes: killed at random moments, frozen for longer than their lease, terminated, without a reader of their output, on a full
 * disk, and all of them deciding the same requests.
 */
import * as ChildProcess from "node:child_process"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { generator } from "../../packages/sdk/src/testing/internal/simulation/random.ts"
import { canary } from "./canary.ts"
import { inspect, readLog, spawn, survivors, type Worker } from "./fleet.ts"
import type { Orders } from "./worker.ts"

/** Counts of the faults and their effects. */
export type Processed = ReturnType<typeof nothing>

const nothing = () => ({
  kills: 0,
  /** Kills of processes that drove a tree of sub-agents. */
  treeKills: 0,
  stops: 0,
  terminations: 0,
  slowestStopMs: 0,
  runs: 0,
  effects: 0,
  /** Effects of bodies that were at work when their process was frozen for longer than its lease. */
  lateEffects: 0,
  doubts: 0,
  decideTries: 0,
  resumeTries: 0,
  /** How often a worker opened the file of its open store again. */
  looks: 0,
  fullDisks: 0,
  leftOver: 0,
  /** Time until a run whose process was gone was taken up. */
  medianTakeoverMs: 0,
  slowestTakeoverMs: 0,
  violations: [] as Array<string>
})

export interface ProcessOptions {
  /** Makes an empty store and returns its name. */
  readonly store: (name: string) => Promise<string>
  readonly kills: number
  readonly workers: number
  readonly seed: number
  readonly progress: (text: string) => void
  /** How many decisions of the same requests, and how many resumes of the same runs, are attempted. */
  readonly doubles: number
  readonly sqlite: boolean
}

const leaseMs = 400

/** How long a worker may take to end after SIGTERM. */
const stopLimitMs = 5000

/** A worker that takes this long hangs. */
const hangMs = 180_000

export const processes = async (options: ProcessOptions): Promise<Processed> => {
  const { progress, workers } = options
  const random = generator(options.seed)
  const directory = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-processes-"))
  const total = nothing()
  const report = (text: string) => {
    total.violations.push(text)
    progress(text)
  }
  let round = 0
  let decides = 0
  const takeovers: Array<number> = []

  /** Runs workers on one store until its runs have ended. `trouble` is the fault of each worker that is ready. */
  const play = async (
    what: {
      readonly name: string
      readonly runs: number
      readonly work: Orders["work"]
      readonly chatty?: boolean
      readonly looks?: boolean
    },
    trouble: (worker: Worker) => Promise<"again" | "done">
  ) => {
    const name = `${what.name}_${++round}`
    const log = Path.join(directory, `${name}.log`)
    Fs.writeFileSync(log, "")
    const store = await options.store(name)
    const { chatty = false, looks = false, runs, work } = what
    const orders = { store, log, runs, leaseMs, work, chatty, looks }
    const complain = (text: string) => report(`${name}: ${text}`)
    const place = async (): Promise<void> => {
      while (true) {
        const worker = spawn(orders)
        await worker.ready
        const next = await trouble(worker)
        const { code, output } = await outcomeOf(worker)
        if (output.includes(canary)) complain(`a worker printed the secret: ${output.slice(-600)}`)
        if (next === "again") continue
        if (code !== 0) complain(`a worker ended with ${code}: ${output.slice(-600)}`)
        return
      }
    }
    await Promise.all(Array.from({ length: workers }, place))
    const found = readLog(log)
    const { late, takeoversMs, violations } = await inspect(store, found, what.runs)
    violations.forEach(complain)
    takeovers.push(...takeoversMs)
    total.lateEffects += late
    total.runs += what.runs
    total.effects += found.effects.length
    total.doubts += found.doubts
    total.decideTries += found.tries
    total.resumeTries += found.resumes
    total.looks += found.looks
    progress(
      `${name}: ${total.kills} kills, ${total.stops} stops, ${total.terminations} ends, ${total.violations.length} violations`
    )
  }

  const isOver = (worker: Worker) => worker.process.exitCode !== null || worker.process.signalCode !== null

  const kill = async (worker: Worker) => {
    // Most kills fall early, where the work is; a few let the worker get far.
    await Promise.race([sleep(Math.floor(random() ** 2 * 400)), worker.exit])
    if (isOver(worker)) return false
    worker.process.kill("SIGKILL")
    await worker.exit
    return true
  }

  const freeze = async (worker: Worker) => {
    await Promise.race([sleep(Math.floor(random() * 150)), worker.exit])
    if (isOver(worker)) return
    worker.process.kill("SIGSTOP")
    await sleep(leaseMs * 2)
    worker.process.kill("SIGCONT")
    total.stops += 1
  }

  const end = async (worker: Worker) => {
    if (isOver(worker)) return false
    const started = performance.now()
    worker.process.kill("SIGTERM")
    const late = setTimeout(() => worker.process.kill("SIGKILL"), stopLimitMs + 2000)
    const { code, output } = await worker.exit
    clearTimeout(late)
    const took = Math.round(performance.now() - started)
    total.terminations += 1
    total.slowestStopMs = Math.max(total.slowestStopMs, took)
    if (took > stopLimitMs) report(`a worker took ${took} ms to end`)
    // A program that is already ending has no signal handler left.
    if (code !== 0 && !output.endsWith("over\n"))
      report(`a worker that was asked to end ended with ${code}: ${output.slice(-600)}`)
    return true
  }

  // Kills, freezes and terminations in random order.
  while (total.kills < options.kills) {
    let left = Math.min(60, options.kills - total.kills)
    await play({ name: "killed", runs: 120, work: "mixed" }, async (worker) => {
      if (left <= 0) return "done"
      const chance = random()
      if (chance < 0.08) await freeze(worker)
      if (chance > 0.94) {
        await sleep(Math.floor(random() * 100))
        return (await end(worker)) ? "again" : "done"
      }
      left -= 1
      if (!(await kill(worker))) {
        left += 1
        return "done"
      }
      total.kills += 1
      return "again"
    })
  }

  // Kills of processes with trees of sub-agents.
  let inTrees = Math.max(4, Math.floor(options.kills / 10))
  await play(
    { name: "trees", runs: Math.max(2, Math.floor(options.kills / 20)), work: "tree" },
    async (worker) => {
      if (inTrees <= 0) return "done"
      inTrees -= 1
      if (!(await kill(worker))) return "done"
      total.treeKills += 1
      return "again"
    }
  )

  // All workers decide all requests at once.
  while (decides < options.doubles) {
    const before = total.decideTries
    await play({ name: "decided", runs: 100, work: "charges" }, () => Promise.resolve("done"))
    decides += total.decideTries - before
  }

  // All workers resume all runs at once, each twice.
  while (total.resumeTries < options.doubles) {
    await play({ name: "resumed", runs: 200, work: "resumes" }, () => Promise.resolve("done"))
  }

  // Workers check, back up and reopen the file of their open store, while they work and others are killed.
  if (options.sqlite) {
    let left = Math.max(4, Math.floor(options.kills / 10))
    await play({ name: "looked", runs: 60, work: "mixed", looks: true }, async (worker) => {
      if (left <= 0) return "done"
      left -= 1
      return (await kill(worker)) ? "again" : "done"
    })
    if (total.looks === 0) report("no worker looked at the file of its open store")
  }

  // The reader of a worker's output is gone: the pipe is closed, and the next worker takes the runs up.
  let closed = workers
  await play({ name: "unread", runs: 20, work: "mixed", chatty: true }, async (worker) => {
    if (closed-- <= 0) return "done"
    worker.process.stdout?.destroy()
    await Promise.race([worker.exit, sleep(3000).then(() => worker.process.kill("SIGKILL"))])
    return "again"
  })

  await stopWithChildren(options, directory, end)
  if (options.sqlite) await fullDisk(total, directory)
  takeovers.sort((one, other) => one - other)
  total.medianTakeoverMs = takeovers[Math.floor(takeovers.length / 2)] ?? 0
  total.slowestTakeoverMs = takeovers.at(-1) ?? 0
  const left = survivors()
  total.leftOver = left.length
  if (left.length > 0) total.violations.push(`${left.length} processes are left over`)
  for (const pid of left) process.kill(pid, "SIGKILL")
  if (total.violations.length === 0) Fs.rmSync(directory, { recursive: true, force: true })
  else progress(`The files are kept in ${directory}.`)
  return total
}

/** How a worker ended; a worker that hangs is killed, and its code is then null. */
const outcomeOf = async (worker: Worker) => {
  const watch = setTimeout(() => worker.process.kill("SIGKILL"), hangMs)
  const outcome = await worker.exit
  clearTimeout(watch)
  return outcome
}

/** Terminates a worker whose tool has started a program. No process may stay. */
const stopWithChildren = async (
  options: ProcessOptions,
  directory: string,
  end: (worker: Worker) => Promise<boolean>
) => {
  const log = Path.join(directory, "children.log")
  Fs.writeFileSync(log, "")
  const store = await options.store("children")
  const worker = spawn({ store, log, runs: 3, leaseMs, work: "child", chatty: false })
  await worker.ready
  while (!Fs.readFileSync(log, "utf8").includes("child") && worker.process.exitCode === null) await sleep(20)
  await end(worker)
}

/** Fills the disk under a worker and frees it again: the worker waits, everything acknowledged is there, and the runs end. */
const fullDisk = async (total: Processed, directory: string) => {
  const mount = Path.join(directory, "small")
  Fs.mkdirSync(mount)
  const mounted = asRoot("mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", mount)
  const log = Path.join(directory, "full.log")
  Fs.writeFileSync(log, "")
  const store = Path.join(mount, "runs.db")
  const orders = { store, log, runs: 120, leaseMs, work: "mixed", chatty: false } as const
  const complain = (text: string) => total.violations.push(`full disk: ${text}`)
  try {
    // Without the right to mount, a limit on the size of files has the same effect, and a second worker has no limit.
    let worker = spawn(orders, mounted ? {} : { fileBlocks: 512 })
    await worker.ready
    const ballast = Path.join(mount, "ballast")
    if (mounted) fill(ballast)
    await Promise.race([worker.exit, sleep(2500)])
    if (worker.process.exitCode !== null) {
      complain(`the worker did not wait for space: ${(await worker.exit).output.slice(-400)}`)
    }
    const done = readLog(log).ended.length
    if (done >= orders.runs) complain("the disk was never full")
    if (mounted) Fs.rmSync(ballast)
    else {
      worker.process.kill("SIGKILL")
      await worker.exit
      worker = spawn(orders)
    }
    const { code, output } = await outcomeOf(worker)
    if (code !== 0) complain(`the worker ended with ${code}: ${output.slice(-400)}`)
    const { violations } = await inspect(store, readLog(log), orders.runs)
    violations.forEach(complain)
    total.fullDisks += 1
    total.runs += orders.runs
  } finally {
    if (mounted) asRoot("umount", "-l", mount)
  }
}

/** Runs a program that this user may not be allowed to run. */
const asRoot = (...command: ReadonlyArray<string>): boolean =>
  ChildProcess.spawnSync("/usr/bin/env", command).status === 0

/** Writes until there is no space left. */
const fill = (path: string): void => {
  const file = Fs.openSync(path, "w")
  try {
    while (true) Fs.writeSync(file, Buffer.alloc(16 * 1024))
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOSPC")) throw error
  } finally {
    Fs.closeSync(file)
  }
}
