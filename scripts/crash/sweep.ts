import * as Cause from "effect/Cause"
/**
 * The sweep: every scenario is hit at every operation, before and after, and at pairs of operations; then it is recovered, the
 * user finishes, and everything is checked, also that it came to what it would have come to without the crash.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { type App, live, type Plan, type Store } from "./app.ts"
import { judge, type Verdict } from "./evidence.ts"
import * as Points from "./points.ts"
import type { Scenario } from "./scenarios.ts"
import * as World from "./world.ts"

/** One execution of a scenario under a plan. */
export interface Execution extends Verdict {
  /** What each process did. */
  readonly operations: ReadonlyArray<ReadonlyArray<string>>
}

/** After this many processes a scenario has no excuse for not being over. */
const maxProcesses = 12

/** Runs a scenario to its end, whatever hits it. */
export const execute = (
  databases: World.Databases,
  scenario: Scenario,
  points: ReadonlyArray<Points.Point>,
  mutate?: (store: Store, world: World.World) => Store
): Effect.Effect<Execution> =>
  Effect.gen(function* () {
    const world = yield* World.make(databases, { fresh: scenario.fresh, two: scenario.two })
    const operations: Array<ReadonlyArray<string>> = []
    let failure: string | undefined
    for (let process = 0; process < maxProcesses; process++) {
      const mine = points.filter((point) => point.process === process)
      const plan: Plan = (operation) => mine.find((point) => point.operation === operation)?.fault ?? "pass"
      const lived = yield* live(
        {
          world,
          definition: scenario.definition,
          plan,
          owner: `worker-${process}`,
          ...(mutate === undefined ? {} : { mutate: (store: Store) => mutate(store, world) })
        },
        (app: App) => (process === 0 ? scenario.user(app) : Effect.andThen(app.recover, scenario.user(app)))
      )
      operations.push(lived.operations)
      if (Exit.isSuccess(lived.exit) && !lived.crashed) {
        failure = undefined
        break
      }
      failure = Exit.isFailure(lived.exit) ? Cause.pretty(lived.exit.cause) : "it was hit after its end"
      yield* world.expireLeases
      world.clock.advance(1000)
    }
    const verdict = yield* judge(world)
    return failure === undefined
      ? { ...verdict, operations }
      : {
          ...verdict,
          violations: [...verdict.violations, `it does not come to an end: ${failure}`],
          operations
        }
  }).pipe(Effect.scoped)

/** A place in the sweep. */
export interface Place {
  readonly scenario: Scenario
  readonly points: ReadonlyArray<Points.Point>
}

const nameOf = ({ points, scenario }: Place): string => `${scenario.name}:${Points.print(points)}`

/** The operations that can fail without a crash: statements. */
const isStatement = (what: string) => /^[A-Z]/.test(what)

const crashes = (process: number, operations: ReadonlyArray<string>): ReadonlyArray<Points.Point> =>
  operations.flatMap((_, index) => [
    { process, operation: index + 1, fault: "crashBefore" as const },
    { process, operation: index + 1, fault: "crashAfter" as const }
  ])

const failures = (operations: ReadonlyArray<string>): ReadonlyArray<Points.Point> =>
  operations.flatMap((what, index) =>
    isStatement(what)
      ? Points.errors
          .filter((fault) => fault !== "lostAcknowledgement" || what.startsWith("COMMIT"))
          .map((fault) => ({ process: 0, operation: index + 1, fault }))
      : []
  )

/** Every `count`-th-or-so of the items, evenly, always the first. */
export const spread = <A>(items: ReadonlyArray<A>, count: number): ReadonlyArray<A> => {
  if (items.length <= count) return items
  return Array.from({ length: count }, (_, index) => items[Math.floor((index * items.length) / count)]!)
}

/** What the sweep found. */
export interface Swept {
  readonly points: number
  readonly singles: number
  readonly pairs: number
  readonly violations: ReadonlyArray<string>
}

export interface SweepOptions {
  readonly databases: World.Databases
  readonly scenarios: ReadonlyArray<Scenario>
  /** How many points to try at most. */
  readonly points: number
  readonly progress: (text: string) => void
  readonly mutate?: (store: Store, world: World.World) => Store
  /** Stops at the first violation. */
  readonly first?: boolean
}

/** How one place went. */
interface Visit {
  readonly execution: Execution
  readonly complaints: ReadonlyArray<string>
}

/** Tries one place. */
export const visit = (
  databases: World.Databases,
  place: Place,
  expected: ReadonlyArray<string>,
  mutate?: (store: Store, world: World.World) => Store
): Effect.Effect<Visit> =>
  Effect.map(execute(databases, place.scenario, place.points, mutate), (execution) => {
    const complaints = execution.violations.slice()
    const differs = execution.outcome.find((line, index) => line !== expected[index])
    if (differs !== undefined || execution.outcome.length !== expected.length) {
      complaints.push(
        `another outcome: ${JSON.stringify(execution.outcome)} instead of ${JSON.stringify(expected)}`
      )
    }
    return { execution, complaints: complaints.map((complaint) => `${nameOf(place)} ${complaint}`) }
  })

/** Sweeps. */
export const sweep = (options: SweepOptions): Effect.Effect<Swept> =>
  Effect.gen(function* () {
    const { databases, mutate, progress, scenarios } = options
    const violations: Array<string> = []
    const singles: Array<Place> = []
    const expected = new Map<string, ReadonlyArray<string>>()
    for (const scenario of scenarios) {
      const calm = yield* execute(databases, scenario, [])
      violations.push(...calm.violations.map((violation) => `${scenario.name} ${violation}`))
      expected.set(scenario.name, calm.outcome)
      const [operations = []] = calm.operations
      for (const point of [...crashes(0, operations), ...failures(operations)]) {
        singles.push({ scenario, points: [point] })
      }
    }
    const isDone = () => options.first === true && violations.length > 0
    let done = 0
    const pairs: Array<Place> = []
    const chosen = spread(singles, Math.ceil(options.points * 0.6))
    const at = { concurrency: databases.worlds, discard: true }
    const tryAll = (places: ReadonlyArray<Place>, then: (found: Visit, place: Place) => void) =>
      Effect.forEach(
        places,
        (place) =>
          isDone()
            ? Effect.void
            : Effect.map(visit(databases, place, expected.get(place.scenario.name)!, mutate), (found) => {
                violations.push(...found.complaints)
                then(found, place)
              }),
        at
      )
    yield* tryAll(chosen, (found, place) => {
      const [, recovery] = found.execution.operations
      if (place.scenario.core && recovery !== undefined) {
        for (const point of crashes(1, recovery)) {
          pairs.push({ scenario: place.scenario, points: [...place.points, point] })
        }
      }
      if (++done % 500 === 0) progress(`${done} of ${chosen.length} points, ${violations.length} violations`)
    })
    const room = Math.max(0, options.points - chosen.length)
    const twice = isDone() ? [] : spread(pairs, room)
    let second = 0
    yield* tryAll(twice, () => {
      if (++second % 1000 === 0) {
        progress(`${second} of ${twice.length} pairs, ${violations.length} violations`)
      }
    })
    return { points: done + second, singles: done, pairs: second, violations }
  })
