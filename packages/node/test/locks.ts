/**
 * The locks that this process has on a SQLite store, as the kernel lists them, and how to read its files without losing them.
 */
import { execFileSync } from "node:child_process"
import Fs from "node:fs"

// As they are before `lockGuard.ts` guards them.
const { readdirSync, readFileSync, statSync } = Fs

/** The reason why locks cannot be counted here; `undefined` on Linux. */
export const noLocks = process.platform === "linux" ? undefined : "only Linux lists the locks of a process"

/**
 * The locks of this process, each with its inode. Read from its open files: the list of all processes' locks is read in pieces and
 * changes in between.
 */
export const ownLocks = (): ReadonlyArray<{ readonly inode: string; readonly lock: string }> =>
  readdirSync("/proc/self/fdinfo").flatMap((descriptor) =>
    infoOf(descriptor).flatMap((line) => {
      if (!line.startsWith("lock:")) return []
      const [, , , , kind, , place = "", start, end] = line.split(/\s+/)
      return [{ inode: place.split(":")[2] ?? "", lock: `${kind} ${start}-${end}` }]
    })
  )

/** A descriptor's entry in procfs; empty for the descriptor that listed the directory. */
const infoOf = (descriptor: string): ReadonlyArray<string> => {
  try {
    return readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8").split("\n")
  } catch {
    return []
  }
}

/** The locks on a database and on the index of its log: `READ 128-128 on -shm`. */
export const locksOn = (filename: string): ReadonlyArray<string> => {
  const locks = ownLocks()
  return ["", "-shm"].flatMap((suffix) => {
    const inode = String(statSync(filename + suffix, { throwIfNoEntry: false })?.ino)
    return locks.flatMap((own) =>
      own.inode === inode ? [`${own.lock} on ${suffix === "" ? "the database" : suffix}`] : []
    )
  })
}

/** The text of a file that this process may have locked, each byte a character: another process reads it. */
export const readLive = (path: string): string =>
  execFileSync("cat", [path], { encoding: "latin1", maxBuffer: 1024 * 1024 * 1024 })

/** Copies a file that this process may have locked: another process reads it. */
export const copyLive = (from: string, to: string): void => {
  execFileSync("cp", [from, to])
}
