/**
 * The failures of runs, and the errors of functions that start or continue a run.
 *
 * A {@link RunFailure} happens *inside* a run. It is plain data, part of the run's state, and is returned in the result. The errors below
 * it, except {@link RunSuspended}, are refusals by functions. A refusal changes nothing, unless the error's description says otherwise.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Sha256 } from "./Blob.ts"
import { lines, sentence } from "./Display.ts"
import { GrantId, Revision, RunId, SessionId } from "./Id.ts"
import { Budget } from "./Limits.ts"
import { Misfit } from "./Misfit.ts"
import { TaggedError } from "./TaggedError.ts"

const ofBudget = {
  budget: Budget,
  limit: Schema.Finite,
  spent: Schema.Finite,
  /** For `context`: why nothing more can be left out. */
  reason: Schema.optionalKey(Schema.String)
}
const ofModel = { reason: Schema.String, description: Schema.String, isRetryable: Schema.Boolean }

/**
 * A budget of the run or of a run above it is exhausted or reserved for sub-agents, the context of a model call is too large, or the cost
 * of a run with `maxCostUsd` is unknown. Continue the state with a larger limit; for an unknown cost, with the model's prices or without
 * `maxCostUsd`.
 */
export class BudgetExceeded extends TaggedError<BudgetExceeded>()("BudgetExceeded", ofBudget) {
  override get message() {
    return this.budget === "cost" && this.spent < this.limit
      ? sentence`The cost of this run is unknown, and its limit is $${this.limit}: give the model's prices, or lift maxCostUsd.`
      : sentence`The ${this.budget} budget of ${this.limit} is used up (${this.spent}${this.reason === undefined ? "" : sentence`; ${this.reason}`}): continue the state with a larger limit.`
  }
}

/**
 * A model call failed, and so did its retries and fallbacks, if it had any. `reason` is the tag of the `ModelError`'s reason. If
 * `isRetryable`, the same call may succeed later: continue the state.
 */
export class ModelFailed extends TaggedError<ModelFailed>()("ModelFailed", ofModel) {
  override get message() {
    return sentence`The model call failed (${this.reason}): ${lines(this.description)}${this.isRetryable ? " Continue the state to try again." : ""}`
  }
}

/**
 * User code outside of tools, such as instructions or a context policy, failed or returned an invalid value; the drive of the run met an
 * unexpected exception; or the output cannot be encoded. Also the error in the result of a completed run whose stored output no longer fits
 * the agent's output schema.
 */
export class RunDefect extends TaggedError<RunDefect>()("RunDefect", { description: Schema.String }) {
  override get message() {
    return sentence`The run met a defect: ${lines(this.description.replace(/\.$/, ""))}. Its state is kept; continue it when the program is mended.`
  }
}

/** More processes in a row than `maxRecoveries` (default: 3) left the run without progress: they died, suspended it, or met a defect. */
export class WorkersLost extends TaggedError<WorkersLost>()("WorkersLost", {
  times: Schema.Finite
}) {
  override get message() {
    return sentence`The work on this run broke off ${this.times} times in a row, without its getting any further: the processes died, or met a defect. Its state is kept: find out what ends them (memory, a crash in a tool, the store), then continue it.`
  }
}

const ofContent = {
  sha256: Sha256,
  /** The name of the file, or its media type. */
  file: Schema.String,
  /** Whether the run's store does not have the content, has another one in its place, or is missing itself. */
  problem: Schema.Literals(["missing", "changed", "noStore"])
}

/** A file that the model was to receive cannot be read from the run's store. The model was not called. */
export class ContentMissing extends TaggedError<ContentMissing>()("ContentMissing", ofContent) {
  override get message() {
    const { file, problem, sha256 } = this
    if (problem === "noStore")
      return sentence`The file ${file} (SHA-256 ${sha256}) is in a store, and this run has none: continue the run with its store.`
    const what = problem === "missing" ? "is not in the store any more" : "is damaged in the store"
    return sentence`The file ${file} (SHA-256 ${sha256}) ${what}, so the model was not called: attach the same file to the store again, then resume the run.`
  }
}

const ofWindow = {
  /** The model profile. Absent for the client's own. */
  profile: Schema.optionalKey(Schema.String)
}

