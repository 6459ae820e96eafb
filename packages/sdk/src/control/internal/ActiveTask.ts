/**
 * A task: one prompt in a session, from its start until its run has ended or this runtime has left it.
 */
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import type { HandleError, StoredFault } from "../../dispatch/AgentHandle.ts"
import type { BaseHandle } from "../../dispatch/internal/handle/BaseHandle.ts"
import type { RunId, SessionId } from "../../domain/Id.ts"
import type { Interruption } from "../../domain/Interruption.ts"
import type { Attributed } from "../../domain/Principal.ts"
import type { RunContext } from "../../domain/RunContext.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { Prompt } from "../../run/Mail.ts"
import { isTerminal, type RuntimeEvent } from "../RuntimeEvent.ts"
import type { RuntimeSnapshot } from "../RuntimeSnapshot.ts"
import type { EventHistory } from "./EventHistory.ts"
import type { ProjectionOptions, Scope } from "./Projection.ts"
import { RunProjection } from "./projectRun.ts"
import { Publisher } from "./Publisher.ts"

/** A handle that the plane made. */
export type TaskHandle = BaseHandle<unknown, never> | BaseHandle<unknown, StoredFault>

/** The errors of a task that has no result. */
export type TaskError = HandleError | StoredFault

/** A prompt that waits for the end of its session's active task. */
export interface QueuedPrompt {
  readonly taskId: RunId
  readonly prompt: Prompt
  readonly context: RunContext | undefined
  readonly author: Attributed
}

type TaskSnapshot = NonNullable<RuntimeSnapshot["sessions"][number]["task"]>

export class ActiveTask {
  readonly taskId: RunId
  readonly sessionId: SessionId
  readonly agent: string
  status: TaskSnapshot["status"] = "running"
  /** Whether its terminal event was published. */
  isOver = false
  /** Whether the actor has settled it; see `settleTask`. */
  isSettled = false
  /** Set once the run has started. */
  handle: TaskHandle | undefined
  private readonly history: EventHistory
  private publisher: Publisher | undefined
  private readonly makePublisher: (projection: RunProjection) => Publisher
  /** The updates that arrive before the state of a resumed run is known. */
  private early: Array<RunUpdate> | undefined
  private readonly onLate: (request: Interruption) => void

  constructor(options: {
    readonly taskId: RunId
    readonly sessionId: SessionId
    readonly agent: string
    readonly history: EventHistory
    readonly projection: ProjectionOptions
    readonly now: () => number
    /** Called with an approval request that arrives while the task is being cancelled or is over. */
    readonly onLate: (request: Interruption) => void
    /** Whether an earlier runtime has started the run. */
    readonly isResumed: boolean
  }) {
    const { history, isResumed, now } = options
    this.taskId = options.taskId
    this.sessionId = options.sessionId
    this.agent = options.agent
    this.history = history
    this.onLate = options.onLate
    this.makePublisher = (projection) =>
      new Publisher({
        history,
        projection,
        sessionId: options.sessionId,
        now,
        onEvent: (event) => this.follow(event)
      })
    if (isResumed) this.early = []
    else this.publisher = this.makePublisher(new RunProjection(options.projection))
  }

  /** Publishes an update of the run. */
  readonly onUpdate = (update: RunUpdate): void => {
    if (this.isOver) return this.refuse(update)
    if (this.publisher === undefined) this.early?.push(update)
    else this.publisher.publish(update)
  }

  /** Publishes the updates of a resumed run after the state of this projection. */
  resumeFrom(projection: RunProjection, state: RunState): void {
    this.publisher = this.makePublisher(projection)
    const { early = [] } = this
    this.early = undefined
    this.status = state.status === "held" ? "waitingApproval" : "running"
    for (const update of early) this.onUpdate(update)
  }

  get scope(): Scope {
    const state = this.publisher?.projection.state
    return {
      sessionId: this.sessionId,
      taskId: this.taskId,
      turn: state?.usage.turns ?? 0,
      agentPath: state?.agentPath ?? [this.agent],
      agentRunId: this.taskId
    }
  }

  /** The state of the run as of its last event. */
  get state(): RunState | undefined {
    return this.publisher?.projection.state
  }

  snapshot(): TaskSnapshot {
    const requests = this.handle?.interruptions() ?? []
    return { taskId: this.taskId, status: this.status, turn: this.scope.turn, requests: [...requests] }
  }

  /** Publishes an event of the task that comes from no journal. */
  publish(event: RuntimeEvent, at: number): void {
    this.history.push(event, at)
    this.follow(event)
  }

  private follow(event: RuntimeEvent): void {
    if (isTerminal(event)) {
      this.isOver = true
      return
    }
    if (event._tag === "tool.approvalRequired" && this.status === "cancelling")
      return this.onLate(event.request)
    if (this.status === "cancelling") return
    if (event._tag === "task.waitingApproval") this.status = "waitingApproval"
    else if (event._tag === "task.continued") this.status = "running"
    else if (event._tag === "task.cancelling") this.status = "cancelling"
  }

  /** A request that arrives after the end of its task is denied. */
  private refuse(update: RunUpdate): void {
    if (update._tag !== "event") return
    let { event } = update
    while (event._tag === "child.advanced") event = event.event
    if (event._tag === "request.opened") this.onLate(event.request)
  }
}
