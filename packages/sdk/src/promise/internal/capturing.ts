/**
 * The methods of a Fermata that capture and restore states together with the configuration of their agents.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Runtime } from "../../agent/Runtime.ts"
import { AgentNotFound, RunStateMalformed } from "../../domain/RunError.ts"
import type { RunState } from "../../domain/RunState.ts"
import * as RunStateCodec from "../../domain/RunStateCodec.ts"
import { captureState, type Restored, type RestoreError, restoreState } from "../../run/captureState.ts"
import { checkBound, type ResumeReport } from "../../run/checkResume.ts"
import type { Agents } from "./bindAgents.ts"

/** The parts of a Fermata that its captures need. */
interface Captured {
  readonly run: <A, E>(effect: Effect.Effect<A, E>) => Promise<A>
  readonly agents: Agents
}

/**
 * Returns a state that is given itself, or as the text that `RunStateCodec.encode` returns. Throws `RunStateMalformed` or `RunStateTooNew`.
 */
export const stateOf = (given: RunState | string): RunState => {
  if (typeof given === "string") {
    const decoded = RunStateCodec.decode(given)
    if (Result.isFailure(decoded)) throw decoded.failure
    return decoded.success
  }
  if (typeof given === "object" && given !== null && "runId" in given && "agent" in given) return given
  throw new RunStateMalformed({ issues: "it is neither a state nor the text of one" })
}

/** Returns the runtime that drives a state. Throws `AgentNotFound`. */
export const runtimeOf = (agents: Agents, { agent, under = agent.name }: RunState): Runtime =>
  agents.named(under)

export const makeCapturing = ({ agents, run }: Captured) => {
  /** Gives the text to each runtime in turn: only that of the state's agent takes it. */
  const restore = (
    text: string,
    [runtime, ...others]: ReadonlyArray<Runtime>
  ): Effect.Effect<Restored, RestoreError> =>
    runtime === undefined
      ? Effect.fail(new AgentNotFound({ agent: "", known: [] }))
      : Effect.catchTag(restoreState(runtime, text), "AgentNotFound", ({ agent }) =>
          others.length > 0
            ? restore(text, others)
            : Effect.fail(new AgentNotFound({ agent, known: agents.names() }))
        )
  return {
    capture: (given: RunState | string): string => {
      const state = stateOf(given)
      return captureState(runtimeOf(agents, state), state)
    },
    restore: (text: string): Promise<Restored> => run(restore(text, agents.all)),
    check: async (given: RunState | string): Promise<ResumeReport> => {
      const state = stateOf(given)
      const name = state.under ?? state.agent.name
      const runtime = agents.find(name)
      return runtime === undefined
        ? { changes: [], blocking: [agents.notFound(name)] }
        : run(checkBound(state, runtime.bound, { "~sandboxes": runtime["~sandboxes"] }))
    }
  }
}
