import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunId } from "../../src/domain/Id.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import * as Mailbox from "../../src/run/Mailbox.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, type RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import {
  approve,
  assertValid,
  call,
  deny,
  expect,
  only,
  probe,
  rebind,
  results,
  safe,
  throughJson
} from "../helpers/Fixture.ts"

const runId = "run" as RunId

const usage = { inputTokens: 100, outputTokens: 0 }

type Answers = { readonly [agent: string]: ReadonlyArray<ScriptedModel.ScriptedAnswer | string> }

/** A model that answers each agent from its own script, 100 tokens each, and reports when asked to wrap up. */
const scripted = (answers: Answers) => {
  const taken = new Map<string, number>()
  return ScriptedModel.make(({ agentPath, settings }) => {
    const name = agentPath.at(-1) ?? ""
    if (settings?.toolChoice === "none") return { text: `${name} is half done.`, usage }
    const index = taken.get(name) ?? 0
    taken.set(name, index + 1)
    const answer = answers[name]?.[index] ?? `${name} is done`
    return { usage, ...(typeof answer === "string" ? { text: answer } : answer) }
  })
}

const delegate = (agent: string) => ({ tool: "delegate", arguments: { agent, prompt: "work" } })

const topUp = (request: Interruption, limit: number) =>
  ({ _tag: "topUp", requestId: request.requestId, by: "ann", limit }) as const

/** Keeps the tags of all events, and the first approval request. */
const watching = () => {
  const tags: Array<string> = []
  const opened = Deferred.makeUnsafe<Interruption>()
  const onUpdate: NonNullable<Parameters<typeof runPromptStored>[2]>["onUpdate"] = (update) => {
    if (update._tag !== "event") return
    const { event } = unwrap(update.event)
    tags.push(event._tag)
    if (event._tag === "request.opened" && event.request._tag === "approval") {
      Deferred.doneUnsafe(opened, Effect.succeed(event.request))
    }
  }
  return { tags, opened, onUpdate }
}

/** A lead with `wrapUp`, and a helper that uses up its tokens once `go` completes. */
const company = (calls: ReadonlyArray<ScriptedModel.ScriptedCall>) => {
  const go = Deferred.makeUnsafe<void>()
  const write = probe("write")
  const look = safe("look", { handler: () => Effect.as(Deferred.await(go), "seen") })
  const helper = Agent.make("helper", { tools: [look.tool], limits: { maxTurns: 50 } })
  const lead = Agent.make("lead", {
    tools: [write.tool],
    subAgents: [helper],
    delegation: "delegate",
    limits: { maxTokens: 400, wrapUp: true }
  })
  const model = scripted({
    lead: [{ calls }],
    helper: Array.from({ length: 5 }, (_, turn) => ({ calls: [call("look", String(turn))] }))
  })
  return { go, lead, model, write }
}

/** Starts a run, and approves its request while the helper works. */
const approved = Effect.fnUntraced(function* (...given: Parameters<typeof company>) {
  const { go, lead, model, write } = company(...given)
  const { runtime } = yield* rebind(lead, model)
  const { onUpdate, opened, tags } = watching()
  const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }, { onUpdate }))
  yield* decideStored([runtime], approve(yield* Deferred.await(opened)))
  yield* Deferred.succeed(go, undefined)
  return { model, runtime, tags, write, first: yield* Fiber.join(running) }
})

