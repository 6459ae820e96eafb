/**
 * What a database reports, told as a {@link RunStoreError}. Sentences say what to do and never repeat SQL, values or paths.
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

/** What SQLite and Postgres report of a row in whose place there is another one. */
const placesTaken: ReadonlySet<unknown> = new Set([1555, 2067, 2579, "23505"])

/** All statements that may meet another row allow for it, unless that row belongs to a run that is not there as a whole. */
const placeTaken =
  "a row is in the place of a new one, as when the entry of a run is lost and its other rows are not: check the store, then restore a backup, or go on under another id."

/** The reason behind whatever a driver threw. */
const reasonOfCause = (cause: unknown): RunStoreError["reason"] | undefined => {
  const code = codeOf(cause)
  if (code === 13 || code === sqliteWriteFailed || code === "ENOSPC" || code === "53100") {
    return new StorageFull({ detail: "the disk, or a limit on the file, is full" })
  }
  if (code === sqliteRefusedByTrigger) {
    return new StoreFault({
      detail:
        "it is fenced, since a copy of it took its place: it can be read, and takes no writes. End this process, and start it with the copy.",
      retryable: false
    })
  }
  if (code !== undefined && placesTaken.has(code)) return new StoreUnreadable({ detail: placeTaken })
  if (code === "EDQUOT") return new StorageFull({ detail: "the quota is used up" })
  if (typeof code === "string") return reasonOfState(code)
  if (code === undefined) return undefined
  switch (code & 0xff) {
    case 1:
      return new StoreUnreadable({
        detail: "its tables are not what this version expects: check it, or restore it from a backup."
      })
    case 8:
      return new CannotOpen({ detail: "it can only be read. Make the file and its directory writable." })
    case 10:
      return new StoreFault({
        detail: "the disk reported an error. Check it, then try again.",
        retryable: true
      })
    case 11:
      return new StoreUnreadable({ detail: "the database is damaged. Restore it from a backup." })
    case 14:
      return new CannotOpen({
        detail: "the file cannot be opened. Check that its directory exists and is writable."
      })
    case 26:
      return new StoreUnreadable({
        detail: "the file is not a database. Choose another file, or move this one away."
      })
    default:
      return undefined
  }
}

const silentServer = new StoreFault({
  detail: "the database does not answer. Check that its server runs and can be reached, then try again.",
  retryable: true
})

/** The reason behind an SQLSTATE of Postgres, or behind what a socket reports. */
const reasonOfState = (state: string): RunStoreError["reason"] | undefined => {
  switch (state) {
    case "ETIMEDOUT":
      return silentServer
    case "57P01":
    case "57P02":
    case "57P03":
      return new StoreFault({
        detail: "the database is shutting down or starting up. Try again.",
        retryable: true
      })
    case "53300":
      return new StoreFault({
        detail: "the database has no connection left. Let it take more, or use fewer here; then try again.",
        retryable: true
      })
    case "53200":
      return new StoreFault({ detail: "the database is out of memory. Try again.", retryable: true })
    case "25006":
      return new StoreFault({
        detail:
          "the database can only be read at the moment. Connect to the primary, or try again when it can be written.",
        retryable: true
      })
    case "25P03":
    case "25P04":
    case "57P05":
      return new StoreFault({
        detail: "the database ended a session that took too long. Try again.",
        retryable: true
      })
    case "58030":
      return new StoreFault({
        detail: "the disk reported an error. Check it, then try again.",
        retryable: true
      })
    case "XX001":
    case "XX002":
      return new StoreUnreadable({ detail: "the database is damaged. Restore it from a backup." })
    case "3D000":
      return new CannotOpen({
        detail: "there is no such database on the server. Create it first, or check its name."
      })
    case "3F000":
      return new CannotOpen({
        detail: "the search path names no schema that exists. Create it, or check the path."
      })
    case "26000":
    case "42P05":
      return new StoreFault({
        detail: "a connection pooler lost a prepared statement. Turn them off for this store.",
        retryable: false
      })
    case "ERR_OUT_OF_RANGE":
      return new StoreUnreadable({
        detail: "it holds a number that is larger than any that Fermata writes: restore it from a backup."
      })
    case "22021":
      return new StoreFault({
        detail: "a text holds a NUL character, which the database does not take.",
        retryable: false
      })
    default:
      return undefined
  }
}

/** SQLITE_CONSTRAINT_TRIGGER: the only triggers on Fermata's tables are those of a fence. */
const sqliteRefusedByTrigger = 1811

/** SQLITE_IOERR_WRITE: what SQLite reports for a file that must not grow any more. */
const sqliteWriteFailed = 778

const reasonOf = (error: SqlError): RunStoreError["reason"] => {
  const known = reasonOfCause(error.reason.cause)
  if (known !== undefined) return known
  switch (error.reason._tag) {
    case "ConnectionError":
      return error.reason.operation === "connect"
        ? silentServer
        : new StoreFault({
            detail: "the connection to the database was lost. Try again.",
            retryable: true
          })
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
