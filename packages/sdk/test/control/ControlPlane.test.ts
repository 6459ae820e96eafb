import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import * as ControlPlane from "../../src/control/ControlPlane.ts"
import * as RunStore from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { assertSound, eventsSoFar, tagsSoFar, untilEvent, untilSaved } from "./following.ts"

const paid: Array<string> = []
const pay = Tool.make("pay", { handler: () => "paid" })
const clerk = Agent.make("clerk", { tools: [pay] })

/** A tool that runs until it is let go. */
const waitingTool = Effect.gen(function* () {
  const begun = yield* Deferred.make<void>()
  const go = yield* Deferred.make<void>()
  const wait = Tool.make("wait", {
    safety: "readOnly",
    handler: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.as(Deferred.await(go), "waited"))
  })
  return { begun, go, wait }
})

type Script = Parameters<typeof ScriptedModel.make>[0]

const planeOf = (agent: Agent.Any, script: Script, options: ControlPlane.ControlOptions = {}) =>
  Effect.flatMap(
    Effect.provide(Runtime.make({ agent: agent as Agent.Agent }), ScriptedModel.make(script).layer),
    (runtime) => ControlPlane.make({ ...options, agents: [runtime] })
  )

const submitted = (plane: ControlPlane.Shape, prompt: string, more: object = {}) =>
  Effect.map(plane.submit({ _tag: "SubmitPrompt", prompt, ...more }), (acknowledgement) => {
    assert.include(["TaskStarted", "TaskQueued"], acknowledgement._tag)
    return acknowledgement as Extract<typeof acknowledgement, { readonly _tag: "TaskStarted" | "TaskQueued" }>
  })

const approvalOf = (plane: ControlPlane.Shape, from = 1) =>
  Effect.map(untilEvent(plane, "tool.approvalRequired", from), ({ event }) =>
    event._tag === "tool.approvalRequired" ? event.request.requestId : assert.fail()
  )

