/**
 * Finds the grant that covers a call, in the call's own run or in a run above it.
 */
import { isAgent } from "../../agent/BoundAgent.ts"
import type { BoundAgent } from "../../agent/Entry.ts"
import { starterOf } from "../../agent/internal/definitions.ts"
import type { Grant } from "../../domain/Grant.ts"
import { stateOf, type AgentRun } from "../internal/AgentRun.ts"

/** Whether a grant was given in the call's own run or in a run above it. */
type Reach = "own" | "inherited"

/**
 * The first grant that fits: of the call's own run, or, inherited, of the runs above it. An inherited grant was given to one agent, and
 * reaches the sub-agents that this agent started, whichever agent has the conversation now.
 */
export const findGrant = (
  run: AgentRun,
  fits: (grant: Grant, reach: Reach) => boolean
): { readonly grant: Grant; readonly reach: Reach } | undefined => {
  for (const grant of stateOf(run).grants) {
    if (fits(grant, "own")) return { grant, reach: "own" }
  }
  for (let below = run; below.parent !== undefined; below = below.parent) {
    const { first } = below.parent
    const starter = first === undefined ? undefined : starterOf(first, stateOf(below))
    for (const grant of stateOf(below.parent).grants) {
      if (grant.inherit && isGivenTo(grant, starter) && fits(grant, "inherited")) {
        return { grant, reach: "inherited" }
      }
    }
  }
  return undefined
}

/** Whether a grant was given to an agent, by its name or an alias. */
const isGivenTo = ({ agent, agentPeers }: Grant, starter: BoundAgent | undefined): boolean =>
  agent === undefined || (starter !== undefined && isAgent(starter.agent, agent, agentPeers))
