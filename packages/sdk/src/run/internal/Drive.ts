/**
 * A run while it is being driven: its state, the events that are not committed yet, and who is told.
 *
 * Events are folded as they happen and committed together, before the first thing that must not be repeated: a side-effecting
 * body, a hold, an end. What people act on (requests, decisions, holds, ends) is told after the commit, never before.
 */
import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { holderOf } from "../../agent/BoundAgent.ts"
import type * as Cancellation from "../../agent/Cancellation.ts"
import { type BoundAgent } from "../../agent/Entry.ts"
import { keepCause } from "../../agent/internal/causes.ts"
import { Missing, type Obstacle } from "../../agent/internal/definitions.ts"
import { redactCause } from "../../agent/internal/redactCause.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { LiveRun } from "../../agent/RuntimeDefinition.ts"
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import { timeLeft } from "../../domain/Budget.ts"
import { evolve } from "../../domain/evolve.ts"
import type { RequestId, ToolCallId } from "../../domain/Id.ts"
import * as Id from "../../domain/Id.ts"
import { type Above, nothingAbove, type Step } from "../../domain/next.ts"
import type { AgentNotFound, ToolUnavailable } from "../../domain/RunError.ts"
import { type RunEvent, unwrap, wrap } from "../../domain/RunEvent.ts"
import { type RunState, findCall, findChild, isSettled } from "../../domain/RunState.ts"
import { areEnding } from "../../store/internal/requests.ts"
import { RunConflict } from "../../store/RunStoreError.ts"
import type { AnyTool } from "../../tool/Tool.ts"
import type { Leaving } from "../leaving.ts"
import { takenBack } from "./grantUse.ts"
import type { Journal, JournalError } from "./Journal.ts"
import { redactEvent } from "./redact.ts"
import { Supervisor } from "./Supervisor.ts"
import { endedAfter, foldEach, withoutWithdrawn } from "./takeBack.ts"
import { Tasks } from "./Tasks.ts"

/** What can go wrong while a run is driven. */
export type DriveError = JournalError | ToolUnavailable | AgentNotFound

/** What a drive is made of. */
interface Given {
  readonly runtime: Runtime
  readonly token: Cancellation.CancellationToken
  readonly leaving: Leaving | undefined
  readonly clock: Clock.Clock
  readonly journal: Journal
  readonly onUpdate: ((update: RunUpdate) => void) | undefined
  /** Makes one step happen, in the run of one agent of the tree. */
  readonly perform: Perform
  readonly state: RunState
  /** Whether there may be mail that the state has not. */
  readonly hasMail: boolean
  /** Folded, not committed. */
  readonly staged: ReadonlyArray<RunEvent>
  /** What the program has no definition of, as far as it is known. */
  readonly missing?: Missing | undefined
}

/** One lives as long as its run waits: small. */
export class Drive implements Given, LiveRun {
  readonly runtime: Runtime
  readonly token: Cancellation.CancellationToken
  readonly leaving: Leaving | undefined
  readonly clock: Clock.Clock
  readonly journal: Journal
  /** Nobody, once the drive is over. */
  onUpdate: ((update: RunUpdate) => void) | undefined
  readonly perform: Perform
  /** That of the fiber that drives: user code runs under it. */
  context: Context.Context<never> = Context.empty()
  state: RunState
  /** The state at the last commit, as far as that is known. */
  committed: RunState | undefined
  hasMail: boolean
  /** Whether there is mail that ends a sub-agent: the root's loop takes it. */
  hasEnding = false
  /** Whether what it was begun with has been committed and told. */
  isBegun = false
  /** Model calls in flight, in any run of the tree. */
  asking = 0
  /** What the first task failed with: the loop fails with it, too. */
  failure: Cause.Cause<DriveError> | undefined = undefined
  /** How often something has changed that a loop may wait for. */
  changes = 0
  private ownTasks: Tasks<DriveError> | undefined = undefined
  /** The requests that the approval callback was asked about; made when it is. */
  asked: Set<string> | undefined = undefined
  /** The one about which it has not answered yet. */
  askedNow: RequestId | undefined = undefined
  missing: Missing | undefined
  /** Calls that were let through since the run last waited for anything. */
  fresh: Set<string> | undefined = undefined
  /** Calls of which their tools have found out that no attempt took effect, until their bodies begin. */
  clear: Set<string> | undefined = undefined
  readonly staged: Array<RunEvent>
  /** Folded, not told. */
  readonly untold: Array<{ readonly event: RunEvent; readonly revision: number }> = []

