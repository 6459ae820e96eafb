/**
 * Publishes the updates of one task's run as runtime events.
 */
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import { lineOf, type RunId, type SessionId, type ToolCallId } from "../../domain/Id.ts"
import { unwrap } from "../../domain/RunEvent.ts"
import { findCall, findChild, type RunState } from "../../domain/RunState.ts"
import { isTerminal, type RuntimeEvent } from "../RuntimeEvent.ts"
import type { EventHistory, TextStream } from "./EventHistory.ts"
import type { RunProjection } from "./projectRun.ts"

type Delta = Extract<RunUpdate, { readonly _tag: "delta" }>
type Output = Extract<RunUpdate, { readonly _tag: "output" }>
type Live = Exclude<RunUpdate, { readonly _tag: "event" }>

/** A text that grows, and its length so far. */
interface Growing extends TextStream {
  readonly scope: Scoped
  length: number
}

type Scoped = Pick<
  Extract<RuntimeEvent, { readonly _tag: "model.textDelta" }>,
  "sessionId" | "taskId" | "turn" | "agentPath" | "agentRunId"
>

export class Publisher {
  readonly projection: RunProjection
  private readonly history: EventHistory
  private readonly sessionId: SessionId
  private readonly now: () => number
  private readonly onEvent: (event: RuntimeEvent) => void
  private readonly growing = new Map<string, Growing>()
  /** The text of the answer that is being written; most deltas belong to it. */
  private latest: { readonly agentRunId: RunId; readonly turn: number; readonly text: Growing } | undefined

  constructor(options: {
    readonly history: EventHistory
    readonly projection: RunProjection
    readonly sessionId: SessionId
    readonly now: () => number
    /** Called after each durable event was published. */
    readonly onEvent: (event: RuntimeEvent) => void
  }) {
    this.history = options.history
    this.sessionId = options.sessionId
    this.projection = options.projection
    this.now = options.now
    this.onEvent = options.onEvent
  }

  publish(update: RunUpdate): void {
    switch (update._tag) {
      case "delta":
        return this.delta(update)
      case "event":
        return this.event(update)
      case "output":
        return this.output(update)
      case "progress": {
        const { callId, message } = update
        const stream = this.streamOf(`progress ${callId}`, update)
        const of = { ...stream.scope, callId, tool: this.toolOf(update.agentRunId, callId) }
        return this.transient({ family: "Tool", _tag: "tool.progress", ...of, message }, stream)
      }
      case "request": {
        const { profile, turn } = update
        const named = profile === undefined ? {} : { profile }
        const scope = { ...this.scopeOf(update), turn }
        return this.transient({ family: "Model", _tag: "model.requestStarted", ...scope, ...named })
      }
      case "media": {
        const { callId, mediaType, path } = update
        const scope = this.scopeOf(update)
        const of = { ...scope, callId, tool: this.toolOf(update.agentRunId, callId) }
        return this.transient({ family: "Tool", _tag: "tool.media", ...of, path, mediaType })
      }
      case "context.compacting": {
        const { message: text, turn } = update
        const scope = { ...this.scopeOf(update), turn }
        return this.transient({ family: "Task", _tag: "task.progress", ...scope, text, done: 0, total: 0 })
      }
      case "context.usage":
        return
      case "retry":
      case "fallback": {
        const { reason, turn } = update
        const wait =
          update._tag === "retry" ? { waitMs: update.waitMs } : { waitMs: 0, complete: true as const }
        const scope = { ...this.scopeOf(update), turn }
        return this.transient({ family: "Model", _tag: "model.requestRetried", ...scope, reason, ...wait })
      }
    }
  }

  private event({ event, revision, runId }: Extract<RunUpdate, { readonly _tag: "event" }>): void {
    const events = this.projection.project(event, revision)
    const { _tag } = unwrap(event).event
    // These events are published after their commit; see `isActedOn` of a drive.
    const committed = acted.some((prefix) => _tag.startsWith(prefix))
    const last = events.length - 1
    for (const [part, one] of events.entries()) {
      const place = committed && part === last ? { committed } : {}
      this.finishTexts(one)
      this.history.push(one, event.at, { runId, revision, part, ...place })
      this.onEvent(one)
    }
  }

