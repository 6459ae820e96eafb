/**
 * The methods of a Fermata that read runs and sessions without driving anything.
 */
import type * as Effect from "effect/Effect"
import type { RunId } from "../../domain/Id.ts"
import { readResult, type StoredResult } from "../../durable/readResult.ts"
import type { RunStore } from "../../store/RunStore.ts"
import type { RunHandle } from "../RunHandle.ts"
import type { Agents } from "./bindAgents.ts"
import type { OfAgent } from "./options.ts"
import { ofAgentShape, requireKnown } from "./shapes.ts"

/** The parts of a Fermata that its readers of stored data need. */
export interface Read {
  readonly run: <A, E>(effect: Effect.Effect<A, E, RunStore>) => Promise<A>
  readonly agents: Agents
}

/** Makes the methods that read stored runs. */
export const makeReading = ({ agents, run }: Read) => ({
  result: async <Output>(
    given: string | RunHandle<Output>,
    options: OfAgent<Output> = {}
  ): Promise<StoredResult<Output>> => {
    requireKnown("result", options, ofAgentShape)
    return run(readResult<Output>(idOf(given), { ...agents.given(options), runtimes: agents.all }))
  }
})

/** The id of a run that is given by its id or its handle. The store refuses what is neither. */
const idOf = (given: string | Pick<RunHandle, "runId">): RunId =>
  (typeof given === "object" && given !== null ? given.runId : given) as RunId
