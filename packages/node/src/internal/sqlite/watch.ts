/**
 * Maintains an open SQLite store: keeps its log small, empties the log after a removal, and notifies of commits of other connections.
 */
import { stat } from "node:fs/promises"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import type { SqlClient } from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import { logOf } from "./file.ts"

/** Size above which the log is flushed, and to which SQLite truncates it after a checkpoint. In bytes. */
export const logLimit = 64 * 1024 * 1024

/** Copies the log into the database and empties it. False while another connection reads from it, or writes. */
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

/** Options of `watchLog`. */
interface WatchOptions {
  readonly sql: SqlClient
  readonly filename: string
  /** Size in bytes above which the log is flushed. Default: {@link logLimit}. */
  readonly limit?: number
  /** Milliseconds between two polls. Default: 5,000. */
  readonly everyMs?: number
}

/**
 * Watches the log until the scope closes. `flush` moves the log into the database and empties it; while a reader blocks that, it is
 * retried at every poll, and when the scope closes.
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
      `The log of the store (the file that ends in -wal) has grown to ${Math.round(left / 1024 / 1024)} MB, because a connection keeps reading an old state of the store. Look for a database tool or a script with an open transaction, a backup that hangs, or a stopped process, and end it: the log then shrinks.`
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

/** A number that changes with every commit of another connection, of this process or of another. */
export const versionOf = (sql: SqlClient): Effect.Effect<number | undefined> =>
  sql<{ readonly data_version: number }>`PRAGMA data_version`.withoutTransform.pipe(
    Effect.map(([row]) => row?.data_version),
    // A failed poll emits nothing; the readers get the error themselves.
    Effect.orElseSucceed(() => undefined)
  )

/**
 * Emits when a version has changed. It is polled every 40 milliseconds while there are subscribers, once for all of them.
 *
 * **Details**
 *
 * The version of the last poll is kept between subscriptions. A subscriber that subscribes before it reads therefore misses no commit,
 * and may be notified at once of a commit that it has already read.
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
    Stream.tick("40 millis").pipe(
      Stream.filterEffect(() => hasChanged),
      // Replayed, because the first poll may come before the first subscriber.
      Stream.share({ capacity: 1, strategy: "sliding", replay: 1 })
    )
  )
}
