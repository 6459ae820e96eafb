/**
 * The first events of a run that is started or continued: checked before anything happens, folded, and not yet committed.
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { memberOf } from "../../agent/BoundAgent.ts"
import type { BoundAgent } from "../../agent/Entry.ts"
import { Missing, missingIn } from "../../agent/internal/definitions.ts"
import { requireCallersRules } from "../../agent/internal/ruleTools.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import { decide, decideAt } from "../../domain/decide.ts"
import type { Decision, DecisionInput } from "../../domain/Decision.ts"
import { evolve } from "../../domain/evolve.ts"
import type { RunId, SessionId } from "../../domain/Id.ts"
import { checkLimits, checkPolicy } from "../../domain/internal/given.ts"
import { checkContext } from "../../domain/internal/givenContext.ts"
import { recordOf } from "../../domain/internal/released.ts"
import { repeatsPrompt } from "../../domain/internal/repeatedPrompt.ts"
import type { Limits } from "../../domain/Limits.ts"
import { budgetOf } from "../../domain/Limits.ts"
import type { UserPart } from "../../domain/Message.ts"
import { next, noConstraints } from "../../domain/next.ts"
import { OptionsInvalid } from "../../domain/OptionsInvalid.ts"
import type { Rejection } from "../../domain/Rejection.ts"
import type { RunContext } from "../../domain/RunContext.ts"
import type { AgentNotFound, LimitsInvalid, PolicyInvalid, ToolUnavailable } from "../../domain/RunError.ts"
import { type ContextInvalid, IdInvalid, maxChosenId, PolicyFixed, RunEnded } from "../../domain/RunError.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"
import { isEnded, isOpen, isQueued } from "../../domain/RunState.ts"
import { policiesFor } from "../../domain/StartOptions.ts"
import { checkBound } from "../checkResume.ts"
import { checkByTool, checkUnchanged, decodeDecision } from "./decisions.ts"
import { eventsOf, withDecisions } from "./mailEvents.ts"
import { redactEvent } from "./redact.ts"
import { requireContext } from "./runContext.ts"
import type { Allotted, Dequeued, Dispatched, CallerOptions, PolicyAtStart } from "./startOptions.ts"
import { answering, inheritedOptions, isPrompted, startOptions, turnsOf } from "./startOptions.ts"

/** A state, and the events in it that are not stored. */
export interface Staged {
  readonly state: RunState
  readonly events: ReadonlyArray<RunEvent>
  /** The definitions that the run needs and the program does not have. */
  readonly missing?: Missing | undefined
}

const chosenId = new RegExp(`^[A-Za-z0-9_.:-]{1,${maxChosenId}}$`)

/** Ids that Fermata derives from a run's id: of calls and of the runs of sub-agents, and of requests. */
const derivedId = /\.t\d+\.\d+(\.|$)|\.r\d+$/

/** Whether an id has the form of one that Fermata derives for a call, a sub-agent's run or a request. */
export const isDerivedId = (id: string): boolean => derivedId.test(id)

/** Checks the ids that a caller chose. */
export const checkIds = (input: {
  readonly runId?: string
  readonly sessionId?: string
}): Effect.Effect<void, IdInvalid> => {
  for (const what of ["runId", "sessionId"] as const) {
    const id = input[what]
    // Untyped programs may pass any value.
    const isText = typeof id === "string"
    if (id !== undefined && (!isText || !chosenId.test(id) || isDerivedId(id)))
      return Effect.fail(new IdInvalid({ what }))
  }
  return Effect.void
}

