/**
 * A worker of a rehearsal: a simulated process that can crash at any point.
 *
 * A worker uses the store, the model and the tools of the rehearsal, with a point before and after each operation. After a crash, every
 * further operation of the worker waits forever: its fibers are not interrupted, its lease is not released, and it writes nothing more.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type * as Agent from "../../../agent/Agent.ts"
import type { ModelClient } from "../../../model/ModelClient.ts"
import { ModelError, type Reason } from "../../../model/ModelError.ts"
import { makeCollector, type ModelPart, type ModelResponse, partsOf } from "../../../model/ModelPart.ts"
import type { ModelRequest } from "../../../model/ModelRequest.ts"
import type { RunStore } from "../../../store/RunStore.ts"
import type { Lease } from "../../../store/RunStorePort.ts"
import type { AnyTool } from "../../../tool/Tool.ts"
import type { ToolContext } from "../../../tool/ToolContext.ts"
import type { Reconciled } from "../../../tool/ToolOptions.ts"
import * as FaultyRunStore from "../../FaultyRunStore.ts"
import { acknowledging, type World as SimulatedWorld } from "../simulation/world.ts"
import type { Ledger } from "./ledger.ts"
import type { Failure, PointName, RehearsalPoints } from "./points.ts"

/** A crash of a worker. */
export interface Crash {
  readonly point: string
  readonly at: number
  readonly worker: string
}

/** The parts of a rehearsal that its workers share and that outlive them. */
export interface World extends SimulatedWorld {
  readonly points: RehearsalPoints
  readonly ledger: Ledger
  readonly store: RunStore["Service"]
  readonly model: ModelClient["Service"]
  readonly crashes: Array<Crash>
  /** The model requests, oldest first. */
  readonly requests: Array<ModelRequest>
  /** The responses by run, turn and length of the history: a repeated request gets the first response. */
  readonly answers: Map<string, ModelResponse>
  /** Lets the other workers of a race run. */
  readonly interleave: Effect.Effect<void>
  /** Notes activity, so that the rehearsal is not stuck. */
  readonly touch: () => void
}

/** A simulated process. */
export interface Worker {
  readonly owner: string
  readonly isAlive: () => boolean
  readonly kill: () => void
  /** Completes when the worker crashes or is killed. */
  readonly crashed: Deferred.Deferred<void>
  /** The leases that the store gave it, including those whose response it did not receive because of a crash. */
  readonly leases: ReadonlyArray<Lease>
  /** Passes a point. Fails if a failure is planned there; never returns if the worker crashes there or has crashed. */
  readonly pass: <E>(name: PointName, errorOf: (failure: Failure) => E) => Effect.Effect<void, E>
  readonly store: RunStore["Service"]
  readonly model: ModelClient["Service"]
  readonly wrap: <A extends Agent.Any>(agent: A) => A
}

