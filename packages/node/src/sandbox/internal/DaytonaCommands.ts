/**
 * The commands of a Daytona sandbox. Each has a session of Daytona's own, so that its two streams stay apart and it goes on while no process is
 * attached.
 *
 * A command with a session is looked up before it is sent. Daytona forgets its sessions when a sandbox is stopped, so the command itself makes
 * a directory before it starts, which lasts as long as the sandbox: if the directory is there, the command does not start again.
 */
import { createHash, randomUUID } from "node:crypto"
import { makeSandbox, type Sandbox, SandboxError } from "@fermata/sdk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as PlatformError from "effect/PlatformError"
import type * as ChildProcess from "effect/process/ChildProcess"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import { commandHandle, type Output, withoutInput } from "./commandHandle.ts"
import type { Command, DaytonaFailed } from "./daytonaApi.ts"
import { backend, type DaytonaBox, words } from "./DaytonaBox.ts"
import { stopMarked } from "./sessionScripts.ts"
import { type Surroundings, textOf } from "./shellText.ts"
import { markerName } from "./stopScript.ts"
import { withCause } from "./withCause.ts"

type Parts = Parameters<typeof makeSandbox>[0]
type Failure = DaytonaFailed | SandboxError.SandboxLost | SandboxError.SandboxUnavailable

/** `ID TEXT KEPT MARK`: runs the command, once if it is kept. */
const runScript = `d=$HOME/.fermata/commands/$1
if [ -n "$3" ]; then
  umask 077
  mkdir -p "$HOME/.fermata/commands" && mkdir "$d" 2>/dev/null || { echo "The command was started before." >&2; exit 75; }
  umask 022
fi
${markerName}=$4 sh -c "$2" < /dev/null
c=$?
[ -n "$3" ] && echo $c > "$d/code"
exit $c`

/** `ID`: prints the exit code of a command that was kept, `started` if it did not end, or nothing. */
const markScript = `d=$HOME/.fermata/commands/$1
[ -d "$d" ] || exit 0
cat "$d/code" 2>/dev/null || echo started`

const scriptSeconds = 30

/** The shortest and the longest pause between two requests for a command's state, in milliseconds. */
const [firstPause, longestPause] = [60, 2000]

/** How many of these requests in a row may fail. */
const mostFailures = 8

/** The state of a command with a session. */
type Known =
  | { readonly _tag: "none" }
  | { readonly _tag: "listed"; readonly command: Command }
  /** Daytona has forgotten it: its sandbox was stopped since. */
  | { readonly _tag: "forgotten"; readonly exitCode: number | undefined }

export class DaytonaCommands {
  private readonly box: DaytonaBox
  private readonly surroundings: Surroundings

  constructor(box: DaytonaBox, surroundings: Surroundings) {
    this.box = box
    this.surroundings = surroundings
  }

  readonly spawner: ChildProcessSpawner.ChildProcessSpawner["Service"] = ChildProcessSpawner.make((command) =>
    this.spawn(command, undefined)
  )

  readonly exec =
    (parts: Parts): Sandbox.Shape["exec"] =>
    (command, options) => {
      const session = options?.session
      const spawner = ChildProcessSpawner.make((each) => this.spawn(each, session))
      return makeSandbox({ ...parts, spawner }).exec(command, options)
    }

  readonly findCommand =
    (parts: Parts): Sandbox.Shape["findCommand"] =>
    (session) =>
      Effect.gen({ self: this }, function* () {
        const id = idOf(session)
        const known = yield* Effect.mapError(this.look(id), errorOf)
        if (known._tag === "none") return { _tag: "unknown" } as const
        const code = known._tag === "listed" ? known.command.exitCode : known.exitCode
        if (typeof code !== "number") {
          if (known._tag === "listed") return { _tag: "running" } as const
          return yield* Effect.fail(endedByStop)
        }
        const follow = (output: Output) => Effect.mapError(this.followKnown(id, known, output), refused)
        const spawner = ChildProcessSpawner.make((command) =>
          commandHandle(command, { follow, stop: () => Effect.void, forget: () => Effect.void })
        )
        const result = yield* makeSandbox({ ...parts, spawner }).exec("")
        return { _tag: "ended", result: { ...result, durationMs: 0 } } as const
      })

  private readonly spawn = Effect.fnUntraced(
    { self: this as DaytonaCommands },
    function* (this: DaytonaCommands, command: ChildProcess.Command, session: string | undefined) {
      const { toolbox } = this.box
      yield* withoutInput(command)
      const id = session === undefined ? `c-${randomUUID()}` : idOf(session)
      const env = { ...this.surroundings.env, [markerName]: markOf(id) }
      const text = yield* textOf(command, { ...this.surroundings, env })
      const known: Known =
        session === undefined ? { _tag: "none" } : yield* Effect.mapError(this.look(id), notStarted)
      const running: Known =
        known._tag === "none"
          ? yield* Effect.mapError(this.send(id, text, session !== undefined), refused)
          : known
      const stop = (graceMs: number) =>
        toolbox
          .execute(
            words("sh", "-c", stopMarked, "sh", markOf(id), String(Math.ceil(graceMs / 100))),
            scriptSeconds
          )
          .pipe(Effect.ignore)
      return yield* commandHandle(command, {
        follow: (output) => Effect.mapError(this.followKnown(id, running, output), refused),
        stop,
        forget: () => (session === undefined ? Effect.ignore(toolbox.deleteSession(id)) : Effect.void)
      })
    },
    Effect.uninterruptible
  )

