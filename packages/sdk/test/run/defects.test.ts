import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import { ContextPolicy } from "../../src/context/ContextPolicy.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import type { Tool } from "../../src/tool/Tool.ts"
import { bind, call, events, expect, only, probe, safe, throughJson, watch } from "../helpers/Fixture.ts"

const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(title, () => Effect.provide(body, Layer.fresh(layerMemory)))

/** The tool with an option or a property that is computed at each read. */
const changing = <R>(
  tool: Tool<R>,
  property: "retry" | "timeout" | "idempotent",
  get: () => unknown
): Tool<R> => {
  const described = { get, enumerable: true }
  return property === "idempotent"
    ? Object.defineProperty({ ...tool }, property, described)
    : { ...tool, options: Object.defineProperty({ ...tool.options }, property, described) }
}

/** A getter that throws once it is armed. */
const mine = () => {
  const armed = { now: false }
  const get = (): undefined => {
    if (armed.now) throw new Error("boom")
  }
  return { armed, get }
}

describe("a run with a defect in its drive", () => {
  const kinds = {
    "side-effecting": {},
    idempotent: { idempotent: true },
    "read-only": { safety: "readOnly" }
  } as const
  for (const [kind, options] of Object.entries(kinds)) {
    test(
      `fails at once, keeps its state, and is not recovered: its ${kind} body has not run`,
      Effect.gen(function* () {
        const { ran, tool } = probe("act", { needsApproval: false, ...options })
        const { armed, get } = mine()
        const agent = Agent.make("a", { tools: [changing(tool, "retry", get)] })
        const { runtime } = yield* bind(agent, [{ calls: [call("act", "1")] }, { calls: [call("act", "1")] }])
        armed.now = true
        const told = watch()
        const alone = expect(
          yield* runPrompt(runtime, { prompt: "go" }, { onUpdate: told.onUpdate }),
          "error"
        )
        assert.strictEqual(alone.error.message.includes("boom"), true)
        assert.strictEqual(events(told.updates).at(-1)?._tag, "run.failed")
        throughJson(alone.state)
        const stored = expect(yield* runPromptStored(runtime, { prompt: "go" }), "error")
        assert.strictEqual(stored.error._tag, "RunDefect")
        assert.deepStrictEqual(yield* recover([runtime]), [])
        assert.deepStrictEqual(ran, [])
      })
    )
  }

  test(
    "opens an inDoubt request for a started body when it is resumed by a mended program",
    Effect.gen(function* () {
      const { armed, get } = mine()
      const { ran, tool } = probe("act", {
        needsApproval: false,
        handler: (): Effect.Effect<string> => {
          armed.now = true
          return Effect.never
        }
      })
      const broken = Agent.make("a", { tools: [changing(tool, "timeout", get)] })
      const { model, runtime } = yield* bind(broken, [{ calls: [call("act", "1")] }, "done"])
      const { runId } = expect(yield* runPromptStored(runtime, { prompt: "go" }), "error")
      assert.deepStrictEqual(ran, ["1"])
      const mended = yield* bind(Agent.make("a", { tools: [tool] }), [])
      only(yield* runPromptStored(mended.runtime, { runId }), "inDoubt")
      assert.deepStrictEqual(ran, ["1"])
      assert.strictEqual(model.remaining(), 1)
    })
  )

  test(
    "fails once when a sub-agent's drive has the defect",
    Effect.gen(function* () {
      const { ran, tool } = safe("act")
      const { armed, get } = mine()
      const worker = Agent.make("worker", { tools: [changing(tool, "retry", get)] })
      const root = Agent.make("root", { subAgents: [worker] })
      const { runtime } = yield* bind(root, [
        { calls: [{ tool: "worker", arguments: { prompt: "act" } }] },
        { calls: [call("act", "1")] }
      ])
      armed.now = true
      const { error, runId } = expect(yield* runPromptStored(runtime, { prompt: "go" }), "error")
      assert.include(error.message, "boom")
      assert.deepStrictEqual(yield* recover([runtime]), [])
      assert.strictEqual((yield* loadState(runId)).status, "error")
      assert.deepStrictEqual(ran, [])
    })
  )

  test(
    "fails from its last commit when a later event cannot be encoded",
    Effect.gen(function* () {
      const store = yield* RunStore
      const { ran, tool } = probe("act", { needsApproval: false })
      let idempotent: unknown = false
      const odd = changing(tool, "idempotent", () => idempotent)
      const { runtime } = yield* bind(Agent.make("a", { tools: [odd] }), [{ calls: [call("act", "1")] }])
      idempotent = "perhaps"
      const { error, runId } = expect(yield* runPromptStored(runtime, { prompt: "go" }), "error")
      assert.include(error.message, "tool.classified is not of its type")
      assert.deepStrictEqual(
        (yield* store.events(runId)).map(({ _tag }) => _tag),
        ["run.started", "run.failed"]
      )
      assert.deepStrictEqual(yield* recover([runtime]), [])
      assert.deepStrictEqual(ran, [])
    })
  )
})

describe("a defect beside a concurrent read", () => {
  test(
    "fails the run, and interrupts the read without starting it again",
    Effect.gen(function* () {
      const log: Array<string> = []
      const begun = yield* Deferred.make<void>()
      const slow = probe("slow", {
        safety: "readOnly",
        handler: () =>
          Effect.onInterrupt(
            Effect.andThen(
              Effect.sync(() => log.push("begun")),
              Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
            ),
            () => Effect.sync(() => log.push("stopped"))
          )
      })
      const odd = probe("odd", { safety: "readOnly" })
      let left = 1
      const get = (): undefined => {
        if (log.length > 0 && left-- > 0) throw new Error("boom")
      }
      const tools = [slow.tool, changing(odd.tool, "timeout", get)]
      const { runtime } = yield* bind(Agent.make("a", { tools }), [
        { calls: [call("slow", "1"), call("odd", "2")] },
        "done"
      ])
      const { error } = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      assert.include(error.message, "boom")
      assert.deepStrictEqual(log, ["begun", "stopped"])
    })
  )
})

describe("a context policy that returns an unreadable answer", () => {
  test(
    "fails the sub-agent that it prepared, and not the lead",
    Effect.gen(function* () {
      const lead = Agent.make("lead", { subAgents: [Agent.make("worker", {})] })
      let asked = 0
      const policy: ContextPolicy = {
        prepare: ({ instructions, messages }) => {
          asked += 1
          if (asked !== 2) return Effect.succeed({ instructions, messages })
          return Effect.succeed({
            instructions,
            get messages(): typeof messages {
              throw new Error("not to be read")
            }
          })
        }
      }
      const answers = [{ calls: [{ tool: "worker", arguments: { prompt: "act" } }] }, "done", "done"]
      const { runtime } = yield* Effect.provideService(bind(lead, answers), ContextPolicy, policy)
      expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
    })
  )
})
