/**
 * Runs a prompt until the run is held or over; or continues a run from its state.
 *
 * Nothing is stored: a held run is the returned value, and it is the caller's to keep, wherever it likes. `runPromptStored` is
 * the same with a store.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Effectable from "effect/Effectable"
import * as Cancellation from "../agent/Cancellation.ts"
import { observing } from "../agent/internal/observing.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import { requireOpen, type Runtime } from "../agent/Runtime.ts"
import type { RuntimeClosed } from "../agent/RuntimeError.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { Rejection } from "../domain/Rejection.ts"
import type {
  AgentNotFound,
  EmptyPrompt,
  IdInvalid,
  LimitsInvalid,
  PolicyFixed,
  PolicyInvalid,
  RunEnded,
  ToolUnavailable
} from "../domain/RunError.ts"
import type { RunState } from "../domain/RunState.ts"
import { toResult } from "./internal/result.ts"
import { drive } from "./internal/RunLoop.ts"
import { continueShape, runShape, startShape } from "./internal/shapes.ts"
import { checkLimitsAndPolicy, checkIds, continueRun, decodePrompt, startRun } from "./internal/staging.ts"
import { answering } from "./internal/startOptions.ts"
import { traced } from "./internal/traced.ts"
import { noJournal } from "./internal/unstoredJournal.ts"
import type { ContinueInput, RunOptions, StartInput } from "./runInput.ts"
import type { RunResult } from "./RunResult.ts"

/** What can be wrong with the call itself. None of these changed anything. */
export type RunPromptError =
  | EmptyPrompt
  | IdInvalid
  | LimitsInvalid
  | OptionsInvalid
  | PolicyFixed
  | PolicyInvalid
  | Rejection
  | RunEnded
  | AgentNotFound
  | ToolUnavailable
  | RuntimeClosed

/**
 * Runs a prompt until the run is held or over.
 *
 * **Details**
 *
 * What happens inside the run is in the result: `completed`, `interrupted`, `cancelled` or `error`. Decisions are checked before
 * anything happens: if one is refused, none is taken. Requests that are not decided stay open.
 *
 * **Errors**
 *
 * - `EmptyPrompt`, `IdInvalid`, `LimitsInvalid`, `PolicyInvalid` — say something; choose another id, limits that are numbers, or a policy
 *   that is one.
 * - `OptionsInvalid` — a key that there is not; the error names the nearest one.
 * - A `Rejection` — the decision is about nothing that waits, comes too late, or does not fit.
 * - `RunEnded` — pass a `prompt` to go on in the session.
 * - `PolicyFixed` — a run that has not ended keeps its policy.
 * - `AgentNotFound`, `ToolUnavailable` — the program lacks what the run needs, or the agent that has the conversation; the state is as
 *   good as before.
 * - `RuntimeClosed` — create another runtime.
 *
 * @category running
 * @since 0.1.0
 */
export const runPrompt: <Output>(
  runtime: Runtime<Output>,
  input: StartInput | ContinueInput,
  options?: RunOptions
) => Effect.Effect<RunResult<Output>, RunPromptError> = (runtime, input, options) =>
  new Prompted(runtime, input, options)

/** An object, and not a function: it may be kept for as long as the run waits. */
class Prompted<Output> extends Effectable.Class<RunResult<Output>, RunPromptError> {
  private readonly runtime: Runtime<Output>
  private readonly input: StartInput | ContinueInput
  private readonly options: RunOptions | undefined

  constructor(runtime: Runtime<Output>, input: StartInput | ContinueInput, options: RunOptions | undefined) {
    super()
    this.runtime = runtime
    this.input = input
    this.options = options
  }

  // In two parts, so that nothing of the first is kept.
  asEffect(): Effect.Effect<RunResult<Output>, RunPromptError> {
    return traced(Effect.flatten(starting(this.runtime, this.input, this.options)), "fermata.runPrompt")
  }
}

const starting = Effect.fnUntraced(function* <Output>(
  runtime: Runtime<Output>,
  given: StartInput | ContinueInput,
  options: RunOptions = {}
) {
  const shape = "state" in given ? continueShape : startShape
  const input = yield* Effect.flatMap(requireOptions("runPrompt", given, shape), checkLimitsAndPolicy)
  yield* requireOptions("runPrompt", options, runShape)
  yield* requireOpen(runtime)
  const clock = yield* Clock.Clock
  const prompt = input.prompt === undefined ? undefined : yield* decodePrompt(input.prompt)
  if (!("state" in input)) yield* checkIds(input)
  const staged =
    "state" in input
      ? yield* continueRun(runtime, clock, {
          ...input,
          prompt,
          asks: false,
          hasMail: options.mailbox?.isEmpty() === false
        })
      : startRun(runtime, clock, {
          ...input,
          prompt: prompt ?? [],
          agent: yield* answering(runtime, input),
          asks: false
        })
  const token = Cancellation.make(options.cancellation ?? (yield* Cancellation.CancellationToken))
  const driving = drive({
    clock,
    runtime,
    journal: noJournal(options.mailbox),
    onStart: (state) => options.mailbox?.attach(runtime, state),
    token,
    onUpdate: yield* observing(runtime, options.onUpdate, "state" in input ? input.state : undefined),
    state: staged.state,
    staged: staged.events,
    missing: staged.missing
  })
  // A journal that keeps nothing cannot fail.
  return ended(runtime, driving as Effect.Effect<RunState, AgentNotFound | ToolUnavailable>)
})

const ended = <Output>(
  runtime: Runtime<Output>,
  driving: Effect.Effect<RunState, AgentNotFound | ToolUnavailable>
): Effect.Effect<RunResult<Output>, AgentNotFound | ToolUnavailable> =>
  Effect.flatMap(driving, (state) => toResult<Output>(runtime, state))
