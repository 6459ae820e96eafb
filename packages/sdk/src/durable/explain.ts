/**
 * Describes in words what a run does or waits for, and what resuming it would do.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { answersTo } from "../agent/BoundAgent.ts"
import type { BoundAgent, Entry } from "../agent/Entry.ts"
import { Missing, type Obstacle, walk } from "../agent/internal/definitions.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import type { Runtime } from "../agent/Runtime.ts"
import { type ContextUsage, describe as describeUsage } from "../context/ContextUsage.ts"
import type { Decision } from "../domain/Decision.ts"
import { instant, sentence } from "../domain/Display.ts"
import { isWithin, type RequestId, type RunId, type Timestamp } from "../domain/Id.ts"
import { list, shapeOf } from "../domain/internal/misfits.ts"
import { lineTo } from "../domain/internal/subAgents.ts"
import { untrustedIn } from "../domain/internal/untrusted.ts"
import type { Interruption, Kind } from "../domain/Interruption.ts"
import { constraintsOf, next, noConstraints, type Unavailable } from "../domain/next.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { Plan } from "../domain/Plan.ts"
import { type AgentNotFound, fromFailure, type ToolUnavailable } from "../domain/RunError.ts"
import {
  answerable,
  isEnded,
  isQueued,
  type RunState,
  type Status,
  type ToolCall
} from "../domain/RunState.ts"
import type { UntrustedResult } from "../domain/Untrusted.ts"
import { withDecisions } from "../run/internal/mailEvents.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunNotFound, RunStoreError } from "../store/RunStoreError.ts"
import type { RunHead, StoredRun } from "../store/RunStorePort.ts"
import { usageOf } from "./compactRun.ts"
import { resumingOf } from "./internal/explainSteps.ts"
import { stoppedSteps, stopDecisionIn, stopText, supersededText } from "./internal/explainStop.ts"
import { loadRun } from "./internal/loadRun.ts"
import { findSubRun, statusOfSubRun, type SubRun } from "./internal/subRun.ts"

/** A request that a run waits for. */
export interface Wait {
  readonly requestId: RequestId
  readonly kind: Kind
  /** What the run waits for, in words, without the arguments of a call. */
  readonly what: string
  /** Names of the agents, from the one that asks to the root. */
  readonly askedBy: ReadonlyArray<string>
  readonly since: Timestamp
  readonly expiresAt?: Timestamp
  /**
   * What happens at `expiresAt`; absent for a request that does not expire. `deny`: the request is denied, the call in doubt or elsewhere
   * counts as failed, or the timer is over. `stay`: the request stays open.
   */
  readonly onExpiry?: "deny" | "stay"
}

/** The description of a run. */
export interface Explanation {
  readonly runId: RunId
  readonly status: Status
  /** The owner of the lease in force, and the earliest time at which the lease can end. Absent if no process owns the run. */
  readonly workedOnBy?: { readonly owner: string; readonly until: Timestamp }
  /** Open requests of the run and its sub-agents that have no decision yet, oldest first; none if the run was stopped. */
  readonly waitsFor: ReadonlyArray<Wait>
  /** Decisions that the journal does not contain yet. */
  readonly decided: ReadonlyArray<Decision>
  /**
   * The agents and tools that the run needs and that the program does not define, tools whose schema refuses the context of the run, tools
   * whose call needs a secret while the program has no source of secrets, and tools whose sandbox the program cannot use. The parts of the
   * run that need them wait; the others continue. Absent if there are none, if the run is completed, cancelled or stopped, or if `runtimes`
   * does not have the run's agent.
   */
  readonly missing?: ReadonlyArray<AgentNotFound | ToolUnavailable>
  /** The plan that the run's model keeps. Absent if it keeps none. */
  readonly plan?: Plan
  /** The untrusted results that the run has read: calls with outside effects need a decision because of them. Absent if there are none. */
  readonly untrusted?: ReadonlyArray<UntrustedResult>
  /**
   * The use of the context that the run's next model call would have. Absent if `runtimes` does not have the run's agent, if its context
   * policy does not measure it, and for a sub-agent's run.
   */
  readonly context?: ContextUsage
  /** What resuming the run now would do, in words and in order, up to the next model call, hold or end. */
  readonly resuming: ReadonlyArray<string>
  /** The whole description in a few sentences, with the number of messages that wait to be read. */
  readonly text: string
}

/** Options of `explain`. */
export interface ExplainOptions {
  /** The program's runtimes, so that `missing` can list the definitions that the run needs and the program lacks. Default: none. */
  readonly runtimes?: ReadonlyArray<Runtime>
}

const explainShape = shapeOf<ExplainOptions>({ runtimes: list })

