/**
 * The control plane: any number of front ends drive and watch agents by commands and events alone.
 *
 * A control plane takes `RuntimeCommand`s and publishes `RuntimeEventEnvelope`s. One actor takes the commands one after the other, and owns
 * sessions, tasks, approvals and the policy. A session has at most one active task; many sessions can be at work. With a store in the context,
 * tasks survive the runtime, and events are read again from the journals of their runs: there is no second store of events.
 *
 * @since 0.2.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { Agent } from "../agent/AgentDefinition.ts"
import {
  createRuntime,
  type CreateRuntimeError,
  type CreateRuntimeOptions,
  type RuntimeServices
} from "../agent/createRuntime.ts"
import { atLeast, requireOptions } from "../agent/internal/soundOptions.ts"
import type { Runtime } from "../agent/Runtime.ts"
import type { AnyExtension, RuntimeExtension } from "../agent/RuntimeDefinition.ts"
import type { RuntimeHooks } from "../agent/RuntimeHooks.ts"
import { checkPolicy } from "../domain/internal/given.ts"
import { checkContext } from "../domain/internal/givenContext.ts"
import { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import { attribute, type Principal, type PrincipalInvalid } from "../domain/Principal.ts"
import type { ContextInvalid, PolicyInvalid } from "../domain/RunError.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import type { Acknowledgement } from "./Acknowledgement.ts"
import type { CommandRejection } from "./CommandRejection.ts"
import { controlShape, type ControlOptions, type ControlPlaneOptions } from "./ControlOptions.ts"
import type { EventCursor } from "./EventCursor.ts"
import { actor } from "./internal/actor.ts"
import { configurationOf, Core } from "./internal/Core.ts"
import { EventHistory } from "./internal/EventHistory.ts"
import { storeOfContext } from "./internal/handleCommand.ts"
import { stopWithScope } from "./internal/shutdown.ts"
import type { Submission } from "./internal/submission.ts"
import { eventsAfter, eventsAfterCursor } from "./internal/subscription.ts"
import type { RuntimeCommand } from "./RuntimeCommand.ts"
import type { RuntimeEvent } from "./RuntimeEvent.ts"
import type { RuntimeEventEnvelope } from "./RuntimeEventEnvelope.ts"
import type { RuntimeSnapshot } from "./RuntimeSnapshot.ts"

export type { ControlOptions, ControlPlaneOptions } from "./ControlOptions.ts"

/** The option of {@link Shape.submit}. */
export interface SubmitOptions {
  /** The author of the command, as the caller has authenticated it. Default: the `by` of the plane. */
  readonly by?: string | Principal
}

/** The operations of a control plane: it takes commands and publishes events. */
export interface Shape {
  /** The id of this run of the plane. Sequence numbers belong to one epoch. */
  readonly epoch: string
  /**
   * Submits a command, and returns its acknowledgement once it is taken. An interruption of the caller does not withdraw the command.
   *
   * **Errors**
   *
   * - A `CommandRejection` — the command was not taken; its message says what to do.
   */
  readonly submit: (
    command: RuntimeCommand,
    options?: SubmitOptions
  ) => Effect.Effect<Acknowledgement, CommandRejection>
  /**
   * The events from the number `from` (default: 1, the first of the epoch), or after a cursor, until the plane has stopped. A subscriber reads at
   * its own pace and never delays a task; text that it has not read is merged. See `EventCursor` for a cursor of another epoch.
   */
  readonly events: (from?: number | EventCursor) => Stream.Stream<RuntimeEventEnvelope, RunStoreError>
  /** The current state. Read the events after its `seq` to follow it. */
  readonly snapshot: Effect.Effect<RuntimeSnapshot>
}

/**
 * The control plane as a service.
 *
 * @category services
 * @since 0.2.0
 */
export class ControlPlane extends Context.Service<ControlPlane, Shape>()(
  "@fermata/sdk/control/ControlPlane"
) {}

/** The errors of {@link make}. */
export type ControlPlaneError = ContextInvalid | OptionsInvalid | PolicyInvalid | PrincipalInvalid

/**
 * Makes a control plane for runtimes, which other code may use, too. When the scope closes, stored tasks are suspended and the others are
 * cancelled; then the event streams end.
 *
 * **Details**
 *
 * With a `RunStore` in the context, tasks are stored. Without one, they end with the plane.
 *
 * **Errors**
 *
 * - `OptionsInvalid` — an option is unknown or has a wrong value.
 * - `PolicyInvalid`, `PrincipalInvalid`, `ContextInvalid` — correct the policy, the author or the context.
 *
 * **Example** (Approving a call by commands and events)
 *
 * ```ts run
 * import { Agent, Runtime, Tool } from "@fermata/sdk"
 * import { ControlPlane } from "@fermata/sdk/control"
 * import { ScriptedModel } from "@fermata/sdk/testing"
 * import { Effect, Stream } from "effect"
 *
 * const pay = Tool.make("pay", { handler: () => "paid" })
 * const program = Effect.gen(function* () {
 *   const clerk = yield* Runtime.make({ agent: Agent.make("clerk", { tools: [pay] }) })
 *   const plane = yield* ControlPlane.make({ agents: [clerk] })
 *   yield* plane.submit({ _tag: "SubmitPrompt", prompt: "Pay the invoice." })
 *   yield* Stream.runForEach(plane.events(), ({ event }) => {
 *     if (event._tag === "tool.approvalRequired")
 *       return plane.submit({ _tag: "Approve", approvalId: event.request.requestId, decision: { _tag: "approve" } })
 *     if (event._tag !== "task.completed") return Effect.void
 *     console.log(event.text) // It is paid.
 *     return Effect.forkChild(plane.submit({ _tag: "Shutdown" }))
 *   })
 * })
 * const model = ScriptedModel.make([{ calls: [{ tool: "pay" }] }, "It is paid."]).layer
 * await Effect.runPromise(Effect.scoped(Effect.provide(program, model)))
 * ```
 *
 * @category constructors
 * @since 0.2.0
 */
