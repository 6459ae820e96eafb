/**
 * Type guards for errors. They compare `_tag` instead of using `instanceof`, so that they also work in a program with two copies of this
 * package. Each comment says what the error means.
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
import type * as RunStoreError from "../store/RunStoreError.ts"
import type { McpServerError } from "../tool/McpTools.ts"
import type * as ToolError from "../tool/ToolError.ts"
import type * as Fermata from "./Fermata.ts"

const tagged =
  <E extends { readonly _tag: string }>(tag: E["_tag"]) =>
  (error: unknown): error is E =>
    typeof error === "object" && error !== null && "_tag" in error && error._tag === tag

/** The store has no request with this id. */
export const isRequestNotFound = tagged<Rejection.RequestNotFound>("RequestNotFound")
/** The request was already decided; the error has the decision. */
export const isAlreadyDecided = tagged<Rejection.AlreadyDecided>("AlreadyDecided")
/** The request is no longer open. */
export const isRequestSuperseded = tagged<Rejection.RequestSuperseded>("RequestSuperseded")
/** The decision was made about other arguments than those of the call. */
export const isArgumentsChanged = tagged<Rejection.ArgumentsChanged>("ArgumentsChanged")
/** The kind of the decision does not answer the kind of the request. */
export const isDecisionNotApplicable = tagged<Rejection.DecisionNotApplicable>("DecisionNotApplicable")
/** The tool's schema refuses the edited arguments. */
export const isEditedArgumentsInvalid = tagged<Rejection.EditedArgumentsInvalid>("EditedArgumentsInvalid")
/** The value is not a decision. */
export const isDecisionMalformed = tagged<Rejection.DecisionMalformed>("DecisionMalformed")
/** The tool is privileged, or the request is a sub-agent's and the grant for the session. Nothing was decided. */
export const isGrantRefused = tagged<Rejection.GrantRefused>("GrantRefused")
/** Neither the run nor its session has the grant. */
export const isGrantNotFound = tagged<GrantNotFound>("GrantNotFound")
/** The `by` of a caller is neither a principal nor a valid name. */
export const isPrincipalInvalid = tagged<PrincipalInvalid>("PrincipalInvalid")
/** Another process owns the lease of the run: `owner`, until `until`. */
export const isRunBusy = tagged<RunStoreError.RunBusy>("RunBusy")
/** Another writer has changed the run first: its journal, or a decision or a message of its mail. */
export const isRunConflict = tagged<RunStoreError.RunConflict>("RunConflict")
/** The store has no run with this id. */
export const isRunNotFound = tagged<RunStoreError.RunNotFound>("RunNotFound")
/** A run with this id already exists. */
export const isRunExists = tagged<RunStoreError.RunExists>("RunExists")
/** A later run builds on the run, so it cannot be removed. */
export const isRunContinued = tagged<RunStoreError.RunContinued>("RunContinued")
/** The run that a new run builds on was removed before the new run was stored. Start again. */
export const isRunRemoved = tagged<RunStoreError.RunRemoved>("RunRemoved")
/** This process has lost the lease of the run. */
export const isLeaseLost = tagged<RunStoreError.LeaseLost>("LeaseLost")
/** The store failed; see `reason`. */
export const isRunStoreError = tagged<RunStoreError.RunStoreError>("RunStoreError")
/** The value is not an archive that can be imported. */
export const isArchiveInvalid = tagged<Archive.ArchiveInvalid>("ArchiveInvalid")
/** The message is not valid; see `issues`. */
export const isMessageInvalid = tagged<RunStoreError.MessageInvalid>("MessageInvalid")
/** The run has no such revision. */
export const isRevisionNotFound = tagged<RunError.RevisionNotFound>("RevisionNotFound")
/** A fork needs a session of its own, and the given one already has runs. */
export const isSessionTaken = tagged<RunError.SessionTaken>("SessionTaken")
/** A policy was given to a run that has not ended. It keeps the policy with which it was started. */
export const isPolicyFixed = tagged<RunError.PolicyFixed>("PolicyFixed")
/** The options of a runtime, of a Fermata or of one of its methods are not valid; see `problems`. */
export const isRuntimeOptionsInvalid = tagged<RuntimeError.RuntimeOptionsInvalid>("RuntimeOptionsInvalid")
/** There is no capability profile of this name; see `known`. */
export const isCapabilityProfileNotFound =
  tagged<RuntimeError.CapabilityProfileNotFound>("CapabilityProfileNotFound")
