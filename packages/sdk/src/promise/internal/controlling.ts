/**
 * The control planes of a Fermata.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Runtime } from "../../agent/Runtime.ts"
import type { Acknowledgement } from "../../control/Acknowledgement.ts"
import type { ControlOptions } from "../../control/ControlOptions.ts"
import type { Shape, SubmitOptions } from "../../control/ControlPlane.ts"
import type { EventCursor } from "../../control/EventCursor.ts"
import type { RuntimeCommand } from "../../control/RuntimeCommand.ts"
import type { RuntimeEventEnvelope } from "../../control/RuntimeEventEnvelope.ts"
import type { RuntimeSnapshot } from "../../control/RuntimeSnapshot.ts"
import { DrainTimeout } from "../../dispatch/internal/HandleGroup.ts"
import { abortSignal, atLeastOne, atLeastZero, jsonObject, shapeOf } from "../../domain/internal/misfits.ts"
import { OptionsInvalid } from "../../domain/OptionsInvalid.ts"
import type { Principal } from "../../domain/Principal.ts"
import type { RunStore } from "../../store/RunStore.ts"
import { runWhileClosing } from "../RunHandle.ts"
import type { Agents } from "./bindAgents.ts"
import { iterable } from "./iterable.ts"
import type { ReadOptions } from "./options.ts"
import { requireKnown } from "./shapes.ts"

/** The options of `Fermata.controlPlane`. */
export interface ControlPlaneOptions extends Omit<ControlOptions, "by"> {
  /** The names of the agents, the first of which is that of new sessions. Default: all agents of the Fermata, in their order. */
  readonly agents?: ReadonlyArray<string>
  /** The author of commands whose submitter names none. Default: the `by` of the Fermata. */
  readonly by?: string | Principal
}

/** The options of {@link RunControlPlane.events}. */
export interface PlaneEventsOptions extends ReadOptions {
  /** The number of the first event, or the place after which to continue. Default: 1, the first event of the epoch. */
  readonly from?: number | EventCursor
}

/**
 * Drives and watches the agents of a Fermata by commands and events alone. Its disposal suspends its stored tasks and cancels the others,
 * and so does the close of the Fermata.
 *
 * @category models
 * @since 0.2.0
 */
export interface RunControlPlane extends AsyncDisposable {
  /** The id of this run of the plane. Sequence numbers belong to one epoch. */
  readonly epoch: string
  /** Submits a command. Resolves to its acknowledgement, and rejects with a `CommandRejection` if it is not taken. */
  readonly submit: (command: RuntimeCommand, options?: SubmitOptions) => Promise<Acknowledgement>
  /**
   * Iterates over the events, from the first one of the epoch unless `from` names another, until the plane has stopped. A slow reader never
   * delays a task: the parts of texts that it has not read are merged.
   */
  readonly events: (options?: PlaneEventsOptions) => AsyncIterable<RuntimeEventEnvelope>
  /** Resolves to the current state. Read the events after its `seq` to follow it. */
  readonly snapshot: () => Promise<RuntimeSnapshot>
}

const isText = (value: unknown): boolean => typeof value === "string"

const controlPlaneShape = shapeOf<ControlPlaneOptions>({
  agents: {
    takes: "a list of names of agents",
    is: (value: unknown) => Array.isArray(value) && value.every(isText)
  },
  by: "anything",
  policy: "anything",
  context: jsonObject,
  maxQueued: atLeastZero,
  keepEvents: atLeastOne,
  keepText: atLeastZero
})

const submitShape = shapeOf<SubmitOptions>({ by: "anything" })

const eventsShape = shapeOf<PlaneEventsOptions>({
  from: {
    takes: "a whole number from 1, or a cursor",
    is: (value: unknown) =>
      (Number.isSafeInteger(value) && Number(value) >= 1) || (typeof value === "object" && isCursor(value))
  },
  signal: abortSignal
})

const isCursor = (value: object | null): boolean =>
  value !== null && "epoch" in value && "seq" in value && "revisions" in value

/** Makes the method `controlPlane`, and the function that closes all planes. */
export const makeControlling = (access: {
  readonly agents: Agents
  readonly by: string | Principal
  readonly run: <A, E>(effect: Effect.Effect<A, E, RunStore>) => Promise<A>
  readonly drainTimeout: Duration.Input
}) => {
  const { agents, by, drainTimeout, run } = access
  const scope = Scope.makeUnsafe()

  const controlPlane = async (given: ControlPlaneOptions = {}): Promise<RunControlPlane> => {
    requireKnown("controlPlane", given, controlPlaneShape)
    const { agents: names, ...options } = given
    const runtimes = (names?.map((name) => agents.of(name)) ?? agents.all) as ReadonlyArray<Runtime>
    const [first, ...others] = runtimes
    if (first === undefined) throw noAgents()
    // Loaded on first use, because most programs have no front end.
    const { make } = await import("../../control/ControlPlane.ts")
    const own = Scope.forkUnsafe(scope)
    const making = make({ by, ...options, agents: [first, ...others] })
    const plane = await run(Effect.provideService(Scope.provide(making, own), DrainTimeout, drainTimeout))
    return fromPlane(plane, run, () => runWhileClosing(Scope.close(own, Exit.void)))
  }

  return { controlPlane, close: () => runWhileClosing(Scope.close(scope, Exit.void)) }
}

const noAgents = () =>
  new OptionsInvalid({
    of: "controlPlane",
    misfits: [
      {
        place: "the options of controlPlane",
        key: "agents",
        problem: '"agents" has to name one agent or more'
      }
    ]
  })

const fromPlane = (
  plane: Shape,
  run: <A, E>(effect: Effect.Effect<A, E, RunStore>) => Promise<A>,
  close: () => Promise<void>
): RunControlPlane => ({
  epoch: plane.epoch,
  submit: async (command, options) => {
    requireKnown("submit", options, submitShape)
    return run(plane.submit(command, options))
  },
  events: (given = {}) => {
    requireKnown("events", given, eventsShape)
    const { from, ...reading } = given
    return iterable(
      Stream.suspend(() => plane.events(from)),
      { ahead: true, ...reading }
    )
  },
  snapshot: () => run(plane.snapshot),
  [Symbol.asyncDispose]: close
})
