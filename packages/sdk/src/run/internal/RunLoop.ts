/**
 * The loop: asks `next` what has to happen, makes it happen, folds the events, until the run is held or over.
 *
 * This is the only place with effects between a state and its successor. It never runs user code to find out where it was, it
 * calls the model only when every call of the turn is settled, and it commits before it does what must not be done twice. One
 * mechanism stops it: the cancellation token, which stops what the loop waits for. Interrupting the fiber that waits for the run cancels
 * the token.
 *
 * @since 0.1.0
 */
import type * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Cancellation from "../../agent/Cancellation.ts"
import type { Suspension } from "../../agent/Cancellation.ts"
import { type Missing, obstacleOf } from "../../agent/internal/definitions.ts"
import { isTurnDue, turn } from "../../agent/internal/eventLoop.ts"
import { notify } from "../../agent/internal/userCode.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import { next, type Step } from "../../domain/next.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import { type RunState, isEnded } from "../../domain/RunState.ts"
import { callModel } from "../steps/callModel.ts"
import { classifyAll } from "../steps/classify.ts"
import { decodeOutput } from "../steps/decodeOutput.ts"
import { handOff } from "../steps/handOff.ts"
import { askLimit, withdrawLimits } from "../steps/limits.ts"
import { reconcile } from "../steps/reconcile.ts"
import { settle } from "../steps/settle.ts"
import { settleAgents } from "../steps/settleAgents.ts"
import {
  askWrapUp,
  awaitChildren,
  goOnInBackground,
  resumeChildren,
  startBackground
} from "../steps/subAgents.ts"
import { type ActiveStep, isEnding, stateOf, AgentRun } from "./AgentRun.ts"
import { cancellation } from "./cancellation.ts"
import { finish, hold, suspend, holdIdle } from "./comeToRest.ts"
import { flush } from "./commit.ts"
import { confirmLease } from "./confirmLease.ts"
import { wakeAtExpiry, decideUnattended } from "./decideUnattended.ts"
import { Drive, type DriveError, emitRoot, now, publishAll } from "./Drive.ts"
import { failWith } from "./failRun.ts"
import type { Journal } from "./Journal.ts"
import { beginsUnheard, hearStops, mayBeHalted } from "./stops.ts"
import { takeMail } from "./takeMail.ts"
import { cannotGoOn } from "./Tasks.ts"

/** How a run is driven. */
export interface DriveOptions {
  readonly clock: Clock.Clock
  readonly runtime: Runtime
  readonly journal: Journal
  readonly token: Cancellation.CancellationToken
  readonly onUpdate: ((update: RunUpdate) => void) | undefined
  /** The state to go on from. */
  readonly state: RunState
  /** Events that are folded into `state` already and not committed. */
  readonly staged: ReadonlyArray<RunEvent>
  /** Events that are committed already and that nobody has been told. */
  readonly committed?: ReadonlyArray<RunEvent>
  /** Suspends the run: stops working on it without ending it. */
  readonly suspension?: Suspension | undefined
  /** Whether there is mail for it already. */
  readonly hasMail?: boolean
  /** What the program has no definition of, as far as it is known. */
  readonly missing?: Missing | undefined
  /** Told how to see how the run stands. */
  readonly onStart?: (state: () => RunState) => void
}

/** Drives a run until it is held or over, or suspended, and returns its state then. To be run once. */
export const drive = (options: DriveOptions): Effect.Effect<RunState, DriveError> =>
  // What it was given is not kept: a run may wait for long.
  driving(begin(options), options.onStart)

const begin = (options: DriveOptions): Drive => {
  const drive = new Drive({
    runtime: options.runtime,
    token: options.token,
    suspension: options.suspension,
    clock: options.clock,
    journal: options.journal,
    onUpdate: options.onUpdate === undefined ? undefined : guarded(options.onUpdate),
    state: options.state,
    hasMail: options.hasMail ?? false,
    missing: options.missing,
    staged: options.staged
  })
  if (drive.onUpdate !== undefined) {
    const unpublished = [...(options.committed ?? []), ...options.staged]
    const before = options.state.revision - unpublished.length
    unpublished.forEach((event, index) => drive.unpublished.push({ event, revision: before + index + 1 }))
  }
  return drive
}

