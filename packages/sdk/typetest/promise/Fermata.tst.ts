import type { Agent } from "@fermata/sdk/agent"
import { approve, type Fermata, type RunHandle } from "@fermata/sdk/promise"
import type { RunResult } from "@fermata/sdk/run"
import type { RunStorePort } from "@fermata/sdk/store"
import { describe, expect, it } from "tstyche"

interface Answer {
  readonly ok: boolean
}
declare const fermata: Fermata.Fermata
declare const conductor: RunHandle.RunConductor
declare const agent: Agent.Agent<never, Answer>
declare const handle: RunHandle.RunHandle<Answer>

describe("the agent of a stored run", () => {
  it("types the result of resuming, forking and reading the run", () => {
    expect(fermata.resume("run", { agent })).type.toBe<Promise<RunResult.RunResult<Answer>>>()
    expect(fermata.fork("run", "go", { agent })).type.toBe<Promise<RunResult.RunResult<Answer>>>()
    const read = fermata.result("run", { agent })
    expect<Extract<Awaited<typeof read>, { status: "completed" }>["output"]>().type.toBe<Answer>()
    const ofHandle = fermata.result(handle)
    expect<Extract<Awaited<typeof ofHandle>, { status: "completed" }>["output"]>().type.toBe<Answer>()
  })
  it("types the handles of attach and of a conductor's dispatch", () => {
    expect(fermata.attach("run", { agent })).type.toBe<Promise<RunHandle.RunHandle<Answer>>>()
    expect(conductor.dispatch(agent, "go")).type.toBe<Promise<RunHandle.RunHandle<Answer>>>()
  })
  it("leaves the output unknown if it is left out or given by its name", () => {
    expect(fermata.resume("run")).type.toBe<Promise<RunResult.RunResult>>()
    expect(fermata.attach("run", { agent: "clerk" })).type.toBe<Promise<RunHandle.RunHandle>>()
    expect(conductor.dispatch("clerk", "go")).type.toBe<Promise<RunHandle.RunHandle>>()
    expect(conductor.adopt()).type.toBe<Promise<ReadonlyArray<RunHandle.RunHandle>>>()
  })
})

describe("the check of a store", () => {
  it("yields runs with reasons that can be told apart", async () => {
    for await (const { blocking, head } of fermata.checkAll({ otherAgents: ["billing"] })) {
      expect(head?.agent).type.toBe<string | undefined>()
      expect(blocking[0]?._tag).type.toBe<"AgentNotFound" | "ToolUnavailable" | "RunStoreError" | undefined>()
    }
    expect(fermata.checkAll).type.not.toBeCallableWith({ otherAgents: "billing" })
  })
})

describe("a stream of a run", () => {
  it("yields text, and types the result by the agent's output", () => {
    const stream = fermata.stream(agent, "go")
    expect(stream).type.toBeAssignableTo<AsyncIterable<string>>()
    expect(stream.result).type.toBe<Promise<RunResult.RunResult<Answer>>>()
    expect(fermata.stream("clerk", "go").result).type.toBe<Promise<RunResult.RunResult>>()
    expect(fermata.resumeStream("run", { agent })).type.toBeAssignableTo<AsyncIterable<string>>()
    expect(fermata.resumeStream("run", { agent }).result).type.toBe<Promise<RunResult.RunResult<Answer>>>()
    expect(fermata.resumeStream("run").result).type.toBe<Promise<RunResult.RunResult>>()
  })
})

describe("submitting a prompt", () => {
  it("resolves to the head of the run, and takes no options of a drive", () => {
    expect(fermata.submit(agent, "go", { runId: "run" })).type.toBe<Promise<RunStorePort.RunHead>>()
    expect(fermata.submit).type.not.toBeCallableWith("clerk", "go", { onUpdate: () => {} })
    expect(fermata.submit).type.not.toBeCallableWith("clerk", "go", { signal: AbortSignal.abort() })
  })
})

describe("an option that may be undefined", () => {
  it("is taken as absent, as with a value from a request", () => {
    const given = undefined as string | undefined
    expect(fermata.submit).type.toBeCallableWith("clerk", "go", { runId: given, sessionId: given })
    expect(fermata.pending).type.toBeCallableWith({ runId: given, agent: given })
    expect(fermata.decide).type.toBeCallableWith("run.r1", approve(), { note: given, idempotencyKey: given })
  })
})
