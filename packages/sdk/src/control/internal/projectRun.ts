/**
 * Derives the runtime events of a task from the updates of its run.
 *
 * The derivation is pure: the same journal gives the same durable events, live or read again. A projection begins with the run's first
 * event, or with a state of the run.
 */
import { evolve } from "../../domain/evolve.ts"
import type { RunId, Timestamp, ToolCallId } from "../../domain/Id.ts"
import { textOf } from "../../domain/Message.ts"
import { fromFailure } from "../../domain/RunError.ts"
import { type RunEvent, unwrap } from "../../domain/RunEvent.ts"
import {
  findChild,
  findRequest,
  interruptions,
  isEnded,
  type RunState,
  text as textOfAnswer
} from "../../domain/RunState.ts"
import type { RuntimeEvent } from "../RuntimeEvent.ts"
import { answerEvents, callEvents, turnEndEvents } from "./projectCalls.ts"
import type { Change, ProjectionOptions, Scope, TurnClock } from "./Projection.ts"

export class RunProjection {
  /** The state of the run; `undefined` before its first event. */
  state: RunState | undefined
  private readonly options: ProjectionOptions
  private readonly clocks = new Map<RunId, TurnClock>()

  constructor(options: ProjectionOptions, from?: RunState) {
    this.options = options
    this.state = from
  }

  /** The runtime events of the run's next event. Returns none for an event that the projection has already taken. */
  project(event: RunEvent, revision: number): ReadonlyArray<RuntimeEvent> {
    const isFirst = event._tag === "run.started"
    if (!isFirst && revision !== (this.state?.revision ?? -1) + 1) return []
    const out: Array<RuntimeEvent> = []
    const held = this.state?.status === "held"
    this.state = this.fold(isFirst ? undefined : this.state, event, out)
    const root = this.state
    const at = this.scopeOf(root, root)
    if (root.status === "held" && !held) {
      const requests = interruptions(root).map(({ requestId }) => requestId)
      out.push({ family: "Task", _tag: "task.waitingApproval", ...at, requests })
    } else if (held && root.status === "running") {
      out.push({ family: "Task", _tag: "task.continued", ...at })
    }
    return out
  }

  private scopeOf(run: RunState, root: RunState | undefined): Scope {
    return {
      sessionId: (root ?? run).sessionId,
      taskId: (root ?? run).runId,
      turn: run.usage.turns,
      agentPath: run.agentPath,
      agentRunId: run.runId
    }
  }

  private fold(run: RunState | undefined, event: RunEvent, out: Array<RuntimeEvent>): RunState {
    if (event._tag === "child.advanced") {
      const child = run === undefined ? undefined : findChild(run, event.callId)
      // Events of a sub-agent that has already ended and left the state are ignored.
      if (child !== undefined || unwrap(event).event._tag === "run.started")
        this.fold(child, event.event, out)
      return evolve(run, event)
    }
    const after = evolve(run, event)
    const isRoot = this.state === undefined || this.state.runId === after.runId
    const at = this.scopeOf(after, isRoot ? after : this.state)
    const clock = this.clockOf(after, event.at)
    const root = isRoot || this.state === undefined ? after : this.state
    const change = { before: run, after, event, at, clock, root }
    advanceClock(change)
    if (isRoot) taskEvents(change, out)
    requestEvents(change, out)
    answerEvents(change, this.options, out)
    callEvents(change, out)
    turnEndEvents(change, out)
    warnings(change, out)
    if (isRoot) endEvents(change, out)
    if (isEnded(after)) this.clocks.delete(after.runId)
    return after
  }

  private clockOf(run: RunState, at: Timestamp): TurnClock {
    let clock = this.clocks.get(run.runId)
    if (clock === undefined) {
      clock = { lastAt: at, modelMs: 0, toolsMs: 0, waitingMs: 0 }
      this.clocks.set(run.runId, clock)
    }
    return clock
  }
}

/** Adds the time since the run's last event to the phase that the event ends. */
const advanceClock = ({ before, clock, event }: Change): void => {
  const ms = Math.max(0, event.at - clock.lastAt)
  clock.lastAt = event.at
  if (before === undefined) return
  if (before.status === "held") clock.waitingMs += ms
  else if (before.calls.length === 0) clock.modelMs += ms
  else clock.toolsMs += ms
}

