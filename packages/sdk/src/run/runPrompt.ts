/**
 * Runs a prompt without a store, or continues a run from its state, until the run is held or has ended.
 *
 * Nothing is stored: the returned result has the state, and the caller keeps it. `runPromptStored` does the same with a store.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Effectable from "effect/Effectable"
import * as Cancellation from "../agent/Cancellation.ts"
import { observing } from "../agent/internal/observing.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import { traced } from "../agent/internal/userCode.ts"
import { requireOpen, type Runtime } from "../agent/Runtime.ts"
import type { RuntimeClosed } from "../agent/RuntimeError.ts"
import { hasKey } from "../domain/internal/untyped.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { Rejection } from "../domain/Rejection.ts"
import type {
  AgentNotFound,
  ContextInvalid,
  EmptyPrompt,
  IdInvalid,
  LimitsInvalid,
  PolicyFixed,
  PolicyInvalid,
  RunEnded,
  ToolUnavailable
} from "../domain/RunError.ts"
import type { RunState } from "../domain/RunState.ts"
import { decodeUnstoredPrompt } from "./internal/decodePrompt.ts"
import { toResult } from "./internal/result.ts"
import { drive } from "./internal/RunLoop.ts"
import { continueShape, runShape, startShape } from "./internal/shapes.ts"
import { checkCallerOptions, checkIds, continueRun, startRun } from "./internal/staging.ts"
import { answering, inSession } from "./internal/startOptions.ts"
import { noJournal } from "./internal/unstoredJournal.ts"
import type { Prompt } from "./Mail.ts"
import type { ContinueInput, RunOptions, StartInput } from "./runInput.ts"
import type { RunResult } from "./RunResult.ts"

/** Why a prompt was not run. Nothing has changed when one of these is returned. */
export type RunPromptError =
  | ContextInvalid
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
 * Runs a prompt, or continues a run from its state, until the run is held or has ended.
 *
 * **When to use**
 *
 * When the program keeps the state of held runs itself. Use `runPromptStored` if a store should keep it: without a store, nothing
 * prevents two programs from continuing the same state.
 *
 * **Details**
 *
 * The result is `completed`, `interrupted`, `cancelled` or `error`; failures inside the run are results. All decisions are checked
 * before any of them is taken. Interrupting the fiber cancels the run. An exhausted budget or a missing login opens no request without a
 * store: the run fails, and can be continued from its state.
 *
 * **Errors**
 *
 * - `EmptyPrompt`, `IdInvalid`, `LimitsInvalid`, `PolicyInvalid` — correct the prompt, the id, the limits or the policy.
 * - `ContextInvalid` — the context is no small JSON object, or an agent or a tool does not accept it.
 * - `OptionsInvalid` — an option's key or value is wrong; for a misspelt key, the error names the nearest one.
 * - A `Rejection` — a decision's request does not exist, has been decided or has expired, or the decision does not fit it.
 * - `RunEnded` — the run is completed or cancelled: pass a `prompt` to start the next run of the session.
 * - `PolicyFixed` — only a new run takes a `policy`; a run that is continued keeps its own.
 * - `AgentNotFound`, `ToolUnavailable` — the program does not have an agent or a tool that the run needs, the tool does not accept the
 *   context of the run, its call needs a secret and the program has no source of secrets, or its sandbox cannot be used. The state is still
 *   valid.
 * - `RuntimeClosed` — make another runtime.
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

/** A class instead of a function, since a caller may retain the effect for as long as the run waits. */
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

  // Two effects, so that the locals of the first are not retained while the second waits.
  asEffect(): Effect.Effect<RunResult<Output>, RunPromptError> {
    return traced(Effect.flatten(starting(this.runtime, this.input, this.options)), "fermata.runPrompt")
  }
}

const starting = Effect.fnUntraced(function* <Output>(
  runtime: Runtime<Output>,
  given: StartInput | ContinueInput,
  options: RunOptions = {}
) {
  const shape = hasKey(given, "state") ? continueShape : startShape
  const input = yield* checkCallerOptions(yield* requireOptions("runPrompt", given ?? null, shape), runtime)
  yield* requireOptions("runPrompt", options, runShape)
  yield* requireOpen(runtime)
  const clock = yield* Clock.Clock
  // Without a state there is nothing to continue, so the prompt may not be missing.
  const isStart = !("state" in input)
  const prompt =
    !isStart && input.prompt === undefined ? undefined : yield* decodeUnstoredPrompt(input.prompt as Prompt)
  if (isStart) yield* checkIds(input)
  const staged =
    "state" in input
      ? yield* continueRun(runtime, clock, {
          ...input,
          prompt,
          asks: false,
          hasMail: options.mailbox?.isEmpty() === false
        })
      : yield* startRun(runtime, clock, {
          ...inSession(runtime, input),
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
  // The journal of a run without a store cannot fail.
  return ended(runtime, driving as Effect.Effect<RunState, AgentNotFound | ToolUnavailable>)
})

const ended = <Output>(
  runtime: Runtime<Output>,
  driving: Effect.Effect<RunState, AgentNotFound | ToolUnavailable>
): Effect.Effect<RunResult<Output>, AgentNotFound | ToolUnavailable> =>
  Effect.flatMap(driving, (state) => toResult<Output>(runtime, state))
