import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import type { AgentHandle, StoredFault } from "../../src/dispatch/AgentHandle.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import { dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import { text } from "../../src/domain/Message.ts"
import type { StoredStartInput } from "../../src/durable/storedInput.ts"
import { layerMemory, type RunStore } from "../../src/store/RunStore.ts"
import * as Tool from "../../src/tool/Tool.ts"
import {
  approve,
  assertValid,
  bind,
  call,
  expect,
  only,
  probe,
  safe,
  transcript
} from "../helpers/Fixture.ts"

interface Way {
  readonly name: string
  readonly dispatch: <Output>(
    runtime: Runtime<Output>,
    input: Pick<StoredStartInput, "prompt" | "limits" | "policy">
  ) => Effect.Effect<AgentHandle<Output, StoredFault>, unknown, RunStore | Scope.Scope>
}

const ways: ReadonlyArray<Way> = [
  { name: "a run that is not stored", dispatch: dispatchPrompt },
  { name: "a stored run", dispatch: dispatchPromptStored }
]

const scoped = <A, E>(body: Effect.Effect<A, E, RunStore | Scope.Scope>) =>
  Effect.provide(Effect.scoped(body), Layer.fresh(layerMemory))

/** A call of `ask_user`. */
const ask = (id: string, question: string) => ({ tool: "ask_user", id, arguments: { question } })

