/**
 * The sweep: every scenario is hit at every operation, before and after, and at pairs of operations. Then it is recovered, the user
 * finishes, and everything is checked, including that the outcome is the one without the crash.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Simulated from "../../packages/sdk/src/testing/internal/simulation/points.ts"
import { type App, live, type Plan, type Store } from "./app.ts"
import { judge, type Verdict } from "./evidence.ts"
import * as Points from "./points.ts"
import type { Scenario } from "./scenarios.ts"
import * as World from "./world.ts"

/** One execution of a scenario under a plan. */
export interface Execution extends Verdict {
  /** The operations of each process. */
  readonly operations: ReadonlyArray<ReadonlyArray<string>>
}

/** A scenario that needs more processes than this does not end. */
const maxProcesses = 12

/** Runs a scenario to its end under any faults. */
export const execute = (
  databases: World.Databases,
  scenario: Scenario,
  points: ReadonlyArray<Points.Point>,
  mutate?: (store: Store, world: World.World) => Store
): Effect.Effect<Execution> =>
  Effect.gen(function* () {
    const world = yield* World.make(databases, { fresh: scenario.fresh, two: scenario.two })
    const operations: Array<ReadonlyArray<string>> = []
    const plans = Simulated.make(points)
    let failure: string | undefined
    for (let process = 0; process < maxProcesses; process++) {
      const plan: Plan = () => plans.pass(String(process)).fault ?? "pass"
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
      world.clock.jump(1000)
    }
    const { outcome, violations } = yield* judge(world)
    return {
      outcome,
      violations: [
        ...violations,
        ...(failure === undefined ? [] : [`it does not end: ${failure}`]),
        // A scenario on a broken store may end earlier.
        ...(mutate === undefined ? plans.planned() : []).map((point) => `${point} was never passed`)
      ],
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

const crashes = (place: string, operations: ReadonlyArray<string>): ReadonlyArray<Points.Point> =>
  operations.flatMap((_, index) => [
    { place, time: index + 1, fault: "crashBefore" as const },
    { place, time: index + 1, fault: "crashAfter" as const }
  ])

const failures = (operations: ReadonlyArray<string>): ReadonlyArray<Points.Point> =>
  operations.flatMap((what, index) =>
    isStatement(what)
      ? Points.errors
          .filter((fault) => fault !== "lostAcknowledgement" || what.startsWith("COMMIT"))
          .map((fault) => ({ place: "0", time: index + 1, fault }))
      : []
  )

/** The results of the sweep. */
export interface Swept {
  readonly points: number
  readonly singles: number
  readonly pairs: number
  readonly violations: ReadonlyArray<string>
}

export interface SweepOptions {
  readonly databases: World.Databases
  readonly scenarios: ReadonlyArray<Scenario>
  /** The most points to try. */
  readonly points: number
  readonly progress: (text: string) => void
  readonly mutate?: (store: Store, world: World.World) => Store
  /** Stops at the first violation. */
  readonly first?: boolean
}

/** The outcome of one place. */
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

/** Sweeps all scenarios. */
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
      for (const point of [...crashes("0", operations), ...failures(operations)]) {
        singles.push({ scenario, points: [point] })
      }
    }
    const isDone = () => options.first === true && violations.length > 0
    const done = { singles: 0, pairs: 0 }
    yield* Simulated.sweep({
      singles,
      atMost: options.points,
      concurrency: databases.worlds,
      visit: (place) =>
        Effect.gen(function* () {
          if (isDone()) return undefined
          const { complaints, execution } = yield* visit(
            databases,
            place,
            expected.get(place.scenario.name)!,
            mutate
          )
          violations.push(...complaints)
          const count = ++done[place.points.length === 1 ? "singles" : "pairs"]
          if (count % 500 === 0) {
            progress(`${done.singles} points and ${done.pairs} pairs, ${violations.length} violations`)
          }
          return execution.operations[1]
        }),
      pairsOf: ({ points, scenario }, recovery) =>
        recovery === undefined || !scenario.core
          ? []
          : crashes("1", recovery).map((point) => ({ scenario, points: [...points, point] }))
    })
    return { ...done, points: done.singles + done.pairs, violations }
  })