const taskEvents = ({ after, at, event }: Change, out: Array<RuntimeEvent>): void => {
  switch (event._tag) {
    case "run.started":
      out.push({
        family: "Task",
        _tag: "task.started",
        ...at,
        agent: after.agent.name,
        prompt: textOf(event.prompt)
      })
      return
    case "policy.changed": {
      const { by, mode, until } = event
      const policy = until === undefined ? { mode } : { mode, until }
      out.push({ family: "Task", _tag: "task.policyChanged", ...at, policy, by })
      return
    }
    case "context.compacted": {
      const { from, to, tokensAfter, tokensBefore } = event
      const sizes = { messages: Math.max(0, to - from), tokensBefore, tokensAfter }
      out.push({ family: "Session", _tag: "session.compacted", sessionId: at.sessionId, ...sizes })
      return
    }
    case "session.renamed":
      out.push({ family: "Session", _tag: "session.renamed", sessionId: at.sessionId, title: event.title })
  }
}

const requestEvents = ({ at, before, event }: Change, out: Array<RuntimeEvent>): void => {
  switch (event._tag) {
    case "request.opened":
      out.push({ family: "Tool", _tag: "tool.approvalRequired", ...at, request: event.request })
      return
    case "request.decided": {
      const { _tag: outcome, by, requestId } = event.decision
      const callId = callOf(before, requestId)
      out.push({ family: "Tool", _tag: "tool.approvalSettled", ...at, requestId, ...callId, outcome, by })
      const message = `The request ${requestId} was decided (${outcome}) by ${by}.`
      out.push(warning("requestDecided", message, at))
      return
    }
    case "request.superseded": {
      const { requestId } = event
      const callId = callOf(before, requestId)
      const by = event.by ?? "fermata"
      const outcome = "superseded"
      out.push({ family: "Tool", _tag: "tool.approvalSettled", ...at, requestId, ...callId, outcome, by })
    }
  }
}

const callOf = (
  run: RunState | undefined,
  requestId: Parameters<typeof findRequest>[1]
): { callId?: ToolCallId } => {
  const request = run === undefined ? undefined : findRequest(run, requestId)?.record.request
  return request !== undefined && "callId" in request ? { callId: request.callId } : {}
}

const warnings = ({ after, at, event }: Change, out: Array<RuntimeEvent>): void => {
  switch (event._tag) {
    case "budget.nearing":
      out.push(
        warning(
          "budgetNearing",
          `The ${event.budget} budget is nearly used up: ${event.spent} of ${event.limit}.`,
          at
        )
      )
      return
    case "budget.exhausted":
    case "wrapUp.asked":
      out.push(warning("budgetExhausted", `The ${event.budget} budget of ${event.limit} is used up.`, at))
      return
    case "output.rejected":
      out.push(
        warning("outputRejected", `The answer of ${after.agent.name} does not fit its output schema.`, at)
      )
      return
    case "request.expiring":
      out.push(warning("requestExpiring", `The request ${event.requestId} will expire soon.`, at))
      return
    case "run.recovered":
      out.push(warning("runRecovered", "The run was taken up again after its process stopped.", at))
  }
}

const endEvents = ({ after, at, event }: Change, out: Array<RuntimeEvent>): void => {
  switch (event._tag) {
    case "run.completed": {
      const output = event.output === undefined ? {} : { output: event.output }
      const text = textOfAnswer(after)
      out.push({ family: "Task", _tag: "task.completed", ...at, text, ...output, usage: after.usage })
      return
    }
    case "run.cancelled":
      out.push({ family: "Task", _tag: "task.cancelled", ...at, reason: event.reason })
      return
    case "run.failed": {
      const { _tag: code, message } = fromFailure(event.failure)
      out.push(failure(code, message, at))
      out.push({ family: "Task", _tag: "task.failed", ...at, error: { code, message } })
    }
  }
}

type Place = Pick<Scope, "sessionId" | "taskId">

/** A warning about a task. */
const warning = (code: string, message: string, { sessionId, taskId }: Place): RuntimeEvent => ({
  family: "Warning",
  _tag: "warning.raised",
  code,
  message,
  sessionId,
  taskId
})

/** A failure of a task. */
export const failure = (code: string, message: string, { sessionId, taskId }: Place): RuntimeEvent => ({
  family: "Error",
  _tag: "error.raised",
  code,
  message,
  sessionId,
  taskId
})
