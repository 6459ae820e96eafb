/**
 * The memory of a Fermata.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { defined } from "../../domain/internal/defined.ts"
import type { MemoryItem, Scope } from "../../domain/MemoryItem.ts"
import {
  checkMemory,
  type MemoryReport,
  type MemorySessions,
  reindexMemory
} from "../../durable/reindexMemory.ts"
import {
  type Fact,
  type Forgettable,
  type Found,
  make,
  type MemoryError,
  type MemoryFilter,
  Memory,
  type MemoryOperations,
  type RecallOptions
} from "../../memory/Memory.ts"
import type { RunStore } from "../../store/RunStore.ts"
import type { FermataClosed } from "./FermataClosed.ts"
import { iterable } from "./iterable.ts"

/**
 * Memory in the Promise API. It is there also without the option `memory`, with which runs write and search it: facts can be kept and found,
 * and `reindex` indexes the sessions. Rejects with `MemoryUnavailable` if the store has no memory.
 */
export interface RunMemory {
  /** Stores a fact, without secrets, and resolves to it. A fact with a `key` replaces the one with this key in its scope. */
  readonly remember: (fact: Fact | string) => Promise<MemoryItem>
  /** Searches by words, in one scope or several. Resolves to the best items first. */
  readonly recall: (query: string, options?: RecallOptions) => Promise<ReadonlyArray<Found>>
  /** Lists items by scope and position, in pages of 100 unless `limit` is given (at most 1,000). */
  readonly list: (filter?: MemoryFilter) => Promise<ReadonlyArray<MemoryItem>>
  /** Iterates over all items of a scope, for an export. */
  readonly items: (scope: Scope) => AsyncIterable<MemoryItem>
  /**
   * Deletes items from memory and its indexes, by an id, ids, a scope or a session, and resolves to their number. Messages stay in the
   * journals: `remove` and `prune` delete them there, and in memory with them.
   */
  readonly forget: (which: Forgettable) => Promise<number>
  /** Indexes the messages of one session, or of all, anew from their journals. Resolves to the number of messages. */
  readonly reindex: (options?: MemorySessions) => Promise<number>
  /** Compares memory with the journals of one session, or of all. */
  readonly check: (options?: MemorySessions) => Promise<MemoryReport>
}

/** Makes the memory of a Fermata. `own` is the memory of its runs, if they have one. */
export const makeRemembering = ({
  own,
  run,
  store
}: {
  readonly own: MemoryOperations | undefined
  readonly run: <A, E>(effect: Effect.Effect<A, E, RunStore>) => Promise<A>
  readonly store: RunStore["Service"]
}): RunMemory => {
  const memory = own === undefined ? make(store) : Effect.succeed(own)
  const using = <A, E>(f: (memory: MemoryOperations) => Effect.Effect<A, E>) => run(Effect.flatMap(memory, f))
  const maintaining = <A, E>(effect: Effect.Effect<A, E, RunStore | Memory>) =>
    run(Effect.flatMap(memory, (memory) => Effect.provideService(effect, Memory, memory)))
  return {
    remember: (fact) => using(({ remember }) => remember(typeof fact === "string" ? { text: fact } : fact)),
    recall: (query, options) => using(({ recall }) => recall(query, options)),
    list: (filter) => using(({ list }) => list(filter)),
    items: (scope) =>
      iterable(
        Stream.paginate(undefined as number | undefined, (after) =>
          Effect.map(
            Effect.tryPromise({
              try: () => using(({ list }) => list({ scope, limit: pageSize, ...defined({ after }) })),
              catch: (error) => error as MemoryError | FermataClosed
            }),
            (page) =>
              [page, Option.map(Option.fromNullishOr(page.at(-1)), ({ position }) => position)] as const
          )
        )
      ),
    forget: (which) => using(({ forget }) => forget(which)),
    reindex: (options) => maintaining(reindexMemory(options)),
    check: (options) => maintaining(checkMemory(options))
  }
}

const pageSize = 500
