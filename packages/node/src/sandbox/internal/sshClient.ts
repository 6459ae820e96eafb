/**
 * The `ssh` client of this machine as the way to another one.
 *
 * One connection is kept open and shared by the scripts. A script whose connection would be one session too many for an ordinary server opens
 * its own. When this process ends, also by `kill -9`, the connections end; what runs on the other machine goes on.
 */
import { spawn } from "node:child_process"
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type { SshSandboxOptions } from "./remoteOptions.ts"
import { collectProgram, HostFailed, type Program, runProgram, type ShellHost } from "./shellHost.ts"
import { quote } from "./shellText.ts"

/** The exit code of `ssh` for its own failures. The scripts do not use it. */
const sshFailed = 255

/** Servers allow 10 sessions of a connection by default; the open connection is one itself. */
const mostShared = 8

/** How many scripts have a connection of their own at the same time. Servers refuse some of more than 10 that log in at once. */
const mostOwn = 6

const defaultConnectSeconds = 10

/** Opens a connection, which is closed with the scope. */
export const sshHost = Effect.fnUntraced(function* (
  options: SshSandboxOptions,
  env: Readonly<Record<string, string>>
): Effect.fn.Return<ShellHost, HostFailed, Scope.Scope> {
  const directory = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "fs-"))),
    (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
  )
  const connection = new Connection(options, env, join(directory, "s"))
  yield* Effect.addFinalizer(() => Effect.sync(() => connection.close()))
  yield* connection.ensure
  return {
    run: (script, { args = [], input } = {}) =>
      connection.withProgram(remote(script, args), (program) =>
        Effect.flatMap(collectProgram(program, input), ({ exitCode, stderr, stdout }) =>
          exitCode === undefined || exitCode === sshFailed
            ? Effect.fail(failureOf(stderr))
            : Effect.succeed({ exitCode, stdout })
        )
      ),
    follow: (script, { args = [], input, onOutput }) =>
      connection.withProgram(remote(script, args), (program) =>
        Effect.flatMap(runProgram(program, { input, onOutput }), ({ exitCode, stderr }) =>
          exitCode === undefined || exitCode === sshFailed
            ? Effect.fail(failureOf(stderr))
            : Effect.succeed(exitCode)
        )
      )
  }
})

/** The line for the login shell of the other machine, which only has to find `sh`. */
const remote = (script: string, args: ReadonlyArray<string>): string =>
  ["exec", "sh", "-c", quote(script), "sh", ...args.map(quote)].join(" ")

class Connection {
  private readonly options: SshSandboxOptions
  private readonly env: Readonly<Record<string, string>>
  private readonly socket: string
  private master: ReturnType<typeof spawn> | undefined
  private shared = 0
  private isClosed = false
  private readonly opening = Semaphore.makeUnsafe(1)
  private readonly own = Semaphore.makeUnsafe(mostOwn)

  constructor(options: SshSandboxOptions, env: Readonly<Record<string, string>>, socket: string) {
    this.options = options
    this.env = env
    this.socket = socket
  }

  close(): void {
    this.isClosed = true
    this.master?.kill("SIGTERM")
  }

  /** Opens the shared connection if it is not open. */
  readonly ensure: Effect.Effect<void, HostFailed> = Effect.suspend(() =>
    this.isOpen() ? Effect.void : this.opening.withPermit(Effect.suspend(() => this.open()))
  )

  withProgram<A>(
    line: string,
    use: (program: Program) => Effect.Effect<A, HostFailed>
  ): Effect.Effect<A, HostFailed> {
    return Effect.andThen(
      this.ensure,
      Effect.suspend(() => {
        if (this.shared >= mostShared) return this.own.withPermit(use(this.program([], line)))
        this.shared += 1
        return Effect.ensuring(
          use(this.program(["-S", this.socket, "-o", "ControlMaster=no"], line)),
          Effect.sync(() => {
            this.shared -= 1
          })
        )
      })
    )
  }

  private isOpen(): boolean {
    return this.master !== undefined && existsSync(this.socket)
  }

