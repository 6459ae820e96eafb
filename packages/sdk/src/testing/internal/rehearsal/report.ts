/**
 * The report of a rehearsal, and the assertions on it.
 */
import * as Arr from "effect/Array"
import * as Schema from "effect/Schema"
import { lines, sentence } from "../../../domain/Display.ts"
import type { RunId } from "../../../domain/Id.ts"
import type { Interruption } from "../../../domain/Interruption.ts"
import type { Message } from "../../../domain/Message.ts"
import type { Status } from "../../../domain/RunState.ts"
import { TaggedError } from "../../../domain/TaggedError.ts"
import type { ModelRequest } from "../../../model/ModelRequest.ts"
import type { Evidence, Inbox, Journal } from "../../Evidence.ts"
import { check } from "../../RunChecker.ts"
import { validateHistory } from "../../ScriptedModel.ts"
import { beginning } from "../simulation/clock.ts"
import type { Body, EffectRecord } from "./ledger.ts"
import type { Crash } from "./worker.ts"

/** A run at the end of a rehearsal. */
export interface RunReport {
  readonly runId: RunId
  readonly status: Status
  /** The requests that it waits for. */
  readonly open: ReadonlyArray<Interruption>
  /** Its history as a provider would receive it. */
  readonly messages: ReadonlyArray<Message>
}

/** The facts that a rehearsal collected. */
export interface Report {
  readonly crashes: ReadonlyArray<Crash>
  /** Every point that was passed, in order. */
  readonly passed: ReadonlyArray<string>
  /** The side effects, in order. */
  readonly effects: ReadonlyArray<EffectRecord>
  /** The executions of tool bodies, in the order in which they started. */
  readonly bodies: ReadonlyArray<Body>
  readonly runs: ReadonlyArray<RunReport>
  /** The journals of the runs, for `RunChecker`. */
  readonly journals: ReadonlyArray<Journal>
  /** The mail in the store, for `RunChecker`. */
  readonly inbox: Inbox
  /** Further evidence for `RunChecker`: executions of bodies, results of `reconcile`, and data that the store acknowledged. */
  readonly evidence: Pick<Evidence, "acknowledged" | "effects" | "reconciled">
  /** The model requests, in order. */
  readonly requests: ReadonlyArray<ModelRequest>
  /** The report of the scenario without a fault, in the reports of `everyCrash`. */
  readonly undisturbed?: Report
}

/** `assertEffectsAtMostOnce`: an effect happened more than once under one key. */
export class EffectRepeated extends TaggedError<EffectRepeated>()("EffectRepeated", {
  effect: Schema.String,
  key: Schema.String,
  tool: Schema.optionalKey(Schema.String),
  /** Seconds since the rehearsal began. */
  times: Schema.Array(Schema.Finite),
  attempts: Schema.Array(Schema.Natural),
  crashes: Schema.Array(Schema.String)
}) {
  override get message() {
    const [first, second] = this.times
    const [one, two] = this.attempts
    const inAttempts = one === undefined || two === undefined ? "" : sentence`, in attempts ${one} and ${two}`
    return (
      sentence`${nameOf(this.effect, this.tool)} happened ${this.times.length} times for the call with the key ${this.key}: ` +
      sentence`after ${first} s and after ${second} s${inAttempts}; ${crashedAt(this.crashes)}. ` +
      (one === two
        ? "One execution of the body caused it twice: give each effect its own key, or cause it once."
        : "The body ran again and the key was not recognized: pass the key to the service that causes the effect, or do not declare the tool idempotent.")
    )
  }
}

/**
 * `assertEffectsAtMostOnce`: a tool that is declared idempotent ran again, and it records no effects that would show whether this was
 * harmless.
 */
export class EffectUnproven extends TaggedError<EffectUnproven>()("EffectUnproven", {
  tool: Schema.String,
  key: Schema.String,
  crashes: Schema.Array(Schema.String)
}) {
  override get message() {
    return (
      sentence`${this.tool} is declared idempotent and ran again with the key ${this.key}; ${crashedAt(this.crashes)}. ` +
      sentence`It is unknown whether its effect happened twice: record the effect in the tool's fake with effects.record("${this.tool}", key), or with effects.once if the service recognizes the key.`
    )
  }
}

