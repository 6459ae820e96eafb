/**
 * What a rehearsal is made of: the agents, the model, the fakes of the outside world; and what can be done in it.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { Layer } from "effect/Layer"
import type { Agent } from "../agent/AgentDefinition.ts"
import type { RuntimeOptions } from "../agent/RuntimeDefinition.ts"
import type { Decision, DecisionBody } from "../domain/Decision.ts"
import type { InDoubtRequest, Interruption } from "../domain/Interruption.ts"
import type { AlreadyDecided } from "../domain/Rejection.ts"
import type { RunPromptStoredError } from "../durable/runPromptStored.ts"
import type { StoredStartInput } from "../durable/storedInput.ts"
import type { ModelClient } from "../model/ModelClient.ts"
import type { Prompt } from "../run/Mail.ts"
import type { RunResult } from "../run/RunResult.ts"
import type { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import type { Body, EffectRecord } from "./internal/rehearsal/ledger.ts"
import type {
  Failure,
  Point,
  PointInvalid,
  PointNotReached,
  RehearsalStuck
} from "./internal/rehearsal/points.ts"
import type { Report } from "./internal/rehearsal/report.ts"

/** What is known of a call in doubt, in the rehearsal and nowhere else. */
export interface Evidence {
  /** The effects of the call so far. */
  readonly effects: ReadonlyArray<EffectRecord>
  /** The runs of its body so far. */
  readonly bodies: ReadonlyArray<Body>
}

/** Where the fakes of the outside world say that something has happened. */
export interface Effects {
  /**
   * Records an effect, and is a point before and after it. `key` is what the outside world tells one effect from another by;
   * default: the idempotency key of the call whose body is running.
   */
  readonly record: (name: string, key?: string) => Effect.Effect<void, Error>
  /** The same for an outside world that knows a key again: the second time nothing happens, and this is `false`. */
  readonly once: (name: string, key?: string) => Effect.Effect<boolean, Error>
}

/** What is rehearsed. */
export interface Parts<R> extends Pick<RuntimeOptions<never, unknown>, "approvalCallback" | "interactive"> {
  readonly agents: ReadonlyArray<Agent<R, unknown>>
  /** A model that is asked the same again, because its answer was lost, is not asked: the first answer counts. */
  readonly model: ModelClient["Service"]
  /** An empty store. Default: in memory. */
  readonly store?: Layer<RunStore, RunStoreError>
  /**
   * How long a dead worker keeps a run, in the rehearsal's time. Default: 15 seconds. Where a database
   * times leases by its own clock, the rehearsal ends them when this has passed.
   */
  readonly leaseTtl?: Duration.Input
  /**
   * Answers the requests about calls in doubt, or leaves them to the scenario (`ask`). Default: `Rehearsal.fromEvidence`, which is
   * what a person who looks decides.
   */
  readonly inDoubt?: "ask" | ((request: InDoubtRequest, evidence: Evidence) => DecisionBody)
  /** How workers take turns in a race; every number is another order. Default: 1. */
  readonly seed?: number
  /** How long nothing may happen in real time. Default: 3 seconds. */
  readonly patience?: Duration.Input
}

/** Sets the scene, anew for every rehearsal: the agents with fakes behind their tools, and the model. */
export type Setup<R = never> = (effects: Effects) => Parts<R>

/** How a run of a rehearsal is started. */
export interface RehearsalRunOptions extends Pick<StoredStartInput, "limits" | "policy"> {
  /** The agent's name. Default: the first one. */
  readonly agent?: string
  readonly runId?: string
  readonly sessionId?: string
}

/** @deprecated Use `RehearsalRunOptions`. */
export type RunOptions = RehearsalRunOptions

/** How every crash is rehearsed. */
export interface EveryCrashOptions {
  /** With 2, every pair too: a second crash at every point that is passed after the first. Default: 1. */
  readonly crashes?: 1 | 2
  /** Only at these points. */
  readonly where?: (point: Point) => boolean
}

/** What a race for one request came to. */
export interface RaceResult {
  /** The decision that counts. */
  readonly decision: Decision
  /** The refusals of the other decisions. */
  readonly refused: ReadonlyArray<AlreadyDecided>
  readonly result: RunResult
}

/** What can go wrong around a rehearsed run. */
export type RehearsalError = RunPromptStoredError | RehearsalStuck

/**
 * One rehearsal.
 *
 * @category models
 * @since 0.1.0
 */
export interface Rehearsal {
  /** Lets the worker die at each of these points, the next time it is passed, or (`#3`) the third time. */
  readonly crashAt: (...points: ReadonlyArray<Point>) => Effect.Effect<void, PointInvalid>
  /** Lets the store, the model, a tool or an effect fail at a point, once. */
  readonly failAt: (point: Point, failure: Failure) => Effect.Effect<void, PointInvalid>
  /** Runs a prompt until the run is held or over, with as many workers as that takes. */
  readonly run: (prompt: Prompt, options?: RehearsalRunOptions) => Effect.Effect<RunResult, RehearsalError>
  /** Decides a request and goes on with its run until it is held again or over. */
  readonly decide: (
    request: Interruption,
    decision: DecisionBody,
    options?: { readonly by?: string }
  ) => Effect.Effect<RunResult, RehearsalError>
  /** One worker for each decision: all decide the same request at once, and all resume the run at once. */
  readonly race: (
    request: Interruption,
    ...decisions: ReadonlyArray<DecisionBody>
  ) => Effect.Effect<RaceResult, RehearsalError>
  /** Cancels a run, and goes on with it until it has ended. */
  readonly cancel: (runId: string, reason: string) => Effect.Effect<RunResult, RehearsalError>
  /** Moves the time on. */
  readonly adjust: (duration: Duration.Input) => Effect.Effect<void>
  /** What a program does when it starts: goes on with every run that needs a worker. */
  readonly recover: Effect.Effect<ReadonlyArray<RunResult>, RehearsalError>
  /** Recovers, and says what it all came to. Fails with `PointNotReached` when something planned has not happened. */
  readonly finish: Effect.Effect<Report, RehearsalError | PointNotReached>
}
