/**
 * Whether this process has the lock that SQLite keeps on a database while a connection is open, as Linux lists it.
 */
import * as Fs from "node:fs"

/** Whether any lock of this process is on the file. */
export const holdsLocks = (filename: string): boolean => {
  const { ino } = Fs.statSync(filename)
  return Fs.readFileSync("/proc/locks", "utf8")
    .split("\n")
    .some((line) => {
      const [, , , , pid, place] = line.split(/\s+/)
      return Number(pid) === process.pid && place?.endsWith(`:${ino}`) === true
    })
}
