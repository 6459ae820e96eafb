/**
 * Keeps runs in a Postgres database, for processes on any number of machines.
 *
 * Writes of several processes take turns by row; a lost connection is replaced and the operation tried again; a restart of the
 * server is waited for. Nothing is kept in a session (no advisory lock, no temporary table), so a connection that dies takes
 * nothing with it. What was acknowledged survives a crash of the server. Processes that wait for something to do are woken by a
 * notification.
 *
 * @since 0.1.0
 */
import type { ConnectionOptions } from "node:tls"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as PgConnection from "@effect/sql-pg/PgConnection"
import { OptionsInvalid } from "@fermata/sdk/domain"
import { type RunStore, RunStoreError, SqlRunStore } from "@fermata/sdk/store"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"
import { withNulText } from "./internal/nulText.ts"
import { type Config, withoutSilence } from "./internal/postgresSocket.ts"

/** Which database, and how it is used. */
export interface Options {
  /**
   * `postgres://user:password@host:5432/database`, with `sslmode`, `options` and others as Postgres has them. The tables are
   * made in the first schema of the search path.
   */
  readonly url: string | Redacted.Redacted
  /** At most this many connections for work; one more listens for notifications. Default 10. */
  readonly maxConnections?: number
  /**
   * How long an operation, opening the store included, is tried while others hold a lock that it needs, or while the server is away,
   * however many locks it needs and however long it waits for one of the connections. Default 10 seconds; then `StoreBusy`, or
   * `StoreFault` for a server that did not come back. Postgres bounds the wait for a place in the queue for a row and the wait for the
   * row itself each by this: many writers of one run can wait up to twice as long.
   */
  readonly busyDeadline?: Duration.Input
  /**
   * How long nothing may come back over a connection on which a statement waits for its answer, as from a server that is frozen or over
   * a network that drops every packet. Then the connection is given up and replaced, and the operation tried again until `busyDeadline`;
   * a commit without an answer is looked up. Longer than twice `busyDeadline`, since a server that waits for locks is silent. Default:
   * twice `busyDeadline` and 10 seconds, which is 30 seconds.
   */
  readonly answerTimeout?: Duration.Input
  /** How long a connection may take to be made. Default 5 seconds. */
  readonly connectTimeout?: Duration.Input
  /** TLS options, such as the authority (`ca`) that signed the server's certificate. `true` demands TLS. */
  readonly ssl?: boolean | ConnectionOptions
  /**
   * Set this when the URL is that of a pooler in transaction mode, such as PgBouncer, where each transaction may get another
   * connection of the server: no prepared statements, no settings of the session (each transaction brings its own), no notifications
   * (waiting processes look for themselves instead). Its user should have an `idle_in_transaction_session_timeout`.
   */
  readonly transactionPooler?: boolean
}

/**
 * The run store in a Postgres database.
 *
 * **Errors**
 *
 * - `RunStoreError` — `CannotOpen` for a URL that is none, a server that cannot be reached, a login that is refused or a database
 *   that does not exist; `StoreUnreadable` for tables that a newer Fermata made; `StoreFault` when the server only takes reads.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options): Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const keys = OptionsInvalid.checkKeys("PostgresStore.layer", options, optionNames)
      if (Result.isFailure(keys)) return yield* cannotOpen(keys.failure.message)
      yield* checkNumbers(options)
      const busyDeadline = options.busyDeadline ?? "10 seconds"
      const config = yield* open(options)
      const client = PgClient.make({
        ...withoutSilence(config, answerTimeoutMs(options)),
        maxConnections: options.maxConnections ?? 10
      })
      return SqlRunStore.layerWith({
        busyDeadline,
        boundsLocks: options.transactionPooler !== true,
        ...(options.transactionPooler === true ? {} : { changes: yield* changes(config, promptMs(options)) })
      }).pipe(
        Layer.provide(
          Layer.effect(
            SqlClient.SqlClient,
            Effect.mapBoth(client, {
              onSuccess: withNulText,
              onFailure: (error) => SqlRunStore.toStoreError("open", error)
            })
          )
        ),
        Layer.provide(Reactivity.layer)
      )
    })
  )

/**
 * How long the server lets a transaction of ours do nothing before it ends the session. Its statements follow each other at
 * once: only a process that was stopped takes longer, and its locks must not stop the others.
 */
const idleInTransactionMs = 5000

/** How long an answer may take that waits for no lock. */
const promptMs = (options: Options): number => Math.min(10_000, answerTimeoutMs(options))

/** A row may be as large as Postgres makes them. */
const maxMessageSize = 0x3fff_ffff

