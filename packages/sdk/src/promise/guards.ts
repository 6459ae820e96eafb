/**
 * Type guards for errors. They compare `_tag` instead of using `instanceof`, so that they also work in a program with two copies of this
 * package. Each comment names the error and says when it occurs. Some errors, such as those of a conductor, have no guard here: compare
 * their `_tag`.
 *
 * @since 0.1.0
 */
import type * as RuntimeError from "../agent/RuntimeError.ts"
import type { GrantNotFound } from "../domain/Grant.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { PrincipalInvalid } from "../domain/Principal.ts"
import type * as Rejection from "../domain/Rejection.ts"
import type * as RunError from "../domain/RunError.ts"
import type * as Seal from "../domain/Seal.ts"
import type * as Archive from "../durable/archive.ts"
import type { FileUnreadable } from "../durable/attachFile.ts"
import type { NotCompacted } from "../durable/compactRun.ts"
import type { MessageNotPinnable } from "../durable/pinMessage.ts"
import type { AttachmentNotFound } from "../durable/readAttachment.ts"
import type * as RunStoreError from "../store/RunStoreError.ts"
import type { McpServerError } from "../tool/McpTools.ts"
import type * as ToolError from "../tool/ToolError.ts"
import type * as Fermata from "./Fermata.ts"

const tagged =
  <E extends { readonly _tag: string }>(tag: E["_tag"]) =>
  (error: unknown): error is E =>
    typeof error === "object" && error !== null && "_tag" in error && error._tag === tag

/** Tests for `RequestNotFound`: the store, or the run in which the request was looked for, has no request with this id. */
export const isRequestNotFound = tagged<Rejection.RequestNotFound>("RequestNotFound")
/** Tests for `TokenNotFound`: no call waits for the token, or not yet. Let the sender deliver its result again later. */
export const isTokenNotFound = tagged<Rejection.TokenNotFound>("TokenNotFound")
/** Tests for `AlreadyDecided`: the request was already decided, or has expired; the error has the decision that counts. */
export const isAlreadyDecided = tagged<Rejection.AlreadyDecided>("AlreadyDecided")
/** Tests for `RequestSuperseded`: the request was closed without a decision, for example because its run ended; see `reason`. */
export const isRequestSuperseded = tagged<Rejection.RequestSuperseded>("RequestSuperseded")
/**
 * Tests for `ArgumentsChanged`: the decision was made about another tool, other arguments or other facts than those of the call, or the
 * request was changed: by the caller, in the store or in the given state.
 */
export const isArgumentsChanged = tagged<Rejection.ArgumentsChanged>("ArgumentsChanged")
/**
 * Tests for `DecisionNotApplicable`: the kind of the decision does not answer the kind of the request, or the limit of a top-up is too low
 * or no whole number; see `allowed`.
 */
export const isDecisionNotApplicable = tagged<Rejection.DecisionNotApplicable>("DecisionNotApplicable")
/**
 * Tests for `EditedArgumentsInvalid`: the edited arguments cannot be used, because the tool's schema refuses or would change them, the
 * program lacks the agent or the tool, or the call is one by which a model calls another agent.
 */
export const isEditedArgumentsInvalid = tagged<Rejection.EditedArgumentsInvalid>("EditedArgumentsInvalid")
/** Tests for `SuppliedResultInvalid`: the tool's `success` schema does not accept the result of an external call. Nothing was recorded. */
export const isSuppliedResultInvalid = tagged<Rejection.SuppliedResultInvalid>("SuppliedResultInvalid")
/** Tests for `DecisionMalformed`: the value is not a decision, or the request that the caller passed beside it is not a whole request. */
export const isDecisionMalformed = tagged<Rejection.DecisionMalformed>("DecisionMalformed")
/**
 * Tests for `GrantRefused`: the tool is privileged, the call is always asked about, the request is a sub-agent's and the grant for the
 * session, or the grant expires before the decision. Nothing was decided.
 */
