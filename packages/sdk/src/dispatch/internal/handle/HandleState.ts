/**
 * What becomes of a run that was dispatched, as data: a state, and what each event makes of it.
 *
 * `transition` decides and does nothing; `HandleMachine` performs the actions in their order. A listener that `notify` calls may bring about
 * another event: what `park` is about is then over, and it is left out.
 */
import * as Exit from "effect/Exit"
import type { RunError } from "../../../domain/RunError.ts"
import type { RunResult } from "../../../run/RunResult.ts"
import type { HandleError, HandleStatus } from "../../AgentHandle.ts"

/** Instead of a result: another process works on the run. */
export const elsewhere = Symbol("elsewhere")

/** What a drive comes to. */
export type Driven<Output> = RunResult<Output> | typeof elsewhere

/** What the run came to. */
export type Ended<Output, E> = Exit.Exit<RunResult<Output>, HandleError | E>

/** Why a run is driven: `goOn` to resume it, `look` to read it, since another process may have done the work. */
export type DriveIntent = "goOn" | "look"

type Phase =
  /** It has not been begun. */
  | { readonly _tag: "new" }
  /** It waits for a slot among the runs of its conductor. */
  | { readonly _tag: "queued"; readonly urge: DriveIntent }
  /** It has failed, and waits before it is tried again. */
  | { readonly _tag: "backingOff" }
  /** This process works on it, in a slot of its conductor's or without one. */
  | { readonly _tag: "driving"; readonly urge: DriveIntent; readonly hasSlot: boolean }
  /** It waits for a decision. */
  | { readonly _tag: "held" }
  /** Another process works on it. */
  | { readonly _tag: "elsewhere" }
  /** This handle will see nothing more of it. */
  | { readonly _tag: "over" }

export interface HandleState<Output, E> {
  readonly phase: Phase
  /** What it came to when it was held last, or in the end. */
  readonly exit: Ended<Output, E> | undefined
  /** Why it is to end. */
  readonly cancelReason: string | undefined
  /** How many messages are being sent that have several parts. */
  readonly sending: number
  /** Whether it is to be gone on with when all of them are sent. */
  readonly isCalled: boolean
  /** Whether it works only while it has a slot. */
  readonly needsSlot: boolean
  /** Whether it is tried again after a failure that may pass. */
  readonly isRestarted: boolean
}

export type HandleEvent<Output, E> =
  | { readonly _tag: "begin"; readonly hasSlot: boolean; readonly cancelReason: string | undefined }
  /** A slot is free for it. */
  | { readonly _tag: "slotGranted" }
  /** The work on it here has ended. */
  | { readonly _tag: "driven"; readonly exit: DriveExit<Output, E>; readonly hasNews: boolean }
  /** It is known how it stands, without work on it. */
  | {
      readonly _tag: "found"
      readonly result: Driven<Output>
      readonly hasNews: boolean
      readonly cancelReason: string | undefined
    }
  /** Something has come in, or is to be looked at. */
  | { readonly _tag: "call"; readonly urge: DriveIntent }
  | { readonly _tag: "sending" }
  | { readonly _tag: "sent"; readonly hasNews: boolean }
  | { readonly _tag: "cancel"; readonly reason: string }
  | { readonly _tag: "retry" }
  | { readonly _tag: "finish"; readonly exit: Ended<Output, E> }

/** How the work on a run has ended. */
type DriveExit<Output, E> = Exit.Exit<Driven<Output>, HandleError | E>

export type HandleAction<Output, E> =
  /** Says that something has changed. */
  | { readonly _tag: "notify" }
  /** Waits for a slot. A run that was at work before goes first. */
  | { readonly _tag: "enterGate"; readonly wasAtWork: boolean }
  /** Gives its slot to another run. */
  | { readonly _tag: "leaveGate" }
  /** Stops waiting: for a slot, or before it is tried again. */
  | { readonly _tag: "withdraw" }
  | { readonly _tag: "drive" }
  | { readonly _tag: "cancelDrive"; readonly reason: string }
  /** Watches for what makes it go on. */
  | { readonly _tag: "park" }
  | { readonly _tag: "unpark" }
  /** Waits before the run is tried again; gives up with `exit`. */
  | { readonly _tag: "backOff"; readonly error: RunError; readonly exit: Ended<Output, E> }
  /** Frees everything that it uses. */
  | { readonly _tag: "cleanUp" }

