/**
 * The state machine of a handle as data: its states, events and actions.
 *
 * `transition` is pure; `HandleMachine` performs the actions in their order. A listener that `notify` calls may cause another event, which
 * changes the phase again; a `park` for the earlier phase is then skipped.
 */
import * as Exit from "effect/Exit"
import type { RunError } from "../../../domain/RunError.ts"
import { isQueued } from "../../../domain/RunState.ts"
import type { RunResult } from "../../../run/RunResult.ts"
import type { HandleError, HandleStatus } from "../../AgentHandle.ts"

/** Replaces the result of a drive if another process drives the run. */
export const elsewhere = Symbol("elsewhere")

/** The result of a drive. */
export type Driven<Output> = RunResult<Output> | typeof elsewhere

/** The outcome of a run, as its handle reports it. */
export type Ended<Output, E> = Exit.Exit<RunResult<Output>, HandleError | E>

/** Why a run is driven: `goOn` resumes it; `look` first reads it, and resumes it only if it needs a worker. */
export type DriveIntent = "goOn" | "look"

type Phase =
  /** The run has not started. */
  | { readonly _tag: "new" }
  /** The run waits for a slot of its conductor. */
  | { readonly _tag: "queued"; readonly intent: DriveIntent }
  /** The run has failed and waits for its next attempt. */
  | { readonly _tag: "backingOff" }
  /** This process drives the run, in a slot of its conductor or without one. */
  | { readonly _tag: "driving"; readonly intent: DriveIntent; readonly hasSlot: boolean }
  /** The run waits for a decision, a time or a result, or for a slot of a conductor that this handle does not have. */
  | { readonly _tag: "held" }
  /** Another process drives the run. */
  | { readonly _tag: "elsewhere" }
  /** The handle does not follow the run any more: the run has ended, failed to start, cannot be followed, or was suspended. */
  | { readonly _tag: "over" }

export interface HandleState<Output, E> {
  readonly phase: Phase
  /** The outcome of the last hold, or the final one. */
  readonly exit: Ended<Output, E> | undefined
  /** The reason of the cancellation, if one was requested. */
  readonly cancelReason: string | undefined
  /** The number of `send` calls in progress. Each may deliver a message and several decisions, which belong together. */
  readonly sending: number
  /** Whether the run is resumed when no `send` call is in progress any more. */
  readonly resumesWhenSent: boolean
  /** Whether the run has a conductor, and so is driven only in a slot. */
  readonly needsSlot: boolean
  /** Whether the run is resumed after a retryable failure. */
  readonly isRestarted: boolean
}

export type HandleEvent<Output, E> =
  | { readonly _tag: "begin"; readonly hasSlot: boolean; readonly cancelReason: string | undefined }
  /** The gate has granted a slot. */
  | { readonly _tag: "slotGranted" }
  /** The drive has ended. */
  | { readonly _tag: "driven"; readonly exit: DriveExit<Output, E>; readonly hasNews: boolean }
  /** The result of a stored run was read, without a drive. */
  | {
      readonly _tag: "found"
      readonly result: Driven<Output>
      readonly hasNews: boolean
      readonly cancelReason: string | undefined
    }
  /** Another process has started or ended a run that waited for its slot here. */
  | { readonly _tag: "overtaken"; readonly result: Driven<Output> }
  /** Mail has arrived, or another process has changed the run. */
  | { readonly _tag: "call"; readonly intent: DriveIntent }
  | { readonly _tag: "sending" }
  | { readonly _tag: "sent"; readonly hasNews: boolean }
  | { readonly _tag: "cancel"; readonly reason: string }
  | { readonly _tag: "retry" }
  | { readonly _tag: "finish"; readonly exit: Ended<Output, E> }

/** The exit of a drive. */
type DriveExit<Output, E> = Exit.Exit<Driven<Output>, HandleError | E>