export const isGrantRefused = tagged<Rejection.GrantRefused>("GrantRefused")
/** Tests for `GrantNotFound`: neither the run nor its session has a grant with this id, or the given state has none. */
export const isGrantNotFound = tagged<GrantNotFound>("GrantNotFound")
/**
 * Tests for `PrincipalInvalid`: the `by` of a caller is neither a principal nor a name, is blank, is reserved for Fermata, or is no person
 * where a denial is reopened. A decision with a wrong `by` is `DecisionMalformed`.
 */
export const isPrincipalInvalid = tagged<PrincipalInvalid>("PrincipalInvalid")
/** Tests for `RunBusy`: a process, which may be this one, owns the lease of the run: `owner`, until `until` at least. */
export const isRunBusy = tagged<RunStoreError.RunBusy>("RunBusy")
/** Tests for `RunConflict`: another writer has changed the run first: its journal, or a decision or a message of its mail. */
export const isRunConflict = tagged<RunStoreError.RunConflict>("RunConflict")
/** Tests for `RunNotFound`: the store has no run with this id, or no longer (`removed`), or the id is not a string (`given`). */
export const isRunNotFound = tagged<RunStoreError.RunNotFound>("RunNotFound")
/** Tests for `RunExists`: a run with this id already exists. An import states in `archive` how its copy relates to that run. */
export const isRunExists = tagged<RunStoreError.RunExists>("RunExists")
/** Tests for `RunContinued`: a later run or a fork, `by`, builds on the run, so the run cannot be removed. */
export const isRunContinued = tagged<RunStoreError.RunContinued>("RunContinued")
/** Tests for `RunRemoved`: the run that a new run builds on was removed or replaced before the new run was stored. Start again. */
export const isRunRemoved = tagged<RunStoreError.RunRemoved>("RunRemoved")
/**
 * Tests for `LeaseLost`: this process has lost the lease of the run: it expired or was released, another process has claimed the run, or
 * the run was removed.
 */
export const isLeaseLost = tagged<RunStoreError.LeaseLost>("LeaseLost")
/** Tests for `RunStoreError`: an operation of the store failed or was refused; see `reason`. */
export const isRunStoreError = tagged<RunStoreError.RunStoreError>("RunStoreError")
/** Tests for `ArchiveInvalid`: the value is not an archive that can be imported. */
export const isArchiveInvalid = tagged<Archive.ArchiveInvalid>("ArchiveInvalid")
/**
 * Tests for `MessageInvalid`: the message, or its `messageId`, is not valid, or another message of the run has the `messageId`; see
 * `issues`.
 */
export const isMessageInvalid = tagged<RunStoreError.MessageInvalid>("MessageInvalid")
/** Tests for `RevisionNotFound`: `fork` was given a revision that the run does not have. */
export const isRevisionNotFound = tagged<RunError.RevisionNotFound>("RevisionNotFound")
/** Tests for `SessionTaken`: `fork` needs a session of its own, and the given one already has runs. */
export const isSessionTaken = tagged<RunError.SessionTaken>("SessionTaken")
/**
 * Tests for `PolicyFixed`: a policy was given without the start of a new run. A run that is continued keeps the policy with which it was
 * started.
 */
export const isPolicyFixed = tagged<RunError.PolicyFixed>("PolicyFixed")
/**
 * Tests for `RuntimeOptionsInvalid`: an option for the runtimes of a Fermata, a change of a configuration, or a duration in the options of
 * a function is invalid; see `problems`. Other invalid options of functions are `OptionsInvalid`.
 */
export const isRuntimeOptionsInvalid = tagged<RuntimeError.RuntimeOptionsInvalid>("RuntimeOptionsInvalid")
/** Tests for `CapabilityProfileNotFound`: there is no capability profile of this name; see `known`. */
export const isCapabilityProfileNotFound =
  tagged<RuntimeError.CapabilityProfileNotFound>("CapabilityProfileNotFound")
