import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { bind, call, expect, probe, results, safe, watch } from "../helpers/Fixture.ts"

const script = [{ calls: [call("build", "1")] }, "done"]

/** Runs a read-only tool with this handler, and returns its result and what its subscriber received. */
const built = (handler: () => unknown, options: Partial<Tool.ToolOptions<any, any>> = {}) =>
  Effect.gen(function* () {
    const build = safe("build", { ...options, handler })
    const { runtime } = yield* bind(Agent.make("a", { tools: [build.tool] }), script)
    const { onUpdate, updates } = watch()
    const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }, { onUpdate }), "completed")
    return { result: results(state)[0], streamed: streamed(updates), ran: build.ran.length }
  })

/** What a tool streamed, and when its call ended. */
const streamed = (updates: ReadonlyArray<RunUpdate>): ReadonlyArray<string> =>
  updates.flatMap((update) => {
    if (update._tag === "output") return [`output ${update.chunk}`]
    if (update._tag === "progress") return [`progress ${update.message}`]
    return update._tag === "event" && update.event._tag.startsWith("tool.c") ? [update.event._tag] : []
  })

async function* items() {
  yield { progress: "compiling" }
  yield { output: "main.ts\n" }
  await Promise.resolve()
  yield { output: "app.ts\n" }
  yield { result: { files: 2 } }
}

const all = ["tool.classified", "progress compiling", "output main.ts\n", "output app.ts\n", "tool.completed"]

class Compiler extends Context.Service<Compiler, string>()("test/Compiler") {}

