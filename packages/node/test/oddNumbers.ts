/**
 * Invalid filters, numbers and durations, over any store.
 */
import { assert, describe, it } from "@effect/vitest"
import { agent, approve, createFermata, tool } from "@fermata/node"
import type { RunStore, RunStoreError } from "@fermata/sdk/store"
import { ScriptedModel } from "@fermata/sdk/testing"
import type * as Layer from "effect/Layer"

const pay = tool("pay", { handler: () => "paid" })

const open = (store: Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError>, options: object = {}) =>
  createFermata({
    agents: [agent("clerk", { tools: [pay] })],
    model: ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "pay" }] } : "Done.")).client,
    store,
    ...options
  })

const outcome = (promise: Promise<unknown>): Promise<{ readonly _tag?: string; readonly message: string }> =>
  promise.then(
    () => ({ message: "it was taken" }),
    (error: { readonly _tag?: string; readonly message: string }) => error
  )

/** Values that an untyped program may pass as a number, each with its name in messages. */
const odd: ReadonlyArray<readonly [unknown, string]> = [
  [Number.NaN, "NaN"],
  ["2020-01-01", "a string"],
  [null, "null"],
  [{}, "an object"],
  [[1], "a list"],
  [new Date(0), "an object"],
  [Symbol("1"), "a symbol"],
  [5n, "a bigint"],
  [true, "a boolean"]
]