export type Transition<Output, E> = readonly [HandleState<Output, E>, ReadonlyArray<HandleAction<Output, E>>]

/** The state of a run that has not been begun. */
export const initial = (options: {
  readonly needsSlot: boolean
  readonly isRestarted: boolean
}): HandleState<never, never> => ({
  phase: { _tag: "new" },
  exit: undefined,
  cancelReason: undefined,
  sending: 0,
  isCalled: false,
  ...options
})

/** How a run in this state stands. */
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
      return "held"
    case "over":
      return exit === undefined ? "suspended" : statusOf(exit)
  }
}

/** How a run stands that has come to this. */
export const statusOf = (exit: Ended<unknown, unknown>): HandleStatus => {
  if (Exit.isFailure(exit)) {
    const error = Exit.findErrorOption(exit)
    const tag = error._tag === "Some" ? (error.value as { readonly _tag?: string })._tag : undefined
    return tag === "RunSuspended" ? "suspended" : "error"
  }
  return exit.value.status === "interrupted" ? "held" : exit.value.status
}

/** What an event makes of a run, and what is to be done about it, in this order. */
export const transition = <Output, E>(
  state: HandleState<Output, E>,
  event: HandleEvent<Output, E>
): Transition<Output, E> => {
  const { phase } = state
  // It was cancelled or finished before it started.
  if (event._tag === "begin" && phase._tag !== "new")
    return [state, event.hasSlot ? [{ _tag: "leaveGate" }] : none]
  if (phase._tag === "over") return [state, none]
  switch (event._tag) {
    case "begin": {
      const begun = { ...state, cancelReason: event.cancelReason }
      return event.hasSlot ? drive(begun, "goOn", true) : enterGate(begun, "goOn", false)
    }
    case "slotGranted":
      return phase._tag === "queued" ? drive(state, phase.urge, true) : [state, none]
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
    case "call":
      return call(state, event.urge)
    case "sending":
      return [{ ...state, sending: state.sending + 1 }, none]
    case "sent": {
      const sent = { ...state, sending: state.sending - 1 }
      return sent.isCalled || event.hasNews ? call(sent, "goOn") : [sent, none]
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

/** Works on it as soon as it may. One that is to end needs no slot for that. */
const enterGate = <Output, E>(
  state: HandleState<Output, E>,
  urge: DriveIntent,
  wasAtWork: boolean
): Transition<Output, E> =>
  state.needsSlot && state.cancelReason === undefined
    ? [{ ...state, phase: { _tag: "queued", urge } }, [{ _tag: "enterGate", wasAtWork }, { _tag: "notify" }]]
    : drive(state, urge)

const drive = <Output, E>(
  state: HandleState<Output, E>,
  urge: DriveIntent,
  hasSlot = false
): Transition<Output, E> => [
  { ...state, phase: { _tag: "driving", urge, hasSlot } },
  [{ _tag: "notify" }, { _tag: "drive" }]
]

/** Gives its slot back when it has left it, and then says so: what has waited for the slot is at work by then. */
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

/** Whether the run has failed in a way that may pass. */
const mayPass = (result: RunResult<unknown>): result is Extract<RunResult, { status: "error" }> =>
  result.status === "error" && result.error._tag === "ModelFailed" && result.error.isRetryable

/** Goes on with a run that nothing here works on or waits for; later, while something is being sent to it. */
const call = <Output, E>(state: HandleState<Output, E>, urge: DriveIntent): Transition<Output, E> => {
  if (state.phase._tag === "driving" || isWaiting(state)) return [state, none]
  if (state.sending > 0) return [{ ...state, isCalled: true }, none]
  const [next, actions] = enterGate({ ...state, isCalled: false }, urge, true)
  return [next, [{ _tag: "unpark" }, ...actions]]
}

const cancel = <Output, E>(state: HandleState<Output, E>, reason: string): Transition<Output, E> => {
  if (state.cancelReason !== undefined) return [state, none]
  const cancelled = { ...state, cancelReason: reason }
  if (state.phase._tag === "driving") return [cancelled, [{ _tag: "cancelDrive", reason }]]
  const [next, actions] = drive(cancelled, "goOn")
  return [next, [{ _tag: isWaiting(state) ? "withdraw" : "unpark" }, ...actions]]
}
