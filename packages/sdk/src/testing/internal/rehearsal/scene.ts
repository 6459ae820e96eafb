/**
 * The scene of a rehearsal: a clock and a store that outlive its workers, and the functions that start workers and advance time.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type * as Agent from "../../../agent/Agent.ts"
import { answersTo, type DefinitionError } from "../../../agent/BoundAgent.ts"
import { RunIds } from "../../../agent/RunIds.ts"
import * as Runtime from "../../../agent/Runtime.ts"
import type { RuntimeOptionsInvalid } from "../../../agent/RuntimeError.ts"
import type { RunId, SessionId } from "../../../domain/Id.ts"
import { withoutUndefined } from "../../../domain/internal/untyped.ts"
import { OptionsInvalid } from "../../../domain/OptionsInvalid.ts"
import { AgentNotFound } from "../../../domain/RunError.ts"
import { ModelClient } from "../../../model/ModelClient.ts"
import * as RunStore from "../../../store/RunStore.ts"
import type { RunStoreError } from "../../../store/RunStoreError.ts"
import type { Effects, Parts, Setup } from "../../RehearsalParts.ts"
import * as SimulatedClock from "../simulation/clock.ts"
import { below, generator } from "../simulation/random.ts"
import * as World from "../simulation/world.ts"
import * as Ledger from "./ledger.ts"
import * as Points from "./points.ts"
import { RehearsalStuck } from "./points.ts"
import { readParts } from "./shapes.ts"
import * as Worker from "./worker.ts"

/** An operation that a worker performs. */
export type Work<A, E> = (
  runtimes: ReadonlyArray<Runtime.Runtime>,
  owner: string
) => Effect.Effect<A, E, RunStore.RunStore>

