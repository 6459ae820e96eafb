/**
 * The loop: asks `next` what has to happen, makes it happen, folds the events, until the run is held or over.
 *
 * This is the only place with effects between a state and its successor. It never runs user code to find out where it was, it
 * calls the model only when every call of the turn is settled, and it commits before it does what must not be done twice. One
 * mechanism stops it, whoever asks: the cancellation token interrupts the fiber that drives, and interrupting the fiber that
 * waits for it cancels the token.
 *
 * @since 0.1.0
 */
import type * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Effectable from "effect/Effectable"
import * as Exit from "effect/Exit"
import type * as Cancellation from "../../agent/Cancellation.ts"
import { type Missing, obstacleOf } from "../../agent/internal/definitions.ts"
import { isTurnDue, turn } from "../../agent/internal/eventLoop.ts"
import { notify } from "../../agent/internal/userCode.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import { next, type Step } from "../../domain/next.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import { type RunState, isEnded } from "../../domain/RunState.ts"
import type { Leaving } from "../leaving.ts"
import { askModel } from "../steps/askModel.ts"
import { classifyAll } from "../steps/classify.ts"
import { decodeOutput } from "../steps/decodeOutput.ts"
import { handOff } from "../steps/handOff.ts"
import { openLimit, withdrawLimits } from "../steps/limits.ts"
import { reconcile, settle } from "../steps/settle.ts"
import { settleAgents } from "../steps/settleAgents.ts"
import {
  askWrapUp,
  awaitChildren,
  goOnInBackground,
  resumeChildren,
  startBackground
} from "../steps/subAgents.ts"
import { wakeAtExpiry } from "./asking.ts"
import { cannotGoOn, endedBeside, settleBeside, wake } from "./beside.ts"
import { cancellation } from "./cancellation.ts"
import { finish, hold, letGo } from "./comeToRest.ts"
import { confirmHeld } from "./confirmHeld.ts"
import { decideInline } from "./decideInline.ts"
import {
  type Doing,
  Drive,
  type DriveError,
  Scope,
  emitRoot,
  flush,
  isEnding,
  now,
  stateOf,
  tellAll
} from "./Drive.ts"
import { failWith } from "./failWith.ts"
import { holdIdle } from "./holdIdle.ts"
import type { Journal, JournalError } from "./Journal.ts"
import { leave, takeMail } from "./leave.ts"
import { beginsUnheard, hearStops, mayBeHalted } from "./stops.ts"
import { Supervisor } from "./Supervisor.ts"

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
  /** Lets go of the run without ending it. */
  readonly leaving?: Leaving | undefined
  /** Whether there is mail for it already. */
  readonly hasMail?: boolean
  /** What the program has no definition of, as far as it is known. */
  readonly missing?: Missing | undefined
  /** Told how to see how the run stands. */
  readonly onStart?: (state: () => RunState) => void
}

/**
 * Drives a run until it is held or over, or let go of, and returns its state then. To be run once. What it was given is not kept: a run
 * may wait for long.
 */
export const drive = (options: DriveOptions): Effect.Effect<RunState, DriveError> =>
  new Driving(begin(options))

/** An object, and not a function: it is kept for as long as the run waits, and all that it needs with it. */
class Driving extends Effectable.Class<RunState, DriveError> {
  private readonly running: Drive

  constructor(running: Drive) {
    super()
    this.running = running
  }

  // An interruption may come at any time: it is turned into a cancellation, and the run comes to its end first.
  asEffect(): Effect.Effect<RunState, DriveError> {
    return Effect.uninterruptibleMask((restoreCaller) =>
      Effect.withFiber(({ context }) => driving(this.running, context, restoreCaller))
    )
  }
}

const begin = (options: DriveOptions): Drive => {
  const running = new Drive({
    runtime: options.runtime,
    token: options.token,
    leaving: options.leaving,
    clock: options.clock,
    journal: options.journal,
    onUpdate: options.onUpdate === undefined ? undefined : guarded(options.onUpdate),
    perform,
    state: options.state,
    hasMail: options.hasMail ?? false,
    missing: options.missing,
    staged: options.staged
  })
  if (running.onUpdate !== undefined) {
    const untold = [...(options.committed ?? []), ...options.staged]
    const before = options.state.revision - untold.length
    untold.forEach((event, index) => running.untold.push({ event, revision: before + index + 1 }))
  }
  options.onStart?.(() => running.state)
  return running
}