/** Tests for `ModelProfileNotFound`: the model client has no profile of this name; see `known`. */
export const isModelProfileNotFound = tagged<RuntimeError.ModelProfileNotFound>("ModelProfileNotFound")
/** Tests for `ExtensionFailed`: an extension failed to make its tools or to start. */
export const isExtensionFailed = tagged<RuntimeError.ExtensionFailed>("ExtensionFailed")
/**
 * Tests for `RuntimeBusy`: runs are in the middle of a turn, so their agents cannot be reconfigured, nor captures restored to them. Retry
 * between turns.
 */
export const isRuntimeBusy = tagged<RuntimeError.RuntimeBusy>("RuntimeBusy")
/** Tests for `RuntimeClosed`: the runtime of the agent was closed, and takes no more runs. */
export const isRuntimeClosed = tagged<RuntimeError.RuntimeClosed>("RuntimeClosed")
/**
 * Tests for `RunEnded`: the run is completed, cancelled or failed, and takes no message and no reopening. Without a store, the `resume` of
 * a completed or cancelled run needs a `prompt`.
 */
export const isRunEnded = tagged<RunError.RunEnded>("RunEnded")
/** Tests for `FermataClosed`: the Fermata was closed. */
export const isFermataClosed = tagged<Fermata.FermataClosed>("FermataClosed")
/** Tests for `RunSuspended`: the program has suspended the run, which can be resumed from the store. */
export const isRunSuspended = tagged<RunError.RunSuspended>("RunSuspended")
/**
 * @deprecated Use {@link isRunSuspended}.
 * @alias
 */
export const isRunLetGo = isRunSuspended
/** Tests for `SessionBusy`: the session's last run has not ended, or another run has taken the position in the session. */
export const isSessionBusy = tagged<RunError.SessionBusy>("SessionBusy")
/**
 * Tests for `AgentNotFound`: the program has no agent of this name or alias; the one that it has may not continue the run or the session;
 * or the run was started with another agent than the given one.
 */
export const isAgentNotFound = tagged<RunError.AgentNotFound>("AgentNotFound")
/**
 * Tests for `ToolUnavailable`: a tool that the run needs cannot be used; see `reason`. The program does not have it (`missing`), it does
 * not accept the context of the run (`contextRefused`), the call refers to a secret and the program has no source of secrets
 * (`withoutSecrets`), or its sandbox cannot be used (`withoutSandbox`, `sandboxLost`, `sandboxUnavailable`). Only checks such as
 * `checkResume` report that it no longer accepts the arguments of an open call (`schemaChanged`).
 */
export const isToolUnavailable = tagged<RunError.ToolUnavailable>("ToolUnavailable")
/** Tests for `EmptyPrompt`: the prompt or message has no content, or is not a prompt (`problem`). */
export const isEmptyPrompt = tagged<RunError.EmptyPrompt>("EmptyPrompt")
/** Tests for `LimitsInvalid`: the limits that the caller gave are not valid. */
export const isLimitsInvalid = tagged<RunError.LimitsInvalid>("LimitsInvalid")
/**
 * Tests for `PolicyInvalid`: the approval policy that the caller gave is not valid, or has a rule for a tool that the agents do not have.
 */
export const isPolicyInvalid = tagged<RunError.PolicyInvalid>("PolicyInvalid")
/**
 * Tests for `ContextInvalid`: the context of a new run, given by its caller or inherited, cannot be used, or an agent or a tool (`agent`,
 * `tool`) does not accept it.
 */
export const isContextInvalid = tagged<RunError.ContextInvalid>("ContextInvalid")
/**
 * Tests for `OptionsInvalid`: the options of a function have an unknown key or a wrong value, or lack a key; `misfits` names each, and the
 * nearest known key.
 */
export const isOptionsInvalid = tagged<OptionsInvalid>("OptionsInvalid")
/** Tests for `IdInvalid`: the id of a run or of a session that the caller chose is not valid. */
export const isIdInvalid = tagged<RunError.IdInvalid>("IdInvalid")
/**
 * Tests for `BudgetExceeded`: a budget is exhausted or reserved for sub-agents, the context of a model call is too large, or the cost of a
 * run with a cost budget is unknown.
 */
