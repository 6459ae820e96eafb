/**
 * Views: what a front end shows, as a pure fold of envelopes. The same log gives the same view in every front end.
 *
 * A view is plain data. Use it in a front end that shows transcripts and open requests, or as a model for your own fold.
 *
 * @since 0.2.0
 */
import type { RuntimeEvent } from "./RuntimeEvent.ts"
import type { RuntimeEventEnvelope } from "./RuntimeEventEnvelope.ts"

/** A line of a task's transcript: an answer, or a call with its output. */
export type ViewItem =
  | {
      readonly _tag: "answer"
      readonly agentRunId: string
      readonly agent: string
      readonly turn: number
      readonly text: string
      readonly reasoning: string
      readonly isFinal: boolean
    }
  | {
      readonly _tag: "call"
      readonly callId: string
      readonly tool: string
      readonly arguments: string
      readonly status:
        | "requested"
        | "waiting"
        | "running"
        | "completed"
        | "failed"
        | "denied"
        | "cancelled"
        | "supplied"
      readonly stdout: string
      readonly stderr: string
      readonly result: string
    }

/** A task as a front end shows it. */
export interface ViewTask {
  readonly taskId: string
  readonly sessionId: string
  readonly prompt: string
  readonly status:
    | "queued"
    | "running"
    | "waiting"
    | "cancelling"
    | "completed"
    | "failed"
    | "cancelled"
    | "suspended"
  readonly progress: string
  readonly items: ReadonlyArray<ViewItem>
  /** The ids of the requests that wait for decisions. */
  readonly requests: ReadonlyArray<string>
  readonly tokens: number
  readonly costUsd: number
  readonly error: string
}

/** A session as a front end shows it. */
export interface ViewSession {
  readonly sessionId: string
  readonly title: string
  readonly tasks: ReadonlyArray<string>
}

/** The state that a front end shows. */
export interface RuntimeView {
  readonly epoch: string
  readonly seq: number
  readonly activeSessionId: string
  readonly sessions: Readonly<Record<string, ViewSession>>
  readonly tasks: Readonly<Record<string, ViewTask>>
  readonly warnings: ReadonlyArray<string>
}

/** The view before the first envelope. */
export const empty: RuntimeView = {
  epoch: "",
  seq: 0,
  activeSessionId: "",
  sessions: {},
  tasks: {},
  warnings: []
}

/** The most warnings that a view keeps. */
const mostWarnings = 100

/** The view after an envelope. */
export const reduce = (view: RuntimeView, { event, seq }: RuntimeEventEnvelope): RuntimeView => {
  const after = { ...view, seq }
  switch (event._tag) {
    case "lifecycle.started":
      return { ...after, epoch: event.epoch }
    case "session.created":
    case "session.resumed": {
      const title = event._tag === "session.resumed" ? (event.title ?? "") : ""
      const session = { ...sessionOf(view, event.sessionId), ...(title === "" ? {} : { title }) }
      return { ...withSession(after, session), activeSessionId: event.sessionId }
    }
    case "session.renamed":
      return withSession(after, { ...sessionOf(view, event.sessionId), title: event.title })
    case "session.deleted": {
      const { [event.sessionId]: _, ...sessions } = view.sessions
      return {
        ...after,
        sessions,
        activeSessionId: view.activeSessionId === event.sessionId ? "" : view.activeSessionId
      }
    }
    case "warning.raised":
      return { ...after, warnings: [...view.warnings, event.message].slice(-mostWarnings) }
    default:
      return "turn" in event ? withTask(after, event) : after
  }
}

type TaskEvent = Extract<RuntimeEvent, { readonly turn: number }>

const sessionOf = ({ sessions }: RuntimeView, sessionId: string): ViewSession =>
  sessions[sessionId] ?? { sessionId, title: "", tasks: [] }

const withSession = (view: RuntimeView, session: ViewSession): RuntimeView => ({
  ...view,
  sessions: { ...view.sessions, [session.sessionId]: session }
})

const withTask = (view: RuntimeView, event: TaskEvent): RuntimeView => {
  const { sessionId, taskId } = event
  const before = view.tasks[taskId] ?? newTask(taskId, sessionId)
  const session = sessionOf(view, sessionId)
  const listed = session.tasks.includes(taskId)
    ? view
    : withSession(view, { ...session, tasks: [...session.tasks, taskId] })
  return { ...listed, tasks: { ...view.tasks, [taskId]: taskAfter(before, event) } }
}

