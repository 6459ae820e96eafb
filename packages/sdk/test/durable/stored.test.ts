import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import type { RunId, SessionId } from "../../src/domain/Id.ts"
import { messages } from "../../src/domain/RunState.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { revokeGrant } from "../../src/durable/revokeGrant.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { LoginRequired } from "../../src/model/ModelError.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { LeaseLost, RunStoreError, StorageFull } from "../../src/store/RunStoreError.ts"
import {
  approvalOf,
  approve,
  assertValid,
  bind,
  call,
  deny,
  edit,
  expect,
  only,
  probe,
  rebind,
  results,
  safe,
  transcript,
  type watch
} from "../helpers/Fixture.ts"

const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(title, () => Effect.provide(body, Layer.fresh(layerMemory)))

const open = { needsApproval: false }
const tagsIn = (runId: RunId) =>
  Effect.map(
    RunStore.use((store) => store.events(runId)),
    (events) => events.map(({ _tag }) => _tag)
  )

/** A run held on `write 1`. */
const held = (...script: Parameters<typeof bind>[1]) =>
  Effect.gen(function* () {
    const write = probe("write")
    const agent = Agent.make("a", { tools: [write.tool] })
    const { runtime, model } = yield* bind(agent, [{ calls: [call("write", "1")] }, ...script])
    const result = yield* runPromptStored(runtime, { prompt: "go" })
    return { write, agent, runtime, model, result, runId: result.runId, request: only(result, "approval") }
  })

describe("the journal of a run", () => {
  test(
    "contains the user's message before the model call",
    Effect.gen(function* () {
      const store = yield* RunStore
      const { runtime } = yield* bind(Agent.make("a"), [
        ({ runId }) => {
          const { events, head } = Effect.runSync(store.load(runId))
          assert.deepInclude(events[0], { _tag: "run.started", prompt: [{ _tag: "text", text: "go" }] })
          assert.strictEqual(head.status, "running")
          return "done"
        }
      ])
      const { state } = expect(yield* runPromptStored(runtime, { prompt: "go" }), "completed")
      assert.strictEqual(messages(state)[0]?.sequence, 0)
    })
  )

  test(
    "contains a call's start before its body runs, and its result before the next start",
    Effect.gen(function* () {
      const seen: Array<ReadonlyArray<string>> = []
      const write = probe("write", {
        ...open,
        handler: (_, { runId }) =>
          Effect.map(tagsIn(runId), (tags) => {
            seen.push(tags.slice(-2))
            return "ok"
          })
      })
      const agent = Agent.make("a", { tools: [write.tool] })
      const { runtime } = yield* bind(agent, [{ calls: [call("write", "1"), call("write", "2")] }, "done"])
      expect(yield* runPromptStored(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(seen, [
        ["tool.classified", "tool.started"],
        ["tool.completed", "tool.started"]
      ])
    })
  )

  test(
    "contains requests, holds and ends before they are published",
    Effect.gen(function* () {
      const store = yield* RunStore
      const write = probe("write")
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [call("write", "1")] },
        "done"
      ])
      const told: Array<unknown> = []
      const onUpdate: ReturnType<typeof watch>["onUpdate"] = (update) => {
        if (update._tag !== "event" || !/^(run|request)\./.test(update.event._tag)) return
        const { revision, status } = Effect.runSync(store.head(update.runId))
        told.push([update.event._tag, revision >= update.revision, status])
      }
      const result = yield* runPromptStored(runtime, { prompt: "go" }, { onUpdate })
      const decisions = [approve(only(result, "approval"))]
      yield* runPromptStored(runtime, { runId: result.runId, decisions }, { onUpdate })
      assert.deepStrictEqual(told, [
        ["run.started", true, "running"],
        ["request.opened", true, "held"],
        ["run.held", true, "held"],
        ["request.decided", true, "running"],
        ["run.resumed", true, "running"],
        ["run.completed", true, "completed"]
      ])
    })
  )

  test(
    "contains no deltas, and folds to the returned state",
    Effect.gen(function* () {
      const { runtime, result, runId, request } = yield* held({ text: "abcdef", chunkSize: 1 })
      assert.deepStrictEqual(yield* loadState(runId), result.state)
      const done = yield* runPromptStored(runtime, { runId, decisions: [approve(request)] })
      assert.deepStrictEqual(yield* loadState(runId), done.state)
      assert.deepStrictEqual(yield* tagsIn(runId), [
        "run.started",
        "model.answered",
        "tool.classified",
        "request.opened",
        "run.held",
        "request.decided",
        "run.resumed",
        "tool.started",
        "tool.completed",
        "model.answered",
        "run.completed"
      ])
    })
  )
})

