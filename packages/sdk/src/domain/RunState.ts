/**
 * The complete state of a run as one serializable value.
 *
 * A state is plain JSON. It holds the session's messages, the calls of the open turn and their states, the requests and their
 * decisions, grants, limits, usage, and the states of the sub-agents. To continue the run, another process needs the state, a model, and
 * the program's agents and tools, which it finds by name. States are made by `evolve` and are never changed in place.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { ApprovalPolicy } from "./ApprovalPolicy.ts"
import { Compacting, Compaction } from "./Compaction.ts"
import { Decision } from "./Decision.ts"
import { Grant } from "./Grant.ts"
import * as History from "./History.ts"
import { RequestId, Revision, RunId, SessionId, Timestamp, ToolCallId } from "./Id.ts"
import { contradictions } from "./internal/contradictions.ts"
import { Interruption } from "./Interruption.ts"
import type { ToolApprovalItem } from "./Interruption.ts"
import * as Limits_ from "./Limits.ts"
import { Limits } from "./Limits.ts"
import { Retrieved } from "./MemoryItem.ts"
import type { AssistantPart, Message, ToolMessage } from "./Message.ts"
import { textOf, UserPart } from "./Message.ts"
import { Plan } from "./Plan.ts"
import { Principal } from "./Principal.ts"
import { RunFailure } from "./RunError.ts"
import { SandboxRef } from "./SandboxRef.ts"
import { StartOptions } from "./StartOptions.ts"
import * as ToolCall_ from "./ToolCall.ts"
import { UntrustedResult } from "./Untrusted.ts"
import { SessionUsage } from "./Usage.ts"

/** The version of the shape of a state. Raise it with every change that an older reader would misread; see `RunStateCodec`. */
export const version = 1

/** The agent's definition as of the start of the run or of the last handoff. `checkResume` compares it with the current one. */
export const AgentIdentity = Schema.Struct({
  name: Schema.String,
  /** Fingerprint of the static instructions; `computed` if a function computes them. */
  instructions: Schema.String,
  /** Fingerprints of the tools' argument schemas, with the identities that the tools declare, by name; see `ToolIdentity`. */
  tools: Schema.Record(Schema.String, Schema.String),
  /**
   * Names of the agents beside this one, including those that it can hand over to. An agent of one of these names does not replace this
   * agent through an alias. Absent if there were none.
   */
  peers: Schema.optionalKey(Schema.Array(Schema.String)),
  /** The `peers` of the agent that started this one, if it is a sub-agent. */
  starterPeers: Schema.optionalKey(Schema.Array(Schema.String))
})
export type AgentIdentity = typeof AgentIdentity.Type

/**
 * The status of a run. `held` waits for decisions, also those that end a timer or an external call, or for the first slot of its conductor.
 * `running` is every run that is neither held nor ended, also one that no process drives.
 */
export const Status = Schema.Literals(["running", "held", "completed", "cancelled", "error"])
export type Status = typeof Status.Type

/**
 * Marks a run whose calls may have run before. With `since`, the store was restored from a backup, and what the run did after that time
 * is lost. Without `since`, the prompt was sent again to a store that had lost the run. A call of such a run that is neither read-only nor
 * idempotent is reconciled before its first start, like a started one.
 */
export const MayRepeat = Schema.Struct({ since: Schema.optionalKey(Timestamp) })
export type MayRepeat = typeof MayRepeat.Type

/** The conductor that dispatched a run. Its name finds the run again after a restart. */
export const Conducted = Schema.Struct({
  /** The name of the conductor. */
  name: Schema.String,
  /** The name under which the run was dispatched. */
  as: Schema.optionalKey(Schema.String)
})
export type Conducted = typeof Conducted.Type

/** The author and the time of a reopening. */
export const Reopening = Schema.Struct({
  by: Schema.String,
  principal: Schema.optionalKey(Principal),
  at: Timestamp
})
export type Reopening = typeof Reopening.Type

/** A reopening of a denied request, as a message carries it. */
export const Reopens = Schema.Struct({ requestId: RequestId, ...Reopening.fields })
export type Reopens = typeof Reopens.Type

