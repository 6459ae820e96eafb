/**
 * Pages of lists, without the rows that cannot be read.
 */
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import type { RunStoreError } from "../../RunStoreError.ts"
import type { DamagedRun } from "../../RunStorePort.ts"
import type { SqlAccess } from "./access.ts"
import { type RowKind, sort } from "./damage.ts"

/** A page to read. */
interface Listing<Row extends object, A> {
  readonly operation: string
  readonly limit: number
  /** Reads the rows of the list in order: at most `size`, after the first `skip`. */
  readonly rows: (size: number, skip: number) => Effect.Effect<ReadonlyArray<unknown>, SqlError>
  readonly kind: RowKind<Row, A>
}

/**
 * Makes the function that reads pages. Rows that cannot be read are left out and logged once. They do not count towards the page size, so
 * a page that is not full is the last one.
 */
export const makePages = ({ query, read }: SqlAccess) => {
  const reported = new Set<string>()

  const report = (damaged: ReadonlyArray<DamagedRun>) =>
    Effect.forEach(
      damaged.filter(({ problem }) => !reported.has(problem) && reported.size < mostReported),
      ({ problem }) => {
        reported.add(problem)
        return Effect.logWarning(`A list leaves out an entry that cannot be read: ${problem}`)
      },
      { discard: true }
    )

  const readSound = Effect.fnUntraced(function* <Row extends object, A>({
    kind,
    limit,
    rows
  }: Listing<Row, A>) {
    const sound: Array<A> = []
    const damaged: Array<DamagedRun> = []
    for (let skip = 0; ;) {
      const size = Math.max(leastSize, limit - sound.length)
      const found = yield* rows(size, skip)
      const sorted = sort(kind, found)
      sound.push(...sorted.sound)
      if (damaged.length < mostReported) damaged.push(...sorted.damaged)
      if (sound.length >= limit || found.length < size) return { sound: sound.slice(0, limit), damaged }
      skip += found.length
    }
  })

  return <Row extends object, A>(listing: Listing<Row, A>): Effect.Effect<ReadonlyArray<A>, RunStoreError> =>
    Effect.gen(function* () {
      const { kind, limit, operation, rows } = listing
      const first = sort(kind, yield* query(operation, rows(limit, 0)))
      if (first.damaged.length === 0) return first.sound
      // Reads the page again on one snapshot, so that new rows cannot shift the others.
      const { damaged, sound } = yield* read(operation, readSound(listing))
      yield* report(damaged)
      return sound
    })
}

/** The part of a statement that selects a page. Without the sum, SQLite would compile the statement again whenever a limit is bound. */
export const pageOf = ({ sql }: SqlAccess, size: number, skip: number): Fragment =>
  sql`LIMIT ${size} + 0${skip === 0 ? sql`` : sql` OFFSET ${skip} + 0`}`

/** The conditions that columns equal the values of a filter. `undefined` is no condition. */
export const equalTo = (
  { sql }: SqlAccess,
  columns: Readonly<Record<string, string | undefined>>
): Array<Fragment> =>
  Object.entries(columns).flatMap(([column, value]) =>
    value === undefined ? [] : [sql`${sql(column)} = ${value}`]
  )

/**
 * Whether a table has so few rows with a condition that a list had better read all of them than look for them in the order of the list.
 * The count ends at the limit.
 */
export const few = ({ run, sql }: SqlAccess, rows: Fragment): Effect.Effect<boolean, SqlError> =>
  Effect.map(
    run(sql<{ readonly count: number }>`SELECT count(*) AS count FROM (
      SELECT 1 FROM ${rows} LIMIT ${sql.literal(String(mostRead))}) AS counted`),
    ([row]) => Number(row?.count) < mostRead
  )

const mostRead = 1000

/** The condition that selects the entries after a cursor. Empty if there is no cursor or its entry was deleted. */
export const afterCursor = Effect.fnUntraced(function* (
  { sql }: SqlAccess,
  after: string | undefined,
  { id, order, table, time }: { readonly [Part in "table" | "time" | "id" | "order"]: string }
): Effect.fn.Return<ReadonlyArray<Fragment>, SqlError> {
  if (after === undefined) return []
  const [last] = yield* sql<{
    readonly at: number
  }>`SELECT ${sql(time)} AS at FROM ${sql(table)} WHERE ${sql(id)} = ${after}`
  return last === undefined
    ? []
    : [sql`(${sql(time)}, ${sql(id)}) ${sql.literal(order)} (${last.at}, ${after})`]
})

/** The minimum number of rows to read at once when rows are left out. */
const leastSize = 100

const mostReported = 1000
