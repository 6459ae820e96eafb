/**
 * Ends a program on a signal, after closing objects such as a Fermata, which suspends its stored runs.
 *
 * @since 0.1.0
 */
import { Display } from "@fermata/sdk"
import { OptionsInvalid } from "@fermata/sdk/domain"
import * as Result from "effect/Result"

/** An object that can be closed, such as a Fermata or a conductor: by its `close` if it has one, otherwise by its `Symbol.asyncDispose`. */
export type Closable = AsyncDisposable | { readonly close: () => Promise<unknown> }

/** Options of `closeOnSignal`. */
export interface CloseOnSignalOptions {
  /** The signals. Default: `SIGTERM` and `SIGINT`. */
  readonly signals?: ReadonlyArray<NodeJS.Signals>
  /** Milliseconds that closing all objects may take together. Then the program ends, with exit code 1. Default: 5,000. */
  readonly timeoutMs?: number
  /** Called with a sentence for each object that fails to close, and when closing takes too long. Default: writes a line to stderr. */
  readonly onProblem?: (problem: string) => void
}

/**
 * Closes these objects at the first signal, one after the other, and ends the program: with exit code 0 if all were closed, otherwise
 * with 1. If one fails to close, the next ones are still closed. A second signal ends the program immediately, with 1. Returns a function
 * that removes the signal handlers. Throws `OptionsInvalid` for an unknown option.
 *
 * **Details**
 *
 * No stored run is lost, however the program ends: another process can resume a run that has not ended. If the program ends before a
 * Fermata is closed, the leases of its runs stay until they expire, and calls whose bodies were running may be in doubt.
 *
 * **Example** (A worker that suspends its runs)
 *
 * ```ts run
 * import { agent, closeOnSignal, createFermata } from "@fermata/node"
 * import { ScriptedModel } from "@fermata/node/testing"
 *
 * const model = ScriptedModel.make([]).client
 * const fermata = await createFermata({ agents: [agent("ops")], model })
 * closeOnSignal([fermata])
 * process.kill(process.pid, "SIGTERM") // as a deploy does
 * await fermata.work()
 * ```
 */
export const closeOnSignal = (
  closables: ReadonlyArray<Closable>,
  options: CloseOnSignalOptions = {}
): (() => void) => {
  const keys = OptionsInvalid.checkKeys("closeOnSignal", options, ["signals", "timeoutMs", "onProblem"])
  if (Result.isFailure(keys)) throw keys.failure
  const { signals = ["SIGTERM", "SIGINT"], timeoutMs = 5000 } = options
  const { onProblem = (problem) => process.stderr.write(`${problem}\n`) } = options
  let closing = false
  const closeAll = async () => {
    let code = 0
    for (const closable of closables) {
      try {
        // The `close` of a server of Node is no promise.
        await (Symbol.asyncDispose in closable ? closable[Symbol.asyncDispose]() : closable.close())
      } catch (error) {
        code = 1
        onProblem(Display.sentence`Closing failed: ${Display.messageOf(error)}.`)
      }
    }
    process.exit(code)
  }
  const onSignal = (signal: NodeJS.Signals) => {
    if (closing) process.exit(1)
    closing = true
    setTimeout(() => {
      onProblem(`Closing took more than ${timeoutMs} ms after ${signal}.`)
      process.exit(1)
    }, timeoutMs).unref()
    void closeAll()
  }
  for (const signal of signals) process.on(signal, onSignal)
  return () => {
    for (const signal of signals) process.off(signal, onSignal)
  }
}
