/**
 * A simulated process: an agent, a store, and a plan that can hit it at any operation. Every acknowledgement of the store is recorded in
 * the world.
 */
import { type Agent, RunIds, Runtime } from "@fermata/sdk/agent"
import { ContextPolicy } from "@fermata/sdk/context"
import type { Decision, Id } from "@fermata/sdk/domain"
import {
  cancelRun,
  decideStored,
  type ForkInput,
  forkRun,
  recover,
  revokeGrant,
  runPromptStored,
  sendMessage,
  type StoredContinueInput,
  type StoredStartInput
} from "@fermata/sdk/durable"
import { ModelClient, type ModelRequest } from "@fermata/sdk/model"
import type { RunResult } from "@fermata/sdk/run"
import { RunStore, SqlRunStore } from "@fermata/sdk/store"
import { FaultySqlClient, ScriptedModel } from "@fermata/sdk/testing"
import { Scrubber } from "@fermata/sdk/tool"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import { CheckpointEvery } from "../../packages/sdk/src/durable/internal/checkpoints.ts"
import { generator } from "../../packages/sdk/src/testing/internal/simulation/random.ts"
import { acknowledging } from "../../packages/sdk/src/testing/internal/simulation/world.ts"
import { scrubber } from "./canary.ts"
import * as Points from "./points.ts"
import { moment, type World } from "./world.ts"

type Fault = FaultySqlClient.Fault

/** Decides what happens at the next operation. */
export type Plan = (what: string) => Fault | Effect.Effect<Fault>

/** The place where the tools of a scenario act. */
export interface Outside {
  readonly world: World
  /** Runs an operation, once, that can be hit. */
  readonly act: (what: string, happen: () => void) => Effect.Effect<void>
}

/** An agent and its model. */
export interface Definition {
  readonly agent: (outside: Outside) => Agent.Agent<never, any>
  readonly answer: (request: ModelRequest.ModelRequest) => string | ScriptedModel.ScriptedAnswer
  /** Default: the plain policy. */
  readonly contextPolicy?: ContextPolicy.ContextPolicy | undefined
}

/** The store, or a broken one. */
export type Store = RunStore.RunStore["Service"]

/** The operations of a user on a running process. */
export interface App {
  readonly world: World
  readonly store: Store
  /** The same on the world's second database, if there is one. */
  readonly second: App | undefined
  /** Runs an effect that needs a store. */
  readonly stored: <A, E>(effect: Effect.Effect<A, E, RunStore.RunStore>) => Effect.Effect<A, E>
  readonly start: (input: StoredStartInput) => Effect.Effect<RunResult.RunResult, unknown>
  readonly go: (input: StoredContinueInput) => Effect.Effect<RunResult.RunResult, unknown>
  readonly fork: (input: ForkInput) => Effect.Effect<RunResult.RunResult, unknown>
  readonly decide: (decision: Decision.DecisionInput) => Effect.Effect<unknown, unknown>
  readonly send: (runId: Id.RunId, text: string, messageId: string) => Effect.Effect<unknown, unknown>
  readonly cancel: (runId: Id.RunId, reason: string) => Effect.Effect<void, unknown>
  readonly revoke: (runId: Id.RunId, grantId: Id.GrantId) => Effect.Effect<void, unknown>
  readonly recover: Effect.Effect<void, unknown>
}

export interface ProcessOptions {
  readonly world: World
  readonly definition: Definition
  readonly plan: Plan
  readonly owner?: string
  /** Breaks the store or the agent's tools, to test that the campaign finds it. */
  readonly mutate?: (store: Store) => Store
  readonly seed?: number
}

/** How a process ended. */
export interface Lived<A> {
  readonly exit: Exit.Exit<A, unknown>
  readonly crashed: boolean
  /** Its operations until the work was done or it was hit, in order. What its shutdown interrupts varies on Postgres. */
  readonly operations: ReadonlyArray<string>
}

const crash: Effect.Effect<never> = Effect.suspend(() => Effect.die(new FaultySqlClient.SimulatedCrash()))

