import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import type { Id } from "@fermata/sdk"
import { RunStore, SqlRunStore } from "@fermata/sdk/store"
import { FaultySqlClient } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqliteClient from "../../src/internal/sqlite/client.ts"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { temporaryFile } from "../temporaryStore.ts"

type Store = RunStore.RunStore["Service"]

/** SQLite's query plan for the last statement with this text, of an operation on a store. */
const planOf = Effect.fnUntraced(function* (
  ask: (store: Store) => Effect.Effect<unknown, unknown>,
  part = ""
) {
  const filename = yield* temporaryFile
  const sql = yield* SqliteClient.make({ filename })
  const texts: Array<string> = []
  const { client } = FaultySqlClient.make(sql, (statement) => {
    texts.push(statement.sql)
    return "pass"
  })
  const store = yield* Effect.provideService(SqlRunStore.make(), SqlClient.SqlClient, client)
  yield* ask(store)
  const database = new DatabaseSync(filename)
  const asked = texts.findLast((text) => text.includes(part)) ?? ""
  const explained = database.prepare(`EXPLAIN QUERY PLAN ${asked}`)
  const parameters = asked.split("?").slice(1)
  const steps = explained.all(...parameters.map(() => null)).map((step) => String(step["detail"]))
  database.close()
  return steps
}, Effect.provide(Reactivity.layer))

/** Whether a step reads a table or an index from its beginning, or sorts rows. */
const isLong = (step: string): boolean =>
  /TEMP B-TREE|AUTOMATIC|^SCAN (?!named|names|ready|listed|\d* ?CONSTANT|\(subquery-\d+\))/.test(step)

describe("the query for ready runs", () => {
  for (const agents of [["a"], ["a", "b", "c"]]) {
    it.effect(
      `searches one index for each reason and agent, and sorts nothing, with ${agents.length} agents`,
      () =>
        Effect.gen(function* () {
          const steps = yield* planOf((store) => store.ready({ agents }))
          const read = steps.flatMap(
            (step) => step.match(/^SEARCH (?:run|entry) USING .*INDEX (fermata_\w+) (.*)/) ?? []
          )
          const after = (index: string, place: string) =>
            read.filter((text, at) => at % 3 === 1 && text === index && read[at + 1]!.includes(place)).length
          for (const [index, place] of [
            ["fermata_runs_status", "status=? AND <expr>=? AND (created_at,run_id)>(?,?)"],
            ["fermata_runs_cancel", "agent=? AND status=? AND (created_at,run_id)>(?,?)"],
            ["fermata_requests_decided", "agent=? AND (decided_at,run_id)>(?,?)"],
            ["fermata_requests_expired", "agent=? AND (expires_at,run_id)>(?,?)"],
            ["fermata_requests_warning", "agent=? AND (warn_at,run_id)>(?,?)"]
          ] as const) {
            assert.strictEqual(after(index, place), agents.length, `${index}: ${steps.join("; ")}`)
          }
          // One more for messages of a version that stored no agent with them.
          assert.strictEqual(
            after("fermata_messages_ready", "agent=? AND (sent_at,run_id)>(?,?)"),
            agents.length + 1
          )
          assert.deepStrictEqual(steps.filter(isLong), [])
          // The other requests of a run, and its other messages.
          assert.deepStrictEqual(
            [
              ...new Set(
                steps.flatMap(
                  (step) => step.match(/^SEARCH (?:other|message) USING .*INDEX (\w+ .*)/)?.[1] ?? []
                )
              )
            ],
            [
              "fermata_requests_run (run_id=?)",
              "fermata_messages_waiting (run_id=? AND position<?)",
              "fermata_messages_waiting (run_id=?)"
            ]
          )
        })
    )
  }

  it.effect("finds the names of all agents by one search for each", () =>
    Effect.gen(function* () {
      const steps = yield* planOf((store) => store.ready())
      assert.include(steps.join("; "), "SEARCH run USING COVERING INDEX fermata_runs_agent (agent>?)")
      assert.deepStrictEqual(steps.filter(isLong), [])
    })
  )
})

describe("the query for the next due time", () => {
  for (const filter of [{}, { agents: ["a"] }, { agents: ["a", "b", "c"], after: 1 }]) {
    it.effect(
      `searches one index for expiries and one for announcements, and sorts nothing: ${JSON.stringify(filter)}`,
      () =>
        Effect.gen(function* () {
          const steps = yield* planOf((store) => store.nextDue(filter))
          assert.deepStrictEqual(
            steps.flatMap((step) => step.match(/^SEARCH entry USING (?:COVERING )?INDEX (.*)/)?.[1] ?? []),
            [
              "fermata_requests_warning (agent=? AND warn_at>? AND warn_at<?)",
              "fermata_requests_expired (agent=? AND expires_at>? AND expires_at<?)"
            ]
          )
          assert.deepStrictEqual(steps.filter(isLong), [])
        })
    )
  }
})

