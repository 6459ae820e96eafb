/**
 * A run while it is driven: its state, the events that are not committed yet, and its subscriber.
 *
 * Events are folded when they are emitted, and are committed together, at the latest before the next body of a call, a hold or an end.
 * Events about requests, grants and the run itself are published after their commit.
 */
import type * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Cancellation from "../../agent/Cancellation.ts"
import type { Suspension } from "../../agent/Cancellation.ts"
import { keepCause, redactCause } from "../../agent/internal/causes.ts"
import { Missing, type Obstacle } from "../../agent/internal/definitions.ts"
import type { logFailure } from "../../agent/internal/userCode.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { LiveRun } from "../../agent/RuntimeDefinition.ts"
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import { evolve } from "../../domain/evolve.ts"
import { childRunId, type RequestId, type RunId, type ToolCallId } from "../../domain/Id.ts"
import type { TextPart } from "../../domain/Message.ts"
import { type Constraints, noConstraints } from "../../domain/next.ts"
import type { AgentNotFound, ToolUnavailable } from "../../domain/RunError.ts"
import { type RunEvent, unwrap, wrap } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { Journal, JournalError } from "./Journal.ts"
import { redactEvent } from "./redact.ts"
import { Tasks } from "./Tasks.ts"

/** Why driving a run failed. */
export type DriveError = JournalError | ToolUnavailable | AgentNotFound

/** The arguments of a drive. */
interface DriveFields {
  readonly runtime: Runtime
  readonly token: Cancellation.CancellationToken
  readonly suspension: Suspension | undefined
  readonly clock: Clock.Clock
  readonly journal: Journal
  readonly onUpdate: ((update: RunUpdate) => void) | undefined
  readonly state: RunState
  /** Whether there may be mail that is not in the state. */
  readonly hasMail: boolean
  /** Events that are folded and not committed. */
  readonly staged: ReadonlyArray<RunEvent>
  /** The definitions known to be missing in the program. */
  readonly missing?: Missing | undefined
}

/** One driven run. It stays in memory while the run waits for work; keep it small. */
export class Drive implements DriveFields, LiveRun {
  readonly runtime: Runtime
  readonly token: Cancellation.CancellationToken
  readonly suspension: Suspension | undefined
  readonly clock: Clock.Clock
  readonly journal: Journal
  /** The subscriber; `undefined` after the drive has ended. */
  onUpdate: ((update: RunUpdate) => void) | undefined
  /** The context of the driving fiber, in which user code runs. */
  context: Context.Context<never> = Context.empty()
  state: RunState
  /** The state at the last commit; `undefined` before the first commit of a drive that began with staged events. */
  committed: RunState | undefined
  hasMail: boolean
  /** Whether there is mail that ends a sub-agent. The root's loop takes it. */
  hasEnding = false
  /** The number of model calls in flight, in all runs of the tree. */
  modelCalls = 0
  /** The cause of the first failed task. The loop fails with it, too. */
  failure: Cause.Cause<DriveError> | undefined = undefined
  /** What the models had said whose calls were stopped. A cancellation keeps it. */
  said: Map<RunId, ReadonlyArray<TextPart>> | undefined = undefined
  /** The number of changes that a loop may wait for. */
  changes = 0
  private ownTasks: Tasks<DriveError> | undefined = undefined
  /** Logs the first failure of the approval callback. */
  logCallback: typeof logFailure | undefined = undefined
  /** The requests that the approval callback was called with. */
  callbackAsked: Set<string> | undefined = undefined
  /** The request that the approval callback has not answered yet. */
  callbackAsking: RequestId | undefined = undefined
  missing: Missing | undefined
  /** Calls that their tools' approval rules allowed since the run last waited. Their rules are not asked again before the body. */
  justAllowed: Set<string> | undefined = undefined
  /** Calls whose tools' `reconcile` returned `notHappened`, until their bodies start. */
  notHappened: Set<string> | undefined = undefined
  readonly staged: Array<RunEvent>
  /** Events to record before the next step; see {@link record}. Allocated with the first one. */
  private notes: Array<(at: number) => RunEvent> | undefined = undefined
  /** Events that are folded and not published. */
  readonly unpublished: Array<{ readonly event: RunEvent; readonly revision: number }> = []

  constructor(given: DriveFields) {
    this.runtime = given.runtime
    this.token = given.token
    this.suspension = given.suspension
    this.clock = given.clock
    this.journal = given.journal
    this.onUpdate = given.onUpdate
    this.state = given.state
    this.committed = given.staged.length === 0 ? given.state : undefined
    this.hasMail = given.hasMail
    this.staged = given.staged.slice()
    this.missing = given.missing
  }

  /** The tasks beside the loop. Allocated on first use, since most runs have none. */
  get tasks(): Tasks<DriveError> {
    return (this.ownTasks ??= new Tasks<DriveError>(this))
  }

  /** Whether there are no tasks, so that only the loop commits and takes mail. */
  isAlone(): boolean {
    return this.ownTasks === undefined || this.ownTasks.size === 0
  }

  notify(): void {
    this.changes += 1
    this.ownTasks?.resume()
  }