/** The input with checked copies of its limits, its policy and its context. */
export const checkCallerOptions = <Input extends CallerOptions>(
  input: Input,
  /** Absent if another function checks the policy by the tools of the agents. */
  runtime?: Runtime
): Effect.Effect<Input, ContextInvalid | LimitsInvalid | PolicyInvalid> => {
  const limits = input.limits === undefined ? undefined : checkLimits(input.limits)
  if (limits !== undefined && Result.isFailure(limits)) return Effect.fail(limits.failure)
  const policy = input.policy === undefined ? undefined : checkPolicy(input.policy)
  if (policy !== undefined && Result.isFailure(policy)) return Effect.fail(policy.failure)
  const context = input.context === undefined ? undefined : checkContext(input.context)
  if (context !== undefined && Result.isFailure(context)) return Effect.fail(context.failure)
  const checked = {
    ...input,
    ...(context === undefined ? {} : { context: context.success }),
    ...(limits === undefined ? {} : { limits: limits.success }),
    ...(policy === undefined ? {} : { policy: policy.success })
  }
  return policy === undefined || runtime === undefined
    ? Effect.succeed(checked)
    : Effect.as(requireCallersRules(policy.success, runtime), checked)
}

/** The first event of a new run, in a new session or after `previous`, and the hold of a queued one. */
export const startRun = Effect.fnUntraced(function* (
  runtime: Runtime,
  clock: Clock.Clock,
  input: CallerOptions &
    Allotted &
    PolicyAtStart &
    Dispatched & {
      readonly prompt: ReadonlyArray<UserPart>
      readonly previous?: RunState
      /** The run that this one continues. Its caller's options are inherited. */
      readonly continues?: RunState
      readonly runId?: RunId
      readonly sessionId?: SessionId
      readonly asks: boolean
      /** Decisions on `previous` that are in the store and not in its journal. */
      readonly decided?: ReadonlyArray<Decision>
      /** Whether the run's calls may have run before, in a store that was lost. */
      readonly mayRepeat?: boolean
      /** The agent that answers; see {@link answering}. */
      readonly agent: BoundAgent
    }
): Effect.fn.Return<Staged, ContextInvalid> {
  const at = clock.currentTimeMillisUnsafe()
  const { ids, options } = runtime
  const { agent: bound, previous } = input
  const under = runtime.bound.agent.name
  const startedWith =
    input.continues === undefined
      ? startOptions(runtime, input)
      : inheritedOptions(runtime, input, input.continues)
  yield* requireContext(runtime, startedWith)
  const { limits } = startedWith
  const allotted = input["~allotted"]
  const by = input["~conductor"]
  const notRun = previous === undefined ? [] : notRunIn(previous, input.decided ?? [])
  const event = redactEvent(runtime.scrubber, {
    _tag: "run.started",
    at,
    runId: input.runId ?? ids.runId(at),
    sessionId: previous?.sessionId ?? input.sessionId ?? ids.sessionId(at),
    agent: bound.identity,
    agentPath: bound.path,
    ...(under === bound.agent.name ? {} : { under }),
    prompt: input.prompt,
    limits:
      limits === undefined && allotted === undefined
        ? bound.limits
        : { ...bound.limits, ...limits, ...allotted },
    ...turnsOf(bound, startedWith),
    ...policiesFor(startedWith, { policy: bound.agent.policy, isPrompted: isPrompted(startedWith, bound) }),
    startedWith,
    ...(input.mayRepeat === true ? { mayRepeat: {} } : {}),
    ...(by === undefined
      ? {}
      : { conductor: { name: by.name, ...(by.as === undefined ? {} : { as: by.as }) } }),
    asks: input.asks && options.interactive !== false,
    structured: bound.output !== undefined,
    ...(previous === undefined ? {} : { parent: { runId: previous.runId, revision: previous.revision } }),
    ...(notRun.length === 0 ? {} : { notRun })
  }) as Extract<RunEvent, { readonly _tag: "run.started" }>
  // Compared after secrets are removed from both.
  const started =
    previous !== undefined && repeatsPrompt(previous, event.prompt) ? { ...event, repeats: true } : event
  const events: Array<RunEvent> = [started]
  const policy = input["~policy"]
  if (policy !== undefined)
    events.push(redactEvent(runtime.scrubber, { _tag: "policy.changed", at, ...policy }))
  if (by?.isQueued === true) events.push({ _tag: "run.held", at, awaitsSlot: true })
  return { state: events.slice(1).reduce<RunState>(evolve, evolve(previous, started)), events }
})

