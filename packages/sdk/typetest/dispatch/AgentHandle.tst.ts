import type { Agent, Runtime } from "@fermata/sdk/agent"
import {
  type AgentHandle,
  attach,
  Conductor,
  dispatchPrompt,
  dispatchPromptStored
} from "@fermata/sdk/dispatch"
import { readResult } from "@fermata/sdk/durable"
import type { RunResult } from "@fermata/sdk/run"
import type { RunStore } from "@fermata/sdk/store"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { describe, expect, it } from "tstyche"

interface Answer {
  readonly ok: boolean
}
declare const runtime: Runtime.Runtime<Answer>
declare const agent: Agent.Agent<never, Answer>
declare const conductor: Conductor.Conductor

type Needs<T> = T extends Effect.Effect<unknown, unknown, infer R> ? R : never

describe("dispatchPrompt", () => {
  it("requires a scope, types the agent's answer, and has no store errors", () => {
    const dispatched = dispatchPrompt(runtime, { prompt: "go" })
    expect<Needs<typeof dispatched>>().type.toBe<Scope.Scope>()
    expect<Effect.Success<typeof dispatched>>().type.toBe<AgentHandle.AgentHandle<Answer>>()
    type Done = AgentHandle.AgentHandle<Answer>["done"]
    expect<Effect.Success<Done>>().type.toBe<RunResult.RunResult<Answer>>()
    expect<Effect.Error<Done>>().type.toBe<AgentHandle.HandleError>()
  })
})

describe("dispatchPromptStored", () => {
  it("requires a store, and has its errors", () => {
    const dispatched = dispatchPromptStored(runtime, { prompt: "go" })
    expect<Needs<typeof dispatched>>().type.toBe<Scope.Scope | RunStore.RunStore>()
    expect<Effect.Success<typeof dispatched>>().type.toBe<
      AgentHandle.AgentHandle<Answer, AgentHandle.StoredFault>
    >()
    const found = attach([runtime], "run" as never)
    expect<Effect.Success<typeof found>>().type.toBe<
      AgentHandle.AgentHandle<unknown, AgentHandle.StoredFault>
    >()
  })
})

describe("the agent of a stored run", () => {
  it("types what attach and readResult return", () => {
    const found = attach([runtime], "run" as never, { agent })
    expect<Effect.Success<typeof found>>().type.toBe<
      AgentHandle.AgentHandle<Answer, AgentHandle.StoredFault>
    >()
    const read = readResult("run" as never, { agent, runtimes: [runtime] })
    type Read = Effect.Success<typeof read>
    expect<Extract<Read, { readonly status: "completed" }>["output"]>().type.toBe<Answer>()
    expect<Needs<typeof read>>().type.toBe<RunStore.RunStore>()
  })
})

describe("Conductor", () => {
  it("joins handles with and without a store, and types their answers", () => {
    const stored = null as unknown as AgentHandle.AgentHandle<Answer, AgentHandle.StoredFault>
    const plain = null as unknown as AgentHandle.AgentHandle<Answer>
    expect<Effect.Success<ReturnType<typeof Conductor.all<Answer, AgentHandle.StoredFault>>>>().type.toBe<
      ReadonlyArray<RunResult.RunResult<Answer>>
    >()
    expect(Conductor.all([plain, stored])).type.toBe<
      Effect.Effect<
        ReadonlyArray<RunResult.RunResult<Answer>>,
        AgentHandle.HandleError | AgentHandle.StoredFault
      >
    >()
    expect(conductor.adopt([runtime])).type.toBeAssignableTo<
      Effect.Effect<
        ReadonlyArray<AgentHandle.AgentHandle<unknown, AgentHandle.StoredFault>>,
        unknown,
        unknown
      >
    >()
    expect(conductor.adopt).type.not.toBeCallableWith([runtime], { name: "a" })
    expect(conductor.dispatch(runtime, { prompt: "go" })).type.toBeAssignableTo<
      Effect.Effect<AgentHandle.AgentHandle<Answer>, unknown>
    >()
  })
})
