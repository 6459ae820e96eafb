/**
 * The loop: asks `next` for the next step, performs it and folds its events, until the run is held, has ended or is suspended.
 *
 * The loop never runs user code to restore its position, it calls the model only when every call of the turn is settled, and it commits
 * before every operation that must not be repeated. Sub-agents have loops of their own, in the tasks of the drive. The cancellation token
 * stops a loop by stopping the work that the loop waits for. Interrupting the fiber that waits for the run cancels the token.
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
import { subscribed } from "../../agent/internal/userCode.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import { next, type Step } from "../../domain/next.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import { type RunState, isEnded } from "../../domain/RunState.ts"
import { callModel } from "../steps/callModel.ts"
import { classifyAll } from "../steps/classify.ts"
import { compact } from "../steps/compact.ts"
import { decodeOutput } from "../steps/decodeOutput.ts"
import { handOff } from "../steps/handOff.ts"
import { askLimit, withdrawLimits } from "../steps/limits.ts"
import { reconcile } from "../steps/reconcile.ts"
import { recordResults } from "../steps/recordResults.ts"
import { settle } from "../steps/settle.ts"
import { settleAgents } from "../steps/settleAgents.ts"
import {
  askWrapUp,
  awaitChildren,
  resumeBackground,
  resumeChildren,
  startBackground
} from "../steps/subAgents.ts"
import { type ActiveStep, isEnding, stateOf, AgentRun } from "./AgentRun.ts"
import { attending } from "./attending.ts"
import { cancellation } from "./cancellation.ts"
import { finish, hold, suspend, holdIdle } from "./comeToRest.ts"
import { flush } from "./commit.ts"
import { confirmLease } from "./confirmLease.ts"
import { wakeAtExpiry, decideUnattended } from "./decideUnattended.ts"
import { Drive, type DriveError, emitRoot, now, publishAll } from "./Drive.ts"
import { failWith } from "./failRun.ts"
import type { Journal } from "./Journal.ts"
import { hearBefore } from "./stops.ts"
import { takeMail } from "./takeMail.ts"
import { cannotGoOn } from "./Tasks.ts"

/** The options of {@link drive}. */
export interface DriveOptions {
  readonly clock: Clock.Clock
  readonly runtime: Runtime
  readonly journal: Journal
  readonly token: Cancellation.CancellationToken
  readonly onUpdate: ((update: RunUpdate) => void) | undefined
  /** The state to continue from. */
  readonly state: RunState
  /** Events that are folded into `state` and not committed. */
  readonly staged: ReadonlyArray<RunEvent>
  /** Events that are committed and not published. */
  readonly committed?: ReadonlyArray<RunEvent>
  /** Suspends the run. */
  readonly suspension?: Suspension | undefined
  /** Whether there is mail already. */
  readonly hasMail?: boolean
  /** The definitions known to be missing in the program. */
  readonly missing?: Missing | undefined
  /** Called once with a function that returns the current state. */
  readonly onStart?: (state: () => RunState) => void
}

/** Drives a run until it is held, has ended or is suspended, and returns its state. The returned effect can be run once. */
export const drive = (options: DriveOptions): Effect.Effect<RunState, DriveError> =>
  // The options are not retained, since the run may wait for long.
  driving(begin(options), options.onStart)

