/**
 * One drive of a stored run by its handle: resumes the run, cancels it, or reads it if another process may have driven it meanwhile.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Cancellation from "../../../agent/Cancellation.ts"
import type { Suspension } from "../../../agent/Cancellation.ts"
import type { Runtime } from "../../../agent/Runtime.ts"
import type { RunUpdate } from "../../../agent/RunUpdate.ts"
import type { RunId } from "../../../domain/Id.ts"
import { type Interruption, isExpired } from "../../../domain/Interruption.ts"
import { type AgentNotFound, RunSuspended, type ToolUnavailable } from "../../../domain/RunError.ts"
import { interruptions, isEnded, isQueued, type RunState } from "../../../domain/RunState.ts"
import { forkRun } from "../../../durable/forkRun.ts"
import { type LoadedRun, loadRun } from "../../../durable/internal/loadRun.ts"
import { requestEnd } from "../../../durable/internal/requestEnd.ts"
import { runPromptStored } from "../../../durable/runPromptStored.ts"
import type { ForkInput, StoredContinueInput, StoredStartInput } from "../../../durable/storedInput.ts"
import { toResult } from "../../../run/internal/result.ts"
import type { RunResult } from "../../../run/RunResult.ts"
import type { RunStore } from "../../../store/RunStore.ts"
import type { RunStoreError } from "../../../store/RunStoreError.ts"
import type { HandleError, StoredFault } from "../../AgentHandle.ts"
import { failWhenRemoved } from "../events/readEvents.ts"
import { failWhenStuck } from "./BaseHandle.ts"
import { type Driven, elsewhere, type DriveIntent } from "./HandleState.ts"

/** The input of a new run, or of a fork. */
export type Start = StoredStartInput | (ForkInput & { readonly newRunId: RunId })

/** The input with which a stored run continues. */
export type Continuation = Pick<StoredContinueInput, "runId" | "~allotted" | "~queued">

/** The parts of a handle that its drives need. */
export interface DrivenRun<Output> {
  readonly runId: RunId
  readonly runtime: Runtime<Output>
  readonly options: {
    readonly store: RunStore["Service"]
    readonly group: { readonly suspension: Suspension }
    readonly conductor?: unknown
  }
  /** Whether the run is in the store. */
  readonly begun: boolean
  readonly cancelReason: string | undefined
  /** The input with which the run continues. Of a queued run under a conductor, it starts the run within the conductor's budgets. */
  readonly continuation: Effect.Effect<Continuation, HandleError>
  readonly intent: DriveIntent
  /** The number of events of the run that the handle knows. */
  readonly revision: number
  readonly publish: (update: RunUpdate) => void
  /** Reads and publishes the events of other processes, up to a revision or up to the last one. */
  readonly missed: (revision?: number) => Effect.Effect<void, StoredFault>
  /** Takes over the state and the open requests of the run. */
  readonly knows: (state: RunState, open: ReadonlyArray<Interruption>) => void
  /** Called with a failure of the store before the drive is retried. */
  readonly onRetry: (error: RunStoreError) => void
  readonly inStore: <A, E>(effect: Effect.Effect<A, E, RunStore>) => Effect.Effect<A, E>
}

/** The errors of a dispatched stored run that has no result. */
export type StoredFailure = HandleError | StoredFault

/** Drives the run until it is held or has ended. `start` is the input of a run that has not started. */
export const driveStored = <Output>(
  run: DrivenRun<Output>,
  token: Cancellation.CancellationToken,
  start?: Effect.Effect<Start, HandleError>
): Effect.Effect<Driven<Output>, StoredFailure> => {
  let isAsked = false
  const { runId } = run
  return Effect.suspend(() => {
    if (start !== undefined) return Effect.flatMap(start, (input) => work(run, token, input))
    if (run.cancelReason !== undefined) {
      isAsked = true
      return end(run, run.cancelReason)
    }
    const goOn = Effect.flatMap(run.continuation, (input) => work(run, token, input))
    if (run.intent === "goOn") return Effect.andThen(Effect.ignore(run.missed()), goOn)
    return Effect.flatMap(look(run), (stands) => (stands === undefined ? goOn : Effect.succeed(stands)))
  }).pipe(
    // The run was cancelled while another process was found to own it: request the cancellation through the store.
    Effect.flatMap((driven) =>
      driven === elsewhere && run.cancelReason !== undefined && !isAsked
        ? end(run, run.cancelReason)
        : Effect.succeed(driven)
    ),
    (driving) => failWhenRemoved(driving, runId),
    // A retryable store error is retried without end when the run is stored. Before, the caller receives it.
    Effect.catchTag("RunStoreError", (error) => {
      if (!error.isRetryable || !run.begun) return Effect.fail(error)
      run.onRetry(error)
      return Effect.logWarning(`The drive of the run ${runId} is retried: ${error.message}`).pipe(
        Effect.andThen(pause(run, token)),
        Effect.andThen(driveStored(run, token))
      )
    })
  )
}

/** Stores a run that waits for its first slot, so that it survives this process. Starts nothing. */
export const enqueue = <Output>(
  run: DrivenRun<Output>,
  input: Start
): Effect.Effect<Driven<Output>, StoredFailure> => {
  const conductor = input["~conductor"]
  return work(run, Cancellation.make(), {
    ...input,
    ...(conductor === undefined ? {} : { "~conductor": { ...conductor, isQueued: true } })
  })
}

