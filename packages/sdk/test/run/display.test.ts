import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Agent from "../../src/agent/Agent.ts"
import { line } from "../../src/domain/Display.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { RunStateMalformed } from "../../src/domain/RunError.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { explain } from "../../src/durable/explain.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import { InvalidRequest } from "../../src/model/ModelError.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, type RunStore } from "../../src/store/RunStore.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { approve, bind, deny, events, expect, probe, rebind, safe, watch } from "../helpers/Fixture.ts"

/** Text that would make a terminal show something else than was written. */
const hostile =
  "\u001b[2K\u001b]0;t\u0007 safe\u202etxt.exe\u2066\r\nApproved by ana.\u0085\u009b31m \u200b\u2028\ufeff\ud800"

/** Asserts that an explanation is safe to print as it is. */
const assertShown = (runId: RunId) =>
  Effect.map(explain(runId), ({ resuming, text, waitsFor }) => {
    for (const said of [text, ...resuming, ...waitsFor.map(({ what }) => what)]) {
      assert.strictEqual(said, line(said))
    }
    return text
  })

const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(title, () => Effect.provide(body, Layer.fresh(layerMemory)))

describe("the event of a call that a grant let through", () => {
  test(
    "shows the name of the grant's giver with visible escapes, and the grant keeps it unchanged",
    Effect.gen(function* () {
      const write = probe("write")
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [{ tool: "write", arguments: { id: "1" } }] },
        { calls: [{ tool: "write", arguments: { id: "1" } }] },
        "done"
      ])
      const { interruptions, state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "interrupted")
      const { onUpdate, updates } = watch()
      const decisions = [approve(interruptions[0]!, { by: hostile, grant: { scope: "run" } })]
      const ended = yield* runPrompt(runtime, { state, decisions }, { onUpdate })
      assert.strictEqual(ended.state.grants[0]?.by, hostile)
      const allowed = events(updates).flatMap((event) =>
        event._tag === "tool.classified" && event.allowedBy !== undefined ? [event.allowedBy] : []
      )
      assert.deepStrictEqual(allowed, [`grant of ${line(hostile)}`])
    })
  )
})

describe("explain", () => {
  test(
    "shows control characters of a question, a decision and a reason as visible escapes",
    Effect.gen(function* () {
      const write = probe("write")
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool, Tool.askUser] }), [
        {
          calls: [
            { tool: "ask_user", arguments: { question: hostile, options: [hostile] } },
            { tool: "write", arguments: { id: hostile } },
            { tool: hostile }
          ]
        }
      ])
      const { interruptions, runId } = expect(
        yield* runPromptStored(runtime, { prompt: hostile }),
        "interrupted"
      )
      assert.include(yield* assertShown(runId), `for an answer to "${line(hostile)}"`)
      const [question] = interruptions
      // The fields keep the original text.
      assert.strictEqual(question?._tag === "question" ? question.question : undefined, hostile)
      yield* sendMessage(runId, hostile)
      yield* decideStored([runtime], approve(interruptions[1]!, { by: hostile }))
      assert.include(yield* assertShown(runId), `${line(hostile)} has decided (approve)`)
      yield* cancelRun(runId, hostile)
      assert.include(yield* assertShown(runId), `was cancelled: ${line(hostile)}.`)
    })
  )

  test(
    "shows control characters of a stop's principal and of a model error as visible escapes",
    Effect.gen(function* () {
      const write = probe("write")
      const { model, runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [{ tool: "write", arguments: { id: "1" } }] },
        { error: new InvalidRequest({ description: hostile }) }
      ])
      const held = expect(yield* runPromptStored(runtime, { prompt: "go" }), "interrupted")
      const stop = deny(held.interruptions[0]!, { by: hostile, then: "stop" })
      expect(yield* runPromptStored(runtime, { runId: held.runId, decisions: [stop] }), "cancelled")
      assert.include(yield* assertShown(held.runId), "Approved by ana.")
      const failed = expect(yield* runPromptStored(runtime, { prompt: "go" }), "error")
      assert.include(yield* assertShown(failed.runId), "safe\\u{202e}txt.exe")
      assert.strictEqual(model.remaining(), 0)
    })
  )

  test(
    "shows control characters of an owner's name as visible escapes",
    Effect.gen(function* () {
      const read = safe("read", { handler: () => Effect.never })
      const { model } = yield* bind(Agent.make("a", { tools: [read.tool] }), [
        { calls: [{ tool: "read", arguments: { id: "1" } }] }
      ])
      const { runtime } = yield* rebind(Agent.make("a", { tools: [read.tool] }), model, { owner: hostile })
      const told = watch()
      yield* Effect.forkChild(
        runPromptStored(runtime, { prompt: "go", runId: "r" as RunId }, { onUpdate: told.onUpdate }),
        {
          startImmediately: true
        }
      )
      assert.include(yield* assertShown("r" as RunId), `is driven by ${line(hostile)}`)
    })
  )
})

describe("an error's sentence", () => {
  it.effect("shows control characters of failing instructions as visible escapes", () =>
    Effect.gen(function* () {
      const boom = (): never => {
        throw new Error(hostile)
      }
      const write = probe("write", { handler: boom })
      const told = watch()
      const { runtime } = yield* bind(Agent.make("a", { instructions: boom, tools: [write.tool] }), [
        "unheard"
      ])
      const { error } = expect(
        yield* runPrompt(runtime, { prompt: "go" }, { onUpdate: told.onUpdate }),
        "error"
      )
      const shown = `The instructions of a failed: ${hostile.replace("\r\n", "\n").split("\n").map(line).join("\n")}`
      const failures = events(told.updates).flatMap((event) => {
        const { event: inner } = unwrap(event)
        return inner._tag === "run.failed" && inner.failure._tag === "RunDefect"
          ? [inner.failure.description]
          : []
      })
      assert.deepStrictEqual(failures, [shown])
      assert.include(error.message, shown)
    })
  )

  it("keeps the line breaks of a schema's issues, and escapes other control characters", () => {
    const failed = Schema.decodeUnknownResult(Schema.Struct({ [`a${hostile}`]: Schema.String }))({})
    const issues = failed._tag === "Failure" ? failed.failure.message : ""
    const { message } = new RunStateMalformed({ issues })
    for (const said of message.split("\n")) assert.strictEqual(said, line(said).replaceAll("\\t", "\t"))
    assert.isAbove(message.split("\n").length, 1)
  })
})
