/**
 * Runs, events and decisions for the tests of this folder.
 */
import { Id, type RunEvent } from "@fermata/sdk"
import { RunStore, type RunStoreError } from "@fermata/sdk/store"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as PostgresStore from "../../src/PostgresStore.ts"

export type Store = RunStore.RunStore["Service"]

/** A store with its own connections, until the test ends. */
export const openStore = (
  options: PostgresStore.Options
): Effect.Effect<Store, RunStoreError.RunStoreError, Scope.Scope> =>
  Effect.map(Layer.build(Layer.fresh(PostgresStore.layer(options))), Context.get(RunStore.RunStore))

export const runId = (name: string | number): Id.RunId => Id.RunId.make(`run_${name}`)

export const at = (revision: number): Id.Revision => Id.Revision.make(revision)

/** A queued message. */
export const said = (text: string): RunEvent.RunEvent => ({
  _tag: "message.queued",
  at: 1,
  content: [{ _tag: "text", text }]
})

/** An opened question. */
export const asked = (runId: Id.RunId): Extract<RunEvent.RunEvent, { _tag: "request.opened" }> => ({
  _tag: "request.opened",
  at: 1,
  request: {
    _tag: "question",
    requestId: Id.requestId(runId, 1),
    runId,
    agentPath: ["root"],
    at: 1,
    callId: Id.toolCallId(runId, 1, 1),
    question: "?"
  }
})

/** Starts a run in a session of its own. */
export const create = (
  store: Store,
  runId: Id.RunId,
  event: RunEvent.RunEvent = said("start")
): ReturnType<Store["create"]> =>
  store.create({
    runId,
    sessionId: Id.SessionId.make(`s_${runId}`),
    agent: "root",
    events: [event],
    status: "running",
    owner: "test",
    ttl: "10 minutes"
  })

/** An answer to the question of a run. */
export const answering = (runId: Id.RunId, by: string) =>
  ({ _tag: "answer", requestId: Id.requestId(runId, 1), by, answer: by }) as const

/** Answers the question of a run. */
export const answer = (store: Store, runId: Id.RunId, by: string): ReturnType<Store["decide"]> =>
  store.decide(answering(runId, by))
