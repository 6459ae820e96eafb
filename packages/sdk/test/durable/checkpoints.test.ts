import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import { evolveAll } from "../../src/domain/evolve.ts"
import type { Revision, RunId, SessionId } from "../../src/domain/Id.ts"
import { messages } from "../../src/domain/RunState.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { CheckpointEvery } from "../../src/durable/internal/checkpoints.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import type { Checkpoint, NewCheckpoint } from "../../src/store/RunStorePort.ts"
import { approve, bind, call, expect, only, probe } from "../helpers/Fixture.ts"

type Store = RunStore["Service"]

const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(title, () => Effect.provide(body, Layer.fresh(layerMemory)))

const sessionId = "talk" as SessionId

/** The store as another process sees it, without cached states; `change` modifies the checkpoints that are read. */
const elsewhere = (
  store: Store,
  change: (checkpoint: Checkpoint) => Checkpoint = (checkpoint) => checkpoint
) => {
  const loads: Array<{ readonly events: number; readonly checkpoint: boolean }> = []
  const written: Array<NewCheckpoint> = []
  const seen = <A extends { readonly checkpoint?: NewCheckpoint }>(options: A): A => {
    if (options.checkpoint !== undefined) written.push(options.checkpoint)
    return options
  }
  const other = RunStore.of({
    ...store,
    create: (options) => store.create(seen(options)),
    park: (options) => store.park(seen(options)),
    load: (runId, options) =>
      Effect.map(store.load(runId, options), (stored) => {
        loads.push({ events: stored.events.length, checkpoint: stored.checkpoint !== undefined })
        return stored.checkpoint === undefined ? stored : { ...stored, checkpoint: change(stored.checkpoint) }
      })
  })
  return { other, loads, written }
}

/** Runs this many prompts in the session, and returns the id of the last run. */
const talk = (exchanges: number, store?: Store) =>
  Effect.gen(function* () {
    const { runtime } = yield* bind(
      Agent.make("a"),
      Array.from({ length: exchanges }, (_, index) => `answer ${index}`)
    )
    let last = "" as RunId
    for (let index = 0; index < exchanges; index += 1) {
      const said = runPromptStored(runtime, { prompt: `prompt ${index}`, sessionId })
      const given = store === undefined ? said : Effect.provideService(said, RunStore, store)
      last = expect(yield* given, "completed").runId
    }
    return last
  })

/** The state folded from all events. */
const folded = (runId: RunId) =>
  Effect.map(
    RunStore.use((store) => store.load(runId)),
    ({ events }) => evolveAll(undefined, events)
  )

/** Continues the session in another process, and returns the messages that its model got. */
const goOn = (change?: (checkpoint: Checkpoint) => Checkpoint) =>
  Effect.gen(function* () {
    const { loads, other } = elsewhere(yield* RunStore, change)
    const { model, runtime } = yield* bind(Agent.make("a"), ["and on"])
    const said = runPromptStored(runtime, { prompt: "go on", sessionId })
    const { runId } = expect(yield* Effect.provideService(said, RunStore, other), "completed")
    return { loads, runId, shown: model.requests[0]?.messages }
  })

