import * as PgClient from "@effect/sql-pg/PgClient"
import { assert, describe, it } from "@effect/vitest"
import type { Id } from "@fermata/sdk"
import { type RunStore, SqlRunStore } from "@fermata/sdk/store"
import { FaultySqlClient } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as References from "effect/References"
import * as SqlClient from "effect/sql/SqlClient"
import { emptySchema } from "./database.ts"

type Store = RunStore.RunStore["Service"]

const request = {
  _tag: "approval",
  requestId: "a.r1" as Id.RequestId,
  runId: "a" as Id.RunId,
  agentPath: ["ops"],
  at: 1,
  expiresAt: 8e12,
  callId: "a.t1.1" as Id.ToolCallId,
  tool: "pay",
  arguments: {},
  digest: "digest",
  safety: "sideEffecting"
} as const

/** A store with many held runs, of which one in ten is decided, one has a message, and one in ten is of another agent. */
const filled = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const texts: Array<string> = []
  const { client } = FaultySqlClient.make(sql, (statement) => {
    texts.push(statement.sql)
    return "pass"
  })
  const store = yield* Effect.provideService(SqlRunStore.make(), SqlClient.SqlClient, client)
  yield* store.create({
    runId: request.runId,
    sessionId: "s" as Id.SessionId,
    agent: "ops",
    status: "held",
    owner: "me",
    ttl: 0,
    events: [{ _tag: "request.opened", at: 1, request }]
  })
  yield* store.send(request.runId, { messageId: "m", content: [{ _tag: "text", text: "hello" }] })
  const numbers = sql`generate_series(1, 20000) AS n`
  yield* sql`INSERT INTO fermata_runs (run_id, session_id, agent, status, revision, epoch, created_at, updated_at)
    SELECT 'run-' || n, 's-' || n, CASE WHEN n % 10 = 0 THEN 'sales' ELSE 'ops' END, 'held', 1, 1, n, n FROM ${numbers}`
  yield* sql`INSERT INTO fermata_requests (request_id, run_id, session_id, agent, kind, agent_path, tool, asked_at, expires_at, warn_at,
      on_expiry, request, status, decided_at)
    SELECT 'run-' || n || '.r1', 'run-' || n, 's-' || n, CASE WHEN n % 10 = 0 THEN 'sales' ELSE 'ops' END, kind, agent_path, tool, n,
      expires_at + n, warn_at + n, on_expiry, request, CASE WHEN n % 10 = 1 THEN 'decided' ELSE 'open' END, n
    FROM fermata_requests CROSS JOIN ${numbers} WHERE run_id = 'a'`
  yield* sql`INSERT INTO fermata_messages (run_id, message_id, position, sent_at, status, agent)
    SELECT 'run-' || n, 'm', 1, n, CASE WHEN n % 10 = 0 THEN 'waiting' ELSE 'journaled' END, 'ops' FROM ${numbers}`
  yield* sql`ANALYZE`
  const planOf = Effect.fnUntraced(function* (
    ask: (store: Store) => Effect.Effect<unknown, unknown>,
    part: string
  ) {
    // The copied requests are of another run, which each page would log.
    yield* Effect.ignore(Effect.provideService(ask(store), References.MinimumLogLevel, "None"))
    const text = texts.findLast((sent) => sent.includes(part)) ?? ""
    const values = [...new Set(text.match(/\$\d+/g))].map(() => "NULL")
    yield* sql`SET plan_cache_mode = force_generic_plan`
    yield* sql.unsafe(`PREPARE page AS ${text}`)
    const rows = yield* sql.unsafe<Record<string, string>>(`EXPLAIN EXECUTE page(${values.join(", ")})`)
    yield* sql`DEALLOCATE page`
    return rows.map((row) => Object.values(row)[0] ?? "")
  })
  return planOf
})

const pages = [
  [
    "of ready runs of two agents",
    "AS ready",
    [
      "fermata_runs_status",
      "fermata_runs_cancel",
      "fermata_requests_decided",
      "fermata_messages_ready",
      "fermata_requests_expired",
      "fermata_requests_warning"
    ],
    (store: Store) => store.ready({ agents: ["ops", "sales"] })
  ],
  [
    "of due times of two agents, of which it has the first,",
    "AS due",
    ["fermata_requests_expired", "fermata_requests_warning"],
    (store: Store) => store.nextDue({ agents: ["ops", "sales"] })
  ],
  [
    "of due times of all agents, of which it has the first,",
    "AS due",
    ["fermata_requests_expired", "fermata_requests_warning", "fermata_runs_agent"],
    (store: Store) => store.nextDue()
  ],
  [
    "of the requests of a tool",
    "AS session_id",
    ["fermata_requests_group"],
    (store: Store) => store.pending({ tool: "pay" })
  ],
  ["of all runs", "ORDER BY created_at DESC", ["fermata_runs_age"], (store: Store) => store.list()],
  [
    "of the runs of a session",
    "ORDER BY created_at DESC",
    ["fermata_runs_session"],
    (store: Store) => store.list({ sessionId: "s-1" as Id.SessionId })
  ],
  [
    "of the runs of an agent",
    "UNION ALL",
    ["fermata_runs_agent"],
    (store: Store) => store.list({ agent: "sales" })
  ]
] as const

describe("on Postgres, a page", () => {
  it.live("of runs, requests or due times reads no table from its beginning", () =>
    Effect.gen(function* () {
      const { url } = yield* emptySchema
      const layer = PgClient.layer({ url: Redacted.make(url), maxConnections: 1 })
      const plans = yield* Effect.provide(
        Effect.flatMap(filled, (planOf) => Effect.forEach(pages, ([, part, , ask]) => planOf(ask, part))),
        layer
      )
      for (const [index, [name, , indexes]] of pages.entries()) {
        const text = plans[index]!.join("\n")
        for (const one of indexes) assert.include(text, one, name)
        assert.notInclude(text, "Seq Scan", name)
        // It has the requests of all agents.
        assert.notInclude(text, "fermata_requests_expiry", name)
        // Below the order of the lists, no union of branches is read whole and sorted.
        assert.notMatch(text, /->  Sort .*\n.*\n\s+->  Append/, name)
      }
    }).pipe(Effect.scoped)
  )
})
