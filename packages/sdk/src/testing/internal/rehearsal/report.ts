/**
 * What a rehearsal came to, and what must be true of it whatever happened.
 */
import * as Arr from "effect/Array"
import * as Schema from "effect/Schema"
import { lines, sentence } from "../../../domain/Display.ts"
import type { RunId } from "../../../domain/Id.ts"
import type { Interruption } from "../../../domain/Interruption.ts"
import type { Message } from "../../../domain/Message.ts"
import type { Status } from "../../../domain/RunState.ts"
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
  /** What it still waits for. */
  readonly open: ReadonlyArray<Interruption>
  /** Its history, as a provider would be given it. */
  readonly messages: ReadonlyArray<Message>
}

/** What a rehearsal came to. */
export interface Report {
  readonly crashes: ReadonlyArray<Crash>
  /** Every point that was passed, in order. */
  readonly passed: ReadonlyArray<string>
  /** What happened outside, in order. */
  readonly effects: ReadonlyArray<EffectRecord>
  /** The bodies of tools that ran, in order. */
  readonly bodies: ReadonlyArray<Body>
  readonly runs: ReadonlyArray<RunReport>
  /** The runs' events, and what the store's inbox says, for `RunChecker`. */
  readonly journals: ReadonlyArray<Journal>
  readonly inbox: Inbox
  /** What else there is to check them by: the bodies that ran, and what the store acknowledged to the workers. */
  readonly evidence: Pick<Evidence, "acknowledged" | "effects" | "reconciled">
  /** What models were asked, in order. */
  readonly requests: ReadonlyArray<ModelRequest>
  /** The same scenario without a fault, where there was one. */
  readonly undisturbed?: Report
}

/** An effect happened more than once for one call. */
export class EffectRepeated extends Schema.TaggedError<EffectRepeated>()("EffectRepeated", {
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
    const who = one === undefined || two === undefined ? "" : sentence`, in attempts ${one} and ${two}`
    return (
      sentence`${said(this.effect, this.tool)} happened ${this.times.length} times for the call with the key ${this.key}: ` +
      sentence`after ${first} s and after ${second} s${who}; ${crashedAt(this.crashes)}. ` +
      (one === two
        ? "One run of the body did it twice: give each effect a key of its own, or do it once."
        : "The body ran again and did not recognise the key: pass the key on to where the effect happens, or do not call the tool idempotent.")
    )
  }
}

/** A tool that says it is idempotent ran again, and no record says whether its effect did. */
export class EffectUnproven extends Schema.TaggedError<EffectUnproven>()("EffectUnproven", {
  tool: Schema.String,
  key: Schema.String,
  crashes: Schema.Array(Schema.String)
}) {
  override get message() {
    return (
      sentence`${this.tool} says that it is idempotent, and ran again with the key ${this.key}; ${crashedAt(this.crashes)}. ` +
      sentence`Whether it did harm is unknown: let the fake behind it say when it happens, with effects.record("${this.tool}", key), or effects.once if it knows the key again.`
    )
  }
}

/** An effect of the undisturbed scenario never happened, and the run went on without it. */
export class EffectLost extends Schema.TaggedError<EffectLost>()("EffectLost", {
  effect: Schema.String,
  tool: Schema.optionalKey(Schema.String),
  expected: Schema.Natural,
  actual: Schema.Natural,
  crashes: Schema.Array(Schema.String)
}) {
  override get message() {
    return (
      sentence`${said(this.effect, this.tool)} happened ${this.actual} instead of ${this.expected} times, and the run went on as if ` +
      sentence`nothing were missing; ${crashedAt(this.crashes)}. ` +
      "A body that does several things can be cut in two: make each of them a tool, or make the body idempotent."
    )
  }
}

/** A run neither ended nor waits for a decision. */
export class RunLost extends Schema.TaggedError<RunLost>()("RunLost", {
  runId: Schema.String,
  status: Schema.String,
  crashes: Schema.Array(Schema.String)
}) {
  override get message() {
    return (
      sentence`The run ${this.runId} is ${this.status} and waits for no decision; ` +
      sentence`${crashedAt(this.crashes)}. Look at its events: no worker will take it up.`
    )
  }
}

/** A history that a provider would refuse. */
export class TranscriptInvalid extends Schema.TaggedError<TranscriptInvalid>()("TranscriptInvalid", {
  runId: Schema.String,
  problem: Schema.String,
  crashes: Schema.Array(Schema.String)
}) {
  override get message() {
    return sentence`The history of ${this.runId} is not valid: ${lines(this.problem)}; ${crashedAt(this.crashes)}.`
  }
}

/** The store lost what it acknowledged, or a run did what Fermata promises that none does. */
export class PromiseBroken extends Schema.TaggedError<PromiseBroken>()("PromiseBroken", {
  invariant: Schema.String,
  detail: Schema.String,
  crashes: Schema.Array(Schema.String)
}) {
  override get message() {
    return sentence`A promise was broken (${this.invariant}): ${lines(this.detail)}; ${crashedAt(this.crashes)}.`
  }
}

const said = (effect: string, tool: string | undefined): string =>
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

/** Effects by name and key. */
const grouped = (report: Report): ReadonlyArray<Arr.NonEmptyReadonlyArray<EffectRecord>> =>
  [...Map.groupBy(report.effects, ({ key, name }) => JSON.stringify([name, key])).values()].filter(
    Arr.isArrayNonEmpty
  )

/**
 * Every effect happened at most once for its call.
 *
 * **Details**
 *
 * A tool's body that returned counts as one effect, unless the tool records its effects itself. The second run of a tool that
 * calls itself idempotent proves nothing either way unless it does.
 *
 * **Errors**
 *
 * Throws `EffectRepeated` or `EffectUnproven`, which say which call, when, and where the worker crashed.
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
 * Every history that a model was given, and every history at the end, has exactly one result for every call.
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
 * Every run has ended or waits for a decision, and a scenario that ended like the undisturbed one had all of its effects.
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
 * The journals and the inbox keep what Fermata promises: one decision for each request, one result for each call, no body that was
 * not released, everything stored that the store acknowledged, nothing after the end, and what else `RunChecker` knows.
 *
 * **Errors**
 *
 * Throws `PromiseBroken`. Then Fermata, or the store that was given, is at fault.
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
 * All four: effects at most once, histories valid, nothing lost, promises kept.
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
