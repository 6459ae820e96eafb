import * as ChildProcess from "node:child_process"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import {
  type AgentHandle,
  attach,
  Conductor,
  dispatchPromptStored,
  type Interruption,
  RunStore,
  SqliteStore
} from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { sourceFlags } from "../../../../scripts/internal/sourceFlags.ts"
import { makeRuntime } from "../programs/background.ts"
import { temporaryDirectory } from "../temporaryStore.ts"

const runId = "charge-1" as never

/** A store, a log and a gate, and processes that share them. */
const shared = Effect.gen(function* () {
  const directory = yield* temporaryDirectory
  const [store, log, gate] = ["runs.db", "log", "gate"].map((name) => Path.join(directory, name)) as [
    string,
    string,
    string
  ]
  Fs.writeFileSync(log, "")
  const layer = SqliteStore.layer({ filename: store, synchronous: "normal" })
  const runtime = yield* makeRuntime({ log, gate, owner: "here" })
  return {
    runtime,
    inStore: Effect.provide(Layer.fresh(layer)),
    open: Effect.sync(() => Fs.writeFileSync(gate, "")),
    lines: () => Fs.readFileSync(log, "utf8").trim().split("\n").filter(Boolean),
    spawn: (what: "dispatch" | "attach") =>
      Effect.acquireRelease(
        Effect.sync(() => start([what, store, log, runId, gate])),
        ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
      )
  }
})

const start = (args: ReadonlyArray<string>) => {
  const child = ChildProcess.spawn(
    process.execPath,
    [...sourceFlags, Path.join(import.meta.dirname, "../programs/background.ts"), ...args],
    { stdio: ["ignore", "pipe", "pipe"] }
  )
  const printed: Array<string> = []
  let stderr = ""
  let wake = () => {}
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text))
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    printed.push(...text.trim().split("\n"))
    wake()
  })
  let isOver = false
  child.once("close", () => {
    isOver = true
    wake()
  })
  /** Waits until the process has printed the line. */
  const says = (line: string) =>
    Effect.callback<void>((resume) => {
      const look = () => {
        if (printed.includes(line)) resume(Effect.void)
        else if (isOver)
          resume(
            Effect.die(new Error(`The process ended without printing ${line}: ${printed.join()} ${stderr}`))
          )
      }
      wake = look
      look()
    })
  const kill = Effect.callback<void>((resume) => {
    child.once("close", () => resume(Effect.void))
    child.kill("SIGKILL")
  })
  return { child, printed, says, kill }
}

const approve = ({ requestId }: Interruption.Interruption) =>
  ({ _tag: "approve", requestId, by: "ann" }) as const

const heldOn = <E>(handle: AgentHandle.AgentHandle<unknown, E>) =>
  Effect.map(handle.wait, (result) => {
    assert.strictEqual(result.status, "interrupted")
    const [request] = handle.interruptions()
    assert.strictEqual(request?._tag, "approval")
    return request!
  })

describe("a background run in a SQLite file", () => {
  it.live("is suspended when its scope closes, and completes when it is attached to and decided", () =>
    Effect.gen(function* () {
      const { inStore, lines, open, runtime } = yield* shared
      yield* open
      const first = yield* Scope.make()
      yield* Effect.gen(function* () {
        const handle = yield* dispatchPromptStored(runtime, { prompt: "Charge it.", runId })
        yield* heldOn(handle)
        yield* Scope.close(first, Exit.void)
        assert.strictEqual(handle.status.current(), "suspended")
      }).pipe(Effect.provideService(Scope.Scope, first), inStore)
      yield* Effect.gen(function* () {
        const handle = yield* attach([runtime], runId)
        yield* handle.decide(approve(yield* heldOn(handle)))
        assert.strictEqual((yield* handle.done).status, "completed")
        const revisions = yield* Stream.runCollect(handle.events)
        assert.deepStrictEqual(
          revisions.map((update) => (update._tag === "event" ? update.revision : 0)),
          revisions.map((_, i) => i + 1)
        )
      }).pipe(Effect.scoped, inStore)
      assert.strictEqual(lines().filter((line) => line.startsWith("charged")).length, 1)
    }).pipe(Effect.scoped)
  )

  it.live("is held and decided on its own among 20 runs of a conductor", () =>
    Effect.gen(function* () {
      const { inStore, lines, open, runtime } = yield* shared
      yield* open
      yield* Effect.gen(function* () {
        const conductor = yield* Conductor.make({ concurrency: 4 })
        const handles = yield* Effect.forEach(Array.from({ length: 20 }), () =>
          conductor.dispatchStored(runtime, { prompt: "Charge it." })
        )
        yield* Effect.forEach(handles, heldOn, { concurrency: "unbounded" })
        const inbox = conductor.inbox.current()
        assert.strictEqual(inbox.length, 20)
        // Half are decided through the conductor, half through the store.
        const store = yield* RunStore.RunStore
        for (const [i, { request }] of inbox.entries()) {
          yield* i % 2 === 0 ? conductor.decide(approve(request)) : store.decide(approve(request))
        }
        for (const { status } of yield* Conductor.all(handles)) assert.strictEqual(status, "completed")
      }).pipe(Effect.scoped, inStore)
      const charges = lines().filter((line) => line.startsWith("charged"))
      assert.strictEqual(new Set(charges).size, 20)
      assert.strictEqual(charges.length, 20)
    }).pipe(Effect.scoped)
  )
})

describe("a background run of another process", () => {
  it.live(
    "can be attached to, and is taken over when that process is killed",
    () =>
      Effect.gen(function* () {
        const { inStore, lines, open, runtime, spawn } = yield* shared
        const other = yield* spawn("dispatch")
        yield* other.says("begun")
        yield* Effect.gen(function* () {
          const handle = yield* attach([runtime], runId)
          assert.strictEqual(handle.status.current(), "running")
          yield* other.kill
          yield* open
          yield* handle.decide(approve(yield* heldOn(handle)))
          assert.strictEqual((yield* handle.done).status, "completed")
        }).pipe(Effect.scoped, inStore)
        assert.strictEqual(lines().filter((line) => line.startsWith("charged")).length, 1)
        assert.isTrue(lines().includes("here looks"))
      }).pipe(Effect.scoped),
    300_000
  )

  it.live(
    "completes there after a decision here, and its body runs once",
    () =>
      Effect.gen(function* () {
        const { inStore, lines, open, runtime, spawn } = yield* shared
        const other = yield* spawn("dispatch")
        yield* other.says("begun")
        yield* open
        yield* other.says("held")
        yield* Effect.gen(function* () {
          const handle = yield* attach([runtime], runId)
          const request = yield* heldOn(handle)
          yield* (yield* RunStore.RunStore).decide(approve(request))
          assert.strictEqual((yield* handle.done).status, "completed")
          yield* other.says("completed")
        }).pipe(Effect.scoped, inStore)
        assert.strictEqual(lines().filter((line) => line.startsWith("charged")).length, 1)
      }).pipe(Effect.scoped),
    300_000
  )

  it.live(
    "is cancelled there when it is cancelled here",
    () =>
      Effect.gen(function* () {
        const { inStore, lines, runtime, spawn } = yield* shared
        const other = yield* spawn("dispatch")
        yield* other.says("begun")
        yield* Effect.gen(function* () {
          const handle = yield* attach([runtime], runId)
          const result = yield* handle.cancel("enough")
          assert.strictEqual(result.status === "cancelled" && result.reason, "enough")
          yield* other.says("cancelled")
        }).pipe(Effect.scoped, inStore)
        assert.strictEqual(lines().length, 1)
      }).pipe(Effect.scoped),
    300_000
  )
})
