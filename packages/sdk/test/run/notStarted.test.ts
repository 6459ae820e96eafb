/**
 * A body whose start was committed and which did not begin: it is known not to have run.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import { evolveAll } from "../../src/domain/evolve.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { unwrap, type RunEvent } from "../../src/domain/RunEvent.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as RunChecker from "../../src/testing/RunChecker.ts"
import {
  assertValid,
  bind,
  call,
  expect,
  only,
  probe,
  rebind,
  results,
  safe,
  throughJson
} from "../helpers/Fixture.ts"

const runId = "run" as RunId
const open = { needsApproval: false }

const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(title, () => Effect.provide(body, Layer.fresh(layerMemory)))

/** A store in which `happens` runs during the commit that starts a body. */
const during = (happens: (store: RunStore["Service"]) => Effect.Effect<unknown, unknown>) =>
  Effect.map(RunStore, (store) =>
    RunStore.of({
      ...store,
      append: (options) =>
        options.events.some((event) => unwrap(event).event._tag === "tool.started")
          ? Effect.andThen(Effect.orDie(happens(store)), store.append(options))
          : store.append(options)
    })
  )

const cancelling = during((store) => store.requestCancel(runId, "enough"))

const states = (calls: ReadonlyArray<{ readonly tool: string; readonly state: string }>) =>
  calls.map(({ tool, state }) => `${tool} ${state}`)

const checkJournal = (events: ReadonlyArray<RunEvent>) => {
  const state = evolveAll(undefined, events)!
  const { revision, status } = state
  assert.deepStrictEqual(RunChecker.check({ journals: [{ runId, events, revision, status }] }), [])
  assert.deepStrictEqual(throughJson(state), state)
}

describe("a body cancelled during the commit of its start", () => {
  test(
    "has not run, and is reported as notStarted",
    Effect.gen(function* () {
      const write = probe("write", open)
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [call("write", "1")] }
      ])
      const store = yield* cancelling
      const running = runPromptStored(runtime, { runId, prompt: "go" })
      const result = expect(yield* Effect.provideService(running, RunStore, store), "cancelled")
      assert.deepStrictEqual(write.ran, [])
      assert.deepStrictEqual(states(result.calls), ["write notStarted"])
      assert.deepStrictEqual(results(result.state), [
        "write cancelled: This call was cancelled before it ran."
      ])
      assertValid(result.state)
      checkJournal(yield* store.events(runId))
    })
  )

  test(
    "is reported as notStarted in a batch of reads",
    Effect.gen(function* () {
      const read = safe("read")
      const { runtime } = yield* bind(Agent.make("a", { tools: [read.tool] }), [
        { calls: [call("read", "1"), call("read", "2")] }
      ])
      const running = runPromptStored(runtime, { runId, prompt: "go" })
      const result = expect(yield* Effect.provideService(running, RunStore, yield* cancelling), "cancelled")
      assert.deepStrictEqual(read.ran, [])
      assert.deepStrictEqual(states(result.calls), ["read notStarted", "read notStarted"])
    })
  )

  test(
    "is reported as notStarted in a sub-agent",
    Effect.gen(function* () {
      const write = probe("write", open)
      const child = Agent.make("child", { tools: [write.tool] })
      const { runtime } = yield* bind(Agent.make("parent", { subAgents: [child] }), [
        { calls: [{ tool: "child", arguments: { prompt: "do" } }] },
        { calls: [call("write", "1")] }
      ])
      const store = yield* cancelling
      const running = runPromptStored(runtime, { runId, prompt: "go" })
      const result = expect(yield* Effect.provideService(running, RunStore, store), "cancelled")
      assert.deepStrictEqual(write.ran, [])
      assert.deepStrictEqual(states(result.calls), ["child aborted", "write notStarted"])
      checkJournal(yield* store.events(runId))
    })
  )

  test(
    "stays in doubt when the start repeats an earlier one by decision",
    Effect.gen(function* () {
      const write = probe("write", open)
      const agent = Agent.make("a", { tools: [write.tool] })
      const { model, runtime } = yield* bind(agent, [{ calls: [call("write", "1")] }, "done"])
      const own = yield* RunStore
      // The process dies before it can record that the body did not begin.
      const dying = RunStore.of({
        ...own,
        append: (options) =>
          options.events.some(({ _tag }) => _tag === "tool.started")
            ? Effect.andThen(own.append(options), Effect.die("killed"))
            : own.append(options)
      })
      yield* Effect.exit(
        Effect.provideService(runPromptStored(runtime, { runId, prompt: "go" }), RunStore, dying)
      )
      const next = yield* rebind(agent, model)
      const { requestId } = only(yield* runPromptStored(next.runtime, { runId }), "inDoubt")
      const again = runPromptStored(next.runtime, {
        runId,
        decisions: [{ _tag: "retry", requestId, by: "ann" }]
      })
      const result = expect(yield* Effect.provideService(again, RunStore, yield* cancelling), "cancelled")
      assert.deepStrictEqual(write.ran, [])
      assert.deepStrictEqual(states(result.calls), ["write inDoubt"])
    })
  )
})

describe("a body that did not begin because its run was suspended", () => {
  test(
    "runs when the run is resumed, without a request",
    Effect.gen(function* () {
      const write = probe("write", open)
      const agent = Agent.make("a", { tools: [write.tool] })
      const { model, runtime } = yield* bind(agent, [{ calls: [call("write", "1")] }, "done"])
      const suspension = { soon: Cancellation.make(), now: Cancellation.make() }
      const store = yield* during(() =>
        Effect.sync(() => {
          suspension.soon.cancel("closing")
          suspension.now.cancel("closing")
        })
      )
      const running = runPromptStored(runtime, { runId, prompt: "go" }, { suspension })
      const left = yield* Effect.flip(Effect.provideService(running, RunStore, store))
      assert.strictEqual(left._tag, "RunSuspended")
      assert.deepStrictEqual(write.ran, [])
      const next = yield* rebind(agent, model)
      const { state } = expect(yield* runPromptStored(next.runtime, { runId }), "completed")
      assert.deepStrictEqual(write.ran, ["1"])
      assert.strictEqual(write.contexts[0]?.attempt, 1)
      assert.deepStrictEqual(results(state), ["write completed: write:1"])
      checkJournal(yield* store.events(runId))
    })
  )
})