/** A request with its decision, if it has one. */
export const RequestRecord = Schema.Struct({
  request: Interruption,
  decision: Schema.optionalKey(Decision),
  /** Set when the request was closed without a decision; `by` is the id of the request that replaced it. */
  superseded: Schema.optionalKey(
    Schema.Struct({ reason: Schema.String, by: Schema.optionalKey(Schema.String) })
  ),
  /** When the warning that the request will expire soon was recorded. Absent before. */
  warnedAt: Schema.optionalKey(Timestamp),
  /** Set if a person reopened the denied request: an equal call is asked about again. */
  reopened: Schema.optionalKey(Reopening)
})
export type RequestRecord = typeof RequestRecord.Type

/** A message that waits until it may be appended to the history: a user's, or the runtime's, such as a background sub-agent's result. */
export const QueuedMessage = Schema.Struct({
  content: Schema.Array(UserPart),
  at: Timestamp,
  origin: Schema.optionalKey(Schema.Literal("runtime"))
})
export type QueuedMessage = typeof QueuedMessage.Type

const callFields = Schema.Struct(ToolCall_.fields)

/** A tool call of the open turn; see the `ToolCall` module. */
export interface ToolCall extends Schema.Schema.Type<typeof callFields> {
  /** The sub-agent's run, if `target` is `agent` and the run has started. */
  readonly child?: RunState
}
/** The schema of {@link ToolCall}. */
export const ToolCall = Schema.Struct({
  ...ToolCall_.fields,
  child: Schema.optionalKey(Schema.suspend((): Schema.Codec<RunState, unknown> => RunState))
})

const backgroundFields = Schema.Struct({
  /** The call that started the sub-agent; also the id of its run. */
  callId: ToolCallId,
  /** The sub-agent's name. */
  name: Schema.String,
  ended: Schema.optionalKey(
    Schema.Struct({ status: Schema.Literals(["completed", "cancelled", "error"]), at: Timestamp })
  ),
  /**
   * The policies of the agent that started the sub-agent, set when that agent first hands over. They keep binding the sub-agent; the
   * policies of the agent that took over do not.
   */
  starterPolicies: Schema.optionalKey(Schema.NonEmptyArray(ApprovalPolicy))
})

/** A sub-agent in the background. The run that started it receives its result as a message. */
export interface BackgroundRun extends Schema.Schema.Type<typeof backgroundFields> {
  /** The sub-agent's run; absent after its end. */
  readonly child?: RunState
}
/** The schema of {@link BackgroundRun}. */
export const BackgroundRun = Schema.Struct({
  ...backgroundFields.fields,
  child: Schema.optionalKey(Schema.suspend((): Schema.Codec<RunState, unknown> => RunState))
})