export type HandleAction<Output, E> =
  /** Notifies the listeners of a change. */
  | { readonly _tag: "notify" }
  /** Waits for a slot. Runs that were running before precede new ones. */
  | { readonly _tag: "enterGate"; readonly wasAtWork: boolean }
  /** Releases the slot. */
  | { readonly _tag: "leaveGate" }
  /** Ends the wait for a slot or for the next attempt. */
  | { readonly _tag: "withdraw" }
  | { readonly _tag: "drive" }
  | { readonly _tag: "cancelDrive"; readonly reason: string }
  /** Starts to watch for changes that resume the run. */
  | { readonly _tag: "park" }
  | { readonly _tag: "unpark" }
  /** Waits for the next attempt. Finishes with `exit` if there is none. */
  | { readonly _tag: "backOff"; readonly error: RunError; readonly exit: Ended<Output, E> }
  /** Frees the resources of the handle. */
  | { readonly _tag: "cleanUp" }

export type Transition<Output, E> = readonly [HandleState<Output, E>, ReadonlyArray<HandleAction<Output, E>>]

/** The state of the handle of a run that has not started. */
export const initial = (options: {
  readonly needsSlot: boolean
  readonly isRestarted: boolean
}): HandleState<never, never> => ({
  phase: { _tag: "new" },
  exit: undefined,
  cancelReason: undefined,
  sending: 0,
  resumesWhenSent: false,
  ...options
})

/** The status that a handle in this state reports. */
export const statusIn = ({ exit, phase }: HandleState<unknown, unknown>): HandleStatus => {
  switch (phase._tag) {
    case "new":
    case "queued":
    case "backingOff":
      return "queued"
    case "driving":
    case "elsewhere":
      return "running"
    case "held":
      return exit !== undefined && Exit.isSuccess(exit) && isQueued(exit.value.state) ? "queued" : "held"
    case "over":
      return exit === undefined ? "suspended" : statusOf(exit)
  }
}

/** The status of a run with this outcome. */
export const statusOf = (exit: Ended<unknown, unknown>): HandleStatus => {
  if (Exit.isFailure(exit)) {
    const error = Exit.findErrorOption(exit)
    const tag = error._tag === "Some" ? (error.value as { readonly _tag?: string })._tag : undefined
    return tag === "RunSuspended" ? "suspended" : "error"
  }
  return exit.value.status === "interrupted" ? "held" : exit.value.status
}

/** Returns the state after an event, and the actions to perform, in order. */
export const transition = <Output, E>(
  state: HandleState<Output, E>,
  event: HandleEvent<Output, E>
): Transition<Output, E> => {
  const { phase } = state
  // The run was cancelled or finished before it started.
  if (event._tag === "begin" && phase._tag !== "new")
    return [state, event.hasSlot ? [{ _tag: "leaveGate" }] : none]
  if (phase._tag === "over") return [state, none]
  switch (event._tag) {
    case "begin": {
      const begun = { ...state, cancelReason: event.cancelReason }
      return event.hasSlot ? drive(begun, "goOn", true) : enterGate(begun, "goOn", false)
    }
    case "slotGranted":
      return phase._tag === "queued" ? drive(state, phase.intent, true) : [state, none]
    case "driven":
      return leaveGate(
        phase,
        Exit.isSuccess(event.exit)
          ? afterDrive(state, event.exit.value, event.hasNews)
          : over(state, Exit.failCause(event.exit.cause))
      )
    case "found": {
      if (phase._tag !== "new") return [state, none]
      const found = { ...state, cancelReason: event.cancelReason }
      const isToEnd = event.result === elsewhere && found.cancelReason !== undefined
      return isToEnd ? drive(found, "goOn") : afterDrive(found, event.result, event.hasNews)
    }
    case "overtaken": {
      if (phase._tag !== "queued") return [state, none]
      const [next, actions] = afterDrive(state, event.result, false)
      return [next, [{ _tag: "withdraw" }, { _tag: "unpark" }, ...actions]]
    }
    case "call":
      return call(state, event.intent)
    case "sending":
      return [{ ...state, sending: state.sending + 1 }, none]
    case "sent": {
      const sent = { ...state, sending: state.sending - 1 }
      return sent.resumesWhenSent || event.hasNews ? call(sent, "goOn") : [sent, none]
    }
    case "cancel":
      return cancel(state, event.reason)
    case "retry":
      return phase._tag === "backingOff" ? enterGate(state, "goOn", true) : [state, none]
    case "finish":
      return leaveGate(phase, over(state, event.exit))
  }
}

