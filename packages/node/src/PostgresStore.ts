/**
 * Keeps runs in a Postgres database, for processes on any number of machines.
 *
 * Concurrent writes take turns by row locks. A lost connection is replaced, and the operation is retried until `busyDeadline`, also during
 * a restart of the server. Nothing of a run is kept in a session (no lock of a session, no temporary table), so that a lost connection
 * loses nothing. Acknowledged writes survive a crash of the server: the store does not use `synchronous_commit = off`. Notifications wake
 * the processes that wait for work; behind a pooler in transaction mode they poll.
 *
 * @since 0.1.0
 */
import type { ConnectionOptions } from "node:tls"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as PgConnection from "@effect/sql-pg/PgConnection"
import { OptionsInvalid } from "@fermata/sdk/domain"
import { type RunStore, RunStoreError, SqlRunStore } from "@fermata/sdk/store"
import type * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"
import { openDirectory } from "./internal/contentFiles.ts"
import { withNulText } from "./internal/nulText.ts"
import { makeBroadcast } from "./internal/postgres/broadcast.ts"
import { makeChannels } from "./internal/postgres/channels.ts"
import { type Config as ConnectionConfig, withoutSilence } from "./internal/postgres/socket.ts"
import { readConfig } from "./internal/readConfig.ts"

/** The database, and how the store uses it. */
export interface Options {
  /**
   * `postgres://user:password@host:5432/database` or `postgresql://…`, with Postgres' own parameters such as `sslmode` and `options`. The
   * tables are created in the first schema of the search path.
   */
  readonly url: string | Redacted.Redacted
  /** The largest number of connections for queries. Unless `transactionPooler` is set, one more carries notifications. Default: 10. */
  readonly maxConnections?: number
  /**
   * How long an operation, including opening the store, is retried while others hold locks that it needs or the server is away. Covers all
   * locks of the operation and its wait for a connection, and counts from its start, or from the loss of its connection. Default: 10
   * seconds; then `StoreBusy` for a lock, `StoreFault` for a server that did not come back, and `CannotOpen` for such a server when the
   * store is opened. Postgres bounds the wait for a place in a row's queue and the wait for the row itself separately, so that many writers
   * of one run can wait up to twice as long.
   */
  readonly busyDeadline?: Duration.Input
  /**
   * How long a connection may be silent while a statement waits for its answer, as when the server is frozen or the network drops every
   * packet. Then the connection is replaced and the operation retried until `busyDeadline`, which counts from then on; a commit without an
   * answer is looked up. Must be longer than twice `busyDeadline`, since a server that waits for locks is silent. Default: twice
   * `busyDeadline` plus 10 seconds, which is 30 seconds with the default `busyDeadline`.
   */
  readonly answerTimeout?: Duration.Input
  /** How long one attempt to connect may take. Further attempts follow until `busyDeadline`. Default: 5 seconds. */
  readonly connectTimeout?: Duration.Input
  /**
   * `true` requires TLS, and `false` excludes it; TLS options, such as the authority (`ca`) that signed the server's certificate, require
   * it, too. Overrides the URL's `sslmode`. Default: as `sslmode` says, and without `sslmode` no TLS.
   */
  readonly ssl?: boolean | ConnectionOptions
  /**
   * Set this when the URL leads to a pooler in transaction mode, such as PgBouncer, where each transaction may get another connection of
   * the server: the store then uses no prepared statements, no session settings (each transaction brings its own) and no notifications
   * (waiting processes poll instead, and receive no live text of runs that other processes drive). Give its user an
   * `idle_in_transaction_session_timeout`, and set `answerTimeout` above the time that the pooler keeps a statement in its queue. Default:
   * `false`.
   */
  readonly transactionPooler?: boolean
  /**
   * An existing directory of this store alone, for attachments and other contents of more than 32 KiB: they then do not make the database
   * larger. All processes of the store need the same directory; on several machines, that is a shared file system. The store writes its id
   * into it, and refuses a directory of another store, one with other files, and an empty directory if the store has used another one.
   * Contents that are in the database stay there. A store that has used a directory also opens without it, but cannot then read the
   * contents in it.
   */
  readonly contents?: string
}

/**
 * Provides the run store in a Postgres database.
 *
 * **Details**
 *
 * Opening creates the tables (all named `fermata_…`), or migrates older ones; a Fermata that knows only the older tables then refuses the
 * store. Opening logs a warning when the server has not answered for 2 seconds.
 *
 * **Errors**
 *
 * - `RunStoreError` — `CannotOpen` for an invalid option, a server that cannot be reached until `busyDeadline`, a refused certificate or
 *   login, a missing database or schema, or missing rights; `StoreUnreadable` for tables of a newer Fermata; `StoreBusy` when others kept
 *   the tables locked; `StoreFault` when the server is read-only, or for other failures.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options): Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError> =>
  Layer.unwrap(Effect.map(prepare(options), ({ client, store }) => Layer.provide(store, client)))

/**
 * Like {@link layer}, with options from the `ConfigProvider`: `PostgresStore.layerConfig({ url: Config.Redacted("DATABASE_URL") })`.
 *
 * **Errors**
 *
 * Those of {@link layer}, and `ConfigError` for a value that is missing or invalid.
 *
 * @category layers
 * @since 0.2.0
 */
