/**
 * Synthetic models, people and settings for `simulate`, chosen by the tape.
 */
import type * as Schema from "effect/Schema"
import type * as ApprovalPolicy from "../../src/domain/ApprovalPolicy.ts"
import type { Decision } from "../../src/domain/Decision.ts"
import type * as Grant from "../../src/domain/Grant.ts"
import type * as Id from "../../src/domain/Id.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import * as Limits from "../../src/domain/Limits.ts"
import type { UserPart } from "../../src/domain/Message.ts"
import { waitName } from "../../src/domain/next.ts"
import type { AnsweredPart, RunEvent } from "../../src/domain/RunEvent.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import type { StartOptions } from "../../src/domain/StartOptions.ts"
import type { Target } from "../../src/domain/ToolCall.ts"
import type { ModelUsage } from "../../src/domain/Usage.ts"
import type { Reader } from "./Tape.ts"

/** The tools that a model can call; the first is the choice of an exhausted tape. */
const tools = [
  "read_file",
  "write_file",
  "delete_branch",
  "ask_user",
  "researcher",
  "no_such_tool",
  "read_file",
  "write_file",
  "researcher",
  "scout",
  "researcher",
  "scout",
  "read_file",
  waitName,
  "transfer_to_writer"
] as const

/** The tools that a model can also call while it has background sub-agents. */
const aboutAgents = [waitName, "message_agent", "cancel_agent", "list_agents"] as const

/** The target of a call by its name. */
export const targetOf = (name: string): Target => {
  switch (name) {
    case "ask_user":
      return "question"
    case "researcher":
      return "agent"
    case "scout":
      return "background"
    case "transfer_to_writer":
      return "handoff"
    default:
      return (aboutAgents as ReadonlyArray<string>).includes(name) ? "agents" : "tool"
  }
}

