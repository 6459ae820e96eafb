/**
 * A model of the loop: a simulation of everything that a run can go through, driven by a tape of numbers.
 *
 * `simulate` plays the part of `perform` with synthetic models, tools, people and crashes. The runs of a tree advance side by side:
 * each is a generator that yields where a model or a tool works, and the tape chooses which one continues. An exhausted tape makes the
 * quiet choice (the model ends its answer, people approve, nothing crashes), so that every simulation ends and a shorter tape is a
 * simpler story.
 */
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as ApprovalPolicy from "../../src/domain/ApprovalPolicy.ts"
import {
  carve,
  exceeded,
  exceededAbove,
  exceededByCallsAbove,
  isWrappingUp,
  nearing,
  type NothingLeft
} from "../../src/domain/Budget.ts"
import { decide } from "../../src/domain/decide.ts"
import type { Decision } from "../../src/domain/Decision.ts"
import { evolve } from "../../src/domain/evolve.ts"
import * as Grant from "../../src/domain/Grant.ts"
import * as Id from "../../src/domain/Id.ts"
import type { Interruption, Safety } from "../../src/domain/Interruption.ts"
import type { Exceeded, Limits } from "../../src/domain/Limits.ts"
import type { End, Step } from "../../src/domain/next.ts"
import { constraintsOf, exhausted, mayStart, next, onNothingLeft, waitName } from "../../src/domain/next.ts"
import type { Rejection } from "../../src/domain/Rejection.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import { wrap } from "../../src/domain/RunEvent.ts"
import type { RunState, ToolCall } from "../../src/domain/RunState.ts"
import {
  children,
  findCall,
  findChild,
  interruptions,
  isEnded,
  isOpen,
  isRepeatable,
  isSettled
} from "../../src/domain/RunState.ts"
import type { CallReport } from "../../src/domain/ToolCall.ts"
import * as MadeUp from "./MadeUp.ts"
import { Reader } from "./Tape.ts"

/** The calls that lead from the root to a run. */
type Path = ReadonlyArray<Id.ToolCallId>

/** A decision that was tried after `at` events. */
interface Attempt {
  readonly at: number
  readonly before: RunState
  readonly decision: Decision
  readonly result: Result.Result<ReadonlyArray<RunEvent>, Rejection>
}

/** A step that `next` returned for the run at the end of `path`. */
export interface Asked {
  readonly at: number
  readonly path: Path
  /** The runs above it, from the root. */
  readonly line: ReadonlyArray<RunState>
  readonly state: RunState
  readonly step: Step
}

/** A model call that started after `at` events, and the index of its answer in the journal. */
interface Given {
  readonly at: number
  readonly path: Path
  readonly state: RunState
  readonly answer: number
}

export interface Trace {
  /** The journal. */
  readonly events: ReadonlyArray<RunEvent>
  /** `states[i]` is the state in memory after `events[i]`. */
  readonly states: ReadonlyArray<RunState>
  readonly attempts: ReadonlyArray<Attempt>
  readonly asked: ReadonlyArray<Asked>
  readonly given: ReadonlyArray<Given>
  readonly end: RunState
}

/** Freezes a value and everything in it, so that a change in place throws. */
const deepFreeze = <A>(value: A): A => {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const item of Object.values(value)) deepFreeze(item)
  }
  return value
}

/** The bound of {@link simulate}: a run that does not end is a bug of `next`. */
const maxEvents = 4000