describe("a stored run", () => {
  test(
    "can be given an id, and is not found under another",
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), ["done"])
      const runId = "nightly-2026-11-21" as RunId
      assert.strictEqual((yield* runPromptStored(runtime, { runId, prompt: "go" })).runId, runId)
      const other = "other" as RunId
      const error = yield* Effect.flip(runPromptStored(runtime, { runId: other }))
      assert.deepInclude({ ...error }, { _tag: "RunNotFound", runId: other })
    })
  )

  test(
    "starts once per id: a repeated start fails with RunExists",
    Effect.gen(function* () {
      const { runtime, model } = yield* bind(Agent.make("a"), ["done", "twice"])
      const runId = "charge-42" as RunId
      yield* runPromptStored(runtime, { runId, prompt: "go" })
      const error = yield* Effect.flip(runPromptStored(runtime, { runId, prompt: "go" }))
      assert.deepInclude({ ...error }, { _tag: "RunExists", runId, status: "completed" })
      assert.strictEqual(model.requests.length, 1)
    })
  )

  test(
    "refuses an invalid id",
    Effect.gen(function* () {
      const { runtime, model } = yield* bind(Agent.make("a"), ["done"])
      for (const id of ["", "a b", "../up", "x".repeat(129), "quote'"]) {
        const error = yield* Effect.flip(runPromptStored(runtime, { runId: id as RunId, prompt: "go" }))
        assert.deepInclude({ ...error }, { _tag: "IdInvalid", what: "runId" })
      }
      assert.strictEqual(model.requests.length, 0)
    })
  )

  test(
    "returns its result again after its end, and does nothing",
    Effect.gen(function* () {
      const { runtime, runId, request, write, model } = yield* held("done")
      yield* runPromptStored(runtime, { runId, decisions: [approve(request)] })
      const before = yield* tagsIn(runId)
      assert.strictEqual(expect(yield* runPromptStored(runtime, { runId }), "completed").text, "done")
      assert.deepStrictEqual(yield* tagsIn(runId), before)
      assert.deepStrictEqual(write.ran, ["1"])
      assert.strictEqual(model.requests.length, 2)
    })
  )

  test(
    "returns its open request again while it is held, and writes nothing",
    Effect.gen(function* () {
      const { runtime, runId, request } = yield* held("done")
      const before = yield* tagsIn(runId)
      const again = yield* runPromptStored(runtime, { runId })
      assert.strictEqual(only(again, "approval").requestId, request.requestId)
      assert.deepStrictEqual(yield* tagsIn(runId), before)
    })
  )

  test(
    "is followed by a new run of its session when it gets a prompt after its end",
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), ["one", "two", "three"])
      const sessionId = "talk" as SessionId
      const first = yield* runPromptStored(runtime, { prompt: "1", sessionId })
      const second = yield* runPromptStored(runtime, { runId: first.runId, message: "2" })
      const third = expect(yield* runPromptStored(runtime, { sessionId, prompt: "3" }), "completed")
      assert.strictEqual(new Set([first.runId, second.runId, third.runId]).size, 3)
      assert.deepStrictEqual(transcript(third.state), [
        "user: 1",
        "assistant: one",
        "user: 2",
        "assistant: two",
        "user: 3",
        "assistant: three"
      ])
      assert.deepStrictEqual(yield* loadState(third.runId), third.state)
      assert.strictEqual(third.state.sessionUsage.requests, 3)
    })
  )

  test(
    "keeps its session busy until it ends",
    Effect.gen(function* () {
      const { runtime, runId, result, request } = yield* held("done", "next")
      const { sessionId } = result
      const error = yield* Effect.flip(runPromptStored(runtime, { sessionId, prompt: "more" }))
      assert.deepInclude({ ...error }, { _tag: "SessionBusy", sessionId, runId, status: "held" })
      yield* runPromptStored(runtime, { runId, decisions: [approve(request)] })
      expect(yield* runPromptStored(runtime, { sessionId, prompt: "more" }), "completed")
    })
  )

  test(
    "keeps its lease while a body runs",
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const write = probe("write", {
        ...open,
        handler: () =>
          Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Effect.sleep("5 minutes")), "ok")
      })
      const agent = Agent.make("a", { tools: [write.tool] })
      const { runtime, model } = yield* bind(agent, [{ calls: [call("write", "1")] }, "done"])
      const { runtime: other } = yield* rebind(agent, model)
      const runId = "long" as RunId
      const fiber = yield* Effect.forkChild(runPromptStored(runtime, { runId, prompt: "go" }))
      yield* Deferred.await(begun)
      for (let minute = 1; minute < 5; minute++) {
        yield* TestClock.adjust("1 minute")
        const error = yield* Effect.flip(runPromptStored(other, { runId }))
        assert.strictEqual(error._tag, "RunBusy")
      }
      yield* TestClock.adjust("1 minute")
      expect(yield* Fiber.join(fiber), "completed")
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )

  test(
    "accepts a decision while it works, without another hold",
    Effect.gen(function* () {
      const store = yield* RunStore
      const requests: Array<ReturnType<typeof approvalOf>> = []
      const write = probe("write", {
        handler: ({ id }) =>
          id === "1" ? Effect.as(store.decide(approve(requests[1]!)), "ok") : Effect.succeed("ok")
      })
      const agent = Agent.make("a", { tools: [write.tool] })
      const { runtime } = yield* bind(agent, [{ calls: [call("write", "1"), call("write", "2")] }, "done"])
      const result = yield* runPromptStored(runtime, { prompt: "go" })
      requests.push(approvalOf(result, "1"), approvalOf(result, "2"))
      const decisions = [approve(requests[0]!)]
      expect(yield* runPromptStored(runtime, { runId: result.runId, decisions }), "completed")
      assert.deepStrictEqual(write.ran, ["1", "2"])
      assert.strictEqual((yield* tagsIn(result.runId)).filter((tag) => tag === "run.held").length, 1)
    })
  )

  test(
    "opens a login request, and resumes after the login",
    Effect.gen(function* () {
      const error = new LoginRequired({ description: "the token has expired", profile: "work" })
      const { runtime } = yield* bind(Agent.make("a"), [{ error }, "done", { error }])
      const result = yield* runPromptStored(runtime, { prompt: "go" })
      const { requestId, profile } = only(result, "login")
      assert.strictEqual(profile, "work")
      const { runId } = result
      const decisions = [{ _tag: "retry", requestId, by: "ann" } as const]
      expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
      const again = yield* runPromptStored(runtime, { runId, message: "more" })
      const refused = [deny(only(again, "login"))]
      expect(yield* runPromptStored(runtime, { runId: again.runId, decisions: refused }), "cancelled")
    })
  )

  test(
    "fails when a top-up is denied, and resumes with a larger budget",
    Effect.gen(function* () {
      const agent = Agent.make("a", { tools: [safe().tool], limits: { maxTurns: 1 } })
      const { runtime } = yield* bind(agent, [{ calls: [call("safe", "1")] }, "done"])
      const result = yield* runPromptStored(runtime, { prompt: "go" })
      const { runId } = result
      const decisions = [deny(only(result, "limit"))]
      const failed = expect(yield* runPromptStored(runtime, { runId, decisions }), "error")
      assert.deepInclude({ ...failed.error }, { _tag: "BudgetExceeded", budget: "turns" })
      expect(yield* runPromptStored(runtime, { runId, limits: { maxTurns: 2 } }), "completed")
    })
  )

  test(
    "supersedes its limit request when its limits are changed",
    Effect.gen(function* () {
      const store = yield* RunStore
      const write = probe("write")
      const agent = Agent.make("a", { tools: [safe().tool, write.tool], limits: { maxTurns: 1 } })
      const { runtime } = yield* bind(agent, [
        { calls: [call("safe", "1")] },
        { calls: [call("write", "2")] },
        "done"
      ])
      const result = yield* runPromptStored(runtime, { prompt: "go" })
      const { requestId } = only(result, "limit")
      const { runId } = result
      const after = yield* runPromptStored(runtime, { runId, limits: { maxTurns: 5 } })
      assert.deepStrictEqual(
        (yield* store.pending({ runId })).map(({ request }) => request._tag),
        ["approval"]
      )
      const late = yield* Effect.flip(store.decide({ _tag: "topUp", requestId, by: "ann", limit: 9 }))
      assert.strictEqual(late._tag, "RequestSuperseded")
      expect(
        yield* runPromptStored(runtime, { runId, decisions: [approve(only(after, "approval"))] }),
        "completed"
      )
    })
  )

  test(
    "supersedes the requests of a stopped sub-agent",
    Effect.gen(function* () {
      const store = yield* RunStore
      const write = probe("write")
      const child = Agent.make("child", { tools: [write.tool] })
      const { runtime } = yield* bind(Agent.make("parent", { tools: [write.tool], subAgents: [child] }), [
        { calls: [{ tool: "child", arguments: { prompt: "do" } }] },
        { calls: [call("write", "1"), call("write", "2")] },
        { calls: [call("write", "3")] },
        "done"
      ])
      const result = yield* runPromptStored(runtime, { prompt: "go" })
      const { runId } = result
      const decisions = [deny(approvalOf(result, "1"), { then: "stop" })]
      const after = yield* runPromptStored(runtime, { runId, decisions })
      assert.deepStrictEqual(only(after, "approval").arguments, { id: "3" })
      assert.strictEqual((yield* store.pending({ runId })).length, 1)
      const late = yield* Effect.flip(store.decide(approve(approvalOf(result, "2"))))
      assert.strictEqual(late._tag, "RequestSuperseded")
      expect(
        yield* runPromptStored(runtime, { runId, decisions: [approve(approvalOf(after, "3"))] }),
        "completed"
      )
      assert.deepStrictEqual(write.ran, ["3"])
    })
  )
})

