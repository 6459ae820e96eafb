/**
 * Live text of a run for readers in other processes, over two programs with stores of their own.
 */
import { assert, describe, it } from "@effect/vitest"
import { agent, attach, createFermata, Runtime, tool } from "@fermata/node"
import type { RunUpdate } from "@fermata/sdk/agent"
import type { Id } from "@fermata/sdk/domain"
import { ModelClient } from "@fermata/sdk/model"
import { RunStore } from "@fermata/sdk/store"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { emptyDatabase } from "./database.ts"
import { at, create, openStore, said } from "./storedRuns.ts"

const runId = "run" as Id.RunId

const soon = Schedule.spaced("5 millis")

const secret = "sk-ant-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/**
 * An agent whose tool writes output until `isSeen` is set: a process hears of a watcher only a moment after it begins to watch. Then it
 * answers.
 */
const makeAgent = (isSeen: Deferred.Deferred<void>, begun: Deferred.Deferred<void>) => {
  const look = tool("look", {
    safety: "readOnly",
    handler: (_, { output, progress }) =>
      Effect.gen(function* () {
        yield* Deferred.succeed(begun, undefined)
        progress("looking")
        const write = Effect.andThen(
          Effect.sync(() => output(".")),
          Deferred.isDone(isSeen)
        )
        yield* Effect.repeat(write, { until: (done) => done, schedule: soon })
        output("the end")
        return "seen"
      })
  })
  const model = ScriptedModel.make(({ turn }) =>
    turn === 1
      ? { calls: [{ tool: "look" }] }
      : { text: `One, two and three. The key is ${secret}.\nEnd `, chunkSize: 3 }
  )
  // The answer ends once the reader has its text: after the next commit, the text would be old.
  const isRead = Deferred.makeUnsafe<void>()
  const stream: typeof model.client.stream = (request) =>
    Stream.tap(model.client.stream(request), (part) =>
      part._tag === "finish" && request.turn > 1 ? Deferred.await(isRead) : Effect.void
    )
  let text = ""
  const read = (update: { readonly _tag: string; readonly part?: { readonly delta?: string } }) =>
    Effect.suspend(() => {
      text += update.part?.delta ?? ""
      if (text.endsWith("End ")) return Deferred.succeed(isRead, undefined)
      return update._tag === "output" ? Deferred.succeed(isSeen, undefined) : Effect.void
    })
  return { looker: agent("looker", { tools: [look] }), model: { client: { ...model.client, stream } }, read }
}

/** What a reader saw, in short: the text of adjacent updates is joined. */
const inShort = (updates: ReadonlyArray<RunUpdate.RunUpdate>): ReadonlyArray<string> => {
  const seen: Array<string> = []
  let last = ""
  const add = (kind: string, text: string) => {
    if (kind === last) seen[seen.length - 1] += text
    else seen.push(`${kind}: ${text}`)
    last = kind
  }
  for (const update of updates) {
    if (update._tag === "event") {
      add("event", ` ${update.event._tag}`)
      last = ""
    } else if (update._tag === "delta" && update.part._tag === "text-delta") add("delta", update.part.delta)
    else if (update._tag === "output") add("output", update.chunk.replace(/^\.+/, ""))
  }
  return seen
}

/** The events of a result are stored with the next step, so that the text of that step comes before them. */
const expected = [
  "output: the end",
  "delta: One, two and three. The key is [REDACTED:anthropic-key].\nEnd ",
  "event:  tool.completed",
  "event:  model.answered",
  "event:  run.completed"
]

describe("a run on Postgres that another process drives", () => {
  it.live("shows its output and its answer to a reader of events() in order, without secrets", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const isSeen = yield* Deferred.make<void>()
      const begun = yield* Deferred.make<void>()
      const { looker, model, read } = makeAgent(isSeen, begun)
      const open = () =>
        Effect.acquireRelease(
          Effect.promise(() =>
            createFermata({ agents: [looker], model: model.client, store: PostgresStore.layer({ url }) })
          ),
          (fermata) => Effect.promise(() => fermata.close())
        )
      const driving = yield* open()
      const watching = yield* open()
      const ended = driving.runPrompt("looker", "look", { runId })
      yield* Deferred.await(begun)
      const updates = yield* Effect.promise(async () => {
        const seen: Array<RunUpdate.RunUpdate> = []
        for await (const update of watching.events(runId, { until: "end" })) {
          seen.push(update)
          await Effect.runPromise(read(update as Parameters<typeof read>[0]))
        }
        await ended
        return seen
      })
      const short = inShort(updates)
      assert.deepStrictEqual(short.slice(-expected.length), expected)
      const revisions = updates.flatMap((update) => (update._tag === "event" ? [update.revision] : []))
      assert.deepStrictEqual(
        revisions,
        revisions.map((_, index) => index + 1)
      )
    })
  )

  it.live("shows its output to a reader of a handle", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const isSeen = yield* Deferred.make<void>()
      const begun = yield* Deferred.make<void>()
      const { looker, model, read } = makeAgent(isSeen, begun)
      const driving = yield* Effect.acquireRelease(
        Effect.promise(() =>
          createFermata({ agents: [looker], model: model.client, store: PostgresStore.layer({ url }) })
        ),
        (fermata) => Effect.promise(() => fermata.close())
      )
      const ended = driving.runPrompt("looker", "look", { runId })
      yield* Deferred.await(begun)
      const store = yield* openStore({ url })
      const runtime = yield* Effect.provideService(
        Runtime.make({ agent: looker }),
        ModelClient.ModelClient,
        model.client
      )
      const handle = yield* Effect.provideService(attach([runtime], runId), RunStore.RunStore, store)
      const updates = yield* Stream.runCollect(
        Stream.tap(handle.events, (update) => read(update as Parameters<typeof read>[0]))
      )
      yield* Effect.promise(() => ended)
      const short = inShort(updates.filter((update) => update._tag !== "skipped"))
      assert.deepStrictEqual(short.slice(-expected.length), expected)
    })
  )

  it.live("notifies its watchers of each commit, in order with its texts", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      const driving = yield* openStore({ url })
      const watching = yield* openStore({ url })
      const lease = yield* create(driving, runId)
      const heard = yield* Queue.unbounded<RunStore.RunSignal>()
      watching.broadcast!.watch(runId, (signal) => void Queue.offerUnsafe(heard, signal))
      const next = Effect.repeat(Queue.take(heard), {
        until: ({ revision, text }) => revision !== undefined || text !== undefined
      })
      // The first signal comes when the connection listens.
      yield* Queue.take(heard)
      const append = (revision: number) =>
        driving.append({ lease, expected: at(revision - 1), events: [said("more")], status: "running" })
      yield* append(2)
      assert.deepStrictEqual(yield* next, { revision: 2 })
      const publisher = driving.broadcast!.publisher(runId)
      yield* Effect.repeat(Effect.sync(publisher.isWatched), { until: (known) => known, schedule: soon })
      yield* append(3)
      publisher.send("é\n3")
      assert.deepStrictEqual([yield* next, yield* next], [{ revision: 3 }, { text: "é\n3" }])
      publisher.send("x".repeat(8000))
      yield* append(4)
      assert.deepStrictEqual(yield* next, { revision: 4 })
    })
  )
})