const driving = (
  running: Drive,
  context: Context.Context<never>,
  restoreCaller: ConstructorParameters<typeof Supervisor>[3]
): Effect.Effect<RunState, DriveError> => {
  const { leaving, token } = running
  running.context = context
  const unlisten = enter(running)
  const supervisor = new Supervisor(
    running,
    leaving === undefined ? [token] : [token, leaving.now],
    context,
    restoreCaller
  )
  const left = (exit: Exit.Exit<RunState, DriveError>) => {
    unlisten()
    supervisor.close()
    token.release()
    running.runtime.runs.delete(running)
    // What was left behind may go on telling.
    running.onUpdate = undefined
    return exit
  }
  return Effect.matchCauseEffect(Effect.suspend(new Loop(running, supervisor).go), {
    onSuccess: (state) => left(Exit.succeed(state)),
    onFailure: (cause) => {
      // What goes on beside the loop can write nothing either.
      token.cancel(cannotGoOn)
      const ended = Effect.andThen(settleBeside(running), failWith(running, cause))
      return Effect.flatMap(Effect.exit(ended), left)
    }
  })
}

/** Lets whoever has to do with the run find it. Returns how to stop listening for its mail. */
const enter = (drive: Drive): (() => void) => {
  const { journal, runtime } = drive
  runtime.runs.add(drive)
  const closed = runtime.cancellation.reason()
  if (closed !== undefined) drive.cancel(closed)
  return journal.onMail(() => {
    drive.hasMail = true
    wake(drive)
  })
}

/** Somebody who watches must not be able to break the run. */
const guarded =
  (onUpdate: (update: RunUpdate) => void) =>
  (update: RunUpdate): void =>
    notify(onUpdate, update)

/** The loop of the root's run. One waits with its run: small. */
class Loop {
  private readonly root: Scope
  private readonly supervisor: Supervisor

  constructor(drive: Drive, supervisor: Supervisor) {
    this.root = new Scope(drive, drive.token)
    this.supervisor = supervisor
  }

  /** Takes one step after the other until the run is held or over. */
  readonly go = (): Effect.Effect<RunState, DriveError> => {
    const { root } = this
    const { drive } = root
    if (!drive.isBegun) return Effect.flatMapEager(beginning(drive), this.go)
    if (isTurnDue()) return Effect.flatMap(turn, this.go)
    const step = nextAlone(root)
    if (step === undefined) return this.attend()
    if (isTaken(step)) return this.take(step)
    if (step._tag !== "Finish" || step.end._tag !== "completed" || isEnded(drive.state)) return this.attend()
    const left = leave(drive, { _tag: "run.completed", at: now(drive) })
    return Effect.flatMapEager(left, (isLeft) => (isLeft ? Effect.succeed(drive.state) : this.go()))
  }

  private attend(): Effect.Effect<RunState, DriveError> {
    const { supervisor, root } = this
    return Effect.flatMap(attending(root, supervisor), (step) =>
      step === undefined ? Effect.succeed(root.drive.state) : this.take(step)
    )
  }

  private take(step: Doing): Effect.Effect<RunState, DriveError> {
    return Effect.flatMap(take(this.root, step, this.supervisor), this.go)
  }
}

/** The next step, where there is nothing to see to before it: most of the time. */
const nextAlone = (root: Scope): Step | undefined => {
  const { drive } = root
  const { background } = drive.state
  const isAlone = drive.beside === undefined && background === undefined && !drive.hasMail && !drive.hasEnding
  if (!isAlone || isEnding(root) || drive.journal.isStale()) return undefined
  const step = next(drive.state, drive.above)
  return mayBeHalted(root) && beginsUnheard(drive.state, step) ? undefined : step
}

/** Commits and tells what it was begun with. */
const beginning = (drive: Drive): Effect.Effect<void, JournalError> => {
  drive.isBegun = true
  if (!isEnded(drive.state)) holdIdle(drive)
  if (drive.staged.length === 0) tellAll(drive)
  return startsWithCalls(drive) ? Effect.void : flush(drive)
}

/** Whether the loop takes the step as it is. */
const isTaken = (step: Step): step is Doing =>
  step._tag !== "Finish" && step._tag !== "DecodeOutput" && step._tag !== "Hold"

