/**
 * Memory finds what was said long ago, and keeps facts.
 *
 * It is an index over the messages of sessions, which the runs write as they commit them, and over facts that models and programs remember.
 * A search needs no model and no network: passages are ranked by their words. The store of the runs keeps memory, too, so that it is deleted
 * with them; the ranking is the same for all stores.
 *
 * @since 0.2.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { SessionId } from "../domain/Id.ts"
import type { MemoryItem, Scope, ScopeKind } from "../domain/MemoryItem.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { RunContext } from "../domain/RunContext.ts"
import type { RunState } from "../domain/RunState.ts"
import { TaggedError } from "../domain/TaggedError.ts"
import type { UntrustedResult } from "../domain/Untrusted.ts"
import type { MemoryPort, MemoryRow } from "../store/MemoryPort.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import { contained, Scrubber } from "../tool/Scrubber.ts"

export type { MemoryItem, Scope, ScopeKind } from "../domain/MemoryItem.ts"

/** What a runtime does with memory. */
export interface MemoryOptions {
  /**
   * The scope of the messages that runs write: only their `session` finds them again, or all runs of their `agent`, or all runs for their
   * `user`. A run without a user writes to its session. Default: `session`.
   */
  readonly messages?: "session" | "agent" | "user"
  /**
   * The scopes that are searched for each message of the user, whose best items the model sees. An empty list searches none. Default: that of
   * `messages`, and `session`.
   */
  readonly retrieve?: ReadonlyArray<ScopeKind>
  /**
   * Returns the id of the user for whom a run works. Without one, or if it throws, the run has no
   * scope of a user. Default: the field `user` of the run's context, if it is a text.
   */
  readonly user?: (context: RunContext) => string | undefined
  /**
   * Returns the part of memory that a run uses, such as its tenant. Users, agents and the global scope of one part are apart from those of
   * others: the user `anna` of the part `acme` has the scope `{ user: "acme/anna" }`. If it throws, the run has only the scope of its
   * session. Set it on a server with tenants, whose callers name their users themselves: `({ tenant }) => tenant`. Default: no parts.
   */
  readonly partition?: (context: RunContext) => string | undefined
  /** The part of the model's window that retrieved items may have: at most 0.5. Default: 0.08. */
  readonly share?: number
  /** The most items that are retrieved for a message. Default: 8. */
  readonly most?: number
}

/** A fact to remember. */
export interface Fact {
  readonly text: string
  /** Default: `global`. */
  readonly scope?: Scope
  /** Replaces the fact with this key in the scope. Without a key, only the same text replaces a fact. */
  readonly key?: string
  /** The author, for the record. */
  readonly by?: string
  /** The session and run that it comes from. A fact of a session is deleted with this run. */
  readonly source?: Pick<MemoryItem, "sessionId" | "runId">
  /** The untrusted results that its author had read. */
  readonly untrusted?: ReadonlyArray<UntrustedResult>
}

/** How to search. */
export interface RecallOptions {
  /** A scope or several, which are searched as one. Default: `global`. */
  readonly scope?: Scope | ReadonlyArray<Scope>
  /** The most items. Default: 8; at most 100. */
  readonly limit?: number
  /** The most tokens of the texts together, estimated at 3 characters each. Default: no limit. */
  readonly budget?: number
}

/** An item that was found. */
export interface Found {
  readonly item: MemoryItem
  /** Higher is better. Comparable within one search. */
  readonly score: number
  /** The part of the item that fits best: at most 1,200 characters. */
  readonly text: string
}

/** Selects items; an item must meet all conditions. */
export interface MemoryFilter {
  readonly scope?: Scope
  readonly kind?: "message" | "fact"
  readonly sessionId?: string
  /** The `position` of the last item of the page before, with a `scope`. */
  readonly after?: number
  /** Page size. Default: 100; at most 1,000. */
  readonly limit?: number
}

/** Names items: by an id, by ids, or all of a scope or a session. */
export type Forgettable =
  | string
  | ReadonlyArray<string>
  | { readonly scope: Scope }
  | { readonly sessionId: string }

/** The store has no memory: it is not one of Fermata's, or of an earlier version. */
export class MemoryUnavailable extends TaggedError<MemoryUnavailable>()("MemoryUnavailable", {}) {
  override get message() {
    return "The store keeps no memory: use a store of Fermata (in memory, SQLite or Postgres), or give yours the operations of MemoryPort."
  }
}

