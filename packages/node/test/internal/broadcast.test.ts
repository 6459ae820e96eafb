/**
 * The broadcast of a Postgres store, over channels of one process: who hears of which runs, and when nothing is sent.
 */
import { assert, describe, it } from "@effect/vitest"
import { Id } from "@fermata/sdk"
import type { RunStore } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { makeBroadcast } from "../../src/internal/postgres/broadcast.ts"
import type { Channels, Listener } from "../../src/internal/postgres/channels.ts"

const run = (name: string) => Id.RunId.make(name)
const [a, b] = [run("run_a"), run("run_b")]

/** A database that passes notifications on at once, and the channels of each process that connects to it. */
const makeDatabase = () => {
  const processes = new Set<Map<string, Set<Listener>>>()
  const sent: Array<string> = []
  const notify = (channel: string, payload: string) => {
    sent.push(channel)
    for (const listeners of processes) {
      for (const listener of Array.from(listeners.get(channel) ?? [])) listener(payload)
    }
  }
  const connect = () => {
    const listeners = new Map<string, Set<Listener>>()
    processes.add(listeners)
    let isLost = false
    const channels: Channels = {
      isOpen: (channel) => !isLost && listeners.has(channel),
      send: (channel, payload) => {
        if (!isLost) notify(channel, payload)
      },
      subscribe: (channel, listener) => {
        const all = listeners.get(channel) ?? new Set()
        listeners.set(channel, all.add(listener))
        listener(undefined)
        return () => {
          all.delete(listener)
          if (all.size === 0) listeners.delete(channel)
        }
      }
    }
    return {
      channels,
      listening: () => [...listeners.keys()],
      lose: () => {
        isLost = true
        processes.delete(listeners)
      },
      restore: () => {
        isLost = false
        processes.add(listeners)
        for (const all of listeners.values()) for (const listener of Array.from(all)) listener(undefined)
      }
    }
  }
  const open = Effect.gen(function* () {
    const connection = connect()
    return { ...connection, ...(yield* makeBroadcast(connection.channels)) }
  })
  return { notify, open, sent }
}

const heard = () => {
  const signals: Array<RunStore.RunSignal> = []
  return { signals, listener: (signal: RunStore.RunSignal) => void signals.push(signal) }
}