/** Returns the result of a run that is held or has ended and needs no worker; `undefined` if it needs one. */
export const restingStatus = <Output>(
  run: DrivenRun<Output>,
  stored: LoadedRun
): Effect.Effect<Driven<Output> | undefined, StoredFault> => {
  const { decisions, head, messages, state } = stored
  return Effect.flatMap(run.missed(head.revision), () =>
    Effect.flatMap(Clock.currentTimeMillis, (now): Effect.Effect<Driven<Output> | undefined> => {
      const open = interruptions(state)
      run.knows(state, openRequestsIn(stored))
      if (isEnded(state)) return toResult(run.runtime, state)
      if (head.lease !== undefined) return Effect.succeed(elsewhere)
      // A handle without a conductor follows a queued run and does not start it.
      if (isQueued(state) && run.options.conductor === undefined) return toResult(run.runtime, state)
      const hasMail = decisions.length > 0 || messages.length > 0
      if (
        state.status === "running" ||
        isQueued(state) ||
        hasMail ||
        open.some((request) => isExpired(request, now))
      ) {
        return Effect.succeed(undefined)
      }
      return toResult(run.runtime, state)
    })
  )
}

/** The open requests of a run, without those whose decision is not in the journal yet. */
export const openRequestsIn = ({ decisions, state }: LoadedRun): ReadonlyArray<Interruption> => {
  const decided = new Set(decisions.map(({ requestId }) => requestId))
  return interruptions(state).filter(({ requestId }) => !decided.has(requestId))
}

/** Starts or resumes the run in this process. */
const work = <Output>(
  run: DrivenRun<Output>,
  token: Cancellation.CancellationToken,
  input: Start | Continuation
): Effect.Effect<Driven<Output>, StoredFailure> => {
  const { runtime } = run
  const options = {
    cancellation: token,
    suspension: run.options.group.suspension,
    onUpdate: (update: RunUpdate) => run.publish(update)
  }
  const working =
    "newRunId" in input
      ? // Neither error can occur: the fork begins at the default revision, in a new session.
        Effect.catchTag(forkRun(runtime, input, options), ["RevisionNotFound", "SessionTaken"], Effect.die)
      : runPromptStored(runtime, input, options)
  return run.inStore(working).pipe(
    // Another process may have appended events before the claim.
    Effect.tap(({ state }) =>
      state.revision > run.revision ? Effect.ignore(run.missed(state.revision)) : Effect.void
    ),
    Effect.tap(({ state }) => Effect.sync(() => run.knows(state, interruptions(state)))),
    Effect.tap(failWhenStuck),
    Effect.catchTag(["RunBusy", "RunConflict", "LeaseLost"], () => Effect.succeed<Driven<Output>>(elsewhere)),
    Effect.catchTag(["AgentNotFound", "ToolUnavailable"], (problem) => waitFor(run, problem))
  )
}

/** Reports a run with missing definitions as held while it has open requests; fails with the problem otherwise. */
const waitFor = <Output>(
  run: DrivenRun<Output>,
  problem: AgentNotFound | ToolUnavailable
): Effect.Effect<Driven<Output>, StoredFailure> => {
  if (!run.begun) return Effect.fail(problem)
  return Effect.flatMap(loadRun(run.options.store, run.runId), (stored) => {
    const { state } = stored
    const open = openRequestsIn(stored)
    if (open.length === 0) return Effect.fail(problem)
    run.knows(state, open)
    return Effect.map(toResult<Output>(run.runtime, state), (result): RunResult<Output> =>
      result.status === "interrupted" ? { ...result, interruptions: open } : result
    )
  })
}

/** Cancels the run, regardless of the process that drives it. */
const end = <Output>(run: DrivenRun<Output>, reason: string): Effect.Effect<Driven<Output>, StoredFailure> =>
  run.inStore(Effect.flatten(requestEnd(run.runId, reason))).pipe(
    Effect.catchTag(["RunConflict", "LeaseLost"], () => Effect.void),
    Effect.andThen(look(run)),
    Effect.map((stands) => stands ?? elsewhere)
  )

/** Reads the run, and returns its result if it needs no worker. */
export const look = <Output>(
  run: DrivenRun<Output>
): Effect.Effect<Driven<Output> | undefined, StoredFault> =>
  Effect.flatMap(loadRun(run.options.store, run.runId), (stored) => restingStatus(run, stored))

/** Waits for a second, or until the run is cancelled meanwhile. Fails if it is suspended. */
const pause = (
  { options, runId }: DrivenRun<unknown>,
  token: Cancellation.CancellationToken
): Effect.Effect<void, RunSuspended> => {
  const { soon } = options.group.suspension
  const cancelled = Effect.callback<void>((resume) => {
    // A token that is cancelled already would end every pause at once.
    const waking = [token, soon].filter((one) => one === soon || one.reason() === undefined)
    const unlink = waking.map((one) => one.onCancel(() => resume(Effect.void)))
    return Effect.sync(() => unlink.forEach((unlink) => unlink()))
  })
  return Effect.andThen(
    Effect.raceFirst(Effect.sleep("1 second"), cancelled),
    Effect.suspend(() =>
      soon.reason() === undefined ? Effect.void : Effect.fail(new RunSuspended({ runId }))
    )
  )
}