/** The window of the model is not known, and the context policy is strict. The model was not called. */
export class WindowUnknown extends TaggedError<WindowUnknown>()("WindowUnknown", ofWindow) {
  override get message() {
    const whose = this.profile === undefined ? "The model" : sentence`The model profile ${this.profile}`
    return `${whose} does not say how many tokens its context has, so the model was not called: set contextTokens in the profile, or give the policy a window and leave out "strict", then resume the run.`
  }
}

/** A run's failure as an error. The state of a root run that failed can be continued. */
export type RunError = BudgetExceeded | ContentMissing | ModelFailed | RunDefect | WindowUnknown | WorkersLost

/** A run's failure as the plain data that a state holds. */
export const RunFailure = Schema.Union([
  Schema.TaggedStruct("BudgetExceeded", ofBudget),
  Schema.TaggedStruct("ContentMissing", ofContent),
  Schema.TaggedStruct("ModelFailed", ofModel),
  Schema.TaggedStruct("RunDefect", { description: Schema.String }),
  Schema.TaggedStruct("WindowUnknown", ofWindow),
  Schema.TaggedStruct("WorkersLost", { times: Schema.Finite })
])
export type RunFailure = typeof RunFailure.Type

/** Converts a failure to the error of the same tag. */
export const fromFailure = (failure: RunFailure): RunError => {
  switch (failure._tag) {
    case "BudgetExceeded":
      return new BudgetExceeded(failure)
    case "ContentMissing":
      return new ContentMissing(failure)
    case "ModelFailed":
      return new ModelFailed(failure)
    case "RunDefect":
      return new RunDefect(failure)
    case "WindowUnknown":
      return new WindowUnknown(failure)
    case "WorkersLost":
      return new WorkersLost(failure)
  }
}

/** The prompt or message that a caller gave has no content, or is no prompt. Nothing was started or sent. */
export class EmptyPrompt extends TaggedError<EmptyPrompt>()("EmptyPrompt", {
  /** The problem of a value that is no prompt. Absent if the prompt is empty. */
  problem: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    return this.problem === undefined
      ? "The prompt is empty: pass some text or a file."
      : sentence`The prompt cannot be used: ${lines(this.problem)}. Pass a text, or a list of parts such as { _tag: "text", text: "Hello" }.`
  }
}

/**
 * An id that the caller chose is invalid. It needs 1 to {@link maxChosenId} letters, digits, `_`, `.`, `:` or `-`, and no form that Fermata
 * derives itself, such as `x.t1.1` or `x.r1`.
 */
export class IdInvalid extends TaggedError<IdInvalid>()("IdInvalid", {
  what: Schema.Literals(["runId", "sessionId"])
}) {
  override get message() {
    return sentence`The ${this.what} is invalid: use 1 to ${maxChosenId} letters, digits, "_", ".", ":" or "-", and no form that Fermata derives itself (".t1.1", ".r1").`
  }
}

/** The limits that a caller gave are invalid. Nothing was done. */
export class LimitsInvalid extends TaggedError<LimitsInvalid>()("LimitsInvalid", {
  issues: Schema.String,
  /** Their unknown keys and values of the wrong kind. Absent if the problem is another. */
  misfits: Schema.optionalKey(Schema.Array(Misfit))
}) {
  override get message() {
    return sentence`These limits cannot be used: ${lines(this.issues)}. Use whole numbers of 0 or more (fractions only for maxCostUsd and warnAt), and leave out the limits that you do not set.`
  }
}

/** The approval policy that a caller gave is invalid, or has a rule for a tool that the agents do not have. Nothing was done. */
export class PolicyInvalid extends TaggedError<PolicyInvalid>()("PolicyInvalid", {
  /** The problems, each with the name of its field. */
  issues: Schema.String,
  /** Its unknown and missing keys, and values of the wrong kind. */
  misfits: Schema.optionalKey(Schema.Array(Misfit))
}) {
  override get message() {
    return sentence`This approval policy cannot be used: ${lines(this.issues)}. Give a mode (ask, all, none, or until with a time in "until"), and rules with tool, action and message.`
  }
}

/**
 * The context of a new run, given by its caller or inherited, cannot be used, or an agent or a tool of the program does not accept it.
 * Nothing was done.
 */
