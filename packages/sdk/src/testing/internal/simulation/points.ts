/**
 * The points of a simulation. They count how often a simulated process passes each place, and a plan assigns faults to passings. A sweep
 * visits the points of a scenario, one by one and in pairs.
 */
import * as Effect from "effect/Effect"

/** A fault at one passing of a place. */
export interface Planned<Fault> {
  readonly place: string
  /** The number of the passing, from 1. Default: the next one. */
  readonly time?: number | undefined
  readonly fault: Fault
}

/** The passed points and the plan. */
export interface Points<Fault> {
  /** Every point that was passed, in order, such as `after-tool:pay#2`. */
  readonly passed: ReadonlyArray<string>
  /** The number of times that a place was passed. */
  readonly count: (place: string) => number
  readonly plan: (planned: Planned<Fault>) => void
  /** The points whose planned faults have not happened. */
  readonly planned: () => ReadonlyArray<string>
  readonly pass: (place: string) => { readonly point: string; readonly fault: Fault | undefined }
}

export const make = <Fault>(list: ReadonlyArray<Planned<Fault>> = []): Points<Fault> => {
  const passed: Array<string> = []
  const counts = new Map<string, number>()
  let plans = list
  const count = (place: string) => counts.get(place) ?? 0
  return {
    passed,
    count,
    plan: (planned) => {
      plans = [...plans, planned]
    },
    planned: () => plans.map(({ place, time }) => (time === undefined ? place : `${place}#${time}`)),
    pass: (place) => {
      const time = count(place) + 1
      counts.set(place, time)
      const point = `${place}#${time}`
      passed.push(point)
      const planned = plans.find((plan) => plan.place === place && (plan.time ?? time) === time)
      if (planned !== undefined) plans = plans.filter((plan) => plan !== planned)
      return { point, fault: planned?.fault }
    }
  }
}

/** Options of a sweep. A visit is one execution of a scenario with faults at one point, or at two (a pair). */
export interface SweepOptions<Visit, Found, E, R> {
  readonly singles: ReadonlyArray<Visit>
  readonly visit: (visit: Visit) => Effect.Effect<Found, E, R>
  /** The pairs that follow from a visit: their second points were passed after the first. */
  readonly pairsOf: (visit: Visit, found: Found) => ReadonlyArray<Visit>
  /** Maximum number of visits, of which at most three fifths are singles. Default: all. */
  readonly atMost?: number
  readonly concurrency?: number
}

/** Visits the singles, then the pairs. */
export const sweep = <Visit, Found, E, R>({
  atMost = Number.POSITIVE_INFINITY,
  concurrency = 1,
  pairsOf,
  singles,
  visit
}: SweepOptions<Visit, Found, E, R>): Effect.Effect<void, E, R> =>
  Effect.gen(function* () {
    const chosen = spread(singles, Math.ceil(atMost * 0.6))
    const pairs: Array<Visit> = []
    const visitSingle = (single: Visit) =>
      Effect.map(visit(single), (found) => {
        pairs.push(...pairsOf(single, found))
      })
    yield* Effect.forEach(chosen, visitSingle, { concurrency, discard: true })
    yield* Effect.forEach(spread(pairs, Math.max(0, atMost - chosen.length)), visit, {
      concurrency,
      discard: true
    })
  })

/** Selects `count` of the items at even distances, always including the first. */
export const spread = <A>(items: ReadonlyArray<A>, count: number): ReadonlyArray<A> =>
  items.length <= count
    ? items
    : Array.from({ length: count }, (_, index) => items[Math.floor((index * items.length) / count)]!)
