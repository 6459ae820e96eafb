/**
 * Streams made from an async iterable, such as an async generator.
 *
 * They behave like all other streams. A consumer that reads one to its end, as a run does, bypasses the stream and reads the iterable
 * itself, so that a part costs little more than the iterable's own work.
 */
import * as Cause from "effect/Cause"
import * as Channel from "effect/Channel"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { MixedScheduler } from "effect/Scheduler"
import * as Stream from "effect/Stream"

/** The async iterable of a stream. */
interface Source<A, E> {
  readonly open: () => AsyncIterable<A>
  readonly onError: (error: unknown) => E
}

/** The source of each stream that {@link reading} reads directly. A stream derived by an operator has none. */
const sources = new WeakMap<Stream.Stream<unknown, unknown>, Source<unknown, unknown>>()

/** Makes a stream from an iterable. Each run of the stream calls `open`. */
export const streamOfIterable = <A, E>(
  open: () => AsyncIterable<A>,
  onError: (error: unknown) => E
): Stream.Stream<A, E> => {
  const source: Source<A, E> = { open, onError }
  const stream = Stream.fromChannel(Channel.suspend(() => streamOf(source).channel))
  sources.set(stream, source)
  return stream
}

const streamOf = <A, E>(source: Source<A, E>): Stream.Stream<A, E> =>
  Stream.unwrap(
    Effect.map(
      Effect.acquireRelease(
        Effect.sync(() => new Iteration(source)),
        (iteration) => iteration.close()
      ),
      (iteration) => Stream.fromPull(Effect.succeed(iteration.pull()))
    )
  )

/** Receives the pieces of a stream. */
interface Sink<A> {
  readonly add: (piece: A) => void
}

/** Is notified once when a reading ends. */
interface Waiting<E> {
  readonly ended: (exit: Exit.Exit<void, E>) => void
}

/** Passes all pieces of the stream to `sink`, in order. A stream made from an iterable is read without a fiber: see {@link Reading}. */
export const reading = <A, E>(
  stream: Stream.Stream<A, E>,
  sink: Sink<A>
): Effect.Effect<void, E> | Reading<A, E> => {
  const source = sources.get(stream) as Source<A, E> | undefined
  if (source !== undefined) return new Reading(source, sink)
  return Stream.runFold(stream, nothing, (_, piece) => sink.add(piece))
}

const nothing = (): void => {}

/** The same as {@link reading}, as an effect for every stream. */
export const readAll = <A, E>(stream: Stream.Stream<A, E>, sink: Sink<A>): Effect.Effect<void, E> =>
  Effect.suspend(() => {
    const begun = reading(stream, sink)
    if (Effect.isEffect(begun)) return begun
    return Effect.callback<void, E>((resume) => {
      begun.follow({ ended: resume })
      return begun.close()
    })
  })

/** An iterator, perhaps written without types, may return any value. */
const isResult = (result: unknown): boolean => typeof result === "object" && result !== null

const noResult = (): TypeError =>
  new TypeError("The iterator returned a value that is not an iterator result.")

/** Pieces to read before yielding to other work. An iterable whose pieces are all available would otherwise never yield. */
const atOnce = 256

/** Schedules the next piece after other work. */
const turns = new MixedScheduler().makeDispatcher()

/** One iteration over an iterable. */
class Iteration<A, E> {
  private readonly iterator: AsyncIterator<A>
  private readonly onError: (error: unknown) => E
  /** A call of `next` is pending. */
  private isAsked = false
  protected isOver = false
  /** The pieces read since the last yield. */
  private pieces = 0

  constructor({ onError, open }: Source<A, E>) {
    this.iterator = open()[Symbol.asyncIterator]()
    this.onError = onError
  }

  /** Reads the next piece. */
  pull(): Effect.Effect<readonly [A], E | Cause.Done> {
    return Effect.callback((resume) => {
      const onFailure = (error: unknown) => resume(this.failed(error))
      this.ask((result) => {
        if (!isResult(result)) return onFailure(noResult())
        this.answered(result)
        resume(result.done === true ? Cause.done() : Effect.succeed([result.value]))
      }, onFailure)
    })
  }

  /** Calls the iterator's `return`, so that it can release its resources, and waits for it. */
  close(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const closed = this.closing()
      return closed === undefined ? Effect.void : Effect.asVoid(Effect.promise(() => closed))
    })
  }

  /** The same as a promise; `undefined` if there is nothing to wait for. A pending `next` may never settle, so it is not awaited. */
  protected closing(): Promise<unknown> | undefined {
    const { iterator } = this
    if (this.isOver) return undefined
    this.isOver = true
    if (iterator.return === undefined) return undefined
    const closed = (async () => iterator.return!())()
    if (!this.isAsked) return closed
    closed.catch(() => {})
    return undefined
  }

  protected ask(onNext: (result: IteratorResult<A>) => void, onFailure: (error: unknown) => void): void {
    this.pieces += 1
    if (this.pieces < atOnce) return this.askNow(onNext, onFailure)
    // Yield, so that the reading can be interrupted.
    this.pieces = 0
    turns.scheduleTask(() => {
      if (!this.isOver) this.askNow(onNext, onFailure)
    }, 0)
  }

  private askNow(onNext: (result: IteratorResult<A>) => void, onFailure: (error: unknown) => void): void {
    this.isAsked = true
    try {
      // Some iterators return a result without a promise.
      Promise.resolve(this.iterator.next()).then(onNext, onFailure)
    } catch (error) {
      onFailure(error)
    }
  }

  /** Records the result of `next`. */
  protected answered({ done }: IteratorResult<A>): void {
    this.isAsked = false
    if (done === true) this.isOver = true
  }

  protected failed(error: unknown): Exit.Exit<never, E> {
    this.isAsked = false
    this.isOver = true
    try {
      return Exit.fail(this.onError(error))
    } catch (defect) {
      return Exit.die(defect)
    }
  }
}

/** An iteration that reads to the end by itself. Reading a piece uses no effect. */
class Reading<A, E> extends Iteration<A, E> {
  private readonly sink: Sink<A>
  private waiting: Waiting<E> | undefined = undefined
  private isStopped = false

  constructor(source: Source<A, E>, sink: Sink<A>) {
    super(source)
    this.sink = sink
  }

  follow(waiting: Waiting<E>): void {
    this.waiting = waiting
    const onFailure = (error: unknown) => {
      if (!this.isOver) this.over(this.failed(error))
    }
    const onNext = (result: IteratorResult<A>) => {
      if (this.isOver) return
      if (!isResult(result)) return onFailure(noResult())
      this.answered(result)
      if (result.done === true) return this.over(Exit.void)
      try {
        this.sink.add(result.value)
      } catch (defect) {
        return this.closeWith(Exit.die(defect))
      }
      // The sink may have stopped the reading.
      if (!this.isOver) this.ask(onNext, onFailure)
    }
    this.ask(onNext, onFailure)
  }

  stop(): void {
    if (this.isStopped) return
    this.isStopped = true
    this.closeWith(Exit.interrupt())
  }

  private closeWith(exit: Exit.Exit<never>): void {
    const closed = this.closing()
    if (closed === undefined) return this.over(exit)
    closed.then(
      () => this.over(exit),
      (defect: unknown) => this.over(Exit.die(defect))
    )
  }

  private over(exit: Exit.Exit<void, E>): void {
    const { waiting } = this
    this.waiting = undefined
    waiting?.ended(exit)
  }
}