const stateFields = {
  version: Schema.Literal(version),
  runId: RunId,
  sessionId: SessionId,
  /** The title of the session, if it was given one. */
  title: Schema.optionalKey(Schema.String),
  agent: AgentIdentity,
  /** Names of the agents from the root to this one. */
  agentPath: Schema.Array(Schema.String),
  /**
   * The name under which the run was started. For a sub-agent's run, its name among the sub-agents of its starter. For a root, the name
   * of the agent that was prompted, set only if another agent has or had the conversation.
   */
  under: Schema.optionalKey(Schema.String),
  status: Status,
  /** The conductor that dispatched the run, if one did. */
  conductor: Schema.optionalKey(Conducted),
  /** Set when the run is held before its first step because its conductor has no slot for it, until it is resumed. */
  awaitsSlot: Schema.optionalKey(Schema.Literal(true)),
  /** Events folded since the run started. */
  revision: Revision,
  startedAt: Timestamp,
  /**
   * The run that this one builds on (the previous run of the session, or the original of a fork), and the revision at which it does. Absent
   * if it builds on none.
   */
  parent: Schema.optionalKey(Schema.Struct({ runId: RunId, revision: Revision })),
  history: History.History,
  /** The compactions of the history. Absent if models see all of it. */
  compaction: Schema.optionalKey(Compaction),
  /** The requested compaction that the run has not performed yet. Absent if there is none. */
  compacting: Schema.optionalKey(Compacting),
  /** Sequence numbers of the pinned messages, in ascending order. Absent if none was ever pinned. */
  pinned: Schema.optionalKey(Schema.Array(Schema.Natural)),
  /** What was retrieved from memory for the user's latest message. Absent if nothing was looked for. */
  retrieved: Schema.optionalKey(Retrieved),
  /** Sequence number of the message that began the run. Absent in a session's first run, and in runs of earlier versions. */
  promptAt: Schema.optionalKey(Schema.Natural),
  limits: Limits,
  /** The approval policy that binds the agent, or the first of several. */
  policy: ApprovalPolicy,
  /** Further policies that bind the agent. The strictest verdict of all counts. */
  otherPolicies: Schema.optionalKey(Schema.Array(ApprovalPolicy)),
  /** The caller's policy, limits and context, and the profile's policy. Absent in a run that an earlier version started. */
  startedWith: Schema.optionalKey(StartOptions),
  /** Whether an exhausted budget or a missing login opens a request instead of failing the run: stored, interactive runs do. */
  asks: Schema.Boolean,
  /** Whether the final response is decoded with the agent's output schema. */
  structured: Schema.Boolean,
  requests: Schema.Array(RequestRecord),
  grants: Schema.Array(Grant),
  queued: Schema.Array(QueuedMessage),
  /** Tool calls that this run's model has made, also those that did not run. */
  toolCalls: Schema.Natural,
  /** Turns and tool calls of the sub-agents, at any depth. */
  below: Schema.optionalKey(Schema.Struct({ turns: Schema.Natural, toolCalls: Schema.Natural })),
  /**
   * Turns that only took reports of sub-agents in the background, which do not count against the default `maxTurns`. Absent if `maxTurns`
   * was given, or if no agent that may have the conversation can start sub-agents in the background.
   */
  reportTurns: Schema.optionalKey(Schema.Natural),
  /** Milliseconds of work before `workingSince`, without the time in which the run was held. */
  workedMs: Schema.optionalKey(Schema.Finite),
  /** When the current period of work began; absent while the run is held or ended. */
  workingSince: Schema.optionalKey(Timestamp),
  /** Budgets for which a warning was recorded. */
  warned: Schema.optionalKey(Schema.Array(Limits_.Budget)),
  /** The exhausted budget for which the run wraps up; removed when the budget is changed. */
  wrappingUp: Schema.optionalKey(
    Schema.Struct({
      budget: Limits_.Budget,
      limit: Schema.Finite,
      /** Set until the model is asked for its summary: sub-agents that can continue finish first. */
      due: Schema.optionalKey(Schema.Literal(true)),
      /** Set once the model has responded with its summary. */
      answered: Schema.optionalKey(Schema.Literal(true))
    })
  ),
  /** The number of the last turn, from 1, in which the model summarized its progress. Absent if it never did. */
  wrappedUp: Schema.optionalKey(Schema.Natural),
  usage: SessionUsage,
  sessionUsage: SessionUsage,
  /** How often in a row the run was taken up after its process died or suspended it, or after its submission, without progress. */
  recoveries: Schema.optionalKey(Schema.Natural),
  mayRepeat: Schema.optionalKey(MayRepeat),
  /**
   * The sandbox in which the tools of the run and of its sub-agents act. Set in the state of a root, by the first call that needs one. The
   * session's next run and forks continue in it. Absent before.
   */
  sandbox: Schema.optionalKey(SandboxRef),
  /**
   * The untrusted results in the history, the last one of each tool. The session's next run and forks continue with them. Absent if there
   * are none.
   */
  untrusted: Schema.optionalKey(Schema.Array(UntrustedResult)),
  /** The plan that the model has written. The session's next run and forks continue with it. Absent before the model made one. */
  plan: Schema.optionalKey(Plan),
  /**
   * Set when a decision stops the run, or supersedes the turn that waits for it. From then on, neither the run nor a sub-agent under it
   * starts anything.
   */
  stop: Schema.optionalKey(Schema.Struct({ by: Schema.String, reason: Schema.String })),
  /** Set while the open turn is superseded: no further call of it starts. `run` received the message that superseded it. */
  superseded: Schema.optionalKey(Schema.Struct({ by: Schema.String, run: RunId })),
  output: Schema.optionalKey(Schema.Json),
  cancelled: Schema.optionalKey(
    Schema.Struct({
      reason: Schema.String,
      calls: Schema.Array(ToolCall_.CallReport),
      /** What the model had said of the answer that was cut. */
      said: Schema.optionalKey(Schema.String)
    })
  ),
  failure: Schema.optionalKey(RunFailure)
}
const stateStruct = Schema.Struct(stateFields)

