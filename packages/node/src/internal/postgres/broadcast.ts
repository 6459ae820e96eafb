/**
 * Passes updates of watched runs between the processes of a Postgres store, as notifications.
 *
 * A process that watches runs announces them every few seconds, and a process that drives runs listens to that. Nothing is sent about a run
 * that no other process watches, except for the commits of a process that has not heard the announcements yet.
 */
import { randomUUID } from "node:crypto"
import type { Id } from "@fermata/sdk"
import type { RunStore, SqlRunStore } from "@fermata/sdk/store"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type { Channels } from "./channels.ts"

type RunId = Id.RunId

type Listener = (signal: RunStore.RunSignal) => void

/** Carries the announcements of watchers. */
const watchers = "fermata_watchers"

/** Carries the signals about watched runs. */
const watched = "fermata_watched"

/** The interval of a process's announcements. */
const announceEveryMs = 5000

/** How long a run counts as watched after an announcement. */
const watchedForMs = 3 * announceEveryMs

/** How long the answers to a question for watchers may take. */
const answeredWithinMs = 1000

/** The largest payload in bytes; Postgres refuses one of 8,000. */
const mostBytes = 7900

/** An announcement: who sends it, what it says, and about which runs. `ask` asks the other processes for their announcements. */
type Announcement = readonly [by: string, what: "watch" | "leave" | "ask", runs: ReadonlyArray<RunId>]

/** Makes the broadcast of a store. */
export const makeBroadcast = Effect.fnUntraced(function* (channels: Channels) {
  const self = randomUUID()
  const clock = yield* Clock.Clock
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  const nowMs = () => Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n)
  const listeners = new Map<RunId, Set<Listener>>()
  /** The runs that other processes watch: for each process, the time until which its announcement counts. */
  const others = new Map<RunId, Map<string, number>>()
  /** The time at which this process asked for announcements. */
  let askedAt: number | undefined
  let isDriving = false
  /** Ends the subscriptions: to announcements, and to signals. */
  let unlisten: { watchers?: () => void; watched?: () => void } = {}
  let ticking: Fiber.Fiber<unknown> | undefined

  const say = (what: Announcement[1], runs: Iterable<RunId>) => {
    for (const page of pages([...runs])) channels.send(watchers, JSON.stringify([self, what, page]))
  }
  const ask = () => {
    if (!isDriving || !channels.isOpen(watchers)) return
    askedAt = nowMs()
    channels.send(watchers, JSON.stringify([self, "ask", []]))
  }
  const signalAll = () => {
    for (const ofRun of listeners.values()) for (const listener of Array.from(ofRun)) listener({})
  }

  const hear = (payload: string | undefined) => {
    if (payload === undefined) {
      ask()
      say("watch", listeners.keys())
      return
    }
    const heard = announcementIn(payload)
    if (heard === undefined || heard[0] === self) return
    const [by, what, runs] = heard
    if (what === "ask") {
      say("watch", listeners.keys())
      // It may have driven a run before it knew that the run is watched.
      signalAll()
    }
    for (const runId of runs) {
      const ofRun = others.get(runId) ?? new Map<string, number>()
      if (what === "leave") ofRun.delete(by)
      else ofRun.set(by, nowMs() + watchedForMs)
      if (ofRun.size === 0) others.delete(runId)
      else others.set(runId, ofRun)
    }
  }
  const receive = (payload: string | undefined) => {
    if (payload === undefined) return signalAll()
    const sent = signalIn(payload)
    if (sent === undefined || sent.by === self) return
    for (const listener of Array.from(listeners.get(sent.runId) ?? [])) listener(sent.signal)
  }

  /** Announces the watched runs, and forgets those of processes that announce no more. */
  const tick = () => {
    say("watch", listeners.keys())
    const now = nowMs()
    for (const [runId, ofRun] of others) {
      for (const [by, until] of ofRun) if (until < now) ofRun.delete(by)
      if (ofRun.size === 0) others.delete(runId)
    }
  }

  const isWatched = (runId: RunId): boolean => {
    const ofRun = others.get(runId)
    if (ofRun === undefined) return false
    for (const until of ofRun.values()) if (until > nowMs()) return true
    return false
  }
  /** Whether the processes that watch a run have had the time to announce it. */
  const isInformed = () =>
    askedAt !== undefined && channels.isOpen(watchers) && nowMs() - askedAt > answeredWithinMs

  const listen = () => {
    if (listeners.size > 0) unlisten.watched ??= channels.subscribe(watched, receive)
    unlisten.watchers ??= channels.subscribe(watchers, hear)
    ticking ??= fork(Effect.forever(Effect.andThen(Effect.sleep(announceEveryMs), Effect.sync(tick))))
  }
  const stopListening = () => {
    if (listeners.size > 0) return
    unlisten.watched?.()
    delete unlisten.watched
    if (isDriving) return
    unlisten.watchers?.()
    unlisten = {}
    ticking?.interruptUnsafe()
    ticking = undefined
    askedAt = undefined
  }

  yield* Effect.addFinalizer(() => Effect.sync(() => ticking?.interruptUnsafe()))

  const broadcast: RunStore.RunBroadcast = {
    maxTextBytes: 7000,
    publisher: (runId) => {
      if (!isDriving) {
        isDriving = true
        // Without a connection, it asks when there is one.
        ask()
        listen()
      }
      return {
        isWatched: () => isWatched(runId),
        send: (text) => {
          const payload = `${JSON.stringify([self, runId])}\n${text}`
          if (Buffer.byteLength(payload) <= mostBytes) channels.send(watched, payload)
        }
      }
    },
    watch: (runId, listener) => {
      const ofRun = listeners.get(runId) ?? new Set()
      const isFirst = ofRun.size === 0
      listeners.set(runId, ofRun.add(listener))
      listen()
      if (isFirst) say("watch", [runId])
      return () => {
        ofRun.delete(listener)
        if (ofRun.size > 0 || listeners.get(runId) !== ofRun) return
        listeners.delete(runId)
        say("leave", [runId])
        stopListening()
      }
    }
  }
  const notice: NonNullable<SqlRunStore.Options["notice"]> = (runId, revision) => {
    if (isInformed() && !isWatched(runId)) return undefined
    const payload = JSON.stringify([self, runId, revision])
    return Buffer.byteLength(payload) <= mostBytes ? { channel: watched, payload } : undefined
  }
  return { broadcast, notice }
})

