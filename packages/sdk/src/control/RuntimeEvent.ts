/**
 * The events that a control plane publishes to its front ends, in eight families: `Lifecycle`, `Session`, `Task`, `Model`, `Tool`, `Metrics`,
 * `Warning` and `Error`.
 *
 * An event is plain JSON, and its schema is its wire format. Events of a task carry the session, the task, the turn and the agent's path.
 * Events that come from a run's journal are durable: a slow or late subscriber receives each of them. Parts of texts are transient: those
 * that a slow subscriber has not read are merged, so that their text stays complete. `docs/event-reference.md` is generated from this
 * module.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"
import { ApprovalPolicy } from "../domain/ApprovalPolicy.ts"
import { RequestId, RunId, SessionId, ToolCallId } from "../domain/Id.ts"
import { Interruption } from "../domain/Interruption.ts"
import { ToolOutcome } from "../domain/Message.ts"
import { FinishReason } from "../domain/RunEvent.ts"
import { ModelUsage, SessionUsage } from "../domain/Usage.ts"
import { eventOf, Problem, scope } from "./internal/eventSchema.ts"

/** The approval mode that a control plane gives to its tasks. The rules of the agents' own policies stay. */
export const PolicySetting = Schema.Struct({
  mode: ApprovalPolicy.fields.mode,
  /** For the mode `until`: the time until which calls that need approval run, in milliseconds since 1970. */
  until: ApprovalPolicy.fields.until
})
export type PolicySetting = typeof PolicySetting.Type

/** The configuration of an agent's runtime. */
export const AgentConfiguration = Schema.Struct({
  profile: Schema.String,
  mode: Schema.String,
  /** The name of the model profile; absent for the default of the model client. */
  model: Schema.optionalKey(Schema.String),
  tools: Schema.Array(Schema.String)
})
export type AgentConfiguration = typeof AgentConfiguration.Type

const ofSession = { sessionId: SessionId }
const ofCall = { ...scope, callId: ToolCallId, tool: Schema.String }
const setting = { policy: PolicySetting, sessionId: Schema.optionalKey(SessionId) }

/** The events about the runtime itself. */
export const Lifecycle = Schema.Union([
  eventOf("Lifecycle", "lifecycle.started", "The runtime has started. The first event of an epoch.", {
    epoch: Schema.String,
    agents: Schema.Array(Schema.String),
    /** Whether tasks are stored, so that they survive the runtime. */
    stored: Schema.Boolean
  }),
  eventOf("Lifecycle", "lifecycle.configurationLoaded", "The configuration of an agent was loaded.", {
    agent: Schema.String,
    configuration: AgentConfiguration
  }),
  eventOf(
    "Lifecycle",
    "lifecycle.policyChanged",
    "The approval policy for tasks of a session, or of all sessions, was set. Each task at work records the change with `task.policyChanged`.",
    { ...setting, by: Schema.String }
  ),
  eventOf(
    "Lifecycle",
    "lifecycle.stopping",
    "The runtime takes no more commands, and ends or parks its tasks.",
    {
      reason: Schema.String
    }
  ),
  eventOf("Lifecycle", "lifecycle.stopped", "The runtime has stopped. The last event of an epoch.", {})
])

/** The events about sessions. */
export const Session = Schema.Union([
  eventOf("Session", "session.created", "A session was created and is the active one.", {
    ...ofSession,
    agent: Schema.String
  }),
  eventOf("Session", "session.resumed", "An earlier session was opened and is the active one.", {
    ...ofSession,
    agent: Schema.String,
    title: Schema.optionalKey(Schema.String),
    /** The session's last task. Absent if it has none. */
    lastTaskId: Schema.optionalKey(RunId)
  }),
  eventOf("Session", "session.saved", "The session is saved as of the end of a task, or when it is left.", {
    ...ofSession,
    /** `true`: in the store, so that another process can resume it. `false`: in the memory of the runtime. */
    stored: Schema.Boolean,
    /** The task and the number of events in its journal that the saved session includes. */
    taskId: Schema.optionalKey(RunId),
    revision: Schema.optionalKey(Schema.Natural)
  }),
  eventOf("Session", "session.compacted", "The session's history was compacted.", {
    ...ofSession,
    /** The number of messages that the summary newly replaces. */
    messages: Schema.Natural,
    /** Estimated tokens of the context before and after. */
    tokensBefore: Schema.Natural,
    tokensAfter: Schema.Natural
  }),
  eventOf("Session", "session.renamed", "The session has another title.", {
    ...ofSession,
    title: Schema.String
  }),
  eventOf("Session", "session.deleted", "The session and its runs were deleted.", ofSession)
])