  /** Finds a command that was sent before. */
  private look(id: string): Effect.Effect<Known, Failure> {
    return Effect.gen({ self: this }, function* () {
      const { toolbox } = this.box
      const commands = yield* this.box.use(toolbox.commandsOf(id))
      const command = commands?.[0]
      if (command !== undefined) return { _tag: "listed", command } as const
      const { output } = yield* this.box.use(
        toolbox.execute(words("sh", "-c", markScript, "sh", id), scriptSeconds)
      )
      const mark = output.trim()
      if (mark === "") return { _tag: "none" } as const
      return { _tag: "forgotten", exitCode: /^\d+$/.test(mark) ? Number(mark) : undefined } as const
    })
  }

  /** Sends a command. If it is unknown whether it arrived, it is looked up. */
  private send(id: string, text: string, isKept: boolean): Effect.Effect<Known, Failure | typeof unsent> {
    const { toolbox } = this.box
    const line = words("sh", "-c", runScript, "sh", id, text, isKept ? "kept" : "", markOf(id))
    return Effect.gen({ self: this }, function* () {
      yield* this.box
        .use(
          Effect.catchIf(
            toolbox.createSession(id),
            ({ status }) => status === 409,
            () => Effect.void
          )
        )
        .pipe(Effect.mapError((error) => (error._tag === "DaytonaFailed" ? unsent : error)))
      const sent = yield* Effect.result(toolbox.startCommand(id, line))
      if (sent._tag === "Success") return { _tag: "listed", command: { id: sent.success } } as const
      const commands = yield* this.box.use(toolbox.commandsOf(id))
      const command = commands?.[0]
      return command === undefined ? yield* Effect.fail(sent.failure) : ({ _tag: "listed", command } as const)
    })
  }

  private followKnown(
    id: string,
    known: Known,
    output: Output
  ): Effect.Effect<number, Failure | typeof endedByStop> {
    if (known._tag === "listed") return this.follow(id, known.command.id, output)
    if (known._tag === "none" || known.exitCode === undefined) return Effect.fail(endedByStop)
    const { exitCode } = known
    return Effect.sync(() => {
      output.stderr(Buffer.from("[The output was lost when the sandbox was stopped.]\n"))
      return exitCode
    })
  }

  /** Polls a command until it has ended. The pauses grow with the time that a request takes. */
  private follow(
    session: string,
    id: string,
    output: Output
  ): Effect.Effect<number, Failure | typeof endedByStop> {
    return Effect.gen({ self: this }, function* () {
      const { toolbox } = this.box
      const sent = { stdout: 0, stderr: 0 }
      let [pause, failures] = [firstPause, 0]
      for (;;) {
        const startedAt = yield* Clock.currentTimeMillis
        const looked = yield* Effect.result(
          Effect.gen(function* () {
            // Its logs are whole when it has ended.
            const { exitCode } = yield* toolbox.command(session, id)
            return { exitCode, logs: yield* toolbox.logs(session, id) }
          })
        )
        if (looked._tag === "Success") {
          failures = 0
          const { exitCode, logs } = looked.success
          const hasEnded = typeof exitCode === "number"
          let isNew = false
          for (const stream of ["stdout", "stderr"] as const) {
            // A character that is cut at the end of the logs changes when the rest arrives.
            const text = hasEnded ? logs[stream] : logs[stream].replace(/\uFFFD+$/, "")
            if (text.length <= sent[stream]) continue
            output[stream](Buffer.from(text.slice(sent[stream])))
            sent[stream] = text.length
            isNew = true
          }
          if (hasEnded) return exitCode
          const took = (yield* Clock.currentTimeMillis) - startedAt
          pause = Math.max(took * 4, isNew ? firstPause : Math.min(longestPause, pause * 1.2))
        } else {
          const error = looked.failure
          failures += 1
          const commands = yield* Effect.result(this.box.use(toolbox.commandsOf(session)))
          if (commands._tag === "Failure" && commands.failure._tag === "SandboxLost")
            return yield* Effect.fail(commands.failure)
          if (commands._tag === "Success" && !commands.success?.some((each) => each.id === id))
            return yield* Effect.fail(endedByStop)
          if (failures >= mostFailures || (!error.retryable && error.status !== 404))
            return yield* Effect.fail(error)
          pause = Math.min(longestPause, pause * 2)
        }
        yield* Effect.sleep(pause)
      }
    })
  }
}

const failed = (problem: string, certainly = false): SandboxError.CommandFailed =>
  SandboxError.CommandFailed.make({ backend, problem, ...(certainly ? { notStarted: true as const } : {}) })

const endedByStop = failed("its sandbox was stopped while it ran")

const unsent = failed("Daytona took no session for it", true)

const errorOf = (
  error: Failure | SandboxError.CommandFailed
): SandboxError.SandboxLost | SandboxError.SandboxUnavailable | SandboxError.CommandFailed =>
  error._tag === "DaytonaFailed" ? failed(error.problem) : error

const refused = (error: Failure | SandboxError.CommandFailed): PlatformError.PlatformError =>
  withCause(errorOf(error))

const notStarted = (error: Failure): PlatformError.PlatformError =>
  withCause(error._tag === "DaytonaFailed" ? failed(error.problem, true) : error)

/** The session's own id where Daytona takes it, so that it is found in Daytona's list. */
const idOf = (session: string): string =>
  /^[A-Za-z0-9][A-Za-z0-9_.:-]*$/.test(session) && session.length <= 200 ? session : `s-${hashOf(session)}`

/**
 * The mark of the processes of a command. It is a hash, because the id of one session can be part of another's, whose processes would be
 * stopped, too.
 */
const markOf = (id: string): string => `m-${hashOf(id)}`

const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 40)