export const json: ReadonlyArray<Schema.Json> = [
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

export const content = (pick: Reader): ReadonlyArray<UserPart> =>
  pick.one<ReadonlyArray<UserPart>>([
    [{ _tag: "text", text: "ok" }],
    [],
    [
      { _tag: "text", text: "" },
      { _tag: "file", mediaType: "image/png", source: { _tag: "bytes", base64: "AAEC" }, name: "a.png" }
    ],
    [{ _tag: "file", mediaType: "text/plain", source: { _tag: "url", url: "https://example.com/a" } }]
  ])

export const limits = (pick: Reader): Limits.Limits => ({
  ...Limits.defaults,
  maxTurns: 8 - pick.below(5),
  ...(pick.happens(15) ? { maxToolCalls: pick.below(6) } : {}),
  ...(pick.happens(35) ? { maxTokens: 30 + pick.below(150) } : {}),
  ...(pick.happens(30) ? { maxCostUsd: pick.below(6) / 10 } : {}),
  ...(pick.happens(12) ? { maxTreeTurns: 2 + pick.below(9) } : {}),
  ...(pick.happens(12) ? { maxTreeToolCalls: 2 + pick.below(12) } : {}),
  ...(pick.happens(12) ? { maxWallMs: 10 + pick.below(60) } : {}),
  ...(pick.happens(25) ? { wrapUp: true } : {}),
  ...(pick.happens(10) ? { warnAt: 0.5, maxRecoveries: 1 } : {})
})

/** The limits with every budget raised, or lowered. */
export const otherLimits = (pick: Reader, run: RunState): Limits.Limits => {
  const { limits, toolCalls, usage } = run
  const more = pick.below(3) !== 1
  return {
    ...limits,
    maxTurns: usage.turns + (more ? 3 : pick.below(9)),
    ...(limits.maxToolCalls === undefined && more ? {} : { maxToolCalls: toolCalls + (more ? 9 : 0) }),
    ...(limits.maxTokens === undefined
      ? {}
      : { maxTokens: Math.max(0, limits.maxTokens + (more ? 90 : -20)) }),
    ...(limits.maxCostUsd === undefined || !more ? {} : { maxCostUsd: limits.maxCostUsd + 1 }),
    ...(limits.maxTreeTurns === undefined || !more ? {} : { maxTreeTurns: limits.maxTreeTurns + 5 }),
    ...(limits.maxWallMs === undefined || !more ? {} : { maxWallMs: limits.maxWallMs + 80 })
  }
}

export const policy = (pick: Reader): ApprovalPolicy.ApprovalPolicy =>
  pick.one<ApprovalPolicy.ApprovalPolicy>([
    { mode: "ask" },
    { mode: "ask", rules: [{ tool: "read_*", action: "ask" }] },
    { mode: "all" },
    { mode: "none" },
    { mode: "until", until: 1040 },
    { mode: "ask", rules: [{ tool: "delete_*", action: "deny", message: "Never." }] }
  ])

export const otherPolicies = (pick: Reader): Pick<RunState, "otherPolicies"> =>
  pick.happens(20) ? { otherPolicies: [policy(pick)] } : {}

export const startedWith = (pick: Reader): StartOptions =>
  pick.one<StartOptions>([
    {},
    { policy: policy(pick), policyFor: "main" },
    { limits: { maxTurns: 4 } },
    { profilePolicy: policy(pick) }
  ])

/** A model's answer in `run`. */
export const answer = (pick: Reader, run: RunState, at: number): RunEvent => {
  const count = pick.below(6)
  const { background = [] } = run
  const parts: Array<AnsweredPart> = []
  if (pick.happens(15)) {
    parts.push({
      _tag: "reasoning",
      text: "hm",
      provider: "acme",
      payload: { signature: "s", n: pick.below(9) }
    })
  }
  if (pick.below(4) !== 1) parts.push({ _tag: "text", text: count === 0 ? "Done." : "Let me see." })
  for (let i = 0; i < count; i++) {
    const name = pick.one(background.length > 0 && pick.below(4) === 1 ? aboutAgents : tools)
    const args = targetOf(name) === "agents" ? argumentsOf(pick, name, background) : pick.one(json)
    parts.push({
      _tag: "toolCall",
      providerCallId: pick.one(["call_0", "call_0", "call_1", ""]),
      name,
      arguments: pick.happens(5) ? "{malformed" : JSON.stringify(args),
      ...(pick.happens(10) ? { payload: { signature: "over the arguments" } } : {})
    })
  }
  return {
    _tag: "model.answered",
    at,
    content: parts,
    usage: usage(pick),
    finishReason: count === 0 ? "stop" : "toolCalls",
    ...(pick.happens(10) ? { profile: "fast" } : {})
  }
}

export const usage = (pick: Reader): ModelUsage => ({
  inputTokens: pick.below(20),
  outputTokens: pick.below(10),
  ...(pick.happens(30) ? { cachedInputTokens: 1, reasoningTokens: 1 } : {}),
  ...(pick.happens(4) ? {} : { costUsd: pick.below(10) / 100 })
})

const argumentsOf = (
  pick: Reader,
  name: string,
  background: NonNullable<RunState["background"]>
): Schema.Json => {
  const agentRun = background.length === 0 ? "nobody" : pick.one(background).callId
  switch (name) {
    case waitName:
      return pick.below(3) === 1 ? { agentRuns: [agentRun, "nobody"] } : {}
    case "message_agent":
      return { agentRun, message: "Hurry." }
    case "cancel_agent":
      return pick.below(2) === 1 ? { agentRun, reason: "It takes too long." } : { agentRun }
    default:
      return {}
  }
}

const grantRequest = (pick: Reader, clock: number): Grant.GrantRequest => ({
  scope: pick.one(["run", "session"]),
  ...pick.one<Partial<Grant.GrantRequest>>([
    {},
    { arguments: {} },
    { arguments: { path: { _tag: "glob", pattern: "*.txt" } } },
    { arguments: { path: { _tag: "equals", value: "a.txt" } }, expiresAt: clock + 30 },
    { inherit: true }
  ])
})

/** A decision that fits the request. */
export const fitting = (pick: Reader, request: Interruption, at: number): Decision => {
  const by = pick.one(["ada", "grace", "expiry"])
  const fields = {
    requestId: request.requestId,
    by,
    at,
    ...(pick.happens(15) ? { note: "seen" } : {}),
    ...(pick.happens(25) && request._tag === "approval" ? { digest: request.digest } : {})
  }
  switch (request._tag) {
    case "approval":
      switch (pick.below(8)) {
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
            ...(request.safety === "privileged" ? {} : { grant: grantRequest(pick, at) })
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
        : { _tag: "topUp", ...fields, limit: enough(request) + pick.below(20) }
    case "login":
      return pick.below(4) === 1 ? { _tag: "deny", ...fields } : { _tag: "retry", ...fields }
    case "timer":
    case "external":
      return pick.below(4) === 1
        ? { _tag: "fail", ...fields }
        : { _tag: "supply", ...fields, result: "the wait is over" }
  }
}

/** A limit that leaves room for the time that passes meanwhile and for a turn of wrapping up another budget. */
export const enough = ({ budget, limit, spent }: Extract<Interruption, { readonly _tag: "limit" }>): number =>
  Math.floor(Math.max(limit, spent)) + (budget === "wallTime" ? 60 : 3)

/** A decision that must be rejected: repeated, late, unknown, of another kind or about other arguments. */
export const unfitting = (
  pick: Reader,
  open: ReadonlyArray<Interruption>,
  everAsked: ReadonlyArray<Interruption>,
  at: number
): Decision => {
  const fields = { by: "mallory", at }
  const request = pick.below(2) === 1 && open.length > 0 ? pick.one(open) : pick.one(everAsked)
  const requestId = request?.requestId ?? ("nobody.r1" as Id.RequestId)
  if (pick.below(3) === 1 && request?._tag === "approval" && request.safety === "privileged") {
    return { _tag: "approve", ...fields, requestId, grant: { scope: "run" } }
  }
  if (pick.below(3) === 1 && request?._tag === "limit") {
    const limit = pick.one([request.spent, request.spent - 1, request.spent + 0.5, request.limit])
    return { _tag: "topUp", ...fields, requestId, limit }
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
