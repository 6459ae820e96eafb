/**
 * A sandbox on this machine whose commands run in a terminal that a person can look at: a session of tmux.
 *
 * The commands and their output are visible in the terminal, a person stops them with Ctrl-C, and the model can read what is visible. The
 * terminal and its commands go on when the process ends, and a process that resumes the run attaches to them again. It confines nothing.
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
 * For an agent whose work a person follows, and takes over where needed. It confines nothing, so each command needs an approval.
 *
 * **Details**
 *
 * Each run has a session of one tmux server; {@link tmuxCommand} gives the line with which a person attaches. Commands run at the same time,
 * also while a person looks at the terminal. Their output and exit codes do not pass through the terminal: its width does not change them.
 * `Sandbox.screen` is the visible text. Destroying a sandbox stops its commands and closes its terminal; the working directory stays.
 *
 * **Gotchas**
 *
 * The commands have no standard input, and no terminal as their output, so that a program with a full-screen interface does not work. A
 * restart of the machine ends all terminals: attaching then fails with `SandboxLost`.
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
 * Throws `OptionsInvalid` for options that are none. Creating fails with `SandboxUnavailable` if tmux is not installed or there is no such
 * directory, and attaching with `SandboxLost` if the terminal was closed.
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
 * The line with which a person attaches to the terminal of a sandbox, such as `tmux -S '/tmp/fermata-1000/tmux.sock' attach -t 'fermata-1f…'`;
 * `undefined` for a sandbox of another kind.
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
