/**
 * Which definition each run of a tree goes on with.
 *
 * A sub-agent belongs to the agent that started it, whoever has the conversation now. The names in its path say which agent that was, and
 * under which name it was started: it is looked up there and nowhere else. A run whose definition is not found is missing; no other
 * agent stands in for it.
 */
import { isWithin, type RunId, type ToolCallId } from "../../domain/Id.ts"
import type { Unavailable } from "../../domain/next.ts"
import { AgentNotFound, ToolUnavailable } from "../../domain/RunError.ts"
import {
  findCall,
  findChild,
  isEnded,
  isSettled,
  type RunState,
  type ToolCall
} from "../../domain/RunState.ts"
import { calledAgent, holderOf, isOtherAgent, memberOf, subAgentOf } from "../BoundAgent.ts"
import type { BoundAgent, Entry, SubAgent } from "../Entry.ts"

/** The agent that started a sub-agent's run. `first` is the one that the run above was started with. */
export const starterOf = (first: BoundAgent, child: RunState): BoundAgent | undefined =>
  holderOf(first, { name: starterName(child), peers: child.agent.starterPeers })

/** What a sub-agent's run was started with, among those of its starter. */
const startedAs = (starter: BoundAgent, name: string, { agent }: RunState): SubAgent | undefined => {
  const found = subAgentOf(starter, name)
  return found === undefined || isOtherAgent(found.bound.agent, name, agent.peers) ? undefined : found
}

/** The path of a sub-agent's run ends with the name of its starter and its own: the first one stays, whoever takes over. */
const starterName = ({ agentPath }: RunState): string => agentPath.at(-2) ?? ""

/** The sub-agent of a call: the one that its run was started with, or the one that it starts. */
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
  // A state of an earlier version does not say under which name an attached run was started; the call does, up to a renaming.
  const called = call === undefined ? undefined : calledAgent(starter, call)
  return called === undefined || holderOf(called.bound, child.agent) === undefined ? undefined : called
}

/** The agent that has the conversation of the run that these calls lead to. */
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

/** The same for a run that may have ended: `line` are the states of the sub-agents that lead to it, its own last. */
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

/** Why a run that was handed over cannot go on in this program. */
const missingHolder = (first: BoundAgent, { agent, agentPath, runId }: RunState): AgentNotFound =>
  new AgentNotFound({
    agent: agent.name,
    known: [...first.team.keys()],
    ...(agentPath.length > 1 ? { runId } : {}),
    ...takenBy(memberOf(first, agent.name))
  })

/** The agent that answers to a name, and had another one. */
const takenBy = (found: BoundAgent | undefined) =>
  found === undefined ? {} : { answeredBy: found.agent.name }

/** Why a call cannot start its sub-agent in this program. */
export const missingCalled = (holder: BoundAgent, { arguments: args, name }: ToolCall): AgentNotFound => {
  const named = typeof args === "object" && args !== null && "agent" in args ? args.agent : undefined
  return new AgentNotFound({
    agent: name === "delegate" && typeof named === "string" ? named : name,
    known: subAgentNames(holder)
  })
}

/** Something that this program has no definition of: a run of the tree, or what a call needs. */
export interface Obstacle {
  /** The id of the run, or of the call. */
  readonly id: string
  /** Of a run: whether what it was started with is missing, and with it everything under the run. */
  readonly isWhole?: true
  /** Of a call: the arguments that it had. With others it is looked at again. */
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

/** What keeps the sub-agent of a call from going on in this program, if it does. */
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

/** What keeps a run from going on whose definition was there when it was taken up. */
export const obstacleOf = (first: BoundAgent | undefined, state: RunState): Obstacle =>
  first === undefined ? wholeRun(undefined, state) : { id: state.runId, problem: missingHolder(first, state) }

/** What is found in a tree of runs, in its order. */
export type Found =
  | { readonly _tag: "run"; readonly state: RunState; readonly holder: BoundAgent }
  /** A call that has not come to its end, and the tool that it needs. */
  | { readonly _tag: "call"; readonly state: RunState; readonly call: ToolCall; readonly entry: Entry }
  | { readonly _tag: "missing"; readonly obstacle: Obstacle }

/** Goes through a run and the sub-agents in it, each with its definition. */
export function* walk(first: BoundAgent, state: RunState): Generator<Found> {
  const holder = holderOf(first, state.agent)
  // The end of a run that a decision has stopped needs no definition.
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
    // A call that has not been classified yet may name anything; an unknown name is told to the model.
    if (isSettled(call) || call.status === "requested" || call.target === "question") continue
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
  // By the definition's own name where the call used an alias of it.
  const entry = holder.entries.get(call.tool ?? call.name)
  if (
    entry === undefined ||
    (!("tool" in entry) && entry.target !== "agents" && entry.target !== "handoff")
  ) {
    yield missing(new ToolUnavailable({ runId: state.runId, tool: call.name, reason: "missing" }))
  } else yield { _tag: "call", state, call, entry }
}

/** What of a run, and of the sub-agents in it, this program has no definition of. */
export const missingIn = (first: BoundAgent, state: RunState): ReadonlyArray<Obstacle> =>
  [...walk(first, state)].flatMap((found) => (found._tag === "missing" ? [found.obstacle] : []))

/** What is missing, as {@link next} asks about it. Grows while a run is driven. */
export class Missing implements Unavailable {
  /** The agent that it was looked for in. */
  readonly root: BoundAgent
  private readonly obstacles = new Map<string, Obstacle>()

  constructor(root: BoundAgent, obstacles: Iterable<Obstacle> = []) {
    this.root = root
    for (const obstacle of obstacles) this.add(obstacle)
  }

  add(obstacle: Obstacle): void {
    this.obstacles.set(obstacle.id, obstacle)
  }

  /** What keeps a run, or something under it, from going on. */
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
