/**
 * The suite of held and continued runs for any way to keep a run: one test for each row of the design's table.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { RequestId } from "../../src/domain/Id.ts"
import { textOf } from "../../src/domain/Message.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { messages } from "../../src/domain/RunState.ts"
import { open, seal } from "../../src/domain/Seal.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { RunStore } from "../../src/store/RunStore.ts"
import type { RunStoreError } from "../../src/store/RunStoreError.ts"
import type { DataSchema } from "../../src/tool/DataSchema.ts"
import * as Tool from "../../src/tool/Tool.ts"
import {
  approvalOf,
  approve,
  assertValid,
  bind,
  call,
  deny,
  events,
  expect,
  only,
  probe,
  rebind,
  results,
  safe,
  transcript,
  watch
} from "../helpers/Fixture.ts"
import type { Mode } from "./Mode.ts"

/** An agent with a gated tool, held on `write 1` and `write 2`. */
const heldOnTwo = (mode: Mode, ...script: Parameters<typeof bind>[1]) =>
  Effect.gen(function* () {
    const write = probe("write")
    const agent = Agent.make("keeper", { tools: [write.tool] })
    const { runtime, model } = yield* bind(agent, [
      { calls: [call("write", "1"), call("write", "2")] },
      ...script
    ])
    const held = yield* mode.start(runtime, "go")
    return { write, agent, runtime, model, held, first: approvalOf(held, "1"), second: approvalOf(held, "2") }
  })

/** An agent with a gated tool, held on `write 1`. */
const heldOnOne = (mode: Mode, ...script: Parameters<typeof bind>[1]) =>
  Effect.gen(function* () {
    const write = probe("write", { approval: { expiresIn: "1 hour" } })
    const agent = Agent.make("keeper", { tools: [write.tool] })
    const { runtime, model } = yield* bind(agent, [{ calls: [call("write", "1")] }, ...script])
    const held = yield* mode.start(runtime, "go")
    return { write, agent, runtime, model, held, request: only(held, "approval") }
  })

