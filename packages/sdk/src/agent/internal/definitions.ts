/**
 * Finds the definition with which each run of a tree continues.
 *
 * A sub-agent belongs to the agent that started it, even after that agent has handed the conversation over. The agent path of the
 * sub-agent's run contains the name of the starter, and `under` the name by which the sub-agent was started. The sub-agent's definition is
 * looked up by these two names and nowhere else. If the definition is not found, the run waits; no other agent replaces the missing one.
 */
import * as Result from "effect/Result"
import { isWithin, type RunId, type ToolCallId } from "../../domain/Id.ts"
import { defined } from "../../domain/internal/defined.ts"
import { isLeftToHold } from "../../domain/internal/released.ts"
import type { Unavailable } from "../../domain/next.ts"
import { contextOf } from "../../domain/RunContext.ts"
import { AgentNotFound, ToolUnavailable } from "../../domain/RunError.ts"
import {
  findCall,
  findChild,
  isEnded,
  isSettled,
  type RunState,
  type ToolCall
} from "../../domain/RunState.ts"
import { decodeContext } from "../../tool/internal/decodeContext.ts"
import { hasReference } from "../../tool/internal/secretReferences.ts"
import { none as noSecrets } from "../../tool/Secrets.ts"
import { calledAgent, holderOf, isOtherAgent, memberOf, subAgentOf } from "../BoundAgent.ts"
import type { BoundAgent, Entry, SubAgent } from "../Entry.ts"
import type { Runtime } from "../RuntimeDefinition.ts"
import type { OpenError } from "./Sandboxes.ts"

/** The agent that started a sub-agent's run. `first` is the agent with which the run above it was started. */
export const starterOf = (first: BoundAgent, child: RunState): BoundAgent | undefined =>
  holderOf(first, { name: starterName(child), peers: child.agent.starterPeers })

/** The sub-agent with which a run was started, among the sub-agents of the agent that started it. */
const startedAs = (starter: BoundAgent, name: string, { agent }: RunState): SubAgent | undefined => {
  const found = subAgentOf(starter, name)
  return found === undefined || isOtherAgent(found.bound.agent, name, agent.peers) ? undefined : found
}

/** The name of the agent that started a sub-agent's run: the last but one of its path. Handoffs do not change it. */
const starterName = ({ agentPath }: RunState): string => agentPath.at(-2) ?? ""

/** The sub-agent of a call: the one with which its run was started or, before that, the one that the call names. */
export const subAgentAt = (
  first: BoundAgent | undefined,
  state: RunState,
  callId: ToolCallId
): SubAgent | undefined => {
  const call = findCall(state, callId)
  const entry = state.background?.find((entry) => entry.callId === callId)
  const child = entry?.child ?? call?.child
  if (first === undefined) return undefined
  if (child === undefined) {
    const holder = holderOf(first, state.agent)
    return holder === undefined || call === undefined ? undefined : calledAgent(holder, call)
  }
  const starter = starterOf(first, child)
  if (starter === undefined) return undefined
  const name = entry?.name ?? child.under
  if (name !== undefined) return startedAs(starter, name, child)
  // States of earlier versions do not have the name under which an attached run was started. The call has it, unless it was renamed.
  const called = call === undefined ? undefined : calledAgent(starter, call)
  return called === undefined || holderOf(called.bound, child.agent) === undefined ? undefined : called
}

/** The agent that has the conversation of a sub-agent's run. `path` are the calls that lead to the run from the root. */
export const definitionAt = (
  root: BoundAgent,
  state: RunState,
  path: ReadonlyArray<ToolCallId>
): BoundAgent | undefined => {
  let first: BoundAgent | undefined = root
  let run: RunState | undefined = state
  for (const callId of path) {
    if (run === undefined) return undefined
    first = subAgentAt(first, run, callId)?.bound
    run = findChild(run, callId)
  }
  return first === undefined || run === undefined ? undefined : holderOf(first, run.agent)
}

/** Like {@link definitionAt}, for a run that may have ended. `line` are the states of the sub-agents' runs that lead to it, its own last. */
export const definitionInLine = (root: BoundAgent, line: ReadonlyArray<RunState>): BoundAgent | undefined => {
  let first: BoundAgent | undefined = root
  for (const child of line) {
    const starter: BoundAgent | undefined = first === undefined ? undefined : starterOf(first, child)
    first = starter === undefined ? undefined : startedAs(starter, nameOf(child), child)?.bound
  }
  const last = line.at(-1)
  return first === undefined || last === undefined ? first : holderOf(first, last.agent)
}

