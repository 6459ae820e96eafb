/**
 * A real Postgres for the tests, the crash campaign and the benchmarks: it listens on this machine only, keeps its data in a
 * temporary directory, and is removed when the process that started it ends in any way.
 *
 * With `FERMATA_TEST_PG_URL` set, {@link openPostgres} uses that server instead, which cannot be stopped. The user and the directory of
 * a server that is started here are chosen in `postgresPrograms.ts`.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { closeSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { readFile } from "node:fs/promises"
import * as Net from "node:net"
import * as Path from "node:path"
import { setTimeout } from "node:timers/promises"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import { installPostgres, type Programs } from "./postgresPrograms.ts"

/** A server on which databases can be created. */
export interface TestPostgres {
  /** The URL of the database that every server has. */
  readonly url: string
  /** Creates an empty database and returns its URL. */
  readonly database: (name: string) => Promise<string>
  /** Stops a server that was started here; on another server, drops the databases that were created. */
  readonly close: () => Promise<void>
}

/** How a server stops: `fast` ends connections and writes everything back, `immediate` acts like a crash. */
type StopMode = "fast" | "immediate"

/** A server that belongs to this process, which may stop it. */
export interface OwnPostgres extends TestPostgres {
  readonly port: number
  readonly stop: (mode: StopMode) => Promise<void>
  readonly start: () => Promise<void>
  readonly restart: (mode: StopMode) => Promise<void>
}

export interface StartOptions {
  /** Whether commits wait for the disk. Default: false, which matters only in a power cut. */
  readonly fsync?: boolean
  /** Further settings, as in `postgresql.conf`. */
  readonly settings?: Readonly<Record<string, string>>
  /** The programs of the server. Default: those of the bundled package. */
  readonly programs?: Programs
}

/** The server that `FERMATA_TEST_PG_URL` names, or one that is started here. */
export const openPostgres = async (): Promise<TestPostgres> => {
  const url = process.env["FERMATA_TEST_PG_URL"]
  if (url === undefined || url === "") return startPostgres()
  const databases = new Set<string>()
  const make = maker(url)
  return {
    url,
    database: (name) => {
      databases.add(name)
      return make(name)
    },
    close: async () => {
      for (const name of databases) await execute(url, `DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`)
    }
  }
}

/** Starts a server on a free port. */
export const startPostgres = async (options: StartOptions = {}): Promise<OwnPostgres> => {
  const { directory, identity, initdb, postgres } = await installPostgres(options.programs)
  const data = Path.join(directory, "data")
  const janitor = cleanUpAfterUs(directory)
  const logFile = Path.join(directory, "log")
  const log = openSync(logFile, "a")

  const program = (binary: string, args: ReadonlyArray<string>) =>
    // In its own process group: a Ctrl-C in the terminal ends this process, which stops the server. The server's output goes into a
    // file, so that the server never waits for a reader.
    spawn(binary, args, {
      ...identity,
      cwd: directory,
      detached: true,
      env: { ...process.env, LC_ALL: "C", PGTZ: "UTC" },
      stdio: ["ignore", log, log]
    })

  const flags = ["--auth=trust", "--no-locale", "--no-sync", "--no-instructions"]
  const initialize = program(initdb, ["-D", data, "-U", user, "-E", "UTF8", ...flags])
  const [code] = (await once(initialize, "close")) as [number | null]
  if (code !== 0) throw new Error(`initdb ended with ${code}:\n${readFileSync(logFile, "utf8")}`)

  // The initial user needs no password; all other users do.
  writeFileSync(
    Path.join(data, "pg_hba.conf"),
    `host all ${user} 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n`
  )

  const settings = {
    fsync: options.fsync === true ? "on" : "off",
    full_page_writes: options.fsync === true ? "on" : "off",
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    max_connections: "200",
    shared_buffers: "32MB",
    ...options.settings
  }
  let server: ChildProcess | undefined
  let port = 0

  const launch = async () => {
    const given = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])
    const child = program(postgres, ["-D", data, "-p", String(port), ...given])
    if (!(await ready(child, data))) {
      throw new Error(`The Postgres server ended:\n${readFileSync(logFile, "utf8").slice(-4000)}`)
    }
    // The server does not keep this process alive.
    child.unref()
    server = child
  }
  const stop = async (mode: StopMode) => {
    const child = server
    server = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, "exit")
    child.ref()
    child.kill(mode === "fast" ? "SIGINT" : "SIGQUIT")
    await ended
  }

  // Another process may take the port between the search for a free one and the server's start.
  for (let attempt = 1; server === undefined; attempt += 1) {
    port = await freePort()
    await launch().catch((error: unknown) => {
      if (attempt === 3) throw error
    })
  }
  // Restarts and the close run one after the other: a server that is closed while it restarts must not stay.
  let last: Promise<unknown> = Promise.resolve()
  const inTurn = (act: () => Promise<void>): Promise<void> => {
    const done = last.then(act)
    last = done.catch(() => undefined)
    return done
  }
  let isClosed = false
  const start = async () => {
    if (server === undefined && !isClosed) await launch()
  }
  const url = `postgres://${user}@127.0.0.1:${port}/postgres`
  return {
    url,
    port,
    database: maker(url),
    stop: (mode) => inTurn(() => stop(mode)),
    start: () => inTurn(start),
    restart: (mode) =>
      inTurn(async () => {
        await stop(mode)
        await start()
      }),
    close: () =>
      inTurn(async () => {
        isClosed = true
        await stop("immediate")
        closeSync(log)
        rmSync(directory, { recursive: true, force: true })
        janitor.stdin?.destroy()
      })
  }
}

const user = "fermata"

/** Waits until a server accepts connections: the last line of its pid file then says so; the first holds its process id. */
const ready = async (child: ChildProcess, data: string): Promise<boolean> => {
  let hasEnded = false
  child.once("exit", () => (hasEnded = true)).once("error", () => (hasEnded = true))
  while (!hasEnded) {
    const state = await readFile(Path.join(data, "postmaster.pid"), "utf8").catch(() => "")
    const lines = state.split("\n")
    if (lines[0] === String(child.pid) && lines[7]?.trim() === "ready") return true
    await setTimeout(10)
  }
  return false
}

/**
 * A shell that outlives this process: when its input ends, because this process closed it or has died, it stops a server that still
 * runs and deletes the directory.
 */
const cleanUpAfterUs = (directory: string): ChildProcess => {
  const script = `cat > /dev/null
    pid=$(head -n 1 "$1/data/postmaster.pid" 2> /dev/null)
    case "$(ps -o comm= -p "$pid")" in *postgres*) kill -QUIT "$pid"; while kill -0 "$pid"; do sleep 0.1; done ;; esac
    rm -rf "$1"`
  const janitor = spawn("sh", ["-c", script, "sh", directory], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"]
  })
  janitor.unref()
  ;(janitor.stdin as Net.Socket).unref()
  return janitor
}

const freePort = async (): Promise<number> => {
  const server = Net.createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as Net.AddressInfo
  server.close()
  await once(server, "close")
  return port
}

const maker = (url: string) => async (name: string) => {
  await execute(url, `CREATE DATABASE "${name}"`)
  const database = new URL(url)
  database.pathname = `/${name}`
  return database.href
}

const execute = (url: string, statement: string): Promise<void> =>
  SqlClient.SqlClient.use((sql) => sql.unsafe(statement)).pipe(
    Effect.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 1 })),
    Effect.asVoid,
    Effect.runPromise
  )