/** The model client has no profile of this name; see `known`. */
export const isModelProfileNotFound = tagged<RuntimeError.ModelProfileNotFound>("ModelProfileNotFound")
/** An extension failed to make its tools or to start. */
export const isExtensionFailed = tagged<RuntimeError.ExtensionFailed>("ExtensionFailed")
/** Runs are in the middle of a turn, so the Fermata cannot be reconfigured now. Retry between turns. */
export const isRuntimeBusy = tagged<RuntimeError.RuntimeBusy>("RuntimeBusy")
/** The runtime was closed. */
export const isRuntimeClosed = tagged<RuntimeError.RuntimeClosed>("RuntimeClosed")
/** The run has ended. */
export const isRunEnded = tagged<RunError.RunEnded>("RunEnded")
/** The Fermata was closed. */
export const isFermataClosed = tagged<Fermata.FermataClosed>("FermataClosed")
/** The program has suspended the run, which can be resumed from the store. */
export const isRunSuspended = tagged<RunError.RunSuspended>("RunSuspended")
/**
 * @deprecated Use {@link isRunSuspended}.
 * @alias
 */
export const isRunLetGo = isRunSuspended
/** The session's last run has not ended, or another run has taken the position in the session. */
export const isSessionBusy = tagged<RunError.SessionBusy>("SessionBusy")
/** The program has no agent with this name or alias. */
export const isAgentNotFound = tagged<RunError.AgentNotFound>("AgentNotFound")
/** The program does not have a tool that the run needs, or the tool's argument schema has changed. */
export const isToolUnavailable = tagged<RunError.ToolUnavailable>("ToolUnavailable")
/** The prompt has no content. */
export const isEmptyPrompt = tagged<RunError.EmptyPrompt>("EmptyPrompt")
/** The limits that the caller gave are not valid. */
export const isLimitsInvalid = tagged<RunError.LimitsInvalid>("LimitsInvalid")
/** The approval policy that the caller gave is not valid. */
export const isPolicyInvalid = tagged<RunError.PolicyInvalid>("PolicyInvalid")
/** The options of a function have an unknown key or a wrong value; `misfits` names each, and the nearest known key. */
export const isOptionsInvalid = tagged<OptionsInvalid>("OptionsInvalid")
/** An id that the caller gave is not valid. */
export const isIdInvalid = tagged<RunError.IdInvalid>("IdInvalid")
/** A budget is exhausted, or the cost of a run with a cost budget is unknown. */
export const isBudgetExceeded = tagged<RunError.BudgetExceeded>("BudgetExceeded")
/** The model call failed. */
export const isModelFailed = tagged<RunError.ModelFailed>("ModelFailed")
/** The processes that drove the run died repeatedly. */
export const isWorkersLost = tagged<RunError.WorkersLost>("WorkersLost")
/** Code of the program threw where a run cannot continue, or the drive of the run met an unexpected exception. */
export const isRunDefect = tagged<RunError.RunDefect>("RunDefect")
/** The key for seals is not valid. */
export const isSealKeyInvalid = tagged<Seal.SealKeyInvalid>("SealKeyInvalid")
/** The text is not a run state. */
export const isRunStateMalformed = tagged<RunError.RunStateMalformed>("RunStateMalformed")
/** The state was written by a newer version of Fermata. */
export const isRunStateTooNew = tagged<RunError.RunStateTooNew>("RunStateTooNew")
/** The seal of the state does not match. */
export const isSealBroken = tagged<RunError.SealBroken>("SealBroken")
/** Two tools of an agent have the same name or alias. */
export const isToolNameTaken = tagged<ToolError.ToolNameTaken>("ToolNameTaken")
/** The definition of a tool is not valid. */
export const isToolDefinitionError = tagged<ToolError.ToolDefinitionError>("ToolDefinitionError")
/** The definition of an agent is not valid. */
export const isAgentDefinitionError = tagged<ToolError.AgentDefinitionError>("AgentDefinitionError")
/** An MCP server does not start, cannot be reached or cannot be used; see `reason`. */
export const isMcpServerError = tagged<McpServerError>("McpServerError")
