/**
 * A stored run that is stopped at each of its moments in turn: cancelled through the store, or suspended.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { z } from "zod"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import type { Suspension } from "../../src/agent/Cancellation.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { awaitChange, AgentRun } from "../../src/run/internal/AgentRun.ts"
import { Drive } from "../../src/run/internal/Drive.ts"
import { noJournal } from "../../src/run/internal/unstoredJournal.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import type { RunResult } from "../../src/run/RunResult.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { busy, checkEnds } from "../helpers/Busy.ts"
import { assertValid, bind, expect } from "../helpers/Fixture.ts"

const runId = "run" as RunId

/** Runs in a fresh store and calls `how` at the given update. */
const at = <A, E>(
  moment: number,
  how: (run: (effect: Effect.Effect<unknown, unknown>) => unknown, store: RunStore["Service"]) => void,
  go: Body<A, E>
) =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const context = yield* Effect.context<never>()
    const { runtime, tools } = yield* busy
    let told = 0
    const onUpdate = () => {
      if (++told === moment) how(Effect.runForkWith(context), store)
    }
    const out = yield* go(runtime, onUpdate, tools)
    checkEnds(yield* store.events(runId), tools)
    assert.deepStrictEqual(yield* store.pending(), [])
    assert.deepStrictEqual(yield* store.ready(), [])
    assert.isUndefined((yield* store.head(runId)).lease)
    return { out, isOver: told < moment }
  }).pipe(Effect.provide(Layer.fresh(layerMemory)))

type Made = Effect.Success<typeof busy>

type Body<A, E> = (
  runtime: Made["runtime"],
  onUpdate: (update: RunUpdate) => void,
  tools: Made["tools"]
) => Effect.Effect<A, E, RunStore>

describe("a stored run cancelled through the store at any moment", () => {
  it.effect("ends once, as does each of its sub-agents, leaves nothing pending and repeats no call", () =>
    Effect.gen(function* () {
      const seen = new Set<string>()
      for (let moment = 1, isOver = false; !isOver; moment++) {
        const stopped = yield* at(
          moment,
          (run, store) => run(Effect.provideService(cancelRun(runId, "enough"), RunStore, store)),
          (runtime, onUpdate) => runPromptStored(runtime, { prompt: "go", runId }, { onUpdate })
        )
        isOver = stopped.isOver
        const result: RunResult = stopped.out
        seen.add(result.status)
        assertValid(result.state)
        if (isOver) expect(result, "completed")
      }
      assert.deepStrictEqual([...seen].toSorted(), ["cancelled", "completed"])
    })
  )
})

/** A token that counts its listeners. */
const counting = () => {
  const token = Cancellation.make()
  const listening = new Set<object>()
  const counted: Cancellation.CancellationToken = {
    reason: () => token.reason(),
    cancel: (reason) => token.cancel(reason),
    onCancel: (listener) => {
      const one = {}
      listening.add(one)
      const stop = token.onCancel(listener)
      return () => {
        listening.delete(one)
        stop()
      }
    },
    signal: () => token.signal(),
    release: () => token.release()
  }
  return { token: counted, listening }
}

describe("a run cancelled at any moment", () => {
  it.effect("leaves no listener on its suspension tokens", () =>
    Effect.gen(function* () {
      for (let moment = 1, isOver = false; !isOver; moment++) {
        const [soon, now] = [counting(), counting()]
        const cancellation = Cancellation.make()
        const stopped = yield* at(
          moment,
          () => cancellation.cancel("enough"),
          (runtime, onUpdate) =>
            runPromptStored(
              runtime,
              { prompt: "go", runId },
              { onUpdate, cancellation, suspension: { soon: soon.token, now: now.token } }
            )
        )
        isOver = stopped.isOver
        assert.deepStrictEqual([soon.listening.size, now.listening.size], [0, 0], `at update ${moment}`)
      }
    })
  )

  it.effect("leaves no listener when it was cancelled before it waits for its sub-agents", () =>
    Effect.gen(function* () {
      const { runtime } = yield* busy
      const [own, now] = [counting(), counting()]
      const drive = new Drive({
        runtime,
        token: own.token,
        suspension: { soon: Cancellation.make(), now: now.token },
        clock: yield* Clock.Clock,
        journal: noJournal(undefined),
        onUpdate: undefined,
        state: (yield* runPrompt(runtime, { prompt: "go" })).state,
        hasMail: false,
        staged: []
      })
      own.token.cancel("enough")
      yield* awaitChange(new AgentRun(drive, own.token, () => Effect.void))
      assert.strictEqual(now.listening.size, 0)
    })
  )
})

/** Approves the requests that the callback was not asked about, and supplies calls in doubt. */
const decide = (result: RunResult): ReadonlyArray<DecisionInput> =>
  expect(result, "interrupted").interruptions.map(({ _tag, requestId }) => {
    if (_tag === "approval") return { _tag: "approve", requestId, by: "ann" }
    assert.strictEqual(_tag, "inDoubt")
    return { _tag: "supply", requestId, by: "ann", result: "it happened" }
  })

describe("a stored run suspended at any moment", () => {
  for (const stops of [false, true]) {
    const how = stops ? "stopping what goes on" : "letting what goes on end"
    it.effect(`is resumed to the same end, and repeats no side effect (${how})`, () =>
      Effect.gen(function* () {
        let left = 0
        for (let moment = 1, isOver = false; !isOver; moment++) {
          const suspension: Suspension = { soon: Cancellation.make(), now: Cancellation.make() }
          const stopped = yield* at(
            moment,
            () => {
              suspension.soon.cancel("closing")
              if (stops) suspension.now.cancel("closing")
            },
            (runtime, onUpdate, tools) =>
              Effect.gen(function* () {
                const first = yield* Effect.exit(
                  runPromptStored(runtime, { prompt: "go", runId }, { onUpdate, suspension })
                )
                if (Exit.isSuccess(first) && first.value.status === "completed") return first.value
                if (Exit.isFailure(first)) left += 1
                let result: RunResult = yield* runPromptStored(runtime, { runId })
                while (result.status === "interrupted") {
                  result = yield* runPromptStored(runtime, { runId, decisions: decide(result) })
                }
                // Reads may repeat.
                for (const { ran, tool } of tools) if (tool.safety === "readOnly") ran.length = 0
                return result
              })
          )
          isOver = stopped.isOver
          const { state, text } = expect(stopped.out, "completed")
          assert.strictEqual(text, "done")
          assertValid(state)
        }
        assert.isAbove(left, 20)
      })
    )
  }

  it.effect("does not wait for the schema of its answer, and is resumed", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      let asked = 0
      const output = z.object({ id: z.string() }).refine(() => {
        if (++asked > 1) return true
        Deferred.doneUnsafe(begun, Effect.void)
        return new Promise<never>(() => {})
      })
      const { runtime } = yield* bind(Agent.make("a", { output }), ['{"id":"1"}'])
      const suspension: Suspension = { soon: Cancellation.make(), now: Cancellation.make() }
      const running = yield* Effect.forkChild(
        Effect.flip(runPromptStored(runtime, { prompt: "go", runId }, { suspension }))
      )
      yield* Deferred.await(begun)
      suspension.soon.cancel("closing")
      suspension.now.cancel("closing")
      assert.strictEqual((yield* Fiber.join(running))._tag, "RunSuspended")
      const done = expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual(done.output, { id: "1" })
    }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  )
})
