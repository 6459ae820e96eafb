/**
 * The result that a state amounts to.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { fromFailure, RunDefect } from "../../domain/RunError.ts"
import type { RunState } from "../../domain/RunState.ts"
import { interruptions, text } from "../../domain/RunState.ts"
import { holderOf } from "../BoundAgent.ts"
import type { RunResult } from "../RunResult.ts"
import type { Runtime } from "../Runtime.ts"

/** The result of a run that is held or over. */
export const toResult = <Output>(
  runtime: Runtime<Output>,
  state: RunState
): Effect.Effect<RunResult<Output>> =>
  Effect.suspend((): Effect.Effect<RunResult<Output>> => {
    const fields = { runId: state.runId, sessionId: state.sessionId, state, usage: state.usage }
    switch (state.status) {
      case "completed":
        return Effect.map(decodeOutput(runtime, state), (output): RunResult<Output> =>
          Exit.isSuccess(output)
            ? { ...fields, status: "completed", text: text(state), output: output.value as Output }
            : {
                ...fields,
                status: "error",
                error: new RunDefect({
                  description: "the stored output no longer fits the agent's output schema"
                })
              }
        )
      case "cancelled":
        return Effect.succeed({
          ...fields,
          status: "cancelled",
          reason: state.cancelled?.reason ?? "",
          calls: state.cancelled?.calls ?? []
        })
      case "error":
        return Effect.succeed({
          ...fields,
          status: "error",
          error: fromFailure(state.failure ?? { _tag: "RunDefect", description: "unknown" })
        })
      case "held":
      case "running":
        return Effect.succeed({ ...fields, status: "interrupted", interruptions: interruptions(state) })
    }
  })

const decodeOutput = (runtime: Runtime<any>, state: RunState): Effect.Effect<Exit.Exit<unknown, string>> => {
  const { output } = holderOf(runtime.bound, state.agent.name) ?? runtime.bound
  return state.output === undefined || output === undefined
    ? Effect.succeed(Exit.succeed(undefined))
    : Effect.exit(output.decode(state.output))
}
