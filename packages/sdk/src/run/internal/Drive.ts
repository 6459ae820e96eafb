/**
 * A run while it is being driven: its state, the events that are not committed yet, and who is told.
 *
 * Events are folded as they happen and committed together, before the first thing that must not be repeated: a side-effecting
 * body, a hold, an end. What people act on (requests, decisions, holds, ends) is told after the commit, never before.
 */
import type * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Cancellation from "../../agent/Cancellation.ts"
import type { Suspension } from "../../agent/Cancellation.ts"
import { keepCause } from "../../agent/internal/causes.ts"
import { Missing, type Obstacle } from "../../agent/internal/definitions.ts"
import { redactCause } from "../../agent/internal/redactCause.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { LiveRun } from "../../agent/RuntimeDefinition.ts"
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import { evolve } from "../../domain/evolve.ts"
import type { RequestId, ToolCallId } from "../../domain/Id.ts"
import { type Constraints, noConstraints } from "../../domain/next.ts"
import type { AgentNotFound, ToolUnavailable } from "../../domain/RunError.ts"
import { type RunEvent, unwrap, wrap } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { Journal, JournalError } from "./Journal.ts"
import { redactEvent } from "./redact.ts"
import { Tasks } from "./Tasks.ts"

/** What can go wrong while a run is driven. */
export type DriveError = JournalError | ToolUnavailable | AgentNotFound

/** What a drive is made of. */
interface DriveFields {
  readonly runtime: Runtime
  readonly token: Cancellation.CancellationToken
  readonly suspension: Suspension | undefined
  readonly clock: Clock.Clock
  readonly journal: Journal
  readonly onUpdate: ((update: RunUpdate) => void) | undefined
  readonly state: RunState
  /** Whether there may be mail that the state has not. */
  readonly hasMail: boolean
  /** Folded, not committed. */
  readonly staged: ReadonlyArray<RunEvent>
  /** What the program has no definition of, as far as it is known. */
  readonly missing?: Missing | undefined
}

/** One lives as long as its run waits: small. */
export class Drive implements DriveFields, LiveRun {
  readonly runtime: Runtime
  readonly token: Cancellation.CancellationToken
  readonly suspension: Suspension | undefined
  readonly clock: Clock.Clock
  readonly journal: Journal
  /** Nobody, once the drive is over. */
  onUpdate: ((update: RunUpdate) => void) | undefined
  /** That of the fiber that drives: user code runs under it. */
  context: Context.Context<never> = Context.empty()
  state: RunState
  /** The state at the last commit, as far as that is known. */
  committed: RunState | undefined
  hasMail: boolean
  /** Whether there is mail that ends a sub-agent: the root's loop takes it. */
  hasEnding = false
  /** Model calls in flight, in any run of the tree. */
  modelCalls = 0
  /** What the first task failed with: the loop fails with it, too. */
  failure: Cause.Cause<DriveError> | undefined = undefined
  /** How often something has changed that a loop may wait for. */
  changes = 0
  private ownTasks: Tasks<DriveError> | undefined = undefined
  /** The requests that the approval callback was asked about; made when it is. */
  callbackAsked: Set<string> | undefined = undefined
  /** The one about which it has not answered yet. */
  callbackAsking: RequestId | undefined = undefined
  missing: Missing | undefined
  /** Calls that were let through since the run last waited for anything. */
  justAllowed: Set<string> | undefined = undefined
  /** Calls of which their tools have found out that no attempt took effect, until their bodies begin. */
  notHappened: Set<string> | undefined = undefined
  readonly staged: Array<RunEvent>
  /** Folded, not told. */
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

  /** What the definitions of the program allow the run of the root to do. */
  get constraints(): Constraints {
    const { missing } = this
    if (missing === undefined) return noConstraints
    // The runtime has been reconfigured since.
    if (missing.root !== this.runtime.bound) {
      this.missing = undefined
      return noConstraints
    }
    return { ...noConstraints, unavailable: missing }
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
    return this.modelCalls > 0 || isTurnOpen(this.state)
  }

  cancel(reason: string): void {
    this.token.cancel(reason)
  }
}

const isTurnOpen = (state: RunState): boolean =>
  state.calls.length > 0 ||
  (state.background ?? []).some(({ child }) => child !== undefined && isTurnOpen(child))

export const now = (drive: Drive): number => drive.clock.currentTimeMillisUnsafe()

/** What must be committed before anybody is told. */
export const isActedOn = (event: RunEvent): boolean => {
  const { _tag } = unwrap(event).event
  return _tag.startsWith("request.") || _tag.startsWith("run.") || _tag.startsWith("grant.")
}

/** Folds an event of the root's run. */
export const emitRoot = (drive: Drive, given: RunEvent, cause?: Cause.Cause<unknown>): void => {
  const event = redactEvent(drive.runtime.scrubber, given)
  if (cause !== undefined) keepCause(event, redactCause(drive.runtime.scrubber, cause))
  drive.state = evolve(drive.state, event)
  if (drive.justAllowed !== undefined && isWait(event)) drive.justAllowed = undefined
  if (drive.onUpdate === undefined) {
    if (drive.journal.keepsNothing !== true) drive.staged.push(event)
    return
  }
  drive.staged.push(event)
  const update = { event, revision: drive.state.revision }
  if (drive.unpublished.length > 0 || isActedOn(event)) drive.unpublished.push(update)
  else publish(drive, update)
}

/** Folds an event of the run; `cause` is how user code failed, for hooks. */
export const emit = (
  { drive, path }: { readonly drive: Drive; readonly path: ReadonlyArray<ToolCallId> },
  event: RunEvent,
  cause?: Cause.Cause<unknown>
): void => emitRoot(drive, path.length === 0 ? event : wrap(event, path), cause)

/** Whether time may have passed, or authority may have changed, before this event. */
const isWait = (event: RunEvent): boolean => {
  const { _tag } = event._tag === "child.advanced" ? unwrap(event).event : event
  return _tag === "request.decided" || _tag === "run.resumed" || _tag === "grant.revoked"
}

export const publish = (
  drive: Drive,
  update: { readonly event: RunEvent; readonly revision: number }
): void => drive.onUpdate?.({ _tag: "event", runId: drive.state.runId, ...update })

/** Tells what has been held back. */
export const publishAll = (drive: Drive): void => {
  if (drive.unpublished.length > 0) for (const update of drive.unpublished.splice(0)) publish(drive, update)
}
