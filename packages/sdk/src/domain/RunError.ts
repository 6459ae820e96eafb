/**
 * Why a run failed, and why a run could not be started or continued.
 *
 * A {@link RunFailure} happened *inside* a run: it is plain data, part of the state, and comes back as a result. The errors
 * below it are misuse: they are raised before anything changed.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { lines, sentence } from "./Display.ts"
import { GrantId, Revision, RunId, SessionId } from "./Id.ts"
import { Budget } from "./Limits.ts"
import { Misfit } from "./Misfit.ts"

const ofBudget = { budget: Budget, limit: Schema.Finite, spent: Schema.Finite }
const ofModel = { reason: Schema.String, description: Schema.String, isRetryable: Schema.Boolean }

/** A budget is used up. Continue the state with larger limits. */
export class BudgetExceeded extends Schema.TaggedError<BudgetExceeded>()("BudgetExceeded", ofBudget) {
  override get message() {
    return this.budget === "cost" && this.spent < this.limit
      ? sentence`The cost of this run is unknown, and its limit is $${this.limit}: give the model's prices, or lift maxCostUsd.`
      : sentence`The ${this.budget} budget of ${this.limit} is used up (${this.spent}): continue the state with a larger limit.`
  }
}

/** The model did not answer. `reason` is the model client's word for it. */
export class ModelFailed extends Schema.TaggedError<ModelFailed>()("ModelFailed", ofModel) {
  override get message() {
    return sentence`The model call failed (${this.reason}): ${lines(this.description)}${this.isRetryable ? " Continue the state to try again." : ""}`
  }
}

/** The program itself is at fault: a hook or a policy threw. */
export class RunDefect extends Schema.TaggedError<RunDefect>()("RunDefect", { description: Schema.String }) {
  override get message() {
    return sentence`The run met a defect: ${lines(this.description)}. Its state is kept; continue it when the program is mended.`
  }
}

/** The work on the run broke off, again and again, without its getting any further: a process died, or met a defect of the store. */
export class WorkersLost extends Schema.TaggedError<WorkersLost>()("WorkersLost", {
  times: Schema.Finite
}) {
  override get message() {
    return sentence`The work on this run broke off ${this.times} times in a row, without its getting any further: the processes died, or met a defect. Its state is kept: find out what ends them (memory, a crash in a tool, the store), then continue it.`
  }
}

/** Why a run failed, as an error. Every one of these leaves a state that can be continued. */
export type RunError = BudgetExceeded | ModelFailed | RunDefect | WorkersLost

/** Why a run failed, as the plain data that a state holds. */
export const RunFailure = Schema.Union([
  Schema.TaggedStruct("BudgetExceeded", ofBudget),
  Schema.TaggedStruct("ModelFailed", ofModel),
  Schema.TaggedStruct("RunDefect", { description: Schema.String }),
  Schema.TaggedStruct("WorkersLost", { times: Schema.Finite })
])
export type RunFailure = typeof RunFailure.Type

/** The error that a failure stands for. */
export const fromFailure = (failure: RunFailure): RunError => {
  switch (failure._tag) {
    case "BudgetExceeded":
      return new BudgetExceeded(failure)
    case "ModelFailed":
      return new ModelFailed(failure)
    case "RunDefect":
      return new RunDefect(failure)
    case "WorkersLost":
      return new WorkersLost(failure)
  }
}

/** The prompt has no content. */
export class EmptyPrompt extends Schema.TaggedError<EmptyPrompt>()("EmptyPrompt", {}) {
  override get message() {
    return "The prompt is empty: pass some text or a file."
  }
}

/** An id that a caller chose cannot be one. */
export class IdInvalid extends Schema.TaggedError<IdInvalid>()("IdInvalid", {
  what: Schema.Literals(["runId", "sessionId"])
}) {
  override get message() {
    return sentence`The ${this.what} cannot be used: a string of 1 to ${maxChosenId} letters, digits, "_", ".", ":" or "-", and not as Fermata's own (".t1.1", ".r1").`
  }
}

/** Limits that a caller chose cannot be ones. */
export class LimitsInvalid extends Schema.TaggedError<LimitsInvalid>()("LimitsInvalid", {
  issues: Schema.String,
  /** The keys among them that there are not. */
  misfits: Schema.optionalKey(Schema.Array(Misfit))
}) {
  override get message() {
    return sentence`These limits cannot be used: ${lines(this.issues)}. Use whole numbers from 0 on (fractions only for maxCostUsd and warnAt), and leave out what is to have no limit.`
  }
}

