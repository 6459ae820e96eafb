/**
 * The locks that this process has on a SQLite store, as the kernel lists them, and how to read its files without losing them.
 */
import { execFileSync } from "node:child_process"
import { readFileSync, statSync } from "node:fs"

/** The reason why locks cannot be counted here; `undefined` on Linux. */
export const noLocks = process.platform === "linux" ? undefined : "only Linux lists the locks of a process"

/** The locks on a database and on the index of its log, in the order of the kernel: `READ 128-128 on -shm`. */
export const locksOn = (filename: string): ReadonlyArray<string> => {
  const lines = readFileSync("/proc/locks", "utf8").split("\n")
  return ["", "-shm"].flatMap((suffix) => {
    const inode = statSync(filename + suffix, { throwIfNoEntry: false })?.ino
    return lines.flatMap((line) => {
      const [, , , kind, pid, place = "", start, end] = line.split(/\s+/)
      return Number(pid) === process.pid && place.split(":")[2] === String(inode)
        ? [`${kind} ${start}-${end} on ${suffix === "" ? "the database" : suffix}`]
        : []
    })
  })
}

/** The text of a file that this process may have locked, each byte a character: another process reads it. */
export const readLive = (path: string): string =>
  execFileSync("cat", [path], { encoding: "latin1", maxBuffer: 1024 * 1024 * 1024 })

/** Copies a file that this process may have locked: another process reads it. */
export const copyLive = (from: string, to: string): void => {
  execFileSync("cp", [from, to])
}
