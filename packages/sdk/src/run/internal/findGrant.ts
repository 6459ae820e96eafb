import { isAgent } from "../../agent/BoundAgent.ts"
import { type BoundAgent } from "../../agent/Entry.ts"
import { starterOf } from "../../agent/internal/definitions.ts"
/**
 * The grants that may cover a call: those of its own run, and of the runs above it those that say that they are inherited. A grant that
 * is inherited was given to one agent, and reaches the sub-agents that this agent started, whoever has the conversation now.
 */
import type { Grant } from "../../domain/Grant.ts"
import { type Scope, stateOf } from "./Drive.ts"

/** How a grant reaches a call: it was given in the call's own run, or in one above. */
export type Reach = "own" | "inherited"

/** The first of them that is meant. */
export const findGrant = (
  scope: Scope,
  isMeant: (grant: Grant, reach: Reach) => boolean
): { readonly grant: Grant; readonly reach: Reach } | undefined => {
  for (const grant of stateOf(scope).grants) {
    if (isMeant(grant, "own")) return { grant, reach: "own" }
  }
  for (let below = scope; below.parent !== undefined; below = below.parent) {
    const { first } = below.parent
    const starter = first === undefined ? undefined : starterOf(first, stateOf(below))
    for (const grant of stateOf(below.parent).grants) {
      if (grant.inherit && isGivenTo(grant, starter) && isMeant(grant, "inherited")) {
        return { grant, reach: "inherited" }
      }
    }
  }
  return undefined
}

/** Whether a grant was given to an agent, by a name that it has or had. */
const isGivenTo = ({ agent, agentPeers }: Grant, starter: BoundAgent | undefined): boolean =>
  agent === undefined || (starter !== undefined && isAgent(starter.agent, agent, agentPeers))
