/**
 * Telling errors apart without `instanceof`: the guards look at `_tag`, so that they also work when a program has two copies of
 * this package.
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
import type * as ToolError from "../tool/ToolError.ts"
import type * as Fermata from "./Fermata.ts"

const tagged =
  <E extends { readonly _tag: string }>(tag: E["_tag"]) =>
  (error: unknown): error is E =>
    typeof error === "object" && error !== null && "_tag" in error && error._tag === tag

/** No run has asked for this. */
export const isRequestNotFound = tagged<Rejection.RequestNotFound>("RequestNotFound")
/** Another decision came first; it is in the error. */
export const isAlreadyDecided = tagged<Rejection.AlreadyDecided>("AlreadyDecided")
/** The request no longer waits. */
export const isRequestSuperseded = tagged<Rejection.RequestSuperseded>("RequestSuperseded")
/** The decision was about other arguments. */
export const isArgumentsChanged = tagged<Rejection.ArgumentsChanged>("ArgumentsChanged")
/** This kind of decision does not answer this kind of request. */
export const isDecisionNotApplicable = tagged<Rejection.DecisionNotApplicable>("DecisionNotApplicable")
/** The tool does not take the edited arguments. */
export const isEditedArgumentsInvalid = tagged<Rejection.EditedArgumentsInvalid>("EditedArgumentsInvalid")
/** Something that is not a decision was passed as one. */
export const isDecisionMalformed = tagged<Rejection.DecisionMalformed>("DecisionMalformed")
/** The tool is privileged, or a sub-agent's and granted for the session: nothing was decided. */
export const isGrantRefused = tagged<Rejection.GrantRefused>("GrantRefused")
/** Neither the run nor its session has the grant. */
export const isGrantNotFound = tagged<GrantNotFound>("GrantNotFound")
/** Who a caller says to be cannot be put on record. */
export const isPrincipalInvalid = tagged<PrincipalInvalid>("PrincipalInvalid")
/** Another process works on the run; `owner` and `until` say who and how long. */
export const isRunBusy = tagged<RunStoreError.RunBusy>("RunBusy")
/** Another writer appended first. */
export const isRunConflict = tagged<RunStoreError.RunConflict>("RunConflict")
/** There is no such run. */
export const isRunNotFound = tagged<RunStoreError.RunNotFound>("RunNotFound")
/** There is such a run already. */
export const isRunExists = tagged<RunStoreError.RunExists>("RunExists")
/** A later run builds on the run, so it cannot be removed. */
export const isRunContinued = tagged<RunStoreError.RunContinued>("RunContinued")
/** The run that a new one was to build on was removed meanwhile: start again. */
export const isRunRemoved = tagged<RunStoreError.RunRemoved>("RunRemoved")
/** This process lost the run to another. */
export const isLeaseLost = tagged<RunStoreError.LeaseLost>("LeaseLost")
/** The store failed; `reason` says how. */
export const isRunStoreError = tagged<RunStoreError.RunStoreError>("RunStoreError")
/** The value is not an archive that can be imported. */
export const isArchiveInvalid = tagged<Archive.ArchiveInvalid>("ArchiveInvalid")
/** The message cannot be kept; `issues` says why. */
export const isMessageInvalid = tagged<RunStoreError.MessageInvalid>("MessageInvalid")
/** The run has no such moment to be forked from. */
export const isRevisionNotFound = tagged<RunError.RevisionNotFound>("RevisionNotFound")
/** A fork has a session of its own, and this one has runs. */
export const isSessionTaken = tagged<RunError.SessionTaken>("SessionTaken")
/** A run that has not ended keeps the policy that it was started with. */
export const isPolicyFixed = tagged<RunError.PolicyFixed>("PolicyFixed")
/** The runtime was closed. */
export const isRuntimeClosed = tagged<RuntimeError.RuntimeClosed>("RuntimeClosed")
/** The run has ended. */
export const isRunEnded = tagged<RunError.RunEnded>("RunEnded")
/** It was closed. */
export const isFermataClosed = tagged<Fermata.FermataClosed>("FermataClosed")
/** The program suspended the run; it is in the store as it stood. */
export const isRunSuspended = tagged<RunError.RunSuspended>("RunSuspended")
/**
 * @deprecated Use {@link isRunSuspended}.
 * @alias
 */
export const isRunLetGo = isRunSuspended
/** The session's last run has not ended. */
export const isSessionBusy = tagged<RunError.SessionBusy>("SessionBusy")
/** The run's agent is not here. */
export const isAgentNotFound = tagged<RunError.AgentNotFound>("AgentNotFound")
/** A tool that the run needs is not here, or takes other arguments now. */
export const isToolUnavailable = tagged<RunError.ToolUnavailable>("ToolUnavailable")
/** The prompt has no content. */
export const isEmptyPrompt = tagged<RunError.EmptyPrompt>("EmptyPrompt")
/** The limits that the caller chose cannot be limits. */
export const isLimitsInvalid = tagged<RunError.LimitsInvalid>("LimitsInvalid")
/** The approval policy that the caller gave cannot be one. */
export const isPolicyInvalid = tagged<RunError.PolicyInvalid>("PolicyInvalid")
/** The options of a call have a key that there is not; `misfits` says which, and which it may have been. */
export const isOptionsInvalid = tagged<OptionsInvalid>("OptionsInvalid")
/** An id that the caller chose cannot be one. */
export const isIdInvalid = tagged<RunError.IdInvalid>("IdInvalid")
/** A budget is used up. */
export const isBudgetExceeded = tagged<RunError.BudgetExceeded>("BudgetExceeded")
/** The model did not answer. */
export const isModelFailed = tagged<RunError.ModelFailed>("ModelFailed")
/** The processes that worked on the run died, again and again. */
export const isWorkersLost = tagged<RunError.WorkersLost>("WorkersLost")
/** The program itself is at fault. */
export const isRunDefect = tagged<RunError.RunDefect>("RunDefect")
/** The key cannot seal anything. */
export const isSealKeyInvalid = tagged<Seal.SealKeyInvalid>("SealKeyInvalid")
/** The text is not a run state. */
export const isRunStateMalformed = tagged<RunError.RunStateMalformed>("RunStateMalformed")
/** The state was written by a newer version. */
export const isRunStateTooNew = tagged<RunError.RunStateTooNew>("RunStateTooNew")
/** The seal of the state does not match. */
export const isSealBroken = tagged<RunError.SealBroken>("SealBroken")
/** Two tools answer to one name. */
export const isToolNameTaken = tagged<ToolError.ToolNameTaken>("ToolNameTaken")
/** The definition of a tool cannot work. */
export const isToolDefinitionError = tagged<ToolError.ToolDefinitionError>("ToolDefinitionError")
/** The definition of an agent cannot work. */
export const isAgentDefinitionError = tagged<ToolError.AgentDefinitionError>("AgentDefinitionError")
