import { assert, describe, it } from "@effect/vitest"
import * as Limits from "../../src/domain/Limits.ts"
import * as Usage from "../../src/domain/Usage.ts"

describe("Limits", () => {
  const usage = (fields: Partial<Usage.SessionUsage>): Usage.SessionUsage => ({ ...Usage.zero, ...fields })

  it("bound a run to eight turns by default, and nothing else", () => {
    assert.isUndefined(Limits.exceeded(Limits.defaults, usage({ turns: 7, inputTokens: 1e9, costUsd: 1e9 })))
    assert.deepStrictEqual(Limits.exceeded(Limits.defaults, usage({ turns: 8 })), {
      budget: "turns",
      limit: 8,
      spent: 8
    })
  })

  it("count input and output tokens together", () => {
    const limits = { ...Limits.defaults, maxTokens: 100 }
    assert.isUndefined(
      Limits.exceeded(limits, usage({ inputTokens: 60, outputTokens: 39, cachedInputTokens: 60 }))
    )
    assert.deepStrictEqual(Limits.exceeded(limits, usage({ inputTokens: 60, outputTokens: 40 })), {
      budget: "tokens",
      limit: 100,
      spent: 100
    })
  })

  it("treat an unknown cost as exceeded while money is limited", () => {
    const limits = { ...Limits.defaults, maxCostUsd: 1 }
    assert.isUndefined(Limits.exceeded(limits, usage({ costUsd: 0.99 })))
    assert.strictEqual(Limits.exceeded(limits, usage({ costUsd: 1 }))?.budget, "cost")
    assert.strictEqual(Limits.exceeded(limits, usage({ unpricedRequests: 1 }))?.budget, "cost")
    assert.isUndefined(Limits.exceeded(Limits.defaults, usage({ unpricedRequests: 1 })))
  })

  it("change one budget and keep the others", () => {
    for (const budget of Limits.Budget.literals) {
      const limits = Limits.withBudget(Limits.defaults, budget, 42)
      assert.strictEqual(Limits.budgetOf(limits, budget), 42)
      for (const other of Limits.Budget.literals) {
        if (other !== budget)
          assert.strictEqual(Limits.budgetOf(limits, other), Limits.budgetOf(Limits.defaults, other))
      }
    }
  })
})
