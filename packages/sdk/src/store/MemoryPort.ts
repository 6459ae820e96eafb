/**
 * The part of a run store that keeps memory: the texts of messages and facts, with the terms by which they are searched.
 *
 * A store ranks nothing. It keeps rows in order, writes them in the transaction of the events that they belong to, and deletes them with
 * their run. `Memory` makes the rows and searches them, the same way for all stores.
 *
 * @since 0.2.0
 */
import type * as Effect from "effect/Effect"
import type { RunId, SessionId, Timestamp } from "../domain/Id.ts"
import type { Role } from "../domain/MemoryItem.ts"
import type { RunStoreError } from "./RunStoreError.ts"

/** A message or a fact to store. */
export interface MemoryRow {
  readonly id: string
  /** The scope, as `scopeKey` makes it. */
  readonly scope: string
  readonly kind: "message" | "fact"
  /** Empty if the message was forgotten: its row stays, so that it is not indexed again. */
  readonly text: string
  /** The terms of the text, in the form of `Memory`. Empty if the message was forgotten. */
  readonly terms: string
  /** The version of the rules that made the terms. */
  readonly version: number
  readonly at: Timestamp
  readonly role?: Role | undefined
  readonly key?: string | undefined
  /** The run with which the row is deleted. Absent if the row outlives its run. */
  readonly runId?: RunId | undefined
  readonly sessionId?: SessionId | undefined
  /** The sequence number of the message. */
  readonly sequence?: number | undefined
  /** Provenance, as JSON that the store does not read. */
  readonly source?: string | undefined
}

/** A stored row. */
export interface StoredMemory extends MemoryRow {
  /** The place in its scope. A later row has a higher one; places are never used again. */
  readonly position: number
}

/** How far a scope is. Two equal marks mean that it has the same rows. */
export interface ScopeMark {
  readonly scope: string
  /** Above the positions of all its rows. */
  readonly next: number
  /** Grows when rows are deleted or emptied. */
  readonly removed: number
}

/** Selects rows; a row must meet all conditions. */
export interface MemoryFilter {
  readonly scope?: string
  readonly kind?: "message" | "fact"
  readonly sessionId?: SessionId
  /** Selects rows with higher positions, in one scope. */
  readonly after?: number
  /** Page size. Default: 100. Above 1,000 counts as 1,000. */
  readonly limit?: number
  /** Whether the rows have an empty text, because only their terms are needed. Default: `false`. */
  readonly termsOnly?: boolean
}

/** Names rows to delete. */
export type MemoryRemoval =
  | { readonly ids: ReadonlyArray<string> }
  | { readonly scope: string }
  | { readonly sessionId: SessionId }

/** The operations on memory. Each can fail with `RunStoreError`. */
export interface MemoryPort {
  /**
   * Stores rows, all or none. A message that is stored already stays as it is, or is replaced with `replace`, unless it was forgotten. A fact
   * replaces the one with its id, unless that is newer.
   */
  readonly write: (
    rows: ReadonlyArray<MemoryRow>,
    options?: { readonly replace?: boolean }
  ) => Effect.Effect<void, RunStoreError>

  /** Returns the sequence number after that of the last stored message of a session; 0 if there is none. */
  readonly indexed: (sessionId: SessionId) => Effect.Effect<number, RunStoreError>

  /** Returns the marks of scopes. A scope without rows has none. */
  readonly marks: (scopes: ReadonlyArray<string>) => Effect.Effect<ReadonlyArray<ScopeMark>, RunStoreError>

  /** Lists rows by scope and position; those of forgotten messages only with `termsOnly`. */
  readonly list: (filter: MemoryFilter) => Effect.Effect<ReadonlyArray<StoredMemory>, RunStoreError>

  /** Reads up to 1,000 rows by their ids, in any order. */
  readonly read: (ids: ReadonlyArray<string>) => Effect.Effect<ReadonlyArray<StoredMemory>, RunStoreError>

  /**
   * Empties messages, which stay as empty rows, and deletes facts. A whole session or a whole scope is deleted with its messages, which are
   * indexed again if their session goes on. Returns the number of rows.
   */
  readonly forget: (removal: MemoryRemoval) => Effect.Effect<number, RunStoreError>
}
