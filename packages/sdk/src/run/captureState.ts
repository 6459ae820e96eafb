/**
 * A run and the way in which its runtime worked, as one text, so that a front end can go on with both elsewhere.
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

/** The version of the text around the state, which has its own. */
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
 * The JSON text of a run's state, with the capability profile and the mode that its runtime works with, and the model profile if one
 * was chosen.
 *
 * **Gotchas**
 *
 * Tools and a model client that a reconfiguration has put in are not data, and not in it: put them into the other runtime too. Who can
 * change the text can choose the profile: let it go where only those come who may.
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

/** A state that was restored. */
export interface Restored {
  readonly state: RunState
  /** What has changed since it was captured, and what of that stands in the way of continuing it. */
  readonly problems: ResumeReport
}

/** What keeps a capture from being restored. */
export type RestoreError =
  | CaptureMalformed
  | CaptureTooNew
  | RunStateMalformed
  | RunStateTooNew
  | AgentNotFound
  | Exclude<ReconfigureError, RuntimeOptionsInvalid>

/**
 * Reads what {@link captureState} wrote, and lets the runtime work as the other did: with the same capability profile, mode and model
 * profile. All of it or nothing.
 *
 * **Details**
 *
 * Nothing is run: continue the state with `runPrompt`. A tool that an open call waits for and that is gone is among the problems.
 *
 * **Errors**
 *
 * - `CaptureMalformed`, `CaptureTooNew`, `RunStateMalformed`, `RunStateTooNew` — it is none, or was made by a newer Fermata.
 * - `AgentNotFound` — the run belongs to another agent than this runtime's.
 * - Those of `reconfigureRuntime`, `CapabilityProfileNotFound` among them.
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
    return { state, problems: yield* checkBound(state, runtime.bound) }
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
