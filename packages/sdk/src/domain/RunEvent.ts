/**
 * The events of a run, as the journal stores them.
 *
 * An event holds what happened, when, and everything else that `evolve` needs, so that folding uses no clock, no randomness and no
 * user code. Facts that must not be repeated after a crash (a model's response, a tool's result, a decision) are events. Values that
 * can be derived (a call's id, statuses, the position of a result in the history) are not.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { ApprovalPolicy } from "./ApprovalPolicy.ts"
import { Compacting, Cut, Quality } from "./Compaction.ts"
import { Decision } from "./Decision.ts"
import { GrantId, RequestId, Revision, RunId, SessionId, Timestamp, ToolCallId } from "./Id.ts"
import { Interruption, Safety } from "./Interruption.ts"
import { Budget, LimitChanges, Limits } from "./Limits.ts"
import { Recollection } from "./MemoryItem.ts"
import { FilePart, ReasoningPart, TextPart, UserPart } from "./Message.ts"
import { PlanEntry } from "./Plan.ts"
import { Principal } from "./Principal.ts"
import { RunFailure } from "./RunError.ts"
import { AgentIdentity, Conducted, MayRepeat, Reopens } from "./RunState.ts"
import { SandboxRef } from "./SandboxRef.ts"
import { StartOptions } from "./StartOptions.ts"
import { CallReport, Target } from "./ToolCall.ts"
import { UntrustedResult } from "./Untrusted.ts"
import { ModelUsage } from "./Usage.ts"

/** The version of the events; see `RunStateCodec`. */
export const version = 1

const at = { at: Timestamp }

/**
 * A run started with a prompt. Folded onto the state of the session's previous run, it continues the session; onto that of another
 * session's run, it starts a fork.
 */
export const RunStarted = Schema.TaggedStruct("run.started", {
  ...at,
  runId: RunId,
  sessionId: SessionId,
  agent: AgentIdentity,
  agentPath: Schema.Array(Schema.String),
  /** The agent that was prompted, if another agent has the conversation; see `RunState`. */
  under: Schema.optionalKey(Schema.String),
  prompt: Schema.Array(UserPart),
  limits: Limits,
  /**
   * Set if `maxTurns` of `limits` is the default and the run can have sub-agents in the background: turns that only take their reports do
   * not count against it.
   */
  defaultTurns: Schema.optionalKey(Schema.Literal(true)),
  policy: ApprovalPolicy,
  otherPolicies: Schema.optionalKey(Schema.Array(ApprovalPolicy)),
  startedWith: Schema.optionalKey(StartOptions),
  conductor: Schema.optionalKey(Conducted),
  asks: Schema.Boolean,
  structured: Schema.Boolean,
  mayRepeat: Schema.optionalKey(MayRepeat),
  /** Whether the session ends with the same prompt, which no model has answered. The prompt is not appended again. */
  repeats: Schema.optionalKey(Schema.Boolean),
  parent: Schema.optionalKey(Schema.Struct({ runId: RunId, revision: Revision })),
  /**
   * Calls of the session's previous run that a decision released, but that did not run because that run failed first. Absent if there are
   * none.
   */
  notRun: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        callId: ToolCallId,
        decision: Schema.Literals(["approve", "retry"]),
        by: Schema.String
      })
    )
  )
})

/** A tool call in a response, before Fermata gives it an id. */
export const AnsweredCall = Schema.TaggedStruct("toolCall", {
  providerCallId: Schema.String,
  name: Schema.String,
  arguments: Schema.String,
  provider: Schema.optionalKey(Schema.String),
  payload: Schema.optionalKey(Schema.Json)
})

/** A part of a response. A call in it has no id of Fermata's yet. */
export const AnsweredPart = Schema.Union([TextPart, ReasoningPart, FilePart, AnsweredCall])
export type AnsweredPart = typeof AnsweredPart.Type

/** Why the model ended its response. */
export const FinishReason = Schema.Literals(["stop", "toolCalls", "length", "contentFilter", "other"])
export type FinishReason = typeof FinishReason.Type

