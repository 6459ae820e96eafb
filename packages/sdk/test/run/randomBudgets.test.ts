import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { vi } from "vitest"
import * as Agent from "../../src/agent/Agent.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import type { Limits } from "../../src/domain/Limits.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { providerMessages } from "../../src/domain/RunState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, call, deny, events, probe, rebind, safe, throughJson, watch } from "../helpers/Fixture.ts"

vi.setConfig({ testTimeout: 300_000 })

/** Number of trees; set `FERMATA_BUDGET_TREES=2000` for more. */
const numRuns = Number(process.env["FERMATA_BUDGET_TREES"] ?? 40)

/** A deterministic random number generator (mulberry32). */
const randomOf = (seed: number) => {
  let state = seed
  return (below: number): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

/** A random tree of three levels with random budgets, and a model that delegates and calls tools at random. */
const treeOf = (seed: number) => {
  const random = randomOf(seed)
  const some = <A extends object>(percent: number, fields: () => A): Partial<A> =>
    random(100) < percent ? fields() : {}
  const limits = (): Partial<Limits> => ({
    maxTurns: 4 + random(8),
    agentConcurrency: 1 + random(4),
    ...some(60, () => ({ maxTokens: 100 * (2 + random(9)) })),
    ...some(30, () => ({ maxCostUsd: 2 + random(9) })),
    ...some(20, () => ({ maxTreeTurns: 3 + random(9) })),
    ...some(20, () => ({ maxTreeToolCalls: 2 + random(9) })),
    ...some(40, () => ({ wrapUp: true }))
  })
  const write = probe("write", { needsApproval: true })
  const tools = [safe("read").tool, write.tool]
  const leaf = (name: string) => Agent.make(name, { tools, limits: limits() })
  const middle = (name: string, ...subAgents: ReadonlyArray<Agent.Any>) =>
    Agent.make(name, { tools, subAgents, delegation: "delegate", limits: limits() })
  const lead = middle("lead", middle("m", leaf("a"), leaf("b")), leaf("c"), leaf("d"))
  const under: Record<string, ReadonlyArray<string>> = { lead: ["m", "c", "d"], m: ["a", "b"] }
  const usage = { inputTokens: 50, outputTokens: 50, costUsd: 1 }
  let delegated = 0
  const model = ScriptedModel.make(({ agentPath, settings, turn }) => {
    const known = under[agentPath.at(-1) ?? ""] ?? []
    if (settings?.toolChoice === "none" || turn > 4 || random(4) === 0) return { text: "said", usage }
    const calls = Array.from({ length: 1 + random(3) }, (_, index) => {
      if (known.length === 0 || random(3) === 0 || delegated > 12) {
        return call(random(2) === 0 ? "read" : "write", `${turn}.${index}`)
      }
      delegated += 1
      return {
        tool: "delegate",
        arguments: { agent: known[random(known.length)]!, prompt: "work", background: random(2) === 0 }
      }
    })
    return { calls, usage }
  })
  return { lead, model, random }
}

/** A random decision on the request. */
const answer = (request: Interruption, random: (below: number) => number): DecisionInput =>
  random(8) === 0
    ? deny(request)
    : request._tag === "limit"
      ? {
          _tag: "topUp",
          requestId: request.requestId,
          by: "ann",
          limit: Math.floor(request.spent) + 1 + random(800)
        }
      : approve(request)

describe("a tree of agents with budgets", () => {
  it.effect("ends for random decisions, and always has an open request while it is held", () =>
    Effect.gen(function* () {
      const ends = { completed: 0, error: 0, withdrawn: 0, wrappedUp: 0, rounds: 0 }
      const first = Number(process.env["FERMATA_BUDGET_SEED"] ?? 1)
      for (let seed = first; seed < first + numRuns; seed++) {
        const { lead, model, random } = treeOf(seed)
        const { onUpdate, tags, updates } = watch()
        const { runtime } = yield* rebind(lead, model)
        let result = yield* runPromptStored(runtime, { prompt: "go" }, { onUpdate })
        for (let round = 0; result.status === "interrupted"; round++) {
          assert.isBelow(round, 200, `seed ${seed} does not end`)
          const { interruptions, runId } = result
          assert.isNotEmpty(interruptions, `seed ${seed} waits for nothing`)
          // The inbox has the requests that the run waits for.
          const pending = yield* (yield* RunStore).pending({ runId })
          const ids = (requests: ReadonlyArray<Interruption>) =>
            requests.map(({ requestId }) => requestId).toSorted()
          assert.deepStrictEqual(
            ids(pending.map(({ request }) => request)),
            ids(interruptions),
            `seed ${seed}`
          )
          assert.deepStrictEqual(throughJson(result.state), result.state)
          const decisions = [answer(interruptions[random(interruptions.length)]!, random)]
          result = yield* runPromptStored(runtime, { runId, decisions }, { onUpdate })
          ends.rounds += 1
        }
        // A failed run keeps its calls open: the history for a provider has synthetic results for them.
        assert.isUndefined(ScriptedModel.validateHistory(providerMessages(result.state)), `seed ${seed}`)
        assert.include(["completed", "error"], result.status, `seed ${seed}`)
        if (result.status === "error") {
          assert.strictEqual(result.error._tag, "BudgetExceeded", `seed ${seed}: ${result.error.message}`)
        }
        ends[result.status as "completed" | "error"] += 1
        if (tags().includes("wrapUp.asked")) ends.wrappedUp += 1
        ends.withdrawn += events(updates).filter((event) => {
          const { event: inner } = unwrap(event)
          return inner._tag === "request.superseded" && inner.reason.startsWith("there is room")
        }).length
      }
      // The seeds covered each case.
      for (const [what, times] of Object.entries(ends)) assert.isAbove(times, 0, what)
      if (process.env["FERMATA_BUDGET_TREES"] !== undefined) console.log(ends)
    }).pipe(Effect.provide(layerMemory))
  )
})