/** How the functions that take a number or a duration treat an invalid one. */
export const oddNumbers = (
  name: string,
  layer: Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError>
): void => {
  describe(`an invalid number, with the store in ${name}`, () => {
    it("is refused by `prune`, which then deletes nothing", async () => {
      await using fermata = await open(layer)
      await fermata.runPrompt("clerk", "pay", { runId: "ended" })
      await fermata.resume("ended", {
        decisions: [{ _tag: "deny", requestId: "ended.r1" as never, by: "ann" }]
      })
      const infinite = [Number.POSITIVE_INFINITY, "Infinity"] as const
      for (const [given, called] of [...odd, infinite, [undefined, "undefined"] as const]) {
        const { _tag, message } = await outcome(fermata.prune({ endedBefore: given as number }))
        assert.strictEqual(_tag, "OptionsInvalid", called)
        assert.match(
          message ?? "",
          /"endedBefore" of the options of prune (takes|is missing: it takes) a finite/
        )
      }
      for (const nothing of [undefined, null, 5]) {
        assert.strictEqual((await outcome(fermata.prune(nothing as never)))._tag, "OptionsInvalid")
      }
      assert.deepStrictEqual(
        (await fermata.runs()).map(({ runId, status }) => [String(runId), status]),
        [["ended", "completed"]]
      )
      assert.strictEqual(await fermata.prune({ endedBefore: -1e300 }), 0)
      assert.strictEqual(await fermata.prune({ endedBefore: 1.5 }), 0)
      assert.strictEqual(await fermata.prune({ endedBefore: 1e300 }), 1)
    })

    it("is refused in every filter, as is a filter that is not an object", async () => {
      await using fermata = await open(layer)
      await fermata.runPrompt("clerk", "pay", { runId: "run-1" })
      const listing = {
        runs: (filter: unknown) => fermata.runs(filter as never),
        pending: (filter: unknown) => fermata.pending(filter as never),
        grants: (filter: unknown) => fermata.grants(filter as never)
      }
      for (const [given] of odd) {
        for (const [name, list] of Object.entries(listing)) {
          const { _tag, message } = await outcome(list({ limit: given }))
          assert.strictEqual(_tag, "OptionsInvalid", name)
          assert.include(message, `"limit" of the options of ${name} takes a whole number of 1 or more`)
        }
        for (const time of ["askedBefore", "expiresBefore"]) {
          const { _tag, message } = await outcome(fermata.pending({ [time]: given }))
          assert.strictEqual(_tag, "OptionsInvalid", time)
          assert.include(message, `"${time}" of the options of pending takes a finite number`)
        }
        const read = await outcome((async () => fermata.events("run-1", { from: given as number }))())
        assert.strictEqual(read._tag, "OptionsInvalid")
        assert.include(read.message, `"from" of the options of events takes a whole number of 0 or more`)
      }
      for (const nothing of [null, 5, "run-1"]) {
        for (const [name, list] of Object.entries(listing)) {
          const { _tag, message } = await outcome(list(nothing))
          assert.strictEqual(_tag, "OptionsInvalid", name)
          assert.include(message, "which has to be a plain object")
        }
      }
      for (const limit of [1, Number.MAX_SAFE_INTEGER]) {
        assert.strictEqual((await fermata.pending({ limit, askedBefore: 1e300 })).length, 1)
      }
      assert.deepStrictEqual(await fermata.pending({ expiresBefore: 1e300 }), [])
      const revisions: Array<number> = []
      for await (const update of fermata.events("run-1")) {
        if (update._tag === "event") revisions.push(update.revision)
      }
      assert.deepStrictEqual(revisions.slice(0, 2), [1, 2])
    })

    it("is refused as a fork's revision, as are `decisions` that are not a list", async () => {
      await using fermata = await open(layer)
      await fermata.runPrompt("clerk", "pay", { runId: "run-1" })
      for (const [given, called] of odd) {
        const { _tag } = await outcome(fermata.fork("run-1", "hello", { revision: given as number }))
        assert.include(["OptionsInvalid", "RevisionNotFound"], _tag, called)
      }
      for (const decisions of [null, 5, {}, "approve"]) {
        const { _tag } = await outcome(fermata.resume("run-1", { decisions: decisions as never }))
        assert.strictEqual(_tag, "DecisionMalformed")
      }
      assert.strictEqual((await fermata.runs()).length, 1)
    })

    it("is refused by `recover`, `work`, `conductor` and `createFermata`", async () => {
      const noDurations = [
        Number.NaN,
        "soon",
        null,
        Symbol("1"),
        true
      ] as ReadonlyArray<unknown> as ReadonlyArray<never>
      for (const drainTimeout of noDurations) {
        assert.strictEqual((await outcome(open(layer, { drainTimeout })))._tag, "RuntimeOptionsInvalid")
      }
      await using fermata = await open(layer)
      await fermata.runPrompt("clerk", "pay", { runId: "run-1" })
      await fermata.decide("run-1.r1", approve())
      for (const [given, called] of odd) {
        const number = given as number
        const refused = {
          limit: () => fermata.recover({ limit: number }),
          concurrency: () => fermata.recover({ concurrency: number }),
          "the worker's concurrency": () => fermata.work({ concurrency: number }),
          "the conductor's concurrency": () => fermata.conductor({ concurrency: number }),
          maxQueued: () => fermata.conductor({ maxQueued: number })
        }
        for (const [name, ask] of Object.entries(refused)) {
          assert.strictEqual((await outcome(ask()))._tag, "OptionsInvalid", `${name}: ${called}`)
        }
      }
      for (const duration of noDurations) {
        for (const ask of [
          () => fermata.work({ pollInterval: duration }),
          () => fermata.work({ drainTimeout: duration }),
          () => fermata.conductor({ drainTimeout: duration })
        ]) {
          assert.strictEqual((await outcome(ask()))._tag, "RuntimeOptionsInvalid")
        }
      }
      for (const nothing of [null, 5]) {
        assert.strictEqual((await outcome(fermata.recover(nothing as never)))._tag, "OptionsInvalid")
        assert.strictEqual((await outcome(fermata.work(nothing as never)))._tag, "OptionsInvalid")
      }
      assert.deepStrictEqual(
        (await fermata.recover({ limit: 1e300 })).map(({ status }) => status),
        ["completed"]
      )
    })
  })
}
