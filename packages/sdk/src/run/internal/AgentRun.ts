/**
 * The run of one agent of the tree: where it lies in the state of its drive, what supervises it, and what stops it.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { holderOf } from "../../agent/BoundAgent.ts"
import type * as Cancellation from "../../agent/Cancellation.ts"
import type { BoundAgent } from "../../agent/Entry.ts"
import { timeLeft } from "../../domain/Budget.ts"
import * as Id from "../../domain/Id.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import type { Step } from "../../domain/next.ts"
import { type RunState, findCall, findChild, isSettled } from "../../domain/RunState.ts"
import type { AnyTool } from "../../tool/Tool.ts"
import { flush } from "./commit.ts"
import { type Drive, type DriveError, isActedOn, now } from "./Drive.ts"
import { Supervisor } from "./Supervisor.ts"

const none: ReadonlyArray<never> = []

/** A step that a run takes by itself: neither over nor waiting for somebody. */
export type ActiveStep = Exclude<Step, { readonly _tag: "Hold" | "Finish" }>

type Perform = (run: AgentRun, step: ActiveStep) => Effect.Effect<void, DriveError>

/** Where the run of a sub-agent lies. */
interface Under {
  readonly parent: AgentRun
  readonly callId: ToolCallId
  readonly startedWith: BoundAgent | undefined
}

/** The run of one agent of the tree: the root's, or a sub-agent's inside a call of its parent. */
export class AgentRun {
  readonly drive: Drive
  /** The calls that lead from the root to this run. */
  readonly path: ReadonlyArray<ToolCallId>
  readonly parent: AgentRun | undefined
  /** Stops this run and what is under it. The root's is the drive's. */
  readonly token: Cancellation.CancellationToken
  /** What a sub-agent's run was started with, where the program has it. The root's is the runtime's, which may change. */
  private readonly startedWith: BoundAgent | undefined
  /** Makes one step happen, in the run of one agent of the tree. */
  readonly perform: Perform
  /** Supervises what the run's loop waits for. */
  readonly supervisor: Supervisor
  /** How much had changed when the loop last looked at the state. */
  seen = 0

  constructor(drive: Drive, token: Cancellation.CancellationToken, perform: Perform, under?: Under) {
    this.drive = drive
    this.token = token
    this.perform = perform
    this.parent = under?.parent
    this.startedWith = under?.startedWith
    this.path = under === undefined ? none : [...under.parent.path, under.callId]
    const { suspension } = drive
    this.supervisor = new Supervisor(drive, suspension === undefined ? [token] : [token, suspension.now])
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

/** The state of the run. */
export const stateOf = (run: AgentRun): RunState => {
  let state = run.drive.state
  for (const callId of run.path) {
    const child = findChild(state, callId)
    if (child === undefined) throw new Error(`The call ${callId} has no run of a sub-agent.`)
    state = child
  }
  return state
}

/** Whether a call of the run is open. A decision may have settled it while user code was asked about it. */
export const isCallOpen = (run: AgentRun, callId: ToolCallId): boolean => {
  const call = findCall(stateOf(run), callId)
  return call !== undefined && !isSettled(call)
}

/** The states from the root's to that of the run. */
export const statesOf = (run: AgentRun): ReadonlyArray<RunState> =>
  run.parent === undefined ? [run.drive.state] : [...statesOf(run.parent), stateOf(run)]

/** The time, for the budgets of the run: it matters where the run has one of time. */
export const budgetTime = (run: AgentRun): number =>
  stateOf(run).limits.maxWallMs === undefined ? 0 : now(run.drive)

/** Milliseconds that are left to the run and the runs above it; `undefined` is without bound. */
export const timeLeftOf = (run: AgentRun): number | undefined => {
  const { limits } = run.drive.state
  if (run.parent === undefined && limits.maxWallMs === undefined) return undefined
  return timeLeft(statesOf(run), now(run.drive))
}

const findState = ({ drive, path }: AgentRun): RunState | undefined => {
  let state: RunState | undefined = drive.state
  if (path.length > 0)
    for (const callId of path) state = state === undefined ? undefined : findChild(state, callId)
  return state
}

/** Whether the run is still there: what has ended, and been told to its parent, is not. */
export const isThere = (run: AgentRun): boolean => findState(run) !== undefined

/**
 * Waits until something changes that the run's loop has not seen, or the loop is stopped. What people act on is stored and published
 * before.
 */
export const awaitChange = Effect.fnUntraced(function* ({ drive, seen, supervisor }: AgentRun) {
  if (drive.staged.some(isActedOn)) yield* flush(drive)
  if (drive.changes === seen) yield* supervisor.run(drive.tasks.changed)
})

/** The id that the next request of the run has. */
export const nextRequestId = (run: AgentRun) => {
  const state = stateOf(run)
  return Id.requestId(state.runId, state.requests.length + 1)
}

/** How long a body may take: the tool's own time, else the run's. */
export const toolTimeoutMs = (run: AgentRun, { options }: AnyTool): number =>
  options.timeout === undefined
    ? stateOf(run).limits.toolTimeoutMs
    : Duration.toMillis(Duration.fromInputUnsafe(options.timeout))

/** How long a tool may take to say something about a call: as long as a body, and no longer than the run may. */
export const judgingMs = (run: AgentRun, tool: AnyTool): number => {
  const own = toolTimeoutMs(run, tool)
  return Math.max(1, Math.min(own, timeLeftOf(run) ?? own))
}

/** Whether nothing new is to be begun: the run is cancelled, or suspended. */
export const isEnding = ({ drive, token }: AgentRun): boolean =>
  token.reason() !== undefined || drive.suspension?.soon.reason() !== undefined

/** Whether something ended because the run is being stopped. User code that interrupts itself has failed like any other. */
export const isStopped = ({ drive, token }: AgentRun, cause: Cause.Cause<unknown>): boolean =>
  Cause.hasInterruptsOnly(cause) &&
  (token.reason() !== undefined || drive.suspension?.now.reason() !== undefined)
