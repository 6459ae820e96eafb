import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../src/agent/Agent.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { decideAllStored, decideStored } from "../../src/durable/decideStored.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { approvalOf, approve, bind, call, deny, expect, only, probe } from "../helpers/Fixture.ts"

const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(title, () => Effect.provide(body, Layer.fresh(layerMemory)))

const calls = [call("write", "1"), call("write", "2"), call("write", "3")]

/** Runs that are held on three calls each. */
const held = (count = 1) =>
  Effect.gen(function* () {
    const { ran, tool } = probe("write", { approval: { expiresIn: "1 hour" } })
    const agent = Agent.make("a", { tools: [tool] })
    const answers = Array.from({ length: count }, () => ({ calls }))
    const { runtime } = yield* bind(agent, [...answers, ...Array.from({ length: count }, () => "done")])
    const runs = yield* Effect.forEach(answers, () => runPromptStored(runtime, { prompt: "go" }))
    return { ran, runtime, runs, run: runs[0]! }
  })

const decided = (runId: RunId) =>
  Effect.map(
    RunStore.use((store) => store.decisions(runId)),
    (decisions) => decisions.map(({ _tag, requestId }) => `${requestId} ${_tag}`)
  )

describe("a batch of decisions", () => {
  test(
    "passed to a resume is accepted together, and its approved calls run",
    Effect.gen(function* () {
      const { ran, run, runtime } = yield* held()
      const decisions = [
        deny(approvalOf(run, "2")),
        approve(approvalOf(run, "3")),
        approve(approvalOf(run, "1"))
      ]
      expect(yield* runPromptStored(runtime, { runId: run.runId, decisions }), "completed")
      assert.deepStrictEqual(ran, ["1", "3"])
    })
  )

  test(
    "passed to a resume is refused whole when one of them is refused: nothing is recorded and nothing runs",
    Effect.gen(function* () {
      const { ran, run, runs, runtime } = yield* held(2)
      const { runId } = run
      const [one, two, three] = ["1", "2", "3"].map((id) => approvalOf(run, id))
      yield* decideStored([runtime], deny(three!))
      const before = yield* decided(runId)
      const refused: ReadonlyArray<readonly [string, DecisionInput]> = [
        ["AlreadyDecided", approve(three!)],
        ["AlreadyDecided", deny(one!)],
        ["RequestNotFound", approve(approvalOf(runs[1]!, "1"))],
        ["ArgumentsChanged", { ...approve(two!), digest: "another" }],
        ["EditedArgumentsInvalid", approve(two!, { arguments: { id: 7 } })],
        ["DecisionNotApplicable", { _tag: "answer", requestId: two!.requestId, by: "ann", answer: "yes" }]
      ]
      for (const [tag, decision] of refused) {
        for (const decisions of [
          [approve(one!), decision],
          [decision, approve(one!)]
        ]) {
          // Of two different decisions on one request, the second is refused in either order.
          const error = yield* Effect.flip(runPromptStored(runtime, { runId, decisions }))
          assert.strictEqual(error._tag, tag)
          assert.deepStrictEqual(yield* decided(runId), before)
        }
      }
      assert.deepStrictEqual(yield* decided(runs[1]!.runId), [])
      assert.deepStrictEqual(ran, [])
      const decisions = [approve(one!), approve(two!)]
      expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
      assert.deepStrictEqual(ran, ["1", "2"])
    })
  )

  test(
    "on requests of several runs and of a sub-agent is accepted or refused whole",
    Effect.gen(function* () {
      const { run: first } = yield* held()
      const { ran, tool } = probe("write")
      const child = Agent.make("child", { tools: [tool] })
      const { runtime } = yield* bind(Agent.make("parent", { tools: [tool], subAgents: [child] }), [
        { calls: [call("write", "outer"), { tool: "child", arguments: { prompt: "go" } }] },
        { calls: [call("write", "inner")] },
        "inside",
        "done"
      ])
      const outer = yield* runPromptStored(runtime, { prompt: "go" })
      const inner = yield* runPromptStored(runtime, {
        runId: outer.runId,
        decisions: [approve(approvalOf(outer, "outer"))]
      })
      const batch = [approve(approvalOf(first, "1")), approve(approvalOf(inner, "inner"))]
      const late = yield* Effect.flip(
        decideAllStored([runtime], [...batch, approve(approvalOf(outer, "outer"))])
      )
      assert.strictEqual(late._tag, "AlreadyDecided")
      assert.deepStrictEqual(yield* decided(first.runId), [])
      const taken = yield* decideAllStored([runtime], batch)
      assert.deepStrictEqual(
        taken.map(({ requestId }) => requestId),
        batch.map(({ requestId }) => requestId)
      )
      assert.lengthOf(yield* decided(first.runId), 1)
      expect(yield* runPromptStored(runtime, { runId: outer.runId }), "completed")
      assert.deepStrictEqual(ran, ["outer", "inner"])
    })
  )

  test(
    "is refused when a request has expired",
    Effect.gen(function* () {
      const { run, runtime } = yield* held()
      yield* TestClock.adjust("1 hour")
      const decisions = [approve(approvalOf(run, "1")), approve(approvalOf(run, "2"))]
      const error = yield* Effect.flip(runPromptStored(runtime, { runId: run.runId, decisions }))
      assert.strictEqual(error._tag === "AlreadyDecided" ? error.by : error._tag, "expiry")
    })
  )

  it.effect("that comes with a prompt after the end of a run is checked whole", () =>
    Effect.gen(function* () {
      const { tool } = probe("write")
      const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [
        { calls: [call("write", "1")] },
        "done"
      ])
      const first = yield* runPrompt(runtime, { prompt: "go" })
      const approved = { ...approve(only(first, "approval")), idempotencyKey: "k" }
      const { state } = yield* runPrompt(runtime, { state: first.state, decisions: [approved] })
      const late = deny(only(first, "approval"))
      const error = yield* Effect.flip(
        runPrompt(runtime, { state, prompt: "more", decisions: [approved, late] })
      )
      assert.strictEqual(error._tag, "AlreadyDecided")
    })
  )
})
