import { assert, describe, it } from "@effect/vitest"
import * as Usage from "../../src/domain/Usage.ts"

describe("Usage", () => {
  it("adds a model call as one request and one turn", () => {
    const total = Usage.addModelCall(Usage.zero, {
      inputTokens: 10,
      cachedInputTokens: 4,
      outputTokens: 5,
      reasoningTokens: 2,
      costUsd: 0.5
    })
    assert.deepStrictEqual(total, {
      inputTokens: 10,
      cachedInputTokens: 4,
      outputTokens: 5,
      reasoningTokens: 2,
      requests: 1,
      turns: 1,
      costUsd: 0.5,
      unpricedRequests: 0
    })
    assert.strictEqual(Usage.totalTokens(total), 15)
  })

  it("counts an unknown cost as unpriced, not as zero", () => {
    const total = Usage.addModelCall(Usage.zero, { inputTokens: 1, outputTokens: 1 })
    assert.deepStrictEqual([total.costUsd, total.unpricedRequests], [0, 1])
    assert.strictEqual(Usage.add(total, total).unpricedRequests, 2)
  })
})