describe("decideStored", () => {
  test(
    "rejects edited arguments that do not match the tool's schema, and the request stays open",
    Effect.gen(function* () {
      const { runtime, runId, request } = yield* held("done")
      const error = yield* Effect.flip(decideStored([runtime], approve(request, { arguments: { id: 1 } })))
      assert.strictEqual(error._tag, "EditedArgumentsInvalid")
      const decision = yield* decideStored([runtime], approve(request, { arguments: { id: "2" } }))
      assert.deepInclude(decision, { _tag: "approve", by: "ann" })
      const { state } = expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual(results(state), [`write completed: ${edit({ id: "1" }, { id: "2" })}write:2`])
    })
  )
})

describe("a grant of a stored run", () => {
  test(
    "applies to no call after its revocation",
    Effect.gen(function* () {
      const { runtime, runId, request, write } = yield* held({ calls: [call("write", "2")] }, "done", {
        calls: [call("write", "3")]
      })
      const grant = { scope: "session", arguments: {} } as const
      const done = yield* runPromptStored(runtime, { runId, decisions: [approve(request, { grant })] })
      expect(done, "completed")
      yield* revokeGrant(runId, done.state.grants[0]!.id, "bob")
      assert.deepInclude((yield* loadState(runId)).grants[0]?.revoked, { by: "bob" })
      only(yield* runPromptStored(runtime, { runId, message: "more" }), "approval")
      assert.deepStrictEqual(write.ran, ["1", "2"])
    })
  )
})

