import { spawn } from "node:child_process"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { closeOnSignal, SqliteStore } from "@fermata/node"
import type { Id } from "@fermata/sdk/domain"
import { RunStore } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import { sourceFlags } from "../../../scripts/internal/sourceFlags.ts"
import { temporaryFile } from "./temporaryStore.ts"

/** Sends signals to a program once it is ready; returns its exit code and output. */
const ended = (args: ReadonlyArray<string>, ...signals: ReadonlyArray<NodeJS.Signals>) =>
  new Promise<{ readonly code: number | null; readonly output: string }>((resolve) => {
    const program = Path.join(import.meta.dirname, "programs/closing.ts")
    const child = spawn(process.execPath, [...sourceFlags, program, ...args])
    let output = ""
    let isAsked = false
    const listen = (chunk: Buffer) => {
      output += chunk.toString()
      if (isAsked || !output.includes("ready")) return
      isAsked = true
      for (const signal of signals) child.kill(signal)
    }
    child.stdout.on("data", listen)
    child.stderr.on("data", listen)
    child.once("close", (code) => resolve({ code, output }))
  })

describe("closeOnSignal", () => {
  it.effect("suspends the program's runs on SIGTERM and exits with 0", () =>
    Effect.gen(function* () {
      const store = yield* temporaryFile
      const { code, output } = yield* Effect.promise(() => ended(["run", store], "SIGTERM"))
      assert.strictEqual(code, 0)
      assert.include(output, "RunSuspended")
      const run = yield* Effect.provide(
        Effect.flatMap(RunStore.RunStore, (store) => store.head("run-1" as Id.RunId)),
        SqliteStore.layer({ filename: store })
      )
      assert.strictEqual(run.status, "running")
      assert.isUndefined(run.lease)
    })
  )

  it("exits with 1 and prints the reason when closing takes too long or fails", async () => {
    const stuck = await ended(["stuck"], "SIGTERM")
    assert.strictEqual(stuck.code, 1)
    assert.include(stuck.output, "Closing took more than 300 ms after SIGTERM.")
    const broken = await ended(["broken"], "SIGINT")
    assert.strictEqual(broken.code, 1)
    assert.include(broken.output, "Closing failed: no.")
  })

  it("waits until the open responses of a server have ended", async () => {
    const { code, output } = await ended(["serve"], "SIGTERM")
    assert.strictEqual(code, 0)
    assert.include(output, "the server has ended")
  })

  it("cuts the connections of clients that do not read their responses", async () => {
    const { code, output } = await ended(["unread"], "SIGTERM")
    assert.strictEqual(code, 0, output)
  })

  it("refuses a wrong value with the name of its option and adds no signal listener", () => {
    const before = process.listenerCount("SIGTERM")
    for (const [wrong, name] of [
      [{ signals: "SIGTERM" }, "signals"],
      [{ signals: ["SIGTERM", "TERM"] }, "signals"],
      [{ signals: ["SIGKILL"] }, "signals"],
      [{ signals: ["SIGSTOP"] }, "signals"],
      [{ signals: [15] }, "signals"],
      ...[0, -1, NaN, Infinity, "5 seconds", 2 ** 31].map((timeoutMs) => [{ timeoutMs }, "timeoutMs"]),
      [{ onProblem: "log" }, "onProblem"]
    ] as ReadonlyArray<[object, string]>) {
      const refused = () => closeOnSignal([], wrong as never)
      assert.throws(
        refused,
        new RegExp(`"${name}" of the options of closeOnSignal takes`),
        JSON.stringify(wrong)
      )
    }
    for (const closables of [undefined, { close: () => {} }, [undefined], [{}], [{ close: true }]]) {
      assert.throws(
        () => closeOnSignal(closables as never),
        /takes a list of objects with `close`|is missing/
      )
    }
    assert.strictEqual(process.listenerCount("SIGTERM"), before)
  })

  it("refuses an unknown option and adds no signal listener", () => {
    const before = process.listenerCount("SIGTERM")
    assert.throws(() => closeOnSignal([], { timeout: 5 } as never), /did you mean "timeoutMs"\?/)
    assert.strictEqual(process.listenerCount("SIGTERM"), before)
  })
})
