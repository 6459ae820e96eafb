import { mkdtemp, rm, stat } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { acquireFileLock } from "../../src/internal/fileLock.ts"

const temporaryPath = Effect.map(
  Effect.acquireRelease(
    Effect.promise(() => mkdtemp(join(tmpdir(), "fermata-lock-"))),
    (folder) => Effect.promise(() => rm(folder, { recursive: true }))
  ),
  (folder) => join(folder, "lock")
)

const patience = 60_000

describe("A lock on a file", () => {
  it.effect("is granted to the callers of one process in the order of their requests", () =>
    Effect.gen(function* () {
      const path = yield* temporaryPath
      const order: Array<string> = []
      const ask = (caller: string) =>
        Effect.forkChild(
          Effect.tap(acquireFileLock(path, patience), () => Effect.sync(() => order.push(caller))),
          { startImmediately: true }
        )
      const held = yield* acquireFileLock(path, patience)
      const first = yield* ask("first")
      const gone = yield* ask("gone")
      yield* TestClock.adjust("10 millis")
      const second = yield* ask("second")
      yield* TestClock.adjust("10 millis")
      yield* Fiber.interrupt(gone)
      held.unlock()
      // The second caller polls before the first one does.
      yield* TestClock.adjust("10 millis")
      assert.deepStrictEqual(order, [])
      yield* TestClock.adjust("10 millis")
      assert.deepStrictEqual(order, ["first"])
      const { unlock: release } = yield* Fiber.join(first)
      release()
      yield* TestClock.adjust("20 millis")
      assert.deepStrictEqual(order, ["first", "second"])
      ;(yield* Fiber.join(second)).unlock()
    })
  )

  it.effect("is refused as busy when it is not released within the given time", () =>
    Effect.gen(function* () {
      const path = yield* temporaryPath
      const { unlock: release } = yield* acquireFileLock(path, patience)
      const error = yield* Effect.flip(acquireFileLock(path, -1))
      assert.strictEqual(error.reason, "busy")
      release()
      ;(yield* acquireFileLock(path, patience)).unlock()
    })
  )

  it.effect("is a file that its owner alone can read", () =>
    Effect.gen(function* () {
      const path = yield* temporaryPath
      const { unlock: release } = yield* acquireFileLock(path, patience)
      assert.strictEqual((yield* Effect.promise(() => stat(path))).mode & 0o777, 0o600)
      release()
    })
  )

  it.effect("is refused as unusable when its path is a directory", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(acquireFileLock(tmpdir(), patience))
      assert.strictEqual(error.reason, "unusable")
    })
  )
})