describe("a tool that streams", () => {
  const stream = Stream.make(
    { progress: "compiling" },
    { output: "main.ts\n" },
    { output: "app.ts\n" },
    { result: { files: 2 } }
  )
  const handlers: ReadonlyArray<readonly [string, () => unknown]> = [
    ["an async generator", items],
    ["a promise of an async generator", async () => items()],
    ["an effect of an async generator", () => Effect.sync(items)],
    ["a Stream", () => stream],
    ["a promise of a Stream", () => Promise.resolve(stream)],
    ["an effect of a Stream", () => Effect.sync(() => stream)],
    ["an effect of a Stream that is there at once", () => Effect.succeed(stream)],
    ["an async iterable", () => Stream.toAsyncIterable(stream)]
  ]
  for (const [what, handler] of handlers) {
    it.effect(`by ${what} publishes its output and progress, and its result is the last item`, () =>
      Effect.gen(function* () {
        const { result, streamed } = yield* built(handler)
        assert.strictEqual(result, 'build completed: {"files":2}')
        assert.deepStrictEqual(streamed, all)
      })
    )
  }

  it.effect("by a Stream has the services of its runtime, and a scope that is open until it ends", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const opened = Effect.acquireRelease(
        Effect.sync(() => log.push("opened")),
        () => Effect.sync(() => log.push("closed"))
      )
      const tool = Tool.make("build", {
        safety: "readOnly",
        handler: () =>
          Effect.map(opened, () =>
            Stream.fromEffect(Effect.map(Compiler, (name) => ({ result: `${name}, ${log.join()}` })))
          )
      })
      const agent: Agent.Agent<Compiler> = Agent.make("a", { tools: [tool] })
      const runtime = yield* Effect.provideService(
        Effect.provideService(Runtime.make({ agent }), ModelClient, ScriptedModel.make(script).client),
        Compiler,
        "tsc"
      )
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(results(state), ["build completed: tsc, opened"])
      assert.deepStrictEqual(log, ["opened", "closed"])
    })
  )

  it.effect("has the last of several results, and one that its generator returns", () =>
    Effect.gen(function* () {
      const several = yield* built(async function* () {
        yield { result: "first" }
        yield { result: "second" }
        yield { output: "after" }
      })
      assert.strictEqual(several.result, "build completed: second")
      const returned = yield* built(async function* () {
        yield { output: "before" }
        return { result: "returned" }
      })
      assert.strictEqual(returned.result, "build completed: returned")
      const nothing = yield* built(() => Stream.make({ result: undefined }))
      assert.strictEqual(nothing.result, "build completed: ")
      const bytes = yield* built(() => Stream.make({ result: Uint8Array.of(0) }))
      assert.strictEqual(bytes.result, "build completed: ")
    })
  )

  it.effect("is scrubbed like every output of a tool", () =>
    Effect.gen(function* () {
      const build = safe("build", {
        handler: async function* () {
          yield { output: "key hun" }
          yield { output: "ter2, password: " }
          yield { output: "correct-horse-9" }
          yield { result: "it was hunter2" }
        }
      })
      const agent = Agent.make("a", { tools: [build.tool] })
      const { runtime } = yield* Effect.provideService(
        bind(agent, script),
        Scrubber.Scrubber,
        Scrubber.make({ secrets: ["hunter2"] })
      )
      const { onUpdate, updates } = watch()
      const { state } = yield* runPrompt(runtime, { prompt: "go" }, { onUpdate })
      const output = updates.flatMap((update) => (update._tag === "output" ? [update.chunk] : []))
      assert.strictEqual(output.join(""), "key [REDACTED:secret], password: [REDACTED:password]")
      assert.deepStrictEqual(results(state), ["build completed: it was [REDACTED:secret]"])
    })
  )

  const misfits: ReadonlyArray<readonly [unknown, string]> = [
    [{ outptu: "x" }, 'an item with "outptu" (did you mean "output"?)'],
    [{ type: "text" }, 'an item with "type" (there are output, progress, result)'],
    [{ output: "x", result: 1 }, "an item with both output and result"],
    [{ output: 5 }, "an output that is not text"],
    [{ progress: {} }, "a progress that is not text"],
    [{}, "an item without fields"],
    ["text", "a value of type string"],
    [null, "a value of type null"],
    [undefined, "a value of type undefined"]
  ]
  for (const [item, problem] of misfits) {
    it.effect(`fails for ${problem}, after it was closed`, () =>
      Effect.gen(function* () {
        let isClosed = false
        const { result } = yield* built(async function* () {
          try {
            yield item
            yield { result: "never" }
          } finally {
            isClosed = true
          }
        })
        assert.strictEqual(
          result,
          `build failed: build failed: it streamed ${problem}. A tool that streams gives { output: text }, { progress: text } and, at last, { result: value }.`
        )
        assert.isTrue(isClosed)
        const { result: ofStream } = yield* built(() => Stream.make(item, { result: "never" }))
        assert.strictEqual(ofStream, result)
      })
    )
  }

  it.effect("fails when it ends without a result, or throws before its end", () =>
    Effect.gen(function* () {
      const without = yield* built(async function* () {
        yield { output: "some" }
      })
      assert.include(without.result, "build failed: build failed: it ended without a result.")
      assert.strictEqual((yield* built(() => Stream.empty)).result, without.result)
      const throwing = yield* built(async function* () {
        yield { result: "half" }
        throw new Error("disk full")
      })
      assert.strictEqual(throwing.result, "build failed: build failed: disk full")
      const failing = () =>
        Stream.concat(Stream.make({ result: "half" }), Stream.fail(new Error("disk full")))
      assert.strictEqual((yield* built(failing)).result, throwing.result)
    })
  )

  it.effect("is started again by its retry schedule", () =>
    Effect.gen(function* () {
      let tries = 0
      const { ran, result } = yield* built(
        async function* () {
          tries += 1
          if (tries < 3) throw new Error("busy")
          yield { result: `try ${tries}` }
        },
        { retry: Schedule.recurs(5) }
      )
      assert.strictEqual(result, "build completed: try 3")
      assert.strictEqual(ran, 3)
    })
  )
})

