/**
 * Binds a runtime to a session.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import type { Runtime } from "../agent/Runtime.ts"
import type { SessionId } from "../domain/Id.ts"
import type { IdInvalid } from "../domain/RunError.ts"
import type { RunState } from "../domain/RunState.ts"
import { checkIds } from "../run/internal/staging.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import { lastState } from "./internal/lastState.ts"

/** A runtime whose prompts belong to one session. */
export interface SessionRuntime<Output = unknown> extends Runtime<Output> {
  readonly sessionId: SessionId
  /**
   * Reads the state of the session's last run: its messages, usage, status and requests. Returns `undefined` if the session has no run. The
   * state of a sub-agent is in that of its root.
   */
  readonly session: Effect.Effect<RunState | undefined, RunStoreError, RunStore>
}

/**
 * Binds a runtime to a session: prompts without a `sessionId` continue this session.
 *
 * **Details**
 *
 * The result is a view of the runtime, with the same runs, configuration and life: a reconfiguration or a close of one is one of both. Any
 * number of sessions can be bound at the same time. A `sessionId` in an input takes precedence, and a fork has a session of its own.
 *
 * **Errors**
 *
 * - `IdInvalid` — choose an id of 1 to 128 letters, digits, `_`, `.`, `:` or `-`, and not of a form that Fermata derives, such as `x.t1.1`.
 *
 * **Example** (Two prompts of one conversation)
 *
 * ```ts run
 * import { Agent, forSession, RunState, RunStore, Runtime, runPromptStored } from "@fermata/sdk"
 * import { ScriptedModel } from "@fermata/sdk/testing"
 * import { Effect, Layer } from "effect"
 *
 * const program = Effect.gen(function* () {
 *   const desk = yield* forSession(yield* Runtime.make({ agent: Agent.make("desk") }), "customer-7")
 *   yield* runPromptStored(desk, { prompt: "Is it here?" })
 *   yield* runPromptStored(desk, { prompt: "And now?" })
 *   const session = yield* desk.session
 *   return session === undefined ? 0 : RunState.messages(session).length
 * })
 * const services = Layer.merge(RunStore.layerMemory, ScriptedModel.make(["Not yet.", "Yes."]).layer)
 * console.log(await Effect.runPromise(Effect.provide(program, services))) // 4
 * ```
 *
 * @category constructors
 * @since 0.2.0
 */
export const forSession = <Output>(
  runtime: Runtime<Output>,
  sessionId: string
): Effect.Effect<SessionRuntime<Output>, IdInvalid> => {
  const own: ReadonlyMap<string | symbol, unknown> = new Map<string | symbol, unknown>([
    ["sessionId", sessionId],
    ["session", Effect.flatMap(RunStore, (store) => lastState(store, sessionId as SessionId))]
  ])
  return Effect.as(
    checkIds({ sessionId }),
    // A proxy instead of a copy, since the configuration of a runtime changes in place.
    new Proxy(runtime as SessionRuntime<Output>, {
      get: (target, key) => (own.has(key) ? own.get(key) : Reflect.get(target, key)),
      has: (target, key) => own.has(key) || Reflect.has(target, key)
    })
  )
}