/** The suite for one mode. */
export const interruptSuite = (mode: Mode): void => {
  const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
    it.effect(
      title,
      () => Effect.provide(body, Layer.fresh(mode.layer)) as Effect.Effect<void, unknown | RunStoreError>
    )

  describe(`a held run, ${mode.name}`, () => {
    test(
      "runs two approved calls once each, decided together or one after the other",
      Effect.gen(function* () {
        const together = yield* heldOnTwo(mode, "done")
        assert.strictEqual(expect(together.held, "interrupted").interruptions.length, 2)
        assert.strictEqual(new Set([together.first.requestId, together.second.requestId]).size, 2)
        const both = [approve(together.second), approve(together.first)]
        expect(yield* mode.resume(together.runtime, together.held, { decisions: both }), "completed")
        assert.deepStrictEqual(together.write.ran, ["1", "2"])

        const apart = yield* heldOnTwo(mode, "done")
        const half = yield* mode.resume(apart.runtime, apart.held, {
          decisions: [approve(apart.second, { by: "bob" })]
        })
        assert.strictEqual(only(half, "approval").requestId, apart.first.requestId)
        const done = yield* mode.resume(apart.runtime, half, {
          decisions: [approve(apart.first, { by: "cho" })]
        })
        expect(done, "completed")
        assert.deepStrictEqual(apart.write.ran, ["1", "2"])
        assert.deepStrictEqual(
          done.state.requests.map(({ decision }) => decision?.by),
          ["cho", "bob"]
        )
      })
    )

    test(
      "runs the decided call, and stays held on the other without a model request",
      Effect.gen(function* () {
        const { runtime, held, first, second, write, model } = yield* heldOnTwo(mode, "done")
        const half = yield* mode.resume(runtime, held, { decisions: [approve(first)] })
        assert.deepStrictEqual(write.ran, ["1"])
        assert.strictEqual(only(half, "approval").requestId, second.requestId)
        assert.strictEqual(half.state.status, "held")
        assert.strictEqual(model.requests.length, 1)
        const again = yield* mode.resume(runtime, half)
        assert.strictEqual(only(again, "approval").requestId, second.requestId)
        assert.strictEqual(model.requests.length, 1)
        expect(yield* mode.resume(runtime, again, { decisions: [approve(second)] }), "completed")
        assert.deepStrictEqual(write.ran, ["1", "2"])
        assert.strictEqual(model.requests.length, 2)
      })
    )

    test(
      "runs an approved call with its edited arguments, and refuses invalid ones",
      Effect.gen(function* () {
        const sent: Array<unknown> = []
        const Mail = Schema.Struct({ to: Schema.String, on: Schema.DateFromString })
        const mail = Tool.make("mail", {
          parameters: Mail as unknown as DataSchema<typeof Mail.Type>,
          handler: (args) => {
            sent.push(args)
            return "sent"
          }
        })
        const { runtime, model } = yield* bind(Agent.make("keeper", { tools: [mail] }), [
          { calls: [{ tool: "mail", arguments: { to: "all", on: "2026-01-01T00:00:00.000Z" } }] },
          "done"
        ])
        const held = yield* mode.start(runtime, "go")
        const request = only(held, "approval")
        const wrong = yield* Effect.flip(
          mode.resume(runtime, held, {
            decisions: [approve(request, { arguments: { to: "ann", on: "soon" } })]
          })
        )
        assert.strictEqual(wrong._tag, "EditedArgumentsInvalid")

        const edited = { to: "ann", on: "2026-02-02T00:00:00.000Z" }
        const { updates, onUpdate } = watch()
        const decisions = [approve(request, { arguments: edited, note: "the list is frozen" })]
        const done = expect(yield* mode.resume(runtime, held, { decisions }, { onUpdate }), "completed")
        assert.deepStrictEqual(sent, [{ to: "ann", on: new Date("2026-02-02T00:00:00.000Z") }])
        const [answer] = messages(done.state).filter(({ role }) => role === "assistant")
        assert.deepInclude(answer?.content[0], { name: "mail", arguments: JSON.stringify(edited) })
        // The result informs the model of the edit, directly after the call.
        const said = model.requests[1]?.messages.at(-1)
        assert.deepInclude(said, { role: "tool", callId: request.callId, outcome: "completed" })
        assert.strictEqual(
          said?.role === "tool" ? textOf(said.content) : undefined,
          [
            "ann edited the arguments of this call.",
            'Proposed: {"to":"all","on":"2026-01-01T00:00:00.000Z"}',
            `Approved: ${JSON.stringify(edited)}`,
            "Note: the list is frozen",
            "sent"
          ].join("\n")
        )
        // The request keeps the proposed arguments, and the decision the decided ones.
        const [record] = done.state.requests
        assert.deepInclude(record?.request, { arguments: { to: "all", on: "2026-01-01T00:00:00.000Z" } })
        assert.deepInclude(record?.decision, { arguments: edited })
        assert.isTrue(events(updates).some(({ _tag }) => _tag === "request.decided"))
      })
    )

    test(
      "has the message of a denial as the call's result",
      Effect.gen(function* () {
        const { runtime, held, request, write, model } = yield* heldOnOne(mode, "then not")
        const decisions = [deny(request, { message: "Not in production." })]
        const done = expect(yield* mode.resume(runtime, held, { decisions }), "completed")
        assert.deepStrictEqual(results(done.state), ["write denied: Not in production."])
        assert.strictEqual(done.text, "then not")
        assert.strictEqual(model.requests.length, 2)
        assert.deepStrictEqual(write.ran, [])
      })
    )

    test(
      "informs the model of the note on a denial",
      Effect.gen(function* () {
        const { runtime, held, request, model } = yield* heldOnOne(mode, "then not")
        const decisions = [
          deny(request, { message: "Not in production.", note: "frozen until\u202e Monday" })
        ]
        const done = expect(yield* mode.resume(runtime, held, { decisions }), "completed")
        const said = "write denied: Not in production.\n\nNote: frozen until\\u{202e} Monday"
        assert.deepStrictEqual(results(done.state), [said])
        const last = model.requests[1]?.messages.at(-1)
        assert.strictEqual(last?.role === "tool" ? `write denied: ${textOf(last.content)}` : undefined, said)
      })
    )

    test(
      "allows later calls by a grant, but neither open calls nor those of a sub-agent",
      Effect.gen(function* () {
        const write = probe("write")
        const child = Agent.make("child", { tools: [write.tool] })
        const { runtime } = yield* bind(Agent.make("keeper", { tools: [write.tool], subAgents: [child] }), [
          { calls: [call("write", "1"), call("write", "2")] },
          { calls: [call("write", "3")] },
          { calls: [{ tool: "child", arguments: { prompt: "do" } }] },
          { calls: [call("write", "4")] }
        ])
        const held = yield* mode.start(runtime, "go")
        const grant = { scope: "run", arguments: {} } as const
        const half = yield* mode.resume(runtime, held, {
          decisions: [approve(approvalOf(held, "1"), { grant })]
        })
        assert.deepStrictEqual(only(half, "approval").arguments, { id: "2" })
        assert.deepStrictEqual(write.ran, ["1"])
        const inside = yield* mode.resume(runtime, half, { decisions: [deny(approvalOf(half, "2"))] })
        assert.deepStrictEqual(write.ran, ["1", "3"])
        const request = only(inside, "approval")
        assert.deepStrictEqual([request.agentPath, request.arguments], [["keeper", "child"], { id: "4" }])
        assert.deepInclude(inside.state.grants[0], { tool: "write", by: "ann", inherit: false })
      })
    )

    test(
      "continues after a denial, or is cancelled by a denial that stops",
      Effect.gen(function* () {
        const { runtime, held, first, second, write } = yield* heldOnTwo(mode, "done")
        const half = yield* mode.resume(runtime, held, { decisions: [deny(first)] })
        assert.strictEqual(only(half, "approval").requestId, second.requestId)
        const done = expect(yield* mode.resume(runtime, half, { decisions: [approve(second)] }), "completed")
        assert.deepStrictEqual(results(done.state), [
          "write denied: This call was denied by ann. It has not run.",
          "write completed: write:2"
        ])
        assert.deepStrictEqual(write.ran, ["2"])

        const other = yield* heldOnTwo(mode, "never asked")
        const decisions = [deny(other.first, { then: "stop", message: "enough" })]
        const stopped = expect(yield* mode.resume(other.runtime, other.held, { decisions }), "cancelled")
        assert.strictEqual(stopped.reason, "enough")
        assert.strictEqual(other.model.requests.length, 1)
        assert.deepStrictEqual(other.write.ran, [])
        assertValid(stopped.state)
      })
    )

    test(
      "records a supplied result without running the call",
      Effect.gen(function* () {
        const { runtime, held, request, write } = yield* heldOnOne(mode, "done")
        const { requestId } = request
        const decisions = [{ _tag: "supply", requestId, by: "ann", result: { rows: 3 } } as const]
        const done = expect(yield* mode.resume(runtime, held, { decisions }), "completed")
        assert.deepStrictEqual(results(done.state), ['write supplied: {"rows":3}'])
        assert.deepStrictEqual(write.ran, [])
      })
    )

    test(
      "continues with more turns after its budget of turns is used up",
      Effect.gen(function* () {
        const read = safe("read")
        const agent = Agent.make("keeper", { tools: [read.tool], limits: { maxTurns: 1 } })
        const { runtime, model } = yield* bind(agent, [{ calls: [call("read", "1")] }, "done"])
        const out = yield* mode.start(runtime, "go")
        if (mode.isStored) {
          const request = only(out, "limit")
          assert.deepInclude(request, { budget: "turns", limit: 1, spent: 1 })
          const topUp = (limit: number): DecisionInput => ({
            _tag: "topUp",
            requestId: request.requestId,
            by: "ann",
            limit
          })
          const tooLittle = yield* Effect.flip(mode.resume(runtime, out, { decisions: [topUp(1)] }))
          assert.strictEqual(tooLittle._tag, "DecisionNotApplicable")
          expect(yield* mode.resume(runtime, out, { decisions: [topUp(2)] }), "completed")
        } else {
          const { error } = expect(out, "error")
          assert.deepInclude({ ...error }, { _tag: "BudgetExceeded", budget: "turns", limit: 1, spent: 1 })
          expect(yield* mode.resume(runtime, out, { limits: { maxTurns: 2 } }), "completed")
        }
        assert.deepStrictEqual(read.ran, ["1"])
        assert.strictEqual(model.requests.length, 2)

        const { runtime: mute } = yield* bind(agent, [{ calls: [call("read", "2")] }], { interactive: false })
        assert.strictEqual(expect(yield* mode.start(mute, "go"), "error").error._tag, "BudgetExceeded")
      })
    )

    test(
      "accepts the first of two different decisions on a request, and refuses the second",
      Effect.gen(function* () {
        const { runtime, held, request, write } = yield* heldOnOne(mode, "done")
        const byAnn = approve(request, { by: "ann" })
        const byBob = deny(request, { by: "bob" })
        if (mode.isStored) {
          const store = yield* RunStore
          const [ann, bob] = yield* Effect.all([store.decide(byAnn), Effect.exit(store.decide(byBob))], {
            concurrency: "unbounded"
          })
          assert.deepInclude(ann.decision, { _tag: "approve", by: "ann" })
          const refused = yield* Effect.flip(bob)
          assert.deepInclude({ ...refused }, { _tag: "AlreadyDecided", by: "ann" })
          assert.deepInclude(refused._tag === "AlreadyDecided" ? refused.decision : {}, { _tag: "approve" })
          expect(yield* mode.resume(runtime, held), "completed")
        } else {
          const both = yield* Effect.flip(mode.resume(runtime, held, { decisions: [byAnn, byBob] }))
          assert.deepInclude({ ...both }, { _tag: "AlreadyDecided", by: "ann" })
          assert.deepStrictEqual(write.ran, [])
          expect(yield* mode.resume(runtime, held, { decisions: [byAnn] }), "completed")
        }
        assert.deepStrictEqual(write.ran, ["1"])
      })
    )

    test(
      "refuses a decision that has already been carried out",
      Effect.gen(function* () {
        const { runtime, held, first, write } = yield* heldOnTwo(mode, "done")
        const half = yield* mode.resume(runtime, held, { decisions: [approve(first)] })
        const again = yield* Effect.flip(mode.resume(runtime, half, { decisions: [approve(first)] }))
        assert.deepInclude({ ...again }, { _tag: "AlreadyDecided", by: "ann" })
        assert.deepStrictEqual(write.ran, ["1"])
      })
    )

    test(
      "refuses an unknown, foreign, decided or superseded request id",
      Effect.gen(function* () {
        const { runtime, held, first, second, write } = yield* heldOnTwo(mode, "done")
        const requestId = `${held.runId}.r99` as RequestId
        const unknown = yield* Effect.flip(
          mode.resume(runtime, held, { decisions: [{ ...approve(first), requestId }] })
        )
        assert.deepInclude({ ...unknown }, { _tag: "RequestNotFound", requestId })

        const other = yield* heldOnOne(mode, "done")
        const foreign = yield* Effect.flip(
          mode.resume(runtime, held, { decisions: [approve(other.request)] })
        )
        assert.strictEqual(foreign._tag, "RequestNotFound")
        assert.deepStrictEqual(other.write.ran, [])

        const decisions = [deny(first, { then: "stop" })]
        const stopped = yield* mode.resume(runtime, held, { decisions })
        const consumed = yield* Effect.flip(mode.resume(runtime, stopped, { decisions }))
        assert.strictEqual(consumed._tag, "AlreadyDecided")
        const stale = yield* Effect.flip(mode.resume(runtime, stopped, { decisions: [approve(second)] }))
        assert.strictEqual(stale._tag, "RequestSuperseded")
        assert.deepStrictEqual(write.ran, [])
      })
    )

    test(
      "takes neither a prompt nor a malformed value for a decision",
      Effect.gen(function* () {
        const { runtime, held, request, write, model } = yield* heldOnOne(mode, "done")
        const again = yield* mode.resume(runtime, held)
        assert.strictEqual(only(again, "approval").requestId, request.requestId)
        const said = yield* mode.resume(runtime, again, { prompt: "yes, do it" })
        assert.strictEqual(only(said, "approval").requestId, request.requestId)
        for (const bare of [
          "yes",
          true,
          null,
          ["approve"],
          { _tag: "approve" },
          { requestId: request.requestId }
        ]) {
          const decisions = [bare as unknown as DecisionInput]
          const error = yield* Effect.flip(mode.resume(runtime, said, { decisions }))
          assert.strictEqual(error._tag, "DecisionMalformed")
        }
        assert.deepStrictEqual(write.ran, [])
        assert.strictEqual(model.requests.length, 1)
      })
    )

    if (mode.isStored) {
      test(
        "is continued by one process while a second one fails with RunBusy",
        Effect.gen(function* () {
          const begun = yield* Deferred.make<void>()
          const finish = yield* Deferred.make<void>()
          const write = probe("write", {
            handler: () =>
              Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(finish)), "ok")
          })
          const agent = Agent.make("keeper", { tools: [write.tool] })
          const { runtime: one, model } = yield* bind(agent, [{ calls: [call("write", "1")] }, "done"], {
            owner: "one"
          })
          const { runtime: two } = yield* rebind(agent, model, { owner: "two" })
          const held = yield* mode.start(one, "go")
          const decisions = [approve(approvalOf(held, "1"))]
          const winner = yield* Effect.forkChild(mode.resume(one, held, { decisions }))
          yield* Deferred.await(begun)
          const loser = yield* Effect.flip(mode.resume(two, held))
          assert.strictEqual(loser._tag, "RunBusy")
          if (loser._tag === "RunBusy") {
            assert.strictEqual(loser.owner, "one")
            assert.isAbove(loser.until, 0)
          }
          yield* Deferred.succeed(finish, undefined)
          expect(yield* Fiber.join(winner), "completed")
          assert.strictEqual(expect(yield* mode.resume(two, held), "completed").text, "done")
          assert.deepStrictEqual(write.ran, ["1"])
          assert.strictEqual(model.requests.length, 2)
        })
      )
    }

    test(
      "refuses a decision with another digest than its request's",
      Effect.gen(function* () {
        const { runtime, held, request, write } = yield* heldOnOne(mode, "done")
        const decisions = [approve(request, { digest: "0".repeat(64) })]
        const error = yield* Effect.flip(mode.resume(runtime, held, { decisions }))
        assert.deepInclude({ ...error }, { _tag: "ArgumentsChanged", expected: request.digest })
        assert.deepStrictEqual(write.ran, [])
        expect(yield* mode.resume(runtime, held, { decisions: [approve(request)] }), "completed")
      })
    )

    test(
      "queues a prompt until its call is decided",
      Effect.gen(function* () {
        const { runtime, held, request, model } = yield* heldOnOne(mode, "done")
        const queued = yield* mode.resume(runtime, held, { prompt: "and hurry" })
        assert.strictEqual(only(queued, "approval").requestId, request.requestId)
        assert.strictEqual(queued.state.queued.length, 1)
        assert.strictEqual(model.requests.length, 1)
        const done = yield* mode.resume(runtime, queued, { decisions: [approve(request)] })
        assert.deepStrictEqual(transcript(expect(done, "completed").state), [
          "user: go",
          "assistant: (write)",
          "tool: write:1",
          "user: and hurry",
          "assistant: done"
        ])
        assertValid(done.state)
      })
    )

    test(
      "continues a held sub-agent where it stopped",
      Effect.gen(function* () {
        const read = safe("read")
        const write = probe("write")
        const child = Agent.make("child", { tools: [read.tool, write.tool] })
        const { runtime, model } = yield* bind(Agent.make("keeper", { subAgents: [child] }), [
          { calls: [{ tool: "child", arguments: { prompt: "do" } }] },
          { calls: [call("read", "1"), call("write", "2")] },
          "child done",
          "done"
        ])
        const held = yield* mode.start(runtime, "go")
        const request = only(held, "approval")
        assert.deepStrictEqual(request.agentPath, ["keeper", "child"])
        const { updates, onUpdate } = watch()
        const decisions = [approve(request)]
        const done = expect(yield* mode.resume(runtime, held, { decisions }, { onUpdate }), "completed")
        assert.deepStrictEqual([read.ran, write.ran], [["1"], ["2"]])
        assert.strictEqual(model.requests.length, 4)
        assert.deepStrictEqual(results(done.state), ["child completed: child done"])
        const started = events(updates).filter((event) => unwrap(event).event._tag === "tool.started")
        assert.strictEqual(started.length, 1)
      })
    )

    test(
      "denies a request that expires, unless its tool sets `onExpiry` to `stay`",
      Effect.gen(function* () {
        const { runtime, held, request, write } = yield* heldOnOne(mode, "done")
        yield* TestClock.adjust("1 hour")
        const late = yield* Effect.flip(mode.resume(runtime, held, { decisions: [approve(request)] }))
        assert.deepInclude({ ...late }, { _tag: "AlreadyDecided", by: "expiry" })
        const done = expect(yield* mode.resume(runtime, held), "completed")
        assert.deepInclude(done.state.requests[0]?.decision, { _tag: "deny", by: "expiry" })
        assert.include(results(done.state)[0], "write denied: Nobody decided before")
        assert.deepStrictEqual(write.ran, [])

        const stay = probe("write", { approval: { expiresIn: "1 hour", onExpiry: "stay" } })
        const { runtime: patient } = yield* bind(Agent.make("keeper", { tools: [stay.tool] }), [
          { calls: [call("write", "1")] },
          "done"
        ])
        const waiting = yield* mode.start(patient, "go")
        yield* TestClock.adjust("2 hours")
        const decisions = [approve(only(waiting, "approval"))]
        expect(yield* mode.resume(patient, waiting, { decisions }), "completed")
        assert.deepStrictEqual(stay.ran, ["1"])
      })
    )

    test(
      "continues from its sealed state, and a changed seal fails with SealBroken",
      Effect.gen(function* () {
        const { runtime, held, request } = yield* heldOnOne(mode, "done")
        const key = { id: "k1", secret: Redacted.make("0123456789abcdef0123456789abcdef") }
        const sealed = yield* seal(held.state, key)
        const [head, id, payload, mac] = sealed.split(".")
        const forged = btoa(
          atob(payload!.replaceAll("-", "+").replaceAll("_", "/")).replace('"id":"1"', '"id":"9"')
        )
          .replaceAll("+", "-")
          .replaceAll("/", "_")
          .replaceAll("=", "")
        assert.notStrictEqual(forged, payload)
        const tampered = yield* Effect.flip(open([head, id, forged, mac].join("."), [key]))
        assert.strictEqual(tampered._tag, "SealBroken")
        const state = yield* open(sealed, [key])
        assert.deepStrictEqual(state, held.state)
        expect(yield* runPrompt(runtime, { state, decisions: [approve(request)] }), "completed")
      })
    )

    test(
      "stays as it was when a decision is refused",
      Effect.gen(function* () {
        const { runtime, held, first, second, write } = yield* heldOnTwo(mode, "done")
        const wrong = [{ _tag: "answer", requestId: second.requestId, by: "ann", answer: "yes" } as const]
        for (const decisions of [wrong, [approve(first), ...wrong]]) {
          const error = yield* Effect.flip(mode.resume(runtime, held, { decisions }))
          assert.strictEqual(error._tag, "DecisionNotApplicable")
        }
        assert.deepStrictEqual(write.ran, [])
        const again = expect(yield* mode.resume(runtime, held), "interrupted")
        assert.strictEqual(again.interruptions.length, 2)
        const done = yield* mode.resume(runtime, held, { decisions: [approve(first), approve(second)] })
        expect(done, "completed")
      })
    )
  })
}
