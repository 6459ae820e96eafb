/**
 * The points of a simulation: every place that a simulated process passes is counted, and a plan says at which of the passings what
 * happens. A sweep visits all points of a scenario, one by one and in pairs.
 */
import * as Effect from "effect/Effect"

/** What happens at one passing of a place. */
export interface Planned<Fault> {
  readonly place: string
  /** The number of the passing, from 1. Default: the next one. */
  readonly time?: number | undefined
  readonly fault: Fault
}

/** The points that were passed, and what is planned. */
export interface Points<Fault> {
  /** Every point that was passed, in order, such as `after-tool:pay#2`. */
  readonly passed: ReadonlyArray<string>
  /** How many times a place was passed. */
  readonly count: (place: string) => number
  readonly plan: (planned: Planned<Fault>) => void
  /** What was planned and has not happened, as points. */
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

/** What a sweep visits. A visit is a run of a scenario with these points; a pair is a visit with a second point. */
export interface SweepOptions<Visit, Found, E, R> {
  readonly singles: ReadonlyArray<Visit>
  readonly visit: (visit: Visit) => Effect.Effect<Found, E, R>
  /** The pairs that a visit leads to: their second points are passed after the first was hit. */
  readonly pairsOf: (visit: Visit, found: Found) => ReadonlyArray<Visit>
  /** Default: all. Three of five are singles. */
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

/** So many of the items, evenly, always the first. */
export const spread = <A>(items: ReadonlyArray<A>, count: number): ReadonlyArray<A> =>
  items.length <= count
    ? items
    : Array.from({ length: count }, (_, index) => items[Math.floor((index * items.length) / count)]!)
