/**
 * Type guards for errors. They compare `_tag` instead of using `instanceof`, so that they also work in a program with two copies of this
 * package. Each comment says what the error means. Some errors, such as those of a conductor, have no guard here: compare their `_tag`.
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

/** The store, or the run in which the request was looked for, has no request with this id. */
export const isRequestNotFound = tagged<Rejection.RequestNotFound>("RequestNotFound")
/** No call waits for the token, or not yet: let the sender deliver its result again later. */
export const isTokenNotFound = tagged<Rejection.TokenNotFound>("TokenNotFound")
/** The request was already decided, or has expired; the error has the decision that counts. */
export const isAlreadyDecided = tagged<Rejection.AlreadyDecided>("AlreadyDecided")
/** The request was closed without a decision, for example because its run ended; see `reason`. */
export const isRequestSuperseded = tagged<Rejection.RequestSuperseded>("RequestSuperseded")
/**
 * The decision was made about another tool, other arguments or other facts than those of the call, or the request was changed in the store
 * or in the given state.
 */
export const isArgumentsChanged = tagged<Rejection.ArgumentsChanged>("ArgumentsChanged")
/**
 * The kind of the decision does not answer the kind of the request, or the limit of a top-up is too low or no whole number; see `allowed`.
 */
export const isDecisionNotApplicable = tagged<Rejection.DecisionNotApplicable>("DecisionNotApplicable")
/**
 * The edited arguments cannot be used: the tool's schema refuses or would change them, the program lacks the agent or the tool, or the call
 * is one by which a model calls another agent.
 */
export const isEditedArgumentsInvalid = tagged<Rejection.EditedArgumentsInvalid>("EditedArgumentsInvalid")
/** The value is not a decision, or the request that it answers is not a whole one. */
export const isDecisionMalformed = tagged<Rejection.DecisionMalformed>("DecisionMalformed")
/** The tool is privileged, or the request is a sub-agent's and the grant for the session. Nothing was decided. */
export const isGrantRefused = tagged<Rejection.GrantRefused>("GrantRefused")
/** Neither the run nor its session has the grant. */
export const isGrantNotFound = tagged<GrantNotFound>("GrantNotFound")
/**
 * The `by` of a caller is neither a principal nor a name, is blank, is reserved for Fermata, or is no person where a denial is reopened.
 */
export const isPrincipalInvalid = tagged<PrincipalInvalid>("PrincipalInvalid")
/** A process, which may be this one, owns the lease of the run: `owner`, until `until` at least. */
export const isRunBusy = tagged<RunStoreError.RunBusy>("RunBusy")
/** Another writer has changed the run first: its journal, or a decision or a message of its mail. */
export const isRunConflict = tagged<RunStoreError.RunConflict>("RunConflict")
/** The store has no run with this id, or no longer (`removed`), or the id is not a string (`given`). */
export const isRunNotFound = tagged<RunStoreError.RunNotFound>("RunNotFound")
/** A run with this id already exists. For an import, see `archive`. */
export const isRunExists = tagged<RunStoreError.RunExists>("RunExists")
/** A later run or a fork, `by`, builds on the run, so the run cannot be removed. */
export const isRunContinued = tagged<RunStoreError.RunContinued>("RunContinued")
/** The run that a new run builds on was removed or replaced before the new run was stored. Start again. */
export const isRunRemoved = tagged<RunStoreError.RunRemoved>("RunRemoved")
/** This process has lost the lease of the run: it expired, another process has claimed the run, or the run was removed. */
export const isLeaseLost = tagged<RunStoreError.LeaseLost>("LeaseLost")
/** The store failed, or has refused an argument; see `reason`. */
export const isRunStoreError = tagged<RunStoreError.RunStoreError>("RunStoreError")
/** The value is not an archive that can be imported. */
export const isArchiveInvalid = tagged<Archive.ArchiveInvalid>("ArchiveInvalid")
/** The message, or its `messageId`, is not valid, or another message of the run has the `messageId`; see `issues`. */
export const isMessageInvalid = tagged<RunStoreError.MessageInvalid>("MessageInvalid")
/** `fork` was given a revision that the run does not have. */
export const isRevisionNotFound = tagged<RunError.RevisionNotFound>("RevisionNotFound")
/** `fork` needs a session of its own, and the given one already has runs. */
export const isSessionTaken = tagged<RunError.SessionTaken>("SessionTaken")
/** A policy was given without the start of a new run. A run that is continued keeps the policy with which it was started. */
export const isPolicyFixed = tagged<RunError.PolicyFixed>("PolicyFixed")
/** The options of a runtime, of a Fermata or of one of its methods, or a change of a configuration, are not valid; see `problems`. */
export const isRuntimeOptionsInvalid = tagged<RuntimeError.RuntimeOptionsInvalid>("RuntimeOptionsInvalid")
/** There is no capability profile of this name; see `known`. */
export const isCapabilityProfileNotFound =
  tagged<RuntimeError.CapabilityProfileNotFound>("CapabilityProfileNotFound")
