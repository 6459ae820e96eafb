/**
 * What a database reports, told as a {@link RunStoreError}. Sentences say what to do and never repeat SQL, values or paths.
 */
import type { SqlError } from "effect/sql/SqlError"
import { CannotOpen, RunStoreError, StorageFull, StoreFault, StoreUnreadable } from "../RunStoreError.ts"

/** Whether trying the whole transaction again, a little later, can help: a lock, a deadlock, a serialization failure. */
export const isContention = (error: SqlError): boolean => {
  const tag = error.reason._tag
  return tag === "LockTimeoutError" || tag === "DeadlockError" || tag === "SerializationError"
}

/** The error that a caller of the store sees. */
export const toStoreError = (operation: string, error: SqlError): RunStoreError =>
  new RunStoreError({ operation, reason: reasonOf(error) })

/** The reason behind whatever a driver threw. */
const reasonOfCause = (cause: unknown): RunStoreError["reason"] | undefined => {
  const code = codeOf(cause)
  if (code === 13 || code === sqliteWriteFailed || code === "ENOSPC" || code === "53100") {
    return new StorageFull({ detail: "the disk, or a limit on the file, is full" })
  }
  if (code === "EDQUOT") return new StorageFull({ detail: "the quota is used up" })
  if (typeof code !== "number") return undefined
  switch (code & 0xff) {
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

/** SQLITE_IOERR_WRITE: what SQLite reports for a file that must not grow any more. */
const sqliteWriteFailed = 778

const reasonOf = (error: SqlError): RunStoreError["reason"] => {
  const known = reasonOfCause(error.reason.cause)
  if (known !== undefined) return known
  switch (error.reason._tag) {
    case "ConnectionError":
      return new StoreFault({
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