const test = (name: string, effect: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(name, () => Effect.provide(effect, layerMemory))

const requestsOf = ({ requests }: RunState) =>
  requests.map(({ decision, request, superseded }) =>
    [request._tag, decision?._tag, superseded?.reason].join()
  )

describe("an approved call of a run with wrapUp whose budget is used up", () => {
  test(
    "is kept behind a sub-agent until the limit request is topped up, and then runs",
    Effect.gen(function* () {
      const { first, runtime, tags, write } = yield* approved([delegate("helper"), call("write", "1")])
      const limit = only(first, "limit")
      assert.notInclude(tags, "wrapUp.asked")
      assert.deepStrictEqual(requestsOf(first.state), ["approval,approve,", "limit,,"])
      assert.deepStrictEqual(write.ran, [])
      const decisions = [topUp(limit, 5000)]
      const { state } = expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
      assert.deepStrictEqual(write.ran, ["1"])
      assert.deepStrictEqual(results(state), [
        "delegate completed: helper is done",
        "write completed: write:1"
      ])
      assertValid(state)
    })
  )

  /**
   * A run whose budget the helper uses up while `stayer` works and stops late; meanwhile the waiting call is approved, that of the lead
   * or that of the writer.
   */
  const approvedLate = Effect.fnUntraced(function* (asking: ScriptedModel.ScriptedCall) {
    const stopping = yield* Deferred.make<void>()
    const release = yield* Deferred.make<void>()
    const begun = yield* Deferred.make<void>()
    const stubborn = safe("stubborn", {
      handler: () =>
        Effect.andThen(Deferred.succeed(begun, undefined), Effect.never).pipe(
          Effect.onInterrupt(() =>
            Effect.andThen(Deferred.succeed(stopping, undefined), Deferred.await(release))
          )
        )
    })
    const write = probe("write")
    const { onUpdate, opened, tags } = watching()
    const look = safe("look", {
      handler: () => Effect.as(Effect.andThen(Deferred.await(begun), Deferred.await(opened)), "seen")
    })
    const lead = Agent.make("lead", {
      tools: [write.tool],
      subAgents: [
        Agent.make("helper", { tools: [look.tool] }),
        Agent.make("stayer", { tools: [stubborn.tool] }),
        Agent.make("writer", { tools: [write.tool] })
      ],
      delegation: "delegate",
      limits: { maxTokens: 500, wrapUp: true }
    })
    const model = scripted({
      lead: [{ calls: [delegate("stayer"), delegate("helper"), asking] }],
      stayer: [{ calls: [call("stubborn", "1")] }],
      helper: Array.from({ length: 5 }, (_, turn) => ({ calls: [call("look", String(turn))] })),
      writer: [{ calls: [call("write", "1")] }]
    })
    const { runtime } = yield* rebind(lead, model, { cancelGrace: "1 minute" })
    const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }, { onUpdate }))
    const request = yield* Deferred.await(opened)
    yield* Deferred.await(stopping)
    yield* decideStored([runtime], approve(request))
    yield* Deferred.succeed(release, undefined)
    return { first: yield* Fiber.join(running), runtime, tags, write }
  })

  const stopped = "was stopped: the tokens budget of lead is used up."

  test(
    "runs when it was approved while the sub-agents before it were stopping",
    Effect.gen(function* () {
      const { first, tags, write } = yield* approvedLate(call("write", "1"))
      only(first, "limit")
      assert.deepStrictEqual(write.ran, ["1"])
      assert.isBelow(tags.indexOf("request.decided"), tags.indexOf("wrapUp.asked"))
      assert.deepStrictEqual(results(first.state), [
        `delegate cancelled: stayer ${stopped}`,
        `delegate cancelled: helper ${stopped}`,
        "write completed: write:1"
      ])
      assertValid(first.state)
    })
  )

  test(
    "is kept in a sub-agent, which is not stopped, and runs after a top-up",
    Effect.gen(function* () {
      const { first, runtime, tags, write } = yield* approvedLate(delegate("writer"))
      assert.notInclude(tags, "wrapUp.asked")
      assert.deepStrictEqual(write.ran, [])
      const decisions = [topUp(only(first, "limit"), 5000)]
      const { state } = expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
      assert.deepStrictEqual(write.ran, ["1"])
      assert.deepStrictEqual(results(state), [
        `delegate cancelled: stayer ${stopped}`,
        `delegate cancelled: helper ${stopped}`,
        "delegate completed: writer is done"
      ])
    })
  )

  test(
    "is kept when the top-up is denied, and runs when the failed run continues with larger limits",
    Effect.gen(function* () {
      const { first, runtime, write } = yield* approved([delegate("helper"), call("write", "1")])
      const decisions = [deny(only(first, "limit"))]
      const failed = expect(yield* runPromptStored(runtime, { runId, decisions }), "error")
      assert.strictEqual(failed.error._tag, "BudgetExceeded")
      expect(yield* runPromptStored(runtime, { runId, limits: { maxTokens: 5000 } }), "completed")
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )

  it.effect("is kept without a store, and runs when the failed run continues with larger limits", () =>
    Effect.gen(function* () {
      const { go, lead, model, write } = company([delegate("helper"), call("write", "1")])
      const { runtime } = yield* rebind(lead, model)
      const { onUpdate, opened } = watching()
      const mailbox = Mailbox.make()
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }, { onUpdate, mailbox }))
      yield* mailbox.decide(approve(yield* Deferred.await(opened)))
      yield* Deferred.succeed(go, undefined)
      const failed = expect(yield* Fiber.join(running), "error")
      assert.strictEqual(failed.error._tag, "BudgetExceeded")
      const state = throughJson(failed.state)
      expect(yield* runPrompt(runtime, { state, limits: { maxTokens: 5000 } }), "completed")
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )
})