/** The model client has no profile of this name; see `known`. */
export const isModelProfileNotFound = tagged<RuntimeError.ModelProfileNotFound>("ModelProfileNotFound")
/** An extension failed to make its tools or to start. */
export const isExtensionFailed = tagged<RuntimeError.ExtensionFailed>("ExtensionFailed")
/** Runs are in the middle of a turn, so their agents cannot be reconfigured, and no capture can be restored. Retry between turns. */
export const isRuntimeBusy = tagged<RuntimeError.RuntimeBusy>("RuntimeBusy")
/** The runtime of the agent was closed, and takes no more runs. */
export const isRuntimeClosed = tagged<RuntimeError.RuntimeClosed>("RuntimeClosed")
/**
 * The run is completed, cancelled or failed, and takes no message and no reopening. Without a store, the `resume` of a completed or
 * cancelled run needs a `prompt`.
 */
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
/** The program has no agent with this name or alias that may act here, or the run was started with another agent than the given one. */
export const isAgentNotFound = tagged<RunError.AgentNotFound>("AgentNotFound")
/**
 * A tool that the run needs cannot be used; see `reason`. The program does not have it (`missing`), it no longer accepts the context of the
 * run (`contextRefused`) or the arguments of an open call (`schemaChanged`), or the call refers to a secret and the program has no source
 * of secrets (`withoutSecrets`).
 */
export const isToolUnavailable = tagged<RunError.ToolUnavailable>("ToolUnavailable")
/** The prompt has no content, or is not a prompt (`problem`). */
export const isEmptyPrompt = tagged<RunError.EmptyPrompt>("EmptyPrompt")
/** The limits that the caller gave are not valid. */
export const isLimitsInvalid = tagged<RunError.LimitsInvalid>("LimitsInvalid")
/** The approval policy that the caller gave is not valid. */
export const isPolicyInvalid = tagged<RunError.PolicyInvalid>("PolicyInvalid")
/**
 * The context of a new run, given by its caller or inherited, cannot be used, or an agent or a tool (`agent`, `tool`) does not accept it.
 */
export const isContextInvalid = tagged<RunError.ContextInvalid>("ContextInvalid")
/** The options of a function have an unknown key or a wrong value, or lack a key; `misfits` names each, and the nearest known key. */
export const isOptionsInvalid = tagged<OptionsInvalid>("OptionsInvalid")
/** The id of a run or of a session that the caller chose is not valid. */
export const isIdInvalid = tagged<RunError.IdInvalid>("IdInvalid")
/**
 * A budget is exhausted or reserved for sub-agents, the context of a model call is too large, or the cost of a run with a cost budget is
 * unknown.
 */
export const isBudgetExceeded = tagged<RunError.BudgetExceeded>("BudgetExceeded")
/** The model call failed; see `reason` and `isRetryable`. */
export const isModelFailed = tagged<RunError.ModelFailed>("ModelFailed")
/** More processes in a row than `maxRecoveries` permits left the run without progress: they died, suspended it, or met a defect. */
export const isWorkersLost = tagged<RunError.WorkersLost>("WorkersLost")
/**
 * Code of the program, such as a context policy, threw or returned a wrong value; the drive of the run met an unexpected exception; or the
 * stored output of the run no longer fits the output schema.
 */
export const isRunDefect = tagged<RunError.RunDefect>("RunDefect")
/** The key for seals is not valid: its secret is too short, or its id has the wrong form. */
export const isSealKeyInvalid = tagged<Seal.SealKeyInvalid>("SealKeyInvalid")
/** The value is not a run state. */
export const isRunStateMalformed = tagged<RunError.RunStateMalformed>("RunStateMalformed")
/** The state was written by a newer version of Fermata. */
export const isRunStateTooNew = tagged<RunError.RunStateTooNew>("RunStateTooNew")
/** `openState` was given a text that is not a state sealed with one of the keys, or that was changed. */
export const isSealBroken = tagged<RunError.SealBroken>("SealBroken")
/** Two tools of an agent have the same name or alias. */
export const isToolNameTaken = tagged<ToolError.ToolNameTaken>("ToolNameTaken")
/** The definition of a tool is not valid. */
export const isToolDefinitionError = tagged<ToolError.ToolDefinitionError>("ToolDefinitionError")
/** The definition of an agent is not valid, two agents have the same name or alias, or a resource of an agent's tools is closed. */
export const isAgentDefinitionError = tagged<ToolError.AgentDefinitionError>("AgentDefinitionError")
/** An MCP server does not start, cannot be reached or cannot be used, or an option for its tools is invalid; see `reason`. */
export const isMcpServerError = tagged<McpServerError>("McpServerError")
