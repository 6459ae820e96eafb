/**
 * A whole run as one value.
 *
 * Everything that a run is stands here, as plain JSON: the session's messages, the open calls and how far each has come, the
 * requests and their decisions, grants, limits and usage, sub-agents' states inside the calls that started them. Nothing else
 * is needed to continue it in another process: agents and tools are bound again by name. Values are made by `evolve` and never
 * changed in place.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { ApprovalPolicy } from "./ApprovalPolicy.ts"
import { Decision } from "./Decision.ts"
import { Grant } from "./Grant.ts"
import * as History from "./History.ts"
import type { RequestId } from "./Id.ts"
import { Revision, RunId, SessionId, Timestamp, ToolCallId } from "./Id.ts"
import { contradictions } from "./internal/contradictions.ts"
import { Interruption } from "./Interruption.ts"
import type { ToolApprovalItem } from "./Interruption.ts"
import * as Limits_ from "./Limits.ts"
import { Limits } from "./Limits.ts"
import type { AssistantPart, Message, ToolMessage } from "./Message.ts"
import { textOf, UserPart } from "./Message.ts"
import { RunFailure } from "./RunError.ts"
import { StartOptions } from "./StartOptions.ts"
import * as ToolCall_ from "./ToolCall.ts"
import { SessionUsage } from "./Usage.ts"

/** The version of this shape. Raised with every change that an older reader would misread; see `RunStateCodec`. */
export const version = 1

/** What the agent was when the run started, for `checkResume`. */
export const AgentIdentity = Schema.Struct({
  name: Schema.String,
  /** A fingerprint of the static instructions. */
  instructions: Schema.String,
  /** Fingerprints of the tools' argument schemas, by name. */
  tools: Schema.Record(Schema.String, Schema.String),
  /**
   * Names of the agents that were there beside it, those that the conversation can go to among them: an alias that leads to one of them
   * leads to another agent. Left out where there were none.
   */
  peers: Schema.optionalKey(Schema.Array(Schema.String)),
  /** The same of the agent that started it, where it is a sub-agent. */
  starterPeers: Schema.optionalKey(Schema.Array(Schema.String))
})
export type AgentIdentity = typeof AgentIdentity.Type

/** `running` is any run that has neither ended nor been parked. */
export const Status = Schema.Literals(["running", "held", "completed", "cancelled", "error"])
export type Status = typeof Status.Type

/**
 * Why calls of a run may have run before: its store was restored from a backup and what it did after `since` is lost, or, without
 * a time, its prompt was sent again to a store that had lost it. A side effect is then in doubt before its first start.
 */
export const MayRepeat = Schema.Struct({ since: Schema.optionalKey(Timestamp) })
export type MayRepeat = typeof MayRepeat.Type

/** A request and what became of it. */
export const RequestRecord = Schema.Struct({
  request: Interruption,
  decision: Schema.optionalKey(Decision),
  /** Set when no answer is needed any more. */
  superseded: Schema.optionalKey(
    Schema.Struct({ reason: Schema.String, by: Schema.optionalKey(Schema.String) })
  ),
  /** When the warning was recorded that the request will expire soon. */
  warnedAt: Schema.optionalKey(Timestamp)
})
export type RequestRecord = typeof RequestRecord.Type

/** A message that waits until it may be appended: a user's, or what a sub-agent in the background came to. */
export const QueuedMessage = Schema.Struct({
  content: Schema.Array(UserPart),
  at: Timestamp,
  origin: Schema.optionalKey(Schema.Literal("runtime"))
})
export type QueuedMessage = typeof QueuedMessage.Type

const callFields = Schema.Struct(ToolCall_.fields)

/** A tool call of the open turn; see the `ToolCall` module. */
export interface ToolCall extends Schema.Schema.Type<typeof callFields> {
  /** The sub-agent's run, when the call is answered by one. */
  readonly child?: RunState
}
/** The schema of {@link ToolCall}. */
export const ToolCall = Schema.Struct({
  ...ToolCall_.fields,
  child: Schema.optionalKey(Schema.suspend((): Schema.Codec<RunState, unknown> => RunState))
})

const backgroundFields = Schema.Struct({
  /** The call that started it, from which its run has its id. */
  callId: ToolCallId,
  /** Its name among the sub-agents. */
  name: Schema.String,
  ended: Schema.optionalKey(
    Schema.Struct({ status: Schema.Literals(["completed", "cancelled", "error"]), at: Timestamp })
  ),
  /** The policies of the agent that started it, once another one has the conversation: they go on binding it, and no other's do. */
  starterPolicies: Schema.optionalKey(Schema.NonEmptyArray(ApprovalPolicy))
})

