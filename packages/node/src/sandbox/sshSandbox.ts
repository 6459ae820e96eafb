/**
 * A sandbox on another machine, reached through the `ssh` client of this one.
 *
 * Commands run on the host as its user, detached from the connection: a lost connection ends none, and a process that resumes the run finds
 * them again. A command that is stopped is stopped on the host, with its descendants. The host needs a POSIX shell as the login shell and
 * the usual Unix programs; nothing is installed on it.
 *
 * @since 0.2.0
 */
import type { SandboxProvider } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import { checkRemoteOptions, type SshSandboxOptions } from "./internal/remoteOptions.ts"

export type { SshSandboxOptions } from "./internal/remoteOptions.ts"

/**
 * Makes a provider of sandboxes on a host, reached through `ssh`.
 *
 * **When to use**
 *
 * For tools that act on an existing machine, such as a build host. The sandbox confines nothing on that machine, so each command needs an
 * approval.
 *
 * **Details**
 *
 * The client asks no questions (`BatchMode`): the key of the host has to be among the known hosts, and the login needs a key without a
 * passphrase, or an agent. The keys of hosts are always checked, unless `sshOptions` say otherwise. A sandbox is a directory of the host.
 * Destroying it stops its commands and leaves the directory as it is. A file is written as a whole or not at all.
 *
 * A command's output is stored on the host below `~/.local/state/fermata`, 64 MiB of each stream, until the command has ended; that of a
 * command with a session is removed two weeks after its end, or when the sandbox is destroyed.
 *
 * **Gotchas**
 *
 * The commands have no standard input. On a host without `/proc`, a stop reaches the process group of a command, and no process that left
 * the group.
 *
 * **Example** (A build host)
 *
 * ```ts run
 * import { sshSandbox } from "@fermata/node"
 *
 * const sandbox = sshSandbox({ host: "build.internal", user: "agent", workdir: "/srv/checkout" })
 * console.log(sandbox.target) // agent@build.internal over ssh, not confined
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` if an option is unknown or has a wrong value. Creating fails with `SandboxUnavailable`: `retryable` if the host
 * cannot be reached; not if it refuses the login or its key is unknown. Attaching fails with `SandboxLost` if the directory is gone.
 *
 * @category constructors
 * @since 0.2.0
 */
export const sshSandbox = (options: SshSandboxOptions): SandboxProvider.Shape => {
  checkRemoteOptions("sshSandbox", options)
  const { host, port, user } = options
  const where = `${user === undefined ? "" : `${user}@`}${host}${port === undefined ? "" : `:${port}`}`
  const target = `${where} over ssh, not confined`
  const given = { ...options, target }
  return {
    backend: "ssh",
    capabilities: new Set(["sessions"]),
    target,
    isRemote: true,
    accepts: () => false,
    create: (spec) => Effect.flatMap(machine, ({ create }) => create(given, spec)),
    attach: (ref) => Effect.flatMap(machine, ({ attach }) => attach(given, ref)),
    destroy: (ref) => Effect.flatMap(machine, ({ destroy }) => destroy(given, ref))
  }
}

/** Loaded when the first sandbox is opened. */
const machine = Effect.promise(() => import("./internal/openSsh.ts"))
