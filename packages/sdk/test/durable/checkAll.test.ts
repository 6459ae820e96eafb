/**
 * The check of a whole store before a deploy.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { checkAll, type CheckAllOptions } from "../../src/durable/checkAll.ts"
import { checkStoredRun } from "../../src/durable/checkStoredRun.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { submitPrompt } from "../../src/durable/submitPrompt.ts"
import { unreadable } from "../../src/store/internal/journal.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { RunStoreError, StoreBusy } from "../../src/store/RunStoreError.ts"
import type { DataSchema } from "../../src/tool/DataSchema.ts"
import * as Secrets from "../../src/tool/Secrets.ts"
import { approve, bind, call, only, probe } from "../helpers/Fixture.ts"

const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(title, () => Effect.provide(body, Layer.fresh(layerMemory)))

const script = [{ calls: [call("write", "1")] }, "done"]
const write = probe("write").tool
const keeper = (options: Parameters<typeof Agent.make>[1] = { tools: [write] }) =>
  Agent.make("keeper", options as object)

const bound = (agent: Agent.Agent<never, undefined>) =>
  Effect.map(bind(agent, script), ({ runtime }) => runtime)

/** A run of an agent that is held on `write 1`. */
const held = (runId: string, agent = keeper()) =>
  Effect.gen(function* () {
    const { runtime } = yield* bind(agent, script)
    return only(yield* runPromptStored(runtime, { prompt: "go", runId: runId as RunId }), "approval")
  })

/** The blocked runs, each with the tags of its reasons. */
const blocked = (runtimes: ReadonlyArray<Runtime<any>>, options?: CheckAllOptions) =>
  Effect.map(Stream.runCollect(checkAll(runtimes, options)), (runs) =>
    runs.map(({ blocking, runId }) => `${runId} ${blocking.map(({ _tag }) => _tag).join()}`)
  )

/** A run that is held on a call which refers to these secrets. */
const heldOnSecrets = (...names: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const text = names.map((name) => `secret://${name}`).join(" ")
    const { runtime } = yield* bind(pushing(), [{ calls: [call("push", text)] }])
    only(yield* runPromptStored(runtime, { prompt: "go", runId: "a" as RunId }), "approval")
  }).pipe(Effect.provideService(Secrets.Secrets, Secrets.memory({ "github/push": "a8Kf03jQmZ19xTbWv72L" })))

const pushing = () => Agent.make("keeper", { tools: [probe("push", { secrets: ["github/*"] }).tool] })

describe("checkAll and the secrets of open calls", () => {
  for (const [title, source, missing] of [
    [
      "lists nothing if the source has the secret",
      Secrets.memory({ "github/push": "a8Kf03jQmZ19xTbWv72L" }),
      []
    ],
    ["lists a run whose secret the source does not have", Secrets.memory({}), ["github/push"]],
    ["lists a run whose secret is blank", Secrets.memory({ "github/push": " " }), ["github/push"]],
    [
      "lists a run whose secret cannot be read",
      Secrets.make(() => Promise.reject(new Error("down"))),
      ["github/push"]
    ],
    ["lists a run of a program without a source", Secrets.none, [undefined]]
  ] as const) {
    test(
      title,
      Effect.gen(function* () {
        yield* heldOnSecrets("github/push")
        const runtime = yield* Effect.provideService(bound(pushing()), Secrets.Secrets, source)
        const runs = yield* Stream.runCollect(checkAll([runtime]))
        assert.deepStrictEqual(
          runs.flatMap(({ blocking }) =>
            blocking.map((error) => (error._tag === "ToolUnavailable" ? [error.reason, error.secret] : []))
          ),
          missing.map((secret) => ["withoutSecrets", secret])
        )
        if (missing[0] !== undefined) {
          assert.include(
            runs[0]!.text,
            'waits to call push with the secret "github/push", which the source of this program does not have'
          )
        }
        const { blocking } = yield* checkStoredRun("a" as RunId, runtime)
        assert.lengthOf(blocking, missing.length)
        assert.lengthOf((yield* checkStoredRun("a" as RunId, runtime.bound)).blocking, 0)
      })
    )
  }

  test(
    "waits for a source that does not answer for 5 seconds",
    Effect.gen(function* () {
      yield* heldOnSecrets("github/push")
      const runtime = yield* Effect.provideService(
        bound(pushing()),
        Secrets.Secrets,
        Secrets.make(() => Effect.never)
      )
      const checking = yield* Effect.forkChild(blocked([runtime]), { startImmediately: true })
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(yield* Fiber.join(checking), ["a ToolUnavailable"])
    })
  )
})

