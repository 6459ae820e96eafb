/**
 * Opens sandboxes in containers.
 */
import { createHash } from "node:crypto"
import { makeSandbox, type Sandbox, SandboxError, type SandboxProvider, type SandboxRef } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import { CommandSessions } from "./commandSessions.ts"
import { ContainerEngine } from "./containerEngine.ts"
import type { ContainerSandboxOptions } from "./containerOptions.ts"
import { guardedParts } from "./guardedParts.ts"
import { hostGuard } from "./hostFiles.ts"
import { homeScripts } from "./sessionHome.ts"
import type { HostFailed } from "./shellHost.ts"

type Ref = SandboxRef.SandboxRef

/** The options, and what a person is shown. */
interface Options extends ContainerSandboxOptions {
  readonly target: string
  readonly confinement: ReadonlyArray<"isolated" | "noNetwork">
}

type OpenError = SandboxError.SandboxLost | SandboxError.SandboxUnavailable

const backend = "container"

/** Creates the sandbox of a run. Its container is named after the run, so that the same run gets the same one again. */
export const create = Effect.fnUntraced(function* (
  options: Options,
  { runId, workdir = options.workdir }: SandboxProvider.SandboxSpec
): Effect.fn.Return<Sandbox.Shape, SandboxError.SandboxUnavailable, Scope.Scope> {
  const engine = new ContainerEngine(options)
  const name = options.container ?? nameOf(runId)
  const directory = workdir ?? (options.image === undefined ? "." : "/workspace")
  yield* makeReady(engine, options, { name, runId, directory }).pipe(Effect.mapError(unavailableBy))
  return yield* open(engine, options, { id: runId, name, directory }, () =>
    unavailable("its working directory does not exist in the container: create it, or name another one", true)
  )
})

/** Attaches to the sandbox of a run: its container has to be there. */
export const attach = Effect.fnUntraced(function* (
  options: Options,
  ref: Ref
): Effect.fn.Return<Sandbox.Shape, OpenError, Scope.Scope> {
  const engine = new ContainerEngine(options)
  const name = containerOf(ref)
  if (name === undefined || name !== (options.container ?? nameOf(ref.id)))
    return yield* Effect.fail(unavailable("it is in another container: give the options of that one", false))
  const state = yield* Effect.mapError(engine.stateOf(name), unavailableBy)
  if (state === "missing") return yield* Effect.fail(lost(ref, "its container no longer exists"))
  if (state === "stopped") yield* Effect.mapError(engine.start(name), unavailableBy)
  return yield* open(engine, options, { id: ref.id, name, directory: ref.workdir }, () =>
    lost(ref, "its working directory no longer exists")
  )
})

/** Removes a container that was made for a run. In one of the program, it stops the commands of the sandbox. */
export const destroy = Effect.fnUntraced(function* (
  options: Options,
  ref: Ref
): Effect.fn.Return<void, SandboxError.SandboxUnavailable> {
  const engine = new ContainerEngine(options)
  const name = options.container ?? nameOf(ref.id)
  if ((yield* Effect.mapError(engine.stateOf(name), unavailableBy)) === "missing") return
  yield* Effect.mapError(
    options.container === undefined
      ? engine.remove(name)
      : engine.host(name).run(homeScripts.remove, { args: [directoryOf(ref.id)] }),
    unavailableBy
  )
})

/** Makes or starts the container. Another process may do so at the same time. */
const makeReady = (
  engine: ContainerEngine,
  options: Options,
  place: { readonly name: string; readonly runId: string; readonly directory: string }
): Effect.Effect<void, HostFailed> =>
  Effect.gen(function* () {
    const { directory, name, runId } = place
    const state = yield* engine.stateOf(name)
    if (state === "running") return
    if (state === "stopped") return yield* engine.start(name)
    // A container of the program that is missing fails when it is used.
    if (options.container !== undefined) return
    yield* Effect.catch(engine.make(name, runId, directory), (error) =>
      Effect.flatMap(engine.stateOf(name), (now) => (now === "running" ? Effect.void : Effect.fail(error)))
    )
  })

const open = Effect.fnUntraced(function* <E>(
  engine: ContainerEngine,
  options: Options,
  place: { readonly id: string; readonly name: string; readonly directory: string },
  missing: () => E
): Effect.fn.Return<Sandbox.Shape, E | SandboxError.SandboxUnavailable, Scope.Scope> {
  const { directory, id, name } = place
  const host = engine.host(name)
  const opened = yield* Effect.mapError(
    host.run(homeScripts.open, { args: [directory, directoryOf(id)] }),
    unavailableBy
  )
  if (opened.exitCode === homeScripts.noDirectory) return yield* Effect.fail(missing())
  const [workdir = "", sessions = ""] = opened.stdout.toString().split("\0")
  if (opened.exitCode !== 0 || workdir === "" || sessions === "")
    return yield* Effect.fail(
      unavailable(
        "the container has no directory that only its user can use: set HOME or TMPDIR in it",
        false
      )
    )
  const { env = {}, rules = {} } = options
  const guard = hostGuard(host, { ...rules, write: [workdir, ...(rules.write ?? [])] })
  const guarded = guardedParts(guard, workdir)
  const commands = new CommandSessions({
    backend,
    host,
    directory: sessions,
    surroundings: { directoryOf: guarded.directoryOf, env }
  })
  const parts = {
    ref: { backend, id, workdir, state: { container: name } },
    target: options.target,
    confinement: options.confinement,
    scope: yield* Scope.Scope,
    spawner: commands.spawner,
    ...guarded.parts
  }
  return makeSandbox({ ...parts, exec: commands.exec(parts), findCommand: commands.findCommand(parts) })
})

const hashOf = (id: string): string => createHash("sha256").update(id).digest("hex").slice(0, 32)

const nameOf = (runId: string): string => `fermata-${hashOf(runId)}`

const directoryOf = (id: string): string => `container/${hashOf(id)}`

const containerOf = ({ state }: Ref): unknown =>
  typeof state === "object" && state !== null && "container" in state ? state["container"] : undefined

const lost = ({ id }: Ref, problem: string) => SandboxError.SandboxLost.make({ backend, id, problem })

const unavailable = (problem: string, retryable: boolean) =>
  SandboxError.SandboxUnavailable.make({ backend, problem, retryable })

const unavailableBy = ({ problem, retryable }: HostFailed) => unavailable(problem, retryable)
