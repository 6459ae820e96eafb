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
import type { ApprovalPolicy } from "../domain/ApprovalPolicy.ts"
import type { DecisionInput } from "../domain/Decision.ts"
import type { RunId, SessionId } from "../domain/Id.ts"
import type { Limits } from "../domain/Limits.ts"
import type { UserPart } from "../domain/Message.ts"
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
import { drive } from "./internal/RunLoop.ts"
import * as Cancellation from "../agent/Cancellation.ts"
import { answering } from "./internal/answering.ts"
import { noJournal } from "./internal/Drive.ts"
import { toResult } from "./internal/result.ts"
import { takeGiven, checkIds, continueRun, decodePrompt, startRun } from "./internal/staging.ts"
import { continueShape, runShape, startShape } from "./internal/shapes.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import type { Allotted } from "./internal/startOptions.ts"
import { traced } from "./internal/traced.ts"
import type { Mailbox } from "./Mailbox.ts"
import type { RunResult } from "./RunResult.ts"
import { requireOpen, type Runtime } from "../agent/Runtime.ts"
import type { RuntimeClosed } from "../agent/RuntimeError.ts"
import { observed } from "../agent/RuntimeHooks.ts"
import type { RunUpdate } from "../agent/RunUpdate.ts"

/** What the user says: text, or parts. */
export type Prompt = string | ReadonlyArray<UserPart>

/** A new run. With a `state` that has ended, it goes on in that session. */
export interface StartInput extends Allotted {
  readonly prompt: Prompt
  readonly runId?: RunId
  readonly sessionId?: SessionId
  /** Changes to the agent's limits. */
  readonly limits?: Partial<Limits>
  /** Replaces the agent's approval policy. */
  readonly policy?: ApprovalPolicy
  /** The agent that answers: the runtime's own (the default), or one that it hands over to, at any remove. */
  readonly answeredBy?: string
}

/** A run to go on with. */
export interface ContinueInput extends Allotted {
  readonly state: RunState
  readonly decisions?: ReadonlyArray<DecisionInput>
  /** Of a held run: queued until its calls are settled. Of a run that has ended: a new run in its session. */
  readonly prompt?: Prompt
  /** Larger budgets for a run that has used up its own. Of a run that has ended: of the new run, beside what this one's caller gave. */
  readonly limits?: Partial<Limits>
  /**
   * Of a run that has ended: replaces the approval policy of the agent that answers the `prompt`. Default: the policy that the caller of
   * this one gave, if any.
   */
  readonly policy?: ApprovalPolicy
  /**
   * Of a run that has ended: the agent that answers the `prompt`. Default: the one that has the conversation. A run that has not ended
   * goes on with its own.
   */
  readonly answeredBy?: string
}

/** How a run is watched and stopped. */
export interface RunOptions {
  /** Told everything that happens, as it happens. Must return quickly and not throw. */
  readonly onUpdate?: (update: RunUpdate) => void
  readonly cancellation?: Cancellation.CancellationToken
  /** Through which a run that is not stored is reached while it is at work. */
  readonly mailbox?: Mailbox
}

/** How a program that ends lets go of a stored run, so that another can go on with it. */
export interface Leaving {
  /** Begin nothing new. */
  readonly soon: Cancellation.CancellationToken
  /** Stop what is going on, too. */
  readonly now: Cancellation.CancellationToken
}

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
  const input = yield* Effect.flatMap(requireOptions("runPrompt", given, shape), takeGiven)
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
    onUpdate: observed(runtime.options.hooks, options.onUpdate, "state" in input ? input.state : undefined),
    state: staged.state,
    staged: staged.events,
    missing: staged.missing
  })
  return ended(runtime, driving)
})

const ended = <Output>(
  runtime: Runtime<Output>,
  driving: Effect.Effect<RunState, AgentNotFound | ToolUnavailable>
): Effect.Effect<RunResult<Output>, AgentNotFound | ToolUnavailable> =>
  Effect.flatMap(driving, (state) => toResult<Output>(runtime, state))
