/**
 * A sandbox on this machine whose commands run in a terminal that a person can watch: a session of tmux.
 *
 * The terminal shows the commands and their output, a person stops them with Ctrl-C, and the model can read the visible text. The terminal
 * and its commands continue when the process ends, and a process that resumes the run attaches to them again. Nothing is confined.
 *
 * @since 0.2.0
 */
import type { SandboxProvider, SandboxRef } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import { checkRemoteOptions, type TmuxSandboxOptions } from "./internal/remoteOptions.ts"
import { quote } from "./internal/shellText.ts"

export type { TmuxSandboxOptions } from "./internal/remoteOptions.ts"

/**
 * Makes a provider of sandboxes in terminals of tmux.
 *
 * **When to use**
 *
 * For an agent whose work a person follows and can stop. Nothing is confined, so each command needs an approval.
 *
 * **Details**
 *
 * Each run has a session of one tmux server; {@link tmuxCommand} returns the command line with which a person attaches. Several commands
 * can run at the same time. Their output and exit codes do not pass through the terminal, so its width does not change them.
 * `Sandbox.screen` is the visible text. Destroying a sandbox stops its commands and closes its terminal; the working directory stays.
 *
 * **Gotchas**
 *
 * The commands have no standard input, and their output is not a terminal: programs with a full-screen interface do not work. A restart of
 * the machine ends all terminals; attaching then fails with `SandboxLost`.
 *
 * **Example** (An agent whose terminal a person can see)
 *
 * ```ts run
 * import { tmuxCommand, tmuxSandbox } from "@fermata/node"
 *
 * const sandbox = tmuxSandbox({ workdir: "." })
 * console.log(sandbox.target) // a tmux terminal on this machine, not confined
 * // A run that used it has the reference of its terminal.
 * const state = { socket: "/tmp/fermata-1000/tmux.sock", session: "fermata-1f" }
 * console.log(tmuxCommand({ backend: "tmux", id: "run_1", workdir: "/repo", state }))
 * // tmux -S '/tmp/fermata-1000/tmux.sock' attach -t 'fermata-1f'
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` if an option is unknown or has a wrong value. Creating fails with `SandboxUnavailable` if tmux is not installed
 * or the working directory does not exist. Attaching fails with `SandboxLost` if the terminal was closed or the directory is gone, and with
 * `SandboxUnavailable` if the option `socket` is another one.
 *
 * @category constructors
 * @since 0.2.0
 */
export const tmuxSandbox = (options: TmuxSandboxOptions = {}): SandboxProvider.Shape => {
  checkRemoteOptions("tmuxSandbox", options)
  const target = "a tmux terminal on this machine, not confined"
  const given = { ...options, target }
  return {
    backend: "tmux",
    capabilities: new Set(["sessions", "screen"]),
    target,
    accepts: () => false,
    create: (spec) => Effect.flatMap(terminal, ({ create }) => create(given, spec)),
    attach: (ref) => Effect.flatMap(terminal, ({ attach }) => attach(given, ref)),
    destroy: (ref) => Effect.flatMap(terminal, ({ destroy }) => destroy(given, ref))
  }
}

/**
 * The command line with which a person attaches to the terminal of a sandbox, such as `tmux -S '/tmp/fermata-1000/tmux.sock' attach -t
 * 'fermata-1f…'`; `undefined` for a sandbox of another kind.
 *
 * @category accessors
 * @since 0.2.0
 */
export const tmuxCommand = ({ backend, state }: SandboxRef.SandboxRef): string | undefined => {
  if (backend !== "tmux" || typeof state !== "object" || state === null) return undefined
  const { session, socket } = state as Readonly<Record<string, unknown>>
  return typeof session === "string" && typeof socket === "string"
    ? `tmux -S ${quote(socket)} attach -t ${quote(session)}`
    : undefined
}

/** Loaded when the first sandbox is opened. */
const terminal = Effect.promise(() => import("./internal/openTmux.ts"))