/** The complete state of a run as one serializable value. */
export interface RunState extends Schema.Schema.Type<typeof stateStruct> {
  /** The calls of the open turn, in the order of the response; empty between turns. */
  readonly calls: ReadonlyArray<ToolCall>
  /** The sub-agents in the background, in the order in which they were started. Absent if the run started none. */
  readonly background?: ReadonlyArray<BackgroundRun>
}
const wholeFields = {
  ...stateFields,
  calls: Schema.Array(ToolCall),
  background: Schema.optionalKey(Schema.Array(BackgroundRun))
}
/** The schema of {@link RunState}. Decoding fails when parts of the state contradict each other. */
export const RunState: Schema.Codec<RunState, unknown> = Schema.Struct(wholeFields).check(
  Schema.makeFilter((state) => contradictions(state))
)

/** The piece of a checkpoint that holds the state, with the last messages of its history only. */
export const StateRest = Schema.Struct({ ...wholeFields, history: Schema.Struct(History.fields) })

/** All policies that bind the agent that has the conversation of the run, the strictest of which counts. */
export const policiesOf = ({ otherPolicies, policy }: Pick<RunState, "policy" | "otherPolicies">): Policies =>
  otherPolicies === undefined ? [policy] : [policy, ...otherPolicies]

type Policies = readonly [ApprovalPolicy, ...ReadonlyArray<ApprovalPolicy>]

/** The policies that the agent which started a sub-agent imposes on it. They bind it also after the starter hands over. */
export const policiesAbove = (state: RunState, callId: ToolCallId): Policies =>
  state.background?.find((entry) => entry.callId === callId)?.starterPolicies ?? policiesOf(state)

/** Whether the run has ended. */
export const isEnded = (state: RunState): boolean =>
  state.status === "completed" || state.status === "cancelled" || state.status === "error"

/** Whether a call has its result. */
export const isSettled = (call: ToolCall): boolean => call.status === "settled"

/** Whether the call can be repeated without harm: it is read-only or idempotent. */
export const isRepeatable = ({ idempotent, safety }: ToolCall): boolean => safety === "readOnly" || idempotent

/** The call with this id in the open turn; `undefined` if there is none. */
export const findCall = (state: RunState, callId: ToolCallId): ToolCall | undefined =>
  state.calls.find((call) => call.id === callId)

/** The run of the sub-agent that this call of the open turn, or an earlier call in the background, started; `undefined` if it is gone. */
export const findChild = (state: RunState, callId: ToolCallId): RunState | undefined =>
  findCall(state, callId)?.child ?? state.background?.find((entry) => entry.callId === callId)?.child

/** The sub-agents that have not ended, with the calls that started them: first those that calls wait for, then the background. */
export const children = (
  state: RunState
): ReadonlyArray<{ readonly callId: ToolCallId; readonly child: RunState }> => {
  if (state.calls.length === 0 && state.background === undefined) return none
  const found: Array<{ readonly callId: ToolCallId; readonly child: RunState }> = []
  for (const call of state.calls) {
    if (call.child !== undefined && !isSettled(call)) found.push({ callId: call.id, child: call.child })
  }
  for (const { callId, child } of state.background ?? []) {
    if (child !== undefined) found.push({ callId, child })
  }
  return found
}

const none: ReadonlyArray<never> = []

/** Whether the run is queued: it waits for the first slot of its conductor. */
export const isQueued = ({ awaitsSlot, status }: Pick<RunState, "awaitsSlot" | "status">): boolean =>
  awaitsSlot === true && status === "held"

/** Whether a request still waits for a decision. */
export const isOpen = (record: RequestRecord): boolean =>
  record.decision === undefined && record.superseded === undefined