/** The open calls of a failed run that a decision released, whether the decision is in `state` or among `decisions`. */
const notRunIn = (
  state: RunState,
  decisions: ReadonlyArray<Decision>
): NonNullable<Extract<RunEvent, { readonly _tag: "run.started" }>["notRun"]> => {
  if (state.calls.length === 0 || state.status !== "error") return []
  // Decisions apply to the requests of a failed run as if it were resumed.
  const after = withDecisions(evolve(state, { _tag: "run.resumed", at: state.startedAt }), decisions)
  return after.calls.flatMap((call) => {
    const decision = call.status === "ready" ? recordOf(after, call)?.decision : undefined
    return decision?._tag === "approve" || decision?._tag === "retry"
      ? [{ callId: call.id, decision: decision._tag, by: decision.by }]
      : []
  })
}

/** Why a state was not continued. */
export type ContinueError =
  | Rejection
  | ContextInvalid
  | OptionsInvalid
  | RunEnded
  | PolicyFixed
  | AgentNotFound
  | ToolUnavailable

/** The events that resume a held, failed or orphaned run, or the first event of the session's next run if an ended run has a prompt. */
export const continueRun = Effect.fnUntraced(function* (
  runtime: Runtime,
  clock: Clock.Clock,
  input: CallerOptions &
    Allotted &
    PolicyAtStart &
    Dequeued & {
      readonly state: RunState
      readonly decisions?: ReadonlyArray<DecisionInput>
      readonly prompt: ReadonlyArray<UserPart> | undefined
      readonly answeredBy?: string | undefined
      readonly asks: boolean
      /** Decisions that are in the store and not in the journal. */
      readonly decided?: ReadonlyArray<Decision>
      /** Whether there is mail. The run may act on it even if definitions are missing. */
      readonly hasMail?: boolean
    }
): Effect.fn.Return<Staged, ContinueError> {
  const { context, prompt, limits, policy } = input
  const allotted = input["~allotted"]
  const ended = isEnded(input.state)
  if (policy !== undefined && !(ended && prompt !== undefined)) {
    const { runId, status } = input.state
    return yield* new PolicyFixed({ runId, status })
  }
  yield* checkNextOnly(input.state, input)
  if (ended && prompt !== undefined) {
    const { answeredBy, state } = input
    const agent = yield* answering(runtime, { previous: state, answeredBy })
    const { blocking } = yield* checkBound(state, runtime.bound)
    const gone = blocking.find((problem) => problem._tag === "AgentNotFound")
    if (gone !== undefined && answeredBy === undefined) return yield* gone
    for (const given of input.decisions ?? []) {
      yield* Effect.fromResult(decide(input.state, yield* decodeDecision(given, clock)))
    }
    return yield* startRun(runtime, clock, {
      prompt,
      previous: state,
      continues: state,
      agent,
      decided: input.decided ?? [],
      asks: input.asks,
      ...(limits === undefined ? {} : { limits }),
      ...(policy === undefined ? {} : { policy }),
      ...(context === undefined ? {} : { context }),
      ...(allotted === undefined ? {} : { "~allotted": allotted }),
      ...(input["~policy"] === undefined ? {} : { "~policy": input["~policy"] })
    })
  }

  let { state } = input
  const events: Array<RunEvent> = []
  const fold = (given: RunEvent) => {
    const event = redactEvent(runtime.scrubber, given)
    state = evolve(state, event)
    events.push(event)
  }
  const at = clock.currentTimeMillisUnsafe()
  // The requests of a failed run open again.
  if (ended && state.status === "error") fold({ _tag: "run.resumed", at })
  const decisions = [...(input.decided ?? [])]
  for (const decision of decisions) {
    for (const event of eventsOf(state, decision)) {
      state = evolve(state, event)
      events.push(event)
    }
  }
  for (const given of input.decisions ?? []) {
    const decision = yield* checkByTool(runtime, state, yield* decodeDecision(given, clock))
    decisions.push(decision)
    yield* checkUnchanged(state, decision)
    const now = clock.currentTimeMillisUnsafe()
    for (const event of yield* Effect.fromResult(decideAt(state, decision, now))) fold(event)
  }
  if (isEnded(state)) {
    return yield* new RunEnded({ runId: state.runId, status: state.status })
  }
  // Checked after the decisions, which may remove an obstacle: a call whose tool is missing can still be denied.
  const obstacles = missingIn(runtime, state)
  const [obstacle] = obstacles
  const missing = obstacle === undefined ? undefined : new Missing(runtime.bound, obstacles)

  if (prompt !== undefined) fold({ _tag: "message.queued", at, content: prompt })
  if (limits !== undefined || allotted !== undefined) {
    const changed: Limits = { ...state.limits, ...limits, ...allotted }
    for (const { request } of state.requests.filter(isOpen)) {
      if (request._tag !== "limit" || budgetOf(changed, request.budget) === request.limit) continue
      const { requestId } = request
      fold({ _tag: "request.superseded", at, requestId, reason: "the limits were changed" })
    }
    const given = limits === undefined ? {} : { given: limits }
    fold({ _tag: "limits.changed", at, limits: changed, ...given })
  }
  const staysQueued = isQueued(state) && input["~queued"] === "keep"
  if (!ended && !staysQueued) fold({ _tag: state.status === "running" ? "run.recovered" : "run.resumed", at })
  if (missing === undefined || obstacle === undefined) return { state, events }
  // The prompt needs the agent that has the conversation.
  if (prompt !== undefined && missing.run(state.runId)) return yield* obstacle.problem
  const isActedOn = input.hasMail === true || decisions.some(settlesCall)
  if (!isActedOn && (isStuck(state, missing) || !isOfTeam(state, runtime.bound)))
    return yield* obstacle.problem
  return { state, events, missing }
})

