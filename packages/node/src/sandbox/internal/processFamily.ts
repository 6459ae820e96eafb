/**
 * Finds and stops the processes that a command started, also those that left its process group.
 *
 * Every process of a command inherits a variable that names the command. On Linux, `/proc` shows it, with the parent, the group and the
 * session of each process. A process that both clears its environment and leaves its session after its parents have ended is not found; in a
 * PID namespace, it ends with the others. On systems without `/proc`, only the process group is stopped.
 */
import { closeSync, existsSync, openSync, readdirSync, readSync } from "node:fs"

/** The variable that names the command of a process. */
export const markerName = "FERMATA_SANDBOX"

/** The value of the marker for a command. It keeps the marker of this process, if this process runs in a sandbox itself. */
export const markerValue = (id: string): string => {
  const outer = process.env[markerName]
  return outer === undefined ? id : `${outer},${id}`
}

interface Entry {
  readonly pid: number
  readonly parent: number
  readonly group: number
  readonly session: number
  /** When the process started, in ticks since the boot: with the pid, it identifies the process. */
  readonly startedAt: number
  readonly isZombie: boolean
}

const hasProc = process.platform === "linux" && existsSync("/proc/self/stat")

const readEntry = (pid: number): Entry | undefined => {
  const stat = readText(`/proc/${pid}/stat`)
  if (stat === undefined) return undefined
  // The name of the program is in parentheses, and may contain any character.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  return {
    pid,
    isZombie: fields[0] === "Z" || fields[0] === "X",
    parent: Number(fields[1]),
    group: Number(fields[2]),
    session: Number(fields[3]),
    startedAt: Number(fields[19])
  }
}

/**
 * Shared by all reads: `readFileSync` would allocate such a buffer for each file of `/proc`, and collecting those takes longer than the
 * reads.
 */
let shared: Buffer | undefined

/** The content of a file of `/proc`; `undefined` if its process has ended, or belongs to another user. */
const readText = (path: string): string | undefined => {
  let file: number | undefined
  try {
    file = openSync(path, "r")
    shared ??= Buffer.allocUnsafe(65_536)
    let text = ""
    for (;;) {
      const length = readSync(file, shared)
      if (length === 0) return text
      text += shared.toString("latin1", 0, length)
    }
  } catch {
    return undefined
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

const readEntries = (): ReadonlyArray<Entry> =>
  readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? (readEntry(Number(name)) ?? []) : []))

/** The way to stop the processes of a command: a signal, and SIGKILL after a grace period. */
export interface Stop {
  /** Sent first. */
  readonly signal: NodeJS.Signals
  /** How long the processes may take until SIGKILL, in milliseconds. */
  readonly graceMs: number
}

/** How long SIGKILL is repeated while a process starts others, in milliseconds. */
const killingMs = 3000
const pollMs = 10

/** The processes of one command, which is running. */
export class ProcessFamily {
  private readonly id: string
  private readonly leader: number
  private readonly since: number
  /** Whether the first process is the wall around the others, which end with it. */
  private readonly isWalled: boolean
  private isLeaderAlive = true
  private isGone = false
  /** Members that were found, by pid: when they started. */
  private readonly known = new Map<number, number>()

  constructor(options: { readonly id: string; readonly leader: number; readonly isWalled: boolean }) {
    this.id = options.id
    this.leader = options.leader
    this.isWalled = options.isWalled
    this.since = (hasProc ? readEntry(options.leader)?.startedAt : undefined) ?? 0
  }

  /**
   * Records that the first process has ended, and finds the processes that it left behind. From now on, its pid may be that of another
   * process or group, so members are recognized without it.
   */
  leaderEnded(): void {
    if (!this.isLeaderAlive) return
    // Behind a wall that has ended, no process goes on.
    if (hasProc && !this.isWalled) this.members()
    this.isLeaderAlive = false
    if (hasProc && this.members().length === 0) this.isGone = true
  }

  /** Stops every process of the command. The returned promise does not reject. */
  async stop({ graceMs, signal }: Stop): Promise<void> {
    if (this.isGone) return
    if (!hasProc) return this.stopGroup({ graceMs, signal })
    if (signal !== "SIGKILL") {
      this.send(signal)
      await this.untilGone(graceMs, () => undefined)
    }
    await this.untilGone(killingMs, () => this.send("SIGKILL"))
  }

  /** The processes that are alive. */
  private members(): ReadonlyArray<Entry> {
    const entries = readEntries().filter(
      ({ pid, startedAt }) => pid !== process.pid && startedAt >= this.since
    )
    const found = new Map(entries.filter((entry) => this.isMember(entry)).map((entry) => [entry.pid, entry]))
    for (let before = -1; before !== found.size;) {
      before = found.size
      for (const entry of entries) if (found.has(entry.parent)) found.set(entry.pid, entry)
    }
    for (const { pid, startedAt } of found.values()) this.known.set(pid, startedAt)
    return [...found.values()].filter(({ isZombie }) => !isZombie)
  }

  private isMember({ group, pid, session, startedAt }: Entry): boolean {
    if (this.known.get(pid) === startedAt) return true
    if (this.isLeaderAlive && [pid, group, session].includes(this.leader)) return true
    return readText(`/proc/${pid}/environ`)?.includes(this.id) === true
  }

  private send(signal: NodeJS.Signals): void {
    for (const { parent, pid } of this.members()) {
      // A wall that ends takes the others with it, before they have seen the signal.
      if (this.isWalled && signal !== "SIGKILL" && parent === process.pid) continue
      sendSignal(pid, signal)
    }
  }

  /** Waits until no process is left, for at most `ms` milliseconds. Calls `before` at each check. */
  private async untilGone(ms: number, before: () => void): Promise<void> {
    const end = performance.now() + ms
    while (!this.isGone && performance.now() < end) {
      before()
      // A process that was started while the list was read may be missing in it, so the list is read again.
      this.isGone = this.members().length === 0 && this.members().length === 0
      if (!this.isGone) await pause(pollMs)
    }
  }

  private async stopGroup({ graceMs, signal }: Stop): Promise<void> {
    sendSignal(-this.leader, signal)
    const end = performance.now() + graceMs
    while (sendSignal(-this.leader, 0) && performance.now() < end) await pause(pollMs)
    sendSignal(-this.leader, "SIGKILL")
  }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Whether the signal was sent. */
const sendSignal = (pid: number, signal: NodeJS.Signals | 0): boolean => {
  try {
    return process.kill(pid, signal)
  } catch {
    return false
  }
}
