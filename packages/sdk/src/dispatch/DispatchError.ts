/**
 * The errors of dispatching runs, of sending messages to them, and of conductors.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { sentence } from "../domain/Display.ts"
import { RunId } from "../domain/Id.ts"
import { TaggedError } from "../domain/TaggedError.ts"

/** `send` with `whenHeld: "answer"` found no open question of the run. */
export class NothingToAnswer extends TaggedError<NothingToAnswer>()("NothingToAnswer", {
  runId: RunId
}) {
  override get message() {
    return sentence`The run ${this.runId} has no open question: send the message with whenHeld "queue", or decide the open requests.`
  }
}

/** `send` with `whenHeld: "answer"` found several open questions of the run. */
export class SeveralQuestions extends TaggedError<SeveralQuestions>()("SeveralQuestions", {
  runId: RunId,
  /** The ids of the questions. */
  requestIds: Schema.Array(Schema.String)
}) {
  override get message() {
    return sentence`The run ${this.runId} has ${this.requestIds.length} open questions: answer each by its id with decide (${this.requestIds.join(", ")}).`
  }
}

/** `send` with `whenHeld: "answer"` was given a message with other parts than text, and the answer to a question must be text. */
export class AnswerNotText extends TaggedError<AnswerNotText>()("AnswerNotText", { runId: RunId }) {
  override get message() {
    return sentence`The answer to the question of the run ${this.runId} must be text: send the file with whenHeld "queue".`
  }
}

/**
 * `send` with `whenHeld: "fork"` was called on the handle of a sub-agent's run with open requests. Such a run cannot be forked, because it
 * is part of its root's run.
 */
export class SubAgentNotForked extends TaggedError<SubAgentNotForked>()("SubAgentNotForked", {
  runId: RunId,
  /** The id of the root's run. */
  root: RunId
}) {
  override get message() {
    return sentence`The run ${this.runId} is a sub-agent's and cannot be forked: fork its root ${this.root}, or send the message with whenHeld "queue".`
  }
}

/**
 * `dispatch` or `dispatchStored` of a conductor whose slots are all taken, and where no further run may wait for one: `overflow` is
 * `reject`, or `maxQueued` runs wait already.
 */
export class ConductorFull extends TaggedError<ConductorFull>()("ConductorFull", {
  running: Schema.Natural,
  queued: Schema.Natural
}) {
  readonly isRetryable = true
  override get message() {
    return sentence`The conductor is full: ${this.running} runs are running${this.queued === 0 ? "" : sentence` and ${this.queued} are queued`}. Dispatch again when one has ended, or set overflow to "block".`
  }
}

/**
 * The conductor was closed before it started, attached to or adopted the run. From `dispatch`, `dispatchStored`, `attach` and `adopt`, and
 * from `wait` and `done` of a run that was still queued. The conductor did nothing with the run.
 */
export class ConductorClosed extends TaggedError<ConductorClosed>()("ConductorClosed", {}) {
  override get message() {
    return "The conductor was closed before the run was started: dispatch the prompt with another conductor."
  }
}

/** The budgets that the runs of a conductor share. */
export const SharedBudget = Schema.Literals(["tokens", "cost", "runs", "turns"])
export type SharedBudget = typeof SharedBudget.Type

/**
 * A shared budget of the conductor is exhausted, or its rest is reserved for runs that have not ended; or the cost budget is set, and a run
 * of unknown cost has ended. The conductor did not start or take over the run. A stored run that was queued stays queued in the store: do
 * not dispatch its prompt again. A conductor of the same name starts it when it adopts it and has the budget.
 */
export class ConductorBudgetExceeded extends TaggedError<ConductorBudgetExceeded>()(
  "ConductorBudgetExceeded",
  {
    budget: SharedBudget,
    limit: Schema.Finite,
    /** The consumption of the runs that have ended, for `cost` a lower bound; for `runs`, the number of dispatched and attached runs. */
    spent: Schema.Finite,
    /** The amount that is reserved for runs that have not ended. */
    reserved: Schema.Finite
  }
) {
  override get message() {
    if (this.budget === "cost" && this.spent + this.reserved < this.limit) {
      return sentence`The cost of the conductor's runs is unknown, and its limit is $${this.limit}: set the prices of the models, or remove maxCostUsd.`
    }
    return sentence`The conductor's ${this.budget} budget of ${this.limit} is exhausted: ${this.spent} spent, ${this.reserved} reserved for runs that have not ended. Wait for these, or raise the limit.`
  }
}

/** A run that did not complete, and the reason. */
const Unsuccessful = Schema.Struct({ runId: RunId, status: Schema.String, why: Schema.String })

const listed = (runs: ReadonlyArray<typeof Unsuccessful.Type>) =>
  runs.map(({ runId, status, why }) => `${runId} ${status}${why === "" ? "" : ` (${why})`}`).join(", ")

/** `firstSuccess`: none of the runs completed, or no handle was given. */
export class NoneSucceeded extends TaggedError<NoneSucceeded>()("NoneSucceeded", {
  runs: Schema.Array(Unsuccessful)
}) {
  override get message() {
    return this.runs.length === 0
      ? "No run can succeed without runs: pass at least one handle."
      : sentence`None of the ${this.runs.length} runs completed: ${listed(this.runs)}.`
  }
}

/**
 * `quorum`: the wanted number of completed runs cannot be reached, because too few handles were given or too many runs ended otherwise; or
 * it is `NaN`.
 */
export class QuorumMissed extends TaggedError<QuorumMissed>()("QuorumMissed", {
  wanted: Schema.Number,
  completed: Schema.Natural,
  of: Schema.Natural,
  /** The runs that had ended without completing when the quorum was missed. The others were cancelled then. */
  runs: Schema.Array(Unsuccessful)
}) {
  override get message() {
    if (Number.isNaN(this.wanted)) return "The quorum is NaN: pass the number of runs that have to complete."
    return sentence`The quorum of ${this.wanted} of ${this.of} runs cannot be reached; ${this.completed} completed.${this.runs.length === 0 ? "" : sentence` Not completed: ${listed(this.runs)}.`}`
  }
}