/** A model returned a response. Its calls are now open, unless the model was asked to wrap up: then they are dropped. */
export const ModelAnswered = Schema.TaggedStruct("model.answered", {
  ...at,
  content: Schema.Array(AnsweredPart),
  usage: ModelUsage,
  finishReason: FinishReason,
  profile: Schema.optionalKey(Schema.String)
})

/** A model call returned no response, but consumed tokens. */
export const ModelCharged = Schema.TaggedStruct("model.charged", { ...at, usage: ModelUsage })

/** A call was classified: its target and its decoded arguments. If it needs a decision, `request.opened` follows. */
export const ToolClassified = Schema.TaggedStruct("tool.classified", {
  ...at,
  callId: ToolCallId,
  target: Target,
  safety: Safety,
  idempotent: Schema.Boolean,
  arguments: Schema.Json,
  /** `value`, `rendering`, `tool` and `schema` are described at `ToolCall`. */
  value: Schema.optionalKey(Schema.Json),
  rendering: Schema.optionalKey(Schema.Json),
  tool: Schema.optionalKey(Schema.String),
  schema: Schema.optionalKey(Schema.String),
  /** What permits the call to run: the tool, a rule, a policy or a grant, in words. Absent if it needs a decision. */
  allowedBy: Schema.optionalKey(Schema.String),
  grantId: Schema.optionalKey(GrantId)
})

/**
 * A body is about to run. The event is committed before the body starts. Also recorded for a call that may have been started in a store
 * that is lost, before its outcome is determined.
 */
export const ToolStarted = Schema.TaggedStruct("tool.started", {
  ...at,
  callId: ToolCallId,
  idempotencyKey: Schema.String
})

/**
 * Takes a `tool.started` back: the body did not run, because in between the run was stopped, cancelled or suspended, the turn was
 * superseded, the call's grant was revoked, or the mail could not be read. The call becomes `ready`, as it was before the start.
 */
export const ToolNotStarted = Schema.TaggedStruct("tool.notStarted", { ...at, callId: ToolCallId })

/**
 * A sandbox was made for the run and its sub-agents, or attaching to the run's sandbox gave it another reference. Committed before the
 * first body that acts in it. An event of the root's run, even if a sub-agent needed the sandbox.
 */
export const SandboxOpened = Schema.TaggedStruct("sandbox.opened", { ...at, sandbox: SandboxRef })

const settled = { ...at, callId: ToolCallId, content: Schema.Array(UserPart) }

/**
 * Set if the tool declares that its results contain text that neither the user nor the program wrote. Absent in events of earlier versions.
 */
const untrusted = { untrusted: Schema.optionalKey(Schema.Literal(true)) }

/**
 * A call has its result: its body returned it, `reconcile` reported it, another system completed the call, its wait was over at once, or
 * the runtime carried out a call about sub-agents or a handoff. (A question and a timer are settled by their `request.decided`, the call of
 * a sub-agent by the end of the sub-agent's run.)
 */
export const ToolCompleted = Schema.TaggedStruct("tool.completed", { ...settled, ...untrusted })
/**
 * The call failed: in its body, before it, for example because the arguments did not decode, or after it, for example because its result
 * cannot be shown.
 */
export const ToolFailed = Schema.TaggedStruct("tool.failed", { ...settled, ...untrusted })
/**
 * A policy or the denial of an earlier, equal call denied the call, it needs approval in a run that is not interactive, or what would run
 * changed each time it was asked about. (A denial by decision is a `request.decided`.)
 */
export const ToolDenied = Schema.TaggedStruct("tool.denied", {
  ...settled,
  /** The request about an earlier, equal call whose denial stands for this one. Absent if something else denied the call. */
  requestId: Schema.optionalKey(RequestId)
})

/** The model replaced its plan. `callId` is the call that did so. */
export const PlanUpdated = Schema.TaggedStruct("plan.updated", {
  ...at,
  callId: ToolCallId,
  entries: Schema.Array(PlanEntry)
})

/** A request was opened. */
export const RequestOpened = Schema.TaggedStruct("request.opened", { ...at, request: Interruption })

