/**
 * Looks after an open SQLite store: keeps its log small, empties the log after something was removed, and notifies when another
 * connection has committed.
 */
import { stat } from "node:fs/promises"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import type { SqlClient } from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import { logOf } from "./file.ts"

/** How large the log may become, and what it is cut back to after it has been copied into the database. */
export const logLimit = 64 * 1024 * 1024

/** Copies the log into the database and empties it. False while another connection reads what is in it, or writes. */
export const emptyLog = (sql: SqlClient): Effect.Effect<boolean> =>
  // On the connection itself: within another fiber's transaction it would fail.
  Effect.scopedWith((scope) =>
    Effect.flatMap(Scope.provide(sql.reserve, scope), (connection) =>
      connection.execute("PRAGMA wal_checkpoint(TRUNCATE)", [], undefined)
    )
  ).pipe(
    Effect.map((rows) => (rows[0] as { readonly busy?: number } | undefined)?.busy === 0),
    Effect.orElseSucceed(() => false),
    Effect.uninterruptible
  )

/** How the log of a store is watched. */
interface WatchOptions {
  readonly sql: SqlClient
  readonly filename: string
  /** Bytes. Default {@link logLimit}. */
  readonly limit?: number
  /** Milliseconds between two looks. Default 5,000. */
  readonly everyMs?: number
}

/**
 * Watches the log for as long as the scope lives. `flush` moves what is in the log into the database and empties it; where a
 * reader is in the way, that is tried again at every look, and when the scope ends.
 */
export const watchLog = Effect.fnUntraced(function* ({
  everyMs = 5000,
  filename,
  limit = logLimit,
  sql
}: WatchOptions) {
  let isUnflushed = false
  let warned = false

  const flush = Effect.map(emptyLog(sql), (emptied) => {
    isUnflushed = !emptied
  })

  const lookOnce = Effect.gen(function* () {
    const size = yield* sizeOf(logOf(filename))
    if (size <= limit) {
      warned = false
      if (isUnflushed) yield* flush
      return
    }
    if (yield* emptyLog(sql)) isUnflushed = false
    const left = yield* sizeOf(logOf(filename))
    if (left <= limit || warned) return
    warned = true
    yield* Effect.logWarning(
      `The log of the store (the file that ends in -wal) has grown to ${Math.round(left / 1024 / 1024)} MB, because something keeps reading an old state of the store. Look for a database tool or a script with an open transaction, a backup that hangs, or a process that was stopped, and end it: the log shrinks then.`
    )
  })

  yield* Effect.addFinalizer(() => (isUnflushed ? flush : Effect.void))
  yield* Effect.forever(Effect.andThen(pause(everyMs), lookOnce)).pipe(Effect.forkScoped)
  return { flush }
})

/** A wait that does not keep the process alive: a program that ends without closing its store must end. */
const pause = (ms: number): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const timer = setTimeout(() => resume(Effect.void), ms)
    timer.unref()
    return Effect.sync(() => clearTimeout(timer))
  })

const sizeOf = (path: string): Effect.Effect<number> =>
  Effect.promise(() =>
    stat(path).then(
      ({ size }) => size,
      () => 0
    )
  )

/** A number that is another one after another connection, of this process or of another, has committed. */
export const versionOf = (sql: SqlClient): Effect.Effect<number | undefined> =>
  sql<{ readonly data_version: number }>`PRAGMA data_version`.withoutTransform.pipe(
    Effect.map(([row]) => row?.data_version),
    // A look that fails notifies of nothing; those who read get the error.
    Effect.orElseSucceed(() => undefined)
  )

/**
 * Emits when a version has changed. It is looked at every 100 milliseconds while there are subscribers, once for all of them.
 *
 * **Details**
 *
 * What the last look saw stays between two listeners. Who listens first and reads then therefore misses nothing, and may be
 * notified at once of a commit that it has read already.
 */
export const changesOf = (
  version: Effect.Effect<number | undefined>
): Effect.Effect<Stream.Stream<void>, never, Scope.Scope> => {
  let last: number | undefined
  const hasChanged = Effect.map(version, (now = last) => {
    const changed = last !== undefined && now !== last
    last = now
    return changed
  })
  return Effect.andThen(
    hasChanged,
    Stream.tick("100 millis").pipe(
      Stream.filterEffect(() => hasChanged),
      // Replayed, because the first look may come before the first listener is in place.
      Stream.share({ capacity: 1, strategy: "sliding", replay: 1 })
    )
  )
}