/** A sub-agent that goes on by itself, whose end its run receives as a message. */
export interface BackgroundRun extends Schema.Schema.Type<typeof backgroundFields> {
  /** Its run; left out when that has ended. */
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
  agent: AgentIdentity,
  /** Names of the agents from the root to this one. */
  agentPath: Schema.Array(Schema.String),
  /**
   * The name that the run was started under: of a sub-agent's, its name among those of its starter; of a root's, the agent that the
   * program offers, where another one has the conversation or has had it.
   */
  under: Schema.optionalKey(Schema.String),
  status: Status,
  /** Events folded since the run started. */
  revision: Revision,
  startedAt: Timestamp,
  /** The run before this one in the session, and the prefix of its journal that this one builds on. */
  parent: Schema.optionalKey(Schema.Struct({ runId: RunId, revision: Revision })),
  history: History.History,
  limits: Limits,
  /** The approval policy in force. */
  policy: ApprovalPolicy,
  /** Policies that bind the agent beside `policy`: the strictest verdict counts. */
  otherPolicies: Schema.optionalKey(Schema.Array(ApprovalPolicy)),
  /** What the run was started with; left out of a run that a version without it has started. */
  startedWith: Schema.optionalKey(StartOptions),
  /** Whether a used-up budget or a login is asked about (there is a store, and a person to ask) instead of failing the run. */
  asks: Schema.Boolean,
  /** Whether the answer must be decoded with the agent's output schema. */
  structured: Schema.Boolean,
  requests: Schema.Array(RequestRecord),
  grants: Schema.Array(Grant),
  queued: Schema.Array(QueuedMessage),
  /** Tool calls that this run's models have asked for. */
  toolCalls: Schema.Natural,
  /** Turns and tool calls of the sub-agents, at any depth. */
  below: Schema.optionalKey(Schema.Struct({ turns: Schema.Natural, toolCalls: Schema.Natural })),
  /** Milliseconds that it has been at work before `workingSince`; what it was held for does not count. */
  workedMs: Schema.optionalKey(Schema.Finite),
  /** Since when it has been at work. */
  workingSince: Schema.optionalKey(Timestamp),
  /** Budgets for which a warning was recorded. */
  warned: Schema.optionalKey(Schema.Array(Limits_.Budget)),
  /** The budget that is used up and for which the model is asked to come to an end, until there is more of it. */
  wrappingUp: Schema.optionalKey(
    Schema.Struct({
      budget: Limits_.Budget,
      limit: Schema.Finite,
      /** Set until the model is asked: its calls come to an end first. */
      due: Schema.optionalKey(Schema.Literal(true)),
      answered: Schema.optionalKey(Schema.Literal(true))
    })
  ),
  /** The turn in which it has said last how far it has come, from 1. */
  wrappedUp: Schema.optionalKey(Schema.Natural),
  usage: SessionUsage,
  sessionUsage: SessionUsage,
  /** How often in a row the run was left by a process that died, without getting any further. */
  recoveries: Schema.optionalKey(Schema.Natural),
  /** Set when calls of this run may have run before. */
  mayRepeat: Schema.optionalKey(MayRepeat),
  /** Set when a decision ends the run: nothing begins in it, or under it, from then on. */
  stop: Schema.optionalKey(Schema.Struct({ by: Schema.String, reason: Schema.String })),
  /** Set while the open turn is superseded: no call of it begins any more. */
  superseded: Schema.optionalKey(Schema.Struct({ by: Schema.String, run: RunId })),
  output: Schema.optionalKey(Schema.Json),
  cancelled: Schema.optionalKey(
    Schema.Struct({ reason: Schema.String, calls: Schema.Array(ToolCall_.CallReport) })
  ),
  failure: Schema.optionalKey(RunFailure)
}
const stateStruct = Schema.Struct(stateFields)