/** A request was decided. The first decision counts. */
export const RequestDecided = Schema.TaggedStruct("request.decided", {
  ...at,
  decision: Decision,
  /** The grant that the decision creates. A store that holds this event holds the grant, too. Absent in events of earlier versions. */
  kept: Schema.optionalKey(GrantId),
  /**
   * Set if the call's result informs the model of the decision's edit or note. Absent in events of earlier versions, whose results do not,
   * so that a history never changes.
   */
  informs: Schema.optionalKey(Schema.Literal(true))
})

/** A request was closed without a decision; `by` is the request that replaced it, if any. */
export const RequestSuperseded = Schema.TaggedStruct("request.superseded", {
  ...at,
  requestId: RequestId,
  reason: Schema.String,
  by: Schema.optionalKey(RequestId)
})

/** A request will expire soon. Recorded once per request, by the process that drives the run or first takes it up when the time has come. */
export const RequestExpiring = Schema.TaggedStruct("request.expiring", { ...at, requestId: RequestId })

/** A grant was revoked. */
export const GrantRevoked = Schema.TaggedStruct("grant.revoked", {
  ...at,
  grantId: GrantId,
  by: Schema.String,
  principal: Schema.optionalKey(Principal)
})

/**
 * The run took a message. `messageId` is the message's id in the store; absent without a store. `content` is empty if the message asked to
 * end a sub-agent that had already ended.
 */
export const MessageQueued = Schema.TaggedStruct("message.queued", {
  ...at,
  content: Schema.Array(UserPart),
  messageId: Schema.optionalKey(Schema.String),
  /** The denied request that the message reopens. Absent in other messages. */
  reopens: Schema.optionalKey(Reopens)
})

/** The queued messages were appended to the history, directly before a model call. */
export const MessagesRead = Schema.TaggedStruct("messages.read", at)

/** A budget reached `warnAt`. Recorded once per budget, and again after the budget is changed. */
export const BudgetNearing = Schema.TaggedStruct("budget.nearing", {
  ...at,
  budget: Budget,
  limit: Schema.Finite,
  spent: Schema.Finite
})

/** A sub-agent exhausted a budget of this run. The run wraps up once its sub-agents have finished; see `Limits.wrapUp`. */
export const BudgetExhausted = Schema.TaggedStruct("budget.exhausted", {
  ...at,
  budget: Budget,
  limit: Schema.Finite
})

/** A budget is exhausted, and the model is asked to summarize its progress in one more turn, without tools. Then the run asks for more, or fails. */
export const WrapUpAsked = Schema.TaggedStruct("wrapUp.asked", {
  ...at,
  budget: Budget,
  limit: Schema.Finite
})

/** A compaction of the context was requested. A driven run performs it before its next model call, and `compactRun` at once. */
export const CompactionRequested = Schema.TaggedStruct("compaction.requested", {
  ...at,
  ...Compacting.fields,
  /** The estimated tokens of the context, and how many of them the model can take. Absent if a person or a program requested it. */
  used: Schema.optionalKey(Schema.Natural),
  usable: Schema.optionalKey(Schema.Natural)
})

/** A requested compaction was not performed: there was nothing to summarize, or the program vetoed it. */
export const CompactionSkipped = Schema.TaggedStruct("compaction.skipped", { ...at, reason: Schema.String })

/**
 * From now on, models see a short text in place of the long results of successful calls before the message `before`, and results as `cut`
 * shortens them. Costs no model call.
 */
export const ContextPruned = Schema.TaggedStruct("context.pruned", {
  ...at,
  before: Schema.Natural,
  cut: Schema.optionalKey(Cut),
  /** Estimated tokens of the context before and after. */
  tokensBefore: Schema.Natural,
  tokensAfter: Schema.Natural
})

