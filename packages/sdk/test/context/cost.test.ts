import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as ContextPolicy from "../../src/context/ContextPolicy.ts"
import * as History from "../../src/domain/History.ts"
import { defaults } from "../../src/domain/Limits.ts"
import type { Message } from "../../src/domain/Message.ts"
import { count } from "./Histories.ts"

const message = (sequence: number): Message => ({
  role: sequence % 2 === 0 ? "user" : "assistant",
  sequence,
  at: 1,
  content: [{ _tag: "text", text: `Message ${sequence}. ${"words ".repeat(30)}` }]
})

describe("preparing a turn", () => {
  it("reads as many messages in a history of 4,000 as in one of 200", () => {
    const policy = ContextPolicy.compacting()
    const readsAt = (size: number): number => {
      let reads = 0
      const counting = (one: Message) => {
        reads += 1
        return count(one)
      }
      const summary = { text: "short", to: size - (size % 64) - 64, quality: "model" as const, at: 1 }
      const compaction = { summary }
      const pinned: ReadonlyArray<number> = []
      let history = History.fromArray(Array.from({ length: size }, (_, index) => message(index)))
      const prepare = () =>
        Effect.runSync(
          policy.prepare({
            instructions: "Be kind.",
            get messages(): ReadonlyArray<Message> {
              return assert.fail("the whole history was read")
            },
            promptAt: size - 2,
            limits: defaults,
            contextTokens: 32_000,
            view: {
              history,
              compaction,
              pinned,
              countMessage: counting,
              countText: (text) => text.length / 3,
              toolTokens: 100
            }
          })
        )
      prepare()
      reads = 0
      for (let turn = 0; turn < 40; turn += 1) {
        history = History.append(history, message(History.size(history)))
        prepare()
      }
      return reads
    }
    const early = readsAt(200)
    assert.closeTo(readsAt(4040), early, 0.2 * early)
  })
})