describe("a cancelled tool that streams", () => {
  /** Runs a tool with this handler, cancels the run when the tool signals its start, and returns what happened in order. */
  const cancelled = (handler: (started: () => void, log: Array<string>, signal: AbortSignal) => unknown) =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const started = yield* Deferred.make<void>()
      const token = Cancellation.make()
      const build = probe("build", {
        idempotent: true,
        needsApproval: false,
        handler: (_, { signal }) =>
          handler(() => Deferred.doneUnsafe(started, Effect.void), log, signal) as never
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [build.tool] }), script, {
        cancelGrace: "1 second"
      })
      const running = yield* Effect.forkChild(
        runPrompt(
          runtime,
          { prompt: "go" },
          {
            cancellation: token,
            onUpdate: (update) => {
              if (update._tag === "event" && update.event._tag === "run.cancelled") log.push("run.cancelled")
            }
          }
        )
      )
      yield* Deferred.await(started)
      token.cancel("enough")
      return { log, result: yield* Fiber.join(running) }
    })

  const untilAborted = (signal: AbortSignal) =>
    new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }))

  it.effect("runs its finally before the run ends", () =>
    Effect.gen(function* () {
      const { log, result } = yield* cancelled(async function* (started, log, signal) {
        try {
          started()
          await untilAborted(signal)
          yield { output: "more" }
          log.push("went on")
        } finally {
          await Promise.resolve()
          log.push("finally")
        }
      })
      assert.deepStrictEqual(log, ["finally", "run.cancelled"])
      assert.deepInclude(expect(result, "cancelled").calls[0], { state: "aborted" })
    })
  )

  it.effect("by a Stream runs its finalizers before the run ends", () =>
    Effect.gen(function* () {
      const { log, result } = yield* cancelled((started, log) =>
        Stream.ensuring(
          Stream.concat(Stream.fromEffect(Effect.sync(() => ({ output: String(started()) }))), Stream.never),
          Effect.sync(() => log.push("finally"))
        )
      )
      assert.deepStrictEqual(log, ["finally", "run.cancelled"])
      expect(result, "cancelled")
    })
  )

  it.effect("stops although it never waits", () =>
    Effect.gen(function* () {
      const { log } = yield* cancelled(async function* (started, log) {
        try {
          setTimeout(started)
          while (true) yield { progress: "busy" }
        } finally {
          log.push("finally")
        }
      })
      assert.deepStrictEqual(log, ["finally", "run.cancelled"])
    })
  )

  it.effect("keeps the result that it gives within its grace period", () =>
    Effect.gen(function* () {
      const { result } = yield* cancelled(async function* (started, _, signal) {
        started()
        await untilAborted(signal)
        yield { result: "saved" }
      })
      const { calls, state } = expect(result, "cancelled")
      assert.deepInclude(calls[0], { state: "finished" })
      assert.deepStrictEqual(results(state), ["build completed: saved"])
    })
  )

  it.effect("is never begun when its promise resolves after the stop", () =>
    Effect.gen(function* () {
      const { log } = yield* cancelled(async (started, log, signal) => {
        started()
        await untilAborted(signal)
        return (async function* () {
          log.push("began")
          yield { result: "late" }
        })()
      })
      assert.deepStrictEqual(log, ["run.cancelled"])
    })
  )

  it.effect("is abandoned after its grace period, and publishes nothing more", () =>
    Effect.gen(function* () {
      const release = yield* Deferred.make<void>()
      const stuck = yield* Effect.forkChild(
        cancelled(async function* (started) {
          started()
          await Effect.runPromise(Deferred.await(release))
          yield { output: "late" }
        })
      )
      yield* TestClock.adjust("1 second")
      const { result } = yield* Fiber.join(stuck)
      assert.deepInclude(expect(result, "cancelled").calls[0], { state: "aborted" })
      yield* Deferred.succeed(release, undefined)
    })
  )
})

describe("a tool that streams beyond its timeout", () => {
  it.effect("is closed, and its call fails", () =>
    Effect.gen(function* () {
      const started = yield* Deferred.make<void>()
      let isClosed = false
      const running = yield* Effect.forkChild(
        built(
          async function* () {
            try {
              yield { output: "some" }
              Deferred.doneUnsafe(started, Effect.void)
              await new Promise((resolve) => setTimeout(resolve, 0))
              while (true) {
                await new Promise((resolve) => setTimeout(resolve, 0))
                yield { output: "more" }
              }
            } finally {
              isClosed = true
            }
          },
          { timeout: "5 seconds" }
        )
      )
      yield* Deferred.await(started)
      yield* TestClock.adjust("5 seconds")
      const { result } = yield* Fiber.join(running)
      assert.strictEqual(result, "build failed: build failed: build did not finish within 5000 ms.")
      assert.isTrue(isClosed)
    })
  )
})
