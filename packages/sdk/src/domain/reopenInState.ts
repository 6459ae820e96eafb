/**
 * Reopens denied requests in a state, for runs without a store.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import { evolve } from "./evolve.ts"
import { lineOf, type RequestId, type Timestamp } from "./Id.ts"
import { type ReopenError, reopenMessage, type ReopenOptions } from "./internal/reopening.ts"
import { lineTo } from "./internal/subAgents.ts"
import { wrap } from "./RunEvent.ts"
import { isEnded, type RunState } from "./RunState.ts"

export type { ReopenError, ReopenOptions } from "./internal/reopening.ts"

/**
 * Reopens a denied request in a state: an equal call is asked about again, instead of being denied like the first one. The run receives a
 * message that says so. If the request is reopened already, returns the state unchanged.
 *
 * **Example** (Reopening a request of a run without a store)
 *
 * ```ts run
 * import { Agent, reopenInState, runPrompt, Runtime, Tool } from "@fermata/sdk"
 * import { ScriptedModel } from "@fermata/sdk/testing"
 * import { Effect } from "effect"
 *
 * const deploy = Tool.make("deploy", { handler: () => "deployed" })
 * const check = Tool.make("check", { handler: () => "green" })
 * const calls = { calls: [{ tool: "deploy" }, { tool: "check" }] }
 * const { layer } = ScriptedModel.make([calls, { calls: [{ tool: "deploy" }] }])
 *
 * await Effect.gen(function* () {
 *   const runtime = yield* Runtime.make({ agent: Agent.make("ops", { tools: [deploy, check] }) })
 *   const held = yield* runPrompt(runtime, { prompt: "Deploy" })
 *   const [one, two] = held.state.requests.map(({ request }) => ({ requestId: request.requestId, by: "ana" }))
 *   const denied = yield* runPrompt(runtime, { state: held.state, decisions: [{ _tag: "deny", ...one! }] })
 *   const state = yield* Effect.fromResult(
 *     reopenInState(denied.state, one!.requestId, { by: "ben", note: "The freeze is over.", at: Date.now() })
 *   )
 *   const asked = yield* runPrompt(runtime, { state, decisions: [{ _tag: "approve", ...two! }] })
 *   console.log(asked.status) // interrupted: deploy is asked about again
 * }).pipe(Effect.provide(layer), Effect.scoped, Effect.runPromise)
 * ```
 *
 * **Errors**
 *
 * - `RequestNotFound` — the state has no such request.
 * - `RequestNotDenied` — no denial by a party stands, for example because the request is open or was decided by expiry.
 * - `RunEnded` — the run has ended, and its denials with it.
 * - `PrincipalInvalid` — `by` is not a name or a valid principal, or not a person.
 */
export const reopenInState = (
  state: RunState,
  requestId: string,
  options: ReopenOptions & { readonly at: Timestamp }
): Result.Result<RunState, ReopenError> =>
  Result.map(reopenMessage(state, requestId as RequestId, options), (message) => {
    if (message === undefined) return state
    const { content, reopens, to } = message
    const path = to === undefined ? [] : lineOf(to).path
    const line = lineTo(state, path)
    const ended = line.findIndex((run, depth) => depth > 0 && isEnded(run))
    const event = { _tag: "message.queued", at: options.at, content, reopens } as const
    return evolve(state, wrap(event, path.slice(0, (ended < 0 ? line.length : ended) - 1)))
  })
