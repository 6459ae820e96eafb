/**
 * Runs with content, for tests that read the file of a store.
 */
import { DatabaseSync } from "node:sqlite"
import { type Blob, Id, Limits, type RunEvent } from "@fermata/sdk"
import { RunStore, type RunStoreError } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { copyLive } from "../locks.ts"
import { temporaryFile } from "../temporaryStore.ts"

export type Store = RunStore.RunStore["Service"]

export const run = (name: string | number): Id.RunId => Id.RunId.make(`run_${name}`)

export const said = (text: string): RunEvent.RunEvent => ({
  _tag: "message.queued",
  at: 1,
  content: [{ _tag: "text", text }]
})

/** A question that a run asks; its text can be a secret. */
export const asked = (runId: Id.RunId, question: string): RunEvent.RunEvent => ({
  _tag: "request.opened",
  at: 1,
  request: {
    _tag: "question",
    requestId: Id.requestId(runId, 1),
    runId,
    agentPath: ["root"],
    at: 1,
    callId: Id.toolCallId(runId, 1, 1),
    question
  }
})

/** The first event of a run that can be folded. */
export const begun = (runId: Id.RunId): RunEvent.RunEvent => ({
  _tag: "run.started",
  at: 1,
  runId,
  sessionId: Id.SessionId.make(`session_of_${runId}`),
  agent: { name: "root", instructions: "", tools: {} },
  agentPath: ["root"],
  prompt: [{ _tag: "text", text: "start" }],
  limits: Limits.defaults,
  policy: { mode: "ask" },
  asks: true,
  structured: false
})

/** An event with a file whose content is in the store. */
export const showing = (ref: Blob.BlobRef): RunEvent.RunEvent => ({
  _tag: "message.queued",
  at: 1,
  content: [{ _tag: "file", mediaType: "image/png", source: { _tag: "stored", ...ref } }]
})

/** A run in its own session, under a lease of an hour. */
export const started = (
  store: Store,
  runId: Id.RunId,
  ...events: ReadonlyArray<RunEvent.RunEvent>
): ReturnType<Store["create"]> =>
  store.create({
    runId,
    sessionId: Id.SessionId.make(`session_of_${runId}`),
    agent: "root",
    events: [begun(runId), ...events, { _tag: "run.held", at: 1 }],
    status: "held",
    owner: "test",
    ttl: "1 hour"
  })

/** Opens the store in a file while `use` runs. */
export const withStore = <A, E, R>(
  filename: string,
  use: (store: Store) => Effect.Effect<A, E, R>,
  options?: Omit<SqliteStore.Options, "filename">
): Effect.Effect<A, E | RunStoreError.RunStoreError, Exclude<R, RunStore.RunStore>> =>
  Effect.provide(
    Effect.flatMap(RunStore.RunStore, use),
    Layer.fresh(SqliteStore.layer({ filename, ...options }))
  )

/**
 * Copies of a new store's file and of the files beside it, by the ends of their names, as a killed process leaves them. Returns the
 * name of the copy.
 */
export const leftBehind = Effect.fnUntraced(function* <A, E, R>(
  suffixes: ReadonlyArray<"" | "-shm" | "-wal">,
  use: (store: Store) => Effect.Effect<A, E, R>
) {
  const filename = yield* temporaryFile
  const copy = yield* temporaryFile
  const kill = Effect.sync(() => {
    for (const suffix of suffixes) copyLive(filename + suffix, copy + suffix)
  })
  // While the store is open: closing it moves the log into the file.
  yield* withStore(filename, (store) => Effect.andThen(use(store), kill))
  return copy
})

/** Opens the file as another program would. */
export const foreign = <A>(filename: string, use: (database: DatabaseSync) => A): A => {
  const database = new DatabaseSync(filename)
  try {
    return use(database)
  } finally {
    database.close()
  }
}

/** Runs an effect; returns its value and the warnings that it logged. */
export const withWarnings = <A, E, R>(effect: Effect.Effect<A, E, R>) => {
  const warnings: Array<string> = []
  const keep = Logger.make(({ logLevel, message }) => {
    if (logLevel === "Warn") warnings.push(Array.isArray(message) ? message.join(" ") : String(message))
  })
  return Effect.map(Effect.provide(effect, Logger.layer([keep])), (value) => ({ value, warnings }))
}
