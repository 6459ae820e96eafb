/**
 * Checks that a run was started with the agent that the caller named, which types its output.
 */
import * as Effect from "effect/Effect"
import type { Any } from "../../agent/AgentDefinition.ts"
import { answersTo } from "../../agent/BoundAgent.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import { kindOf } from "../../domain/internal/untyped.ts"
import { AgentNotFound } from "../../domain/RunError.ts"
import type { RunState } from "../../domain/RunState.ts"

/** Fails unless the agent, given by its definition or its name, is the one with the name under which a run was started. */
export const requireAgent = (given: string | Any, startedAs: string): Effect.Effect<void, AgentNotFound> => {
  // In a program without types, the value may be no agent; its kind is in the error then.
  const name: unknown = typeof given === "string" ? given : (given as Any | null)?.name
  const isIt =
    name === startedAs || (typeof given === "object" && name !== undefined && answersTo(given, startedAs))
  const known = typeof name === "string" ? name : kindOf(given)
  return isIt ? Effect.void : Effect.fail(new AgentNotFound({ agent: startedAs, known: [known] }))
}

/** The error of a run whose agent is none of these runtimes'. */
export const notAmong = (runtimes: ReadonlyArray<Runtime>, agent: string): AgentNotFound =>
  new AgentNotFound({ agent, known: runtimes.map(({ agent }) => agent.name) })

/** The name under which a sub-agent's run was started. */
export const startedAs = ({ agent, under }: RunState): string => under ?? agent.name