/** `assertNothingLost`: an effect of the scenario without a fault is missing, and the runs ended as if it had happened. */
export class EffectLost extends TaggedError<EffectLost>()("EffectLost", {
  effect: Schema.String,
  tool: Schema.optionalKey(Schema.String),
  expected: Schema.Natural,
  actual: Schema.Natural,
  crashes: Schema.Array(Schema.String)
}) {
  override get message() {
    return (
      sentence`${nameOf(this.effect, this.tool)} happened ${this.actual} instead of ${this.expected} times, and the run continued ` +
      sentence`without it; ${crashedAt(this.crashes)}. ` +
      "A crash can separate the effects of one body: make each effect a tool, or make the body idempotent."
    )
  }
}

/** `assertNothingLost`: a run has neither ended nor is held with an open request. */
export class RunLost extends TaggedError<RunLost>()("RunLost", {
  runId: Schema.String,
  status: Schema.String,
  crashes: Schema.Array(Schema.String)
}) {
  override get message() {
    return (
      sentence`The run ${this.runId} is ${this.status} and waits for no decision; ` +
      sentence`${crashedAt(this.crashes)}. No worker continues it: look at its events.`
    )
  }
}

/** `assertTranscriptsValid`: a history that a provider would refuse. */
export class TranscriptInvalid extends TaggedError<TranscriptInvalid>()("TranscriptInvalid", {
  runId: Schema.String,
  problem: Schema.String,
  crashes: Schema.Array(Schema.String)
}) {
  override get message() {
    return sentence`The history of ${this.runId} is not valid: ${lines(this.problem)}; ${crashedAt(this.crashes)}.`
  }
}

/** `assertPromisesKept`: the store lost acknowledged data, or a run violated an invariant of `RunChecker`. */
export class PromiseBroken extends TaggedError<PromiseBroken>()("PromiseBroken", {
  invariant: Schema.String,
  detail: Schema.String,
  crashes: Schema.Array(Schema.String)
}) {
  override get message() {
    return sentence`The invariant ${this.invariant} was violated: ${lines(this.detail)}; ${crashedAt(this.crashes)}.`
  }
}

const nameOf = (effect: string, tool: string | undefined): string =>
  tool === undefined || tool === effect ? effect : `${effect} (in ${tool})`

const crashedAt = (crashes: ReadonlyArray<string>): string =>
  crashes.length === 0 ? "no worker crashed" : `the worker crashed at ${crashes.join(", then at ")}`

type Reports = Report | ReadonlyArray<Report>

const each = (reports: Reports, check: (report: Report, crashes: ReadonlyArray<string>) => void): void => {
  const list = "passed" in reports ? [reports] : reports
  if (list.length === 0) throw new TypeError("There is no report to check: the rehearsal passed no point.")
  for (const report of list) {
    check(
      report,
      report.crashes.map(({ point }) => point)
    )
  }
}

const seconds = (at: number): number => (at - beginning) / 1000

/** The effects, grouped by name and key. */
const grouped = (report: Report): ReadonlyArray<Arr.NonEmptyReadonlyArray<EffectRecord>> =>
  [...Map.groupBy(report.effects, ({ key, name }) => JSON.stringify([name, key])).values()].filter(
    Arr.isArrayNonEmpty
  )

/**
 * Asserts that every effect happened at most once for its call.
 *
 * **Details**
 *
 * A tool's body that returned counts as one effect, unless the tool is read-only or records its effects itself. An idempotent tool that is
 * not read-only and whose body ran again must record its effects, because the second execution alone does not show whether its effect
 * happened again.
 *
 * **Errors**
 *
 * Throws `EffectRepeated` or `EffectUnproven`, which name the call and the points of the crashes.
 *
 * @category assertions
 * @since 0.1.0
 */