const begin = (options: DriveOptions): Drive => {
  const called = () => ({ code: "onUpdate", runId: drive.runId, agent: drive.runtime.agent.name })
  const drive: Drive = new Drive({
    runtime: options.runtime,
    token: options.token,
    suspension: options.suspension,
    clock: options.clock,
    journal: options.journal,
    onUpdate:
      options.onUpdate === undefined
        ? undefined
        : subscribed(options.runtime, called, () => drive.context, options.onUpdate),
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

// An interruption at any time becomes a cancellation, and takes effect after the run has ended.
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

/** Registers the run with its runtime and subscribes to its mail. Returns the unsubscribe function. */
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
  // Abandoned work may still publish.
  drive.onUpdate = undefined
}

/** Handles the failure of the loop: stops the tasks, whose events can no longer be written, then fails the run. */
const failed = (drive: Drive, cause: Cause.Cause<DriveError>): Effect.Effect<RunState, DriveError> => {
  drive.token.cancel(cannotGoOn)
  return Effect.andThen(drive.tasks.ended, failWith(drive, cause))
}

/** Performs the steps of the root's run until it is held, has ended or is suspended. */
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
    // A cancelled run's report includes the decisions that preceded the cancellation.
    if (drive.hasMail || drive.hasEnding || cancelled !== undefined) {
      yield* takeMail(drive)
      // Resumes the waiting loops of sub-agents, since the mail may be for one of them.
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
    // A cancellation during the wait takes precedence over a suspension.
    if (drive.token.reason() !== undefined) continue
    if (isEnding(root)) {
      yield* suspend(drive)
      return drive.state
    }
    if (!isHeard && (yield* hearBefore(root, drive.state, step))) {
      isHeard = true
      continue
    }
    isHeard = false
    if (drive.journal.isStale()) yield* confirmLease(drive)
    if (drive.state.background !== undefined) yield* resumeBackground(root)
    // While a step waits for sub-agents, their requests can be decided by expiry and the approval callback.
    yield* step._tag === "AwaitChildren" || step._tag === "ResumeChildren"
      ? asking(root, perform(root, step))
      : perform(root, step)
  }
})

/** Cancels the run and the runs under it, after its tasks have ended. */
const cancel = Effect.fnUntraced(function* (drive: Drive, reason: string) {
  yield* drive.tasks.ended
  for (const event of cancellation(drive.state, now(drive), reason, drive.said)) emitRoot(drive, event)
  yield* flush(drive)
  yield* drive.runtime["~sandboxes"].cancelled(drive.state.runId)
})

/** Performs a step that may hold or end the run. Returns whether the drive is over. */
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
  if (!drive.isSuspended() || drive.token.reason() !== undefined) return false
  yield* suspend(drive)
  return true
})

/**
 * Whether the drive began with decisions only, and the calls that they release come next. Their starts are committed before their bodies
 * run, so one commit can hold the decisions and the starts.
 */
const startsWithCalls = (drive: Drive): boolean =>
  !drive.hasMail &&
  drive.state.background === undefined &&
  drive.staged.every((event) => event._tag === "request.decided" || event._tag === "run.resumed") &&
  next(drive.state, drive.constraints)._tag === "SettleToolCalls"

/** Performs a step that waits for sub-agents. Meanwhile their requests are decided by expiry and the approval callback. */
const asking = Effect.fnUntraced(function* (root: AgentRun, step: Effect.Effect<void, DriveError>) {
  const { drive } = root
  yield* decideUnattended(root)
  const unset = wakeAtExpiry(drive)
  yield* Effect.ensuring(step, Effect.sync(unset))
})

/** Whether a step needs the agent's definition. Steps about budgets and about the runs under it do not. */
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

/** Performs a step, after the commit of events that refer to new contents: they are published then. */
const perform = (run: AgentRun, step: ActiveStep): Effect.Effect<void, DriveError> =>
  run.drive.journal.contents?.hasUnstored === true
    ? Effect.andThen(flush(run.drive), attended(run, step))
    : attended(run, step)

/** Performs one step of a run of the tree. Meanwhile, mail and decisions reach the run's sub-agents in the background. */
const attended = (run: AgentRun, step: ActiveStep): Effect.Effect<void, DriveError> => {
  const waits = step._tag === "AwaitChildren" || step._tag === "ResumeChildren"
  const isLead = stateOf(run).background?.some(({ child }) => child !== undefined) === true
  return isLead && !waits ? attending(run, performStep(run, step)) : performStep(run, step)
}

const performStep = (run: AgentRun, step: ActiveStep): Effect.Effect<void, DriveError> => {
  if (needsDefinition(step) && run.holder === undefined) {
    // The runtime was reconfigured after the drive began.
    return waitForDefinition(run)
  }
  switch (step._tag) {
    case "CallModel":
      return callModel(run, step.turn)
    case "Compact":
      return compact(run, step.turn)
    case "ClassifyCalls":
      return classifyAll(run, step.callIds)
    case "SettleToolCalls":
      return settle(run, step.callIds)
    case "RecordResults":
      return recordResults(run, step.callIds)
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
