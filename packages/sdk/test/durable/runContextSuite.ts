/**
 * What a run's context promises, on any store.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Agent from "../../src/agent/Agent.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import type { RunId, SessionId } from "../../src/domain/Id.ts"
import type { RunContext } from "../../src/domain/RunContext.ts"
import { contextOf } from "../../src/domain/RunContext.ts"
import { exportRun, importRun } from "../../src/durable/archive.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { submitPrompt } from "../../src/durable/submitPrompt.ts"
import { layerMemory, type RunStore } from "../../src/store/RunStore.ts"
import type { RunStoreError } from "../../src/store/RunStoreError.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { approve, call, deny, expect, only, rebind, transcript } from "../helpers/Fixture.ts"

const Caller = Schema.Struct({ tenant: Schema.String, since: Schema.DateTimeUtcFromString })

const acme = { tenant: "acme", since: "2026-01-01T00:00:00.000Z", other: [1, { deep: true }] }

/** A team whose every callback records the tenant that it read, and its model, which calls the tool of each agent once. */
const team = (read: Array<string>, accepts: typeof Caller | Schema.Codec<any, any> = Caller) => {
  const note = (who: string, tenant: unknown) => void read.push(`${who}: ${String(tenant)}`)
  const refund = (name: string) =>
    Tool.make(name, {
      parameters: Schema.Struct({ id: Schema.String }),
      context: accepts as typeof Caller,
      needsApproval: (_, { context }) => {
        note(`rule of ${name}`, context.tenant)
        return true
      },
      risk: (_, { context }) => `for ${context.tenant}`,
      preview: (_, { context }) => `of ${context.tenant}`,
      handler: (_, { context }) => {
        note(name, context.tenant)
        return `${name} since ${String(context.since)}`
      }
    })
  const clerk = Agent.make("clerk", {
    context: accepts as typeof Caller,
    instructions: ({ context }) => {
      note("clerk", context.tenant)
      return "Refund."
    },
    tools: [refund("clerk_refund")]
  })
  const billing = Agent.make("billing", { tools: [refund("billing_refund")] })
  return Agent.make("desk", {
    context: accepts as typeof Caller,
    instructions: ({ context }) => {
      note("desk", context.tenant)
      return `You work for ${context.tenant}.`
    },
    tools: [refund("refund")],
    subAgents: [clerk],
    handoffs: [billing]
  })
}

const start = Effect.fnUntraced(function* (
  script: ReadonlyArray<ScriptedModel.Script>,
  accepts?: Schema.Codec<any, any>
) {
  const read: Array<string> = []
  const model = ScriptedModel.make(script)
  const { runtime } = yield* rebind(team(read, accepts), model)
  return { model, read, runtime }
})

/** The runtime of another process: other objects of the same definitions. */
const another = (model: ScriptedModel.ScriptedModel, read: Array<string>, accepts?: Schema.Codec<any, any>) =>
  Effect.map(rebind(team(read, accepts), model), ({ runtime }) => runtime)

const refuses = (runtime: Runtime, context: unknown) =>
  Effect.map(
    Effect.flip(runPromptStored(runtime, { prompt: "go", context: context as RunContext })),
    (error) => [error._tag, error.message] as const
  )