export const assertEffectsAtMostOnce = (reports: Reports): void =>
  each(reports, (report, crashes) => {
    for (const group of grouped(report)) {
      const [{ body, key, name, recorded }] = group
      if (group.length === 1 || (!recorded && body?.idempotent === true)) continue
      throw new EffectRepeated({
        effect: name,
        key,
        ...(body === undefined ? {} : { tool: body.tool }),
        times: group.map(({ at }) => seconds(at)),
        attempts: group.flatMap(({ body }) => (body === undefined ? [] : [body.attempt])),
        crashes
      })
    }
    for (const { idempotent, key, records, safety, tool } of report.bodies) {
      if (!idempotent || safety === "readOnly" || records) continue
      const runs = report.bodies.filter((other) => other.tool === tool && other.key === key)
      if (runs.length > 1) throw new EffectUnproven({ tool, key, crashes })
    }
  })

/**
 * Asserts that every history has exactly one result for each call: the histories in model requests, and the final histories.
 *
 * **Errors**
 *
 * Throws `TranscriptInvalid`.
 *
 * @category assertions
 * @since 0.1.0
 */
export const assertTranscriptsValid = (reports: Reports): void =>
  each(reports, (report, crashes) => {
    for (const { messages, runId } of [...report.requests, ...report.runs]) {
      const problem = validateHistory(messages)
      if (problem !== undefined) throw new TranscriptInvalid({ runId, problem, crashes })
    }
  })

/**
 * Asserts that every run has ended or is held with an open request, and that no effect is missing.
 *
 * **Details**
 *
 * Effects are compared only in a report of `everyCrash`, and only if its runs have the same statuses as those of the scenario without a
 * fault: each effect must have happened under as many keys as there.
 *
 * **Errors**
 *
 * Throws `RunLost` or `EffectLost`.
 *
 * @category assertions
 * @since 0.1.0
 */
export const assertNothingLost = (reports: Reports): void =>
  each(reports, (report, crashes) => {
    for (const { open, runId, status } of report.runs) {
      if (status === "running" || (status === "held" && open.length === 0)) {
        throw new RunLost({ runId, status, crashes })
      }
    }
    const { undisturbed } = report
    if (undisturbed === undefined || statuses(report) !== statuses(undisturbed)) return
    for (const [effect] of grouped(undisturbed)) {
      const count = (of: Report) => grouped(of).filter(([{ name }]) => name === effect.name).length
      const [expected, actual] = [count(undisturbed), count(report)]
      if (actual >= expected) continue
      const tool = effect.body?.tool
      throw new EffectLost({
        effect: effect.name,
        ...(tool === undefined ? {} : { tool }),
        expected,
        actual,
        crashes
      })
    }
  })

const statuses = (report: Report): string => report.runs.map(({ status }) => status).join()

/**
 * Asserts the invariants of `RunChecker`: one decision for each request, one result for each call, no body without its approval, all
 * acknowledged data stored, no event after the end of a run, and the others.
 *
 * **Errors**
 *
 * Throws `PromiseBroken`. This is a defect of Fermata or of the given store, not of the agent.
 *
 * @category assertions
 * @since 0.1.0
 */
export const assertPromisesKept = (reports: Reports): void =>
  each(reports, ({ evidence, inbox, journals }, crashes) => {
    const [violation] = check({ ...evidence, inbox, journals })
    if (violation === undefined) return
    throw new PromiseBroken({ invariant: violation.invariant, detail: violation.detail, crashes })
  })

/**
 * Makes all four assertions: effects at most once, valid histories, nothing lost, invariants hold. Like each of them, throws a `TypeError`
 * for an empty list of reports.
 *
 * @category assertions
 * @since 0.1.0
 */
export const assertSafe = (reports: Reports): void => {
  assertEffectsAtMostOnce(reports)
  assertTranscriptsValid(reports)
  assertNothingLost(reports)
  assertPromisesKept(reports)
}