describe("the cancellation of a stored run", () => {
  test(
    "ends a held run with its calls and requests, for the first reason",
    Effect.gen(function* () {
      const { runtime, runId, request, write } = yield* held("done")
      yield* cancelRun(runId, "not needed")
      yield* cancelRun(runId, "really not")
      const result = expect(yield* runPromptStored(runtime, { runId }), "cancelled")
      assert.strictEqual(result.reason, "not needed")
      assert.deepStrictEqual(
        result.calls.map(({ state }) => state),
        ["notStarted"]
      )
      const store = yield* RunStore
      assert.deepStrictEqual(yield* store.pending(), [])
      assert.strictEqual((yield* Effect.flip(store.decide(approve(request))))._tag, "RequestSuperseded")
      const next = expect(yield* runPromptStored(runtime, { runId, message: "something else" }), "completed")
      assertValid(next.state)
      assert.deepStrictEqual(write.ran, [])
    })
  )

  test(
    "interrupts a run that another fiber drives",
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const write = probe("write", {
        ...open,
        handler: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
      })
      const agent = Agent.make("a", { tools: [write.tool] })
      const { runtime } = yield* bind(agent, [{ calls: [call("write", "1")] }])
      const runId = "long" as RunId
      const fiber = yield* Effect.forkChild(runPromptStored(runtime, { runId, prompt: "go" }))
      yield* Deferred.await(begun)
      yield* cancelRun(runId, "first")
      yield* cancelRun(runId, "second")
      yield* TestClock.adjust("5 seconds")
      const result = expect(yield* Fiber.join(fiber), "cancelled")
      assert.strictEqual(result.reason, "first")
      assert.deepStrictEqual(
        result.calls.map(({ state }) => state),
        ["inDoubt"]
      )
      assert.strictEqual((yield* RunStore.use((store) => store.head(runId))).status, "cancelled")
    })
  )

  test(
    "takes effect at the next step of a working run",
    Effect.gen(function* () {
      const write = probe("write", {
        ...open,
        handler: (_, { runId }) => Effect.as(cancelRun(runId, "enough"), "ok")
      })
      const agent = Agent.make("a", { tools: [write.tool] })
      const { runtime, model } = yield* bind(agent, [{ calls: [call("write", "1"), call("write", "2")] }])
      const { state, calls, reason } = expect(yield* runPromptStored(runtime, { prompt: "go" }), "cancelled")
      assert.strictEqual(reason, "enough")
      assert.deepStrictEqual(
        calls.map(({ state }) => state),
        ["finished", "notStarted"]
      )
      assert.deepStrictEqual(write.ran, ["1"])
      assert.strictEqual(model.requests.length, 1)
      assertValid(state)
    })
  )

  test(
    "does not change an ended run",
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), ["done"])
      const { runId } = yield* runPromptStored(runtime, { prompt: "go" })
      yield* cancelRun(runId, "too late")
      expect(yield* runPromptStored(runtime, { runId }), "completed")
    })
  )

  test(
    "by a token or an interruption is stored, and releases the lease",
    Effect.gen(function* () {
      const store = yield* RunStore
      for (const how of ["token", "interrupt"]) {
        const begun = yield* Deferred.make<void>()
        const read = safe("read", {
          handler: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
        })
        const { runtime } = yield* bind(Agent.make("a", { tools: [read.tool] }), [
          { calls: [call("read", "1")] },
          "done"
        ])
        const token = Cancellation.make()
        const runId = `run-${how}` as RunId
        const fiber = yield* Effect.forkChild(
          runPromptStored(runtime, { runId, prompt: "go" }, { cancellation: token })
        )
        yield* Deferred.await(begun)
        if (how === "token") token.cancel("enough")
        else yield* Fiber.interrupt(fiber)
        yield* Fiber.await(fiber)
        const head = yield* store.head(runId)
        assert.strictEqual(head.status, "cancelled", how)
        assert.notProperty(head, "lease")
        const { state } = expect(yield* runPromptStored(runtime, { runId, message: "go on" }), "completed")
        assertValid(state)
      }
    })
  )
})