/** From now on, models see a summary in place of the messages before `to`. The history keeps them. */
export const ContextCompacted = Schema.TaggedStruct("context.compacted", {
  ...at,
  /** The sequence number of the first message that the summary adds to the one before; 0 for the first summary. */
  from: Schema.Natural,
  /** The sequence number of the first message that the summary does not cover. */
  to: Schema.Natural,
  summary: Schema.String,
  quality: Quality,
  kept: Schema.optionalKey(Schema.Array(Schema.Natural)),
  cut: Schema.optionalKey(Cut),
  /** Estimated tokens of the context before and after. */
  tokensBefore: Schema.Natural,
  tokensAfter: Schema.Natural,
  /** The model profile that wrote the summary. Absent if the client does not report it, or if no model wrote it. */
  model: Schema.optionalKey(Schema.String),
  /** The usage of the model call. Absent if no model wrote the summary. */
  usage: Schema.optionalKey(ModelUsage),
  /** The version of the summary's request to the model. */
  promptVersion: Schema.Natural,
  /** Set if the context is still larger than the target of a compaction. */
  missed: Schema.optionalKey(Schema.Literal(true)),
  /** Set if one model call could not take all messages of the plan: the next step summarizes further ones. */
  more: Schema.optionalKey(Schema.Literal(true))
})

/**
 * Memory was searched: for the user's message `sequence`, whose models see the items until the next message of the user, or by the call
 * `callId`, whose result has them. The items are kept here, so that a run that is resumed has the same ones.
 */
export const MemoryRetrieved = Schema.TaggedStruct("memory.retrieved", {
  ...at,
  /** The words that were searched for, at most 500 characters. */
  query: Schema.String,
  /** The ids of the found items, best first. */
  ids: Schema.Array(Schema.String),
  /** Their scores, in the same order. */
  scores: Schema.Array(Schema.Finite),
  sequence: Schema.optionalKey(Schema.Natural),
  /** The items as the model sees them, oldest first. Absent for a search by a call. */
  items: Schema.optionalKey(Schema.Array(Recollection)),
  callId: Schema.optionalKey(ToolCallId),
  /** The untrusted results that the runs which wrote the items had read. This run has read them, too, from now on. */
  untrusted: Schema.optionalKey(Schema.Array(UntrustedResult))
})

const pin = { ...at, sequence: Schema.Natural, by: Schema.String, principal: Schema.optionalKey(Principal) }

/** A message was pinned: models see it unchanged, also when a summary covers its place. */
export const MessagePinned = Schema.TaggedStruct("message.pinned", pin)

/** A message is no longer pinned. The summary that covers its place, or that of a later compaction, replaces it. */
export const MessageUnpinned = Schema.TaggedStruct("message.unpinned", pin)

/** A handoff: another agent took over the conversation. The run keeps its limits. */
export const AgentChanged = Schema.TaggedStruct("agent.changed", {
  ...at,
  agent: AgentIdentity,
  policy: ApprovalPolicy,
  otherPolicies: Schema.optionalKey(Schema.Array(ApprovalPolicy)),
  structured: Schema.Boolean
})

/** The final response is not JSON, or the output schema refused it. The model receives `message` and responds again. */
export const OutputRejected = Schema.TaggedStruct("output.rejected", { ...at, message: Schema.String })

/** The caller that resumed the run changed its limits. */
export const LimitsChanged = Schema.TaggedStruct("limits.changed", {
  ...at,
  limits: Limits,
  /** The limits that the caller gave. */
  given: Schema.optionalKey(LimitChanges)
})

/**
 * The mode of the approval policies that bind the run was changed while the run is at work. Their rules stay, and so do the requests that
 * are open. The new mode counts for every call that is judged afterwards, also of sub-agents, whose own policies bind them as well.
 */
export const PolicyChanged = Schema.TaggedStruct("policy.changed", {
  ...at,
  mode: ApprovalPolicy.fields.mode,
  until: ApprovalPolicy.fields.until,
  /** The author of the change. */
  by: Schema.String,
  principal: Schema.optionalKey(Principal)
})

/** The session of the run was given another title. The session's next runs inherit it. */
export const SessionRenamed = Schema.TaggedStruct("session.renamed", { ...at, title: Schema.String })

/**
 * The run is held: it waits for decisions (also those that end a timer or an external call), or a new run for the first slot of its
 * conductor, and no process drives it. A sub-agent may also wait for a decision on a run above it, while other runs of the tree continue.
 */
export const RunHeld = Schema.TaggedStruct("run.held", {
  ...at,
  /** Set if a new run waits for the first slot of its conductor instead of decisions. */
  awaitsSlot: Schema.optionalKey(Schema.Literal(true))
})