/** The sub-agents that an agent can start, by their names. */
const subAgentNames = (bound: BoundAgent | undefined): ReadonlyArray<string> =>
  (bound?.agent.options.subAgents ?? []).map(({ name }) => name)

/** The error of a run whose conversation is with an agent that this program does not have. */
const missingHolder = (first: BoundAgent, { agent, agentPath, runId }: RunState): AgentNotFound =>
  new AgentNotFound({
    agent: agent.name,
    known: [...first.team.keys()],
    ...(agentPath.length > 1 ? { runId } : {}),
    ...takenBy(memberOf(first, agent.name))
  })

/** The field for an agent that has the missing name, but is another agent. */
const takenBy = (found: BoundAgent | undefined) =>
  found === undefined ? {} : { answeredBy: found.agent.name }

/** The error of a call that names a sub-agent that this program does not have. */
export const missingCalled = (holder: BoundAgent, { arguments: args, name }: ToolCall): AgentNotFound => {
  const named = typeof args === "object" && args !== null && "agent" in args ? args.agent : undefined
  return new AgentNotFound({
    agent: name === "delegate" && typeof named === "string" ? named : name,
    known: subAgentNames(holder)
  })
}

/** The error of a call whose tool this program does not have. */
export const missingTool = (state: RunState, call: ToolCall): ToolUnavailable =>
  unavailableTool(state, call, "missing")

/** The error of a call whose tool does not accept the context of the run. */
export const contextRefused = (state: RunState, call: ToolCall): ToolUnavailable =>
  unavailableTool(state, call, "contextRefused")

/** The error of a call that refers to a secret, in a program without a source of secrets, or whose source does not have this one. */
export const secretsMissing = (state: RunState, call: ToolCall, secret?: string): ToolUnavailable =>
  unavailableTool(state, call, "withoutSecrets", defined({ secret }))

/** The error of a call that acts in a sandbox for which the program has no provider. */
export const sandboxMissing = (root: RunState, state: RunState, call: ToolCall): ToolUnavailable => {
  const { sandbox } = root
  return unavailableTool(
    state,
    call,
    "withoutSandbox",
    sandbox === undefined ? {} : { sandbox: { backend: sandbox.backend, id: sandbox.id } }
  )
}

/** The error of a call whose sandbox cannot be opened. */
export const sandboxProblem = (
  root: RunState,
  state: RunState,
  call: ToolCall,
  error: OpenError
): ToolUnavailable => {
  const { backend, problem } = error
  const id = error._tag === "SandboxLost" ? error.id : root.sandbox?.id
  const sandbox = { backend, ...defined({ id }) }
  return error._tag === "SandboxLost"
    ? unavailableTool(state, call, "sandboxLost", { sandbox, problem })
    : unavailableTool(state, call, "sandboxUnavailable", { sandbox, problem, retryable: error.retryable })
}

/** The error of a call that cannot run with its tool. */
export const unavailableTool = (
  { runId }: RunState,
  { name, status }: ToolCall,
  reason: ToolUnavailable["reason"],
  about: Partial<Pick<ToolUnavailable, "secret" | "sandbox" | "problem" | "retryable">> = {}
): ToolUnavailable =>
  new ToolUnavailable({
    runId,
    tool: name,
    reason,
    ...about,
    ...(status === "ready" ? { isAllowed: true } : {})
  })

/** A missing definition: that of a run of the tree, or of the tool or sub-agent that a call needs. */
export interface Obstacle {
  /** The id of the run or of the call. */
  readonly id: string
  /** For a run: set if the definition with which it was started is missing, and therefore those of all runs under it. */
  readonly isWhole?: true
  /** For a call: its arguments at the time. With other arguments, the call is checked again. */
  readonly arguments?: unknown
  readonly problem: AgentNotFound | ToolUnavailable
}

