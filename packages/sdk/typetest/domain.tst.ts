import type * as Schema from "effect/Schema"
import { describe, expect, it } from "tstyche"
import type { decide } from "../src/domain/decide.ts"
import type {
  Answer,
  Approve,
  Decision,
  DecisionInput,
  DecisionToRecord,
  Deny,
  Fail,
  Retry,
  Supply,
  TopUp
} from "../src/domain/Decision.ts"
import type { evolve } from "../src/domain/evolve.ts"
import type { GrantId, RequestId, Revision, RunId, SessionId, ToolCallId } from "../src/domain/Id.ts"
import * as Id from "../src/domain/Id.ts"
import type { Interruption, Kind } from "../src/domain/Interruption.ts"
import type { Constraints, next, Step } from "../src/domain/next.ts"
import type { Rejection } from "../src/domain/Rejection.ts"
import type { RunFailure } from "../src/domain/RunError.ts"
import type { RunEvent } from "../src/domain/RunEvent.ts"
import { RunState } from "../src/domain/RunState.ts"
import type { Status, ToolCall } from "../src/domain/RunState.ts"

describe("RunEvent", () => {
  it("is exhaustive by _tag", () => {
    expect<RunEvent["_tag"]>().type.toBe<
      | "run.started"
      | "model.answered"
      | "model.charged"
      | "tool.classified"
      | "tool.started"
      | "tool.notStarted"
      | "sandbox.opened"
      | "tool.completed"
      | "tool.failed"
      | "tool.denied"
      | "plan.updated"
      | "request.opened"
      | "request.decided"
      | "request.superseded"
      | "request.expiring"
      | "grant.revoked"
      | "message.queued"
      | "messages.read"
      | "budget.nearing"
      | "budget.exhausted"
      | "wrapUp.asked"
      | "compaction.requested"
      | "compaction.skipped"
      | "context.pruned"
      | "context.compacted"
      | "message.pinned"
      | "message.unpinned"
      | "memory.retrieved"
      | "agent.changed"
      | "output.rejected"
      | "limits.changed"
      | "policy.changed"
      | "session.renamed"
      | "run.held"
      | "run.recovered"
      | "run.restored"
      | "run.resumed"
      | "run.completed"
      | "run.cancelled"
      | "run.failed"
      | "child.advanced"
    >()
  })

  it("narrows by _tag, inside a sub-agent's events too", () => {
    type Child = Extract<RunEvent, { readonly _tag: "child.advanced" }>
    expect<Child["event"]>().type.toBe<RunEvent>()
    expect<Extract<RunEvent, { readonly _tag: "request.decided" }>["decision"]>().type.toBe<Decision>()
  })

  it("always has a time", () => {
    expect<RunEvent["at"]>().type.toBe<number>()
  })
})

describe("Decision", () => {
  it("is exhaustive by _tag", () => {
    expect<Decision>().type.toBe<Approve | Deny | Answer | Supply | Retry | Fail | TopUp>()
    expect<Decision["_tag"]>().type.toBe<
      "approve" | "deny" | "answer" | "supply" | "retry" | "fail" | "topUp"
    >()
  })

  it("takes no time as input except in a store, and keeps its kinds apart", () => {
    const by = { requestId: Id.requestId("r" as RunId, 1), by: "ada" }
    expect<DecisionInput>().type.toBeAssignableFrom({ _tag: "approve" as const, ...by })
    expect<DecisionInput>().type.not.toBeAssignableFrom({ _tag: "approve" as const, ...by, at: 1 })
    expect<DecisionToRecord>().type.toBeAssignableFrom({ _tag: "approve" as const, ...by, at: 1 })
    expect<Decision>().type.not.toBeAssignableFrom({ _tag: "approve" as const, ...by })
    expect<DecisionInput>().type.not.toBeAssignableFrom({ _tag: "answer" as const, ...by })
    expect<DecisionInput>().type.not.toBeAssignableFrom({ _tag: "approve" as const, by: "ada" })
    expect<DecisionInput>().type.not.toBeAssignableFrom({ _tag: "approve" as const, requestId: by.requestId })
    expect<DecisionInput>().type.not.toBeAssignableFrom({ _tag: "yes" as const, ...by })
  })
})