/** Refuses what only a next run takes, for a run in which another agent has the conversation, or which has its context already. */
export const checkNextOnly = (
  state: RunState,
  {
    answeredBy,
    context,
    prompt
  }: {
    readonly answeredBy?: string | undefined
    readonly context?: RunContext | undefined
    readonly prompt: unknown
  }
): Effect.Effect<void, OptionsInvalid> => {
  const { agent, runId, status } = state
  if (isEnded(state) && prompt !== undefined) return Effect.void
  const refuse = (key: string, problem: string) =>
    Effect.fail(
      new OptionsInvalid({ of: "resume", misfits: [{ place: "the options of resume", key, problem }] })
    )
  const when = `the next run, which begins with a prompt after the run ${runId} has ended`
  if (context !== undefined) {
    return refuse("context", `"context" is that of ${when}; this run (${status}) keeps its own`)
  }
  return answeredBy === undefined || answeredBy === agent.name
    ? Effect.void
    : refuse(
        "answeredBy",
        `"answeredBy" chooses the agent of ${when}; in this run (${status}), ${agent.name} answers`
      )
}

/** Whether the run was started with the bound agent or an agent of its handoffs. */
const isOfTeam = (state: RunState, bound: BoundAgent): boolean =>
  memberOf(bound, state.under ?? state.agent.name) !== undefined

/** Whether the run can advance only with definitions that are missing. */
const isStuck = (state: RunState, unavailable: Missing): boolean =>
  next(state, { ...noConstraints, unavailable })._tag === "Hold" && next(state)._tag !== "Hold"

/** Whether a decision settles its call without the tool's definition. */
const settlesCall = ({ _tag }: Decision): boolean =>
  _tag === "deny" || _tag === "supply" || _tag === "fail" || _tag === "answer"