describe("a message that an earlier version stores beside this one", () => {
  it.effect("makes its run ready for the run's agent", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const listed = yield* Effect.gen(function* () {
        const store = yield* RunStore.RunStore
        const said = { _tag: "message.queued", at: 1, content: [] } as const
        const run = { runId: "a", sessionId: "s", agent: "root", status: "held", owner: "me" } as never
        yield* store.release(yield* store.create({ ...(run as object), ttl: 1000, events: [said] } as never))
        yield* store.send("a" as Id.RunId, { messageId: "m", content: [{ _tag: "text", text: "hello" }] })
        const database = new DatabaseSync(filename)
        database.exec("UPDATE fermata_messages SET agent = NULL")
        database.close()
        return yield* Effect.all([
          store.ready(),
          store.ready({ agents: ["root"] }),
          store.ready({ agents: ["other"] })
        ])
      }).pipe(Effect.provide(SqliteStore.layer({ filename })))
      const ready = [{ runId: "a", agent: "root", reason: "message" }]
      assert.deepStrictEqual(listed as unknown, [ready, ready, []])
    })
  )
})

/** A held run with an open request. */
const ask = (store: Store) => {
  const request = {
    _tag: "approval",
    requestId: "a.r1" as Id.RequestId,
    runId: "a" as Id.RunId,
    agentPath: ["ops"],
    at: 1,
    callId: "a.t1.1" as Id.ToolCallId,
    tool: "pay",
    arguments: {},
    digest: "digest",
    safety: "sideEffecting"
  } as const
  return store.create({
    runId: request.runId,
    sessionId: "s" as Id.SessionId,
    agent: "ops",
    status: "held",
    owner: "me",
    ttl: 0,
    events: [{ _tag: "request.opened", at: 1, request }]
  })
}

describe("a page of a list", () => {
  for (const [name, index, list, part] of [
    [
      "the requests of a tool",
      "fermata_requests_group (<expr>=?)",
      (store: Store) => store.pending({ tool: "pay" }),
      ""
    ],
    [
      "the requests of an agent",
      "fermata_requests_group (<expr>=?)",
      (store: Store) => store.pending({ agent: "ops" }),
      ""
    ],
    [
      "the groups of requests",
      "fermata_requests_group (<expr>>?)",
      (store: Store) => store.pending({ kind: "approval" }),
      "named"
    ],
    [
      "the runs of an agent",
      "fermata_runs_agent (agent=? AND followed=?)",
      (store: Store) => store.list({ agent: "ops" }),
      ""
    ],
    [
      "the held runs",
      "fermata_runs_status (status=? AND <expr>=?)",
      (store: Store) => store.list({ status: "held" }),
      ""
    ],
    [
      "the held runs of an agent with few runs",
      "fermata_runs_agent (agent=? AND followed=?)",
      (store: Store) => store.list({ agent: "ops", status: "held" }),
      ""
    ],
    [
      "the sessions of an agent",
      "fermata_runs_agent (agent=? AND followed=?)",
      (store: Store) => store.sessions({ agent: "ops" }),
      "AS began"
    ]
  ] as const) {
    it.effect(`is read from an index in order: ${name}`, () =>
      Effect.gen(function* () {
        const steps = yield* planOf(
          (store) => Effect.andThen(ask(store), list(store) as Effect.Effect<unknown, unknown>),
          part
        )
        assert.include(steps.join("; "), index)
        assert.deepStrictEqual(steps.filter(isLong), [])
      })
    )
  }

  it.effect("reads the few requests that expire before a time, and sorts them", () =>
    Effect.gen(function* () {
      const steps = yield* planOf((store) => store.pending({ expiresBefore: 1 }))
      assert.include(steps.join("; "), "fermata_requests_expiry (expires_at<?)")
    })
  )
})

describe("the list of sessions", () => {
  for (const filter of [{}, { agent: "root" }, { status: "completed" }, { status: "held" }] as const) {
    it.effect(`reads the last run of each session only, by an index, with ${JSON.stringify(filter)}`, () =>
      Effect.gen(function* () {
        const steps = yield* planOf((store) => store.sessions(filter), "AS began")
        assert.deepStrictEqual(
          steps.flatMap((step) => step.match(/(?:run|next|first) USING .*INDEX (\w+)/)?.[1] ?? []),
          [
            "agent" in filter
              ? "fermata_runs_agent"
              : "status" in filter
                ? "fermata_runs_status"
                : "fermata_runs_last",
            "fermata_runs_next",
            "fermata_runs_session"
          ]
        )
        assert.notInclude(steps.join("; "), "TEMP B-TREE")
      })
    )
  }
})