/** The events about tasks. Each task has one terminal event: `completed`, `failed`, `cancelled` or `suspended`. */
export const Task = Schema.Union([
  eventOf("Task", "task.queued", "A prompt waits for the end of its session's active task.", {
    ...scope,
    /** The place in the queue of the session, from 1. */
    position: Schema.Natural
  }),
  eventOf("Task", "task.started", "A prompt is being worked on. Precedes the task's model and tool events.", {
    ...scope,
    agent: Schema.String,
    prompt: Schema.String,
    /** Set if an earlier runtime, or another process, started the task. */
    resumed: Schema.optionalKey(Schema.Literal(true))
  }),
  eventOf("Task", "task.waitingApproval", "The task waits for decisions on these requests.", {
    ...scope,
    requests: Schema.Array(RequestId)
  }),
  eventOf("Task", "task.continued", "The task continues after it has waited.", scope),
  eventOf("Task", "task.policyChanged", "The task has recorded another approval mode.", {
    ...scope,
    policy: PolicySetting,
    by: Schema.String
  }),
  eventOf("Task", "task.progress", "The progress of the task in words, such as `[2/8] running read_file`.", {
    ...scope,
    text: Schema.String,
    /** How many of the turn's calls have their results, and how many there are; both 0 for other work. */
    done: Schema.Natural,
    total: Schema.Natural
  }),
  eventOf("Task", "task.cancelling", "The task is being cancelled.", { ...scope, reason: Schema.String }),
  eventOf("Task", "task.completed", "Terminal: the task has its answer.", {
    ...scope,
    text: Schema.String,
    output: Schema.optionalKey(Schema.Json),
    usage: SessionUsage
  }),
  eventOf("Task", "task.cancelled", "Terminal: the task was cancelled, or stopped by a decision.", {
    ...scope,
    reason: Schema.String
  }),
  eventOf("Task", "task.failed", "Terminal: the task has failed.", { ...scope, error: Problem }),
  eventOf(
    "Task",
    "task.suspended",
    "Terminal in this runtime: the run stays in the store, and another runtime can resume its session.",
    { ...scope, reason: Schema.String }
  )
])

/** The events about models. */
export const Model = Schema.Union([
  eventOf("Model", "model.profileSwitched", "An agent has another model profile or capability profile.", {
    agent: Schema.String,
    configuration: AgentConfiguration
  }),
  eventOf("Model", "model.requestStarted", "A model is about to be called for a turn. Transient.", {
    ...scope,
    profile: Schema.optionalKey(Schema.String)
  }),
  eventOf("Model", "model.textDelta", "A part of the answer's text. Transient.", {
    ...scope,
    /** The number of characters of the text before this part. A part that overlaps a known one repeats it. */
    offset: Schema.Natural,
    delta: Schema.String
  }),
  eventOf("Model", "model.reasoningDelta", "A part of the reasoning. Transient.", {
    ...scope,
    offset: Schema.Natural,
    delta: Schema.String
  }),
  eventOf("Model", "model.messageFinal", "The complete answer of a turn.", {
    ...scope,
    text: Schema.String,
    reasoning: Schema.optionalKey(Schema.String),
    finishReason: FinishReason,
    profile: Schema.optionalKey(Schema.String)
  }),
  eventOf(
    "Model",
    "model.requestRetried",
    "A model call failed and is repeated after a wait, or at once without streaming. Transient.",
    {
      ...scope,
      reason: Schema.String,
      waitMs: Schema.Finite,
      /** Set if the call is repeated without streaming. */
      complete: Schema.optionalKey(Schema.Literal(true))
    }
  )
])

