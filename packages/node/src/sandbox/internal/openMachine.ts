/**
 * Opens sandboxes on this machine: finds their directory, and makes their files and their spawner.
 */
import { realpath, stat } from "node:fs/promises"
import { resolve } from "node:path"
import { makeSandbox, type Sandbox, SandboxError, type SandboxProvider, type SandboxRef } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as ChildProcess from "effect/process/ChildProcess"
import * as Scope from "effect/Scope"
import * as PathGuard from "../../guard/PathGuard.ts"
import { spawnError } from "./commands.ts"
import { environment } from "./environment.ts"
import { guardedFiles } from "./guardedFiles.ts"
import { makeSpawner, type SpawnerOptions } from "./machineSpawner.ts"
import { type LocalSandboxOptions, rulesOf } from "./options.ts"

type Shape = Sandbox.Shape
type Ref = SandboxRef.SandboxRef

/** A kind of sandbox on this machine. */
export interface Kind {
  readonly backend: string
  readonly target: string
  readonly confinement: ReadonlyArray<"isolated" | "noNetwork">
  /** How its commands are started. */
  readonly starting: (place: Opened) => Effect.Effect<Starting, SandboxError.SandboxUnavailable>
}

/** The place of a sandbox that is being opened. */
export interface Opened {
  readonly workdir: string
  /** The rules of its files. The first directory is the working directory. */
  readonly rules: PathGuard.Rules
  /** The variables of its commands. */
  readonly env: Readonly<Record<string, string>>
}

/** The part of the spawner's options that a kind of sandbox determines. */
export interface Starting extends Pick<SpawnerOptions, "prepare" | "isWalled" | "confirmStart"> {
  /** Variables that replace those of all commands of the sandbox. */
  readonly env?: Readonly<Record<string, string>>
}

/** Creates a sandbox. Its id is that of the run, so that the same run gets the same one again. */
export const create = Effect.fnUntraced(function* (
  kind: Kind,
  options: LocalSandboxOptions,
  spec: SandboxProvider.SandboxSpec
): Effect.fn.Return<Shape, SandboxError.SandboxUnavailable, Scope.Scope> {
  const workdir = yield* directoryAt(resolve(spec.workdir ?? options.workdir ?? process.cwd()))
  if (workdir === undefined)
    return yield* Effect.fail(
      SandboxError.SandboxUnavailable.make({
        backend: kind.backend,
        problem: "its working directory does not exist: create it, or name another one",
        retryable: true
      })
    )
  return yield* open(kind, options, { backend: kind.backend, id: spec.runId, workdir })
})

/** Attaches to a sandbox: its directory has to be there. */
export const attach = Effect.fnUntraced(function* (
  kind: Kind,
  options: LocalSandboxOptions,
  ref: Ref
): Effect.fn.Return<Shape, SandboxError.SandboxLost | SandboxError.SandboxUnavailable, Scope.Scope> {
  if ((yield* directoryAt(ref.workdir)) === undefined) return yield* Effect.fail(lostDirectory(ref))
  return yield* open(kind, options, { ...ref, backend: kind.backend })
})

const open = Effect.fnUntraced(function* (
  kind: Kind,
  options: LocalSandboxOptions,
  ref: Ref
): Effect.fn.Return<Shape, SandboxError.SandboxUnavailable, Scope.Scope> {
  const { workdir } = ref
  const rules = rulesOf(options, workdir)
  const env = environment(options)
  const starting = yield* kind.starting({ workdir, rules, env })
  const guard = PathGuard.make(rules)
  const spawner = yield* makeSpawner({ env, directoryOf: directoryIn(guard, ref), ...starting })
  return makeSandbox({
    ref,
    target: kind.target,
    confinement: kind.confinement,
    scope: yield* Scope.Scope,
    spawner,
    files: guardedFiles(guard, false),
    approvedFiles: guardedFiles(guard, true),
    judgePath: (path, access) =>
      Effect.map(guard.judge(path, access), (judgement): Sandbox.PathJudgement => {
        const given = resolve(workdir, path)
        return judgement.decision === "allow"
          ? { decision: "allow", path: judgement.place ?? given }
          : { decision: judgement.decision, path: given, reason: judgement.denial.message }
      })
  })
})

/** A directory without symbolic links; `undefined` if there is none. */
const directoryAt = (path: string): Effect.Effect<string | undefined> =>
  Effect.promise(async () => {
    try {
      return (await stat(path)).isDirectory() ? await realpath(path) : undefined
    } catch {
      return undefined
    }
  })

const lostDirectory = ({ backend, id }: Ref): SandboxError.SandboxLost =>
  SandboxError.SandboxLost.make({ backend, id, problem: "its working directory no longer exists" })

/** The directory in which a command starts: one that the rules do not refuse. */
const directoryIn =
  (guard: PathGuard.PathGuard, ref: Ref): SpawnerOptions["directoryOf"] =>
  (cwd) =>
    Effect.gen(function* () {
      const { workdir } = ref
      if ((yield* directoryAt(workdir)) === undefined)
        return yield* Effect.fail(
          spawnError("NotFound", "The working directory of the sandbox no longer exists", lostDirectory(ref))
        )
      if (cwd === undefined) return workdir
      const { decision } = cwd.includes("\0") ? { decision: "deny" } : yield* guard.judge(cwd, "read")
      if (decision === "deny")
        return yield* Effect.fail(
          spawnError("PermissionDenied", "The directory of a command has to be in the working directory")
        )
      const directory = yield* directoryAt(resolve(workdir, cwd))
      return (
        directory ??
        (yield* Effect.fail(spawnError("NotFound", "The directory of the command does not exist")))
      )
    })

/** Starts a command as it is. */
export const direct: Starting = {
  isWalled: false,
  prepare: ({ command, cwd, env }) =>
    Effect.succeed(
      ChildProcess.make(command.command, command.args, { ...command.options, cwd, env, extendEnv: false })
    )
}