export const simulate = (numbers: ReadonlyArray<number>, from?: RunState): Trace => {
  const pick = new Reader(numbers)
  const events: Array<RunEvent> = []
  const states: Array<RunState> = []
  const attempts: Array<Attempt> = []
  const asked: Array<Asked> = []
  const given: Array<Given> = []
  const everAsked: Array<Interruption> = []
  /** The steps in progress, by run. */
  const doing = new Map<string, Generator<void, void, void>>()
  let state: RunState | undefined = from
  let runs = from === undefined ? 0 : Number(from.runId.slice("run-".length))
  let said = 0
  let clock = 1000

  const current = (): RunState => state!
  const at = (path: Path): RunState =>
    path.reduce<RunState>((run, callId) => findChild(run, callId)!, current())
  const lineOf = (path: Path): ReadonlyArray<RunState> => path.map((_, depth) => at(path.slice(0, depth)))

  const emit = (event: RunEvent, path: Path = []): void => {
    const wrapped = deepFreeze(wrap(event, path))
    if (events.length > maxEvents) throw new Error("the run does not end")
    state = deepFreeze(evolve(state, wrapped))
    events.push(wrapped)
    states.push(state)
    if (event._tag === "request.opened") everAsked.push(event.request)
  }
  const now = () => ++clock

  /** Whether a denial has stopped the run at the end of `path`, or a run above it. */
  const isHalted = (path: Path): boolean => [...lineOf(path), at(path)].some(({ stop }) => stop !== undefined)

  /** The live runs of the tree, the root first. */
  const atWork = (path: Path = []): ReadonlyArray<Path> => {
    const run = at(path)
    return isEnded(run) ? [] : [path, ...children(run).flatMap(({ callId }) => atWork([...path, callId]))]
  }
  /** A live run of the tree. */
  const somewhere = (): Path => pick.one(atWork())

  const start = (runId: Id.RunId, agent: string, path: Path, limits: Limits): RunEvent => ({
    _tag: "run.started",
    at: now(),
    runId,
    sessionId: "session-1" as Id.SessionId,
    agent: { name: agent, instructions: "sha", tools: { read_file: "sha", ["__proto__"]: "sha" } },
    agentPath: path.length === 0 ? [agent] : [...at(path.slice(0, -1)).agentPath, agent],
    prompt: pick.below(2) === 0 ? [{ _tag: "text", text: "Do it." }] : MadeUp.content(pick),
    limits,
    policy: MadeUp.policy(pick),
    ...MadeUp.otherPolicies(pick),
    ...(pick.happens(60) ? { startedWith: MadeUp.startedWith(pick) } : {}),
    asks: path.length === 0 ? pick.below(3) !== 1 : current().asks,
    structured: pick.happens(20),
    ...(state !== undefined && path.length === 0
      ? { parent: { runId: state.runId, revision: state.revision } }
      : {})
  })
  const startRoot = (): void => emit(start(`run-${++runs}` as Id.RunId, "main", [], MadeUp.limits(pick)))

  /** Starts the run of a sub-agent, with the rest of the budgets above it. */
  const begin = (callId: Id.ToolCallId, path: Path): void => {
    const { name } = findCall(at(path), callId)!
    const limits = carve([...lineOf(path), at(path)], MadeUp.limits(pick))
    if (!("depth" in limits)) {
      const inside = [...path, callId]
      return emit(start(Id.childRunId(callId), name, inside, limits), inside)
    }
    if (askAbove(path, limits)) return
    const content = [{ _tag: "text", text: "Nothing is left." } as const]
    emit({ _tag: "tool.failed", at: now(), callId, content }, path)
  }

  /** Handles a used-up budget of a run; `path` leads to that run or to one under it. */
  const askAbove = (path: Path, nothing: NothingLeft): boolean => {
    const owner = path.slice(0, nothing.depth)
    const { budget, limit } = nothing.exceeded
    switch (onNothingLeft(at(owner), nothing)) {
      case "seenTo":
        return true
      case "comesToItsEnd":
        emit({ _tag: "budget.exhausted", at: now(), budget, limit }, owner)
        return true
      case "asks":
        openLimit(owner, nothing.exceeded)
        return true
      case "refused":
        return false
    }
  }

  /** Whether the budgets above a sub-agent leave room for its next step. Otherwise the sub-agent waits or fails. */
  const hasRoomAbove = (path: Path, step: Step): boolean => {
    const line = lineOf(path)
    const nothing =
      step._tag === "CallModel" ? exceededAbove(line, at(path).limits, clock) : exceededByCallsAbove(line)
    if (nothing === undefined) return true
    if (!askAbove(path, nothing)) fail({ _tag: "BudgetExceeded", ...nothing.exceeded }, path)
    return false
  }

  const openLimit = (path: Path, exceeded: Exceeded): void => {
    const request = { _tag: "limit" as const, ...requestOf(at(path)), ...exceeded }
    emit({ _tag: "request.opened", at: now(), request }, path)
  }

  const outOfBudget = (exceeded: Exceeded, path: Path): void => {
    const step = exhausted(at(path), exceeded)
    if (step._tag === "AskLimit") openLimit(path, step.exceeded)
    if (step._tag === "AskWrapUp") askWrapUp(step.exceeded, path)
    if (step._tag === "Finish" && step.end._tag === "failed") fail(step.end.failure, path)
  }

  const askWrapUp = ({ budget, limit }: Exceeded, path: Path): void => {
    // The results of its running sub-agents are no longer needed.
    for (const { child, id } of at(path).calls) {
      if (child !== undefined && !isEnded(child)) stopChild([...path, id], "it comes to its end")
    }
    emit({ _tag: "wrapUp.asked", at: now(), budget, limit }, path)
  }

  const fail = (failure: Extract<RunEvent, { readonly _tag: "run.failed" }>["failure"], path: Path): void =>
    emit({ _tag: "run.failed", at: now(), failure }, path)

  /** The common fields of a request. */
  const requestOf = (run: RunState) => ({
    requestId: Id.requestId(run.runId, run.requests.length + 1),
    runId: run.runId,
    agentPath: run.agentPath,
    at: now(),
    ...(pick.happens(20)
      ? { expiresAt: clock + pick.below(9), onExpiry: pick.one(["deny", "stay"] as const) }
      : {})
  })

  const approvalOf = (run: RunState, call: ToolCall, args: Schema.Json, safety: Safety): Interruption => ({
    _tag: "approval",
    ...requestOf(run),
    callId: call.id,
    tool: call.name,
    arguments: args,
    digest: `digest of ${JSON.stringify(args)}`,
    safety,
    ...(pick.happens(20) ? { risk: "high", preview: "- a\n+ b", reason: "It was edited." } : {})
  })

  const classify = (call: ToolCall, path: Path): void => {
    const run = at(path)
    const fail = (text: string) =>
      emit({ _tag: "tool.failed", at: now(), callId: call.id, content: [{ _tag: "text", text }] }, path)
    if (call.name === "no_such_tool") return fail("There is no tool no_such_tool.")
    if (call.argumentsText.startsWith("{malformed")) return fail("The arguments are not JSON.")
    const args = JSON.parse(call.argumentsText) as Schema.Json
    const target = MadeUp.targetOf(call.name)
    const safety =
      call.name === "read_file" ? "readOnly" : call.name === "delete_branch" ? "privileged" : "sideEffecting"
    const classified: Extract<RunEvent, { readonly _tag: "tool.classified" }> = {
      _tag: "tool.classified",
      at: now(),
      callId: call.id,
      target,
      safety,
      idempotent: target === "tool" && pick.happens(15),
      arguments: args
    }
    if (target === "question") {
      emit(classified, path)
      if (pick.happens(3)) return
      emit(
        {
          _tag: "request.opened",
          at: now(),
          request: {
            _tag: "question",
            ...requestOf(run),
            callId: call.id,
            question: "Which?",
            options: ["a", "b"]
          }
        },
        path
      )
      return
    }
    if (target === "agents" || target === "handoff") {
      return emit({ ...classified, allowedBy: "tool" }, path)
    }
    if (target !== "tool" && path.length >= 3) return fail("Sub-agents may not nest deeper.")
    const definition = {
      agent: run.agentPath.at(-1) ?? "",
      tool: call.name,
      schema: run.agent.tools[call.name]!,
      safety: safety as Safety,
      agentAliases: [],
      toolAliases: []
    }
    const grant = run.grants.find(
      (grant) => Grant.isActive(grant, clock) && Grant.covers(grant, definition, args)
    )
    if (grant !== undefined) {
      return emit({ ...classified, allowedBy: `grant ${grant.id}`, grantId: grant.id }, path)
    }
    const verdict = ApprovalPolicy.judge(
      run.policy,
      call.name,
      safety !== "readOnly" && pick.below(target === "tool" ? 3 : 2) !== 1,
      clock
    )
    switch (verdict._tag) {
      case "run":
        return emit({ ...classified, allowedBy: verdict.by }, path)
      case "deny":
        return emit(
          {
            _tag: "tool.denied",
            at: now(),
            callId: call.id,
            content: [{ _tag: "text", text: verdict.message }]
          },
          path
        )
      case "ask":
        emit(classified, path)
        // A crash between two commits: the call is classified again.
        if (pick.happens(3)) return
        emit({ _tag: "request.opened", at: now(), request: approvalOf(run, call, args, safety) }, path)
    }
  }

  const beginBody = (callId: Id.ToolCallId, path: Path): void =>
    emit({ _tag: "tool.started", at: now(), callId, idempotencyKey: callId }, path)

  const finishBody = (callId: Id.ToolCallId, path: Path): void => {
    if (pick.happens(8)) return putOnHold(callId, path)
    emit(
      {
        _tag: pick.below(4) === 1 ? "tool.failed" : "tool.completed",
        at: now(),
        callId,
        content: [{ _tag: "text", text: `result of ${callId}` }, ...MadeUp.content(pick)]
      },
      path
    )
  }

  /** Ends a body whose result comes later. */
  const putOnHold = (callId: Id.ToolCallId, path: Path): void => {
    const { arguments: args = null, name } = findCall(at(path), callId)!
    const { onExpiry: _, ...asked } = requestOf(at(path))
    const called = { ...asked, callId, tool: name, arguments: args }
    const request: Interruption =
      pick.below(2) === 1
        ? { _tag: "external", ...called, token: callId }
        : { _tag: "timer", ...called, expiresAt: clock + 1 + pick.below(9) }
    emit({ _tag: "request.opened", at: now(), request }, path)
  }

  /** Bodies run concurrently and end in any order; a crash leaves some of them open. */
  function* settle(callIds: Path, path: Path) {
    for (const callId of callIds) beginBody(callId, path)
    const open = callIds.slice()
    while (open.length > 0) {
      yield
      if (pick.happens(10)) return
      const [callId] = open.splice(pick.below(open.length), 1)
      if (findCall(at(path), callId!)?.status !== "started") continue
      // A stop came between the start and the body.
      if (pick.happens(4)) emit({ _tag: "tool.notStarted", at: now(), callId: callId! }, path)
      else finishBody(callId!, path)
    }
  }

  function* reconcile(call: ToolCall, path: Path) {
    if (isRepeatable(call)) {
      beginBody(call.id, path)
      yield
      if (!pick.happens(10)) finishBody(call.id, path)
      return
    }
    if (pick.happens(30)) return finishBody(call.id, path)
    emit(
      {
        _tag: "request.opened",
        at: now(),
        request: {
          _tag: "inDoubt",
          ...requestOf(at(path)),
          callId: call.id,
          tool: call.name,
          arguments: call.arguments ?? null,
          idempotencyKey: call.id,
          startedAt: call.startedAt!,
          attempt: call.attempt
        }
      },
      path
    )
  }

  const reports = (run: RunState): ReadonlyArray<CallReport> =>
    run.calls.map((call) => ({
      callId: call.id,
      tool: call.name,
      state: isSettled(call)
        ? "finished"
        : call.attempt === 0
          ? "notStarted"
          : call.safety === "readOnly" || call.idempotent
            ? "aborted"
            : "inDoubt"
    }))

  /** Ends the runs under a run, the innermost first. */
  const stopUnder = (path: Path, reason: string): void => {
    for (const { callId } of children(at(path))) stopChild([...path, callId], reason)
  }
  const stopChild = (path: Path, reason: string): void => {
    closeRequests(path)
    stopUnder(path, reason)
    emit({ _tag: "run.cancelled", at: now(), reason, calls: reports(at(path)) }, path)
  }
  const closeRequests = (path: Path): void => {
    for (const { request } of at(path).requests.filter(isOpen)) {
      const { requestId } = request
      emit({ _tag: "request.superseded", at: now(), requestId, reason: "its run has ended" }, path)
    }
  }

  /** Older journals end the runs under a run without events of their own. */
  const cancel = (reason: string, path: Path): void => {
    if (!pick.happens(20)) {
      if (path.length > 0) return stopChild(path, reason)
      stopUnder(path, reason)
    }
    emit({ _tag: "run.cancelled", at: now(), reason, calls: reports(at(path)) }, path)
  }

  const conclude = (end: End, path: Path): void => {
    if (end._tag === "cancelled") return cancel(end.reason, path)
    if (path.length > 0) {
      stopUnder(path, "the run that started it has ended")
      closeRequests(path)
    }
    if (end._tag === "completed") return emit({ _tag: "run.completed", at: now() }, path)
    fail(end.failure, path)
  }

  function* callModel(path: Path) {
    const run = at(path)
    const late = isWrappingUp(run) ? undefined : exceeded(run, clock)
    if (late !== undefined) return outOfBudget(late, path)
    if (run.queued.length > 0) emit({ _tag: "messages.read", at: now() }, path)
    const asked = { at: events.length, path, state: at(path) }
    yield
    if (pick.happens(4)) {
      emit({ _tag: "model.charged", at: now(), usage: MadeUp.usage(pick) }, path)
      if (pick.below(2) === 1) return modelFails(path)
    }
    given.push({ ...asked, answer: events.length })
    emit(MadeUp.answer(pick, at(path), now()), path)
    for (let depth = path.length; depth >= 0; depth--) {
      const above = path.slice(0, depth)
      for (const budget of nearing(at(above), clock)) {
        emit({ _tag: "budget.nearing", at: now(), ...budget }, above)
      }
    }
  }

  const modelFails = (path: Path): void => {
    switch (pick.below(3)) {
      case 0:
        return fail(
          { _tag: "ModelFailed", reason: "Overloaded", description: "503", isRetryable: true },
          path
        )
      case 1: {
        const login = { profile: "fast", message: "The login has run out." }
        const request = { _tag: "login" as const, ...requestOf(at(path)), ...login }
        return emit({ _tag: "request.opened", at: now(), request }, path)
      }
    }
  }

  /** Settles a call about background agents. */
  const settleAgents = (callId: Id.ToolCallId, path: Path): void => {
    const call = findCall(at(path), callId)!
    const { agentRun, reason } = (call.arguments ?? {}) as { agentRun?: Id.ToolCallId; reason?: string }
    const inside = agentRun === undefined ? undefined : [...path, agentRun]
    const isThere = at(path).background?.some((entry) => entry.callId === agentRun && entry.child)
    if (inside !== undefined && isThere === true) {
      if (call.name === "message_agent") {
        const content = [{ _tag: "text", text: `message ${++said}` } as const]
        emit({ _tag: "message.queued", at: now(), content }, inside)
      } else if (call.name === "cancel_agent") stopChild(inside, reason ?? "it was told to stop")
    }
    const content = [{ _tag: "text", text: `${call.name} was followed.` } as const]
    emit({ _tag: "tool.completed", at: now(), callId, content }, path)
  }

  const handOff = (callId: Id.ToolCallId, path: Path): void => {
    const agent = { name: pick.one(["writer", "main"]), instructions: "sha2", tools: {} }
    const policy = MadeUp.policy(pick)
    const others = MadeUp.otherPolicies(pick)
    emit({ _tag: "agent.changed", at: now(), agent, policy, ...others, structured: pick.happens(20) }, path)
    // A crash between two commits: the handoff is repeated.
    if (pick.happens(5)) return
    const content = [{ _tag: "text", text: `${agent.name} has the conversation now.` } as const]
    for (const { id } of at(path).calls.filter((call) => !isSettled(call) && call.id !== callId)) {
      emit({ _tag: "tool.failed", at: now(), callId: id, content }, path)
    }
    emit({ _tag: "tool.completed", at: now(), callId, content }, path)
  }

  /** Performs a step of the run at the end of `path`, and yields wherever other runs can advance. */
  function* perform(path: Path): Generator<void, void, void> {
    const line = lineOf(path)
    // A worker of a held run also resumes the runs above it.
    for (let depth = 1; depth <= path.length; depth++) {
      const above = path.slice(0, depth)
      if (at(above).status === "held") emit({ _tag: "run.resumed", at: now() }, above)
    }
    const run = at(path)
    const step = next(run, constraintsOf(line))
    asked.push({ at: events.length, path, line, state: run, step })
    switch (step._tag) {
      case "CallModel":
        if (hasRoomAbove(path, step)) yield* callModel(path)
        return
      case "ClassifyCalls":
        if (!hasRoomAbove(path, step)) return
        for (const callId of step.callIds) {
          classify(findCall(run, callId)!, path)
          if (pick.happens(3)) return
        }
        return
      case "SettleToolCalls":
        return yield* settle(step.callIds, path)
      case "ResumeChildren":
        for (const callId of step.callIds) {
          if (findCall(at(path), callId)?.child !== undefined || !mayStart([...line, at(path)])) continue
          begin(callId, path)
          if (pick.happens(10)) return
        }
        return
      case "StartBackground":
        return begin(step.callId, path)
      case "SettleAgents":
        return settleAgents(step.callId, path)
      case "HandOff":
        return handOff(step.callId, path)
      case "RecordResults":
        for (const callId of step.callIds) {
          const content = [{ _tag: "text", text: `result of ${callId}` }] as const
          emit(
            { _tag: pick.below(4) === 1 ? "tool.failed" : "tool.completed", at: now(), callId, content },
            path
          )
          if (pick.happens(10)) return
        }
        return
      case "Reconcile":
        for (const callId of step.callIds) {
          const call = findCall(at(path), callId)
          // No call is repeated after a denial has stopped the run or a run above it.
          if (call !== undefined && isRepeatable(call) && isHalted(path)) continue
          if (call?.status === "started") yield* reconcile(call, path)
          if (pick.happens(5)) return
        }
        return
      case "AskLimit":
        return openLimit(path, step.exceeded)
      case "AskWrapUp":
        return askWrapUp(step.exceeded, path)
      case "Withdraw":
        for (const { requestId } of step.requests) {
          emit({ _tag: "request.superseded", at: now(), requestId, reason: "there is room again" }, path)
        }
        return
      case "DecodeOutput":
        return emit(
          pick.below(3) === 1
            ? { _tag: "output.rejected", at: now(), message: "The answer is not JSON." }
            : { _tag: "run.completed", at: now(), output: pick.one(MadeUp.json) },
          path
        )
      case "Finish":
        return conclude(step.end, path)
      case "AwaitChildren":
      case "Hold":
        throw new Error(`${step._tag} is nothing that a run does.`)
    }
  }

  /** Whether the run at the end of `path` can advance by itself. */
  const mayAct = (path: Path): boolean => doing.has(at(path).runId) || mayStep(at(path), lineOf(path))

  /** Holds the waiting sub-agents, so that their time does not count. */
  const holdIdle = (): void => {
    for (const path of atWork()) {
      if (path.length === 0 || at(path).status !== "running" || doing.has(at(path).runId)) continue
      if (next(at(path), constraintsOf(lineOf(path)))._tag === "Hold")
        emit({ _tag: "run.held", at: now() }, path)
    }
  }

  const attempt = (decision: Decision): void => {
    const before = current()
    const result = decide(before, deepFreeze(decision))
    attempts.push({ at: events.length, before, decision, result })
    if (Result.isFailure(result)) return
    for (const event of result.success) emit(event)
  }

  /** Events from outside, at any moment. */
  const disturb = (): void => {
    if (isEnded(current())) return
    const blow = pick.below(120)
    if (blow < 96) return
    if (blow === 119) return cancel("the user pressed stop", somewhere())
    if (blow === 118) return fail({ _tag: "RunDefect", description: "a hook threw" }, somewhere())
    if (blow >= 116) {
      const path = somewhere()
      const limits = MadeUp.otherLimits(pick, at(path))
      const given = pick.happens(50) ? { given: { maxTurns: limits.maxTurns } } : {}
      return emit({ _tag: "limits.changed", at: now(), limits, ...given }, path)
    }
    if (blow >= 114) {
      // The process died: another one continues from the journal.
      if (current().status !== "running") return
      doing.clear()
      return emit({ _tag: "run.recovered", at: now() })
    }
    if (blow >= 110) return say(somewhere())
    if (blow >= 107) {
      const path = somewhere()
      const grant = at(path).grants[0]
      if (grant === undefined) return
      return emit({ _tag: "grant.revoked", at: now(), grantId: grant.id, by: "ada" }, path)
    }
    const open = interruptions(current())
    if (blow >= 102) return attempt(MadeUp.unfitting(pick, open, everAsked, now()))
    if (open.length > 0) attempt(MadeUp.fitting(pick, pick.one(open), now()))
  }

  const say = (path: Path): void => {
    const content = [{ _tag: "text", text: `message ${++said}` } as const, ...MadeUp.content(pick)]
    const sent = pick.below(2) === 1 ? { messageId: `m${said}` } : {}
    emit({ _tag: "message.queued", at: now(), content, ...sent }, path)
  }

  /** Replaces a request that came too early or whose subject changed, or supersedes it for another classification. */
  const ask = (request: Interruption): void => {
    const path = pathOf(current(), request)
    if (path === undefined) return
    if (pick.below(2) === 1) {
      return emit(
        { _tag: "request.superseded", at: now(), requestId: request.requestId, reason: "the tool changed" },
        path
      )
    }
    const by = Id.requestId(request.runId, at(path).requests.length + 1)
    const again: RunEvent = {
      _tag: "request.opened",
      at: now(),
      request: { ...request, requestId: by, at: now() }
    }
    const { requestId } = request
    const instead: RunEvent = {
      _tag: "request.superseded",
      at: now(),
      requestId,
      reason: "it is asked anew",
      by
    }
    // A waiting call always has a request, and a budget never has two.
    for (const event of "callId" in request ? [again, instead] : [instead, again]) emit(event, path)
  }

  /** The run waits: it is parked, decided, messaged and resumed. */
  const hold = (): void => {
    const step = next(current())
    asked.push({ at: events.length, path: [], line: [], state: current(), step })
    if (step._tag !== "Hold") throw new Error(`nobody can go on, and the run is at ${step._tag}`)
    if (step.requests.length === 0) throw new Error("held on nothing")
    const parks = pick.below(3) !== 1
    if (parks) emit({ _tag: "run.held", at: now() })
    disturb()
    if (pick.happens(8) && !isEnded(current())) {
      const request = interruptions(current())[0]
      if (request !== undefined) ask(request)
    }
    const waiting = isEnded(current()) ? [] : interruptions(current())
    if (waiting.length > 0) attempt(MadeUp.fitting(pick, pick.one(waiting), now()))
    if (parks && !isEnded(current())) emit({ _tag: "run.resumed", at: now() })
  }

  /** The run has ended: it is resumed, or its session continues. */
  const goesOn = (): boolean => {
    doing.clear()
    while (pick.happens(20) && everAsked.length > 0) {
      attempt(MadeUp.unfitting(pick, interruptions(current()), everAsked, now()))
    }
    for (const request of interruptions(current())) attempt(MadeUp.fitting(pick, request, now()))
    if (pick.happens(10)) say([])
    if (current().status === "error" && pick.below(2) === 1) {
      emit({ _tag: "run.resumed", at: now() })
      emit({ _tag: "limits.changed", at: now(), limits: MadeUp.otherLimits(pick, current()) })
      return true
    }
    if (pick.isOver) return false
    startRoot()
    return true
  }

  if (state === undefined) startRoot()
  else if (state.status === "held") emit({ _tag: "run.resumed", at: now() })
  else if (state.status === "running") emit({ _tag: "run.recovered", at: now() })
  do {
    while (!isEnded(current())) {
      disturb()
      if (isEnded(current())) break
      holdIdle()
      const paths = atWork().filter(mayAct)
      if (paths.length === 0) {
        hold()
        continue
      }
      const path = paths.length === 1 ? paths[0]! : pick.one(paths)
      const { runId } = at(path)
      const step = doing.get(runId) ?? perform(path)
      if (step.next().done === true) doing.delete(runId)
      else doing.set(runId, step)
    }
    asked.push({ at: events.length, path: [], line: [], state: current(), step: next(current()) })
  } while (goesOn())
  return { events, states, attempts, asked, given, end: current() }
}