  constructor(given: Given) {
    this.runtime = given.runtime
    this.token = given.token
    this.leaving = given.leaving
    this.clock = given.clock
    this.journal = given.journal
    this.onUpdate = given.onUpdate
    this.perform = given.perform
    this.state = given.state
    this.committed = given.staged.length === 0 ? given.state : undefined
    this.hasMail = given.hasMail
    this.staged = given.staged.slice()
    this.missing = given.missing
  }

  /** What goes on beside the loop. Most runs have nothing. */
  get tasks(): Tasks<DriveError> {
    return (this.ownTasks ??= new Tasks<DriveError>(this))
  }

  /** Whether the loop is the only one that commits, and takes mail. */
  isAlone(): boolean {
    return this.ownTasks === undefined || this.ownTasks.size === 0
  }

  notify(): void {
    this.changes += 1
    this.ownTasks?.resume()
  }

  /** How the root's run stands to the definitions of the program. */
  get above(): Above {
    const { missing } = this
    if (missing === undefined) return nothingAbove
    // The runtime has been reconfigured since.
    if (missing.root !== this.runtime.bound) {
      this.missing = undefined
      return nothingAbove
    }
    return { ...nothingAbove, unavailable: missing }
  }

  /** Puts on the books that the program has no definition of something. */
  addMissing(obstacle: Obstacle): void {
    const { bound } = this.runtime
    if (this.missing?.root !== bound) this.missing = new Missing(bound)
    this.missing.add(obstacle)
  }

  get runId(): string {
    return this.state.runId
  }

  isMidTurn(): boolean {
    return this.asking > 0 || isTurnOpen(this.state)
  }

  cancel(reason: string): void {
    this.token.cancel(reason)
  }
}

const isTurnOpen = (state: RunState): boolean =>
  state.calls.length > 0 ||
  (state.background ?? []).some(({ child }) => child !== undefined && isTurnOpen(child))

/** A step that a run takes by itself: neither over nor waiting for somebody. */
export type Doing = Exclude<Step, { readonly _tag: "Hold" | "Finish" }>

type Perform = (scope: Scope, step: Doing) => Effect.Effect<void, DriveError>

const none: ReadonlyArray<never> = []

/** The run of one agent of the tree: the root's, or a sub-agent's inside a call of its parent. */
export class Scope {
  readonly drive: Drive
  /** The calls that lead from the root to this run. */
  readonly path: ReadonlyArray<ToolCallId>
  readonly parent: Scope | undefined
  /** Stops this run and what is under it. The root's is the drive's. */
  readonly token: Cancellation.CancellationToken
  /** What a sub-agent's run was started with, where the program has it. The root's is the runtime's, which may change. */
  private readonly startedWith: BoundAgent | undefined
  /** Supervises what the run's loop waits for. */
  readonly supervisor: Supervisor
  /** How much had changed when the loop last looked at the state. */
  seen = 0

  constructor(
    drive: Drive,
    token: Cancellation.CancellationToken,
    parent?: Scope,
    callId?: ToolCallId,
    startedWith?: BoundAgent
  ) {
    this.drive = drive
    this.startedWith = startedWith
    this.token = token
    this.parent = parent
    this.path = parent === undefined || callId === undefined ? none : [...parent.path, callId]
    const { leaving } = drive
    this.supervisor = new Supervisor(drive, leaving === undefined ? [token] : [token, leaving.now])
  }

  /** The agent that the run was started with; `undefined` where the program does not have it. */
  get first(): BoundAgent | undefined {
    return this.parent === undefined ? this.drive.runtime.bound : this.startedWith
  }

  /** The agent that has the conversation now; `undefined` where the program does not have it. */
  get holder(): BoundAgent | undefined {
    const { first } = this
    const state = findState(this)
    return first === undefined || state === undefined ? first : holderOf(first, state.agent)
  }

  /** The agent that has the conversation now. No step is taken that needs it where it is missing. */
  get bound(): BoundAgent {
    const { holder } = this
    if (holder === undefined) throw new Error("The agent that has the conversation is missing.")
    return holder
  }
}

export const now = (drive: Drive): number => drive.clock.currentTimeMillisUnsafe()