  private delta({ agentPath, agentRunId, part, turn }: Delta): void {
    if (part._tag === "text-delta") {
      let text = this.latest
      if (text === undefined || text.agentRunId !== agentRunId || text.turn !== turn) {
        const stream = this.streamOf(`text ${agentRunId} ${turn}`, { agentPath, agentRunId, turn })
        text = this.latest = { agentRunId, turn, text: stream }
      }
      const { delta } = part
      const { length: offset, scope } = text.text
      text.text.length += delta.length
      this.history.push(
        {
          family: "Model",
          _tag: "model.textDelta",
          sessionId: scope.sessionId,
          taskId: scope.taskId,
          turn,
          agentPath: scope.agentPath,
          agentRunId,
          offset,
          delta
        },
        this.now(),
        undefined,
        text.text
      )
    } else if (part._tag === "reasoning-delta") {
      const stream = this.streamOf(`reasoning ${agentRunId} ${turn}`, { agentPath, agentRunId, turn })
      const offset = stream.length
      stream.length += part.delta.length
      const event = {
        family: "Model",
        _tag: "model.reasoningDelta",
        ...stream.scope,
        offset,
        delta: part.delta
      } as const
      this.transient(event, stream)
    }
  }

  private output(update: Output): void {
    const { callId, chunk, stream: name = "stdout" } = update
    const stream = this.streamOf(`${name} ${callId}`, update)
    const offset = stream.length
    stream.length += chunk.length
    const of = { ...stream.scope, callId, tool: this.toolOf(update.agentRunId, callId) }
    this.transient({ family: "Tool", _tag: "tool.output", ...of, stream: name, offset, chunk }, stream)
  }

  private transient(event: RuntimeEvent, stream: TextStream = { isFinished: true }): void {
    this.history.push(event, this.now(), undefined, stream)
  }

  private streamOf(
    key: string,
    of: Pick<Live, "agentPath" | "agentRunId"> & { readonly turn?: number }
  ): Growing {
    let stream = this.growing.get(key)
    if (stream === undefined) {
      const scope = this.scopeOf(of)
      stream = {
        isFinished: false,
        length: 0,
        scope: of.turn === undefined ? scope : { ...scope, turn: of.turn }
      }
      this.growing.set(key, stream)
    }
    return stream
  }

  private scopeOf({ agentPath, agentRunId }: Pick<Live, "agentPath" | "agentRunId">): Scoped {
    const run = this.runOf(agentRunId)
    const { state } = this.projection
    return {
      sessionId: this.sessionId,
      taskId: state?.runId ?? agentRunId,
      turn: run?.usage.turns ?? 0,
      agentPath,
      agentRunId
    }
  }

  /** The state of the run of a sub-agent, or of the root. */
  private runOf(agentRunId: RunId): RunState | undefined {
    return lineOf(agentRunId).path.reduce<RunState | undefined>(
      (run, callId) => (run === undefined ? undefined : findChild(run, callId)),
      this.projection.state
    )
  }

  private toolOf(agentRunId: RunId, callId: ToolCallId): string {
    const run = this.runOf(agentRunId)
    return (run === undefined ? undefined : findCall(run, callId)?.name) ?? ""
  }

  /** Marks the texts that a durable event contains. */
  private finishTexts(event: RuntimeEvent): void {
    if (event._tag === "model.messageFinal") {
      this.finish(`text ${event.agentRunId} ${event.turn}`)
      this.finish(`reasoning ${event.agentRunId} ${event.turn}`)
      this.latest = undefined
    } else if (event._tag === "tool.completed") {
      for (const name of ["stdout", "stderr", "progress"]) this.finish(`${name} ${event.callId}`)
    } else if (isTerminal(event)) {
      for (const stream of this.growing.values()) stream.isFinished = true
      this.growing.clear()
      this.latest = undefined
    }
  }

  private finish(key: string): void {
    const stream = this.growing.get(key)
    if (stream === undefined) return
    stream.isFinished = true
    this.growing.delete(key)
  }
}

const acted = ["request.", "run.", "grant.", "policy.", "session."]