describe("an id", () => {
  it("of one kind is not assignable to another", () => {
    expect<RunId>().type.not.toBeAssignableTo<SessionId>()
    expect<SessionId>().type.not.toBeAssignableTo<RunId>()
    expect<ToolCallId>().type.not.toBeAssignableTo<RunId>()
    expect<ToolCallId>().type.not.toBeAssignableTo<RequestId>()
    expect<RequestId>().type.not.toBeAssignableTo<GrantId>()
    expect<RequestId>().type.not.toBeAssignableTo<ToolCallId>()
    expect<string>().type.not.toBeAssignableTo<RunId>()
    expect<number>().type.not.toBeAssignableTo<Revision>()
    expect<RunId>().type.toBeAssignableTo<string>()
  })

  it("is derived only from ids of the right kind", () => {
    expect(Id.toolCallId).type.toBeCallableWith("r" as RunId, 1, 1)
    expect(Id.toolCallId).type.not.toBeCallableWith("s" as SessionId, 1, 1)
    expect(Id.grantId).type.not.toBeCallableWith("c" as ToolCallId)
    expect(Id.childRunId("c" as ToolCallId)).type.toBe<RunId>()
  })
})

describe("RunState", () => {
  it("has one status of five", () => {
    expect<RunState["status"]>().type.toBe<Status>()
    expect<Status>().type.toBe<"running" | "held" | "completed" | "cancelled" | "error">()
  })

  it("is decoded by its schema from an unknown value", () => {
    expect(RunState).type.toBe<Schema.Codec<RunState, unknown>>()
  })

  it("is read-only", () => {
    expect<RunState["calls"]>().type.toBe<ReadonlyArray<ToolCall>>()
    expect<RunState["calls"]>().type.not.toBeAssignableTo<Array<ToolCall>>()
    expect<Pick<RunState, "status">>().type.toBe<{ readonly status: Status }>()
  })

  it("holds a sub-agent's state in the call that started it", () => {
    expect<Required<ToolCall>["child"]>().type.toBe<RunState>()
  })
})

describe("the pure core", () => {
  it("is three functions over plain values", () => {
    expect<typeof next>().type.toBe<(state: RunState, constraints?: Constraints) => Step>()
    expect<ReturnType<typeof evolve>>().type.toBe<RunState>()
    expect<Parameters<typeof decide>>().type.toBe<[state: RunState, decision: Decision]>()
  })

  it("returns one of seventeen steps", () => {
    expect<Step["_tag"]>().type.toBe<
      | "CallModel"
      | "Compact"
      | "ClassifyCalls"
      | "SettleToolCalls"
      | "ResumeChildren"
      | "StartBackground"
      | "AwaitChildren"
      | "SettleAgents"
      | "HandOff"
      | "RecordResults"
      | "Withdraw"
      | "AskWrapUp"
      | "Reconcile"
      | "AskLimit"
      | "DecodeOutput"
      | "Hold"
      | "Finish"
    >()
  })

  it("has requests of five kinds", () => {
    expect<Interruption["_tag"]>().type.toBe<Kind>()
    expect<Interruption["requestId"]>().type.toBe<RequestId>()
  })

  it("refuses with one of nine reasons, and fails with one of four", () => {
    expect<Rejection["_tag"]>().type.toBe<
      | "RequestNotFound"
      | "AlreadyDecided"
      | "RequestSuperseded"
      | "ArgumentsChanged"
      | "DecisionNotApplicable"
      | "GrantRefused"
      | "EditedArgumentsInvalid"
      | "SuppliedResultInvalid"
      | "DecisionMalformed"
    >()
    expect<RunFailure["_tag"]>().type.toBe<
      "BudgetExceeded" | "ContentMissing" | "ModelFailed" | "RunDefect" | "WindowUnknown" | "WorkersLost"
    >()
  })
})
