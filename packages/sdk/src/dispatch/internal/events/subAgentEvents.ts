/**
 * The events of a sub-agent's run, projected from those of the root run that contains it.
 */
import * as Stream from "effect/Stream"
import type { RunId, ToolCallId } from "../../../domain/Id.ts"
import { isWithin } from "../../../domain/Id.ts"
import { childAfter, eventOfSubAgent } from "../../../domain/internal/subAgents.ts"
import { next } from "../../../domain/next.ts"
import { isEnded, type RunState } from "../../../domain/RunState.ts"
import type { HandleUpdate } from "../../AgentHandle.ts"

/** Projects the updates of a root, in their order, to those of one sub-agent, which counts its revisions from 1. */
export class SubAgentProjection {
  private readonly runId: RunId
  private readonly path: ReadonlyArray<ToolCallId>
  /** The sub-agent's revision after which the projection publishes its events. */
  private readonly from: number
  private revision = 0
  private state: RunState | undefined

  constructor(runId: RunId, path: ReadonlyArray<ToolCallId>, from = 0) {
    this.runId = runId
    this.path = path
    this.from = from
  }

  get isOver(): boolean {
    return this.state !== undefined && isEnded(this.state)
  }

  /** Whether the sub-agent cannot continue until one of its requests is decided. */
  get isHeld(): boolean {
    return this.state !== undefined && next(this.state)._tag === "Hold"
  }

  project(update: HandleUpdate): HandleUpdate | undefined {
    const { runId } = this
    if (update._tag === "skipped") return { ...update, runId }
    // Events after the end of a sub-agent's run do not belong to it.
    if (this.isOver) return undefined
    if (update._tag !== "event") return isWithin(update.agentRunId, runId) ? { ...update, runId } : undefined
    const event = eventOfSubAgent(update.event, this.path)
    if (event === undefined) return undefined
    this.state = childAfter(this.state, event)
    this.revision += 1
    return this.revision > this.from ? { _tag: "event", runId, revision: this.revision, event } : undefined
  }
}

/** The updates of a sub-agent's run, up to its end, from the updates of its root. */
export const subAgentEvents = <E>(
  root: Stream.Stream<HandleUpdate, E>,
  projection: SubAgentProjection
): Stream.Stream<HandleUpdate, E> =>
  root.pipe(
    Stream.map((update) => ({ own: projection.project(update), isOver: projection.isOver })),
    Stream.takeUntil(({ isOver }) => isOver),
    Stream.flatMap(({ own }) => (own === undefined ? Stream.empty : Stream.succeed(own)))
  )
