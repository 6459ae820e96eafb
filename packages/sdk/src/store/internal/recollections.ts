/**
 * What the stores share about rows of memory.
 */
import type { MemoryRow } from "../MemoryPort.ts"

/** The rows by scope, so that writers of several scopes lock them in one order; within a scope as they were given. */
export const inOrder = (rows: ReadonlyArray<MemoryRow>): ReadonlyArray<MemoryRow> =>
  rows.toSorted((a, b) => (a.scope < b.scope ? -1 : a.scope > b.scope ? 1 : 0))

/** The first `removed` of a scope: a scope that is deleted and written again must not look like the one before. */
export const newMark = (): number => Math.floor(Math.random() * 2 ** 40)
