/**
 * Captures a run's state and its runtime's configuration as one text, so that another process can continue with both.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { choose } from "../agent/internal/choose.ts"
import type { ReconfigureError } from "../agent/reconfigureRuntime.ts"
import type { Runtime } from "../agent/Runtime.ts"
import { CaptureMalformed, CaptureTooNew, type RuntimeOptionsInvalid } from "../agent/RuntimeError.ts"
import type { AgentNotFound, RunStateMalformed, RunStateTooNew } from "../domain/RunError.ts"
import type { RunState } from "../domain/RunState.ts"
import * as RunStateCodec from "../domain/RunStateCodec.ts"
import { checkBound, type ResumeReport } from "./checkResume.ts"

/** The version of the capture's format. The state in it has a version of its own. */
const version = 1

const Capture = Schema.Struct({
  version: Schema.Literal(version),
  profile: Schema.String,
  mode: Schema.String,
  model: Schema.optionalKey(Schema.String),
  state: Schema.String
})

const decodeCapture = Schema.decodeUnknownResult(Capture)

/**
 * Returns, as JSON text, a run's state, the names of the runtime's capability profile and mode, and that of the model profile if one was
 * chosen by name.
 *
 * **When to use**
 *
 * To continue a run in another process, with a runtime that is configured like this one. `RunStateCodec.encode` encodes the state alone.
 *
 * **Gotchas**
 *
 * The text does not contain the profile's definition, nor tools or a model client that a reconfiguration has set: give them to the other
 * runtime, too. The text is not signed. A program that can change it can select another capability profile, so keep it where only trusted
 * programs can write.
 *
 * @category states
 * @since 0.1.0
 */
export const captureState = (runtime: Runtime, state: RunState): string => {
  const { model } = runtime.choice
  const capture: typeof Capture.Type = {
    version,
    profile: runtime.profileName,
    mode: runtime.mode,
    ...(model === undefined ? {} : { model }),
    state: RunStateCodec.encode(state)
  }
  return JSON.stringify(capture)
}

/** A restored state. */
export interface Restored {
  readonly state: RunState
  /** What has changed since the run started, and what prevents continuing it. */
  readonly problems: ResumeReport
}

/** Why a capture was not restored. */
export type RestoreError =
  | CaptureMalformed
  | CaptureTooNew
  | RunStateMalformed
  | RunStateTooNew
  | AgentNotFound
  | Exclude<ReconfigureError, RuntimeOptionsInvalid>

/**
 * Reads the text that {@link captureState} returned, and gives the runtime the captured capability profile, mode and model profile. On
 * failure the runtime is unchanged.
 *
 * **Details**
 *
 * The run is not continued: pass the state to `runPrompt`. `problems` lists what has changed in the agents and tools, and the missing ones
 * that keep parts of the run from continuing. Tools and a model client that a reconfiguration has set on this runtime stay; a model profile
 * that was chosen by name is dropped if the capture has none.
 *
 * **Errors**
 *
 * - `CaptureMalformed`, `RunStateMalformed` — the text is not a capture.
 * - `CaptureTooNew`, `RunStateTooNew` — the text was made by a newer version of Fermata.
 * - `AgentNotFound` — the run belongs to an agent that this runtime does not have.
 * - The errors of `reconfigureRuntime`, such as `CapabilityProfileNotFound`.
 *
 * @category states
 * @since 0.1.0
 */
export const restoreState: (runtime: Runtime, capture: string) => Effect.Effect<Restored, RestoreError> =
  Effect.fnUntraced(function* (runtime, text) {
    const capture = yield* Effect.fromResult(decode(text))
    const state = yield* Effect.fromResult(RunStateCodec.decode(capture.state))
    const { mode, model, profile } = capture
    const stranger = (yield* checkBound(state, runtime.bound)).blocking.find(
      (problem): problem is AgentNotFound =>
        problem._tag === "AgentNotFound" && problem.agent === state.agent.name
    )
    if (stranger !== undefined) return yield* stranger
    yield* choose(runtime, {
      choice: ({ tools }) => ({
        profile,
        mode,
        ...(model === undefined ? {} : { model }),
        ...(tools === undefined ? {} : { tools })
      })
    })
    return { state, problems: yield* checkBound(state, runtime.bound, runtime) }
  })

const decode = (text: string): Result.Result<typeof Capture.Type, CaptureMalformed | CaptureTooNew> => {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    return Result.fail(new CaptureMalformed({ issues: "the text is not JSON" }))
  }
  if (typeof json === "object" && json !== null && "version" in json && typeof json.version === "number") {
    if (json.version > version)
      return Result.fail(new CaptureTooNew({ version: json.version, supported: version }))
  }
  return Result.mapError(decodeCapture(json), ({ message }) => new CaptureMalformed({ issues: message }))
}
