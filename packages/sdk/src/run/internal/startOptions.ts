/**
 * The start options of a new run: those of its caller, those inherited from the run that it continues, and the profile's policy.
 */
import * as Effect from "effect/Effect"
import { isAgent, answersTo, memberOf } from "../../agent/BoundAgent.ts"
import type { BoundAgent } from "../../agent/Entry.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { ApprovalPolicy } from "../../domain/ApprovalPolicy.ts"
import type { RunId, SessionId } from "../../domain/Id.ts"
import type { LimitChanges } from "../../domain/Limits.ts"
import { waitName } from "../../domain/next.ts"
import type { RunContext } from "../../domain/RunContext.ts"
import { AgentNotFound } from "../../domain/RunError.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { Conducted, RunState } from "../../domain/RunState.ts"
import type { StartOptions } from "../../domain/StartOptions.ts"

/**
 * The limits, the policy and the context that a caller may give to a new run. Limits replace, field by field, the agent's and those of the
 * run that the new one continues. The policy replaces the inherited one, the prompted agent's and the profile's; other agents keep their
 * own, too. The context replaces the inherited one as a whole.
 */
export interface CallerOptions {
  readonly limits?: LimitChanges
  readonly policy?: ApprovalPolicy
  readonly context?: RunContext
}

/** Limits that override the caller's, field by field, and that no other run inherits: the share that a conductor sets aside. */
export interface Allotted {
  readonly "~allotted"?: LimitChanges
}

/** A change of the approval mode that a new run records right after its start, and that no other run inherits by itself. */
export interface PolicyAtStart {
  readonly "~policy"?: Omit<Extract<RunEvent, { readonly _tag: "policy.changed" }>, "_tag" | "at">
}

/** The conductor that dispatches a new run. */
export interface Dispatched {
  readonly "~conductor"?: Conducted & {
    /** Whether the run waits for a slot: it is stored, and held before its first step. */
    readonly isQueued?: boolean
  }
}

/** The treatment of a queued run by a call that continues it. */
export interface Dequeued {
  /**
   * `start`: the conductor has a slot for it; if the run has ended meanwhile, it is not resumed. `keep`: it takes its mail and stays queued.
   * Absent: the run is started, without a slot.
   */
  readonly "~queued"?: "start" | "keep"
}

/** The ids of a new run. Callers give them as plain strings, which `checkIds` checks. */
interface NewIds {
  readonly runId?: RunId
  readonly sessionId?: SessionId
}

/** The input, with the session that the runtime is bound to unless it names one. */
export const inSession = <Input extends { readonly runId?: string; readonly sessionId?: string }>(
  { sessionId }: Runtime,
  input: Input
): Input & NewIds =>
  (sessionId === undefined || input.sessionId !== undefined ? input : { ...input, sessionId }) as Input &
    NewIds

/** The start options of a run that continues no other run. */
export const startOptions = (runtime: Runtime, { context, limits, policy }: CallerOptions): StartOptions => ({
  ...(policy === undefined ? {} : { policy, ...policyOwner(runtime) }),
  ...(limits === undefined ? {} : { limits }),
  ...(context === undefined ? {} : { context }),
  ...profileOptions(runtime)
})

/**
 * The start options of a run that continues another one. The caller's policy is inherited unless a new one is given, and each limit unless
 * a new one is given for its field, and the context unless a new one is given. The profile's policy is that of the runtime now.
 */
export const inheritedOptions = (
  runtime: Runtime,
  { context: given, limits, policy }: CallerOptions,
  { startedWith = {} }: Pick<RunState, "startedWith">
): StartOptions => {
  const caller =
    policy !== undefined
      ? { policy, ...policyOwner(runtime) }
      : startedWith.policy === undefined
        ? {}
        : {
            policy: startedWith.policy,
            policyFor: startedWith.policyFor ?? "",
            ...(startedWith.policyPeers === undefined ? {} : { policyPeers: startedWith.policyPeers })
          }
  const changes =
    limits === undefined
      ? startedWith.limits
      : startedWith.limits === undefined
        ? limits
        : { ...startedWith.limits, ...limits }
  const context = given ?? startedWith.context
  return {
    ...caller,
    ...(changes === undefined ? {} : { limits: changes }),
    ...(context === undefined ? {} : { context }),
    ...profileOptions(runtime)
  }
}

/** The agent that a caller's policy is for: the runtime's agent, even if another agent has taken over the conversation. */
const policyOwner = ({ bound }: Runtime) => {
  const { agent, identity } = bound
  return { policyFor: agent.name, ...(identity.peers === undefined ? {} : { policyPeers: identity.peers }) }
}

/** Whether a caller's policy was given for this agent. */
export const isPrompted = (
  { policyFor, policyPeers }: StartOptions,
  { agent }: Pick<BoundAgent, "agent">
): boolean => policyFor !== undefined && isAgent(agent, policyFor, policyPeers)

/** The policy of the capability profile in force. */
export const profileOptions = ({ profileName, profiles }: Runtime): StartOptions => {
  const profilePolicy = profiles.get(profileName)?.policy
  return profilePolicy === undefined ? {} : { profilePolicy }
}

/**
 * Marks the start of a run whose `maxTurns` is the default, if it can have sub-agents in the background: one of the agents that may have its
 * conversation can start them.
 */
export const turnsOf = (
  { agent, team }: BoundAgent,
  { limits }: StartOptions
): { readonly defaultTurns?: true } =>
  limits?.maxTurns === undefined &&
  agent.options.limits?.maxTurns === undefined &&
  [...team.values()].some(({ entries }) => entries.get(waitName)?.target === "agents")
    ? { defaultTurns: true }
    : {}

/** What {@link answering} selects the agent by. */
interface Choice {
  /** The session's latest run, whose agent has the conversation. */
  readonly previous?: RunState | undefined
  /** The name of the runtime's agent that the session's runs were started with, if it is known. */
  readonly under?: string
  /** The name of the agent that the caller asks for. */
  readonly answeredBy?: string | undefined
}

/**
 * Selects the agent that starts a new run: the agent asked for, else the agent that has the conversation, else the runtime's agent. In a
 * session of another runtime's agent, the runtime's agent takes over the conversation.
 *
 * **Errors**
 *
 * - `AgentNotFound` — the runtime's agent does not hand over to the agent asked for, or to the agent that has the conversation.
 */
export const answering = (
  { bound }: Runtime,
  { answeredBy, previous, under }: Choice
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