describe("an approved call of a run whose time is used up", () => {
  /** A lead that reads for longer than its time allows, and then writes. */
  const late = (options: Agent.AgentOptions<any, undefined> = {}) => {
    const write = probe("write")
    const look = probe("look", { needsApproval: false, handler: () => Effect.sleep("1 minute") })
    const lead = Agent.make("lead", {
      tools: [look.tool, write.tool],
      limits: { maxWallMs: 10_000 },
      ...options
    })
    const model = scripted({ lead: [{ calls: [call("look", "1"), call("write", "1")] }] })
    return { lead, model, write }
  }

  /** Approves the request of a run while it reads, until its time is used up. */
  const approvedInTime = Effect.fnUntraced(function* (wrapUp: boolean) {
    const { lead, model, write } = late({ limits: { maxWallMs: 10_000, wrapUp } })
    const { runtime } = yield* rebind(lead, model)
    const { onUpdate, opened, tags } = watching()
    const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }, { onUpdate }))
    yield* decideStored([runtime], approve(yield* Deferred.await(opened)))
    yield* TestClock.adjust("1 hour")
    return { first: yield* Fiber.join(running), runtime, tags, write }
  })

  for (const wrapUp of [false, true]) {
    test(
      `runs after a top-up${wrapUp ? ", also with wrapUp" : ""}`,
      Effect.gen(function* () {
        const { first, runtime, tags, write } = yield* approvedInTime(wrapUp)
        const limit = only(first, "limit")
        assert.strictEqual(limit.budget, "wallTime")
        assert.notInclude(tags, "wrapUp.asked")
        assert.deepStrictEqual(write.ran, [])
        const decisions = [topUp(limit, 3_600_000)]
        expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
        assert.deepStrictEqual(write.ran, ["1"])
      })
    )
  }

  test(
    "does not run when the top-up is denied, and runs when the failed run continues with larger limits",
    Effect.gen(function* () {
      const { first, runtime, write } = yield* approvedInTime(false)
      const failed = expect(
        yield* runPromptStored(runtime, { runId, decisions: [deny(only(first, "limit"))] }),
        "error"
      )
      assert.strictEqual(failed.error._tag, "BudgetExceeded")
      assert.deepStrictEqual(write.ran, [])
      expect(yield* runPromptStored(runtime, { runId, limits: { maxWallMs: 3_600_000 } }), "completed")
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )

  it.effect("is kept without a store, and runs when the failed run continues with larger limits", () =>
    Effect.gen(function* () {
      const { lead, model, write } = late()
      const { runtime } = yield* rebind(lead, model)
      const { onUpdate, opened } = watching()
      const mailbox = Mailbox.make()
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }, { onUpdate, mailbox }))
      yield* mailbox.decide(approve(yield* Deferred.await(opened)))
      yield* TestClock.adjust("1 hour")
      const failed = expect(yield* Fiber.join(running), "error")
      assert.strictEqual(failed.error._tag, "BudgetExceeded")
      const state = throughJson(failed.state)
      expect(yield* runPrompt(runtime, { state, limits: { maxWallMs: 3_600_000 } }), "completed")
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )

  test(
    "waits in a sub-agent for the time of the run above it",
    Effect.gen(function* () {
      const { lead: writer, model: _, write } = late({ limits: {} })
      const lead = Agent.make("lead", {
        subAgents: [writer],
        delegation: "delegate",
        limits: { maxWallMs: 10_000 }
      })
      const top = Agent.make("top", { subAgents: [lead], delegation: "delegate" })
      const model = ScriptedModel.make(({ agentPath, turn }) => {
        if (turn > 1) return "done"
        if (agentPath.length < 3) return { calls: [delegate("lead")] }
        return { calls: [call("look", "1"), call("write", "1")] }
      })
      const { runtime } = yield* rebind(top, model)
      const { onUpdate, opened } = watching()
      const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }, { onUpdate }))
      yield* decideStored([runtime], approve(yield* Deferred.await(opened)))
      yield* TestClock.adjust("1 hour")
      const limit = only(yield* Fiber.join(running), "limit")
      assert.deepStrictEqual([limit.budget, limit.agentPath], ["wallTime", ["top", "lead"]])
      const decisions = [topUp(limit, 3_600_000)]
      expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )
})
