/**
 * Sandboxes in the memory of the process, for tests of tools: their files are in memory, and their commands are functions of the test.
 *
 * Nothing runs on the machine. A line for a shell is split into the words of one program; a test that needs more of a shell passes one in
 * the option `shell`. The sandboxes outlive the Fermata that has used them, as a machine outlives programs, so that another one can attach
 * to them.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import type { SandboxRef } from "../domain/SandboxRef.ts"
import { makeSandbox } from "../sandbox/makeSandbox.ts"
import { SandboxLost } from "../sandbox/SandboxError.ts"
import type { Shape as SandboxProvider } from "../sandbox/SandboxProvider.ts"
import { MemoryFiles } from "./internal/sandbox/MemoryFiles.ts"
import { type Command, memorySpawner } from "./internal/sandbox/memorySpawner.ts"

export type { Command, Invocation } from "./internal/sandbox/memorySpawner.ts"
export type { MemoryFiles } from "./internal/sandbox/MemoryFiles.ts"

/** The options of {@link make}. */
export interface Options {
  /** The programs of the sandboxes, by name, beside `cat`, `echo`, `false`, `pwd` and `true`. */
  readonly commands?: Readonly<Record<string, Command>>
  /** Runs the lines of `sh -c`, such as with `just-bash`; `args` has the line. Default: a line is one program with its arguments. */
  readonly shell?: Command
  /** The files of a new sandbox, by their paths relative to the working directory. */
  readonly files?: Readonly<Record<string, string | Uint8Array>>
}

/** A command that was run. */
export interface Ran {
  /** The id of its sandbox. */
  readonly sandbox: string
  readonly program: string
  readonly args: ReadonlyArray<string>
  readonly cwd: string
}

/** A provider of sandboxes in memory, with a record of their commands and access to their files. */
export interface MemorySandbox {
  /** For the option `sandbox` of a Fermata. */
  readonly provider: SandboxProvider
  /** Every command that was started, in order. */
  readonly ran: ReadonlyArray<Ran>
  /** The files of a sandbox by its id, which is that of the run that made it; `undefined` if there is none. */
  readonly filesOf: (id: string) => MemoryFiles | undefined
}

/** The target of the sandboxes. */
const target = "the memory of this process, for tests"

const defaultWorkdir = "/work"

/**
 * Makes sandboxes in memory.
 *
 * **When to use**
 *
 * In tests of an agent whose tools run commands and change files, if the commands themselves are not under test.
 *
 * **Details**
 *
 * The sandboxes have the capabilities `isolated` and `noNetwork`. They have no sessions, snapshots, ports or screen. Files are confined to
 * the working directory; there are no links, no permissions, and no rules about credentials. A command that is interrupted is interrupted
 * as an effect, without signals.
 *
 * **Example** (A test suite that fails once)
 *
 * ```ts run
 * import { MemorySandbox } from "@fermata/sdk/testing"
 *
 * const memory = MemorySandbox.make({
 *   files: { "src/answer.ts": "export const answer = 41" },
 *   commands: {
 *     test: ({ files, write }) => {
 *       const isRight = files.text("src/answer.ts")?.includes("42") === true
 *       write("stdout", isRight ? "ok\n" : "expected 42\n")
 *       return isRight ? 0 : 1
 *     }
 *   }
 * })
 * console.log(memory.provider.target) // the memory of this process, for tests
 * ```
 *
 * @category constructors
 * @since 0.2.0
 */
export const make = (options: Options = {}): MemorySandbox => {
  const machines = new Map<string, MemoryFiles>()
  const ran: Array<Ran> = []
  const open = (ref: SandboxRef, files: MemoryFiles) =>
    Effect.map(Effect.scope, (scope) =>
      makeSandbox({
        ref,
        target,
        confinement: ["isolated", "noNetwork"],
        scope,
        spawner: memorySpawner({
          files,
          commands: options.commands ?? {},
          shell: options.shell,
          onStart: (program, args, cwd) => ran.push({ sandbox: ref.id, program, args, cwd })
        }),
        files: files.fileSystem,
        approvedFiles: files.fileSystem,
        judgePath: (path) =>
          Effect.sync(() => {
            const place = files.resolve(path)
            return place === undefined
              ? { decision: "deny", path, reason: "It is outside of the working directory." }
              : { decision: "allow", path: place }
          })
      })
    )
  const provider: SandboxProvider = {
    backend: "memory",
    capabilities: new Set(["isolated", "noNetwork"]),
    target,
    accepts: () => false,
    create: ({ runId, workdir = defaultWorkdir }) =>
      Effect.suspend(() => {
        const known = machines.get(runId)
        const files = known ?? new MemoryFiles(workdir, options.files)
        machines.set(runId, files)
        return open({ backend: "memory", id: runId, workdir: files.workdir }, files)
      }),
    attach: (ref) =>
      Effect.suspend(() => {
        const files = machines.get(ref.id)
        return files === undefined
          ? Effect.fail(SandboxLost.make({ backend: "memory", id: ref.id, problem: "it was destroyed" }))
          : open(ref, files)
      }),
    destroy: ({ id }) => Effect.sync(() => machines.delete(id))
  }
  return { provider, ran, filesOf: (id) => machines.get(id) }
}