const wholeRun = (first: BoundAgent | undefined, child: RunState): Obstacle => {
  const { runId } = child
  const startedBy = starterName(child)
  const starter = first === undefined ? undefined : starterOf(first, child)
  const problem =
    starter === undefined
      ? new AgentNotFound({
          agent: startedBy,
          known: [...(first?.team.keys() ?? [])],
          runId,
          startedBy,
          ...takenBy(first === undefined ? undefined : memberOf(first, startedBy))
        })
      : new AgentNotFound({
          agent: nameOf(child),
          known: subAgentNames(starter),
          runId,
          startedBy,
          ...takenBy(subAgentOf(starter, nameOf(child))?.bound)
        })
  return { id: runId, isWhole: true, problem }
}

/** The name that a sub-agent's run was started under. */
const nameOf = ({ agent, under }: RunState): string => under ?? agent.name

/** The missing definition of a call's sub-agent; `undefined` if this program has it. */
export const obstacleAt = (
  first: BoundAgent | undefined,
  state: RunState,
  { callId, child }: { readonly callId: ToolCallId; readonly child: RunState }
): Obstacle | undefined => {
  const found = subAgentAt(first, state, callId)
  if (found === undefined) return wholeRun(first, child)
  return holderOf(found.bound, child.agent) === undefined
    ? { id: child.runId, problem: missingHolder(found.bound, child) }
    : undefined
}

/** The missing definition of a run that lost it to a reconfiguration while it was driven. */
export const obstacleOf = (first: BoundAgent | undefined, state: RunState): Obstacle =>
  first === undefined ? wholeRun(undefined, state) : { id: state.runId, problem: missingHolder(first, state) }

/** An element of a tree of runs, as {@link walk} yields it. */
export type Found =
  | { readonly _tag: "run"; readonly state: RunState; readonly holder: BoundAgent }
  /** An unsettled call and the entry of its tool. */
  | { readonly _tag: "call"; readonly state: RunState; readonly call: ToolCall; readonly entry: Entry }
  | { readonly _tag: "missing"; readonly obstacle: Obstacle }

/** Yields a run and the runs of its sub-agents, with their definitions, their unsettled calls and what is missing. */
export function* walk(first: BoundAgent, state: RunState): Generator<Found> {
  const holder = holderOf(first, state.agent)
  // A run that a decision has stopped needs no definition to end.
  if (state.stop !== undefined && !isEnded(state)) {
    if (holder !== undefined) yield { _tag: "run", state, holder }
    return
  }
  if (holder === undefined) {
    yield { _tag: "missing", obstacle: { id: state.runId, problem: missingHolder(first, state) } }
  } else yield { _tag: "run", state, holder }
  if (isEnded(state) && state.status !== "error") return
  for (const { callId, child } of state.background ?? []) {
    if (child !== undefined) yield* walkChild(first, state, callId, child)
  }
  for (const call of state.calls) {
    // A call that is not classified yet may have any name. The model receives an error for an unknown one.
    // The body of a call on hold has run, and its result needs no tool.
    if (
      isSettled(call) ||
      call.status === "requested" ||
      call.target === "question" ||
      isLeftToHold(state, call)
    )
      continue
    if (call.child !== undefined) yield* walkChild(first, state, call.id, call.child)
    else if (holder !== undefined) yield* walkCall(holder, state, call)
  }
}

function* walkChild(
  first: BoundAgent,
  state: RunState,
  callId: ToolCallId,
  child: RunState
): Generator<Found> {
  const found = subAgentAt(first, state, callId)
  if (found !== undefined) return yield* walk(found.bound, child)
  if (child.stop !== undefined) return
  yield { _tag: "missing", obstacle: wholeRun(first, child) }
}

function* walkCall(holder: BoundAgent, state: RunState, call: ToolCall): Generator<Found> {
  const { arguments: args, id, target } = call
  const missing = (problem: Obstacle["problem"]): Found => ({
    _tag: "missing",
    obstacle: { id, arguments: args, problem }
  })
  if (target === "agent" || target === "background") {
    if (calledAgent(holder, call) === undefined) yield missing(missingCalled(holder, call))
    return
  }
  // `call.tool` is the definition's own name, if the call used an alias.
  const entry = holder.entries.get(call.tool ?? call.name)
  if (
    entry === undefined ||
    (!("tool" in entry) && entry.target !== "agents" && entry.target !== "handoff")
  ) {
    yield missing(missingTool(state, call))
  } else yield { _tag: "call", state, call, entry }
}

