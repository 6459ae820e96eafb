/**
 * What a dispatched run is given besides its input, who looks after it, and what its drives come to.
 */
import type * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Exit from "effect/Exit"
import type * as Cancellation from "../../../agent/Cancellation.ts"
import type { Explanation } from "../../../durable/explain.ts"
import type { RunResult } from "../../../run/RunResult.ts"
import type { RunUpdate } from "../../../agent/RunUpdate.ts"
import type { HandleError, HandleStatus } from "../../AgentHandle.ts"
import type { ConductorBudgetExceeded, ConductorClosed } from "../../DispatchError.ts"
import type { Gate } from "../conductor/Gate.ts"
import type { Live } from "./Live.ts"
import type { Owner } from "../Owner.ts"
import type { Restart } from "./restart.ts"

/** What a run is dispatched with, besides its input. */
export interface LiveOptions {
  readonly name?: string | undefined
  readonly owner: Owner
  /** What the program that has dispatched it runs with. */
  readonly context: Context.Context<never>
  readonly clock: Clock.Clock
  /** The conductor that it is dispatched with. */
  readonly keeper?: Keeper | undefined
  readonly restart?: Restart | undefined
  readonly onUpdate?: ((update: RunUpdate) => void) | undefined
  readonly cancellation?: Cancellation.CancellationToken | undefined
  readonly keepEvents?: number | undefined
}

/** Whoever looks after several runs. */
export interface Keeper {
  readonly gate: Gate
  readonly onMade: (live: Live<any, any>) => void
  readonly onTold: (live: Live<any, any>, update: RunUpdate) => void
  /** How it stands, or what it waits for, has changed. */
  readonly onChange: (live: Live<any, any>) => void
  readonly onOver: (live: Live<any, any>) => void
  /** Why there may not be one more; else it is counted. */
  readonly refuse: () => ConductorBudgetExceeded | ConductorClosed | undefined
}

/** Instead of a result: another process works on the run. */
export const elsewhere = Symbol("elsewhere")

/** What a drive comes to. */
export type Driven<Output> = RunResult<Output> | typeof elsewhere

export type Ended<Output, E> = Exit.Exit<RunResult<Output>, HandleError | E>

/** How a run stands that has come to this. */
export const statusOf = (exit: Ended<unknown, unknown>): HandleStatus => {
  if (Exit.isFailure(exit)) {
    const error = Exit.findErrorOption(exit)
    const tag = error._tag === "Some" ? (error.value as { readonly _tag?: string })._tag : undefined
    return tag === "RunLetGo" ? "letGo" : "error"
  }
  return exit.value.status === "interrupted" ? "held" : exit.value.status
}

/** What there is to say about a run that waits for a place. */
export const notBegun = ({ runId, runtime }: Live<any, any>): Explanation => ({
  runId,
  status: "running",
  waitsFor: [],
  decided: [],
  resuming: [],
  text: `The run ${runId} of ${runtime.agent.name} waits for a place; it has not been begun.`
})
