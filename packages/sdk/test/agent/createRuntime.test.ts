import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import type { RuntimeContext, RuntimeExtension } from "../../src/agent/RuntimeDefinition.ts"
import type { CloseStatus } from "../../src/agent/RuntimeError.ts"
import * as RuntimeExtension_ from "../../src/agent/RuntimeExtension.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { call, expect, results, safe } from "../helpers/Fixture.ts"

const agent = Agent.make("keeper", { tools: [safe("read").tool] })
const models = ScriptedModel.make(() => "done").layer

/** An extension that records its calls. */
const logging = (
  log: Array<string>,
  name: string,
  more: Partial<RuntimeExtension> = {}
): RuntimeExtension => ({
  name,
  onStart: () => {
    log.push(`start ${name}`)
  },
  onClose: (status) => {
    log.push(`close ${name} ${status}`)
  },
  ...more
})

const liveRun = (runId: string, isMidTurn = () => false) => ({ runId, isMidTurn, cancel: () => {} })

describe("createRuntime", () => {
  it.effect("releases the resources of an extension after its runs and its onClose", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const note = (line: string) =>
        Effect.sync(() => {
          log.push(line)
        })
      const begun = yield* Deferred.make<void>()
      const slow = safe("slow", {
        handler: () =>
          Effect.onInterrupt(Effect.andThen(Deferred.succeed(begun, undefined), Effect.never), () =>
            note("interrupted")
          )
      })
      const scope = yield* Scope.make()
      const runtime = yield* createRuntime({
        agent: Agent.make("a", { tools: [slow.tool] }),
        extensions: [
          RuntimeExtension_.make("db", {
            onStart: () => Effect.asVoid(Effect.acquireRelease(note("opened"), () => note("released"))),
            onClose: () => note("closed")
          })
        ]
      }).pipe(
        Effect.provideService(ModelClient, ScriptedModel.make([{ calls: [call("slow", "1")] }]).client),
        Scope.provide(scope)
      )
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }))
      yield* Deferred.await(begun)
      yield* Scope.close(scope, Exit.void)
      expect(yield* Fiber.join(running), "cancelled")
      assert.deepStrictEqual(log, ["opened", "interrupted", "closed", "released"])
    })
  )

  it.effect("starts with the given profile, and runs prompts", () =>
    Effect.gen(function* () {
      const runtime = yield* createRuntime({
        agent,
        profiles: [{ name: "blind", mode: "plan", tools: { names: [] } }],
        profile: "blind"
      })
      assert.strictEqual(runtime.kind, "local")
      assert.strictEqual(runtime.agent, agent)
      assert.strictEqual(runtime.profileName, "blind")
      assert.strictEqual(runtime.mode, "plan")
      assert.deepStrictEqual([...runtime.profiles.keys()], ["default", "blind"])
      assert.deepStrictEqual(runtime.bound.definitions, [])
      const result = yield* runPrompt(runtime, { prompt: "go" })
      assert.strictEqual(expect(result, "completed").text, "done")
    }).pipe(Effect.provide(models))
  )

  it.effect("prefers the given mode and model to those of the profile", () =>
    Effect.gen(function* () {
      const runtime = yield* createRuntime({
        agent,
        profiles: [{ name: "plan", mode: "plan", model: "small" }],
        profile: "plan",
        mode: "sketch",
        model: "large"
      })
      assert.strictEqual(runtime.mode, "sketch")
      assert.strictEqual(runtime.bound.agent.options.profile, "large")
    }).pipe(Effect.provide(models))
  )

  it.effect("lets a profile called `default` replace the built-in one", () =>
    Effect.gen(function* () {
      const runtime = yield* createRuntime({ agent, profiles: [{ name: "default", tools: { names: [] } }] })
      assert.deepStrictEqual(runtime.bound.definitions, [])
    }).pipe(Effect.provide(models))
  )

  it.effect("refuses an unknown capability profile, and lists the known ones", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        createRuntime({ agent, profiles: [{ name: "plan" }, { name: "act" }], profile: "plna" })
      )
      assert.deepInclude(
        { ...error },
        { _tag: "CapabilityProfileNotFound", profile: "plna", known: ["default", "plan", "act"] }
      )
      assert.include(error.message, "use one of default, plan, act")
    }).pipe(Effect.provide(models))
  )

  it.effect("can be provided as a layer, which closes it", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const layer = Layer.effect(
        Runtime.Runtime,
        createRuntime({ agent, extensions: [logging(log, "db")] })
      ).pipe(Layer.provide(models))
      yield* Effect.gen(function* () {
        const runtime = yield* Runtime.Runtime
        expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
        assert.deepStrictEqual(log, ["start db"])
      }).pipe(Effect.provide(layer, { local: true }))
      assert.deepStrictEqual(log, ["start db", "close db completed"])
    })
  )

  it.effect("can be used and closed by promises", () =>
    Effect.promise(async () => {
      const log: Array<string> = []
      const scope = Scope.makeUnsafe()
      const runtime = await Effect.runPromise(
        createRuntime({ agent, extensions: [logging(log, "db")] }).pipe(
          Effect.provide(models),
          Scope.provide(scope)
        )
      )
      expect(await Effect.runPromise(runPrompt(runtime, { prompt: "go" })), "completed")
      await Effect.runPromise(runtime.close("error"))
      await Effect.runPromise(Scope.close(scope, Exit.void))
      assert.deepStrictEqual(log, ["start db", "close db error"])
    })
  )

  it.effect("starts extensions in order, and closes them once in reverse order", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      yield* Effect.scoped(
        Effect.gen(function* () {
          const runtime = yield* createRuntime({
            agent,
            extensions: [logging(log, "a"), logging(log, "b"), { name: "c" }]
          })
          yield* Effect.all([runtime.start, runtime.start], { concurrency: "unbounded" })
          assert.deepStrictEqual(log, ["start a", "start b"])
          assert.isUndefined(runtime.closed())
        })
      )
      assert.deepStrictEqual(log, ["start a", "start b", "close b completed", "close a completed"])
    }).pipe(Effect.provide(models))
  )

  it.effect("closes extensions with the status completed, cancelled or error", () =>
    Effect.gen(function* () {
      const statuses: Array<CloseStatus> = []
      const using = <E>(use: Effect.Effect<unknown, E>) =>
        Effect.scoped(
          Effect.andThen(
            createRuntime({
              agent,
              extensions: [{ name: "e", onClose: (status) => void statuses.push(status) }]
            }),
            use
          )
        )
      yield* using(Effect.void)
      yield* Effect.exit(using(Effect.fail("no")))
      yield* Effect.exit(using(Effect.die("no")))
      yield* Effect.exit(using(Effect.interrupt))
      assert.deepStrictEqual(statuses, ["completed", "error", "error", "cancelled"])
    }).pipe(Effect.provide(models))
  )

  it.effect("closes started extensions when another one cannot start, and names it with the reason", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const failing = logging(log, "b", { onStart: () => Promise.reject(new Error("port taken")) })
      // The scope stays open: started extensions are closed before its end.
      const error = yield* Effect.flip(
        createRuntime({ agent, extensions: [logging(log, "a"), failing, logging(log, "c")] })
      )
      assert.strictEqual(error._tag, "ExtensionFailed")
      assert.strictEqual(error.message, 'The extension "b" could not start: port taken')
      assert.deepStrictEqual(log, ["start a", "close a error"])
    }).pipe(Effect.provide(models))
  )

  it.effect("closes every extension when one throws or hangs", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const runtime = yield* createRuntime({
        agent,
        closeTimeout: "3 seconds",
        extensions: [
          logging(log, "a"),
          { name: "hangs", onClose: () => Effect.never },
          {
            name: "throws",
            onClose: () => {
              throw new Error("no")
            }
          }
        ]
      })
      const closing = yield* Effect.forkChild(runtime.close("completed"), { startImmediately: true })
      yield* TestClock.adjust("2900 millis")
      assert.deepStrictEqual(log, ["start a"])
      yield* TestClock.adjust("200 millis")
      yield* Fiber.join(closing)
      assert.deepStrictEqual(log, ["start a", "close a completed"])
    }).pipe(Effect.provide(models))
  )

  it.effect("provides the program's services to an extension", () =>
    Effect.gen(function* () {
      class Database extends Context.Service<Database, { readonly lines: Array<string> }>()("t/Database") {}
      const lines: Array<string> = []
      yield* createRuntime({
        agent,
        extensions: [
          {
            name: "db",
            onStart: () => Database.use(({ lines }) => Effect.sync(() => void lines.push("open")))
          }
        ]
      }).pipe(Effect.provideService(Database, { lines }))
      assert.deepStrictEqual(lines, ["open"])
    }).pipe(Effect.provide(models))
  )

  it.effect("gives an extension's tools the runtime for runs of their own", () =>
    Effect.gen(function* () {
      const script = ScriptedModel.make((request) => {
        const last = request.messages.at(-1)
        return last?.role === "user" && JSON.stringify(last.content).includes("ask")
          ? { calls: [{ tool: "again" }] }
          : "inner"
      })
      const again = (context: RuntimeContext) =>
        Tool.make("again", {
          safety: "readOnly",
          handler: () =>
            Effect.map(runPrompt(context.runtime(), { prompt: "quick" }), (result) =>
              result.status === "completed" ? `it said ${result.text}` : result.status
            )
        })
      const runtime = yield* createRuntime({
        agent,
        extensions: [{ name: "again", tools: (context) => [again(context)] }]
      }).pipe(Effect.provideService(ModelClient, script.client))
      const result = yield* runPrompt(runtime, { prompt: "ask" })
      assert.deepStrictEqual(results(result.state), ["again completed: it said inner"])
    })
  )

  it.effect("refuses the runtime to an extension while it is being made", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        createRuntime({
          agent,
          extensions: [{ name: "early", tools: (context) => [context.runtime() && safe("x").tool] }]
        })
      )
      assert.include(
        error.message,
        "The runtime does not exist yet: call runtime() in a handler or in onStart"
      )
    }).pipe(Effect.provide(models))
  )
})