describe("the broadcast of a Postgres store", () => {
  it.effect("sends the texts of a run to the processes that watch it, and to no other listener", () =>
    Effect.gen(function* () {
      const { open } = makeDatabase()
      const driving = (yield* open).broadcast
      const [first, second] = [(yield* open).broadcast, (yield* open).broadcast]
      const publisher = driving.publisher(a)
      assert.isFalse(publisher.isWatched())
      const [one, two, other, own] = [heard(), heard(), heard(), heard()]
      first.watch(a, one.listener)
      const leave = second.watch(a, two.listener)
      second.watch(b, other.listener)
      driving.watch(a, own.listener)
      assert.isTrue(publisher.isWatched())
      publisher.send("one\n")
      leave()
      publisher.send("two")
      assert.deepStrictEqual(
        one.signals.filter(({ text }) => text !== undefined),
        [{ text: "one\n" }, { text: "two" }]
      )
      assert.deepStrictEqual(
        two.signals.filter(({ text }) => text !== undefined),
        [{ text: "one\n" }]
      )
      assert.isTrue([...other.signals, ...own.signals].every(({ text }) => text === undefined))
    })
  )

  it.effect("hears at once of a run that is watched already, and forgets one whose watcher died", () =>
    Effect.gen(function* () {
      const { open } = makeDatabase()
      const watching = yield* open
      watching.broadcast.watch(a, () => {})
      const driving = yield* open
      const publisher = driving.broadcast.publisher(a)
      assert.isTrue(publisher.isWatched())
      yield* TestClock.adjust("1 minute")
      assert.isTrue(publisher.isWatched())
      watching.lose()
      yield* TestClock.adjust("14 seconds")
      assert.isTrue(publisher.isWatched())
      yield* TestClock.adjust("2 seconds")
      assert.isFalse(publisher.isWatched())
      watching.restore()
      assert.isTrue(publisher.isWatched())
    })
  )

  it.effect("notifies of a commit while the run is watched, or while it cannot know", () =>
    Effect.gen(function* () {
      const { notify, open } = makeDatabase()
      const driving = yield* open
      const watching = yield* open
      // A process that only appends never asks who watches.
      assert.isDefined(driving.notice(a, 1))
      driving.broadcast.publisher(a)
      assert.isDefined(driving.notice(a, 1))
      yield* TestClock.adjust("2 seconds")
      assert.isUndefined(driving.notice(a, 1))
      const { listener, signals } = heard()
      const leave = watching.broadcast.watch(a, listener)
      const notice = driving.notice(a, 7)
      notify(notice!.channel, notice!.payload)
      assert.deepStrictEqual(signals.at(-1), { revision: 7 })
      assert.isUndefined(driving.notice(b, 7))
      leave()
      assert.isUndefined(driving.notice(a, 8))
      driving.lose()
      assert.isDefined(driving.notice(a, 8))
      driving.restore()
      assert.isDefined(driving.notice(a, 8))
      yield* TestClock.adjust("2 seconds")
      assert.isUndefined(driving.notice(a, 8))
    })
  )

  it.effect(
    "lets a watcher look at its runs when its connection is back, and when another process begins to drive",
    () =>
      Effect.gen(function* () {
        const { open } = makeDatabase()
        const watching = yield* open
        const { listener, signals } = heard()
        watching.broadcast.watch(a, listener)
        signals.length = 0
        watching.lose()
        watching.restore()
        assert.deepStrictEqual(signals, [{}])
        const driving = yield* open
        driving.broadcast.publisher(a)
        assert.deepStrictEqual(signals, [{}, {}])
      })
  )

  it.effect("announces any number of runs in payloads that Postgres takes", () =>
    Effect.gen(function* () {
      const { open } = makeDatabase()
      const driving = yield* open
      const watching = yield* open
      const payloads: Array<string> = []
      driving.channels.subscribe("fermata_watchers", (payload) => {
        if (payload !== undefined) payloads.push(payload)
      })
      const runs = Array.from({ length: 500 }, (_, index) => run(`run_${"x".repeat(index % 400)}${index}`))
      for (const runId of runs) watching.broadcast.watch(runId, () => {})
      payloads.length = 0
      const publishers = runs.map((runId) => driving.broadcast.publisher(runId))
      assert.isTrue(publishers.every(({ isWatched }) => isWatched()))
      assert.isBelow(payloads.length, 40)
      for (const payload of payloads) assert.isBelow(Buffer.byteLength(payload), 8000)
    })
  )

  it.effect("sends nothing and listens to nothing after the last watcher of a process has left", () =>
    Effect.gen(function* () {
      const { open, sent } = makeDatabase()
      const { broadcast, listening } = yield* open
      const leave = [broadcast.watch(a, () => {}), broadcast.watch(a, () => {}), broadcast.watch(b, () => {})]
      for (const stop of leave) stop()
      assert.deepStrictEqual(listening(), [])
      sent.length = 0
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(sent, [])
    })
  )

  it.effect("ignores what it cannot read, such as notifications of another version", () =>
    Effect.gen(function* () {
      const { notify, open } = makeDatabase()
      const { broadcast } = yield* open
      const publisher = broadcast.publisher(a)
      const { listener, signals } = heard()
      broadcast.watch(a, listener)
      signals.length = 0
      for (const payload of [
        "",
        "{}",
        "null",
        "[",
        '["x","sing",["run_a"]]',
        '["x","watch","run_a"]',
        '["x"]',
        "[1,2]\nx"
      ]) {
        notify("fermata_watchers", payload)
        notify("fermata_watched", payload)
      }
      assert.isFalse(publisher.isWatched())
      assert.deepStrictEqual(signals, [])
    })
  )
})