export const make = (world: World, owner: string): Worker => {
  const { clock, ledger, points } = world
  const crashed = Deferred.makeUnsafe<void>()
  let alive = true
  const kill = () => {
    alive = false
    Deferred.doneUnsafe(crashed, Effect.void)
  }

  /** Passes a point without taking turns. Returns `crash` at every point after the worker has crashed. */
  const passNow = (name: PointName): Failure | "crash" | undefined => {
    if (!alive) return "crash"
    world.touch()
    const { fault, point } = points.pass(name)
    if (fault === "crash") {
      world.crashes.push({ point, at: clock.currentTimeMillisUnsafe(), worker: owner })
      kill()
    }
    return fault
  }

  const pass: Worker["pass"] = (name, errorOf) =>
    Effect.flatMap(world.interleave, () => {
      const failure = passNow(name)
      if (failure === "crash") return Effect.never
      return failure === undefined ? Effect.void : Effect.fail(errorOf(failure))
    })

  const storePoint = (when: "before" | "after") => (operation: FaultyRunStore.Operation) =>
    pass(`${when}-store:${operation}`, (fault) =>
      FaultyRunStore.error(operation, fault as FaultyRunStore.Fault)
    )

  const wrapTool = (tool: AnyTool): AnyTool => {
    if (tool.target !== "tool") return tool
    const { handler, reconcile } = tool.options
    const wrapped = (args: unknown, context: ToolContext): unknown => {
      const refused = passNow(`before-tool:${tool.name}`)
      if (refused === "crash") return Effect.never
      if (refused !== undefined) return Effect.fail(refused)
      const { agentPath, attempt, idempotencyKey: key } = context
      world.effects.push({ idempotencyKey: key, tool: tool.name, attempt })
      const body = ledger.start({
        tool: tool.name,
        safety: tool.safety,
        idempotent: tool.idempotent,
        agentPath,
        key,
        attempt,
        worker: owner,
        startedAt: clock.currentTimeMillisUnsafe()
      })
      // The outcome of a body is lost if its process has crashed.
      const ended = (exit: Exit.Exit<unknown, unknown>): Exit.Exit<unknown, unknown> | "crash" => {
        if (!alive) return "crash"
        const endedAt = clock.currentTimeMillisUnsafe()
        body.end(
          Exit.isSuccess(exit)
            ? { state: "returned", endedAt, value: exit.value }
            : { state: "failed", endedAt }
        )
        if (Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)) return exit
        const after = passNow(`after-tool:${tool.name}`)
        if (after === "crash") return "crash"
        return after === undefined ? exit : Exit.fail(after)
      }
      const inEffect = (exit: Exit.Exit<unknown, unknown>): Effect.Effect<unknown, unknown> => {
        const end = ended(exit)
        return end === "crash" ? Effect.never : end
      }
      const inPromise = (exit: Exit.Exit<unknown, unknown>): unknown => {
        const end = ended(exit)
        if (end === "crash") return new Promise(() => {})
        if (Exit.isSuccess(end)) return end.value
        throw Cause.squash(end.cause)
      }
      let out: unknown
      try {
        out = handler(args, context)
      } catch (error) {
        return inEffect(Exit.die(error))
      }
      if (Effect.isEffect(out)) {
        return Effect.uninterruptibleMask((restore) =>
          Effect.flatMap(Effect.exit(restore(out as Effect.Effect<unknown, unknown>)), (exit) =>
            Effect.interruptible(inEffect(exit))
          )
        )
      }
      if (out instanceof Promise) {
        return out.then(
          (value: unknown) => inPromise(Exit.succeed(value)),
          (error: unknown) => inPromise(Exit.fail(error))
        )
      }
      return inEffect(Exit.succeed(out))
    }
    const options = { ...tool.options, handler: wrapped }
    if (reconcile === undefined) return { ...tool, options }
    const reconciling: typeof reconcile = (idempotencyKey, args, context) => {
      const noted = (found: Reconciled) => {
        if (alive) world.reconciled.push({ idempotencyKey, answer: found._tag })
        return found
      }
      const found = reconcile(idempotencyKey, args, context)
      if (Effect.isEffect(found)) return Effect.map(found, noted)
      return found instanceof Promise ? found.then(noted) : noted(found)
    }
    return { ...tool, options: { ...options, reconcile: reconciling } }
  }

  const wrap = <A extends Agent.Any>(agent: A): A => {
    const { subAgents, tools } = agent.options
    return {
      ...agent,
      options: {
        ...agent.options,
        ...(tools === undefined ? {} : { tools: tools.map(wrapTool) }),
        ...(subAgents === undefined ? {} : { subAgents: subAgents.map(wrap) })
      }
    }
  }

  const leases: Array<Lease> = []
  const keepLease = (lease: Lease) =>
    Effect.sync(() => {
      leases.push(lease)
    })
  const noted = {
    ...world.store,
    create: (options) => Effect.tap(world.store.create(options), keepLease),
    claim: (options) => Effect.tap(world.store.claim(options), keepLease)
  } satisfies RunStore["Service"]

  return {
    owner,
    isAlive: () => alive,
    kill,
    crashed,
    leases,
    pass,
    // Outermost, so that only results that a live worker received count as acknowledged.
    store: acknowledging(
      FaultyRunStore.make(noted, { before: storePoint("before"), after: storePoint("after") }),
      world
    ),
    model: wrapModel(world, pass),
    wrap
  }
}

const wrapModel = (world: World, pass: Worker["pass"]): ModelClient["Service"] => {
  const { answers, model } = world
  const point = (name: PointName) => pass(name, (reason) => new ModelError({ reason: reason as Reason }))
  const asked = (request: ModelRequest) =>
    Effect.map(point("before-model"), () => {
      world.requests.push(request)
      const key = `${request.runId} ${request.turn} ${request.messages.length}`
      return { known: answers.get(key), keep: (answer: ModelResponse) => void answers.set(key, answer) }
    })
  return {
    stream: (request) =>
      Stream.unwrap(
        Effect.map(asked(request), ({ keep, known }) =>
          Stream.concat(
            known === undefined ? kept(model.stream(request), keep) : Stream.fromArray(partsOf(known)),
            Stream.fromEffectDrain(point("after-model"))
          )
        )
      ),
    complete: (request) =>
      Effect.flatMap(asked(request), ({ keep, known }) =>
        Effect.tap(
          known === undefined
            ? Effect.map(model.complete(request), (answer) => {
                keep(answer)
                return answer
              })
            : Effect.succeed(known),
          () => point("after-model")
        )
      )
  }
}

/** Passes the parts through, and keeps the response that they form. */
const kept = (
  parts: Stream.Stream<ModelPart, ModelError>,
  keep: (answer: ModelResponse) => void
): Stream.Stream<ModelPart, ModelError> =>
  Stream.suspend(() => {
    const collector = makeCollector()
    return Stream.tap(parts, (part) =>
      Effect.sync(() => {
        collector.add(part)
        if (part._tag !== "finish") return
        const answer = collector.response()
        if (answer !== undefined) keep(answer)
      })
    )
  })
