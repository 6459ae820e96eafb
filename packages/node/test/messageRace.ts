/**
 * Messages that race with the parking of their run, in processes that share only the store.
 */
import { assert } from "@effect/vitest"
import { Id, type RunEvent } from "@fermata/sdk"
import type { RunStore } from "@fermata/sdk/store"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"

type Store = RunStore.RunStore["Service"]

const content = [{ _tag: "text", text: "hello" }] as const
const held: RunEvent.RunEvent = { _tag: "run.held", at: 1 }

/** Moves waiting messages into the journal and parks the run, until no message waits. Returns the ids of the messages. */
const parkWith = Effect.fnUntraced(function* (store: Store, lease: RunStore.Lease, expected: Id.Revision) {
  while (true) {
    const ids = (yield* store.messages(lease.runId)).map(({ messageId }) => messageId)
    const [first = held, ...rest] = [
      ...ids.map((messageId) => ({ _tag: "message.queued", at: 1, content, messageId }) as const),
      held
    ]
    // Leaves time for another message.
    for (let steps = yield* Random.nextIntBetween(0, 4); steps > 0; steps -= 1) yield* Effect.yieldNow
    if ((yield* store.park({ lease, expected, events: [first, ...rest], status: "held" })).parked) return ids
  }
})

/** How many messages the driver took before it parked, and how many the listener took after a notification. */
interface Outcome {
  readonly driver: number
  readonly listener: number
}

/**
 * Parks runs in one process and sends each a message from another at about that time; a third claims the runs that it is notified
 * of, and never polls. Does not end when a message notifies no process.
 */
export const race: (
  open: Effect.Effect<Store, unknown, Scope.Scope>,
  rounds: number,
  /** Concurrent rounds; with one, only the round's own message wakes the listener. */
  concurrency: number
) => Effect.Effect<Outcome, unknown, Scope.Scope> = Effect.fnUntraced(function* (open, rounds, concurrency) {
  const [driver, sender, listener] = yield* Effect.all([open, open, open])
  const arrived = new Map<string, Deferred.Deferred<void>>()
  const arrive = (runId: Id.RunId, ids: ReadonlyArray<string>) =>
    Effect.forEach(ids, () => Deferred.succeed(arrived.get(runId)!, undefined))

  const takeUp = Effect.gen(function* () {
    for (const { reason, runId } of yield* listener.ready()) {
      if (reason !== "message") continue
      const lease = yield* listener.claim({ runId, owner: "listener", ttl: "1 minute" })
      const { revision } = yield* listener.head(runId)
      yield* arrive(runId, yield* parkWith(listener, lease, revision))
    }
  })
  const listening = yield* Deferred.make<void>()
  const looking = yield* Effect.forkChild(
    Stream.runForEach(listener.changes, () => Effect.andThen(takeUp, Deferred.succeed(listening, undefined)))
  )
  yield* Deferred.await(listening)

  let byDriver = 0
  const one = Effect.fnUntraced(function* (round: number) {
    const runId = Id.RunId.make(`run_${round}`)
    const over = yield* Deferred.make<void>()
    arrived.set(runId, over)
    const first = { _tag: "message.queued", at: 1, content } as const
    const given = { runId, agent: "a", events: [first], status: "running", owner: "driver" } as const
    const sessionId = Id.SessionId.make(`s_${round}`)
    const lease = yield* driver.create({ ...given, sessionId, ttl: "1 minute" })
    const parked = yield* Effect.forkChild(parkWith(driver, lease, Id.Revision.make(1)), {
      startImmediately: true
    })
    for (let steps = yield* Random.nextIntBetween(0, 12); steps > 0; steps -= 1) yield* Effect.yieldNow
    yield* sender.send(runId, { messageId: "m1", content })
    const ids = yield* Fiber.join(parked)
    byDriver += ids.length
    yield* arrive(runId, ids)
    yield* Effect.raceFirst(Deferred.await(over), Fiber.join(looking))
    const queued = (yield* sender.events(runId)).flatMap((event) =>
      event._tag === "message.queued" ? [event.messageId] : []
    )
    assert.deepStrictEqual(queued, [undefined, "m1"])
    assert.deepStrictEqual(yield* sender.messages(runId), [])
  })
  yield* Effect.forEach(Array.from({ length: rounds }).keys(), one, { concurrency, discard: true })
  yield* Fiber.interrupt(looking)
  return { driver: byDriver, listener: rounds - byDriver }
})
