/**
 * A model of the loop: everything that a run can go through, driven by a tape of numbers.
 *
 * `simulate` plays the part of `perform` with made-up models, tools, people and crashes. Each choice is the next number of the
 * tape; an exhausted tape always makes the quiet choice (the model ends its answer, people approve, nothing crashes), so that
 * every simulation comes to an end and a shorter tape is a simpler story.
 */
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as fc from "fast-check"
import * as ApprovalPolicy from "../../src/domain/ApprovalPolicy.ts"
import type { Decision } from "../../src/domain/Decision.ts"
import { carve, exceededAbove, exceededByCallsAbove, type NothingLeft } from "../../src/domain/Budget.ts"
import { decide } from "../../src/domain/decide.ts"
import { evolve } from "../../src/domain/evolve.ts"
import * as Grant from "../../src/domain/Grant.ts"
import * as Id from "../../src/domain/Id.ts"
import type { Interruption, Safety } from "../../src/domain/Interruption.ts"
import * as Limits from "../../src/domain/Limits.ts"
import type { UserPart } from "../../src/domain/Message.ts"
import type { End, Step } from "../../src/domain/next.ts"
import { aboveOf, next, onNothingLeft } from "../../src/domain/next.ts"
import type { Rejection } from "../../src/domain/Rejection.ts"
import type { AnsweredPart, RunEvent } from "../../src/domain/RunEvent.ts"
import { wrap } from "../../src/domain/RunEvent.ts"
import type { RunState, ToolCall } from "../../src/domain/RunState.ts"
import { findCall, interruptions, isEnded, isSettled } from "../../src/domain/RunState.ts"
import type { CallReport } from "../../src/domain/ToolCall.ts"

/** Something that was tried, by its place in the journal: `at` events had been folded. */
interface Attempt {
  readonly at: number
  readonly before: RunState
  readonly decision: Decision
  readonly result: Result.Result<ReadonlyArray<RunEvent>, Rejection>
}

/** A step that `next` asked for, of the run at the end of `path`. */
export interface Asked {
  readonly at: number
  readonly path: ReadonlyArray<Id.ToolCallId>
  /** The runs above it, from the root. */
  readonly line: ReadonlyArray<RunState>
  readonly state: RunState
  readonly step: Step
}

export interface Trace {
  /** The journal. */
  readonly events: ReadonlyArray<RunEvent>
  /** `states[i]` is the state in memory after `events[i]`. */
  readonly states: ReadonlyArray<RunState>
  readonly attempts: ReadonlyArray<Attempt>
  readonly asked: ReadonlyArray<Asked>
  readonly end: RunState
}

/** A tape for {@link simulate}. */
export const tape = (length = 600): fc.Arbitrary<ReadonlyArray<number>> =>
  fc.noBias(fc.array(fc.nat(0xffff), { maxLength: length, size: "max" }))

/** Freezes a value and everything in it, so that a change in place throws. */
const deepFreeze = <A>(value: A): A => {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const item of Object.values(value)) deepFreeze(item)
  }
  return value
}

const names = [
  "read_file",
  "write_file",
  "delete_branch",
  "ask_user",
  "researcher",
  "no_such_tool",
  "read_file",
  "write_file",
  "researcher"
] as const

const json: ReadonlyArray<Schema.Json> = [
  {},
  { path: "a.txt" },
  { path: "src/ünï.ts", content: "line\n\u2028" },
  JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":1}}') as Schema.Json,
  { nested: { list: [1, null, { deep: [[], {}, ""] }] } },
  [],
  null,
  "text",
  0.1,
  { path: "a.txt", force: true }
]