export const isBudgetExceeded = tagged<RunError.BudgetExceeded>("BudgetExceeded")
/** Tests for `ModelFailed`: the model call failed; see `reason` and `isRetryable`. */
export const isModelFailed = tagged<RunError.ModelFailed>("ModelFailed")
/** Tests for `ArchiveTooLarge`: the files of the run are too large for an archive that is one value; use `exportRunLines`. */
export const isArchiveTooLarge = tagged<Archive.ArchiveTooLarge>("ArchiveTooLarge")
/** Tests for `FileUnreadable`: the file to attach could not be read to its end, or a piece of it is not bytes. */
export const isFileUnreadable = tagged<FileUnreadable>("FileUnreadable")
/** Tests for `AttachmentNotFound`: neither the run nor a run that it builds on refers to the content, or the given part has none. */
export const isAttachmentNotFound = tagged<AttachmentNotFound>("AttachmentNotFound")
/**
 * Tests for `ContentMissing`: a file that the model was to receive cannot be read from the store, so the model was not called; see
 * `problem`.
 */
export const isContentMissing = tagged<RunError.ContentMissing>("ContentMissing")
/** Tests for `NotCompacted`: no compaction was made; see `description`. */
export const isNotCompacted = tagged<NotCompacted>("NotCompacted")
/** Tests for `MessageNotPinnable`: the session has no such message, or the message is part of a step with calls; see `problem`. */
export const isMessageNotPinnable = tagged<MessageNotPinnable>("MessageNotPinnable")
/** Tests for `WindowUnknown`: the context policy is strict, and the model client does not know the size of the model's context. */
export const isWindowUnknown = tagged<RunError.WindowUnknown>("WindowUnknown")

/**
 * Tests for `WorkersLost`: more processes in a row than `maxRecoveries` permits left the run without progress: they died, suspended it, or
 * met a defect.
 */
export const isWorkersLost = tagged<RunError.WorkersLost>("WorkersLost")
/**
 * Tests for `RunDefect`: code of the program outside of tools, such as a context policy, failed or returned a wrong value; the drive of the
 * run met an unexpected exception; or the output of the run cannot be encoded, or no longer fits the output schema.
 */
export const isRunDefect = tagged<RunError.RunDefect>("RunDefect")
/** Tests for `SealKeyInvalid`: the key for seals is not valid, because its secret is too short or its id has the wrong form. */
export const isSealKeyInvalid = tagged<Seal.SealKeyInvalid>("SealKeyInvalid")
/** Tests for `RunStateMalformed`: the value is not a run state. */
export const isRunStateMalformed = tagged<RunError.RunStateMalformed>("RunStateMalformed")
/** Tests for `RunStateTooNew`: the state was written by a newer version of Fermata. */
export const isRunStateTooNew = tagged<RunError.RunStateTooNew>("RunStateTooNew")
/** Tests for `SealBroken`: `openState` was given a text that is not a state sealed with one of the keys, or that was changed. */
export const isSealBroken = tagged<RunError.SealBroken>("SealBroken")
/** Tests for `ToolNameTaken`: two tools or two sub-agents of an agent have the same name or alias. */
export const isToolNameTaken = tagged<ToolError.ToolNameTaken>("ToolNameTaken")
/**
 * Tests for `ToolDefinitionError`: the definition of a tool is not valid, or a bridge to toolkits cannot convert the tool, for example because
 * it needs a run.
 */
export const isToolDefinitionError = tagged<ToolError.ToolDefinitionError>("ToolDefinitionError")
/**
 * Tests for `AgentDefinitionError`: the definition of an agent is not valid, its policy has a rule for a tool that the agents do not have,
 * two agents have the same name or alias, or a resource of an agent's tools is closed.
 */
export const isAgentDefinitionError = tagged<ToolError.AgentDefinitionError>("AgentDefinitionError")
/**
 * Tests for `McpServerError`: an MCP server does not start, cannot be reached or cannot be used, or an option for its tools is invalid; see
 * `reason`.
 */
export const isMcpServerError = tagged<McpServerError>("McpServerError")
