/**
 * Ends a program on a signal, after closing objects such as a Fermata, which suspends its stored runs.
 *
 * @since 0.1.0
 */
import { constants } from "node:os"
import { Display } from "@fermata/sdk"
import { OptionsInvalid } from "@fermata/sdk/domain"

/** An object that can be closed, such as a Fermata or a conductor: by its `Symbol.asyncDispose` if it has one, otherwise by its `close`. */
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
 * Closes these objects at the first SIGTERM or SIGINT (or other `signals`), one after the other, and ends the program: with exit code 0 if
 * all were closed, otherwise with 1. If one fails to close, the next ones are still closed. After `timeoutMs` (default: 5 seconds), and at
 * a second signal, the program ends at once, with 1. Returns a function that removes the signal handlers. Throws `OptionsInvalid` for an
 * unknown option, a wrong value, and an object that cannot be closed.
 *
 * **Details**
 *
 * Of a server of Node, the connections that are still open after four fifths of `timeoutMs` are cut: a client that does not read its
 * response would keep one open. Name the Fermata before the server, so that event streams have ended.
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
  const problem =
    OptionsInvalid.problemOf("closeOnSignal", { closables }, { keys: { closables: closableList } }) ??
    OptionsInvalid.problemOf("closeOnSignal", options, optionsShape)
  if (problem !== undefined) throw problem
  const { signals = ["SIGTERM", "SIGINT"], timeoutMs = 5000 } = options
  const { onProblem = (problem) => process.stderr.write(`${problem}\n`) } = options
  let closing = false
  const closeAll = async () => {
    const cutAt = performance.now() + timeoutMs * 0.8
    let code = 0
    for (const closable of closables) {
      try {
        await close(closable, cutAt)
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

/** Closes an object. The connections of a server are cut at the time `cutAt`. */
const close = async (closable: Closable, cutAt: number): Promise<void> => {
  // The `close` of a server of Node is no promise.
  const closing = Symbol.asyncDispose in closable ? closable[Symbol.asyncDispose]() : closable.close()
  const waitMs = Math.max(0, cutAt - performance.now())
  const cutting = isServer(closable) ? setTimeout(() => closable.closeAllConnections(), waitMs) : undefined
  try {
    await closing
  } finally {
    clearTimeout(cutting)
  }
}

const isServer = (closable: object): closable is { readonly closeAllConnections: () => void } =>
  "closeAllConnections" in closable && typeof closable.closeAllConnections === "function"

const isClosable = (value: unknown): boolean => {
  if (typeof value !== "object" || value === null) return false
  const { close, [Symbol.asyncDispose]: dispose } = value as { readonly [Key in PropertyKey]?: unknown }
  return typeof dispose === "function" || typeof close === "function"
}

const closableList: OptionsInvalid.Shape = {
  takes: "a list of objects with `close` or `Symbol.asyncDispose`, such as a Fermata",
  is: (value) => Array.isArray(value) && value.every(isClosable),
  required: true
}

/** A signal that a program can handle. */
const isSignal = (name: unknown): boolean =>
  typeof name === "string" && name in constants.signals && name !== "SIGKILL" && name !== "SIGSTOP"

const optionsShape: OptionsInvalid.Shape = {
  keys: {
    signals: {
      takes: 'a list of signals that a program can handle, such as "SIGTERM"',
      is: (value) => Array.isArray(value) && value.every(isSignal)
    },
    timeoutMs: {
      takes: "a number of milliseconds from 1 to 2,147,483,647",
      is: (value) => typeof value === "number" && value >= 1 && value < 2 ** 31,
      among: ["number"]
    },
    onProblem: { takes: "a function", is: (value) => typeof value === "function" }
  }
}