/**
 * Describes a stored run, or a sub-agent's run by its own id: its status, what it waits for, and what resuming it would do, as data and as
 * text. Drives nothing.
 *
 * **Errors**
 *
 * - `OptionsInvalid` — an option's key or value is wrong; for a misspelt key, the error names the nearest one.
 * - `RunNotFound` — check the id.
 * - `RunStoreError` — the store failed, or the journal is damaged; see its `reason`.
 *
 * @category running
 * @since 0.1.0
 */
export const explain: (
  runId: string,
  options?: ExplainOptions
) => Effect.Effect<Explanation, OptionsInvalid | RunNotFound | RunStoreError, RunStore> = Effect.fn(
  "fermata.explain"
)(function* (id: string, options: ExplainOptions = {}) {
  const runId = id as RunId
  const { runtimes = [] } = yield* requireOptions("explain", options, explainShape)
  const store = yield* RunStore
  const now = yield* Clock.currentTimeMillis
  const boundOf = (name: string) => runtimes.find(({ bound }) => answersTo(bound.agent, name))?.bound
  const found = yield* findSubRun(store, runId)
  if (found !== undefined) {
    const bound = boundOf(found.stored.head.agent)
    return withMail(explainSubRun(found, now, bound), found.stored.messages, runId)
  }
  const { decisions, head, messages, state } = yield* loadRun(store, runId)
  const definitions = definitionsOf(boundOf(head.agent), state, decisions)
  const explained = explainState(state, decisions, now, { lease: head.lease, ...definitions })
  return withMail(yield* withContext(explained, state, runtimes), messages, runId)
})

/** Adds the use of the context, if one of the runtimes can measure it. */
const withContext = (
  explained: Explanation,
  state: RunState,
  runtimes: ReadonlyArray<Runtime>
): Effect.Effect<Explanation> => {
  const runtime = runtimes.find(({ bound }) => answersTo(bound.agent, state.agent.name))
  if (runtime === undefined) return Effect.succeed(explained)
  return Effect.match(usageOf(runtime, state), {
    onSuccess: (context) => ({ ...explained, context, text: `${explained.text} ${describeUsage(context)}` }),
    onFailure: () => explained
  })
}

/** The definitions that the run lacks when its recorded decisions are acted on, and the calls whose tools have changed or are missing. */
const definitionsOf = (
  bound: BoundAgent | undefined,
  state: RunState,
  decisions: ReadonlyArray<Decision>
): Pick<ExplainStateOptions, "missing" | "changed"> => {
  if (bound === undefined || (isEnded(state) && state.status !== "error")) return {}
  const obstacles: Array<Obstacle> = []
  const changed = new Set<string>()
  for (const found of walk(bound, withDecisions(state, decisions))) {
    if (found._tag === "missing") obstacles.push(found.obstacle)
    if (found._tag === "call" && hasChanged(found.call, found.entry)) changed.add(found.call.id)
  }
  for (const { id } of obstacles) changed.add(id)
  return { missing: obstacles.length === 0 ? undefined : new Missing(bound, obstacles), changed }
}

const hasChanged = ({ safety, schema }: ToolCall, entry: Entry): boolean =>
  "definition" in entry &&
  ((schema !== undefined && schema !== entry.definition.schema) || safety !== entry.definition.safety)

/** Adds to the text the messages to the run, and to agents under it, that the journal does not contain. */
const withMail = (explained: Explanation, all: StoredRun["messages"], runId: RunId): Explanation => {
  const sent = all.filter(({ to = runId }) => isWithin(to, runId))
  const { length } = sent.filter(({ ends }) => ends !== true)
  const isOpen = explained.status === "running" || explained.status === "held"
  const some = length === 1 ? "A message" : sentence`${length} messages`
  const waits = length === 1 ? "waits to be read" : "wait to be read"
  const parts = [
    explained.text,
    length === 0 ? "" : sentence`${some} ${isOpen ? waits : "never reached the run"}.`,
    ...sent.flatMap(({ ends, to = runId }) =>
      ends === true && isOpen ? [sentence`Cancellation of ${to} was requested.`] : []
    )
  ]
  return { ...explained, text: parts.filter((part) => part !== "").join(" ") }
}

/** Describes a sub-agent's run: what it waits for itself, and the run that it works for. */
const explainSubRun = (
  { path, root, state, stored }: SubRun,
  now: Timestamp,
  bound: BoundAgent | undefined
): Explanation => {
  const status = statusOfSubRun(root, state)
  const inIt = stored.decisions.filter(({ requestId }) => isWithin(requestId, state.runId))
  const explained = explainState({ ...state, status }, isEnded(state) ? [] : inIt, now, {
    lease: stored.head.lease,
    ...(isEnded(state) ? {} : definitionsOf(bound, root, stored.decisions)),
    line: isEnded(root) ? [] : lineTo(withDecisions(root, stored.decisions), path.slice(0, -1))
  })
  const resuming = isEnded(state) || isEnded(root) ? [] : explained.resuming
  const whom = sentence`It works for the run ${root.runId} of ${root.agent.name}`
  // For example by an exhausted budget of a run above it.
  const isHeldAbove = status === "held" && next(state)._tag !== "Hold"
  const parts = [
    isEnded(state) || isEnded(root)
      ? statusText({ ...state, status }, stored.head.lease, false, now)
      : explained.text,
    isEnded(root) && !isEnded(state)
      ? sentence`${whom}, which has ended (${root.status}).`
      : sentence`${whom}${isHeldAbove ? ", which is held; this run is held with it" : ""}.`
  ]
  return { ...explained, resuming, text: parts.join(" ") }
}

