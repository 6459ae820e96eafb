/**
 * A sandbox in a container, which the client of Docker or Podman reaches.
 *
 * Commands run in the container, detached from the client: a process that resumes the run finds them again, and a stop reaches all of their
 * processes there. Files are read and written in the container, too, so the tools see the same files as the commands.
 *
 * @since 0.2.0
 */
import type { SandboxProvider } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import { checkContainerOptions, type ContainerSandboxOptions } from "./internal/containerOptions.ts"

export type { ContainerSandboxOptions } from "./internal/containerOptions.ts"

/**
 * Makes a provider of sandboxes in containers.
 *
 * **When to use**
 *
 * For tools that need the programs of an image, or where bubblewrap does not work. A container made from an image sees nothing of this
 * machine except the directory under `mount`.
 *
 * **Details**
 *
 * With `image`, each run has a container, which stays when the sandbox is released and is removed when it is destroyed. It has no network
 * and gains no privileges, unless the options say otherwise. With `container`, all runs act in one container, which the program starts and
 * removes. Fermata does not know what confines it, so it lacks the capability `isolated`; destroying the sandbox stops the run's commands
 * in it.
 *
 * The image needs a POSIX shell and the usual Unix programs, as the images of Alpine and Debian have them. The output of commands is stored
 * in the container until they have ended.
 *
 * **Gotchas**
 *
 * A container that waits for a held run keeps its memory. The commands have no standard input. `mount` names a directory of the machine on
 * which the engine runs, which may not be this one.
 *
 * **Example** (A container of each run)
 *
 * ```ts no-run it needs Docker
 * import { containerSandbox } from "@fermata/node"
 *
 * const sandbox = containerSandbox({ image: "node:24", mount: "/srv/checkout" })
 * console.log(sandbox.target) // a container of node:24, without network
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` if an option is unknown or has a wrong value. Creating fails with `SandboxUnavailable`, which is `retryable` if
 * the engine does not answer, and attaching with `SandboxLost` if the container is gone.
 *
 * @category constructors
 * @since 0.2.0
 */
export const containerSandbox = (options: ContainerSandboxOptions): SandboxProvider.Shape => {
  checkContainerOptions(options)
  const { container, image, network = false } = options
  const isMade = container === undefined
  const target = isMade
    ? `a container of ${image}, ${network ? "with network" : "without network"}`
    : `the container ${container}`
  const confinement = isMade
    ? network
      ? (["isolated"] as const)
      : (["isolated", "noNetwork"] as const)
    : ([] as const)
  const given = { ...options, target, confinement }
  return {
    backend: "container",
    capabilities: new Set([...confinement, "sessions"]),
    target,
    accepts: () => false,
    create: (spec) => Effect.flatMap(machine, ({ create }) => create(given, spec)),
    attach: (ref) => Effect.flatMap(machine, ({ attach }) => attach(given, ref)),
    destroy: (ref) => Effect.flatMap(machine, ({ destroy }) => destroy(given, ref))
  }
}

/** Loaded when the first sandbox is opened. */
const machine = Effect.promise(() => import("./internal/openContainer.ts"))
