/**
 * A process that has a store open, performs every other operation of the package on its file, and reports after each one which locks
 * it has on the file. Argument: the database. Prints a line of JSON for each operation: its name and the locks.
 */
import { renameSync, symlinkSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { agent, approve, createFermata, type Fermata, Id, SqliteStore, tool } from "@fermata/node"
import { RunStore } from "@fermata/sdk/store"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { locksOn } from "../locks.ts"

const filename = process.argv[2]!
const layer = (name: string) => Layer.fresh(SqliteStore.layer({ filename: name }))

type Store = RunStore.RunStore["Service"]
type Operation = Effect.Effect<unknown, unknown, Scope.Scope>

const runId = (name: string) => Id.RunId.make(`run_${name}`)
const said = { _tag: "message.queued", at: 1, content: [{ _tag: "text", text: "go" }] } as const
const asked = (name: string) =>
  ({
    _tag: "request.opened",
    at: 1,
    request: {
      _tag: "question",
      requestId: Id.requestId(runId(name), 1),
      runId: runId(name),
      agentPath: ["root"],
      at: 1,
      callId: Id.toolCallId(runId(name), 1, 1),
      question: "Which one?"
    }
  }) as const

const begin = (store: Store, name: string) =>
  store.create({
    runId: runId(name),
    sessionId: Id.SessionId.make(`session_${name}`),
    agent: "root",
    events: [said, asked(name)],
    status: "held",
    owner: "me",
    ttl: "1 hour"
  })
const revision = Id.Revision.make(2)

/** Every operation of a store. */
const onStore = (store: Store): { readonly [K in keyof Store]: Operation } => ({
  create: begin(store, "created"),
  append: Effect.flatMap(begin(store, "appended"), (lease) =>
    store.append({ lease, expected: revision, events: [said], status: "held" })
  ),
  park: Effect.flatMap(begin(store, "parked"), (lease) =>
    store.park({ lease, expected: revision, events: [said], status: "held" })
  ),
  restore: store.restore(
    [
      {
        runId: runId("restored"),
        sessionId: Id.SessionId.make("restored"),
        agent: "root",
        status: "held",
        events: [said]
      }
    ],
    [],
    []
  ),
  sessions: store.sessions(),
  load: store.load(runId("created")),
  events: store.events(runId("created")),
  head: store.head(runId("created")),
  claim: store.claim({ runId: runId("parked"), owner: "me", ttl: "1 hour" }),
  renew: Effect.flatMap(begin(store, "renewed"), (lease) => store.renew(lease, "2 hours")),
  release: Effect.flatMap(begin(store, "released"), store.release),
  decide: store.decide({
    _tag: "answer",
    requestId: Id.requestId(runId("created"), 1),
    by: "ana",
    answer: "this one"
  }),
  decideAll: Effect.flatMap(begin(store, "answered"), () =>
    store.decideAll([
      { _tag: "answer", requestId: Id.requestId(runId("answered"), 1), by: "ana", answer: "this one" }
    ])
  ),
  decisions: store.decisions(runId("created")),
  send: store.send(runId("created"), { content: [{ _tag: "text", text: "hello" }] }),
  messages: store.messages(runId("created")),
  grants: store.grants(),
  revokeGrant: Effect.flip(
    store.revokeGrant({ grantId: Id.GrantId.make("none"), revocation: { by: "ana", at: 1 } })
  ),
  request: store.request(Id.requestId(runId("created"), 1)),
  withToken: store.withToken("job"),
  pending: store.pending(),
  latest: store.latest(Id.SessionId.make("session_created")),
  list: store.list(),
  ready: store.ready(),
  nextDue: store.nextDue(),
  damaged: store.damaged,
  changes: Stream.runHead(store.changes),
  requestCancel: store.requestCancel(runId("created"), "enough"),
  remove: store.remove(runId("released")),
  prune: store.prune({ endedBefore: Number.MAX_SAFE_INTEGER })
})

const execute = (sql: string) => {
  const database = new DatabaseSync(filename)
  database.exec(sql)
  database.close()
}

const dropTriggers = () => {
  const database = new DatabaseSync(filename)
  const triggers = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").all()
  for (const { name } of triggers) database.exec(`DROP TRIGGER "${String(name)}"`)
  database.close()
}

/** Every operation on the file, and operations that are refused. */
const onFile: { readonly [name: string]: Operation } = {
  ...({
    layer: Effect.scoped(Layer.build(layer(filename))),
    check: SqliteStore.check({ filename }),
    backup: SqliteStore.backup({ filename, to: `${filename}.copy` }),
    compact: SqliteStore.compact({ filename }),
    // The fence is removed again: later operations write.
    fence: Effect.andThen(SqliteStore.fence({ filename }), Effect.sync(dropTriggers)),
    restore: SqliteStore.restore({ from: filename, to: `${filename}.restored` })
  } satisfies {
    readonly [K in Exclude<keyof typeof SqliteStore, "BackupExists" | "layerConfig">]: Operation
  }),
  "backup onto a file that exists": Effect.flip(SqliteStore.backup({ filename, to: filename })),
  "backup into a file": Effect.flip(SqliteStore.backup({ filename, to: `${filename}/none/copy` })),
  "check through a link": Effect.andThen(
    Effect.sync(() => symlinkSync(filename, `${filename}.link`)),
    SqliteStore.check({ filename: `${filename}.link` })
  ),
  "layer through a link": Effect.scoped(Layer.build(layer(`${filename}.link`))),
  "check of the copy": SqliteStore.check({ filename: `${filename}.copy` }),
  "layer that is refused": Effect.gen(function* () {
    execute("INSERT INTO fermata_schema VALUES (99, 0)")
    yield* Effect.flip(Effect.scoped(Layer.build(layer(filename))))
    execute("DELETE FROM fermata_schema WHERE version = 99")
  }),
  "layer without a log": Effect.gen(function* () {
    renameSync(`${filename}-wal`, `${filename}-away`)
    yield* Effect.flip(Effect.scoped(Layer.build(layer(filename))))
    yield* Effect.flip(SqliteStore.backup({ filename, to: `${filename}.other` }))
    renameSync(`${filename}-away`, `${filename}-wal`)
  })
}

let second: Fermata.Fermata
const attempt = (act: () => Promise<unknown>): Operation => Effect.promise(act)
const deploy = tool("deploy", { handler: () => "deployed" })
const model = ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "deploy" }] } : "done"))

