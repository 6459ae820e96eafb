/**
 * Rehearsals for tests that do not use Effect: the same as in `Rehearsal`, as promises, under any test runner.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Interruption } from "../domain/Interruption.ts"
import type { Prompt } from "../run/Mail.ts"
import type { RunResult } from "../run/RunResult.ts"
import * as Rehearsal from "./Rehearsal.ts"

/** Where the fakes of the outside world say that something has happened. */
export interface RecordedEffects {
  /** As `Rehearsal.Effects`; wait for it, since a worker that crashes here goes no further. */
  readonly record: (name: string, key?: string) => Promise<void>
  /** The same for an outside world that knows a key again: the second time nothing happens, and this is `false`. */
  readonly once: (name: string, key?: string) => Promise<boolean>
}

/** Sets the scene, anew for every rehearsal: the agents with fakes behind their tools, and the model. */
export type RehearsalSetup = (effects: RecordedEffects) => Rehearsal.Parts<never>

/**
 * One rehearsal, as promises. See `Rehearsal.Rehearsal`.
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

/** What happens: prompts, decisions, crashes. Whatever it returns is ignored; what it throws fails the rehearsal. */
export type Scenario = (rehearsal: PromisedRehearsal) => Promise<unknown>

/**
 * Rehearses a scenario once, and returns the report.
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
 * Rejects with what the scenario throws, and with `PointNotReached` when something planned has not happened.
 *
 * @category running
 * @since 0.1.0
 */
export const rehearse = (setup: RehearsalSetup, scenario: Scenario): Promise<Rehearsal.Report> =>
  Effect.runPromise(Rehearsal.rehearse(ofPromises(setup), played(scenario)))

/**
 * Rehearses a scenario once without a fault, and then once for every point that it passes, with a crash there. Returns a report
 * for each crash.
 *
 * **Errors**
 *
 * Rejects with `ScenarioFailed`, which says where the worker crashed.
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
