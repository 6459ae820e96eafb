/**
 * What a database reports, as a {@link RunStoreError}. Sentences say what to do and never repeat SQL, values or paths.
 */
import type { SqlError } from "effect/sql/SqlError"
import { CannotOpen, RunStoreError, StorageFull, StoreFault, StoreUnreadable } from "../../RunStoreError.ts"

/** Whether trying the whole transaction again, a little later, can help: a lock, a deadlock, a serialization failure. */
export const isContention = (error: SqlError): boolean => {
  const tag = error.reason._tag
  return tag === "LockTimeoutError" || tag === "DeadlockError" || tag === "SerializationError"
}

/**
 * Whether the connection is gone, or the server goes away, starts up or has no place for us: connecting again and trying once
 * more can help.
 */
export const isConnectionLost = (error: SqlError): boolean => {
  const code = codeOf(error.reason.cause)
  // A file that cannot be opened is no connection; SQLite gives its numbers.
  if (typeof code === "number") return false
  return error.reason._tag === "ConnectionError" || (code !== undefined && passingStates.has(code))
}

/** What Postgres reports that is over soon, by SQLSTATE; see https://www.postgresql.org/docs/current/errcodes-appendix.html. */
const passingStates: ReadonlySet<string> = new Set([
  // An administrator ended the session, another session crashed the server, the server is starting up or shutting down.
  "57P01",
  "57P02",
  "57P03",
  // The server ended a session that was idle, in a transaction or not, or a transaction that took too long.
  "57P05",
  "25P03",
  "25P04",
  // It has no connection left, or no memory.
  "53300",
  "53200",
  // It only takes reads: a standby that is about to be promoted, or a primary that was just replaced.
  "25006",
  // It lost the connection between a commit and its answer.
  "40003"
])

/** The error that a caller of the store sees. */
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
const prepared = fault("a connection pooler lost a prepared statement. Turn them off for this store.", false)
const silentServer = fault(
  "the database does not answer. Check that its server runs and can be reached, then try again."
)
/** All statements that may meet another row allow for it, unless that row belongs to a run that is not there as a whole. */
const placeTaken = unreadable(
  "a row is in the place of a new one, as when the entry of a run is lost and its other rows are not: check the store, then restore a backup, or go on under another id."
)

/** The reasons behind codes: those of SQLite as numbers, the SQLSTATE of Postgres, what a disk or a socket reports. */
const reasons: ReadonlyMap<number | string, () => Reason> = new Map<number | string, () => Reason>([
  [13, diskFull],
  // SQLITE_IOERR_WRITE: what SQLite reports for a file that must not grow any more.
  [778, diskFull],
  ["ENOSPC", diskFull],
  ["53100", diskFull],
  ["EDQUOT", full("the quota is used up")],
  // SQLITE_CONSTRAINT_TRIGGER: the only triggers on Fermata's tables are those of a fence.
  [
    1811,
    fault(
      "it is fenced, since a copy of it took its place: it can be read, and takes no writes. End this process, and start it with the copy.",
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
    fault("the database has no connection left. Let it take more, or use fewer here; then try again.")
  ],
  ["53200", fault("the database is out of memory. Try again.")],
  [
    "25006",
    fault(
      "the database can only be read at the moment. Connect to the primary, or try again when it can be written."
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
    unreadable("it holds a number that is larger than any that Fermata writes: restore it from a backup.")
  ],
  ["22021", fault("a text holds a NUL character, which the database does not take.", false)]
])

/** The same for SQLite's primary codes, which are the last byte of each of its codes. */
const primaryReasons: ReadonlyMap<number, () => Reason> = new Map<number, () => Reason>([
  [1, unreadable("its tables are not what this version expects: check it, or restore it from a backup.")],
  [8, cannotOpen("it can only be read. Make the file and its directory writable.")],
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
