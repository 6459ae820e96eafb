/**
 * How the tools `recall` and `remember` use memory: through functions in the context of their call, which the run provides.
 */
import type * as Effect from "effect/Effect"
import type { MemoryItem, ScopeKind } from "../../domain/MemoryItem.ts"

/** The memory of a run, as its tools see it. */
export interface Remembering {
  /** Searches the scopes of the run, and marks the run with the untrusted results that the found items were written from. */
  readonly search: (
    query: string,
    limit: number
  ) => Effect.Effect<ReadonlyArray<{ readonly item: MemoryItem; readonly text: string }>, unknown>
  /** Reads an item of the scopes of the run, marking the run likewise. `undefined` if they do not have it. */
  readonly read: (id: string) => Effect.Effect<MemoryItem | undefined, unknown>
  /** Stores a fact in a scope of the run. `undefined` if the run has no such scope. */
  readonly remember: (fact: {
    readonly text: string
    readonly key?: string
    readonly scope: ScopeKind
  }) => Effect.Effect<MemoryItem | undefined, unknown>
}

/** The key of the functions in the context of a call. */
export const remembering = Symbol("fermata/remembering")
