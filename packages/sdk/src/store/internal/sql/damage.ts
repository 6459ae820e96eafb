/**
 * Rows that cannot be read: which run each belongs to, and what a caller is told about it.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { RunId } from "../../../domain/Id.ts"
import { RunStoreError, StoreUnreadable } from "../../RunStoreError.ts"
import type { DamagedRun } from "../../RunStorePort.ts"

/** The columns of a row as the driver returns them. */
type RawRow = Readonly<Record<string, unknown>>

/** What the rows of a table hold. */
export interface RowKind<A> {
  readonly row: Schema.Codec<A, unknown>
  /** The schema of each column. */
  readonly fields: Readonly<Record<string, Schema.Codec<unknown, unknown>>>
  /** The row as decoding would make it, where that is quickly found out. */
  readonly quick: (row: unknown) => A | undefined
  /** The columns that contradict others of the row. */
  readonly contradictions: (row: A) => ReadonlyArray<string>
  /** What the row is, in words, by its ids. */
  readonly what: (row: RawRow) => string
}

/** Rows, apart from those that cannot be read. */
export interface Sorted<A> {
  readonly sound: ReadonlyArray<A>
  readonly damaged: ReadonlyArray<DamagedRun>
}

const isRunId = Schema.is(RunId)

/** An id as it can be shown, whatever stands in its place. */
export const shown = (id: unknown): string => (isRunId(id) ? id : "(whose id is damaged)")

/** What is wrong with a row, and what to do. */
export const damagedColumns = (what: string, columns: ReadonlyArray<string>): string =>
  `${what} is damaged (${[...new Set(columns)].join(", ")}), or was written by a newer version of Fermata: update, restore the store from a backup, or remove the run.`

/** Part of the store cannot be read. */
export const unreadable = (operation: string, detail: string): RunStoreError =>
  new RunStoreError({ operation, reason: new StoreUnreadable({ detail }) })

/** Separates the rows that can be read from the others. */
export const sort = <A>(kind: RowKind<A>, rows: ReadonlyArray<unknown>): Sorted<A> => {
  const sound: Array<A> = []
  const damaged: Array<DamagedRun> = []
  for (const row of rows) {
    const read = readRow(kind, row)
    if (Result.isSuccess(read)) sound.push(read.success)
    else damaged.push(read.failure)
  }
  return { sound, damaged }
}

/** The rows, or the first of them that cannot be read. */
export const readAll = <A>(
  kind: RowKind<A>,
  operation: string,
  rows: ReadonlyArray<unknown>
): Effect.Effect<ReadonlyArray<A>, RunStoreError> => {
  const { damaged, sound } = sort(kind, rows)
  const [first] = damaged
  return first === undefined ? Effect.succeed(sound) : Effect.fail(unreadable(operation, first.problem))
}

const readRow = <A>(kind: RowKind<A>, row: unknown): Result.Result<A, DamagedRun> => {
  const quick = kind.quick(row)
  const decoded = quick === undefined ? decode(kind, row) : Result.succeed(quick)
  if (Result.isFailure(decoded)) return Result.fail(damageIn(kind, row, wrongColumns(kind, row)))
  const columns = kind.contradictions(decoded.success)
  return columns.length === 0 ? Result.succeed(decoded.success) : Result.fail(damageIn(kind, row, columns))
}

const decode = <A>({ row: schema }: RowKind<A>, row: unknown): Result.Result<A, unknown> => {
  try {
    return Schema.decodeUnknownResult(schema)(row)
  } catch (error) {
    // A text that nests so deep that it cannot be taken apart.
    return Result.fail(error)
  }
}

const wrongColumns = <A>({ fields }: RowKind<A>, row: unknown): ReadonlyArray<string> =>
  Object.entries(fields).flatMap(([name, field]) => {
    try {
      return Result.isFailure(Schema.decodeUnknownResult(field)((row as RawRow)[name])) ? [name] : []
    } catch {
      return [name]
    }
  })

const damageIn = <A>(kind: RowKind<A>, row: unknown, columns: ReadonlyArray<string>): DamagedRun => {
  const raw = row as RawRow
  return {
    runId: shown(raw["run_id"]),
    problem: damagedColumns(kind.what(raw), columns)
  }
}
