/**
 * Decodes rows, and describes the ones that cannot be read, with the run to which each belongs.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { RunId } from "../../../domain/Id.ts"
import type { RunStoreError } from "../../RunStoreError.ts"
import type { DamagedRun } from "../../RunStorePort.ts"
import { unreadable } from "../journal.ts"

/** The columns of a row as the driver returns them. */
type RawRow = Readonly<Record<string, unknown>>

/** The checks and the decoding of the rows of a table. */
export interface RowKind<Row extends object, Value> {
  readonly row: Schema.Codec<Row, unknown> & {
    /** The schema of each column. */
    readonly fields: Readonly<Record<string, Schema.Codec<unknown, unknown>>>
  }
  /** A fast path: returns the decoded row if it needs no decoding, otherwise `undefined`. */
  readonly quick?: (row: unknown) => Row | undefined
  /** For each column that repeats data of other columns: whether it agrees with them. */
  readonly agreements?: (row: Row) => { readonly [Column in keyof Row]?: boolean }
  /** Names the row in a sentence, with its ids. */
  readonly what: (row: RawRow) => string
  readonly make: (row: Row) => Value
}

/** The decoded rows, and descriptions of the rows that cannot be read. */
export interface Sorted<Value> {
  readonly sound: ReadonlyArray<Value>
  readonly damaged: ReadonlyArray<DamagedRun>
}

const isRunId = Schema.is(RunId)

/** An id for a sentence, or a text in its place if it is damaged. */
export const displayId = (id: unknown): string => (isRunId(id) ? id : "(whose id is damaged)")

/** The sentence for a damaged row: which columns are wrong, and what to do. */
export const damagedColumns = (what: string, columns: ReadonlyArray<string>): string =>
  `${what} is damaged (${columns.join(", ")}), or was written by a newer version of Fermata: update, restore the store from a backup, or remove the run.`

/** Decodes rows, and separates those that cannot be read. */
export const sort = <Row extends object, Value>(
  kind: RowKind<Row, Value>,
  rows: ReadonlyArray<unknown>
): Sorted<Value> => {
  const sound: Array<Value> = []
  const damaged: Array<DamagedRun> = []
  for (const row of rows) {
    const read = readRow(kind, row)
    if (Result.isSuccess(read)) sound.push(kind.make(read.success))
    else damaged.push(damageIn(kind, row as RawRow, read.failure))
  }
  return { sound, damaged }
}

/** Decodes rows. Fails with `StoreUnreadable` for the first one that cannot be read. */
export const readAll = <Row extends object, Value>(
  kind: RowKind<Row, Value>,
  operation: string,
  rows: ReadonlyArray<unknown>
): Effect.Effect<ReadonlyArray<Value>, RunStoreError> => {
  const { damaged, sound } = sort(kind, rows)
  const [first] = damaged
  return first === undefined ? Effect.succeed(sound) : Effect.fail(unreadable(operation, first.problem))
}

/** Decodes one row. Fails with the names of the wrong columns. */
const readRow = <Row extends object, Value>(
  kind: RowKind<Row, Value>,
  row: unknown
): Result.Result<Row, ReadonlyArray<string>> => {
  const quick = kind.quick?.(row)
  const decoded = quick === undefined ? decode(kind.row, row) : Result.succeed(quick)
  if (Result.isFailure(decoded)) return Result.fail(wrongColumns(kind.row.fields, row as RawRow))
  const agreements = kind.agreements?.(decoded.success) ?? {}
  const contradictions = Object.entries(agreements).flatMap(([column, agrees]) => (agrees ? [] : [column]))
  return contradictions.length === 0 ? Result.succeed(decoded.success) : Result.fail(contradictions)
}

const decode = <A>(schema: Schema.Codec<A, unknown>, value: unknown): Result.Result<A, unknown> => {
  try {
    return Schema.decodeUnknownResult(schema)(value)
  } catch (error) {
    // A JSON text so deeply nested that decoding overflows the stack.
    return Result.fail(error)
  }
}

const wrongColumns = (fields: Readonly<Record<string, Schema.Codec<unknown, unknown>>>, row: RawRow) =>
  Object.keys(fields).filter((name) => Result.isFailure(decode(fields[name]!, row[name])))

const damageIn = <Row extends object, Value>(
  { what }: RowKind<Row, Value>,
  row: RawRow,
  columns: ReadonlyArray<string>
): DamagedRun => ({ runId: displayId(row["run_id"]), problem: damagedColumns(what(row), columns) })
