/**
 * A sandbox on this machine whose commands are confined by bubblewrap: they cannot change anything outside of the working directory.
 *
 * Each command runs in namespaces of its own, with a read-only view of the machine that lacks homes, credentials and the sockets of
 * services. All processes of a command end with it, also those that left its session. It needs Linux and the program `bwrap`;
 * `machineSandbox` uses it where it works.
 *
 * @since 0.2.0
 */
import type { SandboxProvider } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import type { Kind } from "./internal/openMachine.ts"
import { type BubblewrapSandboxOptions, checkOptions } from "./internal/options.ts"

export type { BubblewrapSandboxOptions } from "./internal/options.ts"

/**
 * Makes a provider of sandboxes that bubblewrap confines.
 *
 * **When to use**
 *
 * For commands that a model writes, on Linux. A program that also has to run where bubblewrap does not work uses `machineSandbox`.
 *
 * **Details**
 *
 * Commands can write to the working directory, to directories under `write` of the option `rules`, and to temporary directories that end
 * with the command. They can read the rest of the machine, except homes, places with credentials, logs, sockets in `/run`, the files under
 * `own` of the rules, and files whose reading the rules ask about, such as `.env`. Under `readable`, list directories of a home that
 * commands need, such as those of a version manager. The names under `protect`, such as `.git`, are read-only if they exist.
 *
 * Options and variables reach bubblewrap through a pipe. A program named `bwrap` in the working directory is never used.
 *
 * **Gotchas**
 *
 * With `network: true`, commands reach every service of this machine and of its network. `docs/architecture/tool-safety.md` lists what is
 * not defended.
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` if an option is unknown or has a wrong value. Creating and attaching fail with `SandboxUnavailable` where
 * bubblewrap does not work, and attaching fails with `SandboxLost` if the directory is gone.
 *
 * @category constructors
 * @since 0.2.0
 */
export const bubblewrapSandbox = (options: BubblewrapSandboxOptions = {}): SandboxProvider.Shape => {
  checkOptions("bubblewrapSandbox", options)
  const { network = false } = options
  const kind: Kind = {
    backend: "bubblewrap",
    target: `this machine, confined to the working directory, ${network ? "with network" : "without network"}`,
    confinement: network ? ["isolated"] : ["isolated", "noNetwork"],
    starting: (place) => Effect.flatMap(wall, ({ startBehindWall }) => startBehindWall(options, place))
  }
  return {
    backend: kind.backend,
    capabilities: new Set(kind.confinement),
    target: kind.target,
    // A run that began unconfined continues confined. The opposite is refused.
    accepts: ({ backend }) => backend === "local",
    create: (spec) => Effect.flatMap(machine, ({ create }) => create(kind, options, spec)),
    attach: (ref) => Effect.flatMap(machine, ({ attach }) => attach(kind, options, ref)),
    destroy: () => Effect.void
  }
}

/** Loaded when the first sandbox is opened. */
const machine = Effect.promise(() => import("./internal/openMachine.ts"))
const wall = Effect.promise(() => import("./internal/bubblewrap.ts"))
