/**
 * What has changed in the program since a run was stored, and what of it stands in the way.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { AgentNotFound, ToolUnavailable } from "../domain/RunError.ts"
import type { RunState } from "../domain/RunState.ts"
import { isEnded, isSettled } from "../domain/RunState.ts"
import type { Any } from "./Agent.ts"
import type { BoundAgent } from "./BoundAgent.ts"
import * as BoundAgent_ from "./BoundAgent.ts"
import { decodeArguments } from "./internal/decoding.ts"

/** One difference between the agent that started a run and the agent that would continue it. */
export type Change =
  | { readonly _tag: "agentRenamed"; readonly from: string; readonly to: string }
  | { readonly _tag: "instructionsChanged"; readonly agent: string }
  | { readonly _tag: "toolAdded"; readonly agent: string; readonly tool: string }
  | { readonly _tag: "toolRemoved"; readonly agent: string; readonly tool: string }
  | { readonly _tag: "toolChanged"; readonly agent: string; readonly tool: string }

/** What a resume would meet. It is possible when `blocking` is empty. */
export interface ResumeReport {
  readonly changes: ReadonlyArray<Change>
  /** What keeps the run held: an agent that is gone, a tool that an open call needs and that is gone or takes other arguments. */
  readonly blocking: ReadonlyArray<AgentNotFound | ToolUnavailable>
}

/**
 * Compares a state with the agents of this program.
 *
 * **Errors**
 *
 * - The definition errors of {@link BoundAgent_.make}, when an agent itself cannot be used.
 */
export const checkResume = (
  state: RunState,
  agents: ReadonlyArray<Any>
): Effect.Effect<ResumeReport, BoundAgent_.DefinitionError> =>
  Effect.gen(function* () {
    const { name } = state.agent
    const agent = agents.find((agent) => BoundAgent_.answersTo(agent, name))
    if (agent !== undefined) return yield* checkBound(state, yield* BoundAgent_.make(agent))
    // One that somebody hands over to.
    for (const other of agents) {
      const bound = yield* BoundAgent_.make(other)
      if (BoundAgent_.holderOf(bound, name) !== undefined) return yield* checkBound(state, bound)
    }
    return {
      changes: [],
      blocking: [new AgentNotFound({ agent: name, known: agents.map(({ name }) => name) })]
    }
  })

/** Compares a state with one agent. */
export const checkBound = (state: RunState, first: BoundAgent): Effect.Effect<ResumeReport> =>
  Effect.gen(function* () {
    const changes: Array<Change> = []
    const blocking: Array<AgentNotFound | ToolUnavailable> = []
    // Another agent may have taken the conversation over.
    const bound = BoundAgent_.holderOf(first, state.agent.name) ?? first
    const { agent, identity } = bound
    if (!BoundAgent_.answersTo(agent, state.agent.name)) {
      return { changes, blocking: [new AgentNotFound({ agent: state.agent.name, known: [agent.name] })] }
    }
    if (state.agent.name !== agent.name) {
      changes.push({ _tag: "agentRenamed", from: state.agent.name, to: agent.name })
    }
    if (state.agent.instructions !== identity.instructions) {
      changes.push({ _tag: "instructionsChanged", agent: agent.name })
    }
    for (const [tool, was] of Object.entries(state.agent.tools)) {
      const entry = bound.entries.get(tool)
      const is = entry === undefined ? undefined : identity.tools[entry.name]
      if (is === undefined) changes.push({ _tag: "toolRemoved", agent: agent.name, tool })
      else if (is !== was) changes.push({ _tag: "toolChanged", agent: agent.name, tool })
    }
    for (const tool of Object.keys(identity.tools)) {
      const entry = bound.entries.get(tool)
      const known =
        entry !== undefined &&
        [...bound.entries].some(
          ([name, other]) => other.name === entry.name && Object.hasOwn(state.agent.tools, name)
        )
      if (!known) changes.push({ _tag: "toolAdded", agent: agent.name, tool })
    }
    if (isEnded(state) && state.status !== "error") return { changes, blocking }
    const inside = Effect.fnUntraced(function* (child: RunState, subAgent: BoundAgent_.SubAgent) {
      const report = yield* checkBound(child, subAgent.bound)
      changes.push(...report.changes)
      blocking.push(...report.blocking)
    })
    for (const { child, name } of state.background ?? []) {
      if (child === undefined) continue
      const subAgent = BoundAgent_.subAgentOf(bound, name)
      if (subAgent !== undefined) yield* inside(child, subAgent)
      else blocking.push(new AgentNotFound({ agent: name, known: [...bound.entries.keys()] }))
    }
    for (const call of state.calls) {
      // A call that has not been classified yet may name anything; an unknown name is told to the model.
      if (isSettled(call) || call.status === "requested" || call.target === "question") continue
      const entry = bound.entries.get(call.name)
      if (call.target === "agent" || call.target === "background") {
        const subAgent = BoundAgent_.calledAgent(bound, call)
        if (subAgent === undefined) {
          blocking.push(new AgentNotFound({ agent: call.name, known: [...bound.entries.keys()] }))
        } else if (call.child !== undefined) yield* inside(call.child, subAgent)
      } else if (
        entry === undefined ||
        (!("tool" in entry) && entry.target !== "agents" && entry.target !== "handoff")
      ) {
        blocking.push(new ToolUnavailable({ runId: state.runId, tool: call.name, reason: "missing" }))
      } else if (call.proposed === undefined) {
        const decoded = yield* Effect.exit(decodeArguments(entry, state.limits, call.arguments ?? {}))
        if (Exit.isFailure(decoded)) {
          blocking.push(new ToolUnavailable({ runId: state.runId, tool: call.name, reason: "schemaChanged" }))
        }
      }
    }
    return { changes, blocking }
  })
