/**
 * Commands whose process was killed: what the next process finds out about them.
 */
import { execFileSync, spawn } from "node:child_process"
import { readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { localSandbox, tmuxSandbox } from "@fermata/node"
import * as Effect from "effect/Effect"
import { sourceFlags } from "../../../../scripts/internal/sourceFlags.ts"
import { expireLeases } from "../expireLeases.ts"
import { temporaryDirectory } from "../sandbox/temporaryDirectory.ts"
import { type Call, opened, resultTexts } from "./shellRuns.ts"

const run = (command: string, background = false): Call => ["run_shell", { command, background }]

const noTmux = ((): string | undefined => {
  try {
    execFileSync("tmux", ["-V"], { stdio: "ignore" })
    return undefined
  } catch {
    return "the program tmux is not installed"
  }
})()

/** Begins the calls in a process, which is killed when an update contains a text, and continues the run here. */
const killed = (options: {
  readonly kind: "local" | "tmux"
  readonly calls: ReadonlyArray<Call>
  readonly fatal: string
  /** The calls of the model after the kill. Default: as before. */
  readonly then?: (results: ReadonlyArray<string>) => Call | undefined
  readonly between?: (workdir: string) => void
}) =>
  Effect.gen(function* () {
    const { calls, fatal, kind } = options
    const { top, workdir } = yield* temporaryDirectory
    const [store, socket] = [join(top, "runs.db"), join(top, "tmux.sock")]
    // What a killed process has left without a session ends with the test.
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        try {
          execFileSync(
            "sh",
            ["-c", `touch '${workdir}/go' '${workdir}/stop'; tmux -S '${socket}' kill-server`],
            {
              stdio: "ignore"
            }
          )
        } catch {
          // There is no server.
        }
      })
    )
    const sandbox = () => (kind === "tmux" ? tmuxSandbox({ socket, workdir }) : localSandbox({ workdir }))
    const program = join(import.meta.dirname, "../programs/shellRun.ts")
    const args = [store, workdir, kind, socket, JSON.stringify(calls), fatal]
    const ended = yield* Effect.promise(
      () =>
        new Promise<string>((resolve) => {
          const child = spawn(process.execPath, [...sourceFlags, program, ...args], {
            stdio: ["ignore", "ignore", "pipe"]
          })
          let stderr = ""
          child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text))
          child.once("close", (_, signal) => resolve(signal ?? stderr))
        })
    )
    assert.strictEqual(ended, "SIGKILL")
    options.between?.(workdir)
    expireLeases(store)
    return yield* Effect.promise(async () => {
      const { fermata, model } = await opened(options.then ?? calls, {
        workdir,
        store,
        policy: "all",
        sandbox
      })
      await using _ = fermata
      const [run] = await fermata.runs()
      const result = await fermata.resume(run!.runId)
      return {
        result,
        texts: resultTexts(model.requests.at(-1)?.messages ?? []),
        files: readdirSync(workdir)
      }
    })
  })

const waiting = "echo one; until [ -e go ]; do sleep 0.05; done; echo two"

describe.skipIf(process.platform === "win32")("after the process was killed", () => {
  it.live(
    "a command that only reads is run again, and any other one is in doubt",
    () =>
      Effect.gen(function* () {
        const [read, wrote] = yield* Effect.all(
          [
            killed({ kind: "local", calls: [run("ls -a")], fatal: "$ ls" }),
            killed({ kind: "local", calls: [run("touch made")], fatal: "$ touch" })
          ],
          { concurrency: 2 }
        )
        assert.strictEqual(read.result.status, "completed")
        assert.match(read.texts[0]!, /^exit code 0 /)
        assert(wrote.result.status === "interrupted")
        assert.strictEqual(wrote.result.interruptions[0]?._tag, "inDoubt")
        assert.notInclude(wrote.files, "made")
      }),
    300_000
  )

  it.live(
    "a command in the background is lost where nothing keeps sessions",
    () =>
      Effect.gen(function* () {
        const { result, texts } = yield* killed({
          kind: "local",
          calls: [run(waiting, true), run("ls")],
          fatal: "$ ls",
          then: (results) =>
            results.length === 2 ? ["shell_output", { id: results[0]!.split(":")[0]! }] : undefined
        })
        assert.strictEqual(result.status, "completed")
        assert.include(texts[2]!, "the process that started it has ended and its output is lost")
      }),
    300_000
  )

  describe.skipIf(noTmux !== undefined)(
    `where sessions are kept${noTmux === undefined ? "" : `: ${noTmux}`}`,
    () => {
      it.live(
        "a command goes on, its result is found, and so is one in the background",
        () =>
          Effect.gen(function* () {
            const { result, texts } = yield* killed({
              kind: "tmux",
              calls: [run("echo served; until [ -e stop ]; do sleep 0.05; done", true), run(waiting)],
              fatal: "one\n",
              between: (workdir) => writeFileSync(join(workdir, "go"), ""),
              then: (results) => {
                const id = results[0]!.split(":")[0]!
                return results.length === 2
                  ? ["shell_output", { id, since: 0, wait: 10 }]
                  : results.length === 3
                    ? ["shell_stop", { id }]
                    : undefined
              }
            })
            assert.strictEqual(result.status, "completed")
            assert.match(texts[1]!, /^exit code 0 .*\nstdout:\none\ntwo\n$/)
            assert.match(texts[2]!, /: running for .*\n.*\nserved\n/)
            assert.match(texts[3]!, /: stopped\n/)
          }),
        300_000
      )
    }
  )
})
