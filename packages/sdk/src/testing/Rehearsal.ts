/**
 * Rehearses an agent: runs it as processes would, lets them die where you say, and keeps a record of what happened outside.
 *
 * A rehearsal takes your agent as it is. Workers stand for processes: one starts the run; when it dies, its memory is gone, its
 * lease is not given back, nothing of it is written any more, and the next worker takes the run over when the lease has run out,
 * in a time that moves only when it is moved. At the end a report says what happened outside, and assertions say whether that
 * was right: no effect twice for one call, every history valid, nothing lost. `rehearse` is the same for tests without Effect.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { DefinitionError } from "../agent/BoundAgent.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import type { RuntimeOptionsInvalid } from "../agent/RuntimeError.ts"
import { lines, messageOf, sentence } from "../domain/Display.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import type { PointName, PointNotReached, Point } from "./internal/rehearsal/points.ts"
import type { Report } from "./internal/rehearsal/report.ts"
import { make as makeRuns } from "./internal/rehearsal/runs.ts"
import { make as makeScene } from "./internal/rehearsal/scene.ts"
import { everyCrashShape } from "./internal/rehearsal/shapes.ts"
import { sweep } from "./internal/simulation/points.ts"
import type { EveryCrashOptions, Rehearsal, RehearsalError, Setup } from "./RehearsalParts.ts"

export type { Body, EffectRecord } from "./internal/rehearsal/ledger.ts"
export {
  type Failure,
  type PointName,
  type Point,
  PointInvalid,
  PointNotReached,
  RehearsalStuck
} from "./internal/rehearsal/points.ts"
export {
  assertEffectsAtMostOnce,
  assertNothingLost,
  assertPromisesKept,
  assertSafe,
  assertTranscriptsValid,
  EffectLost,
  EffectRepeated,
  EffectUnproven,
  PromiseBroken,
  type Report,
  RunLost,
  type RunReport,
  TranscriptInvalid
} from "./internal/rehearsal/report.ts"

/** @deprecated Use {@link PointName}. */
export type Place = PointName
export { fromEvidence } from "./internal/rehearsal/runs.ts"
export type { Crash } from "./internal/rehearsal/worker.ts"
export type { DecisionBody } from "../domain/Decision.ts"
export type {
  Effects,
  EveryCrashOptions,
  Evidence,
  Parts,
  RaceResult,
  Rehearsal,
  RehearsalError,
  RehearsalRunOptions,
  RunOptions,
  Setup
} from "./RehearsalParts.ts"

/**
 * Begins a rehearsal.
 *
 * **Errors**
 *
 * - `OptionsInvalid` — a part that there is not, that is left out, or that takes something else; the error names the nearest one.
 * - `RuntimeOptionsInvalid` — an option of the runtime takes something else.
 * - `ToolNameTaken`, `ToolDefinitionError`, `AgentDefinitionError` — mend the definition.
 * - `RunStoreError` — the given store cannot be opened.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = <R>(
  setup: Setup<R>
): Effect.Effect<
  Rehearsal,
  OptionsInvalid | DefinitionError | RuntimeOptionsInvalid | RunStoreError,
  R | Scope.Scope
> => Effect.map(makeScene(setup), makeRuns)

/** A scenario failed that ends well without a fault. */
export class ScenarioFailed extends Schema.TaggedError<ScenarioFailed>()("ScenarioFailed", {
  crashes: Schema.Array(Schema.String),
  problem: Schema.String,
  cause: Schema.Defect()
}) {
  override get message() {
    const where =
      this.crashes.length === 0 ? "without a crash" : sentence`with a crash at ${this.crashes.join(" and ")}`
    return sentence`The scenario failed ${where}: ${lines(this.problem)}`
  }
}

/**
 * Rehearses a scenario once, and returns the report.
 *
 * @category running
 * @since 0.1.0
 */
export const rehearse = <R, E, R2>(
  setup: Setup<R>,
  scenario: (rehearsal: Rehearsal) => Effect.Effect<unknown, E, R2>
): Effect.Effect<
  Report,
  E | DefinitionError | RuntimeOptionsInvalid | RehearsalError | PointNotReached,
  Exclude<R | R2, Scope.Scope>
> =>
  Effect.scoped(
    Effect.gen(function* () {
      const rehearsal = yield* make(setup)
      yield* scenario(rehearsal)
      return yield* rehearsal.finish
    })
  ) as Effect.Effect<
    Report,
    E | DefinitionError | RuntimeOptionsInvalid | RehearsalError | PointNotReached,
    Exclude<R | R2, Scope.Scope>
  >

/**
 * Rehearses a scenario once without a fault, and then once for every point that it passes, with a crash there.
 *
 * **Details**
 *
 * Returns one report for each crash (or pair of crashes). The scenario has to pass the same points whenever it is run: chance
 * and real time belong behind a fake.
 *
 * **Errors**
 *
 * - `ScenarioFailed` — says at which points the worker crashed, and what the scenario failed with.
 * - `OptionsInvalid` — an option that there is not, or that takes something else; the error names the nearest one.
 *
 * @category running
 * @since 0.1.0
 */
export const everyCrash = <R, E, R2>(
  setup: Setup<R>,
  scenario: (rehearsal: Rehearsal) => Effect.Effect<unknown, E, R2>,
  options: EveryCrashOptions = {}
): Effect.Effect<ReadonlyArray<Report>, ScenarioFailed | OptionsInvalid, Exclude<R | R2, Scope.Scope>> =>
  Effect.gen(function* () {
    const { crashes = 1, where = () => true } = yield* requireOptions("everyCrash", options, everyCrashShape)
    const once = (points: ReadonlyArray<Point>) =>
      Effect.mapError(
        rehearse(setup, (rehearsal) =>
          Effect.andThen(
            Effect.orDie(rehearsal.crashAt(...points)),
            Effect.suspend(() => scenario(rehearsal))
          )
        ),
        (cause) => new ScenarioFailed({ crashes: points, problem: messageOf(cause), cause })
      )
    const undisturbed = yield* once([])
    const reports: Array<Report> = []
    const wanted = (passed: ReadonlyArray<string>) =>
      (passed as ReadonlyArray<Point>).filter((point) => where(point))
    yield* sweep<ReadonlyArray<Point>, Report, ScenarioFailed, Exclude<R | R2, Scope.Scope>>({
      singles: wanted(undisturbed.passed).map((point) => [point]),
      visit: (points) =>
        Effect.tap(once(points), (report) => Effect.sync(() => reports.push({ ...report, undisturbed }))),
      pairsOf: ([first], { passed }) =>
        crashes === 1
          ? []
          : wanted(passed.slice(passed.indexOf(first!) + 1)).map((second) => [first!, second])
    })
    return reports
  })
