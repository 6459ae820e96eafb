import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import * as ControlPlane from "../../src/control/ControlPlane.ts"
import * as EventCursor from "../../src/control/EventCursor.ts"
import type { RuntimeEventEnvelope } from "../../src/control/RuntimeEventEnvelope.ts"
import * as RunStore from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { assertSound, eventsSoFar, untilEvent } from "./following.ts"

const pay = Tool.make("pay", { handler: () => "paid" })
const clerk = Agent.make("clerk", { tools: [pay] })

/** A plane of a program of its own on the store of the context. */
const plane = (script: Parameters<typeof ScriptedModel.make>[0], options: ControlPlane.ControlOptions = {}) =>
  Effect.flatMap(
    Effect.provide(Runtime.make({ agent: clerk }), ScriptedModel.make(script).layer),
    (runtime) => ControlPlane.make({ ...options, agents: [runtime] })
  )

const requestOf = ({ event }: RuntimeEventEnvelope) =>
  event._tag === "tool.approvalRequired" ? event.request.requestId : assert.fail(event._tag)

const cursorAfter = (epoch: string, envelopes: ReadonlyArray<RuntimeEventEnvelope>) =>
  envelopes.reduce(EventCursor.advance, EventCursor.start(epoch))

/** Starts a task in a first runtime, and stops the runtime while the task is held. Returns the events that a front end saw. */
const heldEarlier = Effect.scoped(
  Effect.gen(function* () {
    const first = yield* plane([{ calls: [{ tool: "pay" }] }])
    yield* first.submit({ _tag: "SessionNew", title: "Invoices" })
    yield* first.submit({ _tag: "SubmitPrompt", prompt: "Pay", commandId: "pay-1" })
    yield* untilEvent(first, "task.waitingApproval")
    const before = yield* eventsSoFar(first)
    return { before, cursor: cursorAfter(first.epoch, before) }
  })
)

