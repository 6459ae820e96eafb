/**
 * Helpers of the contract suite that write and read runs in the store under test.
 */
import type * as Arr from "effect/Array"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import type * as Id from "../../../domain/Id.ts"
import type { Interruption } from "../../../domain/Interruption.ts"
import type { PendingFilter } from "../../../store/RunStore.ts"
import { said, session } from "./events.ts"
import type { Store } from "./group.ts"
import { opened } from "./requests.ts"

/** The unread messages of a run, as `id: text`. */
export const mail = (store: Store, runId: Id.RunId) =>
  Effect.map(store.messages(runId), (messages) =>
    messages.map(
      ({ content, messageId }) =>
        `${messageId}: ${content.map((part) => (part._tag === "text" ? part.text : part._tag)).join()}`
    )
  )

/** The open requests, oldest first. */
export const openRequests = (store: Store, filter?: PendingFilter) =>
  Effect.map(store.pending(filter), (pending) => pending.map(({ request }) => request))

/** The ids of the open requests, oldest first. */
export const openIds = (store: Store, filter?: PendingFilter) =>
  Effect.map(openRequests(store, filter), (requests) => requests.map(({ requestId }) => requestId))

/** The ready runs, as `id reason`, sorted. */
export const reasons = (store: Store) =>
  Effect.map(store.ready(), (ready) => ready.map(({ reason, runId }) => `${runId} ${reason}`).toSorted())

/** Performs an act and waits for its notification. */
export const notified = Effect.fnUntraced(function* (store: Store, act: Effect.Effect<unknown, unknown>) {
  const listening = yield* Deferred.make<void>()
  const changes = Stream.tap(store.changes, () => Deferred.succeed(listening, undefined))
  const heard = yield* Effect.forkChild(Stream.runDrain(Stream.take(changes, 2)))
  yield* Deferred.await(listening)
  yield* act
  yield* Fiber.join(heard)
})

/** Creates a run in its own session, with a lease of an hour for `me`. */
export const started = (
  store: Store,
  runId: Id.RunId,
  options: Partial<Parameters<Store["create"]>[0]> = {}
) =>
  store.create({
    runId,
    sessionId: session(`s-${runId}`),
    agent: "root",
    events: [said("0")],
    status: "running",
    owner: "me",
    ttl: "1 hour",
    ...options
  })

/** Creates a held run with these open requests and without a lease. */
export const heldOn = Effect.fnUntraced(function* (
  store: Store,
  runId: Id.RunId,
  requests: Arr.NonEmptyReadonlyArray<Interruption>,
  options: Partial<Parameters<Store["create"]>[0]> = {}
) {
  const [first, ...rest] = requests
  const events = [opened(first), ...rest.map(opened)] as const
  yield* store.release(yield* started(store, runId, { events, status: "held", ...options }))
})

/** Claims a run for an hour. */
export const claimed = (store: Store, runId: Id.RunId, owner = "me") =>
  store.claim({ runId, owner, ttl: "1 hour" })

/** Claims a run and releases the lease. `restore` does not replace a stored copy that was claimed once. */
export const touched = (store: Store, runId: Id.RunId) => Effect.flatMap(claimed(store, runId), store.release)

/** Runs all attempts concurrently. Returns the results of those that succeed. */
export const successesOf = <A, E>(attempts: ReadonlyArray<Effect.Effect<A, E>>) =>
  Effect.map(Effect.all(attempts.map(Effect.exit), { concurrency: "unbounded" }), (exits) =>
    exits.flatMap((exit) => (exit._tag === "Success" ? [exit.value] : []))
  )
