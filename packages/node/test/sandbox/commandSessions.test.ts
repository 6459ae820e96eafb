import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { makeSandbox, type Sandbox } from "@fermata/sdk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import { CommandSessions } from "../../src/sandbox/internal/commandSessions.ts"
import { homeScripts } from "../../src/sandbox/internal/sessionHome.ts"
import { HostFailed, localHost, type ShellHost } from "../../src/sandbox/internal/shellHost.ts"
import { localSandbox } from "../../src/sandbox/localSandbox.ts"
import { backgroundOf } from "../../src/tools/internal/shell/BackgroundCommands.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

const env = { PATH: process.env["PATH"]! }

/** A way to this machine that can be cut: scripts run to their end, and what they print is lost. */
class Line {
  isCut = false
  readonly #cut = Deferred.makeUnsafe<never, HostFailed>()

  cut(): void {
    this.isCut = true
    Deferred.doneUnsafe(this.#cut, Effect.fail(new HostFailed("the connection was lost", false)))
  }

  readonly host: ShellHost = {
    run: (script, options) => (this.isCut ? Effect.fail(down) : localHost(env).run(script, options)),
    follow: (script, options) =>
      this.isCut
        ? Effect.fail(down)
        : Effect.raceFirst(localHost(env).follow(script, options), Deferred.await(this.#cut))
  }
}

/** Whether a process runs: one that has ended may wait for its parent. */
const isRunning = (pid: number): boolean =>
  existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"))

const down = new HostFailed("the host cannot be reached", true)

/** A sandbox on this machine whose commands are sessions, over this line. */
const sandboxOver = (host: ShellHost): Effect.Effect<Sandbox.Shape, unknown, Scope.Scope> =>
  Effect.gen(function* () {
    const { top, workdir } = yield* temporaryDirectory
    const local = yield* localSandbox({ workdir }).create({
      runId: "run" as never,
      sessionId: "session" as never
    })
    const sessions = new CommandSessions({
      backend: "test",
      host,
      directory: join(top, "sessions"),
      surroundings: { directoryOf: () => Effect.succeed(workdir), env }
    })
    const { approvedFiles, files, judgePath, ref, scope, target } = local
    const own = { approvedFiles, files, judgePath, ref, scope, target, spawner: sessions.spawner }
    return makeSandbox({ ...own, exec: sessions.exec(own), findCommand: sessions.findCommand(own) })
  })

describe("the sessions of a connection that is lost", () => {
  it.live(
    "do not say that a command was not started whose start was on its way",
    () =>
      Effect.gen(function* () {
        let attempts = 0
        const host: ShellHost = {
          ...localHost(env),
          follow: (script, options) => {
            attempts += 1
            if (attempts > 1) return Effect.fail(down)
            // The script arrives and runs, and the connection is lost before it says so.
            return Effect.andThen(
              localHost(env).follow(script, { ...options, onOutput: () => undefined }),
              Effect.fail(new HostFailed("the connection was lost", false))
            )
          }
        }
        const sandbox = yield* sandboxOver(host)
        const error = yield* Effect.flip(sandbox.exec("echo ran >> log", { session: "one" }))
        assert.strictEqual(yield* sandbox.files.readFileString("log"), "ran\n")
        assert.isAbove(attempts, 1)
        assert.notProperty(error, "notStarted")
        assert.include(error.message, "may have had effects")
      }).pipe(Effect.scoped),
    60_000
  )

  it.live(
    "are followed again by the command in the background, which is then stopped",
    () =>
      Effect.gen(function* () {
        const first = new Line()
        let { host } = first
        const through: ShellHost = {
          run: (script, options) => host.run(script, options),
          follow: (script, options) => host.follow(script, options)
        }
        const sandbox = yield* sandboxOver(through)
        const commands = backgroundOf(sandbox)
        const scope = yield* Scope.Scope
        const command = yield* commands.start({
          id: "one",
          line: ["sh", "-c", "echo $$; while :; do sleep 0.05; done"],
          cwd: undefined,
          scope,
          maxRunning: 1,
          maxOutputLength: 1000
        })
        const beyond = (position: number, of = command) =>
          Effect.callback<void>((resume) => void of.log.onBeyond(position, () => resume(Effect.void)))
        yield* beyond(0)
        const pid = Number(command.log.read(0, 100).text)
        first.cut()
        yield* beyond(Number.POSITIVE_INFINITY)
        assert.strictEqual(command.status._tag, "failed")
        // Without a connection, what is known of it is that it failed.
        assert.strictEqual(yield* commands.find("one", scope, 1000), command)
        assert.isTrue(isRunning(pid))
        host = new Line().host
        const again = yield* commands.find("one", scope, 1000)
        assert.strictEqual(again.status._tag, "running")
        yield* beyond(0, again)
        assert.strictEqual(Number(again.log.read(0, 100).text), pid)
        yield* commands.stop(again)
        assert.strictEqual(again.status._tag, "stopped")
        assert.isFalse(isRunning(pid))
      }).pipe(Effect.scoped),
    60_000
  )
})

describe("the output of a command that has ended", () => {
  /** A `tee` that stores nothing for a second, as on a busy machine. */
  const slowTee = Effect.map(temporaryDirectory, ({ top }) => {
    const tee = execFileSync("sh", ["-c", "command -v tee"]).toString().trim()
    writeFileSync(join(top, "tee"), `#!/bin/sh\nsleep 1\nexec ${tee} "$@"\n`, { mode: 0o755 })
    return localHost({ PATH: `${top}:${env.PATH}` })
  })

  it.live("is whole, however late the programs begin that store it", () =>
    Effect.gen(function* () {
      const sandbox = yield* sandboxOver(yield* slowTee)
      const result = yield* sandbox.exec("echo one; echo two >&2; exit 3")
      assert.deepInclude(result, { exitCode: 3, stdout: "one\n", stderr: "two\n" })
    }).pipe(Effect.scoped)
  )
})

describe("the directory of sessions", () => {
  it.live("drops the output of an old command, and does not run it again", () =>
    Effect.gen(function* () {
      const { top, workdir } = yield* temporaryDirectory
      const host = localHost({ ...env, HOME: top })
      const directory = (yield* host.run(homeScripts.open, { args: [workdir, "ssh/one"] })).stdout
        .toString()
        .split("\0")[1]!
      const old = join(directory, "s-old")
      mkdirSync(join(old, "started"), { recursive: true })
      for (const [name, content] of Object.entries({
        command: "true",
        out: "text",
        err: "",
        "out.bytes": "4\n",
        "err.bytes": "0\n",
        code: "3\n"
      }))
        writeFileSync(join(old, name), content)
      const then = Date.now() / 1000 - 20 * 24 * 3600
      utimesSync(join(old, "code"), then, then)
      yield* host.run(homeScripts.open, { args: [workdir, "ssh/one"] })
      assert.isFalse(existsSync(join(old, "out")))
      assert.strictEqual(readFileSync(join(old, "code"), "utf8"), "3\n")
      assert.isTrue(existsSync(join(old, "started")))
    }).pipe(Effect.scoped)
  )
})