export class ContextInvalid extends TaggedError<ContextInvalid>()("ContextInvalid", {
  issues: Schema.String,
  /**
   * The agent whose schema does not accept the context, or the agent of the tool. Absent if the context is no small JSON object, or holds a
   * secret.
   */
  agent: Schema.optionalKey(Schema.String),
  /** The tool whose schema does not accept the context. Absent if the schema is the agent's own. */
  tool: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    const { agent, issues, tool } = this
    if (agent === undefined) {
      return sentence`This context cannot be used: ${lines(issues)}. Give a small JSON object with references, such as a tenant and a user.`
    }
    const whose = tool === undefined ? `The agent ${agent}` : `The tool ${tool} of the agent ${agent}`
    return sentence`${whose} does not accept the context of the run: ${lines(issues)}. Give the run a context that fits the schema.`
  }
}

/** The caller gave a policy to a run that has not ended, or to an ended run without a prompt that starts the next run. Nothing was done. */
export class PolicyFixed extends TaggedError<PolicyFixed>()("PolicyFixed", {
  runId: RunId,
  status: Schema.String
}) {
  override get message() {
    return sentence`The run ${this.runId} (${this.status}) keeps the approval policy that it was started with: leave "policy" out, or give it with a prompt to a run that has ended.`
  }
}

/** The most characters of an id that a caller chooses. Ids derived from it are longer. */
export const maxChosenId = 128

/** A value that was decoded, unsealed or restored is not a run state, or not a row of a journal. */
export class RunStateMalformed extends TaggedError<RunStateMalformed>()("RunStateMalformed", {
  issues: Schema.String
}) {
  override get message() {
    return sentence`This is not a run state: ${lines(this.issues)}. Pass what RunStateCodec.encode returned, unchanged.`
  }
}

/** A newer Fermata wrote the state or the row of a journal. Nothing was changed. */
export class RunStateTooNew extends TaggedError<RunStateTooNew>()("RunStateTooNew", {
  version: Schema.Finite,
  supported: Schema.Finite
}) {
  override get message() {
    return sentence`This run state has version ${this.version}, and this Fermata reads up to ${this.supported}: update Fermata to continue it.`
  }
}

/**
 * `Seal.open` or `openState` was given a text that is not a state sealed with one of the keys: it was changed, cut off, sealed with another
 * key, or never sealed.
 */
export class SealBroken extends TaggedError<SealBroken>()("SealBroken", {}) {
  override get message() {
    return "The seal of this run state does not match: it was changed, or sealed with another key. It is not used."
  }
}

/**
 * The program has no agent of this name or alias, or the one that it has may not continue the run or the session; or the run was started
 * with another agent than the one that the caller named: `agent` is then that of the run. A stored run stays as it is.
 */
export class AgentNotFound extends TaggedError<AgentNotFound>()("AgentNotFound", {
  agent: Schema.String,
  /** The kind of the value that the caller gave as an agent, if it was neither a name nor an agent. */
  given: Schema.optionalKey(Schema.String),
  /** Names of the agents that could have acted instead. */
  known: Schema.Array(Schema.String),
  /** The session, if a handoff gave it to the agent and no agent of the program can hand over to that agent. */
  sessionId: Schema.optionalKey(SessionId),
  /** The run, if it is a sub-agent's. */
  runId: Schema.optionalKey(RunId),
  /** The agent that started the sub-agent `agent`, or `agent` itself if the starter is missing. Absent after a handoff. */
  startedBy: Schema.optionalKey(Schema.String),
  /** The agent that has the name as an alias, if it existed beside `agent` when the run was stored. It does not replace `agent`. */
  answeredBy: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    const other = this.answeredBy
    return other === undefined
      ? this.missing
      : sentence`${this.missing} The agent "${other}" has the alias "${this.agent}", but both agents existed when the run was stored, so "${other}" does not act on what was approved for "${this.agent}".`
  }

  private get missing(): string {
    const known = this.known.join(", ")
    if (this.given !== undefined)
      return sentence`An agent is given by its name or its definition, and this is ${this.given}: give one of ${known}.`
    if (this.runId !== undefined) {
      const whose =
        this.startedBy === undefined
          ? sentence`of a sub-agent is with the agent "${this.agent}", which is not among those that it can be handed over to`
          : this.startedBy === this.agent
            ? sentence`of a sub-agent was started by the agent "${this.agent}", which this program does not have`
            : sentence`belongs to the sub-agent "${this.agent}", which is not among those of "${this.startedBy}", which started it`
      return sentence`The run ${this.runId} ${whose} (${known}): define it again, or add its name to another agent's aliases. Until then its requests can be denied and it can be cancelled; other runs continue.`
    }
    if (this.sessionId !== undefined) {
      return sentence`The session ${this.sessionId} is with the agent "${this.agent}", which is not among those that can continue it (${known}): let one of them hand over to it again, add its name to another agent's aliases, or name the agent that answers in answeredBy.`
    }
    return sentence`There is no agent "${this.agent}" here (${known}): define it, or add its name to another agent's aliases.`
  }
}

