import { describe, expect, it } from "tstyche"
import type * as Decision from "../../src/domain/Decision.ts"
import type * as Id from "../../src/domain/Id.ts"
import { exportRun } from "../../src/durable/archive.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { explain } from "../../src/durable/explain.ts"
import { rewindPoints } from "../../src/durable/forkRun.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { readMessages } from "../../src/durable/readMessages.ts"
import { readResult } from "../../src/durable/readResult.ts"
import { revokeGrant } from "../../src/durable/revokeGrant.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import type { ForkInput, StoredContinueInput } from "../../src/durable/storedInput.ts"
import type { StartInput } from "../../src/run/runInput.ts"

describe("Id", () => {
  it("keeps the kinds of ids apart", () => {
    expect<Id.ToolCallId>().type.not.toBeAssignableTo<Id.RunId>()
    expect<Id.RequestId>().type.not.toBeAssignableTo<Id.ToolCallId>()
    expect<string>().type.not.toBeAssignableTo<Id.RunId>()
  })

  it("takes plain strings where a program passes an id", () => {
    expect(loadState).type.toBeCallableWith("run")
    expect(readResult).type.toBeCallableWith("run")
    expect(explain).type.toBeCallableWith("run")
    expect(cancelRun).type.toBeCallableWith("run", "enough")
    expect(sendMessage).type.toBeCallableWith("run", "hello")
    expect(revokeGrant).type.toBeCallableWith("run", "grant", "ana")
    expect(rewindPoints).type.toBeCallableWith("run")
    expect(exportRun).type.toBeCallableWith("run")
    expect(readMessages).type.toBeCallableWith("session")
    expect<{ prompt: string; runId: string; sessionId: string }>().type.toBeAssignableTo<StartInput>()
    expect<{ message: string; runId: string }>().type.toBeAssignableTo<StoredContinueInput>()
    expect<{ prompt: string; runId: string; newRunId: string }>().type.toBeAssignableTo<ForkInput>()
    expect<{
      _tag: "approve"
      requestId: string
      by: string
    }>().type.toBeAssignableTo<Decision.DecisionInput>()
  })

  it("makes every id assignable to a string", () => {
    expect<Id.RunId>().type.toBeAssignableTo<string>()
  })
})