/** The world of one rehearsal and the functions that act on it. */
export interface Scene {
  readonly parts: Parts<unknown>
  readonly world: Worker.World
  readonly newRunId: () => RunId
  /** Runs work in a new worker. Returns its exit, or `undefined` if the worker crashed. */
  readonly attempt: <A, E>(work: Work<A, E>) => Effect.Effect<Exit.Exit<A, E> | undefined, RehearsalStuck>
  /** Runs concurrent work whose workers take turns in the order that the seed determines. */
  readonly racing: <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Advances the time once all started work waits. */
  readonly adjust: (duration: Duration.Input) => Effect.Effect<void>
  /** Advances the time at once. */
  readonly elapse: (ms: number) => Effect.Effect<void>
  /** Advances the time by the length of a lease, and ends the leases of workers that have crashed or ended. */
  readonly expireLeases: Effect.Effect<void>
  /** Runs work on the rehearsal's clock. */
  readonly onClock: <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** Finds the runtime of an agent by its name or an alias. */
export const runtimeOf = (
  runtimes: ReadonlyArray<Runtime.Runtime>,
  name: string
): Effect.Effect<Runtime.Runtime, AgentNotFound> =>
  Effect.suspend(() => {
    const found = runtimes.find(({ bound }) => answersTo(bound.agent, name))
    const known = runtimes.map(({ bound }) => bound.agent.name)
    return found === undefined
      ? Effect.fail(new AgentNotFound({ agent: name, known }))
      : Effect.succeed(found)
  })

export const make = <R>(
  setup: Setup<R>
): Effect.Effect<
  Scene,
  OptionsInvalid | DefinitionError | RuntimeOptionsInvalid | RunStoreError,
  R | Scope.Scope
> =>
  Effect.gen(function* () {
    const services = yield* Effect.context<R | Scope.Scope>()
    const clock = SimulatedClock.make()
    const ledger = Ledger.make()
    const workers = new Map<string, Worker.Worker>()
    const parts = readParts(setup(effectsOf(clock, ledger, workers)))
    if (parts instanceof OptionsInvalid) return yield* parts
    const layer = Layer.fresh(parts.store ?? RunStore.layerMemory)
    const store = Context.get(yield* Layer.build(layer), RunStore.RunStore)
    const points = Points.make(new Set(parts.agents.flatMap(toolsOf)))
    const random = generator(parts.seed ?? 1)
    let activity = 0
    let races = 0
    const world: Worker.World = {
      ...World.make(clock),
      points,
      ledger,
      store,
      model: parts.model,
      crashes: [],
      requests: [],
      answers: new Map(),
      touch: () => {
        activity += 1
      },
      interleave: Effect.suspend(() =>
        races === 0 ? Effect.void : Effect.repeat(Effect.yieldNow, { times: below(random, 4) })
      )
    }
    let runs = 0
    const newRunId = () => `run-${++runs}` as RunId
    const ids: RunIds = { runId: newRunId, sessionId: () => `session-${runs}` as SessionId }
    const leaseTtl = Duration.fromInputUnsafe(parts.leaseTtl ?? "15 seconds")
    const leaseMs = Duration.toMillis(leaseTtl)
    const patience = Duration.toMillis(Duration.fromInputUnsafe(parts.patience ?? "3 seconds"))
    const { approvalCallback, interactive } = parts

    const bind = (worker: Worker.Worker) =>
      Effect.forEach(parts.agents, (agent: Agent.Agent<R, unknown>) =>
        Runtime.make({
          agent: worker.wrap(agent),
          owner: worker.owner,
          leaseTtl,
          ...withoutUndefined({ approvalCallback, interactive })
        })
      ).pipe(
        Effect.provideService(ModelClient, worker.model),
        Effect.provideService(RunIds, ids),
        // The services of tools come from the test.
        Effect.provideContext(services)
      )
    // Fails on an invalid definition before the scenario starts.
    yield* bind(Worker.make(world, "worker-0"))

    const stuck = Effect.callback<never, RehearsalStuck>((resume) => {
      let seen = activity
      let idleTicks = 0
      const timer = setInterval(() => {
        idleTicks = activity === seen ? idleTicks + 1 : 0
        seen = activity
        if (idleTicks < patienceTicks) return
        resume(Effect.fail(stuckIn(world)))
      }, patience / patienceTicks)
      return Effect.sync(() => clearInterval(timer))
    })

    const elapse: Scene["elapse"] = (ms) =>
      Effect.suspend(() => {
        activity += 1
        return clock.adjust(ms)
      })
    const onClock: Scene["onClock"] = (work) => Effect.provideService(work, Clock.Clock, clock)

    const attempt: Scene["attempt"] = (work) =>
      Effect.gen(function* () {
        const worker = Worker.make(world, `worker-${workers.size + 1}`)
        workers.set(worker.owner, worker)
        const runtimes = yield* Effect.orDie(bind(worker))
        const body = work(runtimes, worker.owner).pipe(Effect.provideService(RunStore.RunStore, worker.store))
        // Detached, because the fibers of a crashed worker are not interrupted: finalizers would run, unlike in a killed process.
        const fiber = yield* Effect.forkDetach(onClock(body), { startImmediately: true })
        const exit = yield* Effect.raceFirst(
          Effect.raceFirst(Fiber.await(fiber), Effect.as(Deferred.await(worker.crashed), undefined)),
          stuck
        ).pipe(Effect.onError(() => Effect.sync(worker.kill)))
        const ended = worker.isAlive() ? exit : undefined
        // The worker crashes at the next point of any fiber that it left running.
        worker.kill()
        return ended
      })

    return {
      parts,
      world,
      newRunId,
      attempt,
      racing: (work) =>
        Effect.acquireUseRelease(
          Effect.sync(() => {
            races += 1
          }),
          () => work,
          () =>
            Effect.sync(() => {
              races -= 1
            })
        ),
      elapse,
      expireLeases: Effect.gen(function* () {
        yield* elapse(leaseMs + 1)
        // A database that measures leases by its own clock does not see the advanced time: end these leases in it.
        for (const worker of workers.values()) {
          if (worker.isAlive()) continue
          for (const lease of worker.leases) yield* Effect.ignore(onClock(store.renew(lease, 0)))
        }
      }),
      adjust: (duration) =>
        Effect.gen(function* () {
          for (let idle = 0, seen = activity; idle < idleRounds; idle = activity === seen ? idle + 1 : 0) {
            seen = activity
            yield* afterReal(0)
            yield* hashed
          }
          yield* elapse(Duration.toMillis(Duration.fromInputUnsafe(duration)))
        }),
      onClock
    }
  })

/** Makes the effect record that the setup passes to its fakes. */
const effectsOf = (
  clock: SimulatedClock.SimulatedClock,
  ledger: Ledger.Ledger,
  workers: ReadonlyMap<string, Worker.Worker>
): Effects => {
  const happen = (
    name: string,
    given: string | undefined,
    recognisesKey: boolean
  ): Effect.Effect<boolean, Error> =>
    Effect.suspend(() => {
      const body = ledger.running(given, (owner) => workers.get(owner)?.isAlive() === true)
      const worker = body === undefined ? undefined : workers.get(body.worker)
      // A promise continues after its worker has crashed. Its effects do not count, and this one never completes.
      if (worker === undefined && ledger.running(given, () => true) !== undefined) return Effect.never
      if (body !== undefined) ledger.recording(body)
      const key = given ?? body?.key ?? name
      const point = (name: Points.PointName) =>
        worker === undefined ? Effect.void : worker.pass(name, (failure) => failure as Error)
      return Effect.gen(function* () {
        yield* point(`before-effect:${name}`)
        const isNew = !(recognisesKey && ledger.has(name, key))
        const at = clock.currentTimeMillisUnsafe()
        if (isNew) ledger.record({ name, key, at, recorded: true, ...(body === undefined ? {} : { body }) })
        yield* point(`after-effect:${name}`)
        return isNew
      })
    })
  return {
    record: (name, key) => Effect.asVoid(happen(name, key, false)),
    once: (name, key) => happen(name, key, true)
  }
}

/**
 * Number of consecutive ticks without activity after which a rehearsal is stuck. Ticks, and not a single timeout: a process that gets no
 * CPU time or blocks its event loop misses ticks, so this time does not count as idle.
 */
const patienceTicks = 10

/** Computes a hash. The platform computes hashes on other threads; those that a run requested earlier are complete after this one. */
const hashed = Effect.promise(() => crypto.subtle.digest("SHA-256", new Uint8Array(1)))

/** Rounds of the event loop without activity after which all work is assumed to wait. */
const idleRounds = 5

const afterReal = (ms: number) =>
  Effect.callback<void>((resume) => {
    const timer = setTimeout(() => resume(Effect.void), ms)
    return Effect.sync(() => clearTimeout(timer))
  })

/** The error of a rehearsal without further activity. */
export const stuckIn = ({ points }: Worker.World): RehearsalStuck =>
  new RehearsalStuck(withoutUndefined({ after: points.passed.at(-1) }))

const toolsOf = (agent: Agent.Any): ReadonlyArray<string> => [
  ...(agent.options.tools ?? []).flatMap(({ name, target }) => (target === "tool" ? [name] : [])),
  ...(agent.options.subAgents ?? []).flatMap(toolsOf)
]

/** The typed error of a failed exit. */
export const errorOf = <E>(exit: Exit.Exit<unknown, E>): E | undefined =>
  Exit.isFailure(exit) ? Option.getOrUndefined(Cause.findErrorOption(exit.cause)) : undefined
