/**
 * Tests an agent in simulated processes that crash at given points.
 *
 * A rehearsal runs your agent unchanged. Workers simulate processes. When a worker crashes, its memory is lost, its lease is not released,
 * and it writes nothing more; the next worker claims the run when the lease has expired. The rehearsal's time moves only when the rehearsal
 * moves it. The final report lists the side effects, and assertions check the report: no effect twice for one call, valid histories,
 * nothing lost, and the invariants of `RunChecker` kept. `rehearse` offers the same as promises.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { DefinitionError } from "../agent/BoundAgent.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import type { RuntimeOptionsInvalid } from "../agent/RuntimeError.ts"
import { lines, messageOf, sentence } from "../domain/Display.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import { TaggedError } from "../domain/TaggedError.ts"
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
 * Starts a rehearsal for the current scope.
 *
 * **When to use**
 *
 * Use it to call the operations of a rehearsal directly. {@link rehearse} and {@link everyCrash} start one for a scenario and end it with a
 * report.
 *
 * **Errors**
 *
 * - `OptionsInvalid` — a part is unknown, missing or of the wrong type; the error names the nearest known key.
 * - `RuntimeOptionsInvalid` — an option of the runtime is of the wrong type.
 * - `ToolNameTaken`, `ToolDefinitionError`, `AgentDefinitionError` — correct the definition.
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

/**
 * One of the rehearsals of {@link everyCrash} or `rehearseEveryCrash` failed: its setup, its scenario (also if an assertion threw), or the
 * rehearsal itself. `crashes` are the points at which this rehearsal crashed its workers; empty for the first one, which has no crash.
 */
export class ScenarioFailed extends TaggedError<ScenarioFailed>()("ScenarioFailed", {
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
 * Rehearses a scenario once and returns the report.
 *
 * **Errors**
 *
 * - The errors of {@link make} and of the scenario.
 * - `PointNotReached` — a planned crash or failure did not happen.
 * - `RehearsalStuck` — nothing happened for the time `patience`, or an operation did not complete within 200 workers.
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
 * Rehearses a scenario once without a fault, and then once for each point that it passes, with a crash at that point.
 *
 * **Details**
 *
 * Returns one report for each crash, and with `crashes: 2` also one for each pair of crashes; the report of the rehearsal without a crash
 * is in the `undisturbed` of each. If no point is selected, the list is empty, which the assertions refuse with a `TypeError`. The scenario
 * must pass the same points in each run: replace randomness and real time by fakes.
 *
 * **Errors**
 *
 * - `ScenarioFailed` — the scenario or its setup failed; the error names the points of the crashes and the cause.
 * - `OptionsInvalid` — an option is unknown or of the wrong type; the error names the nearest known key.
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
      Effect.catchCause(
        rehearse(setup, (rehearsal) =>
          Effect.andThen(
            Effect.orDie(rehearsal.crashAt(...points)),
            Effect.suspend(() => scenario(rehearsal))
          )
        ),
        (cause) => {
          if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
          // An assertion that throws is a defect.
          const error = Cause.squash(cause)
          return Effect.fail(new ScenarioFailed({ crashes: points, problem: messageOf(error), cause: error }))
        }
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