describe("a runtime", () => {
  const make = Effect.suspend(() => createRuntime({ agent })).pipe(Effect.provide(models))

  it.effect("cancels linked tokens when it closes", () =>
    Effect.gen(function* () {
      const runtime = yield* make
      const run = Cancellation.make(runtime.cancellation)
      yield* runtime.close("cancelled")
      assert.strictEqual(run.reason(), "The runtime was closed (cancelled).")
    })
  )

  it.effect("is cancelled by its own token and by the token in its context", () =>
    Effect.gen(function* () {
      const given = Cancellation.make()
      const around = Cancellation.make()
      const first = yield* createRuntime({ agent, cancellation: given })
      const second = yield* Effect.provideService(
        createRuntime({ agent }),
        Cancellation.CancellationToken,
        around
      )
      given.cancel("enough")
      assert.strictEqual(first.cancellation.reason(), "enough")
      assert.isUndefined(second.cancellation.reason())
      around.cancel("all of it")
      assert.strictEqual(second.cancellation.reason(), "all of it")
    }).pipe(Effect.provide(models))
  )

  it.effect("closes once, with the first status, and every caller waits for the same end", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const gate = yield* Deferred.make<void>()
      const runtime = yield* createRuntime({
        agent,
        extensions: [
          logging(log, "slow", {
            onClose: (status) =>
              Effect.tap(Deferred.await(gate), () => Effect.sync(() => void log.push(status)))
          })
        ]
      })
      const first = yield* Effect.forkChild(runtime.close("error"), { startImmediately: true })
      const second = yield* Effect.forkChild(runtime.close("completed"), { startImmediately: true })
      assert.strictEqual(runtime.closed(), "error")
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(first)
      yield* Fiber.join(second)
      assert.deepStrictEqual(log, ["start slow", "error"])
    }).pipe(Effect.provide(models))
  )

  it.effect("closes to the end when its caller is interrupted", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const closed = yield* Deferred.make<void>()
      const runtime = yield* createRuntime({
        agent,
        extensions: [
          {
            name: "slow",
            onClose: () =>
              Effect.asVoid(Effect.andThen(Deferred.await(gate), Deferred.succeed(closed, undefined)))
          }
        ]
      })
      const closing = yield* Effect.forkChild(runtime.close("completed"), { startImmediately: true })
      yield* Effect.yieldNow
      yield* Fiber.interrupt(closing)
      yield* Deferred.succeed(gate, undefined)
      yield* Deferred.await(closed)
    }).pipe(Effect.provide(models))
  )

  it.effect("waits for its runs before it closes its extensions", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const runtime = yield* createRuntime({ agent, extensions: [logging(log, "db")] })
      const run = liveRun("run-1")
      runtime.runs.add(run)
      const closing = yield* Effect.forkChild(runtime.close("completed"), { startImmediately: true })
      yield* Effect.yieldNow
      assert.deepStrictEqual(log, ["start db"])
      runtime.runs.delete(run)
      yield* Fiber.join(closing)
      assert.deepStrictEqual(log, ["start db", "close db completed"])
    }).pipe(Effect.provide(models))
  )

  it.effect("waits for its runs no longer than closeTimeout", () =>
    Effect.gen(function* () {
      const runtime = yield* createRuntime({ agent, closeTimeout: "1 second" })
      runtime.runs.add(liveRun("run-1"))
      const closing = yield* Effect.forkChild(runtime.close("completed"), { startImmediately: true })
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(closing)
    }).pipe(Effect.provide(models))
  )

  it.effect("refuses everything after it is closed", () =>
    Effect.gen(function* () {
      const runtime = yield* make
      yield* Runtime.requireOpen(runtime)
      yield* runtime.close("completed")
      for (const refused of [Runtime.requireOpen(runtime), runtime.start]) {
        const error = yield* Effect.flip(refused)
        assert.deepInclude({ ...error }, { _tag: "RuntimeClosed", agent: "keeper", status: "completed" })
        assert.include(error.message, "create another one")
      }
    })
  )

  it.effect("stops starting when it is closed meanwhile, and closes started extensions", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const scope = yield* Scope.make()
      const reached = yield* Deferred.make<Runtime.Runtime<any>>()
      const hanging = logging(log, "b", {
        onStart: ({ runtime }) => Effect.andThen(Deferred.succeed(reached, runtime()), Effect.never)
      })
      const creating = yield* Effect.forkChild(
        Effect.flip(createRuntime({ agent, extensions: [logging(log, "a"), hanging] })).pipe(
          Scope.provide(scope)
        ),
        { startImmediately: true }
      )
      const runtime = yield* Deferred.await(reached)
      yield* runtime.close("cancelled")
      assert.deepStrictEqual(log, ["start a", "close a cancelled"])
      assert.strictEqual((yield* Fiber.join(creating))._tag, "RuntimeClosed")
    }).pipe(Effect.provide(models))
  )

  it.effect("runs prompts without being started or closed", () =>
    Effect.gen(function* () {
      const runtime = yield* Runtime.make({ agent })
      assert.strictEqual(runtime.profileName, "default")
      assert.strictEqual(runtime.bound.agent, agent)
      expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      yield* runtime.start
      expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
    }).pipe(Effect.provide(models))
  )

  it.effect("requests the given model profile", () =>
    Effect.gen(function* () {
      const model = ScriptedModel.make([{ calls: [call("read", "1")] }, "done"])
      const runtime = yield* createRuntime({ agent, model: "large" }).pipe(
        Effect.provideService(ModelClient, model.client)
      )
      yield* runPrompt(runtime, { prompt: "go" })
      assert.deepStrictEqual(
        model.requests.map(({ profile }) => profile),
        ["large", "large"]
      )
    })
  )
})