export const layerConfig = (
  options: Config.Wrap<Options>
): Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError | Config.ConfigError> =>
  Layer.unwrap(Effect.map(readConfig(options), layer))

/**
 * Like {@link layer}, and also provides the store's client, so that a program can write rows of its own and submit, decide or send in one
 * transaction.
 *
 * **Details**
 *
 * An operation of the store inside `sql.withTransaction` is committed or rolled back with it. A run is driven by a worker after the commit:
 * `runPromptStored` is refused inside a transaction. The server ends a transaction that is idle for 5 seconds; with `transactionPooler`,
 * after the time that you set for its user.
 *
 * **Errors**
 *
 * Those of {@link layer}.
 *
 * @category layers
 * @since 0.2.0
 */
export const layerSql = (
  options: Options
): Layer.Layer<RunStore.RunStore | SqlClient.SqlClient, RunStoreError.RunStoreError> =>
  Layer.unwrap(Effect.map(prepare(options), ({ client, store }) => Layer.provideMerge(store, client)))

/** The layers of the store and of its client. */
const prepare = Effect.fnUntraced(function* (options: Options) {
  const keys = OptionsInvalid.checkKeys("PostgresStore.layer", options, optionNames)
  if (Result.isFailure(keys)) return yield* cannotOpen(keys.failure.message)
  yield* checkNumbers(options)
  const busyDeadline = options.busyDeadline ?? "10 seconds"
  const config = yield* open(options)
  const connecting = PgClient.make({
    ...withoutSilence(config, answerTimeoutMs(options)),
    maxConnections: options.maxConnections ?? 10
  })
  const shared = options.transactionPooler === true ? {} : yield* notifications(config, promptMs(options))
  const store = SqlRunStore.layerWith({
    busyDeadline,
    boundsLocks: options.transactionPooler !== true,
    mapConnection: withNulText,
    ...(options.contents === undefined ? {} : { files: openDirectory(options.contents) }),
    ...shared
  })
  const client = Layer.effect(
    SqlClient.SqlClient,
    Effect.mapError(connecting, (error) => SqlRunStore.toStoreError("open", error))
  )
  return { store, client: Layer.provide(client, Reactivity.layer) }
})

/**
 * How long the server lets a transaction idle before it ends the session. Statements of a transaction follow each other at once, so only
 * a stopped process idles longer, and its locks must not block the others.
 */
const idleInTransactionMs = 5000

/** How long an answer may take for a statement that waits for no lock. */
const promptMs = (options: Options): number => Math.min(10_000, answerTimeoutMs(options))

/** Largest message of the protocol, which allows rows of any size that Postgres stores. */
const maxMessageSize = 0x3fff_ffff

const optionNames: ReadonlyArray<keyof Options> = [
  "url",
  "maxConnections",
  "busyDeadline",
  "answerTimeout",
  "connectTimeout",
  "ssl",
  "transactionPooler",
  "contents"
]

const busyDeadlineMs = ({ busyDeadline = "10 seconds" }: Options): number => Duration.toMillis(busyDeadline)

const answerTimeoutMs = (options: Options): number =>
  options.answerTimeout === undefined
    ? 2 * busyDeadlineMs(options) + 10_000
    : Duration.toMillis(options.answerTimeout)

/** Refuses invalid numbers and durations of untyped programs, with which the store would wait forever or not at all. */
const checkNumbers = (options: Options) => {
  const { answerTimeout, busyDeadline, connectTimeout, maxConnections = 1 } = options
  const [name] = Object.entries({ busyDeadline, answerTimeout, connectTimeout }).find(
    ([, given]) => given !== undefined && (Number.isNaN(given) || Option.isNone(Duration.fromInput(given)))
  ) ?? [undefined]
  if (name !== undefined)
    return cannotOpen(`its \`${name}\` is not a duration. Give one such as "10 seconds".`)
  if (answerTimeout !== undefined && answerTimeoutMs(options) <= 2 * busyDeadlineMs(options)) {
    return cannotOpen(
      "its `answerTimeout` has to be longer than twice its `busyDeadline`: a server is silent while a statement waits for locks."
    )
  }
  return Number.isInteger(maxConnections) && maxConnections > 0
    ? Effect.void
    : cannotOpen("its `maxConnections` has to be a whole number, from 1 on.")
}

