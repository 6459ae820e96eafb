/**
 * Opens sandboxes whose commands run in a terminal of tmux on this machine.
 */
import { createHash } from "node:crypto"
import { realpath, stat } from "node:fs/promises"
import { resolve } from "node:path"
import { makeSandbox, type Sandbox, SandboxError, type SandboxProvider, type SandboxRef } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import * as PathGuard from "../../guard/PathGuard.ts"
import { CommandSessions } from "./commandSessions.ts"
import { environment } from "./environment.ts"
import { guardedParts } from "./guardedParts.ts"
import { rulesOf } from "./options.ts"
import type { TmuxSandboxOptions } from "./remoteOptions.ts"
import { homeScripts } from "./sessionHome.ts"
import { type HostFailed, localHost } from "./shellHost.ts"
import * as Terminal from "./tmuxTerminal.ts"

type Ref = SandboxRef.SandboxRef
type OpenError = SandboxError.SandboxLost | SandboxError.SandboxUnavailable

const backend = "tmux"

/** The options, and where the sandboxes of the provider act. */
interface Options extends TmuxSandboxOptions {
  readonly target: string
}

/** Creates the terminal of a run, or opens the existing one. */
export const create = Effect.fnUntraced(function* (
  options: Options,
  spec: SandboxProvider.SandboxSpec
): Effect.fn.Return<Sandbox.Shape, SandboxError.SandboxUnavailable, Scope.Scope> {
  const workdir = yield* directoryAt(resolve(spec.workdir ?? options.workdir ?? process.cwd()))
  if (workdir === undefined)
    return yield* Effect.fail(
      unavailable("its working directory does not exist: create it, or name another one", true)
    )
  const terminal = terminalOf(options, spec.runId)
  yield* Effect.mapError(Terminal.ensure(terminal, options, workdir), unavailableBy)
  const { session, socket } = terminal
  return yield* assemble(options, terminal, {
    backend,
    id: spec.runId,
    workdir,
    state: { socket, session }
  })
})

/** Attaches to the terminal of a run. */
export const attach = Effect.fnUntraced(function* (
  options: Options,
  ref: Ref
): Effect.fn.Return<Sandbox.Shape, OpenError, Scope.Scope> {
  const terminal = terminalOf(options, ref.id)
  const { state } = ref
  if (
    typeof state !== "object" ||
    state === null ||
    !("socket" in state) ||
    state["socket"] !== terminal.socket
  )
    return yield* Effect.fail(
      unavailable("its tmux server has another socket: give that as an option", false)
    )
  if ((yield* directoryAt(ref.workdir)) === undefined)
    return yield* Effect.fail(lost(ref.id, "its working directory no longer exists"))
  if (!(yield* Effect.mapError(Terminal.exists(terminal, options), unavailableBy)))
    return yield* Effect.fail(lost(ref.id, "its terminal was closed"))
  return yield* assemble(options, terminal, ref)
})

/** Stops the commands, and closes the terminal. The working directory belongs to the program. */
export const destroy = (options: Options, ref: Ref): Effect.Effect<void, OpenError> =>
  Effect.gen(function* () {
    const terminal = terminalOf(options, ref.id)
    const host = localHost(environment(options))
    yield* host.run(homeScripts.stopAll, { args: [terminal.directory] })
    yield* Terminal.close(terminal, options)
  }).pipe(Effect.mapError(unavailableBy))

const assemble = Effect.fnUntraced(function* (
  options: Options,
  terminal: Terminal.Terminal,
  ref: Ref
): Effect.fn.Return<Sandbox.Shape, never, Scope.Scope> {
  const guard = PathGuard.make(rulesOf(options, ref.workdir))
  const guarded = guardedParts(guard, ref.workdir)
  const env = environment(options)
  const sessions = new CommandSessions({
    backend,
    host: localHost(env),
    directory: terminal.directory,
    surroundings: { directoryOf: guarded.directoryOf, env },
    start: (session) => Terminal.enqueue(terminal, session)
  })
  const parts = {
    ref,
    target: options.target,
    scope: yield* Scope.Scope,
    spawner: sessions.spawner,
    ...guarded.parts
  }
  return makeSandbox({
    ...parts,
    exec: sessions.exec(parts),
    findCommand: sessions.findCommand(parts),
    screen: Effect.mapError(Terminal.visibleText(terminal, options), unavailableBy).pipe(
      Effect.flatMap((text) =>
        text === undefined ? Effect.fail(lost(ref.id, "its terminal was closed")) : Effect.succeed(text)
      )
    )
  })
})

/** The terminal of a run. Its names are hashes, because other users see the names of sessions. */
const terminalOf = (options: TmuxSandboxOptions, id: string): Terminal.Terminal =>
  Terminal.terminalNamed(options, createHash("sha256").update(id).digest("hex").slice(0, 24))

const directoryAt = (path: string): Effect.Effect<string | undefined> =>
  Effect.promise(async () => {
    try {
      return (await stat(path)).isDirectory() ? await realpath(path) : undefined
    } catch {
      return undefined
    }
  })

const lost = (id: string, problem: string) => SandboxError.SandboxLost.make({ backend, id, problem })

const unavailable = (problem: string, retryable: boolean) =>
  SandboxError.SandboxUnavailable.make({ backend, problem, retryable })

const unavailableBy = ({ problem, retryable }: HostFailed) => unavailable(problem, retryable)