/** A whole run as one value. */
export interface RunState extends Schema.Schema.Type<typeof stateStruct> {
  /** The calls of the open turn, in the order of the answer; empty between turns. */
  readonly calls: ReadonlyArray<ToolCall>
  /** The sub-agents in the background, in the order in which they were started. */
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

/** What a checkpoint keeps in one piece: the state, with only the last messages of its history. */
export const StateRest = Schema.Struct({ ...wholeFields, history: Schema.Struct(History.fields) })

/** Every policy that binds the agent that has the conversation. */
export const policiesOf = ({ otherPolicies, policy }: Pick<RunState, "policy" | "otherPolicies">): Policies =>
  otherPolicies === undefined ? [policy] : [policy, ...otherPolicies]

type Policies = readonly [ApprovalPolicy, ...ReadonlyArray<ApprovalPolicy>]

/** Every policy that binds a sub-agent from the run that started it: those of its starter, whichever agent has the conversation now. */
export const policiesAbove = (state: RunState, callId: ToolCallId): Policies =>
  state.background?.find((entry) => entry.callId === callId)?.starterPolicies ?? policiesOf(state)

/** Whether the run has ended. */
export const isEnded = (state: RunState): boolean =>
  state.status === "completed" || state.status === "cancelled" || state.status === "error"

/** Whether a call has its result. */
export const isSettled = (call: ToolCall): boolean => call.status === "settled"

/** Whether running the call again does no harm. */
export const isRepeatable = ({ idempotent, safety }: ToolCall): boolean => safety === "readOnly" || idempotent

/** The call with this id in the open turn. */
export const findCall = (state: RunState, callId: ToolCallId): ToolCall | undefined =>
  state.calls.find((call) => call.id === callId)

/** The run of the sub-agent that this call started, while it goes on: one that the call waits for, or one in the background. */
export const findChild = (state: RunState, callId: ToolCallId): RunState | undefined =>
  findCall(state, callId)?.child ?? state.background?.find((entry) => entry.callId === callId)?.child

/** The sub-agents that have not ended, with the calls that started them: those that calls wait for, then those in the background. */
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

/** Whether a request still waits for a decision. */
export const isOpen = (record: RequestRecord): boolean =>
  record.decision === undefined && record.superseded === undefined

const hasChildren = ({ background, calls }: RunState): boolean =>
  background !== undefined || calls.some(({ child }) => child !== undefined)

/** Every open request of the run and of the sub-agents inside it, in the order of the calls. */
export const interruptions = (state: RunState): ReadonlyArray<Interruption> => openRequests(state, () => true)

/** The open requests whose decision can still change something: a run that a decision has stopped waits for none. */
export const answerable = (state: RunState): ReadonlyArray<Interruption> =>
  openRequests(state, ({ stop }) => stop === undefined)

/** The open requests of the runs that are looked into. Most runs have none, and nothing is made to find that out. */
const openRequests = (
  state: RunState,
  isLookedInto: (run: RunState) => boolean
): ReadonlyArray<Interruption> => {
  if ((state.requests.length === 0 && !hasChildren(state)) || !isLookedInto(state)) return none
  const open = state.requests.filter(isOpen).map((record) => record.request)
  const inside = children(state).flatMap(({ child }) => openRequests(child, isLookedInto))
  return inside.length === 0 ? open : [...open, ...inside]
}

/** The approvals among the open requests. */
export const pendingApprovals = (state: RunState): ReadonlyArray<ToolApprovalItem> =>
  interruptions(state).filter((request) => request._tag === "approval")

/** The record of a request of this run or of a sub-agent, with the path of calls that leads to it. */
export const findRequest = (
  state: RunState,
  requestId: RequestId
): { readonly record: RequestRecord; readonly path: ReadonlyArray<ToolCallId> } | undefined => {
  const record = state.requests.find((record) => record.request.requestId === requestId)
  if (record !== undefined) return { record, path: [] }
  // A sub-agent that a settled call has waited for may still have its records here.
  const ofCalls = state.calls.map(({ child, id }) => ({ callId: id, child }))
  for (const { callId, child } of [...ofCalls, ...(state.background ?? [])]) {
    const found = child === undefined ? undefined : findRequest(child, requestId)
    if (found !== undefined) return { record: found.record, path: [callId, ...found.path] }
  }
  return undefined
}

/** The session's messages, oldest first. */
export const messages = (state: RunState): ReadonlyArray<Message> => History.toArray(state.history)

/** The text of the last answer, or "". */
export const text = (state: RunState): string => {
  const last = History.last(state.history)
  return last?.role === "assistant" ? textOf(last.content) : ""
}

/** The text of a result that stands in for the result of a call that has none. */
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

/** The message for a call's result. */
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
 * The messages as a provider may see them: every call has exactly one result, directly after the answer that made it.
 *
 * **Details**
 *
 * While calls are open, their results are stood in for; the history itself is not touched.
 */
export const providerMessages = (state: RunState): Array<Message> => {
  const out = History.toArray(state.history)
  for (const call of state.calls) out.push(toolMessage(call, out.length, state.startedAt))
  return out
}

/** The calls of an answer. */
export const toolCallParts = (content: ReadonlyArray<AssistantPart>) =>
  content.filter((part) => part._tag === "toolCall")
