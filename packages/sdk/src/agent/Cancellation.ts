/**
 * Cancelling, as a value that can be passed around.
 *
 * A token is cancelled once, with a reason; a token made from another is cancelled with it. A run that is given a token stops
 * its work in flight, gives every open call a result that says what is known, and ends as `cancelled`. Interrupting the fiber
 * that runs a prompt does the same.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"

/**
 * Something that can be cancelled once.
 *
 * @category models
 * @since 0.1.0
 */
export interface CancellationToken {
  /** Why it was cancelled; `undefined` while it was not. */
  readonly reason: () => string | undefined
  /** Cancels it. The first reason stays. */
  readonly cancel: (reason: string) => void
  /** Calls `listener` with the reason, at once if it was cancelled already. Returns how to stop listening. */
  readonly onCancel: (listener: (reason: string) => void) => () => void
  /** The token as an `AbortSignal`, made when first asked for. */
  readonly signal: () => AbortSignal
  /** Stops listening to the token that it was made from: nothing will be cancelled any more, and nothing has to be remembered. */
  readonly release: () => void
}

/** A token; with a parent, one that is cancelled with it. */
export const make = (parent?: CancellationToken): CancellationToken => {
  let reason: string | undefined
  let controller: AbortController | undefined
  const listeners = new Set<(reason: string) => void>()
  let unlink: (() => void) | undefined
  const cancel = (why: string) => {
    if (reason !== undefined) return
    reason = why
    unlink?.()
    controller?.abort(new Error(why))
    const told = [...listeners]
    listeners.clear()
    for (const listener of told) listener(why)
  }
  const token: CancellationToken = {
    reason: () => reason,
    cancel,
    onCancel: (listener) => {
      if (reason !== undefined) {
        listener(reason)
        return () => {}
      }
      listeners.add(listener)
      return () => {
        listeners.delete(listener)
      }
    },
    signal: () => {
      if (controller === undefined) {
        controller = new AbortController()
        if (reason !== undefined) controller.abort(new Error(reason))
      }
      return controller.signal
    },
    release: () => unlink?.()
  }
  if (parent !== undefined) unlink = parent.onCancel(cancel)
  return token
}

/** A token that is cancelled when a signal is aborted. */
export const fromSignal = (signal: AbortSignal): CancellationToken => {
  const token = make()
  const why = () => (signal.reason instanceof Error ? signal.reason.message : "aborted")
  if (signal.aborted) token.cancel(why())
  else signal.addEventListener("abort", () => token.cancel(why()), { once: true })
  return token
}

/**
 * The token of whatever is going on; runs that are started link themselves to it.
 *
 * @category services
 * @since 0.1.0
 */
export const CancellationToken = Context.Reference<CancellationToken | undefined>(
  "@fermata/sdk/agent/CancellationToken",
  { defaultValue: () => undefined }
)
