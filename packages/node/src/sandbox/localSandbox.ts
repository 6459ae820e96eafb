/**
 * A sandbox that confines nothing: the commands of the tools run on this machine with the rights of the process.
 *
 * Its files are guarded by path rules, its commands get no variables with secrets, and a command that is stopped leaves no process behind.
 * A command can still read and change everything that the process can, so each one needs an approval. `bubblewrapSandbox` confines them.
 *
 * @since 0.2.0
 */
import type { SandboxProvider } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import { checkOptions, type LocalSandboxOptions } from "./internal/options.ts"

export type { LocalSandboxOptions } from "./internal/options.ts"

/**
 * Makes a provider of sandboxes on this machine, without isolation.
 *
 * **Details**
 *
 * A sandbox is a directory. Any process on this machine attaches to it again, also after `kill -9`. Destroying a sandbox leaves the
 * directory as it is, because the directory belongs to the program.
 *
 * **Example** (Running a command)
 *
 * ```ts run
 * import { Id, localSandbox } from "@fermata/node"
 * import { Effect } from "effect"
 *
 * const spec = { runId: Id.RunId.make("run_1"), sessionId: Id.SessionId.make("session_1") }
 * const program = Effect.gen(function* () {
 *   const sandbox = yield* localSandbox().create(spec)
 *   const { exitCode, stdout } = yield* sandbox.exec("echo hello")
 *   console.log(sandbox.target, exitCode, stdout) // this machine, not confined 0 hello
 * })
 * await Effect.runPromise(Effect.scoped(program))
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` if an option is unknown or has a wrong value. If the directory does not exist, creating fails with
 * `SandboxUnavailable` and attaching with `SandboxLost`.
 *
 * @category constructors
 * @since 0.2.0
 */
export const localSandbox = (options: LocalSandboxOptions = {}): SandboxProvider.Shape => {
  checkOptions("localSandbox", options)
  const kind = {
    backend: "local",
    target: "this machine, not confined",
    confinement: [],
    starting: () => Effect.map(machine, ({ direct }) => direct)
  }
  return {
    backend: kind.backend,
    capabilities: new Set(),
    target: kind.target,
    accepts: () => false,
    create: (spec) => Effect.flatMap(machine, ({ create }) => create(kind, options, spec)),
    attach: (ref) => Effect.flatMap(machine, ({ attach }) => attach(kind, options, ref)),
    destroy: () => Effect.void
  }
}

/** Loaded when the first sandbox is opened: a program that has none does not pay for it. */
const machine = Effect.promise(() => import("./internal/openMachine.ts"))