/** An approval policy that a caller gave cannot be one. Nothing was done. */
export class PolicyInvalid extends Schema.TaggedError<PolicyInvalid>()("PolicyInvalid", {
  /** What is wrong, with the name of the field. */
  issues: Schema.String,
  /** The keys in it that there are not. */
  misfits: Schema.optionalKey(Schema.Array(Misfit))
}) {
  override get message() {
    return sentence`This approval policy cannot be used: ${lines(this.issues)}. Give a mode (ask, all, none, or until with a time in "until"), and rules of tool, action and message.`
  }
}

/** A policy was given to a run that has not ended. */
export class PolicyFixed extends Schema.TaggedError<PolicyFixed>()("PolicyFixed", {
  runId: RunId,
  status: Schema.String
}) {
  override get message() {
    return sentence`The run ${this.runId} (${this.status}) keeps the approval policy that it was started with: leave "policy" out, or give it with a prompt to a run that has ended.`
  }
}

/** Characters that an id of a caller's may have. Ids that are derived from it are longer. */
export const maxChosenId = 128

/** The text is not a run state. */
export class RunStateMalformed extends Schema.TaggedError<RunStateMalformed>()("RunStateMalformed", {
  issues: Schema.String
}) {
  override get message() {
    return sentence`This is not a run state: ${lines(this.issues)}. Pass what RunStateCodec.encode returned, unchanged.`
  }
}

/** The state was written by a newer Fermata. Nothing was changed. */
export class RunStateTooNew extends Schema.TaggedError<RunStateTooNew>()("RunStateTooNew", {
  version: Schema.Finite,
  supported: Schema.Finite
}) {
  override get message() {
    return sentence`This run state has version ${this.version}, and this Fermata reads up to ${this.supported}: update Fermata to continue it.`
  }
}

/** The seal does not match: the state was changed, or sealed with another key. */
export class SealBroken extends Schema.TaggedError<SealBroken>()("SealBroken", {}) {
  override get message() {
    return "The seal of this run state does not match: it was changed, or sealed with another key. It is not used."
  }
}

/** The state, or the session, belongs to an agent that this program does not have. The run stays as it is. */
export class AgentNotFound extends Schema.TaggedError<AgentNotFound>()("AgentNotFound", {
  agent: Schema.String,
  known: Schema.Array(Schema.String),
  /** Set when the agent has a session after a handoff, and is not among those that could go on with it. */
  sessionId: Schema.optionalKey(SessionId),
  /** Set when the agent is a sub-agent's: its run. */
  runId: Schema.optionalKey(RunId),
  /** Set when it is that sub-agent itself: the agent that started it, which alone it is looked for among. */
  startedBy: Schema.optionalKey(Schema.String),
  /** Set when an agent has the name as an alias that was there beside it under its own: it does not stand in for it. */
  answeredBy: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    const other = this.answeredBy
    return other === undefined
      ? this.missing
      : sentence`${this.missing} The agent "${other}" has the alias "${this.agent}", but was another agent beside it when the run was stored, and does not act on what was approved for "${this.agent}".`
  }

  private get missing(): string {
    const known = this.known.join(", ")
    if (this.runId !== undefined) {
      const whose =
        this.startedBy === undefined
          ? sentence`of a sub-agent is with the agent "${this.agent}", which is not among those that it hands over to`
          : this.startedBy === this.agent
            ? sentence`of a sub-agent was started by the agent "${this.agent}", which is not here`
            : sentence`belongs to the sub-agent "${this.agent}", which is not among those of "${this.startedBy}", which started it`
      return sentence`The run ${this.runId} ${whose} (${known}): offer it again, or name it in another agent's aliases. Until then its requests can be denied and it can be cancelled; the rest goes on.`
    }
    if (this.sessionId !== undefined) {
      return sentence`The session ${this.sessionId} is with the agent "${this.agent}", which is not among those that can go on with it (${known}): let one of them hand over to it again, name it in another agent's aliases, or say with answeredBy who answers.`
    }
    return sentence`The run belongs to the agent "${this.agent}", which is not here (${known}): pass it, or name it in another agent's aliases.`
  }
}

