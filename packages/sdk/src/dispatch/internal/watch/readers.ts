/**
 * What somebody who reads a run's updates has not read yet: bounded, so that a slow reader costs no more than a quick one.
 */
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Observed } from "../../AgentHandle.ts"

/** Characters that a reader may be behind. */
const roomInCharacters = 256 * 1024

/** One reader of something that is told piece by piece. */
export class Reader<A> {
  private buffer: Array<A> = []
  /** What the pieces take; nothing, for those that were there from the start. */
  private sizes: Array<number> = []
  private size = 0
  private skipped = 0
  private isOver = false
  private wakeUp: (() => void) | undefined
  private readonly most: number
  private readonly counts: (piece: A) => boolean
  private readonly sizeOf: (piece: A) => number
  /** Whether there is more than what was pushed. */
  stale = false
  /** What came in last. */
  last: A | undefined

  constructor(options: {
    /** Pieces that it holds at a time, besides those that are there from the start. */
    readonly most: number
    readonly first?: ReadonlyArray<A>
    /** How many are missing before the first. */
    readonly missed?: number
    /** Whether a piece for which there is no room is missed. */
    readonly counts?: (piece: A) => boolean
    /** How much of {@link roomInCharacters} a piece takes. Default: nothing. */
    readonly sizeOf?: (piece: A) => number
  }) {
    const { counts = () => true, first = [], missed = 0, most, sizeOf = () => 0 } = options
    this.sizeOf = sizeOf
    this.most = most
    this.buffer = first.slice()
    this.sizes = first.map(() => 0)
    this.skipped = missed
    this.last = first.at(-1)
    this.counts = counts
  }

  /** Takes a piece in; in the place of the oldest ones if there is no room. */
  push(piece: A): void {
    const size = this.sizeOf(piece)
    while (this.buffer.length > 0 && !this.hasRoom(size)) {
      const [oldest] = this.buffer.splice(0, 1) as [A]
      this.size -= this.sizes.shift() ?? 0
      if (this.counts(oldest)) this.skipped += 1
    }
    this.buffer.push(piece)
    this.sizes.push(size)
    this.size += size
    this.last = piece
    this.wake()
  }

  private hasRoom(size: number): boolean {
    return this.buffer.length < this.most && this.size + size <= roomInCharacters
  }

  /** Nothing comes any more. */
  end(): void {
    this.isOver = true
    this.wake()
  }

  /** There is more than what was pushed. */
  poke(): void {
    this.stale = true
    this.wake()
  }

  private wake(): void {
    this.wakeUp?.()
  }

  /** What is there, and how many pieces before it are missing. */
  take(): { readonly pieces: Array<A>; readonly skipped: number } {
    const { buffer, skipped } = this
    this.buffer = []
    this.sizes = []
    this.size = 0
    this.skipped = 0
    return { pieces: buffer, skipped }
  }

  get ended(): boolean {
    return this.isOver
  }

  /** Waits until somebody wakes it, unless something is there already. */
  readonly news: Effect.Effect<void> = Effect.callback((resume) => {
    if (this.buffer.length > 0 || this.isOver || this.stale) return resume(Effect.void)
    this.wakeUp = () => {
      this.wakeUp = undefined
      resume(Effect.void)
    }
    return Effect.sync(() => {
      this.wakeUp = undefined
    })
  })
}

/** A stream of what somebody reads, from when it is run until nobody runs it any more. */
export const reading = <R, B, E>(
  /** Begins, and says how to stop. */
  begin: () => readonly [R, () => void],
  read: (reader: R) => Effect.Effect<ReadonlyArray<B> | undefined, E>
): Stream.Stream<B, E> =>
  Stream.unwrap(
    Effect.map(
      Effect.acquireRelease(Effect.sync(begin), ([, stop]) => Effect.sync(stop)),
      ([reader]) => Stream.fromPull(Effect.succeed(pull(read(reader))))
    )
  )

/** Something that changes now and then, for who looks at it and who waits for its changes. */
export const observed = <A>(it: {
  readonly current: () => A
  /** Whether nothing changes any more. */
  readonly isOver: () => boolean
  readonly listen: (listener: () => void) => () => void
}): Observed<A> => ({
  current: it.current,
  changes: reading(
    () => {
      const reader = new Reader<A>({ most: 1, first: [it.current()] })
      const listener = () => {
        const now = it.current()
        if (reader.last !== now) reader.push(now)
        if (it.isOver()) reader.end()
      }
      const stop = it.listen(listener)
      listener()
      return [reader, stop]
    },
    (reader) => readAll(reader, () => [])
  )
})

/** Asks again and again; an empty list is nothing yet, `undefined` the end. */
const pull = <B, E>(
  read: Effect.Effect<ReadonlyArray<B> | undefined, E>
): Effect.Effect<Arr.NonEmptyReadonlyArray<B>, E | Cause.Done> =>
  Effect.flatMap(read, (pieces): Effect.Effect<Arr.NonEmptyReadonlyArray<B>, E | Cause.Done> => {
    if (pieces === undefined) return Cause.done()
    return Arr.isReadonlyArrayNonEmpty(pieces) ? Effect.succeed(pieces) : pull(read)
  })

/** What was pushed, with a piece of its own for what is missing; `undefined` at the end. */
export const readAll = <A, B>(
  reader: Reader<A>,
  missing: (count: number) => ReadonlyArray<B>
): Effect.Effect<ReadonlyArray<A | B> | undefined> =>
  Effect.suspend(() => {
    const { pieces, skipped } = reader.take()
    if (skipped > 0) return Effect.succeed([...missing(skipped), ...pieces])
    if (pieces.length > 0) return Effect.succeed(pieces)
    return reader.ended ? Effect.succeed(undefined) : Effect.as(reader.news, [])
  })
