/**
 * The state of a control plane, which only its actor changes: sessions with their tasks, the policy, and the history of events.
 */
import type * as Effect from "effect/Effect"
import type * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import { answersTo } from "../../agent/BoundAgent.ts"
import { describeConfiguration } from "../../agent/internal/configuration.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { RunId, SessionId, Timestamp } from "../../domain/Id.ts"
import type { Attributed } from "../../domain/Principal.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { RunStore } from "../../store/RunStore.ts"
import { AgentUnknown } from "../CommandRejection.ts"
import type { AgentConfiguration, PolicySetting, RuntimeEvent } from "../RuntimeEvent.ts"
import type { RuntimeSnapshot } from "../RuntimeSnapshot.ts"
import type { ActiveTask, QueuedPrompt } from "./ActiveTask.ts"
import type { EventHistory } from "./EventHistory.ts"
import type { PlaneContext } from "./planeContext.ts"
import type { ProjectionOptions } from "./Projection.ts"
import type { Submission } from "./submission.ts"

/** A policy with its author. */
export interface Policy {
  readonly setting: PolicySetting
  readonly author: Attributed
}

/** An open session. */
export interface OpenSession {
  readonly sessionId: SessionId
  runtime: Runtime
  title: string | undefined
  /** Replaces the policy of the plane. */
  policy: Policy | undefined
  /** The task whose run has not ended. */
  task: ActiveTask | undefined
  readonly queue: Array<QueuedPrompt>
  /** Whether a model is writing a summary of the session. */
  isCompacting: boolean
  /** Without a store: the state in which the last task ended. */
  lastState: RunState | undefined
  /** The last task, if the session has one. */
  lastTaskId: RunId | undefined
  readonly createdAt: Timestamp
  updatedAt: Timestamp
}

/** The parts of a control plane. */
export interface CoreOptions {
  readonly epoch: string
  readonly agents: readonly [Runtime, ...ReadonlyArray<Runtime>]
  readonly store: RunStore["Service"] | undefined
  readonly history: EventHistory
  readonly now: () => Timestamp
  /** The scope of the handles of tasks. */
  readonly tasks: Scope.Closeable
  readonly mailbox: Queue.Queue<Submission>
  readonly fork: (effect: Effect.Effect<void>) => void
  readonly maxQueued: number
  readonly policy: Policy | undefined
  /** The context of all tasks; see `ControlOptions`. */
  readonly context: PlaneContext | undefined
}

export class Core {
  readonly options: CoreOptions
  readonly sessions = new Map<SessionId, OpenSession>()
  active: SessionId | undefined
  policy: Policy | undefined
  status: RuntimeSnapshot["status"] = "running"

  constructor(options: CoreOptions) {
    this.options = options
    this.policy = options.policy
  }

  publish(event: RuntimeEvent): void {
    this.options.history.push(event, this.options.now())
  }

  get agentNames(): ReadonlyArray<string> {
    return this.options.agents.map(({ agent }) => agent.name)
  }

  /** The runtime of an agent; without a name, that of the active session, or the first one. */
  runtimeOf(name: string | undefined): Runtime | AgentUnknown {
    const { agents } = this.options
    if (name === undefined) return this.activeSession?.runtime ?? agents[0]
    const found = agents.find(({ bound }) => answersTo(bound.agent, name))
    return found ?? new AgentUnknown({ agent: name, known: this.agentNames })
  }

  get activeSession(): OpenSession | undefined {
    return this.active === undefined ? undefined : this.sessions.get(this.active)
  }

  /** The tasks whose runs have not ended. */
  get activeTasks(): ReadonlyArray<ActiveTask> {
    const tasks: Array<ActiveTask> = []
    for (const { task } of this.sessions.values()) if (task !== undefined && !task.isOver) tasks.push(task)
    return tasks
  }

  policyOf(session: OpenSession): Policy | undefined {
    return session.policy ?? this.policy
  }

  /** What projections of the plane's runs need. */
  readonly projection: ProjectionOptions = {
    contextTokens: ({ agent, under }, profile) => {
      const runtime = this.runtimeOf(under ?? agent.name)
      if (runtime instanceof AgentUnknown) return undefined
      const tokens: unknown = runtime.model.contextTokens?.(profile)
      const isKnown = typeof tokens === "number" && Number.isFinite(tokens) && tokens >= 0
      return isKnown ? Math.trunc(tokens) : undefined
    }
  }

  snapshot(): RuntimeSnapshot {
    const { agents, epoch, history, store } = this.options
    return {
      epoch,
      seq: history.seq,
      status: this.status,
      stored: store !== undefined,
      agents: Object.fromEntries(agents.map((runtime) => [runtime.agent.name, configurationOf(runtime)])),
      ...(this.policy === undefined ? {} : { policy: this.policy.setting }),
      ...(this.active === undefined ? {} : { activeSessionId: this.active }),
      sessions: [...this.sessions.values()].map(({ policy, queue, runtime, sessionId, task, title }) => ({
        sessionId,
        agent: runtime.agent.name,
        ...(title === undefined ? {} : { title }),
        ...(policy === undefined ? {} : { policy: policy.setting }),
        ...(task === undefined || task.isOver ? {} : { task: task.snapshot() }),
        queued: queue.map(({ taskId }) => ({ taskId, status: "queued", turn: 0, requests: [] }))
      }))
    }
  }
}

/** The configuration of an agent's runtime. */
export const configurationOf = (runtime: Runtime): AgentConfiguration => describeConfiguration(runtime)
