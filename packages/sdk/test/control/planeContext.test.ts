import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import * as ControlPlane from "../../src/control/ControlPlane.ts"
import { loadState } from "../../src/durable/loadState.ts"
import * as RunStore from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { untilEvent } from "./following.ts"

/** A plane on the store of the context, whose model only greets. */
const plane = (context?: Readonly<Record<string, string>>) =>
  Effect.flatMap(
    Effect.provide(Runtime.make({ agent: Agent.make("clerk") }), ScriptedModel.make(() => "Hello.").layer),
    (runtime) => ControlPlane.make({ ...(context === undefined ? {} : { context }), agents: [runtime] })
  )

/** Runs a prompt to its end. */
const prompted = Effect.fnUntraced(function* (at: ControlPlane.Shape, commandId: string) {
  const answer = yield* at.submit({ _tag: "SubmitPrompt", prompt: "Hi", commandId })
  if (answer._tag !== "TaskStarted") return assert.fail(answer._tag)
  yield* untilEvent(at, "session.saved")
  return answer
})

const sessionsOf = (at: ControlPlane.Shape) =>
  Effect.map(at.submit({ _tag: "SessionList" }), (answer) =>
    answer._tag === "SessionsListed" ? answer.sessions.map(({ sessionId }) => sessionId) : []
  )

const acme = { tenant: "acme" }
const bolt = { tenant: "bolt" }

describe("a control plane with a context", () => {
  it.effect("gives it to its tasks, beside the context of a prompt that does not contradict it", () =>
    Effect.gen(function* () {
      const at = yield* plane(acme)
      const prompt = { _tag: "SubmitPrompt", prompt: "Hi" } as const
      const answer = yield* at.submit({ ...prompt, context: { invoice: 7 } })
      if (answer._tag !== "TaskStarted") return assert.fail(answer._tag)
      assert.deepStrictEqual((yield* loadState(answer.taskId)).startedWith?.context, { invoice: 7, ...acme })
      const refused = yield* Effect.flip(at.submit({ ...prompt, context: bolt }))
      assert.strictEqual(refused._tag, "CommandInvalid")
      assert.match(refused.message, /tenant/)
      yield* at.submit({ _tag: "SessionNew" })
      const equal = yield* at.submit({ ...prompt, context: acme })
      assert.strictEqual(equal._tag, "TaskStarted")
    }).pipe(Effect.scoped, Effect.provide(RunStore.layerMemory))
  )

  it.effect("lists, resumes and deletes the sessions with the context alone", () =>
    Effect.gen(function* () {
      const own = yield* prompted(yield* plane(acme), "c1")
      const plain = yield* prompted(yield* plane(), "c2")
      const other = yield* plane(bolt)
      assert.deepStrictEqual(yield* sessionsOf(other), [])
      for (const { sessionId } of [own, plain]) {
        const resumed = yield* Effect.flip(other.submit({ _tag: "SessionResume", sessionId }))
        assert.strictEqual(resumed._tag, "SessionNotFound")
        const deleted = yield* Effect.flip(other.submit({ _tag: "SessionDelete", sessionId }))
        assert.strictEqual(deleted._tag, "SessionNotFound")
      }
      assert.strictEqual(
        (yield* Effect.flip(other.submit({ _tag: "SessionResumeLast" })))._tag,
        "SessionNotFound"
      )
      const again = yield* plane(acme)
      assert.deepStrictEqual(yield* sessionsOf(again), [own.sessionId])
      yield* again.submit({ _tag: "SessionResume", sessionId: own.sessionId })
      yield* again.submit({ _tag: "SessionDelete", sessionId: own.sessionId })
      assert.deepStrictEqual(yield* sessionsOf(again), [])
      assert.deepStrictEqual(yield* sessionsOf(yield* plane()), [plain.sessionId])
    }).pipe(Effect.scoped, Effect.provide(RunStore.layerMemory))
  )

  it.effect("replays no run of another context, also if a cursor names it", () =>
    Effect.gen(function* () {
      const { taskId } = yield* prompted(yield* plane(acme), "c1")
      const from = { epoch: "elsewhere", seq: 0, revisions: { [taskId]: 0 } }
      const replayed = (at: ControlPlane.Shape) =>
        at.events(from).pipe(
          Stream.takeUntil(({ event }) => event._tag === "lifecycle.started"),
          Stream.runCollect
        )
      assert.strictEqual((yield* replayed(yield* plane(bolt))).length, 1)
      assert.isAbove((yield* replayed(yield* plane(acme))).length, 1)
    }).pipe(Effect.scoped, Effect.provide(RunStore.layerMemory))
  )

  it.effect("has ids of commands of its own, also after a restart", () =>
    Effect.gen(function* () {
      const one = yield* prompted(yield* plane(acme), "same")
      const other = yield* prompted(yield* plane(bolt), "same")
      assert.notStrictEqual(one.taskId, other.taskId)
      const again = yield* (yield* plane(acme)).submit({
        _tag: "SubmitPrompt",
        prompt: "Hi",
        commandId: "same"
      })
      assert.strictEqual(again._tag === "TaskStarted" && again.taskId, one.taskId)
    }).pipe(Effect.scoped, Effect.provide(RunStore.layerMemory))
  )
})