describe("the index of last runs", () => {
  it.effect("has one run of each session, whether the runs were started, restored or deleted", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const indexed = () => {
        const database = new DatabaseSync(filename)
        const rows = database
          .prepare("SELECT run_id FROM fermata_runs WHERE followed IS NULL ORDER BY 1")
          .all()
        database.close()
        return rows.map((row) => row["run_id"])
      }
      const said = { _tag: "message.queued", at: 1, content: [] } as const
      const run = (name: string, after?: string) => ({
        runId: name as Id.RunId,
        sessionId: "s" as Id.SessionId,
        agent: "root",
        status: "completed" as const,
        events: [said] as const,
        ...(after === undefined ? {} : { parent: { runId: after as Id.RunId, revision: 1 as Id.Revision } })
      })
      yield* Effect.gen(function* () {
        const store = yield* RunStore.RunStore
        yield* store.restore([run("a"), run("b", "a")], [], [])
        assert.deepStrictEqual(indexed(), ["b"])
        yield* store.create({ ...run("c", "b"), owner: "me", ttl: 0 })
        assert.deepStrictEqual(indexed(), ["c"])
        yield* store.create({ ...run("fork", "b"), sessionId: "t" as Id.SessionId, owner: "me", ttl: 0 })
        assert.deepStrictEqual(indexed(), ["c", "fork"])
        yield* store.remove("c" as Id.RunId)
        assert.deepStrictEqual(indexed(), ["b", "fork"])
      }).pipe(Effect.provide(SqliteStore.layer({ filename })))
    })
  )
})

describe("the tables of a version without an index of last runs", () => {
  it.effect("get one that has the last run of each session", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const change = <A>(use: (database: DatabaseSync) => A): A => {
        const database = new DatabaseSync(filename)
        try {
          return use(database)
        } finally {
          database.close()
        }
      }
      const store = SqliteStore.layer({ filename })
      const run = (name: string, parent?: string) => ({
        runId: name as Id.RunId,
        sessionId: (name === "fork" ? "t" : "s") as Id.SessionId,
        agent: "root",
        status: "completed" as const,
        events: [{ _tag: "message.queued", at: 1, content: [] }] as const,
        ...(parent === undefined ? {} : { parent: { runId: parent as Id.RunId, revision: 1 as Id.Revision } })
      })
      const restore = RunStore.RunStore.use(({ restore }) =>
        Effect.andThen(
          restore([run("a"), run("b", "a")], [], []),
          restore([run("a"), run("fork", "a")], [], [])
        )
      )
      yield* Effect.provide(restore, store)
      change((database) =>
        database.exec(`DROP INDEX fermata_runs_agent; DROP INDEX fermata_requests_expired; DROP INDEX fermata_requests_group;
          DROP INDEX fermata_messages_ready; ALTER TABLE fermata_messages DROP COLUMN agent; ALTER TABLE fermata_messages DROP COLUMN reopens;
          DROP INDEX fermata_runs_last; ALTER TABLE fermata_runs DROP COLUMN followed;
          UPDATE fermata_runs SET follows = NULL WHERE run_id <> 'fork'; ALTER TABLE fermata_messages DROP COLUMN digest;
          DROP INDEX fermata_requests_token; ALTER TABLE fermata_requests DROP COLUMN token; DROP TABLE fermata_blobs; DROP TABLE fermata_blob_pieces; DROP TABLE fermata_blob_uses; DROP TABLE fermata_blob_directory; DELETE FROM fermata_schema WHERE version > 8`)
      )
      const sessions = yield* Effect.provide(
        RunStore.RunStore.use(({ sessions }) => sessions()),
        store
      )
      assert.deepStrictEqual(sessions.map(({ last }) => String(last.runId)).toSorted(), ["b", "fork"])
      const indexed = change((database) =>
        database.prepare("SELECT run_id FROM fermata_runs WHERE followed IS NULL ORDER BY 1").all()
      )
      assert.deepStrictEqual(
        indexed.map((row) => row["run_id"]),
        ["b", "fork"]
      )
    })
  )
})

describe("a prompt in a session", () => {
  it.effect("finds the session's last run without reading those before it", () =>
    Effect.gen(function* () {
      const steps = yield* planOf((store) => store.latest("session" as Id.SessionId), "NOT EXISTS")
      // The newest first, and for each only the runs that build on it.
      assert.deepStrictEqual(
        steps.flatMap((step) => step.match(/(?:run|next) USING .*INDEX (\w+)/)?.[1] ?? []),
        ["fermata_runs_session", "fermata_runs_parent"]
      )
      assert.notInclude(steps.join("; "), "TEMP B-TREE")
    })
  )
})
