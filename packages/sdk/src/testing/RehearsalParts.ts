/**
 * The types of rehearsals: their parts (agents, model, fakes of external services) and their operations.
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

/** The facts about a call in doubt, which only a rehearsal knows. */
export interface Evidence {
  /** The effects of the call so far. */
  readonly effects: ReadonlyArray<EffectRecord>
  /** The executions of the call's body so far. */
  readonly bodies: ReadonlyArray<Body>
}

/** The effect record: fakes of external services report their side effects here. */
export interface Effects {
  /**
   * Records an effect, with a point before and after it. `key` identifies the effect for the external service. Default: the idempotency key
   * of the call whose body is running, or `name` if none is running.
   */
  readonly record: (name: string, key?: string) => Effect.Effect<void, Error>
  /** Like `record`, for a service that recognizes a key: a repeated key records nothing and returns `false`. */
  readonly once: (name: string, key?: string) => Effect.Effect<boolean, Error>
}

/** The parts of a rehearsal. */
export interface Parts<R> extends Pick<RuntimeOptions<never, unknown>, "approvalCallback" | "interactive"> {
  readonly agents: ReadonlyArray<Agent<R, unknown>>
  /** The model. If a request is repeated because its response was lost, the rehearsal returns the first response again. */
  readonly model: ModelClient["Service"]
  /** An empty store. Default: in memory. */
  readonly store?: Layer<RunStore, RunStoreError>
  /**
   * The length of leases, in the rehearsal's time. Default: 15 seconds. If a database measures leases by its own clock, the rehearsal ends
   * those of crashed workers after this time.
   */
  readonly leaseTtl?: Duration.Input
  /**
   * Decides the requests about calls in doubt, or leaves them to the scenario (`ask`). Default: `Rehearsal.fromEvidence`, which decides as
   * a person would who checks the external service.
   */
  readonly inDoubt?: "ask" | ((request: InDoubtRequest, evidence: Evidence) => DecisionBody)
  /** Seed of the order in which the workers of a race take turns. Default: 1. */
  readonly seed?: number
  /** Real time without activity after which the rehearsal fails with `RehearsalStuck`. Default: 3 seconds. */
  readonly patience?: Duration.Input
}

/** Makes the parts, once for each rehearsal: the agents with fakes behind their tools, and the model. */
export type Setup<R = never> = (effects: Effects) => Parts<R>

/** Start options of a run in a rehearsal. */
export interface RehearsalRunOptions extends Pick<StoredStartInput, "context" | "limits" | "policy"> {
  /** Name of the agent. Default: the first agent. */
  readonly agent?: string
  readonly runId?: string
  readonly sessionId?: string
}

/** @deprecated Use `RehearsalRunOptions`. */
export type RunOptions = RehearsalRunOptions

/** Options of `everyCrash`. */
export interface EveryCrashOptions {
  /** With 2, also rehearses each pair: a second crash at each point that is passed after the first. Default: 1. */
  readonly crashes?: 1 | 2
  /** Selects the points. Default: all. */
  readonly where?: (point: Point) => boolean
}

/** The outcome of a race. */
export interface RaceResult {
  /** The decision that counts. */
  readonly decision: Decision
  /** The refusals of the other decisions. */
  readonly refused: ReadonlyArray<AlreadyDecided>
  readonly result: RunResult
}

/** The errors of rehearsed runs. */
export type RehearsalError = RunPromptStoredError | RehearsalStuck

/**
 * The operations of a rehearsal, for scenarios.
 *
 * @category models
 * @since 0.1.0
 */
export interface Rehearsal {
  /** Plans a crash of the worker at each of these points: the next time that it is passed, or, with `#3`, the third time. */
  readonly crashAt: (...points: ReadonlyArray<Point>) => Effect.Effect<void, PointInvalid>
  /** Plans one failure of the store, the model, a tool or an effect at a point. */
  readonly failAt: (point: Point, failure: Failure) => Effect.Effect<void, PointInvalid>
  /**
   * Runs a prompt until the run is held or has ended. After each crash, a new worker continues. Calls in doubt are decided by `inDoubt`.
   * Fails with `RehearsalStuck` after 200 workers.
   */
  readonly run: (prompt: Prompt, options?: RehearsalRunOptions) => Effect.Effect<RunResult, RehearsalError>
  /** Decides a request, by `rehearsal` unless `by` is given, and continues its run until it is held again or has ended. */
  readonly decide: (
    request: Interruption,
    decision: DecisionBody,
    options?: { readonly by?: string }
  ) => Effect.Effect<RunResult, RehearsalError>
  /**
   * Starts one worker for each decision; all decide the same request and resume its run at the same time. If every worker crashes before
   * its decision is stored, the first decision is taken.
   */
  readonly race: (
    request: Interruption,
    ...decisions: ReadonlyArray<DecisionBody>
  ) => Effect.Effect<RaceResult, RehearsalError>
  /** Cancels a run, and continues it until it has ended. */
  readonly cancel: (runId: string, reason: string) => Effect.Effect<RunResult, RehearsalError>
  /** Advances the rehearsal's time, once all started work waits. */
  readonly adjust: (duration: Duration.Input) => Effect.Effect<void>
  /** Drives every ready run, as a program does at its start. The leases of crashed workers expire first. */
  readonly recover: Effect.Effect<ReadonlyArray<RunResult>, RehearsalError>
  /** Recovers, and returns the report. Fails with `PointNotReached` if a planned crash or failure did not happen. */
  readonly finish: Effect.Effect<Report, RehearsalError | PointNotReached>
}
