/**
 * The notifications of a Postgres database: one connection that listens to the channels with subscribers and sends. It exists while there
 * are subscribers and for half a second after the last one, and is replaced when it is lost.
 */
import * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import type { SqlError } from "effect/sql/SqlError"
import { type Config, withoutSilence } from "./socket.ts"

/**
 * Called with each payload. Also called with `undefined`, since earlier notifications may have been lost: each time that a connection
 * begins to listen to the channel, and at the subscription if it listens already.
 */
export type Listener = (payload: string | undefined) => void

/** Sends and receives notifications. */
export interface Channels {
  /** Subscribes to a channel. Returns a function that unsubscribes. */
  readonly subscribe: (channel: string, listener: Listener) => () => void
  /** Whether the connection listens to a channel. */
  readonly isOpen: (channel: string) => boolean
  /**
   * Sends a notification after those that were sent before. It is lost if there is no connection, or if {@link mostWaiting} others wait.
   */
  readonly send: (channel: string, payload: string) => void
}

/** The most notifications that wait for their turn. */
const mostWaiting = 64

/** How long the connection stays without subscribers. */
const lingerMs = 500

/** Makes the channels. Nothing is connected before the first subscription. */
export const makeChannels = Effect.fnUntraced(function* (config: Config, silenceMs: number) {
  const context = yield* Effect.context<never>()
  const listeners = new Map<string, Set<Listener>>()
  /** The channels that the connection listens to, with the scopes of their subscriptions. */
  const open = new Map<string, Scope.Closeable>()
  let outbox: Array<readonly [channel: string, payload: string]> = []
  let isConnected = false
  let isChanged = false
  let wake: (() => void) | undefined
  let linger: NodeJS.Timeout | undefined
  let fiber: Fiber.Fiber<unknown, unknown> | undefined

  const change = () => {
    isChanged = true
    wake?.()
  }
  const changed = Effect.callback<void>((resume) => {
    if (isChanged) return resume(Effect.void)
    wake = () => resume(Effect.void)
    return Effect.sync(() => {
      wake = undefined
    })
  })
  const deliver = (channel: string, payload: string | undefined) => {
    for (const listener of Array.from(listeners.get(channel) ?? [])) listener(payload)
  }

  const serve = Effect.gen(function* () {
    const connection = yield* (yield* PgConnection.make(withoutSilence(config, silenceMs))).pin
    const scope = yield* Effect.scope
    const lost = yield* Deferred.make<never, SqlError>()
    const failed = (error: SqlError) => Effect.asVoid(Deferred.fail(lost, error))
    const listen = Effect.fnUntraced(function* (channel: string) {
      const own = yield* Scope.fork(scope)
      const notifications = yield* Scope.provide(connection.listen(channel), own)
      open.set(channel, own)
      deliver(channel, undefined)
      const next = Effect.map(Queue.take(notifications), ({ payload }) => deliver(channel, payload))
      yield* Effect.forkIn(Effect.catch(Effect.forever(next), failed), own)
    })
    const work = Effect.gen(function* () {
      while (true) {
        isChanged = false
        for (const channel of listeners.keys()) if (!open.has(channel)) yield* listen(channel)
        for (const [channel, own] of open) {
          if (listeners.has(channel)) continue
          open.delete(channel)
          yield* Scope.close(own, Exit.void)
        }
        for (const message of outbox.splice(0)) yield* connection.query("SELECT pg_notify($1, $2)", message)
        wake = undefined
        yield* changed
      }
    })
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        isConnected = false
        outbox = []
        open.clear()
      })
    )
    isConnected = true
    // Requires an answer: a silent connection ends, and is replaced.
    const heartbeat = Effect.suspend(() =>
      connection.query(`LISTEN ${listeners.keys().next().value ?? "fermata_runs"}`)
    )
    yield* Effect.forkScoped(Effect.catch(Effect.repeat(heartbeat, Schedule.spaced(silenceMs / 2)), failed))
    return yield* Effect.raceFirst(work, Deferred.await(lost))
  }).pipe(
    Effect.scoped,
    Effect.retry(
      Schedule.min([Schedule.exponential("50 millis"), Schedule.spaced("2 seconds")]).pipe(Schedule.jittered)
    )
  )

  const stop = Effect.suspend(() => {
    const stopped = fiber
    fiber = undefined
    clearTimeout(linger)
    return stopped === undefined ? Effect.void : Fiber.interrupt(stopped)
  })
  const stopIfUnused = () => {
    if (listeners.size === 0) Effect.runForkWith(context)(stop)
  }
  yield* Effect.addFinalizer(() => stop)

  return {
    subscribe: (channel, listener) => {
      const all = listeners.get(channel) ?? new Set()
      listeners.set(channel, all.add(listener))
      clearTimeout(linger)
      fiber ??= Effect.runForkWith(context)(serve)
      if (open.has(channel)) listener(undefined)
      else change()
      return () => {
        all.delete(listener)
        if (all.size > 0 || listeners.get(channel) !== all) return
        listeners.delete(channel)
        change()
        // The last notifications are still sent, and the next subscriber may come soon.
        if (listeners.size === 0) linger = setTimeout(stopIfUnused, lingerMs).unref()
      }
    },
    isOpen: (channel) => open.has(channel),
    send: (channel, payload) => {
      if (!isConnected || outbox.length >= mostWaiting) return
      outbox.push([channel, payload])
      change()
    }
  } satisfies Channels as Channels
})
