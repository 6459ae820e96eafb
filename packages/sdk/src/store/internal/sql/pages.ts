/**
 * Pages of lists that go on without the rows that cannot be read.
 */
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import type { RunStoreError } from "../../RunStoreError.ts"
import type { DamagedRun } from "../../RunStorePort.ts"
import type { SqlAccess } from "./access.ts"
import type { Sorted } from "./damage.ts"

/** A list of which a page is read. */
interface Listing<A> {
  readonly operation: string
  readonly limit: number
  /** Its rows in order, `size` of them at most, after the first `skip`. */
  readonly rows: (size: number, skip: number) => Effect.Effect<ReadonlyArray<unknown>, SqlError>
  readonly sort: (rows: ReadonlyArray<unknown>) => Sorted<A>
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

  const passingOver = Effect.fnUntraced(function* <A>({ limit, rows, sort }: Listing<A>) {
    const sound: Array<A> = []
    const damaged: Array<DamagedRun> = []
    for (let skip = 0; ;) {
      const size = Math.max(leastSize, limit - sound.length)
      const found = yield* rows(size, skip)
      const sorted = sort(found)
      sound.push(...sorted.sound)
      if (damaged.length < mostReported) damaged.push(...sorted.damaged)
      if (sound.length >= limit || found.length < size) return { sound: sound.slice(0, limit), damaged }
      skip += found.length
    }
  })

  return <A>(listing: Listing<A>): Effect.Effect<ReadonlyArray<A>, RunStoreError> =>
    Effect.gen(function* () {
      const { limit, operation, rows, sort } = listing
      const first = sort(yield* query(operation, rows(limit, 0)))
      if (first.damaged.length === 0) return first.sound
      // All of it anew, and at one moment: rows that come in must not move the others.
      const { damaged, sound } = yield* read(operation, passingOver(listing))
      yield* report(damaged)
      return sound
    })
}

/** Rows to read at once when a page has to be looked for. */
const leastSize = 100

const mostReported = 1000
