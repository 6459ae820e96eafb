/**
 * The commands of a sandbox that run in the background.
 *
 * A command belongs to the scope of its run: it is stopped when the run is cancelled or the sandbox is released. Its id is that of the call that
 * started it, under which a sandbox with the capability `sessions` finds it from another process.
 */
import type { Sandbox, SandboxError } from "@fermata/sdk"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import { OutputLog } from "./OutputLog.ts"
import { CommandLost, TooManyCommands } from "./shellErrors.ts"

/** The status of a command in the background. */
type BackgroundStatus =
  | { readonly _tag: "running" }
  | { readonly _tag: "ended"; readonly result: Sandbox.ExecResult }
  | { readonly _tag: "failed"; readonly error: unknown }
  | { readonly _tag: "stopped" }

/** A command that runs in the background, or did. */
export interface BackgroundCommand {
  readonly id: string
  readonly log: OutputLog
  readonly startedAt: number
  status: BackgroundStatus
  fiber: Fiber.Fiber<unknown, unknown> | undefined
}

/** The command that a call starts in the background. */
export interface Starting {
  readonly id: string
  readonly line: Sandbox.Command
  readonly cwd: string | undefined
  readonly scope: Scope.Scope
  readonly maxRunning: number
  readonly maxOutputLength: number
}

/** How many commands that have ended are remembered, with their output. */
const mostEnded = 32

const registries = new WeakMap<Sandbox.Shape, BackgroundCommands>()

/** The background commands of an open sandbox; the same ones for the same sandbox. */
export const backgroundOf = (sandbox: Sandbox.Shape): BackgroundCommands => {
  const known = registries.get(sandbox)
  if (known !== undefined) return known
  const made = new BackgroundCommands(sandbox)
  registries.set(sandbox, made)
  return made
}

export class BackgroundCommands {
  readonly #sandbox: Sandbox.Shape
  readonly #commands = new Map<string, BackgroundCommand>()

  constructor(sandbox: Sandbox.Shape) {
    this.#sandbox = sandbox
  }

  /** Starts a command. If one has this id already, returns it and starts nothing. */
  start(starting: Starting): Effect.Effect<BackgroundCommand, TooManyCommands> {
    return Effect.suspend(() => {
      const { id, maxRunning } = starting
      const known = this.#commands.get(id)
      if (known !== undefined) return Effect.succeed(known)
      const running = this.#ids(({ status }) => status._tag === "running")
      if (running.length >= maxRunning)
        return Effect.fail(new TooManyCommands({ limit: maxRunning, running }))
      return this.#follow(starting)
    })
  }

  /**
   * Finds a command by its id. In a sandbox with the capability `sessions`, it also finds one that another process has started, and follows
   * one again whose connection was lost.
   */
  find(
    id: string,
    scope: Scope.Scope,
    maxOutputLength: number
  ): Effect.Effect<BackgroundCommand, CommandLost | SandboxError.SandboxError> {
    return Effect.suspend(() => {
      const known = this.#commands.get(id)
      const hasSessions = this.#sandbox.capabilities.has("sessions")
      if (known !== undefined && (known.status._tag !== "failed" || !hasSessions))
        return Effect.succeed(known)
      const lost =
        known === undefined
          ? Effect.fail(new CommandLost({ id, known: this.#ids(() => true) }))
          : Effect.succeed(known)
      if (!hasSessions) return lost
      const found = Effect.flatMap(this.#sandbox.findCommand(id), ({ _tag }) =>
        _tag === "unknown"
          ? lost
          : // A session that is known is not run again, so this command only follows it.
            this.#follow({ id, scope, maxOutputLength, line: ["true"], cwd: undefined })
      )
      return known === undefined ? found : Effect.catch(found, () => lost)
    })
  }

  /** Stops a command with all processes that it has started, and waits for their end. */
  stop({ fiber }: BackgroundCommand): Effect.Effect<void> {
    return fiber === undefined ? Effect.void : Fiber.interrupt(fiber)
  }

  #follow({
    cwd,
    id,
    line,
    maxOutputLength,
    scope
  }: Omit<Starting, "maxRunning">): Effect.Effect<BackgroundCommand> {
    const log = new OutputLog(maxOutputLength)
    const command: BackgroundCommand = {
      id,
      log,
      startedAt: Date.now(),
      status: { _tag: "running" },
      fiber: undefined
    }
    this.#commands.set(id, command)
    this.#forget()
    const running = this.#sandbox
      .exec(line, {
        session: id,
        ...(cwd === undefined ? {} : { cwd }),
        // The log keeps the output.
        maxOutputBytes: 2,
        onOutput: ({ chunk }) => log.add(chunk)
      })
      .pipe(
        Effect.onExit((exit) =>
          Effect.sync(() => {
            command.status = statusOf(exit)
            log.close()
          })
        )
      )
    return Effect.map(Effect.forkIn(running, scope, { startImmediately: true }), (fiber) => {
      command.fiber = fiber
      // The scope may be closed already, and the fiber never run.
      if (fiber.pollUnsafe() !== undefined && command.status._tag === "running") {
        command.status = { _tag: "stopped" }
        log.close()
      }
      return command
    })
  }

  #ids(which: (command: BackgroundCommand) => boolean): ReadonlyArray<string> {
    return [...this.#commands.values()].filter(which).map(({ id }) => id)
  }

  #forget(): void {
    const ended = this.#ids(({ status }) => status._tag !== "running")
    for (const id of ended.slice(0, Math.max(0, ended.length - mostEnded))) this.#commands.delete(id)
  }
}

const statusOf = (exit: Exit.Exit<Sandbox.ExecResult, unknown>): BackgroundStatus => {
  if (Exit.isSuccess(exit)) return { _tag: "ended", result: exit.value }
  return Cause.hasInterruptsOnly(exit.cause)
    ? { _tag: "stopped" }
    : { _tag: "failed", error: Cause.squash(exit.cause) }
}