/** The parts of a runtime that determine whether a call of a run can be made: agents, secrets and sandboxes. */
export type Equipment = Pick<Runtime, "bound" | "secrets" | "~sandboxes">

/**
 * The definitions that a root run and its sub-agents need and this program does not have, the tools of open calls that do not accept the
 * context of the run, and the calls that need a secret or a sandbox in a program without.
 */
export const missingIn = (
  program: Equipment,
  root: RunState,
  /** Whether a sandbox that could not be opened at the last attempt counts. The next attempt may open it. */
  attempted: "attempted" | "expected" = "expected"
): ReadonlyArray<Obstacle> =>
  [...walk(program.bound, root)].flatMap((found) => {
    if (found._tag === "missing") return [found.obstacle]
    if (found._tag !== "call") return []
    const { call, entry, state } = found
    const problem = refusesContext(root, entry)
      ? contextRefused(state, call)
      : lacksSecrets(program, entry, call)
        ? secretsMissing(state, call)
        : lacksSandbox(program, root, entry)
          ? sandboxMissing(root, state, call)
          : attempted === "attempted"
            ? notOpened(program, root, found)
            : undefined
    return problem === undefined ? [] : [{ id: call.id, arguments: call.arguments, problem }]
  })

/** Whether a call of a tool refers to a secret in a program without a source of secrets. */
export const lacksSecrets = (
  { secrets }: Pick<Equipment, "secrets">,
  entry: Entry,
  call: ToolCall
): boolean =>
  secrets === noSecrets &&
  "tool" in entry &&
  entry.tool.options.secrets !== undefined &&
  (hasReference(call.arguments ?? {}) || hasReference(call.value ?? {}))

/** The error of a call that may run and whose sandbox could not be opened at the last attempt. */
const notOpened = (
  { "~sandboxes": sandboxes }: Equipment,
  root: RunState,
  { call, entry, state }: Extract<Found, { readonly _tag: "call" }>
): ToolUnavailable | undefined => {
  if (!("tool" in entry) || entry.tool.options.sandbox !== true || call.status !== "ready") return undefined
  const failure = sandboxes.failureOf(root)
  return failure === undefined ? undefined : sandboxProblem(root, state, call, failure)
}

/** Whether a tool acts in a sandbox, and the program has no provider for that of a root run. */
export const lacksSandbox = (
  { "~sandboxes": sandboxes }: Pick<Equipment, "~sandboxes">,
  root: RunState,
  entry: Entry
): boolean => "tool" in entry && entry.tool.options.sandbox === true && !sandboxes.accepts(root.sandbox)

/** Whether a tool does not accept the context of a root run. */
export const refusesContext = (root: RunState, entry: Entry): boolean =>
  "tool" in entry && Result.isFailure(decodeContext(entry.tool.options.context, contextOf(root)))

/** The missing definitions of a drive, as `next` queries them. More may be added while the run is driven. */
export class Missing implements Unavailable {
  /** The bound agent in which the definitions were looked up. */
  readonly root: BoundAgent
  private readonly obstacles = new Map<string, Obstacle>()

  constructor(root: BoundAgent, obstacles: Iterable<Obstacle> = []) {
    this.root = root
    for (const obstacle of obstacles) this.add(obstacle)
  }

  add(obstacle: Obstacle): void {
    this.obstacles.set(obstacle.id, obstacle)
  }

  /** The errors of a run, of the runs above it that are missing as a whole, and of everything under it. */
  problemsOf(runId: RunId): ReadonlyArray<Obstacle["problem"]> {
    return [...this.obstacles.values()].flatMap(({ id, isWhole, problem }) =>
      isWithin(id, runId) || (isWhole === true && isWithin(runId, id as RunId)) ? [problem] : []
    )
  }

  get size(): number {
    return this.obstacles.size
  }

  readonly run = (runId: RunId): boolean => {
    const own = this.obstacles.get(runId)
    if (own !== undefined) return true
    for (const { id, isWhole } of this.obstacles.values()) {
      if (isWhole === true && isWithin(runId, id as RunId)) return true
    }
    return false
  }

  readonly call = (call: ToolCall): boolean => {
    const own = this.obstacles.get(call.id)
    return own !== undefined && own.arguments === call.arguments
  }
}
