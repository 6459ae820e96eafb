/**
 * The updates of a tree of agents name the agent that they come from.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import { attach } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { Backlog } from "../../src/promise/internal/Backlog.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, call, expect, probe, rebind, safe, watch } from "../helpers/Fixture.ts"

const runId = "run" as RunId
const readers = ["run.t1.1", "run.t1.2"] as const

/** A lead with two concurrent sub-agents of the same name. */
const pair = (tools: ReadonlyArray<ReturnType<typeof probe>["tool"]>) => {
  const reader = Agent.make("reader", { tools })
  const lead = Agent.make("lead", { subAgents: [reader], delegation: "delegate" })
  const task = { tool: "delegate", arguments: { agent: "reader", prompt: "read", background: true } }
  const model = ScriptedModel.make(({ agentPath, messages, runId, turn }) => {
    if (agentPath.length === 1) return turn === 1 ? { calls: [task, task] } : "lead"
    if (messages.some(({ role }) => role === "tool")) return { text: `I am ${runId}`, chunkSize: 3 }
    return { calls: tools.map(({ name }) => call(name, runId)) }
  })
  return rebind(lead, model)
}

/** The text of each run, joined from its deltas. */
const saidBy = (updates: ReadonlyArray<RunUpdate>) => {
  const said: Record<string, string> = {}
  for (const update of updates) {
    if (update._tag !== "delta" || update.part._tag !== "text-delta") continue
    assert.strictEqual(update.runId, runId)
    assert.strictEqual(update.agentPath.join("/"), update.agentRunId === runId ? "lead" : "lead/reader")
    said[update.agentRunId] = (said[update.agentRunId] ?? "") + update.part.delta
  }
  return said
}

describe("deltas and tool output of a tree", () => {
  it.effect("name the run and the agent path of their agent", () =>
    Effect.gen(function* () {
      const look = safe("look", {
        handler: ({ id }, { output, progress }) => {
          progress(id)
          output(id)
          return "seen"
        }
      })
      const { runtime } = yield* pair([look.tool])
      const { onUpdate, updates } = watch()
      expect(yield* runPrompt(runtime, { prompt: "go", runId }, { onUpdate }), "completed")
      const said = saidBy(updates)
      for (const reader of readers) assert.strictEqual(said[reader], `I am ${reader}`)
      assert.include(said[runId], "lead")
      const told = updates.flatMap((update) => {
        if (update._tag !== "progress" && update._tag !== "output") return []
        const what = update._tag === "progress" ? update.message : update.chunk
        assert.strictEqual(what, update.agentRunId)
        return [`${update._tag} ${update.agentPath.join("/")} ${what}`]
      })
      assert.deepStrictEqual(told.toSorted(), [
        ...readers.map((reader) => `output lead/reader ${reader}`),
        ...readers.map((reader) => `progress lead/reader ${reader}`)
      ])
    })
  )

  it("are merged in a backlog only within one agent run", () => {
    const backlog = new Backlog()
    const said = (agentRunId: string, delta: string) =>
      backlog.push({
        _tag: "delta",
        runId,
        agentRunId: agentRunId as RunId,
        agentPath: ["lead", "reader"],
        turn: 1,
        part: { _tag: "text-delta", delta }
      })
    said(readers[0], "a")
    said(readers[0], "b")
    said(readers[1], "c")
    assert.deepStrictEqual(saidBy(backlog.take().pieces as ReadonlyArray<RunUpdate>), {
      [readers[0]]: "ab",
      [readers[1]]: "c"
    })
  })

  it.effect("reach the handle of their own sub-agent only", () =>
    Effect.gen(function* () {
      // The tool ends once the reader has seen its start, so the reader is not behind.
      const isRead = yield* Deferred.make<void>()
      const write = probe("write", { handler: () => Effect.as(Deferred.await(isRead), "written") })
      const { runtime } = yield* pair([write.tool])
      const held = expect(yield* runPromptStored(runtime, { prompt: "go", runId }), "interrupted")
      const [first, second] = readers as unknown as readonly [RunId, RunId]
      const handle = yield* attach([runtime], first)
      const reading = yield* handle.events.pipe(
        Stream.tap((update) =>
          update._tag === "event" && update.event._tag === "tool.started"
            ? Deferred.succeed(isRead, undefined)
            : Effect.void
        ),
        Stream.runCollect,
        Effect.forkChild
      )
      const decisions = held.interruptions.map((request) => approve(request))
      yield* decideStored(
        [runtime],
        decisions.find(({ requestId }) => requestId.startsWith(second))!
      )
      yield* handle.decide(decisions.find(({ requestId }) => requestId.startsWith(first))!)
      expect(yield* handle.done, "completed")
      const heard = yield* Fiber.join(reading)
      const said = heard.flatMap((update) => {
        assert.strictEqual(update.runId, first)
        if (update._tag !== "delta") return []
        assert.strictEqual(update.agentRunId, first)
        return update.part._tag === "text-delta" ? [update.part.delta] : []
      })
      assert.strictEqual(said.join(""), `I am ${first}`)
      assert.notInclude(JSON.stringify(heard), `I am ${second}`)
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(layerMemory)))
  )
})