/** Connects once, to report a problem before the store is built, and returns the configuration of all further connections. */
const open = Effect.fnUntraced(function* (options: Options) {
  const url = typeof options.url === "string" ? Redacted.make(options.url) : options.url
  if (!isPostgresUrl(Redacted.value(url))) {
    return yield* cannotOpen(
      "this is not its URL. Give one such as `postgres://user:password@host:5432/database`."
    )
  }
  const pooled = options.transactionPooler === true
  const deadlineMs = busyDeadlineMs(options)
  const basic: ConnectionConfig = {
    url,
    applicationName: "fermata",
    connectTimeout: options.connectTimeout ?? "5 seconds",
    maxMessageSize,
    prepare: !pooled,
    ...(options.ssl === undefined ? {} : { ssl: options.ssl })
  }
  const synchronousCommit = yield* Effect.scoped(firstContact(withoutSilence(basic, promptMs(options)))).pipe(
    Effect.retry({
      while: isPassing,
      schedule: Schedule.spaced("100 millis").pipe(Schedule.jittered, Schedule.upTo({ duration: deadlineMs }))
    }),
    Effect.mapError(whyNot),
    Effect.raceFirst(notYet)
  )
  // Behind a pooler, each transaction brings its settings.
  if (pooled) return basic
  return {
    ...basic,
    startupParameters: {
      lock_timeout: milliseconds(deadlineMs),
      idle_in_transaction_session_timeout: milliseconds(idleInTransactionMs),
      ...(synchronousCommit === "off" ? { synchronous_commit: "on" } : {})
    }
  }
})

/** Logs a warning when opening the store takes long. Never returns. */
const notYet = Effect.logWarning(
  "The database does not answer yet. The store retries until `busyDeadline`: check that its server runs, and the host and the port."
).pipe(Effect.delay("2 seconds"), Effect.andThen(Effect.never))

const firstContact = Effect.fnUntraced(function* (config: PgConnection.Config) {
  const connection = yield* PgConnection.make(config)
  const { rows } = yield* connection.query(
    "SELECT current_setting('synchronous_commit') AS synchronous_commit"
  )
  return rows[0]?.["synchronous_commit"]
})

/** A setting of the server; 0 would mean no limit. */
const milliseconds = (value: number): string => String(Math.min(0x7fff_ffff, Math.max(1, Math.ceil(value))))

/** What the processes of a database notify each other of, over one connection. */
const notifications = Effect.fnUntraced(function* (config: ConnectionConfig, silenceMs: number) {
  const channels = yield* makeChannels(config, silenceMs)
  // Emits after every connect, too, since notifications may have been lost before.
  const changes = Stream.callback<void>(
    (queue) =>
      Effect.acquireRelease(
        Effect.sync(() =>
          channels.subscribe(SqlRunStore.channel, () => void Queue.offerUnsafe(queue, undefined))
        ),
        (unsubscribe) => Effect.sync(unsubscribe)
      ),
    { bufferSize: 1, strategy: "sliding" }
  )
  return { changes, ...(yield* makeBroadcast(channels)) }
})

const isPostgresUrl = (url: string): boolean => {
  const protocol = URL.parse(url)?.protocol
  return protocol === "postgres:" || protocol === "postgresql:"
}

const cannotOpen = (detail: string): RunStoreError.RunStoreError =>
  new RunStoreError.RunStoreError({ operation: "open", reason: new RunStoreError.CannotOpen({ detail }) })

/** Codes of a server that is not up yet or no longer: it may start at the same time as this program. */
const passingCodes: ReadonlySet<unknown> = new Set([
  "57P01",
  "57P02",
  "57P03",
  "53300",
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EAI_AGAIN"
])

const isPassing = (error: SqlError): boolean => {
  const code = codeOf(error)
  return code === undefined ? isSilence(error) : passingCodes.has(code)
}

/** Whether the server was silent, or closed the connection in the middle. */
const isSilence = (error: SqlError): boolean =>
  /timed out|closed/i.test(error.reason.cause instanceof Error ? error.reason.cause.message : "")

const codeOf = ({ reason: { cause } }: SqlError): unknown =>
  typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined

/** The reason for a missing connection, without host and user. */
const whyNot = (error: SqlError): RunStoreError.RunStoreError => {
  if (error.reason._tag !== "ConnectionError") return SqlRunStore.toStoreError("open", error)
  const code = codeOf(error)
  if (code === "ENOTFOUND") return cannotOpen("its host has no address. Check the name of the host.")
  if (passingCodes.has(code) || isSilence(error)) {
    return cannotOpen("its server does not answer. Check that it runs, and the host and the port.")
  }
  if (typeof code === "string" && /CERT|SIGNATURE|TLS|SSL/.test(code)) {
    return cannotOpen(
      `the server's certificate was not accepted (${code}). Give its authority as \`ssl.ca\`.`
    )
  }
  // The remaining errors are the driver's, about the URL and TLS.
  const said = error.reason.cause instanceof Error ? error.reason.cause.message : error.reason._tag
  return cannotOpen(`the connection could not be made (${said}).`)
}