/** Sees to all that comes before the next step. Returns the step; none, when the run is held or over. */
const attending = Effect.fnUntraced(function* (root: Scope, supervisor: Supervisor) {
  const { drive } = root
  let isHeard = false
  while (true) {
    const { failure } = drive.beside ?? {}
    if (failure !== undefined) {
      return yield* failure as Exit.Failure<never, JournalError>
    }
    const cancelled = drive.token.reason()
    root.seen = endedBeside(drive)
    // What was decided before a run is cancelled belongs to what is said of it.
    if (drive.hasMail || drive.hasEnding || cancelled !== undefined) {
      yield* takeMail(drive)
      // It may be for a sub-agent of one that waits.
      wake(drive)
    }
    const step = next(drive.state, drive.above)
    if (cancelled !== undefined && !(step._tag === "Finish" && isEnded(drive.state))) {
      yield* settleBeside(drive)
      for (const event of cancellation(drive.state, now(drive), cancelled)) emitRoot(drive, event)
      yield* flush(drive)
      return undefined
    }
    switch (step._tag) {
      case "Finish":
        if (yield* finish(root, step, supervisor)) return undefined
        break
      case "DecodeOutput":
        if (root.holder === undefined) {
          drive.addMissing(obstacleOf(root.first, drive.state))
          break
        }
        if (yield* decodeOutput(root, step.text, supervisor)) return undefined
        if (drive.leaving?.now.reason() !== undefined && drive.token.reason() === undefined) {
          yield* letGo(drive)
          return undefined
        }
        break
      case "Hold":
        if (yield* hold(root, supervisor)) return undefined
        break
      default:
        // It was cancelled since: that is an end, and not a letting go.
        if (drive.token.reason() !== undefined) break
        if (isEnding(root)) {
          yield* letGo(drive)
          return undefined
        }
        if (!isHeard && mayBeHalted(root) && beginsUnheard(drive.state, step)) {
          isHeard = true
          yield* hearStops(root)
          break
        }
        yield* confirmHeld(drive)
        yield* goOnInBackground(root)
        return step
    }
  }
})

/**
 * Whether all that it was begun with is decisions, and the calls that they release come next: those are not started before a commit,
 * which then holds both.
 */
const startsWithCalls = (drive: Drive): boolean =>
  !drive.hasMail &&
  drive.state.background === undefined &&
  drive.staged.every((event) => event._tag === "request.decided" || event._tag === "run.resumed") &&
  next(drive.state, drive.above)._tag === "SettleToolCalls"

/** Takes a step. Where it waits for sub-agents, people can be asked meanwhile. */
const take = (root: Scope, step: Doing, supervisor: Supervisor): Effect.Effect<void, DriveError> =>
  step._tag === "AwaitChildren" || step._tag === "ResumeChildren"
    ? takeBeside(root, step, supervisor)
    : perform(root, step, supervisor)

const takeBeside = Effect.fnUntraced(function* (root: Scope, step: Doing, supervisor: Supervisor) {
  const { drive } = root
  yield* drive.journal.watch
  yield* decideInline(root)
  const unset = wakeAtExpiry(drive)
  yield* Effect.ensuring(perform(root, step, supervisor), Effect.sync(unset))
})

/** Whether a step is the agent's own: the others are about budgets, and about the runs under it. */
const needsDefinition = ({ _tag }: Doing): boolean => {
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

/** Makes one step happen, in the run of one agent of the tree. */
const perform = (scope: Scope, step: Doing, supervisor: Supervisor): Effect.Effect<void, DriveError> => {
  if (needsDefinition(step) && scope.holder === undefined) {
    // The runtime has been reconfigured since the run was taken up.
    return Effect.succeed(scope.drive.addMissing(obstacleOf(scope.first, stateOf(scope))))
  }
  switch (step._tag) {
    case "CallModel":
      return askModel(scope, step.turn, supervisor)
    case "ClassifyCalls":
      return classifyAll(scope, step.callIds, supervisor)
    case "SettleToolCalls":
      return settle(scope, step.callIds, supervisor)
    case "Reconcile":
      return reconcile(scope, step.callIds, supervisor)
    case "AskLimit":
      return Effect.succeed(openLimit(scope, step.exceeded))
    case "DecodeOutput":
      return Effect.asVoid(decodeOutput(scope, step.text, supervisor))
    case "Withdraw":
      withdrawLimits(scope, step.requests)
      // Before anything follows from it: a decision that came first takes it back.
      return flush(scope.drive)
    case "AskWrapUp":
      return askWrapUp(scope, step.exceeded)
    case "ResumeChildren":
      return resumeChildren(scope, step.callIds, supervisor)
    case "AwaitChildren":
      return awaitChildren(scope, supervisor)
    case "StartBackground":
      return startBackground(scope, step.callId)
    case "SettleAgents":
      return settleAgents(scope, step.callId)
    case "HandOff":
      return handOff(scope, step.callId)
  }
}
