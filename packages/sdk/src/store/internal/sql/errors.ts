/**
 * Converts errors of a database to {@link RunStoreError}. The sentences say what to do and never repeat SQL, values or paths.
 */
import type { SqlError } from "effect/sql/SqlError"
import { CannotOpen, RunStoreError, StorageFull, StoreFault, StoreUnreadable } from "../../RunStoreError.ts"

/** Whether the error is a lock timeout, a deadlock or a serialization failure: a retry of the whole transaction may succeed. */
export const isContention = (error: SqlError): boolean => {
  const tag = error.reason._tag
  return tag === "LockTimeoutError" || tag === "DeadlockError" || tag === "SerializationError"
}

/**
 * Whether the connection was lost, or the server is shutting down, starting up or out of connections: a retry on a new connection may
 * succeed.
 */
export const isConnectionLost = (error: SqlError): boolean => {
  const code = codeOf(error.reason.cause)
  // SQLite's codes are numbers. A file that cannot be opened is not a lost connection.
  if (typeof code === "number") return false
  return error.reason._tag === "ConnectionError" || (code !== undefined && passingStates.has(code))
}

/** The SQLSTATEs of temporary failures; see https://www.postgresql.org/docs/current/errcodes-appendix.html. */
const passingStates: ReadonlySet<string> = new Set([
  // An administrator ended the session, another session crashed the server, the server is starting up or shutting down.
  "57P01",
  "57P02",
  "57P03",
  // The server ended a session that was idle, in a transaction or not, or a transaction that took too long.
  "57P05",
  "25P03",
  "25P04",
  // The server has no connection left, or no memory.
  "53300",
  "53200",
  // The server is read-only: a standby before its promotion, or a primary that was replaced.
  "25006",
  // The server lost the connection between a commit and its response.
  "40003"
])

/** Converts an error of the database to the error that a caller of the store receives. */
export const toStoreError = (operation: string, error: SqlError): RunStoreError =>
  new RunStoreError({ operation, reason: reasonOf(error) })

type Reason = RunStoreError["reason"]

const full = (detail: string) => (): Reason => new StorageFull({ detail })
const cannotOpen = (detail: string) => (): Reason => new CannotOpen({ detail })
const unreadable = (detail: string) => (): Reason => new StoreUnreadable({ detail })
const fault =
  (detail: string, retryable = true) =>
  (): Reason =>
    new StoreFault({ detail, retryable })

const diskFull = full("the disk, or a limit on the file, is full")
const diskError = fault("the disk reported an error. Check it, then try again.")
const damaged = unreadable("the database is damaged. Restore it from a backup.")
const restarting = fault("the database is shutting down or starting up. Try again.")
const sessionEnded = fault("the database ended a session that took too long. Try again.")
const prepared = fault(
  "a connection pooler lost a prepared statement. Turn prepared statements off for this store.",
  false
)
const silentServer = fault(
  "the database does not answer. Check that its server runs and can be reached, then try again."
)
/** Every statement handles the conflicts that can occur in a sound store, so a constraint violation means that a run lost some of its rows. */
const placeTaken = unreadable(
  "a row with the key of a new one already exists, as when the entry of a run is lost and its other rows are not: check the store, then restore a backup, or continue with another id."
)

/** The reasons by code: SQLite's extended codes as numbers, SQLSTATEs of Postgres, and codes of Node's system errors. */
const reasons: ReadonlyMap<number | string, () => Reason> = new Map<number | string, () => Reason>([
  [13, diskFull],
  // SQLITE_IOERR_WRITE: SQLite's error for a file that has reached its size limit.
  [778, diskFull],
  ["ENOSPC", diskFull],
  ["53100", diskFull],
  ["EDQUOT", full("the quota is used up")],
  // SQLITE_CONSTRAINT_TRIGGER: only a fence puts triggers on Fermata's tables.
  [
    1811,
    fault(
      "it is fenced, because a restored copy has replaced it: it can be read and refuses writes. End this process, and start it with the copy.",
      false
    )
  ],
  // SQLITE_READONLY_DBMOVED: the commit is in a file that has no name, and is gone when the process ends.
  [
    1032,
    fault(
      "its file or the log of it (the file that ends in -wal) was deleted, moved or replaced while this program had it open: what the program writes is lost when it ends. End this program, and start it with the right file.",
      false
    )
  ],
  [1555, placeTaken],
  [2067, placeTaken],
  [2579, placeTaken],
  ["23505", placeTaken],
  ["ETIMEDOUT", silentServer],
  ["57P01", restarting],
  ["57P02", restarting],
  ["57P03", restarting],
  [
    "53300",
    fault("the database has no connection left. Allow more, or use fewer in this program; then try again.")
  ],
  ["53200", fault("the database is out of memory. Try again.")],
  [
    "25006",
    fault(
      "the database is read-only at the moment. Connect to the primary, or try again when it accepts writes."
    )
  ],
  ["25P03", sessionEnded],
  ["25P04", sessionEnded],
  ["57P05", sessionEnded],
  ["58030", diskError],
  ["XX001", damaged],
  ["XX002", damaged],
  ["3D000", cannotOpen("there is no such database on the server. Create it first, or check its name.")],
  ["3F000", cannotOpen("the search path names no schema that exists. Create it, or check the path.")],
  ["26000", prepared],
  ["42P05", prepared],
  [
    "ERR_OUT_OF_RANGE",
    unreadable("it contains a number that is larger than any that Fermata writes: restore it from a backup.")
  ],
  ["22021", fault("a text contains a NUL character, which the database does not accept.", false)]
])

/** The reasons by SQLite's primary codes: the last byte of each extended code. */
const primaryReasons: ReadonlyMap<number, () => Reason> = new Map<number, () => Reason>([
  [1, unreadable("its tables are not what this version expects: check it, or restore it from a backup.")],
  [8, cannotOpen("it is read-only. Make the file and its directory writable.")],
  [10, diskError],
  [11, damaged],
  [14, cannotOpen("the file cannot be opened. Check that its directory exists and is writable.")],
  [26, unreadable("the file is not a database. Choose another file, or move this one away.")]
])

const reasonOf = (error: SqlError): Reason => {
  const code = codeOf(error.reason.cause) ?? ""
  const known = reasons.get(code) ?? (typeof code === "number" ? primaryReasons.get(code & 0xff) : undefined)
  if (known !== undefined) return known()
  switch (error.reason._tag) {
    case "ConnectionError":
      return error.reason.operation === "connect"
        ? silentServer()
        : new StoreFault({ detail: "the connection to the database was lost. Try again.", retryable: true })
    case "AuthenticationError":
      return new CannotOpen({ detail: "the database refused the login. Check the user and the password." })
    case "AuthorizationError":
      return new CannotOpen({ detail: "the database user may not do this. Check its rights." })
    default:
      return new StoreFault({
        detail: `the database reported a problem (${error.reason._tag}).`,
        retryable: error.isRetryable
      })
  }
}

const codeOf = (cause: unknown): number | string | undefined => {
  if (typeof cause !== "object" || cause === null) return undefined
  const { code, errcode, errno } = cause as { readonly [key: string]: unknown }
  for (const candidate of [errcode, code, errno]) {
    if (typeof candidate === "number") return candidate
    if (typeof candidate === "string" && candidate !== "ERR_SQLITE_ERROR") return candidate
  }
  return undefined
}