/** The state of the scope's own run. */
export const stateOf = (scope: Scope): RunState => {
  let state = scope.drive.state
  for (const callId of scope.path) {
    const child = findChild(state, callId)
    if (child === undefined) throw new Error(`The call ${callId} has no run of a sub-agent.`)
    state = child
  }
  return state
}

/** Whether a call of the scope's own run is open. A decision may have settled it while user code was asked about it. */
export const isCallOpen = (scope: Scope, callId: ToolCallId): boolean => {
  const call = findCall(stateOf(scope), callId)
  return call !== undefined && !isSettled(call)
}

/** The states from the root's to that of the scope's own run. */
export const statesOf = (scope: Scope): ReadonlyArray<RunState> =>
  scope.parent === undefined ? [scope.drive.state] : [...statesOf(scope.parent), stateOf(scope)]

/** Milliseconds that are left to the scope's own run and the runs above it; `undefined` is without bound. */
export const timeLeftOf = (scope: Scope): number | undefined => {
  const { limits } = scope.drive.state
  if (scope.parent === undefined && limits.maxWallMs === undefined) return undefined
  return timeLeft(statesOf(scope), now(scope.drive))
}

const findState = ({ drive, path }: Scope): RunState | undefined => {
  let state: RunState | undefined = drive.state
  if (path.length > 0)
    for (const callId of path) state = state === undefined ? undefined : findChild(state, callId)
  return state
}

/** Whether the scope's own run is still there: what has ended, and been told to its parent, is not. */
export const isThere = (scope: Scope): boolean => findState(scope) !== undefined

/** What must be committed before anybody is told. */
const isActedOn = (event: RunEvent): boolean => {
  const { _tag } = unwrap(event).event
  return _tag.startsWith("request.") || _tag.startsWith("run.") || _tag.startsWith("grant.")
}

/** Folds an event of the root's run. */
export const emitRoot = (drive: Drive, given: RunEvent, cause?: Cause.Cause<unknown>): void => {
  const event = redactEvent(drive.runtime.scrubber, given)
  if (cause !== undefined) keepCause(event, redactCause(drive.runtime.scrubber, cause))
  drive.state = evolve(drive.state, event)
  if (drive.fresh !== undefined && isWait(event)) drive.fresh = undefined
  if (drive.onUpdate === undefined) {
    if (drive.journal.keepsNothing !== true) drive.staged.push(event)
    return
  }
  drive.staged.push(event)
  const told = { event, revision: drive.state.revision }
  if (drive.untold.length > 0 || isActedOn(event)) drive.untold.push(told)
  else tell(drive, told)
}

/** Folds an event of the scope's run; `cause` is how user code failed, for hooks. */
export const emit = (
  { drive, path }: Pick<Scope, "drive" | "path">,
  event: RunEvent,
  cause?: Cause.Cause<unknown>
): void => emitRoot(drive, path.length === 0 ? event : wrap(event, path), cause)

/** Whether time may have passed, or authority may have changed, before this event. */
const isWait = (event: RunEvent): boolean => {
  const { _tag } = event._tag === "child.advanced" ? unwrap(event).event : event
  return _tag === "request.decided" || _tag === "run.resumed" || _tag === "grant.revoked"
}

const tell = (drive: Drive, told: { readonly event: RunEvent; readonly revision: number }): void =>
  drive.onUpdate?.({ _tag: "event", runId: drive.state.runId, ...told })

/** Tells what has been held back. */
export const tellAll = (drive: Drive): void => {
  if (drive.untold.length > 0) for (const told of drive.untold.splice(0)) tell(drive, told)
}

/** Commits what is staged, then publishes it. One commit at a time: when it has ended, all that was staged before is stored. */
export const flush = (drive: Drive): Effect.Effect<void, JournalError> =>
  Effect.suspend(() => {
    if (drive.staged.length === 0) return Effect.void
    return drive.isAlone() ? commit(drive) : drive.tasks.commits.withPermit(commit(drive))
  })