const none: ReadonlyArray<never> = []

/** Drives the run as soon as it has a slot, if it needs one. A run needs no slot to be cancelled. */
const enterGate = <Output, E>(
  state: HandleState<Output, E>,
  intent: DriveIntent,
  wasAtWork: boolean
): Transition<Output, E> =>
  state.needsSlot && state.cancelReason === undefined
    ? [
        { ...state, phase: { _tag: "queued", intent } },
        [{ _tag: "enterGate", wasAtWork }, { _tag: "notify" }]
      ]
    : drive(state, intent)

const drive = <Output, E>(
  state: HandleState<Output, E>,
  intent: DriveIntent,
  hasSlot = false
): Transition<Output, E> => [
  { ...state, phase: { _tag: "driving", intent, hasSlot } },
  [{ _tag: "notify" }, { _tag: "drive" }]
]

/** Adds the release of the slot after a drive. It precedes `notify`, so that listeners find the next run already running. */
const leaveGate = <Output, E>(before: Phase, [next, actions]: Transition<Output, E>): Transition<Output, E> =>
  before._tag === "driving" && before.hasSlot
    ? [next, [...actions.filter(({ _tag }) => _tag !== "notify"), { _tag: "leaveGate" }, { _tag: "notify" }]]
    : [next, actions]

const over = <Output, E>(state: HandleState<Output, E>, exit: Ended<Output, E>): Transition<Output, E> => [
  { ...state, phase: { _tag: "over" }, exit },
  [...(isWaiting(state) ? [{ _tag: "withdraw" } as const] : []), { _tag: "cleanUp" }, { _tag: "notify" }]
]

const isWaiting = ({ phase }: HandleState<unknown, unknown>): boolean =>
  phase._tag === "queued" || phase._tag === "backingOff"

/** Acts on the result of a drive. */
const afterDrive = <Output, E>(
  state: HandleState<Output, E>,
  result: Driven<Output>,
  hasNews: boolean
): Transition<Output, E> => {
  if (result === elsewhere) {
    return [
      { ...state, exit: undefined, phase: { _tag: "elsewhere" } },
      [{ _tag: "notify" }, { _tag: "park" }]
    ]
  }
  const exit = Exit.succeed(result)
  if (result.status === "interrupted") {
    if (state.cancelReason !== undefined) return drive(state, "goOn")
    if (hasNews && state.sending === 0) return enterGate({ ...state, exit }, "goOn", true)
    return [{ ...state, exit, phase: { _tag: "held" } }, [{ _tag: "notify" }, { _tag: "park" }]]
  }
  if (!state.isRestarted || state.cancelReason !== undefined || !mayPass(result)) return over(state, exit)
  const backOff = { _tag: "backOff", error: result.error, exit } as const
  return [{ ...state, phase: { _tag: "backingOff" } }, [backOff, { _tag: "notify" }]]
}

/** Whether the run has failed with a retryable error. */
const mayPass = (result: RunResult<unknown>): result is Extract<RunResult, { status: "error" }> =>
  result.status === "error" && result.error._tag === "ModelFailed" && result.error.isRetryable

/** Resumes a run that is neither driven nor waiting to be driven. During a `send`, it is resumed when that has ended. */
const call = <Output, E>(state: HandleState<Output, E>, intent: DriveIntent): Transition<Output, E> => {
  if (state.phase._tag === "driving" || isWaiting(state)) return [state, none]
  if (state.sending > 0) return [{ ...state, resumesWhenSent: true }, none]
  const [next, actions] = enterGate({ ...state, resumesWhenSent: false }, intent, true)
  return [next, [{ _tag: "unpark" }, ...actions]]
}

const cancel = <Output, E>(state: HandleState<Output, E>, reason: string): Transition<Output, E> => {
  if (state.cancelReason !== undefined) return [state, none]
  const cancelled = { ...state, cancelReason: reason }
  if (state.phase._tag === "driving") return [cancelled, [{ _tag: "cancelDrive", reason }]]
  const [next, actions] = drive(cancelled, "goOn")
  return [next, [{ _tag: isWaiting(state) ? "withdraw" : "unpark" }, ...actions]]
}