/** Why an operation of memory failed. Nothing was changed then. */
export type MemoryError = MemoryUnavailable | OptionsInvalid | RunStoreError

/** The operations of {@link Memory}. */
export interface MemoryOperations {
  /** The options of the layer, with defaults. */
  readonly options: Required<Omit<MemoryOptions, "partition">> & Pick<MemoryOptions, "partition">
  /** Stores a fact, without secrets, and returns it. */
  readonly remember: (fact: Fact) => Effect.Effect<MemoryItem, MemoryError>
  /** Searches by words. Returns the best items first; none if no word of the query is in memory. */
  readonly recall: (
    query: string,
    options?: RecallOptions & { readonly "~leftOut"?: (item: LeftOut) => boolean }
  ) => Effect.Effect<ReadonlyArray<Found>, MemoryError>
  /** Reads up to 1,000 items by their ids, in the order of the ids. Those that memory does not have are left out. */
  readonly read: (ids: ReadonlyArray<string>) => Effect.Effect<ReadonlyArray<MemoryItem>, MemoryError>
  /** Lists items by scope and position. */
  readonly list: (filter?: MemoryFilter) => Effect.Effect<ReadonlyArray<MemoryItem>, MemoryError>
  /**
   * Deletes items from memory and its indexes, and returns their number. Messages stay in the journals of their runs: remove these to delete
   * them there. A message that was named by its id is not indexed again.
   */
  readonly forget: (which: Forgettable) => Effect.Effect<number, MemoryError>
  /** Makes the rows of the messages from a sequence number on, up to `to`. */
  readonly "~rows": (state: RunState, from: number, to?: number) => ReadonlyArray<MemoryRow>
  /** The scopes of a run of these kinds. A run without a user has no scope of this kind. */
  readonly "~scopes": (state: RunState, kinds: ReadonlyArray<ScopeKind>) => ReadonlyArray<Scope>
  readonly "~port": MemoryPort | undefined
}

/** What a search knows of an item before it reads it. */
export interface LeftOut {
  readonly sessionId: SessionId | string | undefined
  readonly sequence: number | undefined
}

/**
 * Memory as a service. A runtime that is created with it writes the messages of its stored runs, and searches memory for each message of the
 * user; its tools can be `recallTool` and `rememberTool`.
 *
 * **Example** (Remembering a fact)
 *
 * ```ts run
 * import { Memory } from "@fermata/sdk"
 * import { RunStore } from "@fermata/sdk/store"
 * import { Effect, Layer } from "effect"
 *
 * const program = Effect.gen(function* () {
 *   const memory = yield* Memory.Memory
 *   yield* memory.remember({ scope: { user: "anna" }, key: "tea", text: "Anna drinks green tea." })
 *   const [found] = yield* memory.recall("Which tea?", { scope: { user: "anna" } })
 *   console.log(found?.text) // Anna drinks green tea.
 * })
 * await Effect.runPromise(Effect.provide(program, Layer.provide(Memory.layer(), RunStore.layerMemory)))
 * ```
 *
 * @category services
 * @since 0.2.0
 */
export class Memory extends Context.Service<Memory, MemoryOperations>()("@fermata/sdk/memory/Memory") {}

/**
 * Makes the operations for a store, with the scrubber of the context. Fails with `OptionsInvalid`.
 *
 * @category constructors
 * @since 0.2.0
 */
export const make = (
  store: Pick<RunStore["Service"], "memory">,
  options: MemoryOptions = {}
): Effect.Effect<MemoryOperations, OptionsInvalid> =>
  Effect.gen(function* () {
    const scrubber = contained(yield* Scrubber)
    const { makeOperations } = yield* Effect.promise(() => import("./internal/operations.ts"))
    return yield* makeOperations(store.memory, scrubber, options)
  })

/**
 * Provides memory in the store of the context. Fails with `OptionsInvalid` for an option that is unknown or has a wrong value.
 *
 * @category layers
 * @since 0.2.0
 */
export const layer = (options?: MemoryOptions): Layer.Layer<Memory, OptionsInvalid, RunStore> =>
  Layer.effect(
    Memory,
    Effect.flatMap(RunStore, (store) => make(store, options))
  )