/** Somebody who watches must not be able to break the run. */
const guarded =
  (onUpdate: (update: RunUpdate) => void) =>
  (update: RunUpdate): void =>
    notify(onUpdate, update)

// An interruption may come at any time: it is turned into a cancellation, and the run comes to its end first.
const driving = (drive: Drive, onStart: DriveOptions["onStart"]): Effect.Effect<RunState, DriveError> =>
  Effect.uninterruptibleMask((restoreCaller) =>
    Effect.withFiber(({ context }) => {
      drive.context = context
      const root = new AgentRun(drive, drive.token, perform)
      root.supervisor.restoreCaller = restoreCaller
      const unlisten = enter(drive)
      onStart?.(() => drive.state)
      const ending = Effect.catchCause(loop(root), (cause) => failed(drive, cause))
      return Effect.ensuring(
        ending,
        Effect.sync(() => exit(drive, unlisten))
      )
    })
  )

/** Lets whoever has to do with the run find it. Returns how to stop listening for its mail. */
const enter = (drive: Drive): (() => void) => {
  const { journal, runtime } = drive
  runtime.runs.add(drive)
  const closed = runtime.cancellation.reason()
  if (closed !== undefined) drive.cancel(closed)
  return journal.onMail(() => {
    drive.hasMail = true
    drive.notify()
  })
}

const exit = (drive: Drive, unlisten: () => void): void => {
  unlisten()
  drive.token.release()
  drive.runtime.runs.delete(drive)
  // What was left behind may go on telling.
  drive.onUpdate = undefined
}

/** The loop has failed. What goes on beside it can write nothing either. */
const failed = (drive: Drive, cause: Cause.Cause<DriveError>): Effect.Effect<RunState, DriveError> => {
  drive.token.cancel(cannotGoOn)
  return Effect.andThen(drive.tasks.ended, failWith(drive, cause))
}

/** Takes one step of the root's run after the other, until it is held or over, or suspended. */
const loop = Effect.fnUntraced(function* (root: AgentRun): Effect.fn.Return<RunState, DriveError> {
  const { drive } = root
  if (!isEnded(drive.state)) holdIdle(drive)
  if (drive.staged.length === 0) publishAll(drive)
  if (!startsWithCalls(drive)) yield* flush(drive)
  let isHeard = false
  while (true) {
    if (isTurnDue()) yield* turn
    if (drive.failure !== undefined) return yield* Effect.failCause(drive.failure)
    const cancelled = drive.token.reason()
    root.seen = drive.changes
    // What was decided before a run is cancelled belongs to what is said of it.
    if (drive.hasMail || drive.hasEnding || cancelled !== undefined) {
      yield* takeMail(drive)
      // It may be for a sub-agent of one that waits.
      drive.notify()
    }
    const step = next(drive.state, drive.constraints)
    if (cancelled !== undefined && !(step._tag === "Finish" && isEnded(drive.state))) {
      yield* cancel(drive, cancelled)
      return drive.state
    }
    if (step._tag === "Hold" || step._tag === "Finish" || step._tag === "DecodeOutput") {
      if (yield* comeToRest(root, step)) return drive.state
      continue
    }
    // It was cancelled since: that is an end, and not a letting go.
    if (drive.token.reason() !== undefined) continue
    if (isEnding(root)) {
      yield* suspend(drive)
      return drive.state
    }
    if (!isHeard && beginsUnheard(drive.state, step) && mayBeHalted(root)) {
      isHeard = true
      yield* hearStops(root)
      continue
    }
    isHeard = false
    if (drive.journal.isStale()) yield* confirmLease(drive)
    if (drive.state.background !== undefined) yield* goOnInBackground(root)
    // Where a step waits for sub-agents, people can be asked meanwhile.
    yield* step._tag === "AwaitChildren" || step._tag === "ResumeChildren"
      ? asking(root, perform(root, step))
      : perform(root, step)
  }
})