describe("checkAll", () => {
  test(
    "lists nothing for an unchanged program, and writes nothing",
    Effect.gen(function* () {
      const store = yield* RunStore
      yield* held("a")
      const before = yield* store.head("a" as RunId)
      assert.deepStrictEqual(yield* blocked([yield* bound(keeper())]), [])
      assert.deepStrictEqual(yield* store.head("a" as RunId), before)
    })
  )

  test(
    "lists each parked run that the program could not resume, with the reasons as data and in words",
    Effect.gen(function* () {
      yield* held("a")
      yield* held("b", Agent.make("other", { tools: [write] }))
      const runs = yield* Stream.runCollect(checkAll([yield* bound(keeper({}))]))
      const [a, b, ...rest] = runs.toSorted((one, two) => (one.runId < two.runId ? -1 : 1))
      assert.deepStrictEqual(rest, [])
      assert.deepInclude<object>(
        { ...a!.blocking[0] },
        { _tag: "ToolUnavailable", tool: "write", reason: "missing" }
      )
      assert.deepInclude<object>({ ...a!.head }, { runId: "a", agent: "keeper", status: "held" })
      assert.match(a!.text, /^The run a of keeper \(held\): The run a waits to call write, which/)
      assert.deepInclude<object>({ ...b!.blocking[0] }, { _tag: "AgentNotFound", agent: "other" })
    })
  )

  test(
    "finds a renamed agent and a renamed tool by their aliases",
    Effect.gen(function* () {
      yield* held("a")
      const save = probe("save", { aliases: ["write"] }).tool
      const warden = Agent.make("warden", { aliases: ["keeper"], tools: [save] })
      assert.deepStrictEqual(yield* blocked([yield* bound(warden)]), [])
    })
  )

  test(
    "lists a run whose tool no longer accepts the arguments, unless a decision settles the call",
    Effect.gen(function* () {
      const request = yield* held("a")
      const narrow = probe("write", {
        parameters: Schema.Struct({ id: Schema.Literal("9") }) as unknown as DataSchema<never>
      }).tool
      const runtime = yield* bound(keeper({ tools: [narrow] }))
      assert.deepStrictEqual(yield* blocked([runtime]), ["a ToolUnavailable"])
      yield* decideStored([runtime], {
        _tag: "deny",
        requestId: request.requestId,
        by: "ann"
      })
      assert.deepStrictEqual(yield* blocked([runtime]), [])
    })
  )

  test(
    "leaves out ended runs, runs that are being cancelled, and the agents of other programs",
    Effect.gen(function* () {
      const request = yield* held("ended")
      const { runtime } = yield* bind(keeper(), ["done"])
      yield* decideStored([runtime], approve(request))
      yield* runPromptStored(runtime, { runId: "ended" as RunId })
      yield* held("cancelled")
      yield* RunStore.use((store) => store.requestCancel("cancelled" as RunId, "enough"))
      yield* held("elsewhere", Agent.make("billing", { tools: [write] }))
      assert.deepStrictEqual(yield* blocked([], { otherAgents: ["billing"] }), [])
      assert.deepStrictEqual(yield* blocked([]), ["elsewhere AgentNotFound"])
      yield* cancelRun("elsewhere" as RunId, "enough")
    })
  )

  test(
    "checks the calls of sub-agents, attached and in the background",
    Effect.gen(function* () {
      const writer = Agent.make("writer", { tools: [write] })
      for (const background of [false, true]) {
        const lead = (subAgents: ReadonlyArray<Agent.Agent>) =>
          Agent.make("lead", { subAgents, delegation: "delegate" })
        const delegate = { tool: "delegate", arguments: { agent: "writer", prompt: "do", background } }
        const runId = `b${background}` as RunId
        const { runtime } = yield* bind(lead([writer]), [{ calls: [delegate] }, ...script, ...script])
        yield* runPromptStored(runtime, { prompt: "go", runId })
        assert.deepStrictEqual(yield* blocked([yield* bound(lead([writer]))]), [])
        const without = yield* blocked([yield* bound(lead([Agent.make("writer")]))])
        assert.include(without, `${runId} ToolUnavailable`)
        const alone = yield* blocked([yield* bound(lead([Agent.make("reader")]))])
        assert.include(alone, `${runId} AgentNotFound`)
      }
    })
  )

  test(
    "checks a conversation that another agent has taken over",
    Effect.gen(function* () {
      const clerk = Agent.make("clerk", { tools: [write] })
      const front = (handoffs: ReadonlyArray<Agent.Agent>) => Agent.make("front", { handoffs })
      const { runtime } = yield* bind(front([clerk]), [{ calls: [{ tool: "transfer_to_clerk" }] }, ...script])
      only(yield* runPromptStored(runtime, { prompt: "go", runId: "a" as RunId }), "approval")
      assert.deepStrictEqual(yield* blocked([yield* bound(front([clerk]))]), [])
      assert.deepStrictEqual(yield* blocked([yield* bound(front([Agent.make("clerk")]))]), [
        "a ToolUnavailable"
      ])
      assert.deepStrictEqual(yield* blocked([yield* bound(front([]))]), ["a AgentNotFound"])
    })
  )

  test(
    "lists a run that was submitted and that no program has started yet",
    Effect.gen(function* () {
      yield* submitPrompt(yield* bound(keeper()), { prompt: "go", runId: "a" as RunId })
      assert.deepStrictEqual(yield* blocked([yield* bound(keeper())]), [])
      assert.deepStrictEqual(yield* blocked([yield* bound(Agent.make("other"))]), ["a AgentNotFound"])
    })
  )

  test(
    "reads a large store page by page",
    Effect.gen(function* () {
      const store = yield* RunStore
      const count = 230
      for (let index = 0; index < count; index++) yield* held(`r${index}`)
      let loaded = 0
      const pages: Array<number> = []
      const view: typeof store = {
        ...store,
        load: (...args) => Effect.tap(store.load(...args), () => Effect.sync(() => (loaded += 1))),
        list: (filter) =>
          Effect.tap(store.list(filter), ({ length }) => Effect.sync(() => pages.push(length)))
      }
      const runtime = yield* bound(keeper({}))
      const first = Stream.runHead(checkAll([runtime]))
      yield* Effect.provideService(first, RunStore, view)
      assert.isAtMost(loaded, 100)
      assert.deepStrictEqual(pages, [100])
      const all = yield* Effect.provideService(blocked([runtime]), RunStore, view)
      assert.strictEqual(new Set(all).size, count)
    })
  )

  test(
    "goes on when the last run of a page is removed, and lists no run twice",
    Effect.gen(function* () {
      const store = yield* RunStore
      for (let index = 0; index < 130; index++) {
        yield* held(`r${index}`)
        yield* TestClock.adjust(1)
      }
      let page = 0
      const view: typeof store = {
        ...store,
        list: (filter) =>
          Effect.tap(store.list(filter), (runs) => {
            page += 1
            return page === 1 ? Effect.orDie(store.remove(runs.at(-1)!.runId)) : Effect.void
          })
      }
      const found = yield* Effect.provideService(blocked([yield* bound(keeper({}))]), RunStore, view)
      assert.strictEqual(found.length, 129)
      assert.strictEqual(new Set(found).size, 129)
    })
  )

  test(
    "lists a damaged run, and fails if the store does",
    Effect.gen(function* () {
      const store = yield* RunStore
      yield* held("a")
      yield* held("b")
      const failing = (error: RunStoreError): typeof store => ({
        ...store,
        load: (runId, options) => (runId === "a" ? Effect.fail(error) : store.load(runId, options)),
        damaged: Effect.succeed([{ runId: "c", problem: "its head is damaged: remove it." }])
      })
      const damage = unreadable("load", "the journal of a has a gap")
      const runtime = yield* bound(keeper())
      const found = yield* Effect.provideService(blocked([runtime]), RunStore, failing(damage))
      assert.deepStrictEqual(found, ["a RunStoreError", "c RunStoreError"])
      const busy = new RunStoreError({ operation: "load", reason: new StoreBusy({ waitedMs: 1 }) })
      const error = yield* Effect.flip(Effect.provideService(blocked([runtime]), RunStore, failing(busy)))
      assert.strictEqual((error as RunStoreError).reason._tag, "StoreBusy")
    })
  )

  test(
    "refuses an option that it does not have",
    Effect.gen(function* () {
      const error = yield* Effect.flip(blocked([], { otherAgent: ["a"] } as object))
      assert.include(error.message, "otherAgents")
    })
  )
})
