/**
 * Pages of ready runs. The reasons take turns in a page, so that many runs with one reason do not hide the runs with another.
 *
 * A cursor has the place of the last listed run of each reason. It stays valid when these runs are driven, and no later page reads them.
 */
import * as Effect from "effect/Effect"
import type { ReadyFilter, ReadyRun } from "../RunStorePort.ts"
import { pageSize } from "./bounds.ts"

type Reason = ReadyRun["reason"]

/** The reasons by priority: for a run with several, the first is reported. */
export const reasons: ReadonlyArray<Reason> = [
  "orphaned",
  "cancelled",
  "decided",
  "message",
  "expired",
  "expiring"
]

/** A ready run, the list in which it is found, and the time by which this list is ordered; runs with the same time are ordered by id. */
export interface Found extends ReadyRun {
  readonly list: Reason
  readonly at: number
}

/** The last run that was read from each list. */
export type Places = { readonly [R in Reason]?: readonly [at: number, runId: string] }

/** Reads the first runs of each list after these places. Each ready run is in one list, once. */
type ReadLists<E> = (places: Places, limit: number) => Effect.Effect<ReadonlyArray<ReadonlyArray<Found>>, E>

/** Reads a page of ready runs. */
export const readReady = Effect.fnUntraced(function* <E>(filter: ReadyFilter, read: ReadLists<E>) {
  const limit = pageSize(filter.limit)
  const readPage = (places: Places) => Effect.map(read(places, limit), (lists) => takeTurns(lists, limit))
  const places = filter.after === undefined ? {} : yield* placesOf(filter.after, limit, readPage)
  const page = yield* readPage(places)
  return page.map(({ agent, reason, runId }, index): ReadyRun =>
    index < limit - 1
      ? { runId, agent, reason }
      : { runId, agent, reason, cursor: JSON.stringify(placesAfter(places, page)) }
  )
})

/** The first runs of all lists, then the second ones, up to `limit`. */
const takeTurns = (lists: ReadonlyArray<ReadonlyArray<Found>>, limit: number): ReadonlyArray<Found> => {
  const page: Array<Found> = []
  const longest = Math.max(...lists.map(({ length }) => length))
  for (let turn = 0; turn < longest && page.length < limit; turn += 1) {
    for (const list of lists) if (turn < list.length) page.push(list[turn]!)
  }
  return page.slice(0, limit)
}

const placesAfter = (places: Places, page: ReadonlyArray<Found>): Places => ({
  ...places,
  ...Object.fromEntries(page.map(({ at, list, runId }) => [list, [at, runId]]))
})

/**
 * The places of a cursor. A cursor may also be the id of a run, as in programs that were written for an earlier version: then the pages up
 * to this run are read. If it is no longer ready, the list starts from the beginning.
 */
const placesOf = Effect.fnUntraced(function* <E>(
  after: string,
  limit: number,
  readPage: (places: Places) => Effect.Effect<ReadonlyArray<Found>, E>
): Effect.fn.Return<Places, E> {
  const given = parsed(after)
  if (given !== undefined) return given
  for (let places: Places = {}; ;) {
    const page = yield* readPage(places)
    const index = page.findIndex(({ runId }) => runId === after)
    if (index >= 0) return placesAfter(places, page.slice(0, index + 1))
    if (page.length < limit || page.length === 0) return {}
    places = placesAfter(places, page)
  }
})

/** The places in the text of a cursor; `undefined` for any other text. */
const parsed = (text: string): Places | undefined => {
  try {
    const given: unknown = JSON.parse(text)
    const isSound = typeof given === "object" && given !== null && Object.entries(given).every(isPlace)
    return isSound ? given : undefined
  } catch {
    return undefined
  }
}

const isPlace = ([reason, place]: readonly [string, unknown]): boolean =>
  reasons.some((known) => known === reason) &&
  Array.isArray(place) &&
  place.length === 2 &&
  typeof place[0] === "number" &&
  typeof place[1] === "string"