const suite = (name: string, isStored: boolean) => {
  const test = <E>(title: string, body: () => Effect.Effect<void, E, Scope.Scope>) =>
    it.effect(title, () => (isStored ? Effect.provide(body(), RunStore.layerMemory) : body()))

  describe(`ControlPlane ${name}`, () => {
    test("publishes the events of a prompt in order, from its start to its one terminal event", () =>
      Effect.gen(function* () {
        const plane = yield* planeOf(clerk, [{ text: "Hello there", chunkSize: 5 }])
        yield* submitted(plane, "Hi")
        yield* untilSaved(plane)
        const events = yield* eventsSoFar(plane)
        assertSound(events)
        assert.deepStrictEqual(
          events.map(({ event }) => event._tag),
          [
            "lifecycle.started",
            "lifecycle.configurationLoaded",
            "session.created",
            "task.started",
            "model.requestStarted",
            "model.textDelta",
            "model.textDelta",
            "model.messageFinal",
            "metrics.tokenUsage",
            "metrics.contextUsage",
            "metrics.phaseDurations",
            "task.completed",
            "session.saved"
          ]
        )
      }))

    test("asks for an approval, runs the call after the decision, and completes", () =>
      Effect.gen(function* () {
        const plane = yield* planeOf(clerk, [{ calls: [{ tool: "pay" }] }, "It is paid."])
        yield* submitted(plane, "Pay")
        const approvalId = yield* approvalOf(plane)
        const answer = yield* plane.submit(
          { _tag: "Approve", approvalId, decision: { _tag: "approve" } },
          { by: "ana" }
        )
        assert.strictEqual(answer._tag, "Decided")
        yield* untilSaved(plane)
        const events = yield* eventsSoFar(plane)
        assertSound(events)
        const tags = events.map(({ event }) => event._tag)
        for (const tag of [
          "task.waitingApproval",
          "task.continued",
          "tool.approvalSettled",
          "tool.started",
          "tool.completed",
          "task.progress"
        ] as const)
          assert.include(tags, tag)
        const progress = events.map(({ event }) => event).find(({ _tag }) => _tag === "task.progress")
        assert.strictEqual(progress?._tag === "task.progress" && progress.text, "[1/1] running pay")
      }))

    test("`SubmitPrompt` is rejected if a prompt task is already active.", () =>
      Effect.gen(function* () {
        const plane = yield* planeOf(clerk, [{ calls: [{ tool: "pay" }] }, "Paid.", "Second."])
        const { taskId } = yield* submitted(plane, "Pay")
        yield* approvalOf(plane)
        const error = yield* Effect.flip(plane.submit({ _tag: "SubmitPrompt", prompt: "And?" }))
        assert.strictEqual(error._tag, "TaskActive")
        assert.strictEqual(error._tag === "TaskActive" && error.taskId, taskId)
      }))

    test("queues a second prompt if asked, and starts it when the first task has ended", () =>
      Effect.gen(function* () {
        const plane = yield* planeOf(clerk, [{ calls: [{ tool: "pay" }] }, "Paid.", "Second."])
        yield* submitted(plane, "Pay")
        const approvalId = yield* approvalOf(plane)
        const second = yield* submitted(plane, "And?", { whenActive: "queue" })
        assert.strictEqual(second._tag, "TaskQueued")
        yield* plane.submit({ _tag: "Approve", approvalId, decision: { _tag: "approve" } })
        const done = yield* untilEvent(
          plane,
          (event) => event._tag === "task.completed" && event.taskId === second.taskId
        )
        assert.strictEqual(done.event._tag === "task.completed" && done.event.text, "Second.")
        assertSound(yield* eventsSoFar(plane))
      }))

    test("`CancelTask` only applies to the currently active task id.", () =>
      Effect.gen(function* () {
        const { begun, wait } = yield* waitingTool
        const plane = yield* planeOf(Agent.make("waiter", { tools: [wait] }), [
          { calls: [{ tool: "wait" }] },
          "Done."
        ])
        const { taskId } = yield* submitted(plane, "Wait")
        yield* Deferred.await(begun)
        const error = yield* Effect.flip(plane.submit({ _tag: "CancelTask", taskId: "run_other" as never }))
        assert.strictEqual(error._tag, "TaskNotActive")
        yield* plane.submit({ _tag: "CancelTask", taskId, reason: "enough" })
        const end = yield* untilEvent(plane, "task.cancelled")
        assert.strictEqual(end.event._tag === "task.cancelled" && end.event.reason, "enough")
        const late = yield* Effect.flip(plane.submit({ _tag: "CancelTask", taskId }))
        assert.strictEqual(late._tag, "TaskNotActive")
        const events = yield* eventsSoFar(plane)
        assertSound(events)
        assert.include(
          events.map(({ event }) => event._tag),
          "task.cancelling"
        )
      }))

    test("`SwitchModel` is rejected while a task is running.", () =>
      Effect.gen(function* () {
        const { begun, go, wait } = yield* waitingTool
        const plane = yield* planeOf(Agent.make("waiter", { tools: [wait] }), [
          { calls: [{ tool: "wait" }] },
          "Done."
        ])
        yield* submitted(plane, "Wait")
        yield* Deferred.await(begun)
        const error = yield* Effect.flip(plane.submit({ _tag: "SwitchModel", profile: "large" }))
        assert.strictEqual(error._tag, "TaskActive")
        yield* Deferred.succeed(go, undefined)
        yield* untilEvent(plane, "task.completed")
        const answer = yield* plane.submit({ _tag: "SwitchModel", profile: "large" })
        assert.strictEqual(answer._tag === "Reconfigured" && answer.configuration.model, "large")
        assert.include(yield* tagsSoFar(plane), "model.profileSwitched")
      }))

    test("takes a command once for its id, and refuses another one with that id", () =>
      Effect.gen(function* () {
        const plane = yield* planeOf(clerk, ["One.", "Two."])
        const command = { _tag: "SubmitPrompt", prompt: "Hi", commandId: "c1" } as const
        const first = yield* plane.submit(command)
        const again = yield* plane.submit(command)
        assert.strictEqual(again.repeated, true)
        assert.deepStrictEqual({ ...again, repeated: undefined }, { ...first, repeated: undefined })
        const other = yield* Effect.flip(plane.submit({ ...command, prompt: "Other" }))
        assert.strictEqual(other._tag, "CommandIdTaken")
        yield* untilSaved(plane)
        assert.strictEqual((yield* tagsSoFar(plane)).filter((tag) => tag === "task.started").length, 1)
      }))

    test("refuses what is no command with a sentence, and loses nothing", () =>
      Effect.gen(function* () {
        const plane = yield* planeOf(clerk, ["Hello."])
        for (const wrong of [
          undefined,
          null,
          "SubmitPrompt",
          {},
          { _tag: "SubmitPromt", prompt: "x" },
          { _tag: "SubmitPrompt" },
          { _tag: "SubmitPrompt", prompt: "x", whenBusy: "queue" },
          { _tag: "SubmitPrompt", prompt: "x", v: 2 },
          { _tag: "CancelTask", taskId: 3 },
          { _tag: "SetApprovalPolicy", policy: { mode: "until" } },
          { _tag: "SetApprovalPolicy", policy: { mode: "all", until: 3 } }
        ]) {
          const error = yield* Effect.flip(plane.submit(wrong as never))
          assert.strictEqual(error._tag, "CommandInvalid", JSON.stringify(wrong))
        }
        const blank = yield* Effect.flip(plane.submit({ _tag: "SubmitPrompt", prompt: " " }))
        assert.strictEqual(blank._tag === "CommandFailed" && blank.reason, "EmptyPrompt")
        yield* submitted(plane, "Hi")
        yield* untilEvent(plane, "task.completed")
      }))

    test("if policy is `ask`, runtime emits `TaskEvent::WaitingApproval` and tracks a pending approval id", () =>
      Effect.gen(function* () {
        const plane = yield* planeOf(clerk, [{ calls: [{ tool: "pay" }] }, "Paid."], {
          policy: { mode: "ask" }
        })
        yield* submitted(plane, "Pay")
        const waiting = yield* untilEvent(plane, "task.waitingApproval")
        const { sessions } = yield* plane.snapshot
        assert.strictEqual(sessions[0]?.task?.status, "waitingApproval")
        const pending = sessions[0]?.task?.requests.map(({ requestId }) => requestId)
        assert.deepStrictEqual(
          waiting.event._tag === "task.waitingApproval" && waiting.event.requests,
          pending
        )
      }))

    for (const mode of ["all", "none", "until"] as const)
      test(`if policy is auto-resolving (\`all\`, \`none\`, or active \`until\`), request is resolved immediately: ${mode}`, () =>
        Effect.gen(function* () {
          const plane = yield* planeOf(clerk, [{ calls: [{ tool: "pay" }] }, "Done."])
          const policy = mode === "until" ? { mode, until: 60_000 } : { mode }
          yield* plane.submit({ _tag: "SetApprovalPolicy", policy })
          yield* submitted(plane, "Pay")
          yield* untilSaved(plane)
          const events = (yield* eventsSoFar(plane)).map(({ event }) => event)
          assert.notInclude(
            events.map(({ _tag }) => _tag),
            "task.waitingApproval"
          )
          const result = events.find(({ _tag }) => _tag === "tool.completed")
          assert.strictEqual(
            result?._tag === "tool.completed" && result.outcome,
            mode === "none" ? "denied" : "completed"
          )
          const changed = events.find(({ _tag }) => _tag === "task.policyChanged")
          assert.deepStrictEqual(changed?._tag === "task.policyChanged" && changed.policy, policy)
        }))

    test("frontend sends `RuntimeCommand::Approve { approval_id, decision }`: any decision that fits, once", () =>
      Effect.gen(function* () {
        const plane = yield* planeOf(clerk, [{ calls: [{ tool: "pay" }] }, "I see."])
        yield* submitted(plane, "Pay")
        const approvalId = yield* approvalOf(plane)
        const wrong = yield* Effect.flip(
          plane.submit({ _tag: "Approve", approvalId, decision: { _tag: "answer", answer: "yes" } })
        )
        assert.strictEqual(wrong._tag, "DecisionNotApplicable")
        const unknown = yield* Effect.flip(
          plane.submit({ _tag: "Approve", approvalId: "run_x.r1" as never, decision: { _tag: "approve" } })
        )
        assert.strictEqual(unknown._tag, "RequestNotFound")
        yield* plane.submit({ _tag: "Approve", approvalId, decision: { _tag: "deny", message: "No." } })
        yield* untilSaved(plane)
        const late = yield* Effect.flip(
          plane.submit({ _tag: "Approve", approvalId, decision: { _tag: "approve" } })
        )
        assert.strictEqual(late._tag, "RequestNotFound")
      }))

    test("runtime resolves the pending request and emits warning event for decision outcome", () =>
      Effect.gen(function* () {
        const plane = yield* planeOf(clerk, [{ calls: [{ tool: "pay" }] }, "I see."])
        yield* submitted(plane, "Pay")
        const approvalId = yield* approvalOf(plane)
        yield* plane.submit({ _tag: "Approve", approvalId, decision: { _tag: "deny" } }, { by: "ana" })
        const { event } = yield* untilEvent(
          plane,
          (event) => event._tag === "warning.raised" && event.code === "requestDecided"
        )
        assert.strictEqual(
          event._tag === "warning.raised" && event.message,
          `The request ${approvalId} was decided (deny) by ana.`
        )
      }))

    test("if an approval request arrives with no active task context, runtime denies it.", () =>
      Effect.gen(function* () {
        const asking = yield* Deferred.make<void>()
        const go = yield* Deferred.make<void>()
        const slow = Tool.make("slow", {
          needsApproval: () =>
            Effect.andThen(Deferred.succeed(asking, undefined), Effect.as(Deferred.await(go), true)),
          handler: () => {
            paid.push("slow")
            return "ran"
          }
        })
        const plane = yield* planeOf(Agent.make("slow", { tools: [slow] }), [
          { calls: [{ tool: "slow" }] },
          "Done."
        ])
        const { taskId } = yield* submitted(plane, "Go")
        yield* Deferred.await(asking)
        yield* plane.submit({ _tag: "CancelTask", taskId })
        yield* Deferred.succeed(go, undefined)
        yield* untilSaved(plane)
        assert.deepStrictEqual(paid, [])
        const { sessions } = yield* plane.snapshot
        assert.isUndefined(sessions[0]?.task)
        assertSound(yield* eventsSoFar(plane))
      }))

    test("changes the policy of a run at work with an event in its journal, and leaves open requests open", () =>
      Effect.gen(function* () {
        const plane = yield* planeOf(clerk, [
          { calls: [{ tool: "pay" }] },
          { calls: [{ tool: "pay" }] },
          "Paid twice."
        ])
        const { taskId } = yield* submitted(plane, "Pay")
        const approvalId = yield* approvalOf(plane)
        yield* untilEvent(plane, "task.waitingApproval")
        const set = yield* plane.submit({ _tag: "SetApprovalPolicy", policy: { mode: "all" } }, { by: "ana" })
        assert.deepStrictEqual(set._tag === "PolicySet" && set.tasks, [taskId])
        const { event, journal } = yield* untilEvent(plane, "task.policyChanged")
        assert.strictEqual(event._tag === "task.policyChanged" && event.by, "ana")
        assert.strictEqual(journal?.runId, taskId)
        assert.strictEqual((yield* plane.snapshot).sessions[0]?.task?.requests[0]?.requestId, approvalId)
        yield* plane.submit({ _tag: "Approve", approvalId, decision: { _tag: "approve" } })
        yield* untilSaved(plane)
        const tags = yield* tagsSoFar(plane)
        assert.strictEqual(tags.filter((tag) => tag === "tool.approvalRequired").length, 1)
        assert.strictEqual(tags.filter((tag) => tag === "tool.started").length, 2)
      }))

    test("SessionNew persists the current active snapshot, resets the in-memory agent session, creates and activates a new session id", () =>
      Effect.gen(function* () {
        const plane = yield* planeOf(clerk, ["One.", "Two."])
        const first = yield* submitted(plane, "Hi")
        const { seq } = yield* untilSaved(plane)
        const opened = yield* plane.submit({ _tag: "SessionNew", title: "Second" })
        const { sessionId } = opened as Extract<typeof opened, { readonly _tag: "SessionOpened" }>
        assert.notStrictEqual(sessionId, first.sessionId)
        const saved = yield* untilSaved(plane, seq + 1)
        assert.strictEqual(saved.event._tag === "session.saved" && saved.event.sessionId, first.sessionId)
        const snapshot = yield* plane.snapshot
        assert.strictEqual(snapshot.activeSessionId, sessionId)
        const second = yield* submitted(plane, "Hi again")
        assert.strictEqual(second.sessionId, sessionId)
        yield* untilEvent(plane, (event) => event._tag === "task.completed" && event.sessionId === sessionId)
      }))

    test("SessionResume loads the requested snapshot into the agent and refresh-saves the resumed snapshot", () =>
      Effect.gen(function* () {
        const seen: Array<number> = []
        const plane = yield* planeOf(clerk, [
          "One.",
          "Other.",
          ({ messages }) => {
            seen.push(messages.length)
            return "Three."
          }
        ])
        const first = yield* submitted(plane, "Hi")
        yield* untilSaved(plane)
        yield* plane.submit({ _tag: "SessionNew" })
        const other = yield* submitted(plane, "Something else")
        yield* untilEvent(plane, (event) => event._tag === "task.completed" && event.taskId === other.taskId)
        const { seq } = yield* plane.snapshot
        yield* plane.submit({ _tag: "SessionResume", sessionId: first.sessionId })
        const resumed = yield* untilEvent(plane, "session.resumed", seq + 1)
        yield* untilEvent(
          plane,
          (event) => event._tag === "session.saved" && event.sessionId === first.sessionId,
          resumed.seq
        )
        const third = yield* submitted(plane, "And now?")
        assert.strictEqual(third.sessionId, first.sessionId)
        yield* untilEvent(plane, (event) => event._tag === "task.completed" && event.taskId === third.taskId)
        assert.deepStrictEqual(seen, [3])
        const missing = yield* Effect.flip(
          plane.submit({ _tag: "SessionResume", sessionId: "s_none" as never })
        )
        assert.strictEqual(missing._tag, "SessionNotFound")
      }))

    test("lists, renames, resumes last and deletes sessions", () =>
      Effect.gen(function* () {
        const plane = yield* planeOf(clerk, ["One.", "Two.", "Three."])
        const none = yield* Effect.flip(plane.submit({ _tag: "SessionResumeLast" }))
        assert.strictEqual(none._tag, "SessionNotFound")
        const first = yield* submitted(plane, "Hi")
        yield* untilSaved(plane)
        yield* plane.submit({ _tag: "SessionRename", title: "Greetings" })
        const again = yield* submitted(plane, "Again")
        yield* untilEvent(plane, (event) => event._tag === "task.completed" && event.taskId === again.taskId)
        const opened = yield* plane.submit({ _tag: "SessionResumeLast" })
        assert.strictEqual(opened._tag === "SessionOpened" && opened.sessionId, first.sessionId)
        const listed = yield* plane.submit({ _tag: "SessionList" })
        assert.deepStrictEqual(
          listed._tag === "SessionsListed" &&
            listed.sessions.map(({ lastTaskId, status, title }) => ({ lastTaskId, status, title })),
          [{ lastTaskId: again.taskId, status: "completed", title: "Greetings" }]
        )
        yield* plane.submit({ _tag: "SessionDelete", sessionId: first.sessionId })
        const after = yield* plane.submit({ _tag: "SessionList" })
        assert.deepStrictEqual(after._tag === "SessionsListed" && after.sessions, [])
        const gone = yield* Effect.flip(plane.submit({ _tag: "SessionDelete", sessionId: first.sessionId }))
        assert.strictEqual(gone._tag, "SessionNotFound")
        const tags = yield* tagsSoFar(plane)
        for (const tag of ["session.renamed", "session.resumed", "session.deleted"] as const)
          assert.include(tags, tag)
      }))

    test("after each task completion, runtime attempts to save active session snapshot", () =>
      Effect.gen(function* () {
        const plane = yield* planeOf(clerk, ["One."])
        const { taskId } = yield* submitted(plane, "Hi")
        const { event } = yield* untilSaved(plane)
        assert.deepInclude(event, { family: "Session", stored: isStored, taskId })
      }))

    test("`Shutdown` denies pending approvals and signals cancellation for active work.", () =>
      Effect.gen(function* () {
        const { begun, wait } = yield* waitingTool
        const agent = Agent.make("both", { tools: [pay, wait] })
        const plane = yield* planeOf(agent, [{ calls: [{ tool: "pay" }] }, { calls: [{ tool: "wait" }] }])
        const held = yield* submitted(plane, "Pay")
        yield* untilEvent(plane, "task.waitingApproval")
        yield* plane.submit({ _tag: "SessionNew" })
        const running = yield* submitted(plane, "Wait")
        const queued = yield* submitted(plane, "Later", { whenActive: "queue" })
        yield* Deferred.await(begun)
        const answer = yield* plane.submit({ _tag: "Shutdown", reason: "closing" })
        assert.strictEqual(answer._tag, "Stopped")
        const events = yield* Stream.runCollect(plane.events())
        assertSound(events)
        const ends = new Map(
          events.flatMap(({ event }) =>
            event.family === "Task" && "taskId" in event ? [[event.taskId, event._tag] as const] : []
          )
        )
        assert.strictEqual(ends.get(held.taskId), isStored ? "task.suspended" : "task.cancelled")
        assert.strictEqual(ends.get(running.taskId), "task.cancelled")
        assert.strictEqual(ends.get(queued.taskId), "task.cancelled")
        const settled = events.map(({ event }) => event).filter(({ _tag }) => _tag === "tool.approvalSettled")
        assert.strictEqual(settled.length, isStored ? 0 : 1)
        assert.strictEqual(events.at(-1)?.event._tag, "lifecycle.stopped")
        const late = yield* Effect.flip(plane.submit({ _tag: "SessionNew" }))
        assert.strictEqual(late._tag, "RuntimeStopped")
      }))
  })
}

suite("without a store", false)
suite("with a store", true)
