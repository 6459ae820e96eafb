/**
 * A lock on a path, held by one fiber of one process at a time.
 *
 * Between processes it is SQLite's exclusive lock on an empty database. The operating system releases it when the process that holds it
 * ends, so that no stale lock remains. On POSIX the close of any descriptor of a file drops every lock that the process holds
 * on that file (SQLite, "How To Corrupt An SQLite Database File", section 2.2), so only SQLite opens this one; all other operations
 * use its name. Inside a process callers queue, and only the first of them tries the file.
 */
import { chmodSync, existsSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"

/** `busy`: the lock was not free within the given time. `unusable`: the file cannot be locked. */
export class FileLockError extends Data.TaggedError("FileLockError")<{
  readonly reason: "busy" | "unusable"
}> {}

/** A lock that is held. */
export interface FileLock {
  readonly unlock: () => void
}

/** The callers of this process by path, in the order of their requests. The first one holds the lock or tries to take it. */
const queues = new Map<string, Array<object>>()

/** Interval between two attempts. */
const pause = "20 millis"

/**
 * Takes the lock of an absolute path without symbolic links, in an existing folder. Fails with `busy` if the lock is not free within
 * `timeoutMs`, and with `unusable` if the file cannot be used. Only the wait can be interrupted.
 */
export const acquireFileLock = (path: string, timeoutMs: number): Effect.Effect<FileLock, FileLockError> =>
  Effect.uninterruptible(
    Effect.suspend(() => {
      const until = performance.now() + timeoutMs
      const caller = {}
      const queue = queues.get(path) ?? []
      queues.set(path, queue)
      queue.push(caller)
      const leaveQueue = () => {
        const at = queue.indexOf(caller)
        if (at >= 0) queue.splice(at, 1)
        if (queue.length === 0 && queues.get(path) === queue) queues.delete(path)
      }
      const attempt: Effect.Effect<FileLock, FileLockError> = Effect.suspend(() => {
        const locked = queue[0] === caller ? tryLock(path) : "busy"
        if (locked === "unusable") return new FileLockError({ reason: locked })
        if (locked !== "busy") {
          return Effect.succeed({
            unlock: () => {
              locked.close()
              leaveQueue()
            }
          })
        }
        if (performance.now() > until) return new FileLockError({ reason: locked })
        return Effect.andThen(Effect.interruptible(Effect.sleep(pause)), attempt)
      })
      return Effect.onError(attempt, () => Effect.sync(leaveQueue))
    })
  )

/** An open transaction is the lock; closing its connection releases it. */
const tryLock = (path: string): DatabaseSync | "busy" | "unusable" => {
  let database: DatabaseSync | undefined
  try {
    const isNew = !existsSync(path)
    database = new DatabaseSync(path, { timeout: 0 })
    // By its name: closing a descriptor would drop another caller's lock.
    if (isNew) chmodSync(path, 0o600)
    database.exec("BEGIN EXCLUSIVE")
    return database
  } catch (cause) {
    database?.close()
    return isBusy(cause) ? "busy" : "unusable"
  }
}

const isBusy = (cause: unknown): boolean =>
  cause instanceof Error && "errcode" in cause && (cause.errcode === 5 || cause.errcode === 6)