/** A call that has still to run names a tool that is gone or takes other arguments now. The run stays as it is. */
export class ToolUnavailable extends Schema.TaggedError<ToolUnavailable>()("ToolUnavailable", {
  runId: RunId,
  tool: Schema.String,
  reason: Schema.Literals(["missing", "schemaChanged"])
}) {
  override get message() {
    return this.reason === "missing"
      ? sentence`The run ${this.runId} waits to call ${this.tool}, which the agent no longer has: bring it back, name it in a tool's aliases, or deny the call.`
      : sentence`The run ${this.runId} waits to call ${this.tool}, which no longer takes those arguments: deny the call, or approve it with others.`
  }
}

/** The run ended already. */
export class RunEnded extends Schema.TaggedError<RunEnded>()("RunEnded", {
  runId: RunId,
  status: Schema.String,
  /** Of a sub-agent's run: the run that it has worked for. */
  root: Schema.optionalKey(RunId)
}) {
  override get message() {
    if (this.root !== undefined) {
      return sentence`The run ${this.runId} of a sub-agent is ${this.status}: say it to the run that it has worked for, ${this.root}.`
    }
    return sentence`The run ${this.runId} is ${this.status}: start a new run in its session with a prompt.`
  }
}

/** The program suspended the run before it was held or over. Nothing of it is lost. */
export class RunSuspended extends Schema.TaggedError<RunSuspended>()("RunSuspended", { runId: RunId }) {
  override get message() {
    return sentence`The program suspended the run ${this.runId} before it was held or over. It is in the store as it stood: a worker, or recover(), goes on with it.`
  }
}

/**
 * @deprecated Use {@link RunSuspended}.
 * @alias
 */
export const RunLetGo = RunSuspended
/** @deprecated Use {@link RunSuspended}. */
export type RunLetGo = RunSuspended

/** What is said of the revocations that an archive carries, where nothing else of it was written. */
export const revokedText = (revoked: ReadonlyArray<GrantId> | undefined): string =>
  revoked === undefined || revoked.length === 0
    ? ""
    : ` Of the grants that the archive says were revoked, ${revoked.length} ${revoked.length === 1 ? "is" : "are"} revoked here now.`

/** The session's last run has not ended. */
export class SessionBusy extends Schema.TaggedError<SessionBusy>()("SessionBusy", {
  sessionId: SessionId,
  runId: RunId,
  status: Schema.String,
  /** Of an import: the run that the archive is of. */
  archived: Schema.optionalKey(RunId),
  /** Of an import: the grants that the archive says were revoked, and that are revoked here now. Nothing else of it was written. */
  revoked: Schema.optionalKey(Schema.Array(GrantId))
}) {
  override get message() {
    if (this.archived !== undefined) {
      const refusal = sentence`The session ${this.sessionId} has the run ${this.runId}, which is ${this.status}, in a place that the archive of ${this.archived} needs: nothing was imported. Import the archive into another store, or remove ${this.runId} first.`
      return `${refusal}${revokedText(this.revoked)}`
    }
    return this.status === "running" || this.status === "held"
      ? sentence`The session ${this.sessionId} has the run ${this.runId}, which is ${this.status}: resume it, or send the prompt to it by its runId.`
      : sentence`The session ${this.sessionId} has gone on with the run ${this.runId} meanwhile: start again, and it will be built upon.`
  }
}

/** The journal has no such place. */
export class RevisionNotFound extends Schema.TaggedError<RevisionNotFound>()("RevisionNotFound", {
  runId: RunId,
  /** As it was asked for, which need not be a revision. */
  revision: Schema.Number,
  /** The last one there is. */
  latest: Revision
}) {
  override get message() {
    return sentence`The run ${this.runId} has no revision ${this.revision}: choose one from 1 to ${this.latest}, or leave it out.`
  }
}

/** The session that a fork was to begin has runs already. */
export class SessionTaken extends Schema.TaggedError<SessionTaken>()("SessionTaken", {
  sessionId: SessionId,
  /** One of them. */
  runId: RunId
}) {
  override get message() {
    return sentence`The session ${this.sessionId} has the run ${this.runId}, and a fork begins a session of its own: choose another sessionId, or leave it out.`
  }
}
