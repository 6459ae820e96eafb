/**
 * The announcement that a request will expire soon.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import type { RequestNotice } from "../../src/agent/RuntimeHooks.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import type { AgentHandle, StoredFault } from "../../src/dispatch/AgentHandle.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import { dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import * as Worker from "../../src/durable/Worker.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import type { ApprovalOptions } from "../../src/tool/ToolOptions.ts"
import { approve, bind, bindCreated, call, expect, only, probe, rebind } from "../helpers/Fixture.ts"

const test = (title: string, body: Effect.Effect<void, unknown, RunStore | Scope.Scope>) =>
  it.effect(title, () => Effect.provide(body, Layer.fresh(layerMemory)))

const runId = "run" as RunId

/** Collects the announcements in updates, each with its request. */
const listener = () => {
  const seen: Array<string> = []
  const onUpdate = (update: RunUpdate): void => {
    if (update._tag !== "event") return
    const { event } = unwrap(update.event)
    if (event._tag === "request.expiring") seen.push(`${event.requestId} ${event.at / minute}`)
  }
  return { seen, onUpdate }
}

const minute = 60_000

/** Yields until a condition holds. A run that announces nothing fails the test instead of blocking it. */
const until = (isSo: () => boolean) =>
  Effect.gen(function* () {
    for (let times = 0; times < 10_000 && !isSo(); times++) yield* Effect.yieldNow
    assert.isTrue(isSo(), "nothing happened")
  })

const writing = (approval: ApprovalOptions) => {
  const write = probe("write", { approval })
  return { write, agent: Agent.make("a", { tools: [write.tool] }) }
}

const script = [{ calls: [call("write", "1")] }, "done"]

/** A stored run that is held on a call which may wait for so long, with the hooks' announcements. */
const held = Effect.fnUntraced(function* (approval: ApprovalOptions) {
  const notices: Array<RequestNotice["status"]> = []
  const { agent, write } = writing(approval)
  const hooks = { onRequest: ({ status }: RequestNotice) => void notices.push(status) }
  const { model, runtime } = yield* bindCreated(agent, script, { hooks })
  const result = yield* runPromptStored(runtime, { prompt: "go", runId })
  return { model, notices, request: only(result, "approval"), runtime, write }
})

const journaled = Effect.map(
  RunStore.use((store) => store.events(runId)),
  (events) => events.filter((event) => unwrap(event).event._tag === "request.expiring").length
)

const recoverWith = (runtime: Runtime<any>, onUpdate: (update: RunUpdate) => void) =>
  Effect.map(recover([runtime], { onUpdate }), (runs) =>
    runs.map(({ error, reason, status }) => `${reason}: ${error?._tag ?? status}`)
  )

