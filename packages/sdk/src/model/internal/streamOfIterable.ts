/**
 * Answers that come from an async iterable, such as an async generator.
 *
 * They are streams like all others. Whoever reads one to its end, as a run does, reads the iterable itself: a part then costs
 * little more than the iterable takes to hand it out.
 */
import * as Cause from "effect/Cause"
import * as Channel from "effect/Channel"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { MixedScheduler } from "effect/Scheduler"
import * as Stream from "effect/Stream"

/** Where the parts of a stream come from. */
interface Source<A, E> {
  readonly open: () => AsyncIterable<A>
  readonly onError: (error: unknown) => E
}

/** The source of each stream that {@link reading} reads without its channel. A stream that an operator makes of one has none. */
const sources = new WeakMap<Stream.Stream<unknown, unknown>, Source<unknown, unknown>>()

/** The stream of an iterable, which is opened each time that the stream is run. */
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

/** Where the pieces go. */
interface Sink<A> {
  readonly add: (piece: A) => void
}

/** The listener for how a reading has ended. */
interface Waiting<E> {
  readonly ended: (exit: Exit.Exit<void, E>) => void
}

/** Gives all that the stream brings to `sink`, in order, until its end. What comes from an iterable is read without a fiber. */
export const reading = <A, E>(
  stream: Stream.Stream<A, E>,
  sink: Sink<A>
): Effect.Effect<void, E> | Reading<A, E> => {
  const source = sources.get(stream) as Source<A, E> | undefined
  if (source !== undefined) return new Reading(source, sink)
  return Stream.runFold(stream, nothing, (_, piece) => sink.add(piece))
}

const nothing = (): void => {}

/** The same as an effect. */
export const readAll = <A, E>(stream: Stream.Stream<A, E>, sink: Sink<A>): Effect.Effect<void, E> =>
  Effect.suspend(() => {
    const begun = reading(stream, sink)
    if (Effect.isEffect(begun)) return begun
    return Effect.callback<void, E>((resume) => {
      begun.follow({ ended: resume })
      return begun.close()
    })
  })

/** Whatever an iterable answers, that may be of a program without types. */
const isResult = (result: unknown): boolean => typeof result === "object" && result !== null

const noResult = (): TypeError => new TypeError("The iterable has answered something that is no result.")

/** Pieces that are read before everything else has its turn: they may all be there already. */
const atOnce = 256

/** Where those wait who let others have their turn. */
const turns = new MixedScheduler().makeDispatcher()

/** One passage through an iterable. */
class Iteration<A, E> {
  private readonly iterator: AsyncIterator<A>
  private readonly onError: (error: unknown) => E
  /** Whether it was asked for a piece and has not answered. */
  private isAsked = false
  protected isOver = false
  /** Since everything else had its turn. */
  private pieces = 0

  constructor({ onError, open }: Source<A, E>) {
    this.iterator = open()[Symbol.asyncIterator]()
    this.onError = onError
  }

  /** The next piece, alone. */
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

  /** Lets the iterable see to what it has open, and waits for that. */
  close(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const closed = this.closing()
      return closed === undefined ? Effect.void : Effect.asVoid(Effect.promise(() => closed))
    })
  }

  /** The same as a promise, unless there is nothing to wait for: it may be at work on a piece for ever. */
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
    // Nobody could stop what leaves no time for anything else.
    this.pieces = 0
    turns.scheduleTask(() => {
      if (!this.isOver) this.askNow(onNext, onFailure)
    }, 0)
  }

  private askNow(onNext: (result: IteratorResult<A>) => void, onFailure: (error: unknown) => void): void {
    this.isAsked = true
    try {
      // Some answer without a promise.
      Promise.resolve(this.iterator.next()).then(onNext, onFailure)
    } catch (error) {
      onFailure(error)
    }
  }

  /** To be called with each answer. */
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

/** One that goes on by itself to the end. Nothing of Effect takes part in a piece. */
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
      // Whoever was given it may have stopped the reading.
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