describe("the checkpoint of a conversation", () => {
  test(
    "lets another process continue with the same messages, reading only later events",
    Effect.gen(function* () {
      const last = yield* talk(100)
      const all = yield* folded(last)
      const { loads, runId, shown } = yield* goOn()
      assert.strictEqual(loads.length, 1)
      assert.isTrue(loads[0]!.checkpoint)
      // 200 messages, 128 of them in the checkpoint.
      assert.isBelow(loads[0]!.events, 3 * 37)
      assert.deepStrictEqual(shown?.slice(0, -1), messages(all!))
      assert.deepStrictEqual(yield* loadState(runId), yield* folded(runId))
    })
  )

  test(
    "contains each message once, and is absent from short conversations",
    Effect.gen(function* () {
      const { other, written } = elsewhere(yield* RunStore)
      yield* talk(60, other)
      assert.strictEqual(written.length, 0)
      const last = yield* talk(300, other)
      const all = messages((yield* folded(last))!)
      const chunks = written.flatMap(({ chunks }) => chunks)
      assert.strictEqual(written.length, 5)
      assert.deepStrictEqual(
        chunks.flatMap((text) => JSON.parse(text) as Array<unknown>),
        all.slice(0, chunks.length * 64)
      )
      for (const { state } of written) assert.isBelow(state.length, 4000)
    })
  )

  for (const [what, change] of [
    ["its state is damaged", (found) => ({ ...found, state: found.state.slice(1) })],
    ["a chunk of it is damaged", (found) => ({ ...found, chunks: ["[]", ...found.chunks.slice(1)] })],
    ["it has the wrong revision", (found) => ({ ...found, revision: (found.revision + 1) as Revision })],
    [
      "it has the wrong status",
      (found) => ({ ...found, state: found.state.replace('"status":"completed"', '"status":"held"') })
    ],
    [
      "the later events do not lead to the run's state",
      (found) => {
        const revision = found.revision - 1
        const state = found.state.replace(`"revision":${found.revision}`, `"revision":${revision}`)
        return { ...found, revision: revision as Revision, state }
      }
    ]
  ] as ReadonlyArray<readonly [string, (found: Checkpoint) => Checkpoint]>) {
    test(
      `is ignored, and the journal is read, when ${what}`,
      Effect.gen(function* () {
        const last = yield* talk(65)
        // The run itself has the checkpoint that must be ignored.
        const { runtime } = yield* bind(Agent.make("a"), ["more"])
        yield* runPromptStored(runtime, { prompt: "more", sessionId })
        const all = messages((yield* folded(last))!)
        const { other, loads } = elsewhere(yield* RunStore, change)
        const state = yield* Effect.provideService(loadState(last), RunStore, other)
        assert.deepStrictEqual(state, (yield* folded(last))!)
        assert.deepStrictEqual(
          loads.map(({ checkpoint }) => checkpoint),
          [true, false]
        )
        const { shown } = yield* goOn(change)
        assert.deepStrictEqual(shown?.slice(0, all.length), all)
      })
    )
  }

  test(
    "does not leak later messages into a fork from the middle",
    Effect.gen(function* () {
      const middle = yield* talk(70)
      yield* talk(70)
      const { model, runtime } = yield* bind(Agent.make("a"), ["forked", "and on"])
      const forked = expect(yield* forkRun(runtime, { runId: middle, prompt: "instead" }), "completed")
      const { sessionId: other } = yield* loadState(forked.runId)
      const { runId } = yield* runPromptStored(runtime, { prompt: "go on", sessionId: other })
      assert.strictEqual(model.requests[1]?.messages.length, 143)
      assert.deepStrictEqual(yield* loadState(runId), yield* folded(runId))
    })
  )
})

describe("the checkpoint of a held run", () => {
  test(
    "lets another process resume a long run without reading earlier events",
    Effect.gen(function* () {
      const look = probe("look", { needsApproval: false, safety: "readOnly" })
      const write = probe("write")
      const agent = Agent.make("a", { tools: [look.tool, write.tool], limits: { maxTurns: 1000 } })
      const turns = Array.from({ length: 70 }, (_, index) => ({ calls: [call("look", String(index))] }))
      const { runtime } = yield* bind(agent, [...turns, { calls: [call("write", "1")] }, "done"])
      const result = yield* runPromptStored(runtime, { prompt: "go" })
      const { loads, other } = elsewhere(yield* RunStore)
      const decisions = [approve(only(result, "approval"))]
      const end = expect(
        yield* Effect.provideService(
          runPromptStored(runtime, { runId: result.runId, decisions }),
          RunStore,
          other
        ),
        "completed"
      )
      assert.deepStrictEqual(loads.at(-1), { events: 0, checkpoint: true })
      assert.strictEqual(write.ran.length, 1)
      assert.deepStrictEqual(end.state, (yield* folded(result.runId))!)
      assert.deepStrictEqual(yield* loadState(result.runId), (yield* folded(result.runId))!)
    })
  )

  test(
    "keeps edited arguments, also when the answer with the call ends a chunk",
    Effect.gen(function* () {
      for (const fill of [61, 62, 63, 64]) {
        const write = probe("write")
        const agent = Agent.make("a", { tools: [write.tool] })
        const { runtime } = yield* bind(agent, [
          ...Array.from({ length: fill }, (_, index) => `answer ${index}`),
          { calls: [call("write", "1")] },
          "done",
          "again"
        ])
        const session = `edit-${fill}` as SessionId
        for (let index = 0; index < fill; index += 1) {
          yield* runPromptStored(runtime, { prompt: `prompt ${index}`, sessionId: session })
        }
        const held = yield* runPromptStored(runtime, { prompt: "write", sessionId: session })
        const request = only(held, "approval")
        const decisions = [{ ...approve(request), arguments: { id: "edited" } }]
        const { other } = elsewhere(yield* RunStore)
        yield* Effect.provideService(
          runPromptStored(runtime, { runId: held.runId, decisions }),
          RunStore,
          other
        )
        assert.deepStrictEqual(yield* loadState(held.runId), (yield* folded(held.runId))!)
        // The next checkpoint shares the chunks of the held run's one.
        const { runId } = yield* runPromptStored(runtime, { prompt: "again", sessionId: session })
        assert.deepStrictEqual(yield* loadState(runId), (yield* folded(runId))!)
      }
    }).pipe(Effect.provideService(CheckpointEvery, 0))
  )
})