describe("a restart", () => {
  it.effect(
    "takes no prompt twice, opens no session for it, and SessionResumeLast passes over sessions without tasks",
    () =>
      Effect.gen(function* () {
        yield* heldEarlier
        const second = yield* plane(["Paid."])
        const again = yield* second.submit({ _tag: "SubmitPrompt", prompt: "Pay", commandId: "pay-1" })
        assert.strictEqual(again._tag, "TaskStarted")
        assert.deepStrictEqual((yield* second.snapshot).sessions, [])
        yield* second.submit({ _tag: "SessionNew" })
        const opened = yield* second.submit({ _tag: "SessionResumeLast" })
        assert.strictEqual(
          opened._tag === "SessionOpened" && opened.sessionId,
          again._tag === "TaskStarted" && again.sessionId
        )
      }).pipe(Effect.scoped, Effect.provide(RunStore.layerMemory))
  )

  it.effect("parks a held task at Shutdown, and SessionResumeLast finds it in another runtime", () =>
    Effect.gen(function* () {
      const taskId = yield* Effect.scoped(
        Effect.gen(function* () {
          const first = yield* plane([{ calls: [{ tool: "pay" }] }])
          yield* first.submit({ _tag: "SubmitPrompt", prompt: "Pay" })
          yield* untilEvent(first, "task.waitingApproval")
          yield* first.submit({ _tag: "Shutdown" })
          const events = yield* Stream.runCollect(first.events())
          assertSound(events)
          const end = events.map(({ event }) => event).find(({ _tag }) => _tag === "task.suspended")
          return end?._tag === "task.suspended" ? end.taskId : assert.fail()
        })
      )
      const second = yield* plane(["Paid."])
      const opened = yield* second.submit({ _tag: "SessionResumeLast" })
      assert.strictEqual(opened._tag === "SessionOpened" && opened.taskId, taskId)
      const approvalId = requestOf(yield* untilEvent(second, "tool.approvalRequired"))
      const busy = yield* Effect.flip(second.submit({ _tag: "SubmitPrompt", prompt: "Again" }))
      assert.strictEqual(busy._tag, "TaskActive")
      yield* second.submit({ _tag: "Approve", approvalId, decision: { _tag: "approve" } })
      const done = yield* untilEvent(second, "task.completed")
      assert.strictEqual(done.event._tag === "task.completed" && done.event.text, "Paid.")
      assertSound(yield* eventsSoFar(second))
    }).pipe(Effect.scoped, Effect.provide(RunStore.layerMemory))
  )

  it.effect(
    "keeps the title of a session, and answers a repeated command with the task that was started for it",
    () =>
      Effect.gen(function* () {
        yield* heldEarlier
        const second = yield* plane(["Paid."])
        const listed = yield* second.submit({ _tag: "SessionList" })
        assert.deepStrictEqual(
          listed._tag === "SessionsListed" && listed.sessions.map(({ status, title }) => ({ status, title })),
          [{ status: "held", title: "Invoices" }]
        )
        yield* second.submit({ _tag: "SessionResumeLast" })
        const again = yield* second.submit({ _tag: "SubmitPrompt", prompt: "Pay", commandId: "pay-1" })
        assert.strictEqual(again._tag, "TaskStarted")
        const { sessions } = yield* second.snapshot
        assert.strictEqual(again._tag === "TaskStarted" && again.taskId, sessions[0]?.task?.taskId)
      }).pipe(Effect.scoped, Effect.provide(RunStore.layerMemory))
  )

  it.effect(
    "replays the events that a cursor of an earlier epoch lacks from the journals, then announces its epoch and goes on",
    () =>
      Effect.gen(function* () {
        const { before } = yield* heldEarlier
        const known = before.slice(0, 8)
        const cursor = cursorAfter("earlier", known)
        const second = yield* plane(["Paid."])
        yield* second.submit({ _tag: "SessionResumeLast" })
        const reading = yield* Effect.forkChild(
          second.events(cursor).pipe(
            Stream.takeUntil(({ event }) => event._tag === "task.completed"),
            Stream.runCollect
          ),
          { startImmediately: true }
        )
        const approvalId = requestOf(yield* untilEvent(second, "tool.approvalRequired"))
        yield* second.submit({ _tag: "Approve", approvalId, decision: { _tag: "approve" } })
        const read = yield* Fiber.join(reading)
        const places = (envelopes: ReadonlyArray<RuntimeEventEnvelope>) =>
          envelopes.flatMap(({ journal }) =>
            journal === undefined ? [] : [`${journal.revision}.${journal.part}`]
          )
        const seen = [...places(known), ...places(read)]
        const all = places([...before, ...(yield* eventsSoFar(second))])
        assert.deepStrictEqual(new Set(seen), new Set(all))
        const replayed = read.filter(({ replayed }) => replayed === true)
        assert.strictEqual(replayed.at(-1)?.event._tag, "lifecycle.started")
        // What is replayed equals what was published in the earlier epoch.
        const bare = ({ event, journal, tsUnixMs }: RuntimeEventEnvelope) =>
          JSON.stringify({ event, tsUnixMs, journal: { ...journal, committed: undefined } })
        const published = new Set(before.map(bare))
        for (const envelope of replayed.slice(0, -1))
          if (envelope.journal!.revision <= before.at(-1)!.journal!.revision)
            assert.isTrue(published.has(bare(envelope)), bare(envelope))
        // The cursor after it is one of the new epoch, and continues there.
        const after = read.reduce(EventCursor.advance, cursor)
        assert.strictEqual(after.epoch, second.epoch)
        assert.strictEqual(after.seq, read.at(-1)?.seq)
        assert.deepStrictEqual(EventCursor.decode(EventCursor.encode(after)), after)
      }).pipe(Effect.scoped, Effect.provide(RunStore.layerMemory))
  )

  it.effect("lets a client of one server continue at another server of the same store", () =>
    Effect.gen(function* () {
      const one = yield* plane([{ calls: [{ tool: "pay" }] }, "Paid."])
      const other = yield* plane([])
      yield* one.submit({ _tag: "SubmitPrompt", prompt: "Pay" })
      yield* untilEvent(one, "task.waitingApproval")
      const cursor = cursorAfter(one.epoch, yield* eventsSoFar(one))
      const approvalId = requestOf(yield* untilEvent(one, "tool.approvalRequired"))
      yield* one.submit({ _tag: "Approve", approvalId, decision: { _tag: "approve" } })
      yield* untilEvent(one, "session.saved")
      const read = yield* other.events(EventCursor.decode(EventCursor.encode(cursor))!).pipe(
        Stream.takeUntil(({ event }) => event._tag === "lifecycle.started"),
        Stream.runCollect
      )
      const tags = read.map(({ event }) => event._tag)
      assert.include(tags, "tool.approvalSettled")
      assert.include(tags, "task.completed")
      assert.strictEqual(tags.at(-1), "lifecycle.started")
      assert.deepStrictEqual(read.reduce(EventCursor.advance, cursor).revisions, {})
    }).pipe(Effect.scoped, Effect.provide(RunStore.layerMemory))
  )

  it.effect("continues within its epoch after the number of a cursor, and repeats nothing", () =>
    Effect.gen(function* () {
      const only = yield* plane([{ text: "One two three", chunkSize: 3 }])
      yield* only.submit({ _tag: "SubmitPrompt", prompt: "Count" })
      yield* untilEvent(only, "session.saved")
      const all = yield* eventsSoFar(only)
      for (let count = 0; count <= all.length; count += 1) {
        const cursor = cursorAfter(only.epoch, all.slice(0, count))
        const rest = yield* only.events(cursor).pipe(Stream.take(all.length - count), Stream.runCollect)
        assert.deepStrictEqual([...all.slice(0, count), ...rest], [...all])
      }
    }).pipe(Effect.scoped, Effect.provide(RunStore.layerMemory))
  )

  it.effect("suspends a running task when the scope of the plane closes", () =>
    Effect.gen(function* () {
      const { before } = yield* heldEarlier
      assertSound([...before, { ...before.at(-1)!, seq: before.at(-1)!.seq + 1, event: endOf(before) }])
      const second = yield* plane(["Paid."])
      const opened = yield* second.submit({ _tag: "SessionResumeLast" })
      assert.isTrue(opened._tag === "SessionOpened" && opened.taskId !== undefined)
    }).pipe(Effect.scoped, Effect.provide(RunStore.layerMemory))
  )
})

const endOf = (before: ReadonlyArray<RuntimeEventEnvelope>): RuntimeEventEnvelope["event"] => {
  const { event } = before.find(({ event }) => event._tag === "task.started")!
  if (event._tag !== "task.started") return assert.fail()
  const { agentPath, agentRunId, sessionId, taskId, turn } = event
  return {
    family: "Task",
    _tag: "task.suspended",
    sessionId,
    taskId,
    turn,
    agentPath,
    agentRunId,
    reason: ""
  }
}

describe("EventCursor", () => {
  it("reads no text that it has not written", () => {
    for (const wrong of [
      "",
      "x",
      "a.1;b",
      "a.1;=3",
      "a.b",
      "a.1;run=1.5",
      "a b.1",
      "é.1",
      `a.1${";r=1".repeat(1001)}`,
      3,
      undefined
    ])
      assert.isUndefined(EventCursor.decode(wrong as string), String(wrong))
  })

  it("keeps a run with the id __proto__ as data", () => {
    const cursor = EventCursor.decode("e.1;__proto__=4")
    assert.deepStrictEqual(Object.entries(cursor!.revisions), [["__proto__", 4]])
  })
})
