/**
 * Cancellations and revocations that are committed before the store fails a later step.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Agent from "../../src/agent/Agent.ts"
import type { GrantId, RunId } from "../../src/domain/Id.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { recover } from "../../src/durable/recover.ts"
import { revokeGrant } from "../../src/durable/revokeGrant.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import type { RunStoreError } from "../../src/store/RunStoreError.ts"
import * as FaultyRunStore from "../../src/testing/FaultyRunStore.ts"
import { approvalOf, approve, bind, call, expect, probe } from "../helpers/Fixture.ts"

const runId = "run" as RunId

/** A run held on its second call, after the first was approved with a session grant. */
const held = Effect.gen(function* () {
  const pay = probe("pay")
  const { runtime } = yield* bind(Agent.make("a", { tools: [pay.tool, probe("erase").tool] }), [
    { calls: [call("pay", "1"), call("erase", "2")] },
    "done"
  ])
  const first = yield* runPromptStored(runtime, { prompt: "go", runId })
  const grant = { scope: "session" } as const
  const decisions = [approve(approvalOf(first, "1"), { grant })]
  expect(yield* runPromptStored(runtime, { runId, decisions }), "interrupted")
  return { runtime, store: yield* RunStore }
})

/** Runs the effect in a store that fails this operation, and returns its value and the log. */
const failing = Effect.fnUntraced(function* <A, E>(
  operation: FaultyRunStore.Operation,
  effect: Effect.Effect<A, E, RunStore>,
  failure: Effect.Effect<never, RunStoreError> = Effect.fail(
    FaultyRunStore.error(operation, "connectionLost")
  )
) {
  const lines: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => {
    lines.push(`${logLevel}: ${String(message)}`)
  })
  const before = (asked: FaultyRunStore.Operation) => (asked === operation ? failure : Effect.void)
  const store = FaultyRunStore.make(yield* RunStore, { before })
  const value = yield* Effect.provideService(effect, RunStore, store).pipe(
    Effect.provide(Logger.layer([logger]))
  )
  return { lines, value }
})

const why = "The store failed: the connection to the database was lost. Try again."

const test = (name: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(name, () => Effect.provide(body, Layer.fresh(layerMemory)))

for (const operation of ["claim", "load", "append"] as const) {
  describe(`a store that fails ${operation} after the commit`, () => {
    test(
      "acknowledges a cancellation, which a worker completes",
      Effect.gen(function* () {
        const { runtime, store } = yield* held
        const { lines } = yield* failing(operation, cancelRun(runId, "enough"))
        assert.deepStrictEqual(lines, [
          `Warn: The cancellation of the run run is stored, and has not ended it yet: ${why}`
        ])
        assert.strictEqual((yield* store.head(runId)).cancelReason, "enough")
        const [taken] = yield* recover([runtime])
        assert.strictEqual(taken?.status, "cancelled")
      })
    )

    test(
      "acknowledges a revocation, which takes effect",
      Effect.gen(function* () {
        const { store } = yield* held
        const grantId = "run.r1.grant" as GrantId
        const { lines, value } = yield* failing(operation, revokeGrant(runId, grantId, "bob"))
        assert.deepStrictEqual(lines, [
          `Warn: The revocation of the grant run.r1.grant is stored, and not yet in the journal of the run run: ${why}`
        ])
        assert.strictEqual(value.grant.revoked?.by, "bob")
        assert.deepStrictEqual(yield* store.grants({ grantId }), [value])
      })
    )
  })
}

describe("a store that throws after the commit, with a logger that throws", () => {
  test(
    "acknowledges a cancellation and a revocation",
    Effect.gen(function* () {
      const { store } = yield* held
      const thrown = Effect.die(new Error("the driver is not loaded"))
      const broken = Logger.make(() => {
        throw new Error("the disk of the log is full")
      })
      const silent = Effect.provide(Logger.layer([broken]))
      yield* failing("append", silent(revokeGrant(runId, "run.r1.grant" as GrantId, "bob")), thrown)
      const { lines } = yield* failing("append", cancelRun(runId, "enough"), thrown)
      assert.match(lines.join(), /has not ended it yet: the driver is not loaded/)
      assert.strictEqual((yield* store.head(runId)).cancelReason, "enough")
    })
  )
})

describe("a store that refuses the commit", () => {
  test(
    "fails a cancellation and a revocation",
    Effect.gen(function* () {
      const { store } = yield* held
      const cancelling = failing("requestCancel", Effect.flip(cancelRun(runId, "enough")))
      assert.strictEqual((yield* cancelling).value._tag, "RunStoreError")
      const revoking = failing(
        "revokeGrant",
        Effect.flip(revokeGrant(runId, "run.r1.grant" as GrantId, "bob"))
      )
      assert.strictEqual((yield* revoking).value._tag, "RunStoreError")
      assert.isUndefined((yield* store.head(runId)).cancelReason)
    })
  )
})