/** Cancels the run, with everything under it. */
const cancel = Effect.fnUntraced(function* (drive: Drive, reason: string) {
  yield* drive.tasks.ended
  for (const event of cancellation(drive.state, now(drive), reason)) emitRoot(drive, event)
  yield* flush(drive)
})

/** Takes a step that may bring the run to rest. Says whether it has. */
const comeToRest = (
  root: AgentRun,
  step: Extract<Step, { readonly _tag: "Hold" | "Finish" | "DecodeOutput" }>
): Effect.Effect<boolean, DriveError> => {
  switch (step._tag) {
    case "Hold":
      return hold(root)
    case "Finish":
      return finish(root, step)
    case "DecodeOutput":
      return decode(root, step.text)
  }
}

const decode = Effect.fnUntraced(function* (root: AgentRun, text: string) {
  const { drive } = root
  if (root.holder === undefined) {
    drive.addMissing(obstacleOf(root.first, drive.state))
    return false
  }
  if (yield* decodeOutput(root, text)) return true
  if (drive.suspension?.now.reason() === undefined || drive.token.reason() !== undefined) return false
  yield* suspend(drive)
  return true
})

/**
 * Whether all that it was begun with is decisions, and the calls that they release come next: those are not started before a commit,
 * which then holds both.
 */
const startsWithCalls = (drive: Drive): boolean =>
  !drive.hasMail &&
  drive.state.background === undefined &&
  drive.staged.every((event) => event._tag === "request.decided" || event._tag === "run.resumed") &&
  next(drive.state, drive.constraints)._tag === "SettleToolCalls"

/** Asks people about what the sub-agents need while the step waits for them. */
const asking = Effect.fnUntraced(function* (root: AgentRun, step: Effect.Effect<void, DriveError>) {
  const { drive } = root
  yield* drive.journal.watch
  yield* decideUnattended(root)
  const unset = wakeAtExpiry(drive)
  yield* Effect.ensuring(step, Effect.sync(unset))
})

/** Whether a step is the agent's own: the others are about budgets, and about the runs under it. */
const needsDefinition = ({ _tag }: ActiveStep): boolean => {
  switch (_tag) {
    case "AskLimit":
    case "AskWrapUp":
    case "AwaitChildren":
    case "ResumeChildren":
    case "Withdraw":
      return false
    default:
      return true
  }
}

const waitForDefinition = (run: AgentRun): Effect.Effect<void> =>
  Effect.sync(() => run.drive.addMissing(obstacleOf(run.first, stateOf(run))))

/** Makes one step happen, in the run of one agent of the tree. */
const perform = (run: AgentRun, step: ActiveStep): Effect.Effect<void, DriveError> => {
  if (needsDefinition(step) && run.holder === undefined) {
    // The runtime has been reconfigured since the run was taken up.
    return waitForDefinition(run)
  }
  switch (step._tag) {
    case "CallModel":
      return callModel(run, step.turn)
    case "ClassifyCalls":
      return classifyAll(run, step.callIds)
    case "SettleToolCalls":
      return settle(run, step.callIds)
    case "Reconcile":
      return reconcile(run, step.callIds)
    case "AskLimit":
      return askLimit(run, step.exceeded)
    case "DecodeOutput":
      return Effect.asVoid(decodeOutput(run, step.text))
    case "Withdraw":
      return withdrawLimits(run, step.requests)
    case "AskWrapUp":
      return askWrapUp(run, step.exceeded)
    case "ResumeChildren":
      return resumeChildren(run, step.callIds)
    case "AwaitChildren":
      return awaitChildren(run)
    case "StartBackground":
      return startBackground(run, step.callId)
    case "SettleAgents":
      return settleAgents(run, step.callId)
    case "HandOff":
      return handOff(run, step.callId)
  }
}