const newTask = (taskId: string, sessionId: string): ViewTask => ({
  taskId,
  sessionId,
  prompt: "",
  status: "running",
  progress: "",
  items: [],
  requests: [],
  tokens: 0,
  costUsd: 0,
  error: ""
})

const taskAfter = (task: ViewTask, event: TaskEvent): ViewTask => {
  switch (event._tag) {
    case "task.queued":
      return { ...task, status: "queued" }
    case "task.started":
      return { ...task, status: "running", prompt: event.prompt }
    case "task.waitingApproval":
      return { ...task, status: "waiting", requests: event.requests }
    case "task.continued":
      return { ...task, status: "running" }
    case "task.cancelling":
      return { ...task, status: "cancelling" }
    case "task.progress":
      return { ...task, progress: event.text }
    case "task.completed":
      return { ...task, status: "completed", requests: [] }
    case "task.cancelled":
      return { ...task, status: "cancelled", requests: [] }
    case "task.suspended":
      return { ...task, status: "suspended" }
    case "task.failed":
      return { ...task, status: "failed", requests: [], error: event.error.message }
    case "metrics.tokenUsage": {
      const { costUsd, inputTokens, outputTokens } = event.run
      return event.agentRunId === task.taskId
        ? { ...task, tokens: inputTokens + outputTokens, costUsd }
        : task
    }
    case "tool.approvalRequired": {
      const { request } = event
      const asked = { ...task, requests: [...task.requests, request.requestId] }
      return "callId" in request ? withCall(asked, request.callId, { status: "waiting" }) : asked
    }
    case "tool.approvalSettled":
      return { ...task, requests: task.requests.filter((id) => id !== event.requestId) }
    default:
      return { ...task, items: itemsAfter(task.items, event) }
  }
}

type Call = Extract<ViewItem, { readonly _tag: "call" }>
type Answer = Extract<ViewItem, { readonly _tag: "answer" }>

const withCall = (task: ViewTask, callId: string, change: Partial<Call>): ViewTask => ({
  ...task,
  items: changeCall(task.items, callId, change)
})

const changeCall = (
  items: ReadonlyArray<ViewItem>,
  callId: string,
  change: Partial<Call> | ((call: Call) => Partial<Call>)
): ReadonlyArray<ViewItem> =>
  items.map((item) =>
    item._tag === "call" && item.callId === callId
      ? { ...item, ...(typeof change === "function" ? change(item) : change) }
      : item
  )

const itemsAfter = (items: ReadonlyArray<ViewItem>, event: TaskEvent): ReadonlyArray<ViewItem> => {
  switch (event._tag) {
    case "model.textDelta":
      return withAnswer(items, event, ({ text }) => ({ text: text.slice(0, event.offset) + event.delta }))
    case "model.reasoningDelta":
      return withAnswer(items, event, ({ reasoning }) => ({
        reasoning: reasoning.slice(0, event.offset) + event.delta
      }))
    case "model.messageFinal":
      return withAnswer(items, event, () => ({
        text: event.text,
        reasoning: event.reasoning ?? "",
        isFinal: true
      }))
    case "tool.callRequested": {
      const { callId, tool } = event
      const call: Call = {
        _tag: "call",
        callId,
        tool,
        arguments: event.arguments,
        status: "requested",
        stdout: "",
        stderr: "",
        result: ""
      }
      return [...items, call]
    }
    case "tool.started":
      return changeCall(items, event.callId, { status: "running" })
    case "tool.output": {
      const { chunk, offset, stream } = event
      return changeCall(items, event.callId, (call) => ({ [stream]: call[stream].slice(0, offset) + chunk }))
    }
    case "tool.completed":
      return changeCall(items, event.callId, { status: event.outcome, result: event.text })
    default:
      return items
  }
}

const withAnswer = (
  items: ReadonlyArray<ViewItem>,
  { agentPath, agentRunId, turn }: TaskEvent,
  change: (answer: Answer) => Partial<Answer>
): ReadonlyArray<ViewItem> => {
  const isIt = (item: ViewItem): item is Answer =>
    item._tag === "answer" && item.agentRunId === agentRunId && item.turn === turn
  const at = items.findLastIndex(isIt)
  const found = items[at]
  const answer: Answer =
    found?._tag === "answer"
      ? found
      : {
          _tag: "answer",
          agentRunId,
          agent: agentPath.at(-1) ?? "",
          turn,
          text: "",
          reasoning: "",
          isFinal: false
        }
  const after = { ...answer, ...change(answer) }
  return at < 0 ? [...items, after] : items.with(at, after)
}