/**
 * A call without a result cannot run with its tool; the call stays as it is. `missing`: the agent no longer has the tool. `contextRefused`:
 * the tool's schema does not accept the context of the run. `withoutSecrets`: the call refers to a secret, and the program has no source of
 * secrets. `withoutSandbox`: the tool acts in a sandbox, and the program has no provider for it. `sandboxLost`: the sandbox of the run no
 * longer exists. `sandboxUnavailable`: it cannot be opened now. `schemaChanged`, which only checks such as `checkResume` report: the tool no
 * longer accepts the call's arguments.
 */
export class ToolUnavailable extends TaggedError<ToolUnavailable>()("ToolUnavailable", {
  runId: RunId,
  tool: Schema.String,
  reason: Schema.Literals([
    "missing",
    "schemaChanged",
    "contextRefused",
    "withoutSecrets",
    "withoutSandbox",
    "sandboxLost",
    "sandboxUnavailable"
  ]),
  /** The secret that the program's source does not have. Absent with `withoutSecrets` if the program has no source. */
  secret: Schema.optionalKey(Schema.String),
  /**
   * The sandbox of the run: its backend and, once it exists, its id. Set with `sandboxLost` and `sandboxUnavailable`, and with
   * `withoutSandbox` if the run has a sandbox that the program's provider does not accept.
   */
  sandbox: Schema.optionalKey(
    Schema.Struct({ backend: Schema.String, id: Schema.optionalKey(Schema.String) })
  ),
  /** What prevents opening the sandbox, with `sandboxLost` and `sandboxUnavailable`, in a clause that ends without a full stop. */
  problem: Schema.optionalKey(Schema.String),
  /** Set with `sandboxUnavailable` if the same attempt may succeed later. */
  retryable: Schema.optionalKey(Schema.Boolean),
  /** Set if the call was allowed, by a decision or without one: no open request is about it, and it can no longer be denied. */
  isAllowed: Schema.optionalKey(Schema.Boolean)
}) {
  override get message() {
    const call = sentence`The run ${this.runId} waits to call ${this.tool}`
    if (this.reason === "contextRefused")
      return `${call}, whose schema does not accept the context of the run: let the tool accept it. ${this.meanwhile}`
    if (this.secret !== undefined)
      return sentence`${call} with the secret "${this.secret}", which the source of this program does not have: add it, or the call fails without running.`
    if (this.reason === "withoutSecrets")
      return `${call} with a secret, and this program has none: give it a source of secrets. ${this.meanwhile}`
    if (this.reason === "withoutSandbox")
      return this.sandbox === undefined
        ? `${call}, which acts in a sandbox, and this program has none: give it a sandbox provider. ${this.meanwhile}`
        : sentence`${call} in its sandbox (${this.sandbox.backend}), which the provider of this program does not accept: give it a provider that does. ${this.meanwhile}`
    if (this.reason === "sandboxLost")
      return `${call} in its sandbox, which is lost${this.why}. Restore it and resume the run. ${this.meanwhile}`
    if (this.reason === "sandboxUnavailable")
      return `${call} in a sandbox that is not available${this.why}. Resume the run when it is. ${this.meanwhile}`
    if (this.reason === "missing")
      return `${call}, which the agent no longer has: define it again, or add its name to another tool's aliases. ${this.meanwhile}`
    const changed = `${call}, which no longer accepts its arguments and will not run with them.`
    return this.isAllowed === true
      ? `${changed} The call was allowed already: when the run is resumed, it is asked about again.`
      : `${changed} Decide its open request without running it, or approve it with other arguments.`
  }

  private get why(): string {
    const name =
      this.sandbox === undefined
        ? ""
        : ` (${[this.sandbox.backend, this.sandbox.id].filter(Boolean).join(" ")})`
    return sentence`${name}${this.problem === undefined ? "" : `: ${this.problem}`}`
  }

  private get meanwhile(): string {
    return this.isAllowed === true
      ? "The call was allowed already, and runs then. To prevent that, cancel the run."
      : "Until then an open request about the call can be decided without running it, and the run can be cancelled."
  }
}

