/**
 * Who answers a prompt: the agent that the caller names, or else the one that has the conversation.
 */
import * as Effect from "effect/Effect"
import { answersTo, memberOf } from "../../agent/BoundAgent.ts"
import { type BoundAgent } from "../../agent/Entry.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import { AgentNotFound } from "../../domain/RunError.ts"
import type { RunState } from "../../domain/RunState.ts"

/** What decides it. */
interface Question {
  /** The run before, whose agent has the conversation. */
  readonly previous?: RunState | undefined
  /** The agent that run was started under, where that is known. */
  readonly under?: string
  /** Whom the caller wants to answer. */
  readonly answeredBy?: string | undefined
}

/**
 * The agent that a new run begins with: the runtime's own, or one that it hands over to. A session that another runtime's agent has is
 * gone on with by this one, as its caller said by choosing it.
 *
 * **Errors**
 *
 * - `AgentNotFound` — the runtime's agent does not hand over to whoever is named, or no longer to whoever has the conversation.
 */
export const answering = (
  { bound }: Runtime,
  { answeredBy, previous, under }: Question
): Effect.Effect<BoundAgent, AgentNotFound> => {
  const name = answeredBy ?? previous?.agent.name
  if (name === undefined) return Effect.succeed(bound)
  const found = answersTo(bound.agent, name) ? bound : memberOf(bound, name)
  if (found !== undefined) return Effect.succeed(found)
  const isAnothers = answeredBy === undefined && under !== undefined && !answersTo(bound.agent, under)
  if (isAnothers) return Effect.succeed(bound)
  return Effect.fail(
    new AgentNotFound({
      agent: name,
      known: [...bound.team.keys()],
      ...(answeredBy !== undefined || previous === undefined ? {} : { sessionId: previous.sessionId })
    })
  )
}