describe("a request that will expire soon", () => {
  test(
    "is announced to onUpdate and to hooks",
    Effect.gen(function* () {
      const { notices, request, runtime } = yield* held({ expiresIn: "8 hours" })
      yield* TestClock.adjust("7 hours")
      const { onUpdate, seen } = listener()
      assert.deepStrictEqual(yield* recoverWith(runtime, onUpdate), ["expiring: held"])
      assert.deepStrictEqual(seen, [`${request.requestId} 420`])
      assert.deepStrictEqual(notices, ["opened", "expiring"])
    })
  )

  test(
    "is announced by one of several workers, once",
    Effect.gen(function* () {
      const { model, notices, request, runtime } = yield* held({ expiresIn: "8 hours" })
      const other = yield* rebind(writing({ expiresIn: "8 hours" }).agent, model)
      const { onUpdate, seen } = listener()
      for (const each of [runtime, other.runtime, runtime]) {
        yield* Effect.forkChild(Worker.run([each], { onUpdate }), { startImmediately: true })
      }
      yield* TestClock.adjust("7 hours")
      yield* TestClock.adjust("30 minutes")
      assert.deepStrictEqual(seen, [`${request.requestId} 420`])
      assert.isAtMost(notices.length, 2)
      assert.strictEqual(yield* journaled, 1)
    })
  )

  test(
    "is announced although a subscriber throws",
    Effect.gen(function* () {
      const { runtime } = yield* held({ expiresIn: "8 hours" })
      yield* TestClock.adjust("7 hours")
      const fail = () => {
        throw new Error("no")
      }
      assert.deepStrictEqual(yield* recoverWith(runtime, fail), ["expiring: held"])
      assert.strictEqual(yield* journaled, 1)
    })
  )

  test(
    "is announced when a decision on another request resumes its run",
    Effect.gen(function* () {
      const { agent } = writing({ expiresIn: "8 hours" })
      const calls = [call("write", "1"), call("write", "2")]
      const { runtime } = yield* bind(agent, [{ calls }, "done"])
      const result = expect(yield* runPromptStored(runtime, { prompt: "go", runId }), "interrupted")
      const [first, second] = result.interruptions
      yield* TestClock.adjust("7 hours")
      yield* decideStored([runtime], approve(first!))
      const { onUpdate, seen } = listener()
      yield* runPromptStored(runtime, { runId }, { onUpdate })
      assert.deepStrictEqual(seen, [`${second!.requestId} 420`])
      assert.deepStrictEqual(yield* recoverWith(runtime, onUpdate), [])
    })
  )

  test(
    "is not announced after it was decided",
    Effect.gen(function* () {
      const { request, runtime } = yield* held({ expiresIn: "8 hours" })
      yield* TestClock.adjust("7 hours")
      yield* decideStored([runtime], approve(request))
      const { onUpdate, seen } = listener()
      assert.deepStrictEqual(yield* recoverWith(runtime, onUpdate), ["decided: completed"])
      assert.deepStrictEqual(seen, [])
    })
  )

  test(
    "is not announced when it has expired already",
    Effect.gen(function* () {
      const { runtime } = yield* held({ expiresIn: "8 hours" })
      yield* TestClock.adjust("9 hours")
      const { onUpdate, seen } = listener()
      assert.deepStrictEqual(yield* recoverWith(runtime, onUpdate), ["expired: completed"])
      assert.deepStrictEqual(seen, [])
    })
  )

  test(
    "of a sub-agent in the background is announced during a model call of its lead",
    Effect.gen(function* () {
      const { agent: writer } = writing({ expiresIn: "8 minutes" })
      const background = { tool: "delegate", arguments: { agent: "a", prompt: "do", background: true } }
      const model = ScriptedModel.make(({ agentPath, turn }) => {
        if (agentPath.length > 1) return script[turn - 1]!
        return turn === 1 ? { calls: [background] } : { text: "hm", delay: "5 hours" }
      })
      const lead = Agent.make("lead", { subAgents: [writer], delegation: "delegate" })
      const { onUpdate, seen } = listener()
      const { runtime } = yield* rebind(lead, model)
      const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }, { onUpdate }))
      const store = yield* RunStore
      const pending = Effect.andThen(Effect.yieldNow, store.pending())
      const [waiting] = yield* Effect.repeat(pending, { until: ({ length }) => length === 1 })
      yield* until(() => model.requests.some(({ turn }) => turn === 2))
      yield* TestClock.adjust("6 minutes")
      yield* until(() => seen.length > 0)
      assert.deepStrictEqual(seen, [`${waiting!.request.requestId} 6`])
      assert.strictEqual(yield* journaled, 1)
      yield* Fiber.interrupt(running)
    })
  )

  test(
    "of an attached sub-agent is announced by the root's worker",
    Effect.gen(function* () {
      const { agent: writer } = writing({ expiresIn: "8 minutes" })
      const notices: Array<string> = []
      const hooks = {
        onRequest: ({ agentPath, status }: RequestNotice) =>
          void notices.push(`${agentPath.join(">")} ${status}`)
      }
      const { runtime } = yield* bindCreated(
        Agent.make("lead", { subAgents: [writer] }),
        [{ calls: [{ tool: "a", arguments: { prompt: "do" } }] }, ...script],
        { hooks }
      )
      yield* runPromptStored(runtime, { prompt: "go", runId })
      yield* TestClock.adjust("6 minutes")
      const { onUpdate, seen } = listener()
      assert.deepStrictEqual(yield* recoverWith(runtime, onUpdate), ["expiring: held"])
      assert.strictEqual(seen.length, 1)
      assert.deepStrictEqual(notices, ["lead>a opened", "lead>a expiring"])
    })
  )

  for (const [where, dispatch] of [
    ["without a store", dispatchPrompt],
    ["with a store", dispatchPromptStored]
  ] as const) {
    test(
      `of a run that was dispatched ${where} is announced to the readers of its handle`,
      Effect.gen(function* () {
        const { onUpdate, seen } = listener()
        const { runtime } = yield* bind(writing({ expiresIn: "8 minutes" }).agent, script)
        const handle: AgentHandle<undefined, StoredFault> = yield* dispatch(runtime, { prompt: "go" })
        const reading = Stream.runForEach(handle.events, (update) =>
          Effect.sync(() => (update._tag === "skipped" ? undefined : onUpdate(update)))
        )
        yield* Effect.forkChild(reading, { startImmediately: true })
        only(yield* handle.wait, "approval")
        yield* TestClock.adjust("5 minutes")
        assert.deepStrictEqual(seen, [])
        yield* TestClock.adjust("62 seconds")
        yield* until(() => seen.length > 0)
        yield* TestClock.adjust("1 minute")
        assert.strictEqual(seen.length, 1)
        assert.strictEqual(handle.status.current(), "held")
        yield* TestClock.adjust("2 minutes")
        expect(yield* handle.done, "completed")
      }).pipe(Effect.scoped)
    )
  }

  it.effect("is announced without a store when its run is continued", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(writing({ expiresIn: "8 minutes" }).agent, script)
      const first = yield* runPrompt(runtime, { prompt: "go" })
      yield* TestClock.adjust("6 minutes")
      const { onUpdate, seen } = listener()
      const again = yield* runPrompt(runtime, { state: first.state }, { onUpdate })
      assert.strictEqual(seen.length, 1)
      yield* runPrompt(runtime, { state: again.state }, { onUpdate })
      assert.strictEqual(seen.length, 1)
    })
  )
})

