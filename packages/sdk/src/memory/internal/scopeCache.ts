/**
 * Keeps the indexes of the scopes that were searched last, and brings them up to date before each search.
 *
 * An unchanged scope costs one statement. Its first search in a process reads the terms of all its rows.
 */
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import type { MemoryPort, ScopeMark } from "../../store/MemoryPort.ts"
import type { RunStoreError } from "../../store/RunStoreError.ts"
import { ScopeIndex } from "./ScopeIndex.ts"

/** The indexes of a scope: a fact that is replaced does not make the messages be read again. */
type Indexes = Record<"message" | "fact", ScopeIndex>

/** The most passages of all indexes. Above it, the scopes that were not searched for the longest time are dropped. */
const mostPassages = 500_000

/** Rows that are read at once. Other work of the process goes on in between. */
const pageSize = 250

const sizeOf = ({ fact, message }: Indexes): number => fact.chunks.size + message.chunks.size

export const makeScopeCache = (port: MemoryPort) => {
  const cached = new Map<string, Indexes>()
  const turn = Semaphore.makeUnsafe(1)

  /** Reads the rows after those of an index. Returns `false` if a row replaces one that the index has. */
  const extend = Effect.fnUntraced(function* (
    index: ScopeIndex,
    kind: keyof Indexes,
    { next, scope }: ScopeMark
  ): Effect.fn.Return<boolean, RunStoreError> {
    for (;;) {
      const rows = yield* port.list({ scope, kind, after: index.position, limit: pageSize, termsOnly: true })
      for (const row of rows) if (!index.add(row)) return false
      if (rows.length < pageSize) break
      yield* Effect.yieldNow
    }
    // Rows of the other kind may be up to the mark: the next search need not pass over them again.
    index.position = Math.max(index.position, next - 1)
    index.next = next
    return true
  })

  /** Brings an index up to date. One that was interrupted goes on where it stopped, so that a large scope is read in the end. */
  const refresh = Effect.fnUntraced(function* (
    indexes: Indexes,
    kind: keyof Indexes,
    mark: ScopeMark
  ): Effect.fn.Return<void, RunStoreError> {
    const known = indexes[kind]
    const isUsable = known.removed === mark.removed && known.next <= mark.next
    if (isUsable && (known.next === mark.next || (yield* extend(known, kind, mark)))) return
    const built = new ScopeIndex()
    built.removed = mark.removed
    indexes[kind] = built
    // If a row changes while the new index is built, the next search builds it again.
    if (!(yield* extend(built, kind, mark))) built.removed = -1
  })

  const dropOldest = (): void => {
    let total = 0
    for (const indexes of cached.values()) total += sizeOf(indexes)
    for (const [scope, indexes] of cached) {
      if (total <= mostPassages || cached.size <= 1) return
      cached.delete(scope)
      total -= sizeOf(indexes)
    }
  }

  const read = Effect.fnUntraced(function* (scopes: ReadonlyArray<string>) {
    const marks = new Map((yield* port.marks([...new Set(scopes)])).map((mark) => [mark.scope, mark]))
    const found: Array<ScopeIndex> = []
    for (const scope of new Set(scopes)) {
      const mark = marks.get(scope)
      if (mark === undefined) {
        cached.delete(scope)
        continue
      }
      const indexes = cached.get(scope) ?? { message: new ScopeIndex(), fact: new ScopeIndex() }
      // The scope that was searched last is the last of the map.
      cached.delete(scope)
      cached.set(scope, indexes)
      yield* refresh(indexes, "message", mark)
      yield* refresh(indexes, "fact", mark)
      found.push(indexes.message, indexes.fact)
    }
    dropOldest()
    return found
  })

  return {
    /** Returns the indexes of scopes, up to date. */
    read: (scopes: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<ScopeIndex>, RunStoreError> =>
      turn.withPermits(1)(read(scopes))
  }
}
