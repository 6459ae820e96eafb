/**
 * What a reader of updates has not read yet: bounded, so that a slow reader costs no more than a quick one.
 */
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Observed } from "../../AgentHandle.ts"

/** Characters that a reader may be behind. */
const roomInCharacters = 256 * 1024

/** What one reader has not read yet. */
export interface Buffer<A> {
  readonly isEmpty: boolean
  /** Takes a piece in, in bounded memory. */
  readonly push: (piece: A) => void
  /** All that is there, taken out, and how many pieces before it are missing. */
  readonly take: () => Taken<A>
}

export interface Taken<A> {
  readonly pieces: ReadonlyArray<A>
  readonly skipped: number
}

/** The latest pieces: the oldest ones make room. */
export class Latest<A> implements Buffer<A> {
  private pieces: Array<A>
  /** What the pieces take; nothing, for those that were there from the start. */
  private sizes: Array<number>
  private size = 0
  private skipped: number
  private readonly most: number
  private readonly counts: (piece: A) => boolean
  private readonly sizeOf: (piece: A) => number

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
    this.pieces = first.slice()
    this.sizes = first.map(() => 0)
    this.skipped = missed
    this.counts = counts
  }

  get isEmpty(): boolean {
    return this.pieces.length === 0
  }

  push(piece: A): void {
    const size = this.sizeOf(piece)
    while (this.pieces.length > 0 && !this.hasRoom(size)) {
      const [oldest] = this.pieces.splice(0, 1) as [A]
      this.size -= this.sizes.shift() ?? 0
      if (this.counts(oldest)) this.skipped += 1
    }
    this.pieces.push(piece)
    this.sizes.push(size)
    this.size += size
  }

  private hasRoom(size: number): boolean {
    return this.pieces.length < this.most && this.size + size <= roomInCharacters
  }

  take(): Taken<A> {
    const { pieces, skipped } = this
    this.pieces = []
    this.sizes = []
    this.size = 0
    this.skipped = 0
    return { pieces, skipped }
  }
}

/** One reader of something that is published piece by piece. */
export class Reader<A> {
  private readonly buffer: Buffer<A>
  private isOver = false
  private wake: (() => void) | undefined
  /** Whether there may be more than what was pushed. */
  isStale = false

  constructor(buffer: Buffer<A>) {
    this.buffer = buffer
  }

  push(piece: A): void {
    this.buffer.push(piece)
    this.wake?.()
  }

  /** Nothing is pushed any more. */
  end(isStale = false): void {
    this.isOver = true
    this.isStale = isStale
    this.wake?.()
  }

  /** There may be more than what was pushed. */
  poke(): void {
    this.isStale = true
    this.wake?.()
  }

  take(): Taken<A> {
    return this.buffer.take()
  }

  get ended(): boolean {
    return this.isOver
  }

  /** Waits for the next push, poke or end. */
  readonly next: Effect.Effect<void> = Effect.callback((resume) => {
    this.wake = () => {
      this.wake = undefined
      resume(Effect.void)
    }
    return Effect.sync(() => {
      this.wake = undefined
    })
  })

  /** The same, unless there was one already. */
  readonly news: Effect.Effect<void> = Effect.suspend(() =>
    this.buffer.isEmpty && !this.isOver && !this.isStale ? this.next : Effect.void
  )
}

/** A stream of what a reader reads, which begins and ends with each run of the stream. */
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
      let last = it.current()
      const reader = new Reader(new Latest({ most: 1, first: [last] }))
      const listener = () => {
        const now = it.current()
        if (last !== now) reader.push((last = now))
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
  Effect.suspend((): Effect.Effect<ReadonlyArray<A | B> | undefined> => {
    const { pieces, skipped } = reader.take()
    if (skipped > 0) return Effect.succeed([...missing(skipped), ...pieces])
    if (pieces.length > 0) return Effect.succeed(pieces)
    return reader.ended ? Effect.succeed(undefined) : Effect.as(reader.news, [])
  })