/** Appends until nothing is staged that was when it began. */
const commit = Effect.fnUntraced(function* (drive: Drive): Effect.fn.Return<void, JournalError> {
  while (drive.staged.length > 0) {
    const events = drive.staged.slice()
    const { state } = drive
    // A store refuses an end that a decision came before; without a store, this does.
    if (drive.hasMail && drive.journal.isShared !== true && areEnding(events)) {
      drive.hasMail = false
      yield* takeBack(drive)
      continue
    }
    const appended = yield* Effect.result(drive.journal.append(events, state))
    if (Result.isFailure(appended)) {
      if (isRefused(appended.failure) && (yield* takeBack(drive))) continue
      return yield* Effect.fail(appended.failure)
    }
    const { cancelReason, hasMail, revoked } = appended.success
    if (revoked !== undefined) {
      for (const event of takenBack(drive.state, events, revoked, now(drive))) emitRoot(drive, event)
      continue
    }
    drive.committed = state
    if (hasMail === true) drive.hasMail = true
    // Others may have staged more meanwhile.
    drive.staged.splice(0, events.length)
    publishUntil(drive, state.revision)
    if (cancelReason !== undefined) drive.token.cancel(cancelReason)
    return
  }
})

/** Whether a store has refused one of the events, and not the revision. */
const isRefused = (error: unknown): boolean => error instanceof RunConflict && error.expected === error.actual

/** Takes back what is staged and cannot be written because of decisions that came first. Whether there is anything like that. */
const takeBack = Effect.fnUntraced(function* (drive: Drive) {
  const { decisions } = yield* drive.journal.mail(() => [])
  const { committed, staged } = drive
  if (committed === undefined) return false
  const ended = endedAfter(committed, staged, decisions)
  const events =
    ended?.map((event) => redactEvent(drive.runtime.scrubber, event)) ?? withoutWithdrawn(staged, decisions)
  if (events === undefined) return false
  restage(drive, committed, events)
  if (ended === undefined) drive.hasMail = true
  return true
})

/** Puts events in the place of what is staged, after the state at the last commit. */
const restage = (drive: Drive, committed: RunState, events: ReadonlyArray<RunEvent>): void => {
  const states = foldEach(committed, events)
  drive.state = states.at(-1) ?? committed
  const untold = drive.untold.splice(0)
  const told = new Set(drive.staged)
  for (const { event } of untold) told.delete(event)
  drive.staged.splice(0, drive.staged.length, ...events)
  if (drive.onUpdate === undefined) return
  drive.untold.push(...untold.filter(({ revision }) => revision <= committed.revision))
  events.forEach((event, index) => {
    if (!told.has(event)) drive.untold.push({ event, revision: states[index]!.revision })
  })
}

const publishUntil = (drive: Drive, revision: number): void => {
  const open = drive.untold.findIndex((told) => told.revision > revision)
  for (const told of drive.untold.splice(0, open < 0 ? drive.untold.length : open)) tell(drive, told)
}

/**
 * Waits until something changes that the scope's loop has not seen, or the loop is stopped. What people act on is stored and published
 * before.
 */
export const awaitChange = Effect.fnUntraced(function* ({ drive, seen, supervisor }: Scope) {
  if (drive.staged.some(isActedOn)) yield* flush(drive)
  if (drive.changes === seen) yield* supervisor.run(drive.tasks.changed)
})

/** The id that the next request of the scope's run has. */
export const nextRequestId = (scope: Scope) => {
  const state = stateOf(scope)
  return Id.requestId(state.runId, state.requests.length + 1)
}

/** How long a body may take: the tool's own time, else the run's. */
export const toolTimeoutMs = (scope: Scope, { options }: AnyTool): number =>
  options.timeout === undefined
    ? stateOf(scope).limits.toolTimeoutMs
    : Duration.toMillis(Duration.fromInputUnsafe(options.timeout))

/** How long a tool may take to say something about a call: as long as a body, and no longer than the run may. */
export const judgingMs = (scope: Scope, tool: AnyTool): number => {
  const own = toolTimeoutMs(scope, tool)
  return Math.max(1, Math.min(own, timeLeftOf(scope) ?? own))
}

/** Whether nothing new is to be begun: the run is cancelled, or let go of. */
export const isEnding = ({ drive, token }: Scope): boolean =>
  token.reason() !== undefined || drive.leaving?.soon.reason() !== undefined

/** Whether something ended because the run is being stopped. User code that interrupts itself has failed like any other. */
export const isStopped = ({ drive, token }: Scope, cause: Cause.Cause<unknown>): boolean =>
  Cause.hasInterruptsOnly(cause) &&
  (token.reason() !== undefined || drive.leaving?.now.reason() !== undefined)
