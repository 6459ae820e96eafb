/**
 * Converts streams to async iterables.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"

/**
 * Converts a stream to an async iterable. Each iterator runs the stream once, in one fiber, starting with its first `next`. After the
 * elements of a chunk were returned, the next chunk is pulled by the following `next`, so that it is as recent as possible; with `ahead`,
 * it is pulled at once. The iterator ends when `signal` is aborted.
 */
export const iterable = <A>(
  stream: Stream.Stream<A, unknown>,
  options: ReadingOptions = {}
): AsyncIterable<A> => ({
  [Symbol.asyncIterator]: () => new Reading(stream, options)
})

interface ReadingOptions {
  readonly ahead?: boolean
  readonly signal?: AbortSignal | undefined
}

interface Waiter<A> {
  readonly resolve: (result: IteratorResult<A>) => void
  readonly reject: (error: unknown) => void
}

const end: IteratorResult<never> = { done: true, value: undefined }

class Reading<A> implements AsyncIterator<A> {
  private readonly stream: Stream.Stream<A, unknown>
  private readonly ahead: boolean
  private readonly signal: AbortSignal | undefined
  private fiber: Fiber.Fiber<void, unknown> | undefined
  private isOver = false
  /** The error of the stream, until a `next` has rejected with it. */
  private failure: { readonly error: unknown } | undefined
  /** The latest chunk of the stream; its first `at` elements were returned. */
  private pieces: ReadonlyArray<A> = []
  private at = 0
  /** The pending calls of `next`; usually at most one. */
  private readonly waiters: Array<Waiter<A>> = []
  private goOn: (() => void) | undefined

  constructor(stream: Stream.Stream<A, unknown>, { ahead = false, signal }: ReadingOptions) {
    this.stream = stream
    this.ahead = ahead
    this.signal = signal
  }

  next(): Promise<IteratorResult<A>> {
    if (this.at < this.pieces.length) {
      const value = this.take()
      if (this.ahead && this.at === this.pieces.length) this.goOn?.()
      return Promise.resolve({ done: false, value })
    }
    if (this.failure !== undefined) {
      const { error } = this.failure
      this.failure = undefined
      return Promise.reject(error)
    }
    if (this.isOver) return Promise.resolve(end)
    return new Promise((resolve, reject) => {
      this.waiters.push({ resolve, reject })
      if (this.fiber === undefined) this.begin()
      else this.goOn?.()
    })
  }

  async return(): Promise<IteratorResult<A>> {
    this.over(Exit.void)
    this.pieces = []
    this.failure = undefined
    if (this.fiber !== undefined) await Effect.runPromise(Fiber.interrupt(this.fiber))
    return end
  }

  async throw(error: unknown): Promise<IteratorResult<A>> {
    await this.return()
    throw error
  }

  private take(): A {
    const piece = this.pieces[this.at]!
    this.at += 1
    return piece
  }

  private begin(): void {
    if (this.signal?.aborted === true) return this.over(Exit.void)
    this.signal?.addEventListener("abort", this.abort)
    const read = Stream.runForEachArray(this.stream, (pieces) => {
      if (this.isOver) return Effect.void
      this.pieces = pieces
      this.at = 0
      while (this.at < pieces.length && this.waiters.length > 0) {
        this.waiters.shift()!.resolve({ done: false, value: this.take() })
      }
      const isEnough = this.at < pieces.length || (!this.ahead && this.waiters.length === 0)
      return isEnough ? this.demand : Effect.void
    })
    // The first `next` is already among the waiters, so that a stream that ends at once resolves it.
    this.fiber = Effect.runFork(read)
    this.fiber.addObserver((exit) => this.over(exit))
  }

  /** Waits for a `next` that the latest chunk cannot resolve. */
  private readonly demand = Effect.callback<void>((resume) => {
    this.goOn = () => {
      this.goOn = undefined
      resume(Effect.void)
    }
  })

  private readonly abort = (): void => void this.return()

  private over(exit: Exit.Exit<void, unknown>): void {
    if (this.isOver) return
    this.isOver = true
    this.signal?.removeEventListener("abort", this.abort)
    const waiters = this.waiters.splice(0)
    if (Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause)) {
      const error = Cause.squash(exit.cause)
      const first = waiters.shift()
      if (first === undefined) this.failure = { error }
      else first.reject(error)
    }
    for (const { resolve } of waiters) resolve(end)
  }
}
