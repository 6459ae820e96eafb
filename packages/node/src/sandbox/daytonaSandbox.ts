/**
 * Sandboxes in Daytona's cloud, or in a Daytona of your own. Each run has a virtual machine or a container there, in which its tools act.
 *
 * @since 0.2.0
 */
import type { SandboxProvider } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import { checkRemoteOptions, type DaytonaSandboxOptions } from "./internal/remoteOptions.ts"

export type { DaytonaSandboxOptions } from "./internal/remoteOptions.ts"

/**
 * Makes a provider of Daytona sandboxes.
 *
 * **When to use**
 *
 * For tools that must not act on your machines. Under the name of a capability profile, as `sandboxes: { daytona: daytonaSandbox() }`, a
 * runtime that is created with the profile `daytona` acts there; see `isDaytonaRuntime`.
 *
 * **Details**
 *
 * The first call of a run creates its sandbox, named after the run, and the later ones use it, in any process. A sandbox without activity
 * is stopped after `autoStop` and keeps its files; the next call starts it again. A run that is held for days therefore does not pay for a
 * running machine. `onRelease` determines what the close of the runtime does with its sandboxes; `destroy` of the provider deletes one.
 *
 * Each command runs in a session of Daytona. With the option `session` of `exec`, the command is looked up before it is sent, and does not
 * start a second time, also after its process was killed or its sandbox was stopped. `run_shell` passes the id of its call.
 *
 * The key is sent to the API, and to the address of the toolbox that the API returns with a sandbox. That address must be on the API's
 * host, on `proxy.` before it, or on a host of the option `toolboxHosts`, and use https if the API does.
 *
 * **Gotchas**
 *
 * The commands have no standard input. They reach the network unless the sandbox's snapshot or account forbids it. If a sandbox is stopped
 * after a command has ended, the exit code of the command stays known, and its output is lost.
 *
 * **Example** (A capability profile that acts in the cloud)
 *
 * ```ts run
 * import { agent, createFermata, daytonaSandbox, machineSandbox } from "@fermata/node"
 * import { ScriptedModel } from "@fermata/node/testing"
 *
 * await using fermata = await createFermata({
 *   agents: [agent("coder")],
 *   model: ScriptedModel.make([]).client,
 *   store: false,
 *   sandbox: machineSandbox(),
 *   sandboxes: { daytona: daytonaSandbox({ autoStop: "10 minutes" }) },
 *   profile: process.env["CLOUD"] === undefined ? "default" : "daytona"
 * })
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` if an option is unknown or has a wrong value. Opening fails with `SandboxUnavailable`: `retryable` if Daytona
 * cannot be reached; not if it refuses the key, or returns an address to which the key is not sent. Attaching fails with `SandboxLost` if
 * the sandbox was deleted.
 *
 * @category constructors
 * @since 0.2.0
 */
export const daytonaSandbox = (options: DaytonaSandboxOptions = {}): SandboxProvider.Shape => {
  checkRemoteOptions("daytonaSandbox", options)
  const where = "a Daytona sandbox, away from this machine"
  const given = { ...options, where }
  return {
    backend: "daytona",
    capabilities: new Set(["sessions", "ports"]),
    target: where,
    isRemote: true,
    accepts: () => false,
    create: (spec) => Effect.flatMap(client, ({ create }) => create(given, spec)),
    attach: (ref) => Effect.flatMap(client, ({ attach }) => attach(given, ref)),
    destroy: (ref) => Effect.flatMap(client, ({ destroy }) => destroy(given, ref))
  }
}

/** Loaded when the first sandbox is opened. */
const client = Effect.promise(() => import("./internal/openDaytona.ts"))
