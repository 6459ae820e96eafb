/**
 * Warns about privileged tools whose calls run without a decision.
 */
import * as Effect from "effect/Effect"
import { sentence } from "../../domain/Display.ts"
import type { BoundAgent } from "../Entry.ts"

/** Logs a warning for each `privileged` tool with `needsApproval: false`, of an agent and of the agents that it can call or hand over to. */
export const warnOfUnasked = (bound: BoundAgent): Effect.Effect<void> =>
  Effect.forEach(
    unaskedIn(bound),
    ({ agent, tool }) =>
      Effect.logWarning(
        sentence`The tool ${tool} of ${agent} is privileged and has needsApproval: false: its calls run without a decision, unless a policy asks or denies.`
      ).pipe(Effect.annotateLogs({ code: "needsApproval", agent, tool }), Effect.ignoreCause),
    { discard: true }
  )

const unaskedIn = (
  bound: BoundAgent,
  // By definition, because an agent may be bound more than once.
  seen = new Set<unknown>()
): ReadonlyArray<{ readonly agent: string; readonly tool: string }> => {
  if (seen.has(bound.agent)) return []
  seen.add(bound.agent)
  const own = Array.from(new Set(bound.entries.values())).flatMap((entry) => {
    if (entry.target === "agent") return unaskedIn(entry.bound, seen)
    if (entry.target === "delegate")
      return Array.from(entry.agents.values()).flatMap((found) => unaskedIn(found.bound, seen))
    if (!("tool" in entry)) return []
    const { options, safety } = entry.tool
    const isUnasked = safety === "privileged" && options.needsApproval === false
    return isUnasked ? [{ agent: bound.agent.name, tool: entry.name }] : []
  })
  return [...own, ...Array.from(bound.team.values()).flatMap((other) => unaskedIn(other, seen))]
}
