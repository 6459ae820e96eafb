import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import * as ContextPolicy from "../../src/context/ContextPolicy.ts"
import * as ControlPlane from "../../src/control/ControlPlane.ts"
import type { RuntimeEvent } from "../../src/control/RuntimeEvent.ts"
import { textOf } from "../../src/domain/Message.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import * as Tokenizer from "../../src/model/Tokenizer.ts"
import { RunStore, layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { assertSound, eventsSoFar, untilEvent, untilSaved } from "./following.ts"

const isSummary = ({ messages, tools }: ModelRequest): boolean =>
  tools.length === 0 && textOf(messages[0]?.content ?? []).includes("record of the conversation")

const long = (index: number) => `Fact ${index}. ${"More words follow here. ".repeat(120)}`

const clerk = Agent.make("clerk", { instructions: "Take notes." })

/** A plane with a session of `tasks` long tasks, and a model whose summaries wait for `summary`. */
const planeAfter = (
  tasks: number,
  {
    agent = clerk,
    summary = () => Effect.succeed("The facts.")
  }: {
    readonly agent?: Agent.Agent
    readonly summary?: () => Effect.Effect<string>
  } = {}
) =>
  Effect.gen(function* () {
    const scripted = ScriptedModel.make(
      ({ messages }) =>
        textOf(messages.at(-1)?.content ?? []).includes("Pay") ? { calls: [{ tool: "pay" }] } : "Noted.",
      { tokenizer: Tokenizer.estimate, contextTokens: 32_000 }
    )
    const requests: Array<ModelRequest> = []
    const model: ScriptedModel.ScriptedModel["client"] = {
      ...scripted.client,
      complete: (request) => {
        requests.push(request)
        return isSummary(request)
          ? Effect.map(summary(), (text) => ({
              content: [{ _tag: "text", text }],
              calls: [],
              finishReason: "stop",
              usage: { inputTokens: 900, outputTokens: 10 }
            }))
          : scripted.client.complete(request)
      }
    }
    const runtime = yield* Runtime.make({ agent }).pipe(
      Effect.provideService(ModelClient, model),
      Effect.provideService(ContextPolicy.ContextPolicy, ContextPolicy.compacting())
    )
    const plane = yield* ControlPlane.make({ agents: [runtime] })
    let from = 1
    for (let index = 0; index < tasks; index += 1) {
      yield* plane.submit({ _tag: "SubmitPrompt", prompt: long(index) })
      from = (yield* untilSaved(plane, from)).seq + 1
    }
    return { from, plane, requests, scripted }
  })

const ofTag = (events: ReadonlyArray<{ readonly event: RuntimeEvent }>, tag: RuntimeEvent["_tag"]) =>
  events.filter(({ event }) => event._tag === tag)

describe("SessionCompact", () => {
  it.effect(
    "compacts the session's context, publishes it from the journal, and the next task has the summary",
    () =>
      Effect.gen(function* () {
        const { from, plane, scripted } = yield* planeAfter(14)
        const acknowledgement = yield* plane.submit({ _tag: "SessionCompact", commandId: "c1" })
        assert.strictEqual(acknowledgement._tag, "SessionCompacting")
        const { event, journal } = yield* untilEvent(plane, "session.compacted", from)
        assert(event._tag === "session.compacted")
        assert.isAbove(event.messages, 10)
        assert.isBelow(event.tokensAfter, event.tokensBefore)
        const store = yield* RunStore
        const taskId = acknowledgement._tag === "SessionCompacting" ? acknowledgement.taskId : assert.fail()
        const stored = (yield* store.events(taskId))[journal!.revision - 1]
        assert.strictEqual(stored?._tag, "context.compacted")

        yield* plane.submit({ _tag: "SubmitPrompt", prompt: "And now?" })
        yield* untilSaved(plane, from)
        const request = scripted.requests.at(-1)!
        assert.include(textOf(request.messages[0]!.content), "The facts.")
        assert.isBelow(request.messages.length, 20)
        // A repeated command gets the first answer.
        const again = yield* plane.submit({ _tag: "SessionCompact", commandId: "c1" })
        assert.deepStrictEqual(again, { ...acknowledgement, repeated: true })
        const events = yield* eventsSoFar(plane)
        assert.strictEqual(ofTag(events, "session.compacted").length, 1)
        assertSound(events)
      }).pipe(Effect.scoped, Effect.provide(layerMemory))
  )

  it.effect("lets other sessions go on, queues prompts of its own, and refuses what would disturb it", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const go = yield* Deferred.make<void>()
      const { from, plane } = yield* planeAfter(14, {
        summary: () =>
          Effect.andThen(Deferred.succeed(begun, undefined), Effect.as(Deferred.await(go), "The facts."))
      })
      const acknowledgement = yield* plane.submit({ _tag: "SessionCompact" })
      assert(acknowledgement._tag === "SessionCompacting")
      const { sessionId } = acknowledgement
      yield* Deferred.await(begun)
      for (const command of [
        { _tag: "SubmitPrompt", prompt: "And now?", sessionId },
        { _tag: "SessionCompact", sessionId },
        { _tag: "SessionRename", title: "Facts", sessionId },
        { _tag: "SessionDelete", sessionId },
        { _tag: "SwitchModel", profile: "other" }
      ] as const) {
        const refused = yield* Effect.flip(plane.submit(command))
        assert.strictEqual(refused._tag, "CompactionActive", command._tag)
      }
      const queued = yield* plane.submit({
        _tag: "SubmitPrompt",
        prompt: "Later",
        sessionId,
        whenActive: "queue"
      })
      assert(queued._tag === "TaskQueued")
      yield* plane.submit({ _tag: "SessionNew" })
      const other = yield* plane.submit({ _tag: "SubmitPrompt", prompt: "Hello" })
      assert(other._tag === "TaskStarted")
      yield* untilEvent(
        plane,
        (event) => event._tag === "task.completed" && event.taskId === other.taskId,
        from
      )
      yield* Deferred.succeed(go, undefined)
      const { seq } = yield* untilEvent(plane, "session.compacted", from)
      const end = yield* untilEvent(
        plane,
        (event) => event._tag === "task.completed" && event.taskId === queued.taskId,
        from
      )
      assert.isAbove(end.seq, seq)
      assertSound(yield* eventsSoFar(plane))
    }).pipe(Effect.scoped, Effect.provide(layerMemory))
  )

  it.effect("is refused while a task of the session is active, and without a stored history", () =>
    Effect.gen(function* () {
      const agent = Agent.make("clerk", { tools: [Tool.make("pay", { handler: () => "paid" })] })
      const { plane } = yield* planeAfter(0, { agent })
      const none = yield* Effect.flip(plane.submit({ _tag: "SessionCompact" }))
      assert.strictEqual(none._tag, "SessionNotFound")
      yield* plane.submit({ _tag: "SessionNew" })
      const empty = yield* Effect.flip(plane.submit({ _tag: "SessionCompact" }))
      assert.strictEqual(empty._tag, "CompactionUnavailable")
      yield* plane.submit({ _tag: "SubmitPrompt", prompt: "Pay" })
      yield* untilEvent(plane, "task.waitingApproval")
      const active = yield* Effect.flip(plane.submit({ _tag: "SessionCompact" }))
      assert.strictEqual(active._tag, "TaskActive")
    }).pipe(Effect.scoped, Effect.provide(layerMemory))
  )

  it.effect("is refused in a runtime without a store", () =>
    Effect.gen(function* () {
      const { plane } = yield* planeAfter(1)
      const refused = yield* Effect.flip(plane.submit({ _tag: "SessionCompact" }))
      assert.strictEqual(refused._tag, "CompactionUnavailable")
      assert.include(refused.message, "no store")
    }).pipe(Effect.scoped)
  )

  it.effect("raises a warning when there is nothing to leave out, or no model writes a summary", () =>
    Effect.gen(function* () {
      const short = yield* planeAfter(1)
      yield* short.plane.submit({ _tag: "SessionCompact" })
      const { event } = yield* untilEvent(short.plane, "warning.raised", short.from)
      assert.strictEqual(event._tag === "warning.raised" && event.code, "NothingToCompact")
      const broken = yield* planeAfter(14, { summary: () => Effect.die(new Error("no answer")) })
      yield* broken.plane.submit({ _tag: "SessionCompact" })
      const warned = yield* untilEvent(broken.plane, "warning.raised", broken.from)
      assert.strictEqual(warned.event._tag === "warning.raised" && warned.event.code, "NotCompacted")
      // The session goes on.
      yield* broken.plane.submit({ _tag: "SubmitPrompt", prompt: "And now?" })
      yield* untilSaved(broken.plane, warned.seq)
    }).pipe(Effect.scoped, Effect.provide(layerMemory))
  )

  it.effect("ends with the runtime, and has written nothing", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const { plane } = yield* planeAfter(14, {
        summary: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
      })
      const acknowledgement = yield* plane.submit({ _tag: "SessionCompact" })
      assert(acknowledgement._tag === "SessionCompacting")
      yield* Deferred.await(begun)
      const store = yield* RunStore
      const before = yield* store.events(acknowledgement.taskId)
      yield* plane.submit({ _tag: "Shutdown" })
      assert.deepStrictEqual(yield* store.events(acknowledgement.taskId), before)
    }).pipe(Effect.scoped, Effect.provide(layerMemory))
  )
})