/** The definitions that the program lacks, and the runs that they stop. */
export interface MissingDefinitions extends Unavailable {
  /** The missing definitions that stop the run, or a run under it. */
  readonly problemsOf: (runId: RunId) => ReadonlyArray<AgentNotFound | ToolUnavailable>
}

/** Facts about a run that its state does not contain. */
export interface ExplainStateOptions {
  /** The lease in force. Absent: no process drives the run, unless `isDriven` is set. */
  readonly lease?: RunHead["lease"] | undefined
  /** Whether this program drives the run, which has no lease because it is not stored. */
  readonly isDriven?: boolean
  readonly missing?: MissingDefinitions | undefined
  /** The ids of calls whose tools are missing, or have changed since they were classified: they are checked again before they run. */
  readonly changed?: ReadonlySet<string> | undefined
  /** For a sub-agent's run: the runs above it, the root first. */
  readonly line?: ReadonlyArray<RunState>
}

/**
 * Describes a state, from a store or kept by the caller. `decisions` are those that the state does not contain yet. Without `lease` or
 * `isDriven`, a running run is described as one that no process drives.
 */
export const explainState = (
  state: RunState,
  decisions: ReadonlyArray<Decision>,
  now: Timestamp,
  { changed, isDriven = false, lease, line = [], missing }: ExplainStateOptions = {}
): Explanation => {
  const after = withDecisions(state, decisions)
  const stop = isEnded(after) ? undefined : stopDecisionIn([...line, after])
  const answered = new Set(decisions.map(({ requestId }) => requestId))
  // The requests of a failed run cannot be decided before it is resumed.
  const waitsFor = (stop === undefined && after.status !== "error" ? answerable(after) : [])
    .filter(({ requestId }) => !answered.has(requestId))
    .map(waitOf)
    .toSorted((a, b) => a.since - b.since)
  const unavailable = { ...noConstraints, unavailable: missing }
  const resuming =
    stop === undefined
      ? resumingOf(after, unavailable, changed)
      : stoppedSteps(after, constraintsOf(line, unavailable))
  const problems = (stop === undefined ? missing?.problemsOf(state.runId) : undefined) ?? []
  const untrusted = untrustedIn(after)
  const parts = [
    statusText(state, lease, isDriven, now),
    ...waitsFor.map((wait) => sentence`It waits ${waitText(wait, now)}.`),
    ...decisions.map(
      (decision) =>
        sentence`${decision.by} has decided (${decision._tag}), and the run has not acted on it yet.`
    ),
    ...problems.map(({ message }) => message),
    planText(after),
    isEnded(after) ? "" : untrustedSentence(untrusted),
    stop === undefined ? supersededText(state, after, decisions) : stopText(after, stop),
    lease === undefined && !isDriven && resuming.length > 0
      ? sentence`Resuming it would ${resuming.join(", then ")}.`
      : ""
  ]
  return {
    runId: state.runId,
    status: state.status,
    ...(lease === undefined ? {} : { workedOnBy: lease }),
    waitsFor,
    decided: decisions,
    ...(problems.length === 0 ? {} : { missing: problems }),
    ...(after.plan === undefined ? {} : { plan: after.plan }),
    ...(untrusted.length === 0 ? {} : { untrusted }),
    resuming,
    text: parts.filter((part) => part !== "").join(" ")
  }
}

/** The sentence about the progress of a run's plan. */
const planText = ({ plan }: RunState): string => {
  if (plan === undefined || plan.entries.length === 0) return ""
  const done = plan.entries.filter(({ status }) => status === "completed").length
  const current = plan.entries.find(({ status }) => status === "in_progress")
  const now = current === undefined ? "" : sentence`; in progress: "${current.content}"`
  return `${sentence`Of its plan, ${done} of ${plan.entries.length} entries are completed`}${now}.`
}

const untrustedSentence = (untrusted: ReadonlyArray<UntrustedResult>): string =>
  untrusted.length === 0
    ? ""
    : sentence`It has read untrusted results of ${untrusted.map(({ tool }) => tool).join(", ")}.`

