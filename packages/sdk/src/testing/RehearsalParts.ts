/**
 * What a rehearsal is made of: the agents, the model, the fakes of the outside world, and how its runs are started.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { Layer } from "effect/Layer"
import type { Agent } from "../agent/AgentDefinition.ts"
import type { RuntimeOptions } from "../agent/RuntimeDefinition.ts"
import type { DecisionBody } from "../domain/Decision.ts"
import type { InDoubtRequest } from "../domain/Interruption.ts"
import type { StoredStartInput } from "../durable/storedInput.ts"
import type { ModelClient } from "../model/ModelClient.ts"
import type { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import type { Body, EffectRecord } from "./internal/rehearsal/ledger.ts"
import type { Point } from "./internal/rehearsal/points.ts"

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
  readonly agents: ReadonlyArray<Agent<R, any>>
  /** A model that is asked the same again, because its answer was lost, is not asked: the first answer counts. */
  readonly model: ModelClient["Service"]
  /** An empty store. Default: in memory. */
  readonly store?: Layer<RunStore, RunStoreError>
  /**
   * How long a dead worker keeps a run, in the rehearsal's time. Default: 15 seconds. Where a database tells the time of leases, it
   * is told when this has passed.
   */
  readonly leaseTtl?: Duration.Input
  /**
   * Answers the requests about calls in doubt, or leaves them to the scenario (`ask`). Default: {@link fromEvidence}, which is
   * what somebody would do who looks.
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
