/**
 * Compares a run with the agents of the program: what has changed since it started, and what prevents resuming it.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type { Any } from "../agent/AgentDefinition.ts"
import * as BoundAgent_ from "../agent/BoundAgent.ts"
import type { BoundAgent } from "../agent/Entry.ts"
import { decodeArguments } from "../agent/internal/decoding.ts"
import {
  contextRefused,
  type Found,
  lacksSandbox,
  lacksSecrets,
  refusesContext,
  sandboxMissing,
  secretsMissing,
  unavailableTool,
  walk
} from "../agent/internal/definitions.ts"
import type { Runtime } from "../agent/RuntimeDefinition.ts"
import { contextOf } from "../domain/RunContext.ts"
import { AgentNotFound, type ToolUnavailable } from "../domain/RunError.ts"
import type { RunState } from "../domain/RunState.ts"
import { referencesIn } from "../tool/internal/secretReferences.ts"
import { read, type Secrets } from "../tool/Secrets.ts"
import { parse } from "./calls/recordClassification.ts"
import { type Change, changesOf, safetyChange } from "./internal/definitionChanges.ts"

export type { Obstacle } from "../agent/internal/definitions.ts"
export type { Change } from "./internal/definitionChanges.ts"

/**
 * The changes since the run recorded its agents, and the reasons that prevent resuming it. If `blocking` is empty, every part of the run
 * can be resumed; `changes` prevents nothing. A resumed run keeps its policy and its limits. An approval or a grant that was given when the
 * tool had another safety does not count.
 */
export interface ResumeReport {
  readonly changes: ReadonlyArray<Change>
  /**
   * Missing agents and tools, and tools that do not accept the context of the run, whose parts of the run stay held, and tools that no
   * longer accept the arguments of an open call. Such a call does not run with these arguments; if it was decided already, it is asked
   * about again. Also calls that refer to a secret which the program's source does not have, if the program is given with its source: as a
   * runtime, or by a Fermata. The source is asked for each of them. Also calls that act in a sandbox for which the program has no provider;
   * whether the sandbox still exists is not checked.
   */
  readonly blocking: ReadonlyArray<AgentNotFound | ToolUnavailable>
}

/**
 * Compares a run with the agents of this program, without running anything, and returns what has changed and what prevents resuming the
 * run.
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
export const checkBound: (
  state: RunState,
  first: BoundAgent,
  /** The program's secrets and sandboxes. Absent if they are not known: calls that need them are then not checked. */
  program?: Partial<Pick<Runtime, "secrets" | "~sandboxes">>
) => Effect.Effect<ResumeReport> = Effect.fnUntraced(function* (state, first, program = {}) {
  const { secrets, "~sandboxes": sandboxes } = program
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
        if (secrets !== undefined) blocking.push(...(yield* secretsMissingFor(secrets, state, found)))
        if (sandboxes !== undefined && lacksSandbox({ "~sandboxes": sandboxes }, state, entry))
          blocking.push(sandboxMissing(state, found.state, call))
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

/** How long the check waits for one secret. */
const patience = "5 seconds"

/** The secrets that an open call refers to, and that the source does not have or cannot read. The values are dropped. */
const secretsMissingFor = Effect.fnUntraced(function* (
  secrets: Secrets,
  root: RunState,
  { call, entry, state }: Extract<Found, { readonly _tag: "call" }>
) {
  if (lacksSecrets({ secrets }, entry, call)) return [secretsMissing(state, call)]
  if (!("tool" in entry) || entry.tool.options.secrets === undefined) return []
  const { agentPath, runId, sessionId } = state
  const args = call.value ?? call.arguments ?? {}
  const use = {
    tool: entry.name,
    arguments: args,
    runId,
    sessionId,
    callId: call.id,
    agentPath,
    context: contextOf(root)
  }
  const found: Array<ToolUnavailable> = []
  for (const secret of referencesIn(args, referencesIn(call.arguments ?? {}))) {
    const value = yield* read(secrets, secret, use).pipe(
      Effect.scoped,
      Effect.timeoutOption(patience),
      Effect.map(Option.getOrUndefined),
      Effect.catchCause(() => Effect.undefined)
    )
    if (value === undefined) found.push(secretsMissing(state, call, secret))
  }
  return found
})
