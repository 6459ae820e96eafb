/**
 * Measures CPU time of the whole process (user and system, with the compiler and the garbage collector), wall time, and the bytes
 * handed to the operating system.
 */
import * as Fs from "node:fs"

/** The cost of some work. */
export interface Spent {
  /** Microseconds. */
  readonly cpu: number
  /** Microseconds. */
  readonly wall: number
  /** Bytes that the process has written, nearly all of them to files. NaN where the system does not count them. */
  readonly bytes: number
}

/** Bytes that this process has read and written, as Linux counts its calls, whether or not they reached the disk. */
export const traffic = (): { readonly read: number; readonly written: number } => {
  try {
    const text = Fs.readFileSync("/proc/self/io", "utf8")
    const field = (name: string) => Number(new RegExp(`^${name}: (\\d+)$`, "m").exec(text)?.[1] ?? Number.NaN)
    return { read: field("rchar"), written: field("wchar") }
  } catch {
    return { read: Number.NaN, written: Number.NaN }
  }
}

/** Starts a watch; the returned function gives the cost since then. */
export const watch = (): (() => Spent) => {
  const { written } = traffic()
  const wall = process.hrtime.bigint()
  const cpu = process.cpuUsage()
  return () => {
    const { system, user } = process.cpuUsage(cpu)
    const wallNs = process.hrtime.bigint() - wall
    return { cpu: user + system, wall: Number(wallNs) / 1000, bytes: traffic().written - written }
  }
}

/** The end of a repetition. */
export interface Effort {
  /** Milliseconds of CPU time to spend on it; at most twelve times as many may pass on the clock. */
  readonly ms: number
  /** Least number of repetitions. Default: 3. */
  readonly least?: number
  /** Greatest number of repetitions. Default: 1,000. */
  readonly most?: number
}

/** Whether there is time for one more repetition. */
const budget = ({ least = 3, most = 1000, ms }: Effort): ((times: number) => boolean) => {
  const cpu = process.cpuUsage()
  const until = performance.now() + ms * 12
  return (times) => {
    if (times < least) return true
    if (times >= most || performance.now() >= until) return false
    const { system, user } = process.cpuUsage(cpu)
    return (user + system) / 1000 < ms
  }
}

/**
 * Lets the event loop turn, as it does in a program that waits for a network now and then, so that systems run the work that they have
 * deferred until then.
 */
export const idle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Repeats the work and returns the cost of each repetition. What `work` does outside of `timed` is not counted. */
export const repeat = async (
  effort: Effort,
  work: (timed: <A>(part: () => Promise<A>) => Promise<A>) => Promise<unknown>
): Promise<ReadonlyArray<Spent>> => {
  const all: Array<Spent> = []
  const again = budget(effort)
  while (again(all.length)) {
    let total: Spent = { cpu: 0, wall: 0, bytes: 0 }
    await work(async (part) => {
      const spent = watch()
      const result = await part()
      const { bytes, cpu, wall } = spent()
      total = { cpu: total.cpu + cpu, wall: total.wall + wall, bytes: total.bytes + bytes }
      return result
    })
    all.push(total)
    await idle()
  }
  return all
}

/** The cost of one of many repetitions under one watch: the clock of CPU time is too coarse for a short one. */
export const sustained = async (effort: Effort, work: () => Promise<unknown>): Promise<Spent> => {
  let times = 0
  let turned = performance.now()
  const again = budget(effort)
  const spent = watch()
  while (again(times)) {
    await work()
    times += 1
    // Not after each repetition: a short run takes less time than this.
    if (performance.now() - turned > 5) {
      await idle()
      turned = performance.now()
    }
  }
  const { bytes, cpu, wall } = spent()
  return { cpu: cpu / times, wall: wall / times, bytes: bytes / times }
}

/** The median; the higher one of two. */
export const median = (numbers: ReadonlyArray<number>): number =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN

/** Fails with the expected and the actual value. */
export const demand = (is: unknown, expected: unknown, what: string): void => {
  if (is !== expected)
    throw new Error(`${what} should be ${JSON.stringify(expected)} and is ${JSON.stringify(is)}.`)
}
