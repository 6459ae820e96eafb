/**
 * Makes the result of a run from its state.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { holderOf } from "../../agent/BoundAgent.ts"
import { type BoundAgent } from "../../agent/Entry.ts"
import { type Equipment, missingIn, type Obstacle } from "../../agent/internal/definitions.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import { fromFailure, RunDefect } from "../../domain/RunError.ts"
import { type RunState, interruptions, isEnded, text } from "../../domain/RunState.ts"
import type { RunResult } from "../RunResult.ts"

/** The result of a run that is held or has ended. */
export const toResult = <Output>(
  program: Pick<Runtime<Output>, keyof Equipment>,
  state: RunState
): Effect.Effect<RunResult<Output>> =>
  Effect.suspend(() =>
    resultOf<Output>(state, holderOf(program.bound, state.agent), obstaclesOf(program, state))
  )

/** The agents, tools, secrets and sandboxes that the run needs to continue and the program lacks. */
export const obstaclesOf = (program: Equipment, state: RunState): ReadonlyArray<Obstacle> =>
  isEnded(state) ? [] : missingIn(program, state, "attempted")

/** The result of a run whose current agent and missing definitions are known. */
export const resultOf = <Output>(
  state: RunState,
  holder: BoundAgent | undefined,
  missing: ReadonlyArray<Obstacle>
): Effect.Effect<RunResult<Output>> => {
  const fields = { runId: state.runId, sessionId: state.sessionId, state, usage: state.usage }
  switch (state.status) {
    case "completed":
      return Effect.map(decodeOutput(holder, state), (output): RunResult<Output> =>
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
      return Effect.succeed({
        ...fields,
        status: "interrupted",
        interruptions: interruptions(state),
        ...(missing.length === 0 ? {} : { missing: missing.map(({ problem }) => problem) })
      })
  }
}

const decodeOutput = (
  holder: BoundAgent | undefined,
  { output }: RunState
): Effect.Effect<Exit.Exit<unknown, string>> =>
  output === undefined || holder?.output === undefined
    ? Effect.succeed(Exit.succeed(undefined))
    : Effect.exit(holder.output.decode(output))