/** Refuses what a program without types may give, which would make the store wait for ever or not at all. */
const optionNames: ReadonlyArray<keyof Options> = [
  "url",
  "maxConnections",
  "busyDeadline",
  "answerTimeout",
  "connectTimeout",
  "ssl",
  "transactionPooler"
]

const busyDeadlineMs = ({ busyDeadline = "10 seconds" }: Options): number => Duration.toMillis(busyDeadline)

const answerTimeoutMs = (options: Options): number =>
  options.answerTimeout === undefined
    ? 2 * busyDeadlineMs(options) + 10_000
    : Duration.toMillis(options.answerTimeout)

const checkNumbers = (options: Options) => {
  const { answerTimeout, busyDeadline, connectTimeout, maxConnections = 1 } = options
  const [name] = Object.entries({ busyDeadline, answerTimeout, connectTimeout }).find(
    ([, given]) => given !== undefined && (Number.isNaN(given) || Option.isNone(Duration.fromInput(given)))
  ) ?? [undefined]
  if (name !== undefined) return cannotOpen(`its \`${name}\` is no duration. Give one such as "10 seconds".`)
  if (answerTimeout !== undefined && answerTimeoutMs(options) <= 2 * busyDeadlineMs(options)) {
    return cannotOpen(
      "its `answerTimeout` has to be longer than twice its `busyDeadline`: a server is silent while a statement waits for locks."
    )
  }
  return Number.isInteger(maxConnections) && maxConnections > 0
    ? Effect.void
    : cannotOpen("its `maxConnections` has to be a whole number, from 1 on.")
}

/** Connects once, to report what is wrong before anything is built on it, and decides how all other connections are made. */
const open = Effect.fnUntraced(function* (options: Options) {
  const url = typeof options.url === "string" ? Redacted.make(options.url) : options.url
  if (!isPostgresUrl(Redacted.value(url))) {
    return yield* cannotOpen(
      "this is not its URL. Give one such as `postgres://user:password@host:5432/database`."
    )
  }
  const pooled = options.transactionPooler === true
  const deadlineMs = busyDeadlineMs(options)
  const basic: Config = {
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
  // Its transactions bring their settings.
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

/** Says that opening the store takes long. */
const notYet = Effect.logWarning(
  "The database does not answer yet. It is tried again for as long as `busyDeadline` allows: check that its server runs, and the host and the port."
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

/**
 * Something when runs may have changed: after every connect, since earlier notifications are lost, and with every notification.
 * While anybody looks it has a connection of its own, and makes another one for as long as that takes.
 */
const changes = (config: Config, silenceMs: number) =>
  Stream.unwrap(
    Effect.gen(function* () {
      const connection = yield* (yield* PgConnection.make(withoutSilence(config, silenceMs))).pin
      const notifications = Stream.fromQueue(yield* connection.listen(SqlRunStore.channel))
      // Asks for an answer, without which the connection ends, and the notifications with it.
      const heartbeat = connection.query(`LISTEN ${SqlRunStore.channel}`)
      yield* Effect.forkScoped(Effect.ignore(Effect.repeat(heartbeat, Schedule.spaced(silenceMs / 2))))
      return Stream.concat(Stream.succeed(undefined), notifications)
    })
  ).pipe(
    Stream.map(() => undefined),
    Stream.retry(
      Schedule.min([Schedule.exponential("50 millis"), Schedule.spaced("2 seconds")]).pipe(Schedule.jittered)
    ),
    Stream.orDie,
    // Many notifications are one reason to look.
    Stream.share({ capacity: 1, strategy: "sliding", replay: 1 })
  )

const isPostgresUrl = (url: string): boolean => {
  const protocol = URL.parse(url)?.protocol
  return protocol === "postgres:" || protocol === "postgresql:"
}

const cannotOpen = (detail: string): RunStoreError.RunStoreError =>
  new RunStoreError.RunStoreError({ operation: "open", reason: new RunStoreError.CannotOpen({ detail }) })

/** What a server that is not there yet, or not any more, answers: it may be one of the things that start together. */
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

/** Whether the other side said nothing, or hung up in the middle. */
const isSilence = (error: SqlError): boolean =>
  /timed out|closed/i.test(error.reason.cause instanceof Error ? error.reason.cause.message : "")

const codeOf = ({ reason: { cause } }: SqlError): unknown =>
  typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined

/** Why there is no connection, in words that name neither host nor user. */
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
  // What is left is what the driver says about the URL and about TLS.
  const said = error.reason.cause instanceof Error ? error.reason.cause.message : error.reason._tag
  return cannotOpen(`the connection could not be made (${said}).`)
}