/** A second Fermata on the same file. */
const onSecond: { readonly [name: string]: Operation } = {
  createFermata: attempt(async () => {
    second = await createFermata({
      agents: [agent("ops", { tools: [deploy] })],
      model: model.client,
      store: filename,
      by: "ana"
    })
  }),
  "fermata.runPrompt": attempt(() => second.runPrompt("ops", "deploy", { runId: "held" })),
  "fermata.decide": attempt(async () => {
    for (const { request } of await second.pending({ runId: "held" as Id.RunId })) {
      await second.decide(request, approve())
    }
  }),
  "fermata.resume": attempt(() => second.resume("held")),
  "fermata.exportRun": attempt(() => second.exportRun("held")),
  "fermata.recover": attempt(() => second.recover()),
  "fermata.close": attempt(() => second.close())
}

const report = (operation: string) => {
  process.stdout.write(`${JSON.stringify({ operation, locks: locksOn(filename) })}\n`)
}

const program = Effect.gen(function* () {
  const scope = yield* Scope.make()
  const store = yield* Effect.provide(RunStore.RunStore, yield* Layer.buildWithScope(layer(filename), scope))
  report("open")
  const groups = [onStore(store), onFile, onSecond]
  for (const operations of groups) {
    for (const [name, operation] of Object.entries(operations)) {
      yield* Effect.scoped(operation)
      report(name)
    }
  }
  yield* Scope.close(scope, Exit.void)
  report("close")
})
await Effect.runPromise(program)
