/**
 * The stage of one rehearsal: workers one after the other, a store that outlives them, and what they go on with.
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

/** What a worker does. */
export type Work<A, E> = (
  runtimes: ReadonlyArray<Runtime.Runtime>,
  owner: string
) => Effect.Effect<A, E, RunStore.RunStore>

/** What a rehearsal works with. */
export interface Scene {
  readonly parts: Parts<unknown>
  readonly world: Worker.World
  readonly newRunId: () => RunId
  /** Runs work in a new worker until it is done or the worker has died: then `undefined`. */
  readonly attempt: <A, E>(work: Work<A, E>) => Effect.Effect<Exit.Exit<A, E> | undefined, RehearsalStuck>
  /** Runs several at once, and lets them take turns. */
  readonly together: <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Moves the time on, when whatever has just begun has got as far as it can. */
  readonly adjust: (duration: Duration.Input) => Effect.Effect<void>
  /** Moves the time on at once. */
  readonly elapse: (ms: number) => Effect.Effect<void>
  /** Lets the time pass after which a store has forgotten the leases of the workers that are gone. */
  readonly outliveLeases: Effect.Effect<void>
  /** Runs work of the rehearsal's own, which no fault touches, in its time. */
  readonly unharmed: <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** The runtime of the agent with this name. */
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
    let abreast = 0
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
        abreast === 0 ? Effect.void : Effect.repeat(Effect.yieldNow, { times: below(random, 4) })
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
        // What tools need comes from outside.
        Effect.provideContext(services)
      )
    // What is wrong with a definition is known before anything runs.
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
    const unharmed: Scene["unharmed"] = (work) => Effect.provideService(work, Clock.Clock, clock)

    const attempt: Scene["attempt"] = (work) =>
      Effect.gen(function* () {
        const worker = Worker.make(world, `worker-${workers.size + 1}`)
        workers.set(worker.owner, worker)
        const runtimes = yield* Effect.orDie(bind(worker))
        const body = work(runtimes, worker.owner).pipe(Effect.provideService(RunStore.RunStore, worker.store))
        // Detached: a worker that has died is left where it is, as a process that was killed.
        const fiber = yield* Effect.forkDetach(unharmed(body), { startImmediately: true })
        const exit = yield* Effect.raceFirst(
          Effect.raceFirst(Fiber.await(fiber), Effect.as(Deferred.await(worker.crashed), undefined)),
          stuck
        ).pipe(Effect.onError(() => Effect.sync(worker.kill)))
        const ended = worker.isAlive() ? exit : undefined
        // Whatever it has left running dies with it.
        worker.kill()
        return ended
      })

    return {
      parts,
      world,
      newRunId,
      attempt,
      together: (work) =>
        Effect.acquireUseRelease(
          Effect.sync(() => {
            abreast += 1
          }),
          () => work,
          () =>
            Effect.sync(() => {
              abreast -= 1
            })
        ),
      elapse,
      outliveLeases: Effect.gen(function* () {
        yield* elapse(leaseMs + 1)
        // A database that times leases by its own clock learns here that they have ended.
        for (const worker of workers.values()) {
          if (worker.isAlive()) continue
          for (const lease of worker.leases) yield* Effect.ignore(unharmed(store.renew(lease, 0)))
        }
      }),
      adjust: (duration) =>
        Effect.gen(function* () {
          for (let calm = 0, seen = activity; calm < calmRounds; calm = activity === seen ? calm + 1 : 0) {
            seen = activity
            yield* afterReal(0)
            yield* hashed
          }
          yield* elapse(Duration.toMillis(Duration.fromInputUnsafe(duration)))
        }),
      unharmed
    }
  })

/** Where the fakes of the outside world say that something has happened. */
const effectsOf = (
  clock: SimulatedClock.SimulatedClock,
  ledger: Ledger.Ledger,
  workers: ReadonlyMap<string, Worker.Worker>
): Effects => {
  const happen = (
    name: string,
    given: string | undefined,
    knowsAgain: boolean
  ): Effect.Effect<boolean, Error> =>
    Effect.suspend(() => {
      const body = ledger.running(given, (owner) => workers.get(owner)?.isAlive() === true)
      const worker = body === undefined ? undefined : workers.get(body.worker)
      // A body of a worker that is gone goes on, where it is a promise; nothing that it does then has happened.
      if (worker === undefined && ledger.running(given, () => true) !== undefined) return Effect.never
      if (body !== undefined) ledger.recording(body)
      const key = given ?? body?.key ?? name
      const point = (name: Points.PointName) =>
        worker === undefined ? Effect.void : worker.pass(name, (failure) => failure as Error)
      return Effect.gen(function* () {
        yield* point(`before-effect:${name}`)
        const isNew = !(knowsAgain && ledger.has(name, key))
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
 * How many times in a row nothing may have happened. A process that gets no time from its machine, or blocks its event loop,
 * misses ticks: what it had no time for is not counted as waiting.
 */
const patienceTicks = 10

/** A hash, which the platform makes on another thread: the ones that a run has asked for before are made by then. */
const hashed = Effect.promise(() => crypto.subtle.digest("SHA-256", new Uint8Array(1)))

/** Rounds of the event loop in which nothing happens, before it is taken that nothing will. */
const calmRounds = 5

const afterReal = (ms: number) =>
  Effect.callback<void>((resume) => {
    const timer = setTimeout(() => resume(Effect.void), ms)
    return Effect.sync(() => clearTimeout(timer))
  })

/** What a rehearsal fails with in which nothing happens any more. */
export const stuckIn = ({ points }: Worker.World): RehearsalStuck =>
  new RehearsalStuck(withoutUndefined({ after: points.passed.at(-1) }))

const toolsOf = (agent: Agent.Any): ReadonlyArray<string> => [
  ...(agent.options.tools ?? []).flatMap(({ name, target }) => (target === "tool" ? [name] : [])),
  ...(agent.options.subAgents ?? []).flatMap(toolsOf)
]

/** The typed error of a failed exit. */
export const errorOf = <E>(exit: Exit.Exit<unknown, E>): E | undefined =>
  Exit.isFailure(exit) ? Option.getOrUndefined(Cause.findErrorOption(exit.cause)) : undefined