const hasChildren = ({ background, calls }: RunState): boolean =>
  background !== undefined || calls.some(({ child }) => child !== undefined)

/**
 * Every open request of the run and of the sub-agents inside it: first the run's own, then those of each sub-agent. Those of a failed run can
 * be decided only when it is resumed, and decisions on those of a stopped run change nothing; see {@link answerable}.
 */
export const interruptions = (state: RunState): ReadonlyArray<Interruption> => openRequests(state, () => true)

/**
 * The open requests whose decision can still change something: all except those of a stopped run and of the sub-agents in it. Those of a
 * failed run can be decided only when it is resumed.
 */
export const answerable = (state: RunState): ReadonlyArray<Interruption> =>
  openRequests(state, ({ stop }) => stop === undefined)

/** The open requests of the runs that `isIncluded` accepts; it leaves out a whole subtree. Allocates nothing in the common case of none. */
const openRequests = (
  state: RunState,
  isIncluded: (run: RunState) => boolean
): ReadonlyArray<Interruption> => {
  if ((state.requests.length === 0 && !hasChildren(state)) || !isIncluded(state)) return none
  const open = state.requests.filter(isOpen).map((record) => record.request)
  const inside = children(state).flatMap(({ child }) => openRequests(child, isIncluded))
  return inside.length === 0 ? open : [...open, ...inside]
}

/** The approval requests among the {@link interruptions} of the run and of its sub-agents. */
export const pendingApprovals = (state: RunState): ReadonlyArray<ToolApprovalItem> =>
  interruptions(state).filter((request) => request._tag === "approval")

/**
 * The record of a request of this run or of a sub-agent in it, with the calls that lead to that sub-agent; `undefined` if there is no such
 * request.
 */
export const findRequest = (
  state: RunState,
  requestId: RequestId
): { readonly record: RequestRecord; readonly path: ReadonlyArray<ToolCallId> } | undefined => {
  const record = state.requests.find((record) => record.request.requestId === requestId)
  if (record !== undefined) return { record, path: [] }
  // A settled call keeps its sub-agent's records until the turn closes.
  const ofCalls = state.calls.map(({ child, id }) => ({ callId: id, child }))
  for (const { callId, child } of [...ofCalls, ...(state.background ?? [])]) {
    const found = child === undefined ? undefined : findRequest(child, requestId)
    if (found !== undefined) return { record: found.record, path: [callId, ...found.path] }
  }
  return undefined
}

/** The session's messages, oldest first. */
export const messages = (state: RunState): ReadonlyArray<Message> => History.toArray(state.history)

/** The text of the last message if it is a response, or "". */
export const text = (state: RunState): string => {
  const last = History.last(state.history)
  return last?.role === "assistant" ? textOf(last.content) : ""
}

/** The text of the placeholder result of a call that has no result. */
export const syntheticText = (call: ToolCall): string => {
  switch (call.status) {
    case "waiting":
      return "This call is still waiting for a decision."
    case "started":
    case "inDoubt":
      return "This call was started and it is not known whether it took effect."
    default:
      return "This call has not run."
  }
}

/** Makes the message that holds a call's result, or a placeholder if it has none. */
export const toolMessage = (call: ToolCall, sequence: number, at: Timestamp): ToolMessage => ({
  role: "tool",
  sequence,
  at: call.result?.at ?? at,
  callId: call.id,
  providerCallId: call.providerCallId,
  name: call.name,
  outcome: call.result?.outcome ?? "cancelled",
  content: call.result?.content ?? [{ _tag: "text", text: syntheticText(call) }]
})

/**
 * The messages in the form that providers require: every call has exactly one result, directly after its response.
 *
 * **Details**
 *
 * Calls without a result get a placeholder. The history does not change.
 */
export const providerMessages = (state: RunState): Array<Message> => {
  const out = History.toArray(state.history)
  for (const call of state.calls) out.push(toolMessage(call, out.length, state.startedAt))
  return out
}

/** The calls of a response. */
export const toolCallParts = (content: ReadonlyArray<AssistantPart>) =>
  content.filter((part) => part._tag === "toolCall")
