import { execFileSync } from "node:child_process"
import { assert, describe, it } from "@effect/vitest"
import { OptionsInvalid, tmuxCommand, tmuxSandbox } from "@fermata/node"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import { createIn, fewTries, sandboxContract } from "./contract.ts"
import { sessionContract } from "./sessions.ts"
import { noTmux, type TmuxServer, tmuxServer } from "./tmuxServer.ts"

const subjectOf = ({ kill, socket, workdir }: TmuxServer) => ({
  provider: tmuxSandbox({ socket, size: { columns: 40, rows: 30 } }),
  workdir,
  lose: () => kill
})

const subject = Effect.map(tmuxServer, subjectOf)

sandboxContract("tmux", subject, { skip: noTmux, cancels: fewTries, timeoutMs: 60_000 })

sessionContract("tmux", subject, { skip: noTmux })

const timeoutMs = 60_000

it("tmuxSandbox refuses options that are none", () => {
  const wrong: ReadonlyArray<object> = [
    { socket: "" },
    { socket: "x".repeat(101) },
    { size: { columns: 10, rows: 10 } },
    { size: 80 },
    { workdir: 1 },
    { session: "x" }
  ]
  for (const options of wrong)
    assert.throws(() => tmuxSandbox(options), OptionsInvalid.OptionsInvalid, "", JSON.stringify(options))
})

describe.skipIf(noTmux !== undefined)(`tmuxSandbox${noTmux === undefined ? "" : `: ${noTmux}`}`, () => {
  it.live(
    "shows the commands and both streams of their output, of any width, and the exit code of one that failed",
    () =>
      Effect.gen(function* () {
        const server = yield* tmuxServer
        const sandbox = yield* createIn(subjectOf(server))
        const long = "0123456789".repeat(9)
        const { stdout } = yield* sandbox.exec(`echo ${long}; echo wörd >&2; exit 3`)
        // The terminal has 40 columns; the result is not cut at them.
        assert.strictEqual(stdout, `${long}\n`)
        // The terminal shows them a moment later.
        const isShown = (text: string) => /^wörd$/m.test(text) && text.includes("[exit code 3]")
        const screen = yield* Effect.repeat(sandbox.screen, {
          until: isShown,
          schedule: Schedule.spaced("20 millis")
        })
        assert.include(screen, "$ echo 0123456789")
        assert.isTrue(screen.split("\n").every((line) => line.length <= 40))
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "shows control characters of a command as spaces",
    () =>
      Effect.gen(function* () {
        const sandbox = yield* createIn(yield* subject)
        yield* sandbox.exec(["true", "a\u001b[2Jb", "c\nd"])
        assert.include(yield* sandbox.screen, "$ true a [2Jb c d")
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "gives the line with which a person attaches, who stops the command with Ctrl-C",
    () =>
      Effect.gen(function* () {
        const server = yield* tmuxServer
        const sandbox = yield* createIn(subjectOf(server))
        const line = tmuxCommand(sandbox.ref)
        assert.match(line ?? "", /^tmux -S '.*tmux\.sock' attach -t 'fermata-[0-9a-f]{12}'$/)
        const look = line!.replace("attach -t", "display-message -p -t").concat(" '#{pane_width}'")
        assert.strictEqual(execFileSync("sh", ["-c", look]).toString(), "40\n")
        const ready = yield* Deferred.make<void>()
        const running = yield* Effect.forkScoped(
          sandbox.exec("echo ready; exec sleep 600", {
            onOutput: () => Deferred.doneUnsafe(ready, Effect.void)
          })
        )
        yield* Deferred.await(ready)
        const session = line!.split("'").at(-2)!
        server.tmux("send-keys", "-t", session, "rm -rf typed", "Enter")
        server.tmux("send-keys", "-t", session, "C-c")
        assert.strictEqual((yield* Fiber.join(running)).exitCode, 130)
        // What was typed was not run, and the terminal goes on.
        assert.strictEqual((yield* sandbox.exec("echo next")).stdout, "next\n")
        assert.notInclude(yield* sandbox.screen, "typed")
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "has a terminal of its own for each run, and keeps those of other runs",
    () =>
      Effect.gen(function* () {
        const server = yield* tmuxServer
        const { provider, workdir } = subjectOf(server)
        const one = yield* createIn({ ...subjectOf(server) })
        const two = yield* provider.create({ runId: "run_two", sessionId: "session_two", workdir } as never)
        yield* one.exec("echo first")
        yield* two.exec("echo second")
        assert.notInclude(yield* two.screen, "first")
        yield* provider.destroy(one.ref)
        assert.deepInclude({ ...(yield* Effect.flip(one.screen)) }, { _tag: "SandboxLost" })
        assert.include(yield* two.screen, "second")
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "stops the commands of a sandbox that is destroyed, and leaves its working directory",
    () =>
      Effect.gen(function* () {
        const server = yield* tmuxServer
        const { provider } = subjectOf(server)
        const sandbox = yield* createIn(subjectOf(server))
        const ready = yield* Deferred.make<void>()
        const running = yield* Effect.forkScoped(
          sandbox.exec("echo $$ > pid; echo ready; exec sleep 600", {
            session: "s",
            onOutput: () => Deferred.doneUnsafe(ready, Effect.void)
          })
        )
        yield* Deferred.await(ready)
        yield* provider.destroy(sandbox.ref)
        const pid = Number(yield* sandbox.files.readFileString("pid"))
        assert.throws(() => process.kill(pid, 0))
        yield* Fiber.interrupt(running)
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "fails with a sentence if tmux is not installed",
    () =>
      Effect.gen(function* () {
        const before = process.env["PATH"]
        process.env["PATH"] = "/nowhere"
        const error = yield* Effect.flip(Effect.flatMap(subject, createIn)).pipe(
          Effect.ensuring(Effect.sync(() => (process.env["PATH"] = before)))
        )
        assert.deepInclude({ ...error }, { _tag: "SandboxUnavailable", retryable: false })
        assert.include(error.message, "tmux")
      }).pipe(Effect.scoped),
    timeoutMs
  )
})