export const runContextSuite = (name: string, layer: Layer.Layer<RunStore, RunStoreError>) => {
  const test = <E>(title: string, body: () => Effect.Effect<void, E, RunStore>) =>
    it.effect(title, () => Effect.provide(body(), Layer.fresh(layer)))

  describe(`the context of a run, ${name}`, () => {
    test("reaches the handler, the rule, the risk and the preview, decoded, in another process", () =>
      Effect.gen(function* () {
        const { model, read, runtime } = yield* start([{ calls: [call("refund", "1")] }, "done"])
        const submitted = yield* submitPrompt(runtime, { prompt: "go", context: acme })
        const worker: Array<string> = []
        yield* recover([yield* another(model, worker)])
        const held = yield* runPromptStored(runtime, { runId: submitted.runId })
        const request = only(held, "approval")
        assert.deepInclude(request, { risk: "for acme", preview: "of acme" })
        assert.deepStrictEqual(read, [])
        yield* decideStored([runtime], approve(request))
        const later: Array<string> = []
        yield* recover([yield* another(model, later)])
        const state = yield* loadState(submitted.runId)
        assert.strictEqual(state.status, "completed")
        assert.deepStrictEqual(worker, ["desk: acme", "rule of refund: acme"])
        assert.deepStrictEqual(later, ["refund: acme", "desk: acme"])
        assert.include(transcript(state), "tool: refund since DateTime.Utc(2026-01-01T00:00:00.000Z)")
        assert.deepStrictEqual(contextOf(state), acme)
      }))

    test("is that of sub-agents and of the agent that takes over", () =>
      Effect.gen(function* () {
        const { read, runtime } = yield* start([
          { calls: [{ tool: "clerk", arguments: { prompt: "refund" } }] },
          { calls: [call("clerk_refund", "1")] },
          "clerk is done",
          { calls: [{ tool: "transfer_to_billing" }] },
          { calls: [call("billing_refund", "2")] },
          "done"
        ])
        const policy = { mode: "all" } as const
        const done = yield* runPromptStored(runtime, { prompt: "go", policy, context: acme })
        const one = expect(done, "interrupted")
        yield* decideStored([runtime], approve(only(one, "approval")))
        const two = yield* runPromptStored(runtime, { runId: done.runId })
        yield* decideStored([runtime], approve(only(two, "approval")))
        expect(yield* runPromptStored(runtime, { runId: done.runId }), "completed")
        assert.deepStrictEqual(
          read.filter((line) => !line.startsWith("rule")),
          [
            "desk: acme",
            "clerk: acme",
            "clerk_refund: acme",
            "clerk: acme",
            "desk: acme",
            "billing_refund: acme"
          ]
        )
      }))

    test("is inherited by the next run of a continued run and by a fork, and not by a new prompt to the session", () =>
      Effect.gen(function* () {
        const { runtime } = yield* start(["one", "two", "three", "four", "five"], Schema.Struct({}))
        const sessionId = "s" as SessionId
        const contextAt = (runId: RunId) => Effect.map(loadState(runId), contextOf)
        const first = yield* runPromptStored(runtime, { prompt: "1", sessionId, context: { tenant: "acme" } })
        const next = yield* runPromptStored(runtime, { runId: first.runId, message: "2" })
        assert.deepStrictEqual(yield* contextAt(next.runId), { tenant: "acme" })
        const context = { tenant: "other" }
        const changed = yield* runPromptStored(runtime, { runId: next.runId, message: "3", context })
        assert.deepStrictEqual(yield* contextAt(changed.runId), context)
        const fork = yield* forkRun(runtime, { runId: next.runId, prompt: "4" })
        assert.deepStrictEqual(yield* contextAt(fork.runId), { tenant: "acme" })
        const fresh = yield* runPromptStored(runtime, { prompt: "5", sessionId })
        assert.deepStrictEqual(yield* contextAt(fresh.runId), {})
      }))

    test("is in the archive of a run", () =>
      Effect.gen(function* () {
        const { model, runtime } = yield* start([{ calls: [call("refund", "1")] }, "done"])
        const held = yield* runPromptStored(runtime, { prompt: "go", context: acme })
        const archive = JSON.stringify(yield* exportRun(held.runId))
        const read: Array<string> = []
        const runtimeThere = yield* another(model, read)
        yield* Effect.gen(function* () {
          yield* importRun(JSON.parse(archive))
          yield* decideStored([runtimeThere], approve(only(held, "approval")))
          expect(yield* runPromptStored(runtimeThere, { runId: held.runId }), "completed")
        }).pipe(Effect.provide(Layer.fresh(layerMemory)))
        assert.include(read, "refund: acme")
      }))

    test("is refused before anything is stored if an agent or a tool does not accept it", () =>
      Effect.gen(function* () {
        const { runtime } = yield* start(["unused"])
        const missing = yield* refuses(runtime, undefined)
        assert.strictEqual(missing[0], "ContextInvalid")
        assert.include(missing[1], "The agent desk does not accept the context of the run: Missing key")
        const wrong = yield* refuses(runtime, { ...acme, tenant: 7 })
        assert.include(wrong[1], "tenant")
      }))

    test("is refused if it is no small JSON object", () =>
      Effect.gen(function* () {
        const { runtime } = yield* start(["unused"], Schema.Struct({}))
        const deep = (levels: number): unknown => (levels === 0 ? {} : { inner: deep(levels - 1) })
        for (const [context, why] of [
          ["acme", "it is a string"],
          [["acme"], "it is a list"],
          [{ at: new Date(0) }, "not JSON"],
          [{ at: Number.NaN }, "not JSON"],
          [deep(16), "nested more than 16 levels"],
          [{ text: "x".repeat(16_384) }, "16395 characters"],
          [{ key: "sk-proj-abcdefghijklmnopqrstuvwx0123456789" }, "takes for a secret"]
        ] as const) {
          const [tag, message] = yield* refuses(runtime, context)
          assert.strictEqual(tag, "ContextInvalid")
          assert.include(message, why)
          assert.notInclude(message, "abcdefgh")
        }
      }))

    test("stays as it is while its run has not ended", () =>
      Effect.gen(function* () {
        const { runtime } = yield* start([{ calls: [call("refund", "1")] }, "done"])
        const held = yield* runPromptStored(runtime, { prompt: "go", context: acme })
        const { runId } = held
        const error = yield* Effect.flip(runPromptStored(runtime, { runId, context: acme }))
        assert.strictEqual(error._tag, "OptionsInvalid")
        assert.include(error.message, "keeps its own")
      }))

    for (const decide of [approve, deny]) {
      const then = decide === deny ? "can be denied" : "waits for a tool that accepts it when it is approved"
      test(`that a tool no longer accepts keeps its call from running: the call ${then}`, () =>
        Effect.gen(function* () {
          const { model, read, runtime } = yield* start([{ calls: [call("refund", "1")] }, "done", "done"])
          const held = yield* runPromptStored(runtime, { prompt: "go", context: acme })
          const { runId } = held
          const Stricter = Schema.Struct({ ...Caller.fields, region: Schema.String })
          const stricter = team([], Stricter)
          const later = (yield* rebind(Agent.make("desk", { tools: stricter.options.tools ?? [] }), model))
            .runtime
          const { missing } = expect(yield* runPromptStored(later, { runId }), "interrupted")
          assert.include(missing?.[0], { _tag: "ToolUnavailable", reason: "contextRefused" })
          yield* decideStored([later], decide(only(held, "approval")))
          if (decide === approve) {
            const still = yield* Effect.flip(runPromptStored(later, { runId }))
            assert.include(still, { _tag: "ToolUnavailable", reason: "contextRefused" })
            assert.notInclude(read, "refund: acme")
          }
          expect(yield* runPromptStored(decide === approve ? runtime : later, { runId }), "completed")
          assert.strictEqual(read.includes("refund: acme"), decide === approve)
        }))
    }

    test("that a tool changes is unchanged for the next", () =>
      Effect.gen(function* () {
        const seen: Array<unknown> = []
        const spoil = Tool.make("spoil", {
          parameters: Schema.Struct({ id: Schema.String }),
          safety: "readOnly",
          handler: (_, { context }) => {
            seen.push(structuredClone(context))
            const own = context as Record<string, unknown>
            own["tenant"] = "other"
            return ""
          }
        })
        const model = ScriptedModel.make([
          { calls: [call("spoil", "1")] },
          { calls: [call("spoil", "2")] },
          "done"
        ])
        const { runtime } = yield* rebind(Agent.make("a", { tools: [spoil] }), model)
        yield* runPromptStored(runtime, { prompt: "go", context: { tenant: "acme" } })
        assert.deepStrictEqual(seen, [{ tenant: "acme" }, { tenant: "acme" }])
      }))
  })
}