/** Lists of runs that fit into one payload each. */
const pages = (runs: ReadonlyArray<RunId>): ReadonlyArray<ReadonlyArray<RunId>> => {
  const found: Array<Array<RunId>> = []
  let left = 0
  for (const runId of runs) {
    const size = Buffer.byteLength(JSON.stringify(runId)) + 1
    if (size > mostBytes - headBytes) continue
    if (size > left) {
      found.push([])
      left = mostBytes - headBytes
    }
    found.at(-1)!.push(runId)
    left -= size
  }
  return found
}

/** The size of an announcement without its runs. */
const headBytes = 100

/** Reads an announcement; `undefined` for one of another version. */
const announcementIn = (payload: string): Announcement | undefined => {
  const [by, what, runs] = parsed(payload)
  const isKnown = typeof by === "string" && (what === "watch" || what === "leave" || what === "ask")
  return isKnown && Array.isArray(runs) ? [by, what, runs as ReadonlyArray<RunId>] : undefined
}

/** Reads a signal, with its sender and its run. */
const signalIn = (payload: string) => {
  const end = payload.indexOf("\n")
  const [by, runId, revision] = parsed(end < 0 ? payload : payload.slice(0, end))
  if (typeof by !== "string" || typeof runId !== "string") return undefined
  const news = typeof revision === "number" ? { revision } : {}
  return { by, runId: runId as RunId, signal: end < 0 ? news : { text: payload.slice(end + 1) } }
}

const parsed = (json: string): ReadonlyArray<unknown> => {
  try {
    const value: unknown = JSON.parse(json)
    return Array.isArray(value) ? value : []
  } catch {
    return []
  }
}