const waitOf = (request: Interruption): Wait => ({
  requestId: request.requestId,
  kind: request._tag,
  what: whatOf(request),
  askedBy: request.agentPath.toReversed(),
  since: request.at,
  ...(request.expiresAt === undefined
    ? {}
    : { expiresAt: request.expiresAt, onExpiry: request.onExpiry ?? "deny" })
})

const whatOf = (request: Interruption): string => {
  switch (request._tag) {
    case "approval":
      return sentence`for approval of ${request.tool}${request.always === undefined ? "" : sentence` (always: ${request.always})`}`
    case "question":
      return sentence`for an answer to "${request.question}"`
    case "inDoubt":
      return request.reason === undefined
        ? sentence`for a decision on whether ${request.tool} has happened: it was started and its outcome is not known`
        : sentence`for a decision on whether ${request.tool} has happened: ${request.reason}`
    case "limit":
      return sentence`for a larger ${request.budget} budget: ${request.spent} of ${request.limit} are used${request.reason === undefined ? "" : sentence` (${request.reason})`}`
    case "login":
      return sentence`for a login to ${request.profile}`
    case "external": {
      const token = request.token === request.callId ? "" : sentence` (token ${request.token})`
      const why = request.reason === undefined ? "" : sentence`: ${request.reason}`
      return `${sentence`for the result of ${request.tool}, which ends elsewhere`}${token}${why}`
    }
    case "timer":
      return request.reason === undefined
        ? sentence`for a time, in ${request.tool}`
        : sentence`for a time, in ${request.tool}: ${request.reason}`
  }
}

const waitText = (wait: Wait, now: Timestamp): string => {
  if (wait.kind === "timer" && wait.expiresAt !== undefined) {
    return sentence`${wait.what}, since ${since(wait.since, now)}, for ${wait.askedBy.join(" for ")}; the wait ends ${when(wait.expiresAt, now)}`
  }
  const isExternal = wait.kind === "external"
  const end =
    wait.expiresAt === undefined
      ? "it does not expire"
      : wait.onExpiry === "stay"
        ? sentence`it ${wait.expiresAt <= now ? "was" : "is"} due ${when(wait.expiresAt, now)}, and stays open`
        : sentence`it expires ${when(wait.expiresAt, now)}, and ${isExternal ? "fails" : "is denied"} then`
  return sentence`${wait.what}, ${isExternal ? "started" : "asked"} ${since(wait.since, now)} by ${wait.askedBy.join(" for ")}; ${end}`
}

const statusText = (state: RunState, lease: RunHead["lease"], isDriven: boolean, now: Timestamp): string => {
  const name = sentence`The run ${state.runId} of ${state.agent.name}`
  switch (state.status) {
    case "running":
      if (isDriven) return sentence`${name} is running in this program.`
      return lease === undefined
        ? sentence`${name} is running, and no process drives it.`
        : sentence`${name} is driven by ${lease.owner}, whose lease ends ${when(lease.until, now)} at the earliest.`
    case "held": {
      if (!isQueued(state)) return sentence`${name} is held.`
      const { as, name: conductor = "" } = state.conductor ?? {}
      const under = as === undefined ? "" : sentence` as "${as}"`
      return sentence`${name} is queued${under}: it waits for a slot of the conductor "${conductor}" and has not started.`
    }
    case "completed":
      return sentence`${name} is completed.`
    case "cancelled":
      return `${sentence`${name} was cancelled: ${state.cancelled?.reason ?? "no reason was given"}.`}${cutSentence(state)}`
    case "error":
      return sentence`${name} failed. ${state.failure === undefined ? "" : fromFailure(state.failure).message}`.trim()
  }
}

const units: ReadonlyArray<readonly [number, string]> = [
  [24 * 60 * 60 * 1000, "day"],
  [60 * 60 * 1000, "hour"],
  [60 * 1000, "minute"],
  [1000, "second"]
]

/** A time in words, relative to `now`, and exactly. */
const when = (time: Timestamp, now: Timestamp): string => {
  const distance = Math.abs(time - now)
  const [size, unit] = units.find(([size]) => distance >= size) ?? [1, "millisecond"]
  const count = time <= now ? Math.floor(distance / size) : Math.round(distance / size)
  const about = sentence`${count} ${unit}${count === 1 ? "" : "s"}`
  const exact = instant(time)
  return time <= now ? sentence`${about} ago (${exact})` : sentence`in ${about} (${exact})`
}

/** A past time in words. By the clock of this process it may be in the future; then only the time itself is true. */
const since = (time: Timestamp, now: Timestamp): string => (time > now ? instant(time) : when(time, now))

/** Says that an answer of the run was cut when it was cancelled, if one was. */
const cutSentence = ({ cancelled }: RunState): string =>
  cancelled?.said === undefined
    ? ""
    : sentence` Its answer was cut after ${cancelled.said.length} characters.`
