/**
 * The past facts of a run, in the form in which the journal keeps them.
 *
 * An event says what happened and when, with everything that `evolve` needs: no clock, no randomness and no tool is asked
 * again. Whatever must not be repeated after a crash (a model's answer, a tool's result, a decision) is an event; whatever
 * can be derived (ids, statuses, the place of a result in the history) is not.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { ApprovalPolicy } from "./ApprovalPolicy.ts"
import { Decision } from "./Decision.ts"
import { GrantId, RequestId, Revision, RunId, SessionId, Timestamp, ToolCallId } from "./Id.ts"
import { Interruption, Safety } from "./Interruption.ts"
import { Budget, LimitChanges, Limits } from "./Limits.ts"
import { FilePart, ReasoningPart, TextPart, UserPart } from "./Message.ts"
import { Principal } from "./Principal.ts"
import { RunFailure } from "./RunError.ts"
import { AgentIdentity, MayRepeat } from "./RunState.ts"
import { StartOptions } from "./StartOptions.ts"
import { CallReport, Target } from "./ToolCall.ts"
import { ModelUsage } from "./Usage.ts"

/** The version of the journal's events; see `RunStateCodec`. */
export const version = 1

const at = { at: Timestamp }

/** A run began with a prompt. Folded onto another run's state, it continues that session. */
export const RunStarted = Schema.TaggedStruct("run.started", {
  ...at,
  runId: RunId,
  sessionId: SessionId,
  agent: AgentIdentity,
  agentPath: Schema.Array(Schema.String),
  /** The agent that it was started under, where another one has the conversation. */
  under: Schema.optionalKey(Schema.String),
  prompt: Schema.Array(UserPart),
  limits: Limits,
  policy: ApprovalPolicy,
  otherPolicies: Schema.optionalKey(Schema.Array(ApprovalPolicy)),
  startedWith: Schema.optionalKey(StartOptions),
  asks: Schema.Boolean,
  structured: Schema.Boolean,
  /** Set when calls of this run may have run before; see {@link MayRepeat}. */
  mayRepeat: Schema.optionalKey(MayRepeat),
  parent: Schema.optionalKey(Schema.Struct({ runId: RunId, revision: Revision })),
  /** Calls of the run before this one that a decision had released and that were not run: it failed first. */
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

/** A call as the model asked for it. */
export const AnsweredCall = Schema.TaggedStruct("toolCall", {
  providerCallId: Schema.String,
  name: Schema.String,
  arguments: Schema.String,
  provider: Schema.optionalKey(Schema.String),
  payload: Schema.optionalKey(Schema.Json)
})

/** A part of an answer, before its calls have ids. */
export const AnsweredPart = Schema.Union([TextPart, ReasoningPart, FilePart, AnsweredCall])
export type AnsweredPart = typeof AnsweredPart.Type

/** Why the model stopped. */
export const FinishReason = Schema.Literals(["stop", "toolCalls", "length", "contentFilter", "other"])
export type FinishReason = typeof FinishReason.Type

/** A model answered; the turn's calls are open. */
export const ModelAnswered = Schema.TaggedStruct("model.answered", {
  ...at,
  content: Schema.Array(AnsweredPart),
  usage: ModelUsage,
  finishReason: FinishReason,
  profile: Schema.optionalKey(Schema.String)
})

/** A model call brought no answer, and cost something all the same. */
export const ModelCharged = Schema.TaggedStruct("model.charged", { ...at, usage: ModelUsage })

/** A call was understood: what answers it, with which arguments. Calls that need a decision get a `request.opened` next. */
export const ToolClassified = Schema.TaggedStruct("tool.classified", {
  ...at,
  callId: ToolCallId,
  target: Target,
  safety: Safety,
  idempotent: Schema.Boolean,
  arguments: Schema.Json,
  /** See `ToolCall`: what the body gets, where that differs from `arguments`, and which definition decoded it. */
  value: Schema.optionalKey(Schema.Json),
  rendering: Schema.optionalKey(Schema.Json),
  tool: Schema.optionalKey(Schema.String),
  schema: Schema.optionalKey(Schema.String),
  /** Who let it through: the tool itself, a rule, the policy, a grant. Left out when it is asked about. */
  allowedBy: Schema.optionalKey(Schema.String),
  grantId: Schema.optionalKey(GrantId)
})

/** A body is about to run. Committed before a side-effecting body does. */
export const ToolStarted = Schema.TaggedStruct("tool.started", {
  ...at,
  callId: ToolCallId,
  idempotencyKey: Schema.String
})

/** The body that `tool.started` announced has not run: the run was stopped in between. The call is as it was before. */
export const ToolNotStarted = Schema.TaggedStruct("tool.notStarted", { ...at, callId: ToolCallId })

const settled = { ...at, callId: ToolCallId, content: Schema.Array(UserPart) }

/** A body returned. */
export const ToolCompleted = Schema.TaggedStruct("tool.completed", settled)
/** The call could not be understood, or its body failed. */
export const ToolFailed = Schema.TaggedStruct("tool.failed", settled)
/** The policy denied the call. (A person's denial is a `request.decided`.) */
export const ToolDenied = Schema.TaggedStruct("tool.denied", settled)

/** Somebody is asked. */
export const RequestOpened = Schema.TaggedStruct("request.opened", { ...at, request: Interruption })

/** A request was answered; the first answer counts. */
export const RequestDecided = Schema.TaggedStruct("request.decided", {
  ...at,
  decision: Decision,
  /** The grant that it gives. A store that holds this event holds the grant, too; earlier versions of Fermata did not promise that. */
  kept: Schema.optionalKey(GrantId)
})

/** A request no longer waits: it is asked again, under `by`, or not at all. */
export const RequestSuperseded = Schema.TaggedStruct("request.superseded", {
  ...at,
  requestId: RequestId,
  reason: Schema.String,
  by: Schema.optionalKey(RequestId)
})

/** A request will expire soon: its approvers were notified. See `warnAt`. */
export const RequestExpiring = Schema.TaggedStruct("request.expiring", { ...at, requestId: RequestId })

/** A standing approval was withdrawn. */
export const GrantRevoked = Schema.TaggedStruct("grant.revoked", {
  ...at,
  grantId: GrantId,
  by: Schema.String,
  principal: Schema.optionalKey(Principal)
})

/**
 * Somebody said something to the run. `messageId` is that of the message in a store. Without content it says nothing: the message asked for
 * the end of a sub-agent that had ended.
 */
export const MessageQueued = Schema.TaggedStruct("message.queued", {
  ...at,
  content: Schema.Array(UserPart),
  messageId: Schema.optionalKey(Schema.String)
})

/** The messages that waited stand in the history now: the model is about to be asked. */
export const MessagesRead = Schema.TaggedStruct("messages.read", at)

/** A budget is running out; recorded once for each. */
export const BudgetNearing = Schema.TaggedStruct("budget.nearing", {
  ...at,
  budget: Budget,
  limit: Schema.Finite,
  spent: Schema.Finite
})

/** A sub-agent found a budget of this run used up: the run comes to its end, as `wrapUp` says, when its calls have. */
export const BudgetExhausted = Schema.TaggedStruct("budget.exhausted", {
  ...at,
  budget: Budget,
  limit: Schema.Finite
})

/** A budget is used up, and the model is asked, once, to say how far it has come. */
export const WrapUpAsked = Schema.TaggedStruct("wrapUp.asked", {
  ...at,
  budget: Budget,
  limit: Schema.Finite
})

/** Another agent took the conversation over. The limits stay those of the run. */
export const AgentChanged = Schema.TaggedStruct("agent.changed", {
  ...at,
  agent: AgentIdentity,
  policy: ApprovalPolicy,
  otherPolicies: Schema.optionalKey(Schema.Array(ApprovalPolicy)),
  structured: Schema.Boolean
})

/** The answer did not fit the output schema; the model gets the reason. */
export const OutputRejected = Schema.TaggedStruct("output.rejected", { ...at, message: Schema.String })

/** The limits were changed by the caller that continues the run. */
export const LimitsChanged = Schema.TaggedStruct("limits.changed", {
  ...at,
  limits: Limits,
  /** What the caller has given of them. */
  given: Schema.optionalKey(LimitChanges)
})

/** The run was parked: it waits for decisions and no process works on it. A sub-agent's, while others may be at work. */
export const RunHeld = Schema.TaggedStruct("run.held", at)

/** Somebody goes on with a run that was left at work, by a process that died or was stopped. */
export const RunRecovered = Schema.TaggedStruct("run.recovered", at)

/**
 * The run stands where it stood at `since`: its store was restored from a backup. What it did later is lost, and a call that it
 * makes from now on may have run then.
 */
export const RunRestored = Schema.TaggedStruct("run.restored", { ...at, since: Timestamp })

/** Somebody works on a run that was parked or had failed. */
export const RunResumed = Schema.TaggedStruct("run.resumed", at)

/** The run ended with an answer. */
export const RunCompleted = Schema.TaggedStruct("run.completed", {
  ...at,
  output: Schema.optionalKey(Schema.Json)
})

/** The run was ended from outside. Calls without a result get one that says what is known. */
export const RunCancelled = Schema.TaggedStruct("run.cancelled", {
  ...at,
  reason: Schema.String,
  calls: Schema.Array(CallReport)
})

/** The run could not go on. */
export const RunFailed = Schema.TaggedStruct("run.failed", { ...at, failure: RunFailure })

/** Something happened in the sub-agent's run that a call started. */
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
  ToolCompleted,
  ToolFailed,
  ToolDenied,
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
  AgentChanged,
  OutputRejected,
  LimitsChanged,
  RunHeld,
  RunRecovered,
  RunRestored,
  RunResumed,
  RunCompleted,
  RunCancelled,
  RunFailed
] as const

/** A past fact that changed a run. */
export type RunEvent = (typeof flat)[number]["Type"] | ChildAdvanced
/** The schema of {@link RunEvent}. */
export const RunEvent: Schema.Codec<RunEvent, unknown> = Schema.Union([...flat, ChildAdvanced])

/** A list of events as a store's row holds it. */
export const RunEvents = Schema.Array(RunEvent)

/** The event inside the sub-agents' wrapping, and the path of calls that leads to it. */
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

/** Wraps an event of a sub-agent that is reached through `path`. */
export const wrap = (event: RunEvent, path: ReadonlyArray<ToolCallId>): RunEvent =>
  path.reduceRight<RunEvent>(
    (event, callId) => ({ _tag: "child.advanced", at: event.at, callId, event }),
    event
  )
