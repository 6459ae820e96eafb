/**
 * Memory of the memory store.
 */
import * as Effect from "effect/Effect"
import type { RunId, Timestamp } from "../../../domain/Id.ts"
import type { MemoryPort, MemoryRow, ScopeMark, StoredMemory } from "../../MemoryPort.ts"
import { pageSize } from "../bounds.ts"
import { inOrder, newMark } from "../recollections.ts"

/** The rows of a store by their ids, and the marks of its scopes. */
export interface Recollections {
  readonly rows: Map<string, StoredMemory>
  readonly marks: Map<string, ScopeMark>
}

export const make = (): Recollections => ({ rows: new Map(), marks: new Map() })

/** Stores rows. */
export const insert = (
  { marks, rows }: Recollections,
  given: ReadonlyArray<MemoryRow>,
  now: Timestamp,
  replace = false
): void => {
  for (const row of inOrder(given)) {
    const mark = marks.get(row.scope) ?? { scope: row.scope, next: now, removed: newMark() }
    marks.set(row.scope, { ...mark, next: mark.next + 1 })
    const known = rows.get(row.id)
    const isKept =
      known !== undefined && ((row.kind === "message" && !replace) || known.at > row.at || known.text === "")
    if (!isKept) rows.set(row.id, { ...row, position: mark.next })
  }
}

const erase = ({ marks, rows }: Recollections, which: (row: StoredMemory) => boolean): number => {
  let count = 0
  for (const row of [...rows.values()].filter(which)) {
    rows.delete(row.id)
    const mark = marks.get(row.scope)
    if (mark !== undefined) marks.set(row.scope, { ...mark, removed: mark.removed + 1 })
    count += 1
  }
  const used = new Set(Array.from(rows.values(), ({ scope }) => scope))
  for (const scope of marks.keys()) if (!used.has(scope)) marks.delete(scope)
  return count
}

/** Deletes the rows of a removed run. */
export const eraseRun = (all: Recollections, runId: RunId): void =>
  void erase(all, (row) => row.runId === runId)

/** The operations on memory. */
export const portOf = (all: Recollections): MemoryPort => {
  const { marks, rows } = all
  return {
    write: (given, { replace } = {}) =>
      Effect.clockWith((clock) =>
        Effect.sync(() => insert(all, given, clock.currentTimeMillisUnsafe(), replace))
      ),
    indexed: (sessionId) =>
      Effect.sync(() => {
        let next = 0
        for (const row of rows.values())
          if (row.sessionId === sessionId && row.sequence !== undefined)
            next = Math.max(next, row.sequence + 1)
        return next
      }),
    marks: (scopes) => Effect.sync(() => scopes.flatMap((scope) => marks.get(scope) ?? [])),
    list: ({ after = -Infinity, kind, limit, scope, sessionId, termsOnly = false }) =>
      Effect.sync(() =>
        [...rows.values()]
          .filter(
            (row) =>
              (scope === undefined || row.scope === scope) &&
              (kind === undefined || row.kind === kind) &&
              (sessionId === undefined || row.sessionId === sessionId) &&
              row.position > after &&
              (termsOnly || row.text !== "")
          )
          .toSorted((a, b) => (a.scope < b.scope ? -1 : a.scope > b.scope ? 1 : a.position - b.position))
          .slice(0, pageSize(limit))
          .map((row) => (termsOnly ? { ...row, text: "" } : row))
      ),
    read: (ids) => Effect.sync(() => ids.flatMap((id) => rows.get(id) ?? [])),
    forget: (removal) =>
      Effect.sync(() => {
        if ("scope" in removal) return erase(all, (row) => row.scope === removal.scope)
        if ("sessionId" in removal) return erase(all, (row) => row.sessionId === removal.sessionId)
        const ids = new Set(removal.ids)
        let count = erase(all, (row) => ids.has(row.id) && row.kind === "fact")
        for (const row of [...rows.values()].filter(({ id, text }) => ids.has(id) && text !== "")) {
          const { source: _, ...rest } = row
          rows.set(row.id, { ...rest, text: "", terms: "" })
          const mark = marks.get(row.scope)
          if (mark !== undefined) marks.set(row.scope, { ...mark, removed: mark.removed + 1 })
          count += 1
        }
        return count
      })
  }
}
