/**
 * Opens sandboxes on a host that `ssh` reaches.
 */
import { createHash } from "node:crypto"
import { makeSandbox, type Sandbox, SandboxError, type SandboxProvider, type SandboxRef } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import { CommandSessions } from "./commandSessions.ts"
import { environment } from "./environment.ts"
import { guardedParts } from "./guardedParts.ts"
import { hostGuard } from "./hostFiles.ts"
import type { SshSandboxOptions } from "./remoteOptions.ts"
import { homeScripts } from "./sessionHome.ts"
import type { HostFailed, ShellHost } from "./shellHost.ts"
import { sshHost } from "./sshClient.ts"

type Ref = SandboxRef.SandboxRef
/** The options, and where the sandboxes of the provider act. */
interface Options extends SshSandboxOptions {
  readonly target: string
}

type OpenError = SandboxError.SandboxLost | SandboxError.SandboxUnavailable

const backend = "ssh"

/** Creates the sandbox of a run: a directory on the host, which has to exist. */
export const create = (
  options: Options,
  spec: SandboxProvider.SandboxSpec
): Effect.Effect<Sandbox.Shape, SandboxError.SandboxUnavailable, Scope.Scope> =>
  open(options, spec.runId, spec.workdir ?? options.workdir ?? ".", () =>
    unavailable("its working directory does not exist: create it, or name another one", true)
  )

/** Attaches to the sandbox of a run. */
export const attach = (options: Options, ref: Ref): Effect.Effect<Sandbox.Shape, OpenError, Scope.Scope> =>
  addressOf(ref) === address(options)
    ? open(options, ref.id, ref.workdir, () =>
        SandboxError.SandboxLost.make({
          backend,
          id: ref.id,
          problem: "its working directory no longer exists"
        })
      )
    : Effect.fail(unavailable("it is on another host: give the options of that host", false))

/** Removes what Fermata stores on the host for a sandbox. The working directory belongs to the program. */
export const destroy = (options: Options, ref: Ref): Effect.Effect<void, OpenError> =>
  Effect.scoped(
    Effect.gen(function* () {
      const host = yield* connect(options)
      yield* Effect.mapError(host.run(homeScripts.remove, { args: [directoryOf(ref.id)] }), unavailableBy)
    })
  )

const connect = (options: Options) =>
  Effect.mapError(
    sshHost(options, environment({ inheritEnv: ["SSH_AUTH_SOCK", "SSH_AGENT_PID"] })),
    unavailableBy
  )

const open = Effect.fnUntraced(function* <E>(
  options: Options,
  id: string,
  directory: string,
  missing: () => E
): Effect.fn.Return<Sandbox.Shape, E | SandboxError.SandboxUnavailable, Scope.Scope> {
  const host = yield* connect(options)
  const opened = yield* Effect.mapError(
    host.run(homeScripts.open, { args: [directory, directoryOf(id)] }),
    unavailableBy
  )
  if (opened.exitCode === homeScripts.noDirectory) return yield* Effect.fail(missing())
  const [workdir = "", sessions = ""] = opened.stdout.toString().split("\0")
  if (opened.exitCode !== 0 || workdir === "" || sessions === "")
    return yield* Effect.fail(
      unavailable("the host has no directory that only its user can use: set HOME or TMPDIR there", false)
    )
  return yield* assemble(options, host, {
    ref: { backend, id, workdir, state: { host: address(options) } },
    sessions
  })
})

const assemble = Effect.fnUntraced(function* (
  options: Options,
  host: ShellHost,
  place: { readonly ref: Ref; readonly sessions: string }
): Effect.fn.Return<Sandbox.Shape, never, Scope.Scope> {
  const { ref } = place
  const { env = {}, rules = {} } = options
  const guard = hostGuard(host, { ...rules, write: [ref.workdir, ...(rules.write ?? [])] })
  const guarded = guardedParts(guard, ref.workdir)
  const sessions = new CommandSessions({
    backend,
    host,
    directory: place.sessions,
    surroundings: { directoryOf: guarded.directoryOf, env }
  })
  const parts = {
    ref,
    target: options.target,
    scope: yield* Scope.Scope,
    spawner: sessions.spawner,
    ...guarded.parts
  }
  return makeSandbox({ ...parts, exec: sessions.exec(parts), findCommand: sessions.findCommand(parts) })
})

/** The identity of a provider's host: its user, name and port. */
const address = ({ host, port, user }: Options): string => [user ?? "", host, port ?? ""].join("|")

const addressOf = ({ state }: Ref): unknown =>
  typeof state === "object" && state !== null && "host" in state ? state["host"] : undefined

const directoryOf = (id: string): string =>
  `ssh/${createHash("sha256").update(id).digest("hex").slice(0, 32)}`

const unavailable = (problem: string, retryable: boolean) =>
  SandboxError.SandboxUnavailable.make({ backend, problem, retryable })

const unavailableBy = ({ problem, retryable }: HostFailed) => unavailable(problem, retryable)