export const make = Effect.fnUntraced(function* (
  given: ControlPlaneOptions
): Effect.fn.Return<Shape, ControlPlaneError, Scope.Scope> {
  const options = yield* requireOptions("ControlPlane.make", given ?? null, controlShape)
  const { agents, by = "unnamed", context, keepEvents, keepText, maxQueued, policy } = options
  const names = agents.map(({ agent }) => agent.name)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) return yield* notDistinct(twice)
  const author = yield* Effect.fromResult(attribute(by))
  const checked = policy === undefined ? undefined : checkPolicy(policy)
  if (checked !== undefined && Result.isFailure(checked)) return yield* checked.failure
  const own = context === undefined ? undefined : yield* Effect.fromResult(checkContext(context))
  const store = Option.getOrUndefined(yield* storeOfContext)
  const clock = yield* Clock.Clock
  const scope = yield* Effect.scope
  const tasks = yield* Scope.fork(scope)
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const history = new EventHistory({
    keepEvents: store === undefined ? Number.POSITIVE_INFINITY : atLeast(1, keepEvents, 4096),
    keepText: atLeast(0, keepText, 4 * 1024 * 1024)
  })
  const core = new Core({
    epoch: globalThis.crypto.randomUUID().replaceAll("-", "").slice(0, 16),
    agents,
    store,
    history,
    now: () => clock.currentTimeMillisUnsafe(),
    tasks,
    mailbox: yield* Queue.unbounded<Submission>(),
    fork: (effect) => void run(effect),
    maxQueued: atLeast(0, maxQueued, 100),
    policy: policy === undefined ? undefined : { setting: policy, author },
    context: own
  })
  const { epoch } = core.options
  const started: RuntimeEvent = {
    family: "Lifecycle",
    _tag: "lifecycle.started",
    epoch,
    agents: names,
    stored: store !== undefined
  }
  core.publish(started)
  for (const runtime of agents) {
    const configuration = configurationOf(runtime)
    core.publish({
      family: "Lifecycle",
      _tag: "lifecycle.configurationLoaded",
      agent: runtime.agent.name,
      configuration
    })
  }
  yield* Effect.forkIn(actor(core, by), scope)
  // Added after the actor, so that it runs before the actor is interrupted.
  yield* Effect.addFinalizer(() => stopWithScope(core))
  const sources = {
    epoch,
    history,
    store,
    started,
    now: core.options.now,
    projection: core.projection,
    context: own
  }
  return {
    epoch,
    submit: (command, { by } = {}) =>
      Effect.gen(function* () {
        const reply = yield* Deferred.make<Acknowledgement, CommandRejection>()
        yield* Queue.offer(core.options.mailbox, { _tag: "command", command, by, reply })
        return yield* Deferred.await(reply)
      }),
    events: (from = 1) =>
      typeof from === "number" ? eventsAfter(sources, from - 1) : eventsAfterCursor(sources, from),
    snapshot: Effect.sync(() => core.snapshot())
  }
})

const notDistinct = (name: string) =>
  new OptionsInvalid({
    of: "ControlPlane.make",
    misfits: [
      {
        place: "the options of ControlPlane.make",
        key: "agents",
        problem: `two of the "agents" are called "${name}"`
      }
    ]
  })

/** The layer of a control plane whose runtimes an effect makes. */
export const layer = <E, R>(
  options: Effect.Effect<ControlPlaneOptions, E, R>
): Layer.Layer<ControlPlane, E | ControlPlaneError, Exclude<R, Scope.Scope>> =>
  Layer.effect(ControlPlane, Effect.flatMap(options, make))

/**
 * Creates a runtime with all options of `createRuntime`, and a control plane for it.
 *
 * @category constructors
 * @since 0.2.0
 */
export const spawnRuntime = <
  R,
  Output,
  Callback = never,
  const Hooks extends RuntimeHooks = {},
  const Extensions extends ReadonlyArray<AnyExtension> = ReadonlyArray<RuntimeExtension>
>(
  runtime: CreateRuntimeOptions<R, Output, Callback, Hooks, Extensions>,
  options: ControlOptions = {}
): Effect.Effect<
  Shape,
  CreateRuntimeError | ControlPlaneError,
  RuntimeServices<R, Callback, Hooks, Extensions> | Scope.Scope
> => Effect.flatMap(createRuntime(runtime), (made) => make({ ...options, agents: [made as Runtime] }))

/**
 * Creates a runtime for an agent without further options, and a control plane for it.
 *
 * @category constructors
 * @since 0.2.0
 */
export const spawnRuntimeWithAgent = <R, Output>(agent: Agent<R, Output>, options: ControlOptions = {}) =>
  spawnRuntime({ agent }, options)

/**
 * Makes a control plane for a runtime that other code uses as well. The runtime stays open when the plane stops. `SwitchModel` and
 * `SwitchProfile` change it for all of its users, and are rejected while one of its runs is in the middle of a turn.
 *
 * @category constructors
 * @since 0.2.0
 */
export const spawnRuntimeWithSharedAgent = (
  runtime: Runtime,
  options: ControlOptions = {}
): Effect.Effect<Shape, ControlPlaneError, Scope.Scope> => make({ ...options, agents: [runtime] })
