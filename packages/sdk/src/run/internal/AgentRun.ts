/**
 * The run of one agent of the tree: its place in the state of the drive, its supervisor, and its cancellation token.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { holderOf } from "../../agent/BoundAgent.ts"
import * as Cancellation from "../../agent/Cancellation.ts"
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

/** A step that the loop performs: every step except those that hold or end the run. */
export type ActiveStep = Exclude<Step, { readonly _tag: "Hold" | "Finish" }>

type Perform = (run: AgentRun, step: ActiveStep) => Effect.Effect<void, DriveError>

/** The place of a sub-agent's run. */
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
  /** Stops this run and the runs under it. The root's token is the drive's. */
  readonly token: Cancellation.CancellationToken
  /** The definition that a sub-agent's run was started with, if the program has it. The root's is the runtime's, which may change. */
  private readonly startedWith: BoundAgent | undefined
  /** Performs one step of a run of the tree. */
  readonly perform: Perform
  /** Supervises the work that the run's loop waits for. */
  readonly supervisor: Supervisor
  /** The value of `Drive.changes` when the loop last read the state. */
  seen = 0

  constructor(drive: Drive, token: Cancellation.CancellationToken, perform: Perform, under?: Under) {
    this.drive = drive
    this.token = token
    this.perform = perform
    this.parent = under?.parent
    this.startedWith = under?.startedWith
    this.path = under === undefined ? none : [...under.parent.path, under.callId]
    this.supervisor = new Supervisor(drive, [token, ...drive.suspenders])
  }

  /** The same run, for a task beside its loop. The task has a token of its own, which the run's token cancels, too. */
  beside(): AgentRun {
    const { drive, parent, path, perform, startedWith } = this
    const callId = path.at(-1)
    const under = parent === undefined || callId === undefined ? undefined : { parent, callId, startedWith }
    return new AgentRun(drive, Cancellation.make(this.token), perform, under)
  }

  /** The agent that the run was started with; `undefined` if the program does not have it. */
  get first(): BoundAgent | undefined {
    return this.parent === undefined ? this.drive.runtime.bound : this.startedWith
  }

  /** The agent that has the conversation now; `undefined` if the program does not have it. */
  get holder(): BoundAgent | undefined {
    const { first } = this
    const state = findState(this)
    return first === undefined || state === undefined ? first : holderOf(first, state.agent)
  }

  /** The agent that has the conversation now. Throws if the program does not have it; `perform` takes no step that needs it then. */
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

/** Whether a call of the run is open. A decision may settle it while user code runs. */
export const isCallOpen = (run: AgentRun, callId: ToolCallId): boolean => {
  const call = findCall(stateOf(run), callId)
  return call !== undefined && !isSettled(call)
}

/** The states from the root's to the run's. */
export const statesOf = (run: AgentRun): ReadonlyArray<RunState> =>
  run.parent === undefined ? [run.drive.state] : [...statesOf(run.parent), stateOf(run)]

/** The time for checking the run's budgets. Without a time budget the clock is not read. */
export const budgetTime = (run: AgentRun): number =>
  stateOf(run).limits.maxWallMs === undefined ? 0 : now(run.drive)

/** The milliseconds left to the run and the runs above it; `undefined` if none has a time budget. */
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

/** Whether the run is in the state. A sub-agent's run leaves the state when its parent has received its result. */
export const isThere = (run: AgentRun): boolean => findState(run) !== undefined

/** Waits for a change that the run's loop has not seen, or for its stop. Requests, decisions and ends are committed before the wait. */
export const awaitChange = Effect.fnUntraced(function* ({ drive, seen, supervisor }: AgentRun) {
  if (drive.staged.some(isActedOn)) yield* flush(drive)
  if (drive.changes === seen) yield* supervisor.run(drive.tasks.changed)
})

/** The id of the run's next request. */
export const nextRequestId = (run: AgentRun) => {
  const state = stateOf(run)
  return Id.requestId(state.runId, state.requests.length + 1)
}

/** The timeout of a body: the tool's, or the run's `toolTimeoutMs`. */
export const toolTimeoutMs = (run: AgentRun, { options }: AnyTool): number =>
  options.timeout === undefined
    ? stateOf(run).limits.toolTimeoutMs
    : Duration.toMillis(Duration.fromInputUnsafe(options.timeout))

/** The timeout of a tool's callback about a call: that of a body, or the time left to the run if that is less. */
export const judgingMs = (run: AgentRun, tool: AnyTool): number => {
  const own = toolTimeoutMs(run, tool)
  return Math.max(1, Math.min(own, timeLeftOf(run) ?? own))
}

/** Whether the run is cancelled or suspended, and starts nothing new. */
export const isEnding = ({ drive, token }: AgentRun): boolean =>
  token.reason() !== undefined || drive.isSuspending()

/** Whether a cause is the interruption by a stop of the run. User code that interrupts itself has failed. */
export const isStopped = ({ drive, token }: AgentRun, cause: Cause.Cause<unknown>): boolean =>
  Cause.hasInterruptsOnly(cause) && (token.reason() !== undefined || drive.isSuspended())