describe("a store that fails", () => {
  /** The store, with an `append` that can fail. */
  const failing = (fails: (tags: ReadonlyArray<string>) => LeaseLost | RunStoreError | undefined) =>
    Effect.map(RunStore, (store) =>
      RunStore.of({
        ...store,
        append: (options) => {
          const error = fails(options.events.map(({ _tag }) => _tag))
          return error === undefined ? store.append(options) : Effect.fail(error)
        }
      })
    )
  const full = new RunStoreError({ operation: "append", reason: new StorageFull({ detail: "0 bytes free" }) })

  test(
    "before a body starts keeps it from running, and the run can be resumed",
    Effect.gen(function* () {
      const { runtime, runId, request, write } = yield* held("done")
      const store = yield* failing((tags) => (tags.includes("tool.started") ? full : undefined))
      const error = yield* Effect.flip(
        Effect.provideService(
          runPromptStored(runtime, { runId, decisions: [approve(request)] }),
          RunStore,
          store
        )
      )
      assert.strictEqual(error._tag, "RunStoreError")
      assert.deepStrictEqual(write.ran, [])
      expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )

  test(
    "after a body ran leaves its call in doubt, and it does not run again",
    Effect.gen(function* () {
      const { runtime, runId, request, write } = yield* held("done")
      const store = yield* failing((tags) => (tags.includes("tool.completed") ? full : undefined))
      yield* Effect.flip(
        Effect.provideService(
          runPromptStored(runtime, { runId, decisions: [approve(request)] }),
          RunStore,
          store
        )
      )
      const doubt = only(yield* runPromptStored(runtime, { runId }), "inDoubt")
      assert.deepStrictEqual(write.ran, ["1"])
      const { requestId } = doubt
      const decisions = [{ _tag: "supply", requestId, by: "ann", result: "it happened" } as const]
      const { state } = expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
      assert.deepStrictEqual(results(state), ["write supplied: it happened"])
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )

  test(
    "with LeaseLost stops the loop before its next body",
    Effect.gen(function* () {
      const { runtime, runId, request, write } = yield* held("done")
      const store = yield* failing((tags) =>
        tags.includes("tool.started") ? new LeaseLost({ runId, owner: "me" }) : undefined
      )
      const error = yield* Effect.flip(
        Effect.provideService(
          runPromptStored(runtime, { runId, decisions: [approve(request)] }),
          RunStore,
          store
        )
      )
      assert.strictEqual(error._tag, "LeaseLost")
      assert.deepStrictEqual(write.ran, [])
    })
  )

  test(
    "to renew the lease interrupts the running body, and nothing more is written, even if the store would take it",
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const read = safe("read", {
        handler: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [read.tool] }), [
        { calls: [call("read", "1")] }
      ])
      const runId = "taken" as RunId
      const own = yield* RunStore
      // A clock that is set back brings the lease into force again.
      const store = RunStore.of({
        ...own,
        renew: () => Effect.fail(new LeaseLost({ runId, owner: "me" }))
      })
      const fiber = yield* Effect.forkChild(
        Effect.flip(Effect.provideService(runPromptStored(runtime, { runId, prompt: "go" }), RunStore, store))
      )
      yield* Deferred.await(begun)
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "LeaseLost")
      assert.strictEqual((yield* own.head(runId)).status, "running")
    })
  )
})