describe("warnBefore", () => {
  test(
    "sets how long before its expiry a request is announced",
    Effect.gen(function* () {
      const { request, runtime } = yield* held({ expiresIn: "8 hours", warnBefore: "2 hours" })
      assert.strictEqual(request.warnAt, 360 * minute)
      const { onUpdate, seen } = listener()
      yield* TestClock.adjust("359 minutes")
      assert.deepStrictEqual(yield* recoverWith(runtime, onUpdate), [])
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* recoverWith(runtime, onUpdate), ["expiring: held"])
      assert.deepStrictEqual(seen, [`${request.requestId} 360`])
    })
  )

  test(
    "of a changed tool does not move the announcement of a request that is open",
    Effect.gen(function* () {
      const { model } = yield* held({ expiresIn: "8 hours", warnBefore: "2 hours" })
      const { runtime } = yield* rebind(writing({ expiresIn: "8 hours", warnBefore: "4 hours" }).agent, model)
      const { onUpdate } = listener()
      yield* TestClock.adjust("5 hours")
      assert.deepStrictEqual(yield* recoverWith(runtime, onUpdate), [])
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* recoverWith(runtime, onUpdate), ["expiring: held"])
    })
  )

  it.effect("is refused if it is as long as the request lives, or if the request does not expire", () =>
    Effect.gen(function* () {
      const refused = (approval: ApprovalOptions) =>
        Effect.map(Effect.flip(bind(writing(approval).agent, [])), ({ message }) => message)
      for (const warnBefore of ["8 hours", "9 hours", 0] as const) {
        assert.include(yield* refused({ expiresIn: "8 hours", warnBefore }), 'shorter than "expiresIn"')
      }
      assert.include(yield* refused({ warnBefore: "1 hour" }), 'no effect without "expiresIn"')
      const stays = { expiresIn: "8 hours", onExpiry: "stay", warnBefore: "1 hour" } as const
      assert.include(yield* refused(stays), "never expires")
    })
  )
})