  private program(flags: ReadonlyArray<string>, line: string): Program {
    const { configFile, host, identityFile, port, program = "ssh", sshOptions = [], user } = this.options
    const own = flags.length === 0 ? ["-S", "none"] : flags
    return {
      program,
      env: this.env,
      args: [
        ...(configFile === undefined ? [] : ["-F", configFile]),
        ...own,
        ...sshOptions.flatMap((option) => ["-o", option]),
        // The first value of an option is used: those above take precedence.
        ...[
          "BatchMode=yes",
          `ConnectTimeout=${defaultConnectSeconds}`,
          "ServerAliveInterval=15",
          "ServerAliveCountMax=3",
          "ClearAllForwardings=yes",
          "PermitLocalCommand=no",
          "EscapeChar=none",
          "LogLevel=ERROR"
        ].flatMap((option) => ["-o", option]),
        "-a",
        "-x",
        "-T",
        ...(port === undefined ? [] : ["-p", String(port)]),
        ...(user === undefined ? [] : ["-l", user]),
        ...(identityFile === undefined ? [] : ["-o", "IdentitiesOnly=yes", "-i", identityFile]),
        "--",
        host,
        line
      ]
    }
  }

  private open(): Effect.Effect<void, HostFailed> {
    if (this.isOpen()) return Effect.void
    if (this.isClosed) return Effect.fail(new HostFailed("the sandbox was released", true))
    return Effect.callback<void, HostFailed>((resume) => {
      rmSync(this.socket, { force: true })
      // The connection ends with its input, and so with this process.
      const { args, program } = this.program(["-M", "-S", this.socket], "exec cat > /dev/null")
      const child = spawn(program, args, { stdio: ["pipe", "ignore", "pipe"], env: { ...this.env } })
      this.master = child
      let stderr = ""
      child.stderr?.on("data", (bytes: Buffer) => (stderr = (stderr + bytes.toString()).slice(-4000)))
      child.stdin?.on("error", () => undefined)
      const timer = setInterval(() => {
        if (!existsSync(this.socket)) return
        clearInterval(timer)
        resume(Effect.void)
      }, 10)
      child.once("error", () => {
        clearInterval(timer)
        this.master = undefined
        resume(Effect.fail(new HostFailed(`the program ${program} could not be started`, true, false)))
      })
      child.once("close", () => {
        clearInterval(timer)
        if (this.master === child) this.master = undefined
        resume(Effect.fail(failureOf(stderr, true)))
      })
      return Effect.sync(() => {
        clearInterval(timer)
        child.kill("SIGTERM")
      })
    })
  }
}

/** What `ssh` says about its own failures. Its text is not passed on: it can name files and addresses of this machine. */
const failures: ReadonlyArray<readonly [RegExp, string, boolean]> = [
  [
    /host key verification failed|remote host identification has changed|no .* host key is known/i,
    "the key of the host is unknown or has changed: add the right one to the known hosts",
    false
  ],
  [
    /permission denied|too many authentication failures|no supported authentication/i,
    "the host refused the login: give a key that it accepts, without a passphrase or from an agent",
    false
  ],
  [/could not resolve/i, "the name of the host cannot be resolved", true],
  [
    /connection (refused|timed out)|no route|unreachable|operation timed out|connection reset|kex_exchange|connection closed by/i,
    "the host cannot be reached",
    true
  ],
  [
    /bad configuration|unsupported option|no such identity|command-line|can't open user config/i,
    "ssh refuses its options",
    false
  ]
]

/** What `ssh` says when a connection ends that was open: the script may have run. */
const endedLater = /read from remote host|client_loop|closed by remote host|packet_write_wait/i

const failureOf = (stderr: string, isOpening = false): HostFailed => {
  if (!isOpening && endedLater.test(stderr)) return new HostFailed("the connection was lost", false)
  const known = failures.find(([pattern]) => pattern.test(stderr))
  return known === undefined
    ? new HostFailed("the connection was lost", isOpening)
    : new HostFailed(known[1], true, known[2])
}
