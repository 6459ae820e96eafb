/**
 * Answers that come from an async iterable, such as an async generator.
 *
 * They are streams like all others. Whoever reads one to its end, as a run does, reads the iterable itself: a part then costs
 * little more than the iterable takes to hand it out.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

/** Where the parts of a stream come from. */
interface Source<A, E> {
  readonly open: () => AsyncIterable<A>
  readonly onError: (error: unknown) => E
}

const sources = new WeakMap<Stream.Stream<any, any>, Source<any, any>>()

/** The stream of an iterable, which is opened each time that the stream is run. */
export const iterated = <A, E>(
  open: () => AsyncIterable<A>,
  onError: (error: unknown) => E
): Stream.Stream<A, E> => {
  const source = { open, onError }
  const stream = Stream.unwrap(
    Effect.map(
      Effect.acquireRelease(
        Effect.sync(() => new Iteration(source)),
        (iteration) => Effect.suspend(() => iteration.close())
      ),
      (iteration) => Stream.fromPull(Effect.succeed(iteration.pull))
    )
  )
  sources.set(stream, source)
  return stream
}

/** Tells `tell` all that the stream brings, in order, until its end. */
export const readAll = <A, E>(
  stream: Stream.Stream<A, E>,
  tell: (piece: A) => void
): Effect.Effect<void, E> => {
  const source: Source<A, E> | undefined = sources.get(stream)
  if (source !== undefined) return Effect.suspend(() => new Iteration(source).run(tell))
  return Stream.runForEachArray(stream, (pieces) => {
    for (const piece of pieces) tell(piece)
    return Effect.void
  })
}

/** One reading of an iterable. */
class Iteration<A, E> {
  private readonly iterator: AsyncIterator<A>
  private readonly onError: (error: unknown) => E
  /** Whether it was asked for a piece and has not answered. */
  private isAsked = false
  private isOver = false

  constructor({ onError, open }: Source<A, E>) {
    this.iterator = open()[Symbol.asyncIterator]()
    this.onError = onError
  }

  /** Reads all of it. Nothing of Effect takes part in a piece. */
  run(tell: (piece: A) => void): Effect.Effect<void, E> {
    return Effect.callback((resume) => {
      const onFailure = (error: unknown) => resume(this.failed(error))
      const onNext = (result: IteratorResult<A>) => {
        this.isAsked = false
        if (this.isOver) return
        if (result.done === true) {
          this.isOver = true
          return resume(Effect.void)
        }
        try {
          tell(result.value)
        } catch (defect) {
          return resume(Effect.andThen(this.close(), Effect.die(defect)))
        }
        // Who was told may have stopped it.
        if (!this.isOver) this.ask(onNext, onFailure)
      }
      this.ask(onNext, onFailure)
      return Effect.suspend(() => this.close())
    })
  }

  /** The next piece, alone. */
  readonly pull: Effect.Effect<readonly [A], E | Cause.Done> = Effect.callback((resume) => {
    this.ask(
      (result) => {
        this.isAsked = false
        if (result.done !== true) return resume(Effect.succeed([result.value]))
        this.isOver = true
        resume(Cause.done())
      },
      (error) => resume(this.failed(error))
    )
  })

  /** Lets the iterable see to what it has open; waited for unless it is at work on a piece, which may take for ever. */
  close(): Effect.Effect<void> {
    const { iterator } = this
    if (this.isOver || iterator.return === undefined) return Effect.void
    this.isOver = true
    const closing = (): Promise<unknown> => iterator.return!()
    return this.isAsked
      ? Effect.sync(() => void closing().catch(() => {}))
      : Effect.asVoid(Effect.promise(closing))
  }

  private ask(onNext: (result: IteratorResult<A>) => void, onFailure: (error: unknown) => void): void {
    this.isAsked = true
    try {
      this.iterator.next().then(onNext, onFailure)
    } catch (error) {
      onFailure(error)
    }
  }

  private failed(error: unknown): Effect.Effect<never, E> {
    this.isAsked = false
    this.isOver = true
    return Effect.suspend(() => Effect.fail(this.onError(error)))
  }
}