for (const { dispatch, name } of ways) {
  describe(`AgentHandle.send to ${name}`, () => {
    it.effect("reaches a working run before its next turn", () =>
      scoped(
        Effect.gen(function* () {
          const begun = yield* Deferred.make<void>()
          const open = yield* Deferred.make<void>()
          const slow = safe("slow", {
            handler: () =>
              Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(open)), "ok")
          })
          const { runtime } = yield* bind(Agent.make("a", { tools: [slow.tool] }), [
            { calls: [call("slow", "1")] },
            "heard"
          ])
          const handle = yield* dispatch(runtime, { prompt: "go" })
          yield* Deferred.await(begun)
          assert.strictEqual(yield* handle.send("mind the gap"), handle)
          yield* TestClock.adjust("5 seconds")
          yield* Deferred.succeed(open, undefined)
          const { state } = expect(yield* handle.done, "completed")
          assert.deepStrictEqual(transcript(state), [
            "user: go",
            "assistant: (slow)",
            "tool: ok",
            "user: mind the gap",
            "assistant: heard"
          ])
        })
      )
    )

    it.effect("is refused with a policy or limits unless it forks", () =>
      scoped(
        Effect.gen(function* () {
          const write = probe("write")
          const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
            { calls: [call("write", "1")] },
            "done"
          ])
          const handle = yield* dispatch(runtime, { prompt: "go" })
          const request = only(yield* handle.wait, "approval")
          for (const whenHeld of [undefined, "queue", "supersede", "answer"] as const) {
            for (const given of [{ policy: { mode: "none" } }, { limits: { maxTurns: 3 } }] as const) {
              const error = yield* Effect.flip(
                handle.send("again", { ...given, ...(whenHeld === undefined ? {} : { whenHeld }) })
              )
              if (error._tag !== "OptionsInvalid") return assert.fail(String(error))
              assert.strictEqual(error.misfits[0]?.key, Object.keys(given)[0])
              assert.include(error.message, "which keeps its own")
            }
          }
          assert.lengthOf(handle.interruptions(), 1)
          yield* handle.decide(approve(request))
          const { state } = expect(yield* handle.done, "completed")
          assert.deepStrictEqual(write.ran, ["1"])
          assert.notInclude(transcript(state).join(), "again")
          // Without open requests, `fork` does not fork.
          assert.strictEqual(
            (yield* Effect.flip(handle.send("again", { whenHeld: "fork", policy: { mode: "none" } })))._tag,
            "OptionsInvalid"
          )
        })
      )
    )

    it.effect("reaches a run once when it is repeated with its messageId, and other content is refused", () =>
      scoped(
        Effect.gen(function* () {
          const { runtime } = yield* bind(Agent.make("a", { tools: [probe("write").tool] }), [
            { calls: [call("write", "1")] },
            "done"
          ])
          const handle = yield* dispatch(runtime, { prompt: "go" })
          const request = only(yield* handle.wait, "approval")
          yield* handle.send("and be quick", { messageId: "m1" })
          yield* handle.send("and be quick", { messageId: "m1" })
          for (const [prompt, messageId] of [
            ["and be slow", "m1"],
            ["and be slow", "two words"]
          ] as const)
            assert.strictEqual(
              (yield* Effect.flip(handle.send(prompt, { messageId })))._tag,
              "MessageInvalid"
            )
          yield* handle.decide(approve(request))
          const { state } = expect(yield* handle.done, "completed")
          assert.deepStrictEqual(
            transcript(state).filter((line) => line.startsWith("user")),
            ["user: go", "user: and be quick"]
          )
        })
      )
    )

    it.effect("is refused with a messageId if it would answer a question or fork the run", () =>
      scoped(
        Effect.gen(function* () {
          const agent = Agent.make("a", { tools: [Tool.askUser] })
          const { runtime } = yield* bind(agent, [{ calls: [ask("1", "Where to?")] }, "done"])
          const handle = yield* dispatch(runtime, { prompt: "go" })
          only(yield* handle.wait, "question")
          for (const whenHeld of ["answer", "fork"] as const) {
            const error = yield* Effect.flip(handle.send("home", { whenHeld, messageId: "m1" }))
            if (error._tag !== "OptionsInvalid") return assert.fail(String(error))
            assert.strictEqual(error.misfits[0]?.key, "messageId")
          }
          assert.lengthOf(handle.interruptions(), 1)
        })
      )
    )

    it.effect("forks with the caller's policy and limits, or with those given", () =>
      scoped(
        Effect.gen(function* () {
          const write = probe("write")
          const agent = Agent.make("a", { tools: [write.tool], policy: { mode: "all" } })
          const writes = { calls: [call("write", "1")] }
          const { runtime } = yield* bind(agent, [writes, writes, writes, "done"])
          const given = { policy: { mode: "ask" }, limits: { maxTokens: 5000, maxTurns: 7 } } as const
          const handle = yield* dispatch(runtime, { prompt: "go", ...given })
          only(yield* handle.wait, "approval")
          const fork = yield* handle.send("again", { whenHeld: "fork" })
          const forked = yield* fork.wait
          only(forked, "approval")
          const { limits, policy, startedWith } = forked.state
          assert.deepStrictEqual([limits.maxTokens, limits.maxTurns, policy], [5000, 7, given.policy])
          assert.deepStrictEqual(startedWith, { ...given, policyFor: "a" })
          assert.deepStrictEqual(write.ran, [])
          const other = { policy: { mode: "all" }, limits: { maxTurns: 3 } } as const
          const loose = yield* (yield* handle.send("again", { whenHeld: "fork", ...other })).done
          const { state } = expect(loose, "completed")
          assert.deepStrictEqual(
            [state.limits.maxTokens, state.limits.maxTurns, state.policy],
            [5000, 3, other.policy]
          )
          assert.deepStrictEqual(write.ran, ["1"])
        })
      )
    )

    it.effect("reaches a held run after its calls are settled", () =>
      scoped(
        Effect.gen(function* () {
          const write = probe("write")
          const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
            { calls: [call("write", "1")] },
            "heard"
          ])
          const handle = yield* dispatch(runtime, { prompt: "go" })
          const held = only(yield* handle.wait, "approval")
          yield* handle.send("and then rest")
          assert.deepStrictEqual(only(yield* handle.wait, "approval"), held)
          yield* handle.decide(approve(held))
          const { state } = expect(yield* handle.done, "completed")
          assert.deepStrictEqual(transcript(state), [
            "user: go",
            "assistant: (write)",
            "tool: write:1",
            "user: and then rest",
            "assistant: heard"
          ])
          assertValid(state)
        })
      )
    )

    it.effect("denies pending requests with `supersede`, and is read next", () =>
      scoped(
        Effect.gen(function* () {
          const write = probe("write")
          const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
            { calls: [call("write", "1"), call("write", "2")] },
            "as you like"
          ])
          const handle = yield* dispatch(runtime, { prompt: "go" })
          expect(yield* handle.wait, "interrupted")
          yield* handle.send("do nothing", { whenHeld: "supersede", by: "ann" })
          const { state } = expect(yield* handle.done, "completed")
          const denied = "The user has said something else instead; it follows. This was not done."
          assert.deepStrictEqual(transcript(state), [
            "user: go",
            "assistant: (write, write)",
            `tool: ${denied}`,
            `tool: ${denied}`,
            "user: do nothing",
            "assistant: as you like"
          ])
          assert.deepStrictEqual(
            state.requests.map(({ decision }) => decision?.by),
            ["ann", "ann"]
          )
          assert.deepStrictEqual(write.ran, [])
          assertValid(state)
        })
      )
    )

    it.effect("answers the one open question with `answer`", () =>
      scoped(
        Effect.gen(function* () {
          const { runtime } = yield* bind(Agent.make("a", { tools: [Tool.askUser] }), [
            { calls: [ask("1", "Which color?")] },
            { calls: [ask("2", "Sure?"), ask("3", "Really?")] },
            "done"
          ])
          const handle = yield* dispatch(runtime, { prompt: "go" })
          only(yield* handle.wait, "question")
          yield* handle.send([text("blue")], { whenHeld: "answer" })
          const { interruptions } = expect(yield* handle.wait, "interrupted")
          const several = yield* Effect.flip(handle.send("yes", { whenHeld: "answer" }))
          assert.strictEqual((several as { _tag: string })._tag, "SeveralQuestions")
          const [first, second] = interruptions
          yield* handle.decide({ _tag: "answer", requestId: first!.requestId, by: "ann", answer: "yes" })
          expect(yield* handle.wait, "interrupted")
          const file = { _tag: "file", mediaType: "text/plain", source: { _tag: "url", url: "a:b" } } as const
          const notText = yield* Effect.flip(handle.send([file], { whenHeld: "answer" }))
          assert.strictEqual((notText as { _tag: string })._tag, "AnswerNotText")
          assert.deepStrictEqual<unknown>(handle.interruptions(), [second])
          yield* handle.send("truly", { whenHeld: "answer" })
          const { state } = expect(yield* handle.done, "completed")
          assert.deepStrictEqual(
            transcript(state).filter((line) => line.startsWith("tool")),
            ["tool: blue", "tool: yes", "tool: truly"]
          )
          const nothing = yield* Effect.flip(handle.send("hm", { whenHeld: "answer" }))
          assert.strictEqual((nothing as { _tag: string })._tag, "NothingToAnswer")
        })
      )
    )

    it.effect("forks from before the open turn with `fork`, and the run stays held", () =>
      scoped(
        Effect.gen(function* () {
          const write = probe("write")
          const { model, runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
            { calls: [call("write", "1")] },
            "forked",
            "done"
          ])
          const handle = yield* dispatch(runtime, { prompt: "go" })
          const held = only(yield* handle.wait, "approval")
          const fork = yield* handle.send("or rather not", { whenHeld: "fork" })
          assert.notStrictEqual(fork.runId, handle.runId)
          assert.notStrictEqual(fork.sessionId, handle.sessionId)
          const other = expect(yield* fork.done, "completed")
          assert.strictEqual(other.runId, fork.runId)
          assert.strictEqual(other.sessionId, fork.sessionId)
          assert.deepStrictEqual(transcript(other.state), [
            "user: go",
            "user: or rather not",
            "assistant: forked"
          ])
          assert.deepStrictEqual(only(yield* handle.wait, "approval"), held)
          yield* handle.decide(approve(held))
          const { state } = expect(yield* handle.done, "completed")
          assert.deepStrictEqual(write.ran, ["1"])
          assert.strictEqual(model.remaining(), 0)
          for (const each of [state, other.state]) assertValid(each)
        })
      )
    )

    it.effect("is an ordinary message when no request is pending", () =>
      scoped(
        Effect.gen(function* () {
          const begun = yield* Deferred.make<void>()
          const open = yield* Deferred.make<void>()
          const slow = safe("slow", {
            handler: () =>
              Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(open)), "ok")
          })
          const { runtime } = yield* bind(Agent.make("a", { tools: [slow.tool] }), [
            { calls: [call("slow", "1")] },
            "heard"
          ])
          const handle = yield* dispatch(runtime, { prompt: "go" })
          yield* Deferred.await(begun)
          assert.strictEqual(yield* handle.send("one", { whenHeld: "fork" }), handle)
          assert.strictEqual(yield* handle.send("two", { whenHeld: "supersede" }), handle)
          yield* TestClock.adjust("5 seconds")
          yield* Deferred.succeed(open, undefined)
          const { state } = expect(yield* handle.done, "completed")
          assert.deepStrictEqual(transcript(state).slice(3), ["user: one", "user: two", "assistant: heard"])
          const empty = yield* Effect.flip(handle.send(" "))
          assert.strictEqual((empty as { _tag: string })._tag, "EmptyPrompt")
          const late = yield* Effect.flip(handle.send("three"))
          assert.strictEqual((late as { _tag: string })._tag, "RunEnded")
        })
      )
    )

    it.effect("leaves `explain` of the handle to say that this program, or its lease, drives the run", () =>
      scoped(
        Effect.gen(function* () {
          const { runtime } = yield* bind(Agent.make("a"), [{ hang: true }])
          const handle = yield* dispatch(runtime, { prompt: "go" })
          yield* Effect.repeat(Effect.yieldNow, { until: () => handle.status.current() === "running" })
          for (let times = 0; times < 20; times++) yield* Effect.yieldNow
          const { text } = yield* handle.explain
          assert.match(text, /is running in this program|is driven by/)
          assert.notInclude(text, "Resuming it would")
          yield* handle.cancel("enough")
        })
      )
    )

    it.effect("leaves `explain` of the handle to describe the request", () =>
      scoped(
        Effect.gen(function* () {
          const { runtime } = yield* bind(Agent.make("a", { tools: [probe("write").tool] }), [
            { calls: [call("write", "1")] }
          ])
          const handle = yield* dispatch(runtime, { prompt: "go" })
          only(yield* handle.wait, "approval")
          assert.include((yield* handle.explain).text, "for approval of write")
        })
      )
    )
  })
}