/** Runs a process until `use` is done or it is hit. Its connection is closed then. */
export const live = <A>(
  options: ProcessOptions,
  use: (app: App) => Effect.Effect<A, unknown>
): Effect.Effect<Lived<A>> =>
  Effect.suspend(() => {
    const { definition, mutate = (store) => store, owner = "worker", plan, world } = options
    const operations: Array<string> = []
    let done: number | undefined
    const clients: Array<FaultySqlClient.FaultySqlClient> = []
    const isGone = () => clients.some(({ crashed }) => crashed())
    const crashAll = () => clients.forEach(({ crash }) => crash())
    const planned = (what: string): Effect.Effect<Fault> => {
      // The whole process is gone, not only its connection to one database.
      if (isGone()) return Effect.succeed("crashBefore")
      operations.push(what)
      const planned = plan(what)
      const fault = typeof planned === "string" ? Effect.succeed(planned) : planned
      return what === "ROLLBACK" ? Effect.map(fault, ofRollback) : fault
    }
    const act: Outside["act"] = (what, happen) =>
      Effect.suspend(() => {
        if (isGone()) return crash
        return Effect.flatMap(planned(what), (fault) => {
          if (isGone()) return crash
          if (fault === "crashBefore") crashAll()
          if (isGone()) return crash
          happen()
          if (fault === "crashAfter") crashAll()
          return isGone() ? crash : Effect.void
        })
      })

    const scripted = ScriptedModel.make(definition.answer).client
    const asked = act("model", () => {})
    const model: ModelClient.ModelClient["Service"] = {
      stream: (request) => Stream.unwrap(Effect.as(asked, scripted.stream(request))),
      complete: (request) => Effect.andThen(asked, scripted.complete(request))
    }

    const work = Effect.gen(function* () {
      const stores: Array<Store> = []
      for (const { open } of world.databases) {
        const client = FaultySqlClient.make(yield* open, ({ sql }) => planned(nameOf(sql)))
        clients.push(client)
        const stored = yield* Effect.provideService(SqlRunStore.make(), SqlClient.SqlClient, client.client)
        stores.push(mutate(acknowledging(stored, world)))
      }
      const runtime = yield* Effect.provideService(
        definition.contextPolicy === undefined
          ? Runtime.make({ agent: definition.agent({ act, world }), owner })
          : Effect.provideService(
              Runtime.make({ agent: definition.agent({ act, world }), owner }),
              ContextPolicy.ContextPolicy,
              definition.contextPolicy
            ),
        ModelClient.ModelClient,
        model
      )
      const app = stores.reduceRight<App | undefined>(
        (second, store) => appOf({ world, store, runtime, second }),
        undefined
      )
      const used = yield* use(app!)
      done = operations.length
      return used
    })
    const seeded = generator(options.seed ?? 1)
    return work.pipe(
      Effect.scoped,
      Effect.provideService(Clock.Clock, world.clock),
      Effect.provideService(Scrubber.Scrubber, scrubber),
      // Every run gets checkpoints as soon as it can have them.
      Effect.provideService(CheckpointEvery, 0),
      Effect.provideService(Random.Random, {
        nextDoubleUnsafe: seeded,
        nextIntUnsafe: () => Math.floor(seeded() * 2 ** 31)
      }),
      Effect.provideService(RunIds.RunIds, {
        runId: () => `run-${operations.length}` as Id.RunId,
        sessionId: () => "session" as Id.SessionId
      }),
      Effect.exit,
      Effect.map((exit) => ({ exit, crashed: isGone(), operations: operations.slice(0, done) }))
    )
  })

/** A rollback always succeeds: the database rolls back, or the connection is lost, which has the same effect. */
const ofRollback = (fault: Fault): Fault =>
  (Points.errors as ReadonlyArray<Fault>).includes(fault) ? "connectionLost" : fault

/** The first words of a statement. */
const nameOf = (sql: string): string => sql.trim().split(/\s+/).slice(0, 3).join(" ")

/** The run of a request, from the request's id. */
const runOf = (requestId: string): Id.RunId => requestId.slice(0, requestId.lastIndexOf(".")) as Id.RunId

const appOf = (options: {
  readonly world: World
  readonly store: Store
  readonly runtime: Runtime.Runtime<any>
  readonly second: App | undefined
}): App => {
  const { runtime, second, store, world } = options
  const stored: App["stored"] = (effect) => Effect.provideService(effect, RunStore.RunStore, store)
  const driven = <E>(driving: Effect.Effect<RunResult.RunResult, E, RunStore.RunStore>) =>
    Effect.tap(stored(driving), ({ runId, status }) =>
      Effect.sync(() => {
        if (status === "completed" || status === "cancelled") world.acknowledged.ended.push({ runId, status })
      })
    )
  const drive = (input: StoredStartInput | StoredContinueInput) => driven(runPromptStored(runtime, input))
  return {
    world,
    store,
    second,
    stored,
    start: drive,
    go: drive,
    fork: (input) => driven(forkRun(runtime, input)),
    decide: (decision) =>
      Effect.suspend(() => {
        const deciding = stored(decideStored([runtime], decision))
        if (decision._tag !== "deny" || decision.then !== "stop") return deciding
        const stopped = runOf(decision.requestId)
        world.askedToEnd.add(stopped)
        return Effect.andThen(
          deciding,
          Effect.map(moment(world), (moment) => {
            if (!world.stopped.has(stopped)) world.stopped.set(stopped, moment)
          })
        )
      }),
    send: (runId, text, messageId) => stored(sendMessage(runId, text, { messageId })),
    cancel: (runId, reason) =>
      Effect.andThen(
        Effect.suspend(() => {
          world.askedToEnd.add(runId)
          return stored(cancelRun(runId, reason))
        }),
        Effect.map(
          Effect.forEach(world.databases, ({ statuses }) => statuses),
          (all) => {
            const isGoing = all.some((statuses) => ["running", "held"].includes(statuses.get(runId) ?? ""))
            if (isGoing) world.cancelled.add(runId)
          }
        )
      ),
    revoke: (runId, grantId) =>
      Effect.andThen(
        stored(revokeGrant(runId, grantId, "ann")),
        Effect.map(moment(world), (moment) => {
          if (!world.revoked.has(grantId)) world.revoked.set(grantId, moment)
        })
      ),
    recover: Effect.andThen(stored(recover([runtime], { concurrency: 3 })), second?.recover ?? Effect.void)
  }
}
