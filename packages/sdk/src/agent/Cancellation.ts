/**
 * Cancellation tokens, which cancel runs with a reason.
 *
 * A token is cancelled once; a token made from another is cancelled with it. A driven run whose token is cancelled interrupts its running
 * operations, reports on every call of its open turn, and ends as `cancelled`. Interrupting the fiber that runs a prompt has the same
 * effect.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"

/**
 * An object that can be cancelled once, with a reason. Made by {@link make} and {@link fromSignal}.
 *
 * @category models
 * @since 0.1.0
 */
export interface CancellationToken {
  /** Returns the reason of the cancellation; `undefined` before it. */
  readonly reason: () => string | undefined
  /**
   * Cancels the token and calls its listeners. The first reason wins; later calls do nothing. Throws the first error of a listener after
   * all listeners were called.
   */
  readonly cancel: (reason: string) => void
  /** Calls `listener` with the reason, at once if the token is already cancelled. Returns a function that removes the listener. */
  readonly onCancel: (listener: (reason: string) => void) => () => void
  /** Returns the token as an `AbortSignal`, created by the first call. */
  readonly signal: () => AbortSignal
  /** Stops listening to the parent token or signal. Call it when the token is no longer needed and its parent lives longer. */
  readonly release: () => void
}

type Listener = (reason: string) => void

/** Lives as long as its run waits, and usually has one listener; keep it small (decision 24). */
class Token implements CancellationToken {
  private why: string | undefined = undefined
  private controller: AbortController | undefined = undefined
  private listeners: Listener | Set<Listener> | undefined = undefined
  protected unlink: (() => void) | undefined = undefined

  constructor(parent: CancellationToken | undefined) {
    if (parent !== undefined) this.unlink = parent.onCancel(this.cancel)
  }

  /** A bound function, created when it is read: most tokens are never cancelled. */
  get cancel(): (why: string) => void {
    return (why) => this.cancelWith(why)
  }

  private cancelWith(why: string): void {
    if (this.why !== undefined) return
    this.why = why
    this.unlink?.()
    this.controller?.abort(new Error(why))
    const { listeners } = this
    const failures: Array<unknown> = []
    // A listener that another one removes is not called. One that throws does not keep the others from being called.
    for (const listener of typeof listeners === "function" ? [listeners] : (listeners ?? [])) {
      try {
        listener(why)
      } catch (failure) {
        failures.push(failure)
      }
    }
    this.listeners = undefined
    if (failures.length > 0) throw failures[0]
  }

  reason(): string | undefined {
    return this.why
  }

  onCancel(listener: Listener): () => void {
    if (this.why !== undefined) {
      listener(this.why)
      return () => {}
    }
    if (this.listeners === undefined) this.listeners = listener
    else if (typeof this.listeners === "function") this.listeners = new Set([this.listeners, listener])
    else this.listeners.add(listener)
    return () => {
      if (this.listeners === listener) this.listeners = undefined
      else if (this.listeners instanceof Set) this.listeners.delete(listener)
    }
  }

  signal(): AbortSignal {
    if (this.controller === undefined) {
      this.controller = new AbortController()
      if (this.why !== undefined) this.controller.abort(new Error(this.why))
    }
    return this.controller.signal
  }

  release(): void {
    this.unlink?.()
  }
}

/**
 * Makes a token. With a parent, it is cancelled with the parent, for the same reason, until its `release` is called. Cancelling it does not
 * cancel the parent.
 */
export const make = (parent?: CancellationToken): CancellationToken => new Token(parent)

/** Listens to its signal only while it has listeners itself, because the signal may outlive many runs. */
class OfSignal extends Token {
  private readonly source: AbortSignal
  private listening = 0

  constructor(source: AbortSignal) {
    super(undefined)
    this.source = source
  }

  override reason(): string | undefined {
    if (this.source.aborted) this.abort()
    return super.reason()
  }

  override onCancel(listener: Listener): () => void {
    if (this.reason() !== undefined) return super.onCancel(listener)
    const stop = super.onCancel(listener)
    this.listen()
    let isOver = false
    return () => {
      stop()
      if (isOver) return
      isOver = true
      this.listening -= 1
      if (this.listening === 0) this.unlink?.()
    }
  }

  override signal(): AbortSignal {
    if (this.reason() === undefined) this.listen()
    return super.signal()
  }

  private listen(): void {
    const { source } = this
    this.listening += 1
    this.unlink ??= () => source.removeEventListener("abort", this.abort)
    // Adding the same listener again has no effect.
    source.addEventListener("abort", this.abort, { once: true })
  }

  private readonly abort = (): void => {
    const { reason }: { readonly reason: unknown } = this.source
    this.cancel(reason instanceof Error ? reason.message : "aborted")
  }
}

/**
 * Makes a token that is cancelled when a signal is aborted. Its reason is the message of the signal's reason if that is an `Error`,
 * otherwise `"aborted"`.
 *
 * **Details**
 *
 * The token listens to the signal only while the token has listeners, and a run removes its listener when it is held or ends. One signal
 * may therefore be used for any number of runs. After a call of `signal()`, the token listens until it is cancelled or released.
 */
export const fromSignal = (signal: AbortSignal): CancellationToken => new OfSignal(signal)

/**
 * The cancellation token in the context of an effect. Default: `undefined`. A run links its own token to this one when the run is
 * started or continued, and a runtime when the runtime is created, unless their options give another token.
 *
 * @category services
 * @since 0.1.0
 */
export const CancellationToken = Context.Reference<CancellationToken | undefined>(
  "@fermata/sdk/agent/CancellationToken",
  { defaultValue: () => undefined }
)

/**
 * Two tokens that suspend stored runs at shutdown, so that another process can resume them: cancel `soon` to start no further operation,
 * and later `now` to interrupt the running ones.
 */
export interface Suspension {
  /** When it is cancelled, runs start no further operation. */
  readonly soon: CancellationToken
  /** When it is cancelled, running operations are interrupted, too. */
  readonly now: CancellationToken
}

/** @deprecated Use `Suspension`. */
export type Leaving = Suspension
