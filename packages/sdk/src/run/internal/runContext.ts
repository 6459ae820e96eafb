/**
 * The context of a run: refused if an agent or a tool does not accept it, and passed to user code.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { InstructionsContext } from "../../agent/AgentDefinition.ts"
import type { BoundAgent } from "../../agent/Entry.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import { canonicalJson } from "../../domain/internal/json.ts"
import { contextOf, type RunContext } from "../../domain/RunContext.ts"
import { ContextInvalid } from "../../domain/RunError.ts"
import type { StartOptions } from "../../domain/StartOptions.ts"
import type { DataSchema } from "../../tool/DataSchema.ts"
import { decodeContext } from "../../tool/internal/decodeContext.ts"
import type { AnyTool, ApprovalContext, MayOpenSandbox } from "../../tool/Tool.ts"
import { openSandbox } from "../calls/sandbox.ts"
import { type AgentRun, stateOf } from "./AgentRun.ts"
import { cleanJson } from "./redact.ts"

/** A schema of contexts, and the agent or the tool that declares it. */
interface Reader {
  readonly schema: DataSchema<unknown>
  readonly agent: string
  readonly tool?: string
}

/** The schemas of contexts that an agent, its handoffs, their sub-agents and the tools of all of them declare. */
function* readersIn(bound: BoundAgent, seen = new Set<BoundAgent>()): Generator<Reader> {
  if (seen.has(bound)) return
  seen.add(bound)
  const { agent, entries, team } = bound
  if (agent.options.context !== undefined) yield { schema: agent.options.context, agent: agent.name }
  for (const entry of entries.values()) {
    if ("tool" in entry) {
      const { context } = entry.tool.options
      if (context !== undefined) yield { schema: context, agent: agent.name, tool: entry.name }
    } else if (entry.target === "agent") yield* readersIn(entry.bound, seen)
    else if (entry.target === "delegate") {
      for (const { bound: subAgent } of entry.agents.values()) yield* readersIn(subAgent, seen)
    }
  }
  for (const member of team.values()) yield* readersIn(member, seen)
}

/**
 * Refuses a context that holds a secret, which no stored run may have and which the scrubber would have to change, or that an agent or a
 * tool of the runtime does not accept.
 */
export const requireContext = (
  { bound, scrubber }: Runtime,
  startedWith: StartOptions
): Effect.Effect<void, ContextInvalid> => {
  const context = contextOf({ startedWith })
  if (startedWith.context !== undefined) {
    if (canonicalJson(cleanJson(scrubber, context)) !== canonicalJson(context)) {
      const issues = "it holds a text that the scrubber takes for a secret: give a reference instead"
      return Effect.fail(new ContextInvalid({ issues }))
    }
  }
  for (const { schema, ...whose } of readersIn(bound)) {
    const decoded = decodeContext(schema, context)
    if (Result.isFailure(decoded)) {
      return Effect.fail(new ContextInvalid({ issues: decoded.failure, ...whose }))
    }
  }
  return Effect.void
}

/** The context of the run that a drive is about. Sub-agents have it, too. */
export const contextIn = ({ drive }: AgentRun): RunContext => contextOf(drive.state)

/** The context as a tool reads it. */
export const contextFor = (run: AgentRun, { options }: AnyTool): Result.Result<unknown, string> =>
  decodeContext(options.context, contextIn(run))

/** The argument of an agent's instructions. Throws for a context that the agent does not accept, which fails the run. */
export const instructionsContext = (run: AgentRun, turn: number): InstructionsContext => {
  const { name, options } = run.bound.agent
  const context = Result.getOrThrowWith(
    decodeContext(options.context, contextIn(run)),
    (issues) => new ContextInvalid({ issues, agent: name })
  )
  return { state: stateOf(run), turn, context: context as RunContext }
}

/** The last argument of a tool's callbacks. Throws for a context that the tool does not accept, which fails the callback. */
export const callbackContext = (run: AgentRun, tool: AnyTool): ApprovalContext => {
  const { agentPath, runId, sessionId } = stateOf(run)
  const context = Result.getOrThrowWith(contextFor(run, tool), (issues) => contextInvalid(run, tool, issues))
  const about = { runId, sessionId, agentPath, context: context as RunContext }
  return tool.options.sandbox === true
    ? (Object.assign(about, { sandbox: openSandbox(run) }) satisfies MayOpenSandbox<true>)
    : about
}

/** The error of a tool that does not accept the context of the run. */
export const contextInvalid = (run: AgentRun, { name }: AnyTool, issues: string): ContextInvalid =>
  new ContextInvalid({ issues, agent: stateOf(run).agent.name, tool: name })