/** The events about tool calls and the requests for decisions. */
export const Tool = Schema.Union([
  eventOf("Tool", "tool.callRequested", "The model asks for a call.", {
    ...ofCall,
    /** The arguments as the model wrote them. */
    arguments: Schema.String
  }),
  eventOf("Tool", "tool.approvalRequired", "A decision is required. Published after the request is stored.", {
    ...scope,
    request: Interruption
  }),
  eventOf(
    "Tool",
    "tool.approvalSettled",
    "A request was decided, or a policy, a rule or a grant permits a call.",
    {
      ...scope,
      /** Absent if no request was opened. */
      requestId: Schema.optionalKey(RequestId),
      callId: Schema.optionalKey(ToolCallId),
      /** The kind of the decision; `superseded` if the request was closed without one. */
      outcome: Schema.String,
      by: Schema.String
    }
  ),
  eventOf("Tool", "tool.started", "The body of a call runs. Follows the approval, if the call needs one.", {
    ...ofCall,
    attempt: Schema.Natural
  }),
  eventOf("Tool", "tool.output", "A part of the output that a tool streams. Transient.", {
    ...ofCall,
    stream: Schema.Literals(["stdout", "stderr"]),
    /** The number of characters of this stream before the part. */
    offset: Schema.Natural,
    chunk: Schema.String
  }),
  eventOf("Tool", "tool.progress", "A progress message of a tool. Transient.", {
    ...ofCall,
    message: Schema.String
  }),
  eventOf("Tool", "tool.media", "A tool made or read a file, such as an image. Transient.", {
    ...ofCall,
    /** A virtual path. The result has the bytes. */
    path: Schema.String,
    mediaType: Schema.String
  }),
  eventOf("Tool", "tool.completed", "A call has its result, which may be a failure or a denial.", {
    ...ofCall,
    outcome: ToolOutcome,
    /** The text of the result, as the model reads it. */
    text: Schema.String
  })
])

/** The events about consumption and durations. */
export const Metrics = Schema.Union([
  eventOf("Metrics", "metrics.tokenUsage", "What a model call consumed, and the run so far, with its cost.", {
    ...scope,
    call: ModelUsage,
    run: SessionUsage
  }),
  eventOf("Metrics", "metrics.contextUsage", "How much of the model's context the last call used.", {
    ...scope,
    tokens: Schema.Natural,
    /** The size of the model's context in tokens. Absent if it is unknown. */
    limit: Schema.optionalKey(Schema.Natural)
  }),
  eventOf("Metrics", "metrics.phaseDurations", "How long the phases of a turn took, in milliseconds.", {
    ...scope,
    modelMs: Schema.Finite,
    /** From the answer to the last result, without `waitingMs`. */
    toolsMs: Schema.Finite,
    /** The time in which the run was held. */
    waitingMs: Schema.Finite
  })
])

/** A condition to show that stops nothing. `code` is for programs. */
export const Warning = eventOf("Warning", "warning.raised", "A condition to show that stops nothing.", {
  code: Schema.String,
  message: Schema.String,
  sessionId: Schema.optionalKey(SessionId),
  taskId: Schema.optionalKey(RunId)
})

/** A failure to show, of a task or of the runtime. */
export const Error = eventOf("Error", "error.raised", "A failure to show, of a task or of the runtime.", {
  code: Schema.String,
  message: Schema.String,
  sessionId: Schema.optionalKey(SessionId),
  taskId: Schema.optionalKey(RunId)
})

/** The eight families, by name. */
export const families = { Lifecycle, Session, Task, Model, Tool, Metrics, Warning, Error }

/**
 * An event of a runtime.
 *
 * @category models
 * @since 0.2.0
 */
export const RuntimeEvent = Schema.Union([
  ...Lifecycle.members,
  ...Session.members,
  ...Task.members,
  ...Model.members,
  ...Tool.members,
  ...Metrics.members,
  Warning,
  Error
])
export type RuntimeEvent = typeof RuntimeEvent.Type

/** An event of a task, which has a place in it. */
export type TaskScoped = Extract<RuntimeEvent, { readonly turn: number }>

const transient: ReadonlySet<RuntimeEvent["_tag"]> = new Set([
  "model.requestStarted",
  "model.textDelta",
  "model.reasoningDelta",
  "model.requestRetried",
  "tool.output",
  "tool.progress",
  "tool.media"
])

/** Whether an event is transient: it comes from no journal, and its text may be merged with that of others. */
export const isTransient = ({ _tag }: RuntimeEvent): boolean => transient.has(_tag)

const terminal: ReadonlySet<RuntimeEvent["_tag"]> = new Set([
  "task.completed",
  "task.cancelled",
  "task.failed",
  "task.suspended"
])

/** Whether an event is the last one of its task in this runtime. */
export const isTerminal = ({ _tag }: RuntimeEvent): boolean => terminal.has(_tag)
