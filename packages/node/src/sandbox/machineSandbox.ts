/**
 * The sandbox for commands on this machine: confined by bubblewrap where bubblewrap works, and otherwise not confined. Its target says
 * which.
 *
 * @since 0.2.0
 */
import type { SandboxProvider } from "@fermata/sdk"
import { bubblewrapSandbox } from "./bubblewrapSandbox.ts"
import { problemOfMachine } from "./internal/findBubblewrap.ts"
import { type BubblewrapSandboxOptions, checkOptions, localOptionsOf } from "./internal/options.ts"
import { localSandbox } from "./localSandbox.ts"

/**
 * Makes the strictest provider of sandboxes that works on this machine: {@link bubblewrapSandbox} where bubblewrap works, otherwise
 * {@link localSandbox}.
 *
 * **When to use**
 *
 * As the option `sandbox` of a program that runs on several machines. Use `bubblewrapSandbox` if commands must not run where they cannot be
 * confined.
 *
 * **Details**
 *
 * The first call starts bubblewrap once to see whether it works. If so, `capabilities` of the result has `isolated`. A run that began
 * confined never continues unconfined: its calls wait with `ToolUnavailable` until it is resumed where bubblewrap works. A run that began
 * unconfined continues confined where bubblewrap works.
 *
 * **Gotchas**
 *
 * Without bubblewrap, `network`, `protect` and `hide` have no effect, and each command has to be approved.
 *
 * **Example** (Saying where commands run)
 *
 * ```ts run
 * import { machineSandbox } from "@fermata/node"
 *
 * const sandbox = machineSandbox({ workdir: "." })
 * console.log(sandbox.target, sandbox.capabilities.has("isolated") ? "" : "every command asks")
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` if an option is unknown or has a wrong value.
 *
 * @category constructors
 * @since 0.2.0
 */
export const machineSandbox = (options: BubblewrapSandboxOptions = {}): SandboxProvider.Shape => {
  checkOptions("machineSandbox", options)
  const outside = [process.cwd(), ...(options.workdir === undefined ? [] : [options.workdir])]
  return problemOfMachine(outside) === undefined
    ? bubblewrapSandbox(options)
    : localSandbox(localOptionsOf(options))
}
