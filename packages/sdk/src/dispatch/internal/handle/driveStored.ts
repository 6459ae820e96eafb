/**
 * One drive of a stored run: it is worked on here, ended, or only looked at where another process may have done what there is to do.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Cancellation from "../../../agent/Cancellation.ts"
import type { Suspension } from "../../../agent/Cancellation.ts"
import type { Runtime } from "../../../agent/Runtime.ts"
import type { RunUpdate } from "../../../agent/RunUpdate.ts"
import type { RunId } from "../../../domain/Id.ts"
import { type Interruption, isExpired } from "../../../domain/Interruption.ts"
import { type AgentNotFound, RunSuspended, type ToolUnavailable } from "../../../domain/RunError.ts"
import { interruptions, isEnded, type RunState } from "../../../domain/RunState.ts"
import { forkRun } from "../../../durable/forkRun.ts"
import { type LoadedRun, loadRun } from "../../../durable/internal/loadRun.ts"
import { requestEnd } from "../../../durable/internal/requestEnd.ts"
import { runPromptStored } from "../../../durable/runPromptStored.ts"
import type { ForkInput, StoredStartInput } from "../../../durable/storedInput.ts"
import { toResult } from "../../../run/internal/result.ts"
import type { RunResult } from "../../../run/RunResult.ts"
import type { RunStore } from "../../../store/RunStore.ts"
import type { HandleError, StoredFault } from "../../AgentHandle.ts"
import { failWhenRemoved } from "../events/readEvents.ts"
import { failWhenStuck } from "./BaseHandle.ts"
import { type Driven, elsewhere, type DriveIntent } from "./HandleState.ts"

/** A prompt; or a prompt to a fork of another run. */
export type Start = StoredStartInput | (ForkInput & { readonly newRunId: RunId })

/** What a drive needs of the handle of its run. */
export interface DrivenRun<Output> {
  readonly runId: RunId
  readonly runtime: Runtime<Output>
  readonly options: {
    readonly store: RunStore["Service"]
    readonly owner: { readonly suspension: Suspension }
  }
  /** Whether the run is in the store. */
  readonly begun: boolean
  readonly cancelReason: string | undefined
  readonly urge: DriveIntent
  /** Events of the run that are known here. */
  readonly revision: number
  readonly publish: (update: RunUpdate) => void
  /** Reads and publishes what others have done, up to a revision or up to now. */
  readonly missed: (revision?: number) => Effect.Effect<void, StoredFault>
  /** Takes in what is known of the run, but was not published. */
  readonly knows: (state: RunState, open: ReadonlyArray<Interruption>) => void
  readonly inStore: <A, E>(effect: Effect.Effect<A, E, RunStore>) => Effect.Effect<A, E>
}

/** Why a stored run that was dispatched came to no result. */
export type StoredFailure = HandleError | StoredFault

/** Works on the run until it is held or over; from its `start` where it is not begun. */
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
    const goOn = work(run, token, { runId })
    if (run.urge === "goOn") return Effect.andThen(Effect.ignore(run.missed()), goOn)
    return Effect.flatMap(look(run), (stands) => (stands === undefined ? goOn : Effect.succeed(stands)))
  }).pipe(
    // It was cancelled while it was found out that another process has it: that one has to hear of it.
    Effect.flatMap((driven) =>
      driven === elsewhere && run.cancelReason !== undefined && !isAsked
        ? end(run, run.cancelReason)
        : Effect.succeed(driven)
    ),
    (driving) => failWhenRemoved(driving, runId),
    // A store that may work again is tried again; before the run is there, its caller does so.
    Effect.catchTag("RunStoreError", (error) => {
      if (!error.isRetryable || !run.begun) return Effect.fail(error)
      return Effect.logWarning(`The run ${runId} is tried again: ${error.message}`).pipe(
        Effect.andThen(pause(run, token)),
        Effect.andThen(driveStored(run, token))
      )
    })
  )
}

/** The status of a run that needs no worker; `undefined` when it needs one. */
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
      const hasMail = decisions.length > 0 || messages.length > 0
      if (state.status === "running" || hasMail || open.some((request) => isExpired(request, now))) {
        return Effect.succeed(undefined)
      }
      return toResult(run.runtime, state)
    })
  )
}

/** The requests of a run without those that are decided and not yet acted on. */
export const openRequestsIn = ({ decisions, state }: LoadedRun): ReadonlyArray<Interruption> => {
  const decided = new Set(decisions.map(({ requestId }) => requestId))
  return interruptions(state).filter(({ requestId }) => !decided.has(requestId))
}

/** Works on the run here. */
const work = <Output>(
  run: DrivenRun<Output>,
  token: Cancellation.CancellationToken,
  input: Start | { readonly runId: RunId }
): Effect.Effect<Driven<Output>, StoredFailure> => {
  const { runtime } = run
  const options = {
    cancellation: token,
    suspension: run.options.owner.suspension,
    onUpdate: (update: RunUpdate) => run.publish(update)
  }
  const working =
    "newRunId" in input
      ? // Neither can be: it is the last revision of a session that was just made.
        Effect.catchTag(forkRun(runtime, input, options), ["RevisionNotFound", "SessionTaken"], Effect.die)
      : runPromptStored(runtime, input, options)
  return run.inStore(working).pipe(
    // Others may have got further before it was claimed here.
    Effect.tap(({ state }) =>
      state.revision > run.revision ? Effect.ignore(run.missed(state.revision)) : Effect.void
    ),
    Effect.tap(({ state }) => Effect.sync(() => run.knows(state, interruptions(state)))),
    Effect.tap(failWhenStuck),
    Effect.catchTag(["RunBusy", "RunConflict", "LeaseLost"], () => Effect.succeed<Driven<Output>>(elsewhere)),
    Effect.catchTag(["AgentNotFound", "ToolUnavailable"], (problem) => waitFor(run, problem))
  )
}

/** What keeps the run from going on here is no end of it while there are other requests to decide. */
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

/** Ends the run, in whichever process it is driven. */
const end = <Output>(run: DrivenRun<Output>, reason: string): Effect.Effect<Driven<Output>, StoredFailure> =>
  run.inStore(Effect.flatten(requestEnd(run.runId, reason))).pipe(
    Effect.catchTag(["RunConflict", "LeaseLost"], () => Effect.void),
    Effect.andThen(look(run)),
    Effect.map((stands) => stands ?? elsewhere)
  )

const look = <Output>(run: DrivenRun<Output>): Effect.Effect<Driven<Output> | undefined, StoredFault> =>
  Effect.flatMap(loadRun(run.options.store, run.runId), (stored) => restingStatus(run, stored))

/** Waits a moment, unless it is to end or to be suspended. */
const pause = (
  { options, runId }: DrivenRun<unknown>,
  token: Cancellation.CancellationToken
): Effect.Effect<void, RunSuspended> => {
  const { soon } = options.owner.suspension
  const cancelled = Effect.callback<void>((resume) => {
    const unlink = [token, soon].map((token) => token.onCancel(() => resume(Effect.void)))
    return Effect.sync(() => unlink.forEach((unlink) => unlink()))
  })
  return Effect.andThen(
    Effect.raceFirst(Effect.sleep("1 second"), cancelled),
    Effect.suspend(() =>
      soon.reason() === undefined ? Effect.void : Effect.fail(new RunSuspended({ runId }))
    )
  )
}
