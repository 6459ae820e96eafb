/** Texts of programs and people that would make every record and request large: refused with a typed error, at their bound. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { reopenRequest } from "../../src/durable/reopenRequest.ts"
import { revokeGrant } from "../../src/durable/revokeGrant.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { bind, call, expect, only, probe, results } from "../helpers/Fixture.ts"

const letters = (count: number) => "x".repeat(count)

/** A run that is held on a call. */
const held = Effect.gen(function* () {
  const { runtime } = yield* bind(Agent.make("a", { tools: [probe("pay").tool] }), [
    { calls: [call("pay", "1")] },
    "done"
  ])
  const { requestId } = only(yield* runPromptStored(runtime, { prompt: "go" }), "approval")
  return { runtime, requestId }
})

const stored = <A, E>(body: Effect.Effect<A, E, RunStore>) => Effect.provide(body, Layer.fresh(layerMemory))

describe("a decision", () => {
  for (const [title, long, fits] of [
    ["an author of more than 512 characters", { by: letters(513) }, { by: letters(512) }],
    [
      "a principal of more than 512 characters",
      { by: { id: letters(513), kind: "person" } },
      { by: { id: letters(512), kind: "person" } }
    ],
    [
      "a login of more than 512 characters",
      { by: { id: "ann", kind: "person", authenticated: letters(513) } },
      { by: { id: "ann", kind: "person", authenticated: letters(512) } }
    ],
    ["a note of more than 100,000 characters", { note: letters(100_001) }, { note: letters(100_000) }]
  ] as const) {
    it.effect(`is refused with ${title}, by the runtime and by the store`, () =>
      stored(
        Effect.gen(function* () {
          const { requestId, runtime } = yield* held
          const store = yield* RunStore
          const denial = { _tag: "deny", requestId, by: "ann", ...long } as const
          for (const refused of [
            yield* Effect.flip(decideStored([runtime], denial)),
            yield* Effect.flip(store.decide(denial))
          ]) {
            assert.strictEqual(refused._tag, "DecisionMalformed")
            assert.match(refused.message, /512 characters|100,000 characters/)
            assert.isBelow(refused.message.length, 500)
          }
          assert.lengthOf(yield* store.pending(), 1)
          yield* decideStored([runtime], { ...denial, ...fits })
        })
      )
    )
  }

  it.effect("is not reopened, and no grant revoked, by such an author or with such a note", () =>
    stored(
      Effect.gen(function* () {
        const { requestId, runtime } = yield* held
        yield* decideStored([runtime], { _tag: "deny", requestId, by: "ann" })
        const by = letters(513)
        const one = yield* Effect.flip(reopenRequest(requestId, { by }))
        const other = yield* Effect.flip(reopenRequest(requestId, { by: "ann", note: letters(100_001) }))
        const revoked = yield* Effect.flip(revokeGrant("run" as never, "run.r1.grant" as never, by))
        assert.deepStrictEqual(
          [one._tag, other._tag, revoked._tag],
          ["PrincipalInvalid", "OptionsInvalid", "PrincipalInvalid"]
        )
      })
    )
  )
})

describe("facts", () => {
  it.effect("fail their call if they are longer than 100,000 characters of JSON", () =>
    Effect.gen(function* () {
      for (const [count, shown] of [
        [99_998, undefined],
        [
          99_999,
          "The facts of pay cannot be read: they are longer than 100,000 characters of JSON. pay has not run."
        ]
      ] as const) {
        const pay = probe("pay", { facts: () => letters(count) })
        const { runtime } = yield* bind(Agent.make("a", { tools: [pay.tool] }), [
          { calls: [call("pay", "1")] },
          "done"
        ])
        const end = yield* runPrompt(runtime, { prompt: "go" })
        if (shown === undefined) only(end, "approval")
        else assert.strictEqual(results(expect(end, "completed").state)[0], `pay failed: ${shown}`)
        assert.deepStrictEqual(pay.ran, [])
      }
    })
  )
})