describe("a run of a killed process", () => {
  test(
    "is resumed by its id, and repeats a read of its sub-agent",
    Effect.gen(function* () {
      const store = yield* RunStore
      const begun = yield* Deferred.make<void>()
      let dead = true
      const read = safe("read", {
        handler: () =>
          dead ? Effect.andThen(Deferred.succeed(begun, undefined), Effect.never) : Effect.succeed("at last")
      })
      const child = Agent.make("child", { tools: [read.tool] })
      const agent = Agent.make("parent", { subAgents: [child] })
      const { runtime, model } = yield* bind(agent, [
        { calls: [{ tool: "child", arguments: { prompt: "do" } }] },
        { calls: [call("read", "1")] },
        "child done",
        "done"
      ])
      const runId = "orphan" as RunId
      // The dying process writes nothing more and does not release the lease.
      const alive = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
        Effect.suspend(() => (dead && Deferred.isDoneUnsafe(begun) ? Effect.never : effect))
      const dying = RunStore.of({
        ...store,
        append: (options) => alive(store.append(options)),
        renew: (lease, ttl) => alive(store.renew(lease, ttl)),
        release: (lease) => alive(store.release(lease))
      })
      yield* Effect.forkChild(
        Effect.provideService(runPromptStored(runtime, { runId, prompt: "go" }), RunStore, dying)
      )
      yield* Deferred.await(begun)
      const { runtime: other } = yield* rebind(agent, model, { owner: "other" })
      assert.strictEqual((yield* Effect.flip(runPromptStored(other, { runId })))._tag, "RunBusy")
      yield* TestClock.adjust("15 seconds")
      dead = false
      const { state } = expect(yield* runPromptStored(other, { runId }), "completed")
      assert.deepStrictEqual(results(state), ["child completed: child done"])
      assert.deepStrictEqual(
        read.contexts.map(({ attempt }) => attempt),
        [1, 2]
      )
      assert.strictEqual(model.requests.length, 4)
    })
  )
})
