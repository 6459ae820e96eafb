/**
 * Readers of published values, each with a bounded buffer, so that a slow reader costs no more memory than a fast one.
 */
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Observed } from "../../AgentHandle.ts"

/** The limit of a buffer in characters. */
const roomInCharacters = 256 * 1024

/** The values that one reader has not read yet. */
export interface Buffer<A> {
  readonly isEmpty: boolean
  /** Adds a value, in bounded memory. */
  readonly push: (piece: A) => void
  /** Removes and returns all values, with the number of values that were dropped before them. */
  readonly take: () => Taken<A>
}

export interface Taken<A> {
  readonly pieces: ReadonlyArray<A>
  readonly skipped: number
}

/** A buffer of the latest values, which drops the oldest ones when it is full. */
export class Latest<A> implements Buffer<A> {
  private pieces: Array<A>
  /** The size of each value; 0 for the initial ones. */
  private sizes: Array<number>
  private size = 0
  private skipped: number
  private readonly most: number
  private readonly counts: (piece: A) => boolean
  private readonly sizeOf: (piece: A) => number

  constructor(options: {
    /** The limit of the buffer in values. The initial ones may exceed it. */
    readonly most: number
    /** The initial values. Default: none. */
    readonly first?: ReadonlyArray<A>
    /** The number of values that were dropped before the initial ones. Default: 0. */
    readonly missed?: number
    /** Whether a dropped value counts as skipped. Default: always. */
    readonly counts?: (piece: A) => boolean
    /** The size of a value in characters, limited by {@link roomInCharacters}. Default: 0. */
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

/** One reader of published values. */
export class Reader<A> {
  private readonly buffer: Buffer<A>
  private isOver = false
  private wake: (() => void) | undefined
  /** Whether the source may have more than what was pushed. */
  isStale = false
  /** Called when its consumer begins to wait. */
  onWait: (() => void) | undefined

  constructor(buffer: Buffer<A>) {
    this.buffer = buffer
  }

  push(piece: A): void {
    this.buffer.push(piece)
    this.wake?.()
  }

  /** Marks the last push. With `isStale`, the source may still have more. */
  end(isStale = false): void {
    this.isOver = true
    this.isStale = isStale
    this.wake?.()
  }

  /** Reports that the source may have more than what was pushed. */
  poke(): void {
    this.isStale = true
    this.wake?.()
  }

  take(): Taken<A> {
    return this.buffer.take()
  }

  /** Whether its consumer waits. */
  get isWaiting(): boolean {
    return this.wake !== undefined
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
    this.onWait?.()
    return Effect.sync(() => {
      this.wake = undefined
    })
  })

  /** Waits for a push, poke or end, unless there was one since the last read. */
  readonly news: Effect.Effect<void> = Effect.suspend(() =>
    this.buffer.isEmpty && !this.isOver && !this.isStale ? this.next : Effect.void
  )
}

/** Makes a stream that creates a reader for each run of the stream, and removes it at the end. */
export const reading = <R, B, E>(
  /** Creates and adds a reader. Returns it with the function that removes it. */
  begin: () => readonly [R, () => void],
  read: (reader: R) => Effect.Effect<ReadonlyArray<B> | undefined, E>
): Stream.Stream<B, E> =>
  Stream.unwrap(
    Effect.map(
      Effect.acquireRelease(Effect.sync(begin), ([, stop]) => Effect.sync(stop)),
      ([reader]) => Stream.fromPull(Effect.succeed(pull(read(reader))))
    )
  )

/** Makes an observed value from its getter and its listeners. */
export const observed = <A>(it: {
  readonly current: () => A
  /** Whether the value is final. */
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

/** Repeats a read until it returns values (an empty list means none yet) or `undefined`, the end. */
const pull = <B, E>(
  read: Effect.Effect<ReadonlyArray<B> | undefined, E>
): Effect.Effect<Arr.NonEmptyReadonlyArray<B>, E | Cause.Done> =>
  Effect.flatMap(read, (pieces): Effect.Effect<Arr.NonEmptyReadonlyArray<B>, E | Cause.Done> => {
    if (pieces === undefined) return Cause.done()
    return Arr.isReadonlyArrayNonEmpty(pieces) ? Effect.succeed(pieces) : pull(read)
  })

/** Reads the buffered values, preceded by the result of `missing` if values were dropped. Returns `undefined` at the end. */
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