/** Whether the run can advance by itself, apart from the runs under it; `line` has the runs above it. */
export const mayStep = (run: RunState, line: ReadonlyArray<RunState>): boolean => {
  const step = next(run, constraintsOf(line))
  switch (step._tag) {
    case "Hold":
    case "AwaitChildren":
      return false
    case "ResumeChildren":
      return (
        mayStart([...line, run]) && step.callIds.some((callId) => findCall(run, callId)?.child === undefined)
      )
    default:
      return true
  }
}

/** The runs that a call of `wait_for_agent` names, or `undefined` for other calls. */
export const waitedFor = (call: ToolCall): ReadonlyArray<string> | "all" | undefined => {
  if (call.name !== waitName || call.target !== "agents") return undefined
  return (call.arguments as { readonly agentRuns?: ReadonlyArray<string> }).agentRuns ?? "all"
}

const pathOf = (state: RunState, request: Interruption): Path | undefined => {
  if (state.requests.some((record) => record.request.requestId === request.requestId)) return []
  for (const { callId, child } of children(state)) {
    const inside = pathOf(child, request)
    if (inside !== undefined) return [callId, ...inside]
  }
  return undefined
}

/** Every run in a state, itself first. */
export const runsIn = (state: RunState): ReadonlyArray<RunState> => [
  state,
  ...state.calls.flatMap((call) => (call.child === undefined ? [] : runsIn(call.child))),
  ...(state.background ?? []).flatMap(({ child }) => (child === undefined ? [] : runsIn(child)))
]
