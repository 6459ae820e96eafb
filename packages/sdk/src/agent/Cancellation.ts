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

type Listener = (reason: string) => void

/** One lives as long as its run waits, and most have one listener: made to be small. */
class Token implements CancellationToken {
  private why: string | undefined = undefined
  private controller: AbortController | undefined = undefined
  private listeners: Listener | Set<Listener> | undefined = undefined
  protected unlink: (() => void) | undefined = undefined

  constructor(parent: CancellationToken | undefined) {
    if (parent !== undefined) this.unlink = parent.onCancel(this.cancel)
  }

  /** A function of its own, which is made when somebody wants it: most are never cancelled. */
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
    // One that is called off meanwhile is not told; one that throws keeps nobody from being told.
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

/** A token; with a parent, one that is cancelled with it. */
export const make = (parent?: CancellationToken): CancellationToken => new Token(parent)

/** Listens to its signal only while somebody listens to it: the signal may outlive many runs. */
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
    // Once, however often it is added.
    source.addEventListener("abort", this.abort, { once: true })
  }

  private readonly abort = (): void => {
    const { reason }: { readonly reason: unknown } = this.source
    this.cancel(reason instanceof Error ? reason.message : "aborted")
  }
}

/**
 * A token that is cancelled when a signal is aborted.
 *
 * **Details**
 *
 * It listens to the signal while somebody listens to it, as a run does until it is over: one signal may be used for any number of runs.
 * What `signal()` returns listens until `release`.
 */
export const fromSignal = (signal: AbortSignal): CancellationToken => new OfSignal(signal)

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

/** Suspends stored runs when their program ends, so that another program can resume them. */
export interface Suspension {
  /** Begin nothing new. */
  readonly soon: CancellationToken
  /** Stop what is going on, too. */
  readonly now: CancellationToken
}

/** @deprecated Use `Suspension`. */
export type Leaving = Suspension