/**
 * A process took up a run with the status `running`, whose previous process died or suspended it, or that was submitted and not driven
 * before.
 */
export const RunRecovered = Schema.TaggedStruct("run.recovered", at)

/**
 * The run's store was restored from a backup of the time `since`. What the run did later is lost, and calls that it makes from now on
 * may have run before.
 */
export const RunRestored = Schema.TaggedStruct("run.restored", { ...at, since: Timestamp })

/** A run that was held or had failed continues. */
export const RunResumed = Schema.TaggedStruct("run.resumed", at)

/** The run ended with a response. */
export const RunCompleted = Schema.TaggedStruct("run.completed", {
  ...at,
  output: Schema.optionalKey(Schema.Json)
})

/** The run was cancelled, or stopped by a denial. Calls without a result get one that states what is known about them. */
export const RunCancelled = Schema.TaggedStruct("run.cancelled", {
  ...at,
  reason: Schema.String,
  calls: Schema.Array(CallReport),
  /** The text of the response that the model was streaming. Absent if there was none. */
  said: Schema.optionalKey(Schema.Array(TextPart))
})

/** The run failed. A root run can be resumed. A sub-agent's run cannot: its call fails, or its end is reported if it was in the background. */
export const RunFailed = Schema.TaggedStruct("run.failed", { ...at, failure: RunFailure })

/** An event of the sub-agent's run that a call started. */
export interface ChildAdvanced {
  readonly _tag: "child.advanced"
  readonly at: Timestamp
  readonly callId: ToolCallId
  readonly event: RunEvent
}
/** The schema of {@link ChildAdvanced}. */
export const ChildAdvanced = Schema.TaggedStruct("child.advanced", {
  ...at,
  callId: ToolCallId,
  event: Schema.suspend((): Schema.Codec<RunEvent, unknown> => RunEvent)
})

const flat = [
  RunStarted,
  ModelAnswered,
  ModelCharged,
  ToolClassified,
  ToolStarted,
  ToolNotStarted,
  SandboxOpened,
  ToolCompleted,
  ToolFailed,
  ToolDenied,
  PlanUpdated,
  RequestOpened,
  RequestDecided,
  RequestSuperseded,
  RequestExpiring,
  GrantRevoked,
  MessageQueued,
  MessagesRead,
  BudgetNearing,
  BudgetExhausted,
  WrapUpAsked,
  CompactionRequested,
  CompactionSkipped,
  ContextPruned,
  ContextCompacted,
  MemoryRetrieved,
  MessagePinned,
  MessageUnpinned,
  AgentChanged,
  OutputRejected,
  LimitsChanged,
  PolicyChanged,
  SessionRenamed,
  RunHeld,
  RunRecovered,
  RunRestored,
  RunResumed,
  RunCompleted,
  RunCancelled,
  RunFailed
] as const

/** An event of a run. */
export type RunEvent = (typeof flat)[number]["Type"] | ChildAdvanced
/** The schema of {@link RunEvent}. */
export const RunEvent: Schema.Codec<RunEvent, unknown> = Schema.Union([...flat, ChildAdvanced])

/** The events of one row of the journal. */
export const RunEvents = Schema.Array(RunEvent)

/** Unwraps an event of a sub-agent: returns the innermost event and the calls that lead to its run. */
export const unwrap = (
  event: RunEvent
): { readonly event: Exclude<RunEvent, ChildAdvanced>; readonly path: ReadonlyArray<ToolCallId> } => {
  const path: Array<ToolCallId> = []
  let inner: RunEvent = event
  while (inner._tag === "child.advanced") {
    path.push(inner.callId)
    inner = inner.event
  }
  return { event: inner, path }
}

/** Wraps an event of the sub-agent's run at `path`, as an event of the root. With an empty path, returns the event itself. */
export const wrap = (event: RunEvent, path: ReadonlyArray<ToolCallId>): RunEvent =>
  path.reduceRight<RunEvent>(
    (event, callId) => ({ _tag: "child.advanced", at: event.at, callId, event }),
    event
  )