/**
 * The run is completed, cancelled or failed, and takes no message and no reopening. Without a store, a completed or cancelled run is
 * continued only with a `prompt`, which starts the next run of its session.
 */
export class RunEnded extends TaggedError<RunEnded>()("RunEnded", {
  runId: RunId,
  status: Schema.String,
  /** The root run, if the run is a sub-agent's. */
  root: Schema.optionalKey(RunId)
}) {
  override get message() {
    if (this.root !== undefined) {
      return sentence`The run ${this.runId} of a sub-agent is ${this.status}: send the message to the run that it worked for, ${this.root}.`
    }
    return sentence`The run ${this.runId} is ${this.status}: start a new run in its session with a prompt.`
  }
}

/**
 * This program stopped driving the run before it was held or had ended, for example because its scope, its runtime or its Fermata closed.
 * The store keeps the run; a worker, `recover`, `resume` or `attach` continues it.
 */
export class RunSuspended extends TaggedError<RunSuspended>()("RunSuspended", { runId: RunId }) {
  override get message() {
    return sentence`The program suspended the run ${this.runId} before it was held or ended. The store keeps its state: a worker or recover() continues it.`
  }
}

/**
 * @deprecated Use {@link RunSuspended}.
 * @alias
 */
export const RunLetGo = RunSuspended
/** @deprecated Use {@link RunSuspended}. */
export type RunLetGo = RunSuspended

/** The last sentence of the error of an import that wrote only the archive's revocations; "" if there are none. */
export const revokedText = (revoked: ReadonlyArray<GrantId> | undefined): string =>
  revoked === undefined || revoked.length === 0
    ? ""
    : ` Of the grants that the archive says were revoked, ${revoked.length} ${revoked.length === 1 ? "is" : "are"} revoked here now.`

/**
 * The session's last run has not ended, or another run has continued the session meanwhile; for an import, another run has a position that
 * the archive needs.
 */
export class SessionBusy extends TaggedError<SessionBusy>()("SessionBusy", {
  sessionId: SessionId,
  runId: RunId,
  status: Schema.String,
  /** The archived run, if this is the error of an import. */
  archived: Schema.optionalKey(RunId),
  /** The archive's revoked grants, which the import revoked here. It wrote nothing else. */
  revoked: Schema.optionalKey(Schema.Array(GrantId))
}) {
  override get message() {
    if (this.archived !== undefined) {
      const refusal = sentence`The session ${this.sessionId} has the run ${this.runId}, which is ${this.status}, in a place that the archive of ${this.archived} needs: nothing was imported. Import the archive into another store, or remove ${this.runId} first.`
      return `${refusal}${revokedText(this.revoked)}`
    }
    return this.status === "running" || this.status === "held"
      ? sentence`The session ${this.sessionId} has the run ${this.runId}, which is ${this.status}: resume it, or send the prompt to it by its runId.`
      : sentence`The session ${this.sessionId} has continued with the run ${this.runId} meanwhile: start again to build on that run.`
  }
}

/** `forkRun` or `Fermata.fork` was given a revision that the run's journal does not have. */
export class RevisionNotFound extends TaggedError<RevisionNotFound>()("RevisionNotFound", {
  runId: RunId,
  /** The revision as the caller gave it; it may be any number. */
  revision: Schema.Number,
  /** The run's latest revision. */
  latest: Revision
}) {
  override get message() {
    return sentence`The run ${this.runId} has no revision ${this.revision}: choose one from 1 to ${this.latest}, or leave it out.`
  }
}

/** `forkRun` or `Fermata.fork` was given a session that already has runs. */
export class SessionTaken extends TaggedError<SessionTaken>()("SessionTaken", {
  sessionId: SessionId,
  /** One of its runs. */
  runId: RunId
}) {
  override get message() {
    return sentence`The session ${this.sessionId} has the run ${this.runId}, and a fork begins a session of its own: choose another sessionId, or leave it out.`
  }
}
