/**
 * Postgres for the processes: a server of our own whose connections are ended or cut at a commit, and which is restarted as after a
 * crash.
 */
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { type Proxy, proxyTo } from "../../packages/node/test/postgres/proxy.ts"
import { generator } from "../../packages/sdk/src/testing/internal/simulation/random.ts"
import { openPostgres, startPostgres } from "../internal/postgres.ts"
import { inspect, readLog, spawn } from "./fleet.ts"

export interface PostgresStores {
  /** An empty database behind a proxy. */
  readonly make: (name: string) => Promise<string>
  /** How often each fault happened. */
  readonly counts: () => { readonly commitsCut: number; readonly connectionsEnded: number }
  /** Drives this many runs while the server is restarted every 5 to 10 seconds; only on a server of our own. */
  readonly chaos:
    | undefined
    | ((runs: number) => Promise<{
        readonly runs: number
        readonly restarts: number
        readonly violations: ReadonlyArray<string>
      }>)
  readonly close: () => Promise<void>
}

export const postgres = async (options: {
  readonly seed: number
  readonly progress: (text: string) => void
}): Promise<PostgresStores> => {
  const { progress } = options
  const random = generator(options.seed)
  const own = (process.env["FERMATA_TEST_PG_URL"] ?? "") === "" ? await startPostgres() : undefined
  const server = own ?? (await openPostgres())
  const scope = await Effect.runPromise(Scope.make())
  const proxies: Array<Proxy> = []
  let connectionsEnded = 0

  /** Ends a connection of any store, in the middle of its work. */
  const endOne = Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<{ readonly ended: boolean }>`SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity
      WHERE application_name = 'fermata' AND state IS NOT NULL ORDER BY random() LIMIT 1`
  ).pipe(Effect.provide(PgClient.layer({ url: Redacted.make(server.url), maxConnections: 1 })))

  let closing = false
  const trouble = (async () => {
    while (!closing) {
      await sleep(50 + Math.floor(random() * 200))
      proxies.at(-1)?.breakNextCommit(random() < 0.8 ? "after" : "before")
      if (random() < 0.4) {
        const ended = await Effect.runPromise(Effect.exit(endOne))
        if (Exit.isSuccess(ended)) connectionsEnded += ended.value.length
      }
    }
  })()

  return {
    make: async (name) => {
      const url = await server.database(name)
      const proxy = await Effect.runPromise(Scope.provide(proxyTo(url), scope))
      proxies.push(proxy)
      return proxy.url
    },
    counts: () => ({
      commitsCut: proxies.reduce((sum, proxy) => sum + proxy.broken(), 0),
      connectionsEnded
    }),
    chaos:
      own === undefined
        ? undefined
        : async (runs) => {
            const directory = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-chaos-"))
            const log = Path.join(directory, "chaos.log")
            Fs.writeFileSync(log, "")
            const store = await server.database("chaos")
            const workers = [1, 2, 3].map(() =>
              spawn({ store, log, runs, leaseMs: 2000, work: "mixed", chatty: false })
            )
            let restarts = 0
            let over = false
            const restarting = (async () => {
              while (!over) {
                for (let waited = 0, until = 5000 + random() * 5000; waited < until && !over; waited += 250)
                  await sleep(250)
                if (over) return
                await own.restart("immediate")
                restarts += 1
                // The runs end at about the same time: until then, their effects show the progress.
                const { effects, ended } = readLog(log)
                progress(`restarts: ${restarts}, ${effects.length} effects, ${ended.length} of ${runs} runs`)
              }
            })()
            const ends = await Promise.all(workers.map(({ exit }) => exit))
            over = true
            await restarting
            const violations = ends.flatMap(({ code, output }) =>
              code === 0 ? [] : [`a worker ended with ${code}: ${output.slice(-400)}`]
            )
            violations.push(...(await inspect(store, readLog(log), runs)).violations)
            Fs.rmSync(directory, { recursive: true, force: true })
            return { runs, restarts, violations }
          },
    close: async () => {
      closing = true
      await trouble
      await Effect.runPromise(Scope.close(scope, Exit.void))
      await server.close()
    }
  }
}
