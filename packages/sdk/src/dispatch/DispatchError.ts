/**
 * What can be wrong with dispatching, with what is sent to a run, and with what a conductor is asked for.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { sentence } from "../domain/Display.ts"
import { RunId } from "../domain/Id.ts"

/** The run has not asked anything. */
export class NothingToAnswer extends Schema.TaggedError<NothingToAnswer>()("NothingToAnswer", {
  runId: RunId
}) {
  override get message() {
    return sentence`The run ${this.runId} asks no question: send it with whenHeld "queue", or decide what it waits for.`
  }
}

/** The run has asked more than one thing. */
export class SeveralQuestions extends Schema.TaggedError<SeveralQuestions>()("SeveralQuestions", {
  runId: RunId,
  /** The ids of the questions. */
  requestIds: Schema.Array(Schema.String)
}) {
  override get message() {
    return sentence`The run ${this.runId} asks ${this.requestIds.length} questions: answer each by its id with decide (${this.requestIds.join(", ")}).`
  }
}

/** An answer is text, and what was sent is something else. */
export class AnswerNotText extends Schema.TaggedError<AnswerNotText>()("AnswerNotText", { runId: RunId }) {
  override get message() {
    return sentence`The question of the run ${this.runId} is answered with text alone: send the file with whenHeld "queue".`
  }
}

/** A sub-agent's run lies in another one, and has no beginning of its own to go back to. */
export class SubAgentNotForked extends Schema.TaggedError<SubAgentNotForked>()("SubAgentNotForked", {
  runId: RunId,
  /** The run that it lies in. */
  root: RunId
}) {
  override get message() {
    return sentence`The run ${this.runId} is a sub-agent's and cannot be forked: fork the run that it works for, ${this.root}, or send it with whenHeld "queue".`
  }
}

/** All slots of a conductor are taken, and no run may wait for one. */
export class ConductorFull extends Schema.TaggedError<ConductorFull>()("ConductorFull", {
  running: Schema.Natural,
  queued: Schema.Natural
}) {
  readonly isRetryable = true
  override get message() {
    return sentence`The conductor has ${this.running} runs at work${this.queued === 0 ? "" : sentence` and ${this.queued} that wait`}: dispatch again when one has ended, or let dispatch wait with overflow "block".`
  }
}

/** The conductor takes no runs any more, or was closed before this one was begun. Nothing of it has happened. */
export class ConductorClosed extends Schema.TaggedError<ConductorClosed>()("ConductorClosed", {}) {
  override get message() {
    return "The conductor was closed before this run was begun: dispatch it with another one."
  }
}

/** The budgets that the runs of a conductor share. */
export const SharedBudget = Schema.Literals(["tokens", "cost", "runs", "turns"])
export type SharedBudget = typeof SharedBudget.Type

/** Nothing is left of a budget of a conductor. The run was not begun. */
export class ConductorBudgetExceeded extends Schema.TaggedError<ConductorBudgetExceeded>()(
  "ConductorBudgetExceeded",
  {
    budget: SharedBudget,
    limit: Schema.Finite,
    /** What the runs have spent; for money a lower bound. */
    spent: Schema.Finite,
    /** What is set aside for runs that have not ended. */
    reserved: Schema.Finite
  }
) {
  override get message() {
    if (this.budget === "cost" && this.spent + this.reserved < this.limit) {
      return sentence`What the runs of this conductor have cost is not known, and its limit is $${this.limit}: give the models' prices, or lift maxCostUsd.`
    }
    return sentence`The ${this.budget} budget of ${this.limit} is used up: ${this.spent} are spent, ${this.reserved} set aside for runs that have not ended. Wait for those, or raise the limit.`
  }
}

/** What a run came to that was to succeed. */
const Unsuccessful = Schema.Struct({ runId: RunId, status: Schema.String, why: Schema.String })

const listed = (runs: ReadonlyArray<typeof Unsuccessful.Type>) =>
  runs.map(({ runId, status, why }) => `${runId} ${status}${why === "" ? "" : ` (${why})`}`).join(", ")

/** None of the runs has completed. */
export class NoneSucceeded extends Schema.TaggedError<NoneSucceeded>()("NoneSucceeded", {
  runs: Schema.Array(Unsuccessful)
}) {
  override get message() {
    return this.runs.length === 0
      ? "There was no run to succeed: pass at least one handle."
      : sentence`None of ${this.runs.length} runs has completed: ${listed(this.runs)}.`
  }
}

/** So many runs have ended otherwise that the wanted number cannot complete any more; or none was wanted that is a number. */
export class QuorumMissed extends Schema.TaggedError<QuorumMissed>()("QuorumMissed", {
  wanted: Schema.Number,
  completed: Schema.Natural,
  of: Schema.Natural,
  /** Those that did not. */
  runs: Schema.Array(Unsuccessful)
}) {
  override get message() {
    if (Number.isNaN(this.wanted))
      return "A quorum is a number of runs, and NaN is none: say how many are to complete."
    return sentence`${this.wanted} of ${this.of} runs were to complete, ${this.completed} have, and the rest cannot make it up: ${listed(this.runs)}.`
  }
}
