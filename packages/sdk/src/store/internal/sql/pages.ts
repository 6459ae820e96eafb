/**
 * Pages of lists that go on without the rows that cannot be read.
 */
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import type { RunStoreError } from "../../RunStoreError.ts"
import type { DamagedRun } from "../../RunStorePort.ts"
import type { SqlAccess } from "./access.ts"
import { type RowKind, sort } from "./damage.ts"

/** A list of which a page is read. */
interface Listing<Row extends object, A> {
  readonly operation: string
  readonly limit: number
  /** Its rows in order, `size` of them at most, after the first `skip`. */
  readonly rows: (size: number, skip: number) => Effect.Effect<ReadonlyArray<unknown>, SqlError>
  readonly kind: RowKind<Row, A>
}

/**
 * Reads pages: rows that cannot be read are left out, logged once, and take nobody's place, so that a page that is not full is still
 * the last one.
 */
export const makePages = ({ query, read }: SqlAccess) => {
  const reported = new Set<string>()

  const report = (damaged: ReadonlyArray<DamagedRun>) =>
    Effect.forEach(
      damaged.filter(({ problem }) => !reported.has(problem) && reported.size < mostReported),
      ({ problem }) => {
        reported.add(problem)
        return Effect.logWarning(`A list leaves out what cannot be read: ${problem}`)
      },
      { discard: true }
    )

  const passingOver = Effect.fnUntraced(function* <Row extends object, A>({
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
      // All of it anew, and at one moment: rows that come in must not move the others.
      const { damaged, sound } = yield* read(operation, passingOver(listing))
      yield* report(damaged)
      return sound
    })
}

/** The conditions of a filter on columns, each of which has to have a value; what a filter leaves out is no condition. */
export const equalTo = (
  { sql }: SqlAccess,
  columns: Readonly<Record<string, string | undefined>>
): ReadonlyArray<Fragment> =>
  Object.entries(columns).flatMap(([column, value]) =>
    value === undefined ? [] : [sql`${sql(column)} = ${value}`]
  )

/** The condition by which a list goes on after an entry of an earlier page: none where that was deleted. */
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

/** Rows to read at once when a page has to be looked for. */
const leastSize = 100

const mostReported = 1000
