/**
 * One sandbox of Daytona: started when it is needed, and lost when it no longer exists. Its scripts run through the toolbox, so that its files
 * have the rules of every sandbox.
 */
import { randomUUID } from "node:crypto"
import { SandboxError } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import { type DaytonaApi, DaytonaFailed, type DaytonaToolbox, type SandboxInfo } from "./daytonaApi.ts"
import { HostFailed, type ShellHost } from "./shellHost.ts"
import { quote } from "./shellText.ts"

export const backend = "daytona"

type OpenError = SandboxError.SandboxLost | SandboxError.SandboxUnavailable

/** How long a sandbox may take to start. */
const startSeconds = 180

/** How long a script of the files may take. */
const scriptSeconds = 30

const stopped: ReadonlySet<string> = new Set(["stopped", "archived", "paused"])
const destroyed: ReadonlySet<string> = new Set(["destroyed", "destroying"])
const broken: ReadonlySet<string> = new Set(["error", "build_failed"])

/** Whether a sandbox was found and is not destroyed. */
export const isThere = (info: SandboxInfo | undefined): info is SandboxInfo =>
  info !== undefined && !destroyed.has(info.state ?? "")

/** A sandbox of Daytona, by its id: starts it and runs scripts in it. */
export class DaytonaBox {
  readonly id: string
  readonly api: DaytonaApi
  readonly toolbox: DaytonaToolbox
  /** The directory of the files that scripts exchange; set by `prepare`. */
  private exchange = ""

  constructor(api: DaytonaApi, id: string, toolbox: DaytonaToolbox) {
    this.api = api
    this.id = id
    this.toolbox = toolbox
  }

  /** Waits until the sandbox runs, and starts it if it was stopped. */
  readonly ensureStarted: Effect.Effect<void, OpenError> = Effect.suspend(() => {
    let hasStarted = false
    const attempt: Effect.Effect<void, OpenError> = Effect.gen({ self: this }, function* () {
      const info = yield* Effect.mapError(this.api.find(this.id), unavailableBy)
      if (!isThere(info)) return yield* Effect.fail(lost(this.id))
      const { state = "unknown" } = info
      if (state === "started") return
      if (broken.has(state))
        return yield* Effect.fail(unavailable("it is in an error state: recover it in Daytona", false))
      if (stopped.has(state) && !hasStarted) {
        hasStarted = true
        // Another process may have started it meanwhile.
        yield* Effect.catchIf(
          this.api.start(this.id),
          ({ status }) => status === 400 || status === 409,
          () => Effect.void
        ).pipe(Effect.mapError(unavailableBy))
      }
      yield* Effect.sleep("500 millis")
      return yield* attempt
    })
    return Effect.timeoutOrElse(attempt, {
      duration: `${startSeconds} seconds`,
      orElse: () => Effect.fail(unavailable("it did not start in time", true))
    })
  })

  /** Sends a repeatable request to the toolbox. If the sandbox was stopped meanwhile, starts it and sends the request again. */
  use<A>(request: Effect.Effect<A, DaytonaFailed>): Effect.Effect<A, DaytonaFailed | OpenError> {
    return Effect.catch(request, (error) =>
      Effect.gen({ self: this }, function* () {
        if (error.status === 401 || error.status === 429) return yield* Effect.fail(error)
        const info = yield* Effect.mapError(this.api.find(this.id), () => error)
        if (!isThere(info)) return yield* Effect.fail(lost(this.id))
        const isRunning = info.state === "started"
        if (isRunning && !error.retryable) return yield* Effect.fail(error)
        yield* this.ensureStarted
        return yield* request
      })
    )
  }

  /** Makes the directories that the sandbox needs, and gives the working directory without symbolic links. */
  prepare(workdir: string | undefined): Effect.Effect<string, DaytonaFailed | OpenError> {
    return Effect.gen({ self: this }, function* () {
      const directory = workdir ?? (yield* this.use(this.toolbox.workDir))
      if (workdir !== undefined) yield* this.use(this.toolbox.makeFolder(workdir))
      const script =
        'umask 077; mkdir -p "$HOME/.fermata/io" "$HOME/.fermata/commands" && cd "$HOME/.fermata/io" && pwd -P && cd "$1" && pwd -P'
      const { exitCode, output } = yield* this.use(
        this.toolbox.execute(words("sh", "-c", script, "sh", directory), scriptSeconds)
      )
      const [exchange = "", real = ""] = output.split("\n")
      if (exitCode !== 0 || !exchange.startsWith("/") || !real.startsWith("/"))
        return yield* Effect.fail(new DaytonaFailed("its working directory cannot be used", false))
      this.exchange = exchange
      return real
    })
  }

  /** Runs scripts in the sandbox. Their input and their binary output go through files, because responses are text. */
  readonly host: ShellHost = {
    run: (script, { args = [], input, isBinary = false } = {}) =>
      Effect.gen({ self: this }, function* () {
        const file = `${this.exchange}/${randomUUID()}`
        const [from, to] = [input === undefined ? "/dev/null" : `${file}.in`, `${file}.out`]
        if (input !== undefined) yield* this.use(this.toolbox.upload(from, input))
        const around = `s=$1; i=$2; o=$3; shift 3
if [ -n "$o" ]; then sh -c "$s" sh "$@" < "$i" > "$o" 2>/dev/null; else sh -c "$s" sh "$@" < "$i" 2>/dev/null; fi
c=$?
[ "$i" = /dev/null ] || rm -f "$i"
exit $c`
        const { exitCode, output } = yield* this.use(
          this.toolbox.execute(
            words("sh", "-c", around, "sh", script, from, isBinary ? to : "", ...args),
            scriptSeconds
          )
        )
        if (!isBinary) return { exitCode, stdout: Buffer.from(output) }
        const stdout = Buffer.from(
          exitCode === 0 ? yield* this.use(this.toolbox.download(to)) : new Uint8Array()
        )
        yield* Effect.ignore(this.toolbox.execute(words("rm", "-f", to), scriptSeconds))
        return { exitCode, stdout }
      }).pipe(
        Effect.mapError((error) =>
          error._tag === "DaytonaFailed"
            ? new HostFailed(error.problem, false, error.retryable)
            : new HostFailed("its sandbox is not there", false)
        )
      ),
    follow: () => Effect.fail(new HostFailed("scripts of Daytona are not followed", true, false))
  }
}

/** The command line of these words, each quoted for a shell. */
export const words = (...each: ReadonlyArray<string>): string => each.map(quote).join(" ")

export const lost = (id: string): SandboxError.SandboxLost =>
  SandboxError.SandboxLost.make({ backend, id, problem: "it was deleted in Daytona" })

export const unavailable = (problem: string, retryable: boolean): SandboxError.SandboxUnavailable =>
  SandboxError.SandboxUnavailable.make({ backend, problem, retryable })

export const unavailableBy = (error: DaytonaFailed | OpenError): SandboxError.SandboxUnavailable => {
  if (error._tag === "SandboxUnavailable") return error
  return error._tag === "DaytonaFailed"
    ? unavailable(error.problem, error.retryable)
    : unavailable("it was deleted while it was opened", true)
}
