/**
 * Rehearsals with promises, for tests without Effect and under any test runner. See `Rehearsal`.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Interruption } from "../domain/Interruption.ts"
import type { Prompt } from "../run/Mail.ts"
import type { RunResult } from "../run/RunResult.ts"
import * as Rehearsal from "./Rehearsal.ts"

/** The effect record: fakes of external services report their side effects here. */
export interface RecordedEffects {
  /** Records an effect; see `Rehearsal.Effects`. Await it: the promise of a worker that crashes here never resolves. */
  readonly record: (name: string, key?: string) => Promise<void>
  /** Like `record`, for a service that recognizes a key: a repeated key records nothing and returns `false`. */
  readonly once: (name: string, key?: string) => Promise<boolean>
}

/** Makes the parts, once for each rehearsal: the agents with fakes behind their tools, and the model. */
export type RehearsalSetup = (effects: RecordedEffects) => Rehearsal.Parts<never>

/**
 * The operations of a rehearsal as promises. See `Rehearsal.Rehearsal`.
 *
 * @category models
 * @since 0.1.0
 */
export interface PromisedRehearsal {
  readonly crashAt: (...points: ReadonlyArray<Rehearsal.Point>) => Promise<void>
  readonly failAt: (point: Rehearsal.Point, failure: Rehearsal.Failure) => Promise<void>
  readonly run: (prompt: Prompt, options?: Rehearsal.RehearsalRunOptions) => Promise<RunResult>
  readonly decide: (
    request: Interruption,
    decision: Rehearsal.DecisionBody,
    options?: { readonly by?: string }
  ) => Promise<RunResult>
  readonly race: (
    request: Interruption,
    ...decisions: ReadonlyArray<Rehearsal.DecisionBody>
  ) => Promise<Rehearsal.RaceResult>
  readonly cancel: (runId: string, reason: string) => Promise<RunResult>
  readonly adjust: (duration: Duration.Input) => Promise<void>
  readonly recover: () => Promise<ReadonlyArray<RunResult>>
}

/** A scenario of prompts, decisions and crashes. Its result is ignored; an error fails the rehearsal. */
export type Scenario = (rehearsal: PromisedRehearsal) => Promise<unknown>

/**
 * Rehearses a scenario once and returns the report.
 *
 * **Example** (A worker that dies after the charge)
 *
 * ```ts run
 * import { agent, approve, tool } from "@fermata/node"
 * import { Rehearsal, rehearse, ScriptedModel } from "@fermata/node/testing"
 *
 * const charge = tool("charge_card", { handler: () => "charged" })
 * const report = await rehearse(
 *   () => ({
 *     agents: [agent("cashier", { tools: [charge] })],
 *     model: ScriptedModel.make([{ calls: [{ tool: "charge_card" }] }, "Charged."]).client
 *   }),
 *   async (rehearsal) => {
 *     await rehearsal.crashAt("after-tool:charge_card")
 *     const held = await rehearsal.run("Charge the card.")
 *     if (held.status === "interrupted") await rehearsal.decide(held.interruptions[0]!, approve())
 *   }
 * )
 * Rehearsal.assertSafe(report)
 * ```
 *
 * **Errors**
 *
 * Rejects with the error of the scenario, and with those of `Rehearsal.rehearse`, such as `PointNotReached` if a planned crash or failure
 * did not happen.
 *
 * @category running
 * @since 0.1.0
 */
export const rehearse = (setup: RehearsalSetup, scenario: Scenario): Promise<Rehearsal.Report> =>
  Effect.runPromise(Rehearsal.rehearse(ofPromises(setup), played(scenario)))

/**
 * Rehearses a scenario once without a fault, and then once for each point that it passes, with a crash at that point. Returns a report for
 * each crash or pair of crashes; see `Rehearsal.everyCrash`.
 *
 * **Errors**
 *
 * Rejects with `ScenarioFailed`, which names the points of the crashes, and with `OptionsInvalid` for a wrong option.
 *
 * @category running
 * @since 0.1.0
 */
export const rehearseEveryCrash = (
  setup: RehearsalSetup,
  scenario: Scenario,
  options?: Rehearsal.EveryCrashOptions
): Promise<ReadonlyArray<Rehearsal.Report>> =>
  Effect.runPromise(Rehearsal.everyCrash(ofPromises(setup), played(scenario), options))

const ofPromises =
  (setup: RehearsalSetup): Rehearsal.Setup =>
  ({ once, record }) =>
    setup({
      record: (name, key) => Effect.runPromise(record(name, key)),
      once: (name, key) => Effect.runPromise(once(name, key))
    })

const played =
  (scenario: Scenario) =>
  (rehearsal: Rehearsal.Rehearsal): Effect.Effect<unknown, unknown> =>
    Effect.callback((resume) => {
      scenario(promised(rehearsal)).then(
        (value) => resume(Effect.succeed(value)),
        (error: unknown) => resume(Effect.fail(error))
      )
    })

const promised = (rehearsal: Rehearsal.Rehearsal): PromisedRehearsal => ({
  crashAt: (...points) => Effect.runPromise(rehearsal.crashAt(...points)),
  failAt: (point, failure) => Effect.runPromise(rehearsal.failAt(point, failure)),
  run: (prompt, options) => Effect.runPromise(rehearsal.run(prompt, options)),
  decide: (request, decision, options) => Effect.runPromise(rehearsal.decide(request, decision, options)),
  race: (request, ...decisions) => Effect.runPromise(rehearsal.race(request, ...decisions)),
  cancel: (runId, reason) => Effect.runPromise(rehearsal.cancel(runId, reason)),
  adjust: (duration) => Effect.runPromise(rehearsal.adjust(duration)),
  recover: () => Effect.runPromise(rehearsal.recover)
})