  /** What the program's definitions permit the root's run to do. */
  get constraints(): Constraints {
    const { missing } = this
    if (missing === undefined) return noConstraints
    // The runtime was reconfigured: what was missing may be there now.
    if (missing.root !== this.runtime.bound) {
      this.missing = undefined
      return noConstraints
    }
    return { ...noConstraints, unavailable: missing }
  }

  /** Records that the program does not have a definition. */
  addMissing(obstacle: Obstacle): void {
    const { bound } = this.runtime
    if (this.missing?.root !== bound) this.missing = new Missing(bound)
    this.missing.add(obstacle)
  }

  get runId(): string {
    return this.state.runId
  }

  isMidTurn(): boolean {
    return this.modelCalls > 0 || isTurnOpen(this.state)
  }

  record(make: (at: number) => RunEvent): void {
    ;(this.notes ??= []).push(make)
    this.hasMail = true
    this.notify()
  }

  /** Removes and returns the events to record. */
  takeNotes(): ReadonlyArray<(at: number) => RunEvent> {
    const { notes } = this
    this.notes = undefined
    return notes ?? []
  }

  cancel(reason: string): void {
    if (!this.isLeft()) this.token.cancel(reason)
  }

  /** Whether the runtime is closed and the run is stored, so that another process can resume it. */
  private isLeft(): boolean {
    return this.journal.isShared === true && this.runtime["~closing"].reason() !== undefined
  }

  /** Whether the run is being suspended, and starts no further operation. */
  isSuspending(): boolean {
    return this.suspension?.soon.reason() !== undefined || this.isLeft()
  }

  /** Whether the run is suspended now, with its running operations. */
  isSuspended(): boolean {
    return this.suspension?.now.reason() !== undefined || this.isLeft()
  }

  /** The tokens that suspend the run now. */
  get suspenders(): ReadonlyArray<Cancellation.CancellationToken> {
    const closing = this.journal.isShared === true ? [this.runtime["~closing"]] : []
    return this.suspension === undefined ? closing : [this.suspension.now, ...closing]
  }
}

const isTurnOpen = (state: RunState): boolean =>
  state.calls.length > 0 ||
  (state.background ?? []).some(({ child }) => child !== undefined && isTurnOpen(child))

export const now = (drive: Drive): number => drive.clock.currentTimeMillisUnsafe()

/** Whether an event is published only after its commit. */
export const isActedOn = (event: RunEvent): boolean => {
  const { _tag } = unwrap(event).event
  return actedOn.some((prefix) => _tag.startsWith(prefix))
}

const actedOn = ["request.", "run.", "grant.", "policy.", "session."]

/** Folds an event of the root's run, stages it, and publishes it now or after its commit. `cause` is a failure of user code, for hooks. */
export const emitRoot = (drive: Drive, given: RunEvent, cause?: Cause.Cause<unknown>): void => {
  const { contents } = drive.journal
  const redacted = redactEvent(drive.runtime.scrubber, given)
  const event = contents?.separate(redacted) ?? redacted
  if (cause !== undefined) keepCause(event, redactCause(drive.runtime.scrubber, cause))
  drive.state = evolve(drive.state, event)
  const cancelled = cancelledChild(event)
  if (cancelled !== undefined)
    Effect.runForkWith(drive.context)(drive.runtime["~sandboxes"].cancelled(cancelled))
  if (drive.justAllowed !== undefined && isWait(event)) drive.justAllowed = undefined
  if (drive.onUpdate === undefined) {
    if (drive.journal.keepsNothing !== true) drive.staged.push(event)
    return
  }
  drive.staged.push(event)
  const update = { event, revision: drive.state.revision }
  // Subscribers can read a content once the commit has stored it.
  if (drive.unpublished.length > 0 || isActedOn(event) || contents?.hasUnstored === true)
    drive.unpublished.push(update)
  else publish(drive, update)
}

/** Folds, stages and publishes an event of any run of the tree, like {@link emitRoot}. */
export const emit = (
  { drive, path }: { readonly drive: Drive; readonly path: ReadonlyArray<ToolCallId> },
  event: RunEvent,
  cause?: Cause.Cause<unknown>
): void => emitRoot(drive, path.length === 0 ? event : wrap(event, path), cause)

/** Whether the run may have waited, or an authorization may have changed, before this event. */
const isWait = (event: RunEvent): boolean => {
  const { _tag } = event._tag === "child.advanced" ? unwrap(event).event : event
  return waits.has(_tag)
}

/** The sub-agent's run that an event cancels. For the root's run, the loop stops what it has left in its sandbox. */
const cancelledChild = (given: RunEvent): RunId | undefined => {
  if (given._tag !== "child.advanced") return undefined
  const { event, path } = unwrap(given)
  const callId = path.at(-1)
  return event._tag === "run.cancelled" && callId !== undefined ? childRunId(callId) : undefined
}

const waits: ReadonlySet<RunEvent["_tag"]> = new Set([
  "request.decided",
  "run.resumed",
  "grant.revoked",
  "policy.changed"
])

export const publish = (
  drive: Drive,
  update: { readonly event: RunEvent; readonly revision: number }
): void => drive.onUpdate?.({ _tag: "event", runId: drive.state.runId, ...update })

/** Publishes the events that were held back. */
export const publishAll = (drive: Drive): void => {
  if (drive.unpublished.length > 0) for (const update of drive.unpublished.splice(0)) publish(drive, update)
}
