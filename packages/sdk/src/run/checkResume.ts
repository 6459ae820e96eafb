/**
 * Compares a run with the agents of the program: what has changed since it started, and what prevents resuming it.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Any } from "../agent/AgentDefinition.ts"
import * as BoundAgent_ from "../agent/BoundAgent.ts"
import type { BoundAgent } from "../agent/Entry.ts"
import { decodeArguments } from "../agent/internal/decoding.ts"
import { contextRefused, refusesContext, walk, unavailableTool } from "../agent/internal/definitions.ts"
import { AgentNotFound, type ToolUnavailable } from "../domain/RunError.ts"
import type { RunState } from "../domain/RunState.ts"
import { parse } from "./calls/recordClassification.ts"
import { type Change, changesOf, safetyChange } from "./internal/definitionChanges.ts"

export type { Obstacle } from "../agent/internal/definitions.ts"
export type { Change } from "./internal/definitionChanges.ts"

/**
 * What has changed since the run recorded its agents. The whole run can be resumed if `blocking` is empty, regardless of `changes`, except
 * a call that needs a secret in a program without a source of secrets, which is not checked: the run keeps its policy and its limits, and
 * an approval or a grant for another safety does not count.
 */
export interface ResumeReport {
  readonly changes: ReadonlyArray<Change>
  /**
   * Missing agents and tools, and tools that do not accept the context of the run, whose parts of the run stay held, and tools that no
   * longer accept the arguments of an open call. Such a call does not run with these arguments; if it was decided already, it is asked about
   * again.
   */
  readonly blocking: ReadonlyArray<AgentNotFound | ToolUnavailable>
}

/**
 * Compares a run with the agents of this program, without running anything.
 *
 * **When to use**
 *
 * Before deploying changed agents or resuming runs of an earlier version, to find the runs that the program cannot resume.
 *
 * **Errors**
 *
 * - The definition errors of {@link BoundAgent_.make}, if the definition of an agent is invalid.
 */
export const checkResume = (
  state: RunState,
  agents: ReadonlyArray<Any>
): Effect.Effect<ResumeReport, BoundAgent_.DefinitionError> =>
  Effect.gen(function* () {
    const { agent, under } = state
    const answering = (name: string | undefined) =>
      name === undefined ? undefined : agents.find((other) => BoundAgent_.answersTo(other, name))
    const found = answering(under) ?? answering(agent.name)
    if (found !== undefined) return yield* checkBound(state, yield* BoundAgent_.make(found))
    // The agent that has the conversation may be a handoff target of a given one.
    for (const other of agents) {
      const bound = yield* BoundAgent_.make(other)
      if (BoundAgent_.memberOf(bound, agent.name) !== undefined) return yield* checkBound(state, bound)
    }
    const known = agents.map(({ name }) => name)
    return { changes: [], blocking: [new AgentNotFound({ agent: agent.name, known })] }
  })

/** Compares a run with one agent. */
export const checkBound: (state: RunState, first: BoundAgent) => Effect.Effect<ResumeReport> =
  Effect.fnUntraced(function* (state, first) {
    const changes: Array<Change> = []
    const blocking: Array<AgentNotFound | ToolUnavailable> = []
    for (const found of walk(first, state)) {
      switch (found._tag) {
        case "missing":
          blocking.push(found.obstacle.problem)
          break
        case "run":
          changes.push(...changesOf(found.state, found.holder))
          break
        case "call": {
          const { call, entry } = found
          changes.push(...safetyChange(call, entry))
          if (refusesContext(state, entry)) blocking.push(contextRefused(found.state, call))
          if (call.proposed !== undefined) break
          const json = parse(call.argumentsText) ?? call.arguments ?? {}
          const decoded = yield* Effect.exit(decodeArguments(entry, found.state.limits, json))
          if (Exit.isSuccess(decoded)) break
          blocking.push(unavailableTool(found.state, call, "schemaChanged"))
        }
      }
    }
    return { changes, blocking }
  })