/** Reads the tape. */
class Reader {
  readonly tape: ReadonlyArray<number>
  position = 0
  constructor(tape: ReadonlyArray<number>) {
    this.tape = tape
  }
  /** A number below `count`; 0 when the tape has run out. */
  below(count: number): number {
    const value = this.tape[this.position++]
    return value === undefined ? 0 : value % count
  }
  /** Whether something unlikely happens. */
  happens(percent: number): boolean {
    return this.below(100) >= 100 - percent
  }
  one<A>(items: ReadonlyArray<A>): A {
    return items[this.below(items.length)]!
  }
  get isOver() {
    return this.position >= this.tape.length
  }
}

/** Where {@link simulate} gives up: a run that never ends is a bug of `next`. */
const maxEvents = 4000

export const simulate = (numbers: ReadonlyArray<number>, from?: RunState): Trace => {
  const pick = new Reader(numbers)
  const events: Array<RunEvent> = []
  const states: Array<RunState> = []
  const attempts: Array<Attempt> = []
  const asked: Array<Asked> = []
  const everAsked: Array<Interruption> = []
  let state: RunState | undefined = from
  let runs = from === undefined ? 0 : Number(from.runId.slice("run-".length))
  let clock = 1000

  const current = (): RunState => state!
  const at = (path: ReadonlyArray<Id.ToolCallId>): RunState =>
    path.reduce<RunState>((run, callId) => findCall(run, callId)!.child!, current())

  const emit = (event: RunEvent, path: ReadonlyArray<Id.ToolCallId> = []): void => {
    const wrapped = deepFreeze(wrap(event, path))
    if (events.length > maxEvents) throw new Error("the run does not end")
    state = deepFreeze(evolve(state, wrapped))
    events.push(wrapped)
    states.push(state)
    if (event._tag === "request.opened") everAsked.push(event.request)
  }
  const now = () => ++clock

  const content = (): ReadonlyArray<UserPart> =>
    pick.one<ReadonlyArray<UserPart>>([
      [{ _tag: "text", text: "ok" }],
      [],
      [
        { _tag: "text", text: "" },
        { _tag: "file", mediaType: "image/png", source: { _tag: "bytes", base64: "AAEC" }, name: "a.png" }
      ],
      [{ _tag: "file", mediaType: "text/plain", source: { _tag: "url", url: "https://example.com/a" } }]
    ])

  const limits = (): Limits.Limits => ({
    ...Limits.defaults,
    maxTurns: 8 - pick.below(5),
    ...(pick.happens(20) ? { maxToolCalls: pick.below(6) } : {}),
    ...(pick.happens(20) ? { maxTokens: 20 + pick.below(60) } : {}),
    ...(pick.happens(20) ? { maxCostUsd: pick.below(3) / 10 } : {}),
    ...(pick.happens(10) ? { maxTreeTurns: 1 + pick.below(9) } : {}),
    ...(pick.happens(10) ? { maxTreeToolCalls: pick.below(9) } : {}),
    ...(pick.happens(20) ? { wrapUp: true } : {})
  })

  const policy = (): ApprovalPolicy.ApprovalPolicy =>
    pick.one<ApprovalPolicy.ApprovalPolicy>([
      { mode: "ask" },
      { mode: "ask", rules: [{ tool: "read_*", action: "ask" }] },
      { mode: "all" },
      { mode: "none" },
      { mode: "until", until: 1040 },
      { mode: "ask", rules: [{ tool: "delete_*", action: "deny", message: "Never." }] }
    ])

  const start = (
    runId: Id.RunId,
    agent: string,
    agentPath: ReadonlyArray<string>,
    given: Limits.Limits = limits()
  ): RunEvent => ({
    _tag: "run.started",
    at: now(),
    runId,
    sessionId: "session-1" as Id.SessionId,
    agent: { name: agent, instructions: "sha", tools: { read_file: "sha", ["__proto__"]: "sha" } },
    agentPath,
    prompt: pick.below(2) === 0 ? [{ _tag: "text", text: "Do it." }] : content(),
    limits: given,
    policy: policy(),
    asks: pick.below(3) !== 1,
    structured: pick.happens(25),
    ...(state !== undefined && agentPath.length === 1
      ? { parent: { runId: state.runId, revision: state.revision } }
      : {})
  })

  const answer = (): RunEvent => {
    const count = pick.below(6)
    const parts: Array<AnsweredPart> = []
    if (pick.happens(25)) {
      parts.push({
        _tag: "reasoning",
        text: "hm",
        provider: "acme",
        payload: { signature: "s", n: pick.below(9) }
      })
    }
    if (pick.below(4) !== 1) parts.push({ _tag: "text", text: count === 0 ? "Done." : "Let me see." })
    for (let i = 0; i < count; i++) {
      parts.push({
        _tag: "toolCall",
        providerCallId: pick.one(["call_0", "call_0", "call_1", ""]),
        name: pick.one(names),
        arguments: pick.happens(8) ? "{malformed" : JSON.stringify(pick.one(json)),
        ...(pick.happens(20) ? { payload: { signature: "over the arguments" } } : {})
      })
    }
    return {
      _tag: "model.answered",
      at: now(),
      content: parts,
      usage: {
        inputTokens: pick.below(20),
        outputTokens: pick.below(10),
        ...(pick.happens(30) ? { cachedInputTokens: 1, reasoningTokens: 1 } : {}),
        ...(pick.below(5) === 1 ? {} : { costUsd: pick.below(10) / 100 })
      },
      finishReason: count === 0 ? "stop" : "toolCalls",
      ...(pick.happens(20) ? { profile: "fast" } : {})
    }
  }

  /** Fields that every request has. */
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

  const classify = (call: ToolCall, path: ReadonlyArray<Id.ToolCallId>): void => {
    const run = at(path)
    const fail = (text: string) =>
      emit({ _tag: "tool.failed", at: now(), callId: call.id, content: [{ _tag: "text", text }] }, path)
    if (call.name === "no_such_tool") return fail("There is no tool no_such_tool.")
    if (call.argumentsText.startsWith("{malformed")) return fail("The arguments are not JSON.")
    const args = JSON.parse(call.argumentsText) as Schema.Json
    const safety =
      call.name === "read_file" ? "readOnly" : call.name === "delete_branch" ? "privileged" : "sideEffecting"
    const classified: Extract<RunEvent, { readonly _tag: "tool.classified" }> = {
      _tag: "tool.classified",
      at: now(),
      callId: call.id,
      target: call.name === "ask_user" ? "question" : call.name === "researcher" ? "agent" : "tool",
      safety,
      idempotent: pick.happens(15),
      arguments: args
    }
    if (classified.target === "question") {
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
    if (classified.target === "agent" && path.length >= 3) return fail("Sub-agents may not nest deeper.")
    const grant = run.grants.find(
      (grant) => Grant.isActive(grant, clock) && Grant.covers(grant, call.name, args)
    )
    if (grant !== undefined) {
      return emit({ ...classified, allowedBy: `grant ${grant.id}`, grantId: grant.id }, path)
    }
    const verdict = ApprovalPolicy.judge(
      run.policy,
      call.name,
      safety !== "readOnly" && pick.below(3) !== 1,
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

  const begin = (callId: Id.ToolCallId, path: ReadonlyArray<Id.ToolCallId>): void =>
    emit({ _tag: "tool.started", at: now(), callId, idempotencyKey: callId }, path)

  const finish = (callId: Id.ToolCallId, path: ReadonlyArray<Id.ToolCallId>): void =>
    emit(
      {
        _tag: pick.below(4) === 1 ? "tool.failed" : "tool.completed",
        at: now(),
        callId,
        content: [{ _tag: "text", text: `result of ${callId}` }, ...content()]
      },
      path
    )

  /** Bodies run at the same time and end in any order; a crash leaves some of them open. */
  const settle = (callIds: ReadonlyArray<Id.ToolCallId>, path: ReadonlyArray<Id.ToolCallId>): void => {
    for (const callId of callIds) begin(callId, path)
    const open = callIds.slice()
    while (open.length > 0) {
      if (pick.happens(20)) return
      disturb()
      if (!isThere(path)) return
      const [callId] = open.splice(pick.below(open.length), 1)
      if (isStarted(callId!, path)) finish(callId!, path)
    }
  }

  const isThere = (path: ReadonlyArray<Id.ToolCallId>): boolean => {
    let run = current()
    for (const callId of path) {
      const call = findCall(run, callId)
      if (call?.child === undefined || isSettled(call)) return false
      run = call.child
    }
    return !isEnded(current()) && !isEnded(run)
  }
  const isStarted = (callId: Id.ToolCallId, path: ReadonlyArray<Id.ToolCallId>): boolean =>
    isThere(path) && findCall(at(path), callId)?.status === "started"

  const reconcile = (call: ToolCall, path: ReadonlyArray<Id.ToolCallId>): void => {
    if (call.safety === "readOnly" || call.idempotent) {
      begin(call.id, path)
      if (!pick.happens(10)) finish(call.id, path)
      return
    }
    if (pick.happens(30)) return finish(call.id, path)
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

  const cancel = (reason: string, path: ReadonlyArray<Id.ToolCallId>): void =>
    emit({ _tag: "run.cancelled", at: now(), reason, calls: reports(at(path)) }, path)

  const conclude = (end: End, path: ReadonlyArray<Id.ToolCallId>): void => {
    switch (end._tag) {
      case "completed":
        return emit({ _tag: "run.completed", at: now() }, path)
      case "cancelled":
        return cancel(end.reason, path)
      case "failed":
        return emit({ _tag: "run.failed", at: now(), failure: end.failure }, path)
    }
  }

  const callModel = (path: ReadonlyArray<Id.ToolCallId>): void => {
    if (!pick.happens(4)) return emit(answer(), path)
    switch (pick.below(3)) {
      case 0:
        return emit(
          {
            _tag: "run.failed",
            at: now(),
            failure: { _tag: "ModelFailed", reason: "Overloaded", description: "503", isRetryable: true }
          },
          path
        )
      case 1:
        return emit(
          {
            _tag: "request.opened",
            at: now(),
            request: {
              _tag: "login",
              ...requestOf(at(path)),
              profile: "fast",
              message: "The login has run out."
            }
          },
          path
        )
    }
  }

  const lineTo = (path: ReadonlyArray<Id.ToolCallId>): ReadonlyArray<RunState> =>
    path.map((_, depth) => at(path.slice(0, depth)))

  /** What the run of which nothing is left does about it; `false` when whoever wants something of it fails. */
  const seeTo = (path: ReadonlyArray<Id.ToolCallId>, nothing: NothingLeft): boolean => {
    const owner = path.slice(0, nothing.depth)
    const { budget, limit } = nothing.exceeded
    switch (onNothingLeft(at(owner), nothing)) {
      case "refused":
        return false
      case "comesToItsEnd":
        emit({ _tag: "budget.exhausted", at: now(), budget, limit }, owner)
        return true
      case "asks": {
        const request: Interruption = { _tag: "limit", ...requestOf(at(owner)), ...nothing.exceeded }
        emit({ _tag: "request.opened", at: now(), request }, owner)
        return true
      }
      case "seenTo":
        throw new Error("it was let through to what is asked about already")
    }
  }

  /** Whether the budgets above leave room for the next step of a sub-agent. */
  const hasRoom = (path: ReadonlyArray<Id.ToolCallId>, step: Step): boolean => {
    const line = lineTo(path)
    const nothing =
      step._tag === "CallModel"
        ? exceededAbove(line, at(path).limits, 0)
        : step._tag === "ClassifyCalls"
          ? exceededByCallsAbove(line)
          : undefined
    if (nothing === undefined) return true
    if (!seeTo(path, nothing)) {
      emit({ _tag: "run.failed", at: now(), failure: { _tag: "BudgetExceeded", ...nothing.exceeded } }, path)
    }
    return false
  }

  /** Performs one step of the run at the end of `path`; `false` when that run waits. */
  const perform = (path: ReadonlyArray<Id.ToolCallId>): boolean => {
    const run = at(path)
    const line = lineTo(path)
    const step = next(run, aboveOf(line))
    asked.push({ at: events.length, path, line, state: run, step })
    if (!hasRoom(path, step)) return true
    switch (step._tag) {
      case "CallModel":
        disturb()
        if (isThere(path)) callModel(path)
        return true
      case "ClassifyCalls":
        for (const callId of step.callIds) {
          classify(findCall(run, callId)!, path)
          if (pick.happens(3)) return true
        }
        return true
      case "SettleToolCalls":
        settle(step.callIds, path)
        return true
      case "ResumeChildren": {
        const call = findCall(run, step.callIds[pick.below(step.callIds.length)]!)!
        if (call.child === undefined) {
          const carved = carve([...line, run], limits())
          if (!("depth" in carved)) {
            const names = [...run.agentPath, call.name]
            emit(start(Id.childRunId(call.id), call.name, names, carved), [...path, call.id])
          } else if (!seeTo([...path, call.id], carved)) {
            const content = [{ _tag: "text", text: "It was not started." }] as const
            emit({ _tag: "tool.failed", at: now(), callId: call.id, content }, path)
          }
          return true
        }
        return perform([...path, call.id])
      }
      case "Reconcile":
        for (const callId of step.callIds) {
          if (isStarted(callId, path)) reconcile(findCall(at(path), callId)!, path)
          if (pick.happens(5)) return true
        }
        return true
      case "AskLimit":
        emit(
          {
            _tag: "request.opened",
            at: now(),
            request: { _tag: "limit", ...requestOf(run), ...step.exceeded }
          },
          path
        )
        return true
      case "DecodeOutput":
        emit(
          pick.below(3) === 1
            ? { _tag: "output.rejected", at: now(), message: "The answer is not JSON." }
            : { _tag: "run.completed", at: now(), output: pick.one(json) },
          path
        )
        return true
      case "Finish":
        conclude(step.end, path)
        return true
      case "Withdraw":
        for (const { requestId } of step.requests) {
          emit({ _tag: "request.superseded", at: now(), requestId, reason: "there is room again" }, path)
        }
        return true
      case "AskWrapUp":
        for (const call of run.calls) {
          if (call.child !== undefined && !isSettled(call)) cancel("it is used up", [...path, call.id])
        }
        emit(
          { _tag: "wrapUp.asked", at: now(), budget: step.exceeded.budget, limit: step.exceeded.limit },
          path
        )
        return true
      case "StartBackground":
      case "SettleAgents":
      case "HandOff":
      case "AwaitChildren":
        throw new Error(`${step._tag} is not simulated here.`)
      case "Hold":
        return false
    }
  }

  /** A decision that fits the request. */
  const fitting = (request: Interruption): Decision => {
    const by = pick.one(["ada", "grace", "expiry"])
    const fields = {
      requestId: request.requestId,
      by,
      at: now(),
      ...(pick.happens(15) ? { note: "seen" } : {}),
      ...(pick.happens(25) && request._tag === "approval" ? { digest: request.digest } : {})
    }
    switch (request._tag) {
      case "approval":
        switch (pick.below(6)) {
          case 1:
            return { _tag: "deny", ...fields }
          case 2:
            return {
              _tag: "deny",
              ...fields,
              message: "Not today.",
              then: pick.below(3) === 1 ? "stop" : "continue"
            }
          case 3:
            return { _tag: "supply", ...fields, result: pick.one(json) }
          case 4:
            return { _tag: "approve", ...fields, arguments: pick.one(json) }
          case 5:
            return {
              _tag: "approve",
              ...fields,
              ...(request.safety === "privileged" ? {} : { grant: grantRequest() })
            }
          default:
            return { _tag: "approve", ...fields }
        }
      case "question":
        return pick.below(4) === 1 ? { _tag: "deny", ...fields } : { _tag: "answer", ...fields, answer: "b" }
      case "inDoubt":
        switch (pick.below(4)) {
          case 1:
            return { _tag: "supply", ...fields, result: "it happened" }
          case 2:
            return { _tag: "fail", ...fields, ...(pick.below(2) === 1 ? { message: "It did not." } : {}) }
          default:
            return { _tag: "retry", ...fields }
        }
      case "limit":
        return pick.below(4) === 1
          ? { _tag: "deny", ...fields, ...(pick.below(2) === 1 ? { then: "stop" as const } : {}) }
          : { _tag: "topUp", ...fields, limit: Math.floor(request.spent) + 1 + pick.below(20) }
      case "login":
        return pick.below(4) === 1 ? { _tag: "deny", ...fields } : { _tag: "retry", ...fields }
    }
  }

  const grantRequest = (): Grant.GrantRequest => ({
    scope: pick.one(["run", "session"]),
    ...pick.one<Partial<Grant.GrantRequest>>([
      {},
      { arguments: {} },
      { arguments: { path: { _tag: "glob", pattern: "*.txt" } } },
      { arguments: { path: { _tag: "equals", value: "a.txt" } }, expiresAt: clock + 30 },
      { inherit: true }
    ])
  })

  /** A decision that nobody should take: twice, late, unknown, of another kind, about other arguments. */
  const unfitting = (): Decision => {
    const fields = { by: "mallory", at: now() }
    const open = interruptions(current())
    const request = pick.below(2) === 1 && open.length > 0 ? pick.one(open) : pick.one(everAsked)
    const requestId = request?.requestId ?? ("nobody.r1" as Id.RequestId)
    if (pick.below(3) === 1 && request?._tag === "approval" && request.safety === "privileged") {
      return { _tag: "approve", ...fields, requestId, grant: { scope: "run" } }
    }
    if (pick.below(3) === 1 && request?._tag === "limit") {
      return { _tag: "topUp", ...fields, requestId, limit: request.spent + pick.one([0, -1, 0.5]) }
    }
    switch (pick.below(6)) {
      case 1:
        return { _tag: "approve", ...fields, requestId: `${requestId}9` as Id.RequestId }
      case 2:
        return { _tag: "approve", ...fields, requestId, digest: "another" }
      case 3:
        return { _tag: "topUp", ...fields, requestId, limit: 1e9 }
      case 4:
        return { _tag: "approve", ...fields, requestId, grant: { scope: "run" } }
      case 5:
        return { _tag: "retry", ...fields, requestId }
      default:
        return { _tag: "answer", ...fields, requestId, answer: "yes" }
    }
  }

  const attempt = (decision: Decision): void => {
    const before = current()
    const result = decide(before, deepFreeze(decision))
    attempts.push({ at: events.length, before, decision, result })
    if (Result.isFailure(result)) return
    for (const event of result.success) emit(event)
  }

  /** The path of some run that is at work inside the root's. */
  const somewhere = (): ReadonlyArray<Id.ToolCallId> => {
    const path: Array<Id.ToolCallId> = []
    let run = current()
    while (true) {
      const call = run.calls.find((call) => call.child !== undefined && !isSettled(call))
      if (call?.child === undefined || isEnded(call.child) || pick.below(2) === 0) return path
      path.push(call.id)
      run = call.child
    }
  }

  /** What may happen at any moment, from outside. */
  const disturb = (): void => {
    if (isEnded(current())) return
    if (pick.happens(4)) emit({ _tag: "message.queued", at: now(), content: content() }, somewhere())
    const open = interruptions(current())
    if (open.length > 0 && pick.happens(10)) attempt(fitting(pick.one(open)))
    if (pick.happens(8)) attempt(unfitting())
    if (pick.happens(10) && current().grants.length > 0) {
      emit({ _tag: "grant.revoked", at: now(), grantId: pick.one(current().grants).id, by: "ada" })
    }
    const blow = pick.below(100)
    if (blow === 99) cancel("the user pressed stop", somewhere())
    else if (blow === 98) {
      emit(
        { _tag: "run.failed", at: now(), failure: { _tag: "RunDefect", description: "a hook threw" } },
        somewhere()
      )
    } else if (blow === 97) {
      const path = somewhere()
      const run = at(path)
      const budgets = interruptions(run).filter((request) => request._tag === "limit")
      emit(
        {
          _tag: "limits.changed",
          at: now(),
          limits: { ...run.limits, maxTurns: run.usage.turns + (budgets.length > 0 ? 20 : pick.below(9)) }
        },
        path
      )
    }
  }

  /** A request that was asked too early or about something that changed is asked again, or found out again. */
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
    const over: RunEvent = {
      _tag: "request.superseded",
      at: now(),
      requestId,
      reason: "it is asked anew",
      by
    }
    // A call waits for something all the time; of one budget, nobody is asked twice at once.
    for (const event of request._tag === "limit" ? [over, again] : [again, over]) emit(event, path)
  }

  /** The run waits: somebody parks it, decides something, talks to it; it is taken up again. */
  const hold = (): void => {
    const open = interruptions(current())
    if (open.length === 0) throw new Error("held on nothing")
    const parks = pick.below(3) !== 1
    if (parks) emit({ _tag: "run.held", at: now() })
    disturb()
    if (pick.happens(8) && !isEnded(current())) {
      const request = interruptions(current())[0]
      if (request !== undefined) ask(request)
    }
    const waiting = isEnded(current()) ? [] : interruptions(current())
    if (waiting.length > 0) attempt(fitting(pick.one(waiting)))
    if (parks && !isEnded(current())) emit({ _tag: "run.resumed", at: now() })
  }

  /** The run is over; it is tried again, or the session goes on. */
  const goesOn = (): boolean => {
    while (pick.happens(20) && everAsked.length > 0) attempt(unfitting())
    for (const request of interruptions(current())) attempt(fitting(request))
    if (pick.happens(10)) emit({ _tag: "message.queued", at: now(), content: content() })
    if (current().status === "error" && pick.below(2) === 1) {
      const { limits } = current()
      emit({ _tag: "run.resumed", at: now() })
      emit({
        _tag: "limits.changed",
        at: now(),
        limits: { ...limits, maxTurns: current().usage.turns + 3, maxToolCalls: current().toolCalls + 3 }
      })
      return true
    }
    if (pick.isOver) return false
    emit(start(`run-${++runs}` as Id.RunId, "main", ["main"]))
    return true
  }

  if (state === undefined) emit(start(`run-${++runs}` as Id.RunId, "main", ["main"]))
  do {
    while (!isEnded(current())) {
      disturb()
      if (isEnded(current())) break
      if (!perform([])) hold()
    }
    asked.push({ at: events.length, path: [], line: [], state: current(), step: next(current()) })
  } while (goesOn())
  return { events, states, attempts, asked, end: current() }
}

const pathOf = (state: RunState, request: Interruption): ReadonlyArray<Id.ToolCallId> | undefined => {
  if (state.requests.some((record) => record.request.requestId === request.requestId)) return []
  for (const call of state.calls) {
    const inside = call.child === undefined ? undefined : pathOf(call.child, request)
    if (inside !== undefined) return [call.id, ...inside]
  }
  return undefined
}

/** Every run inside a state, itself first. */
export const runsIn = (state: RunState): ReadonlyArray<RunState> => [
  state,
  ...state.calls.flatMap((call) => (call.child === undefined ? [] : runsIn(call.child)))
]
