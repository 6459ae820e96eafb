/**
 * Reading a run's events in a program that does not drive the run, over any store.
 */
import { assert, describe, it } from "@effect/vitest"
import { agent, approve, createFermata, type Fermata, isRunNotFound, tool } from "@fermata/node"
import type { RunUpdate } from "@fermata/sdk/agent"
import type { RunStore, RunStoreError } from "@fermata/sdk/store"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"

type StoreLayer = Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError>

const runId = "run"

/** Two programs with one store: `working` drives the run, `watching` never does. */
const open = async (store: StoreLayer) => {
  const paying = Promise.withResolvers<void>()
  const paid = Promise.withResolvers<string>()
  const pay = tool("pay", {
    handler: () => {
      paying.resolve()
      return paid.promise
    }
  })
  const make = () =>
    createFermata({
      agents: [agent("clerk", { tools: [pay] })],
      model: ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "pay" }] } : "Done.")).client,
      store,
      drainTimeout: "10 millis",
      cancelGrace: "10 millis"
    })
  const [working, watching] = [await make(), await make()]
  await working.runPrompt("clerk", "pay", { runId })
  return {
    working,
    watching,
    /** Approves the call and resumes the run; returns when the body has begun. */
    goOn: async () => {
      const [request] = await working.pending()
      await working.decide(request!, approve())
      const ended = working.resume(runId)
      await Promise.race([paying.promise, ended])
      return { ended }
    },
    finish: () => paid.resolve("paid"),
    [Symbol.asyncDispose]: async () => {
      paid.resolve("paid")
      await Promise.all([working.close(), watching.close()])
    }
  }
}

type Opened = Awaited<ReturnType<typeof open>>

/** The revisions of all events that a reader receives. */
const revisions = async (updates: AsyncIterable<RunUpdate.RunUpdate>): Promise<ReadonlyArray<number>> => {
  const seen: Array<number> = []
  for await (const update of updates) if (update._tag === "event") seen.push(update.revision)
  return seen
}

const counting = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i + 1)

/** A reader that has received everything so far and waits for more. */
const waiting = async (fermata: Fermata.Fermata, options: Fermata.EventsOptions = {}) => {
  const { revision } = await fermata.state(runId)
  const reader = fermata.events(runId, { until: "end", ...options })[Symbol.asyncIterator]()
  for (let seen = 0; seen < revision;) {
    const { value } = await reader.next()
    if (value?._tag === "event") seen = value.revision
  }
  return { reader, next: reader.next() }
}

/** How readers of `events` behave, with two programs on one store. */
export const watching = (name: string, place: Effect.Effect<StoreLayer, never, Scope.Scope>): void => {
  const test = (title: string, body: (opened: Opened) => Promise<void>) =>
    it.live(title, () =>
      Effect.scoped(
        Effect.flatMap(place, (layer) =>
          Effect.promise(async () => {
            await using opened = await open(layer)
            await body(opened)
          })
        )
      )
    )

  describe(`a reader of events() in another program, with the store in ${name}`, () => {
    test("receives every event once, in order, and ends with the run", async (opened) => {
      const { reader, next } = await waiting(opened.watching)
      const early = revisions({ [Symbol.asyncIterator]: () => reader })
      const known = revisions(opened.watching.events(runId, { from: 3, until: "end" }))
      const { ended } = await opened.goOn()
      opened.finish()
      const { revision } = (await ended).state
      const first = await next
      assert.strictEqual(first.value?._tag === "event" && first.value.revision, 6)
      assert.deepStrictEqual(await early, counting(6, revision))
      assert.deepStrictEqual(await known, counting(3, revision))
      assert.deepStrictEqual(await revisions(opened.watching.events(runId, { from: revision })), [])
    })

    for (const [standing, prepare] of [
      ["held", async () => {}],
      ["at work in the other program", async ({ goOn }: Opened) => void (await goOn())]
    ] as const) {
      test(`ends at once when its loop is left, on a run that is ${standing}`, async (opened) => {
        await prepare(opened)
        const { next, reader } = await waiting(opened.watching)
        await reader.return?.()
        assert.isTrue((await next).done)
        assert.isTrue((await reader.next()).done)
      })

      test(`ends at once when its signal is aborted, on a run that is ${standing}`, async (opened) => {
        await prepare(opened)
        const controller = new AbortController()
        const { next, reader } = await waiting(opened.watching, { signal: controller.signal })
        controller.abort()
        assert.isTrue((await next).done)
        assert.isTrue((await reader.next()).done)
      })

      test(`ends when its Fermata is closed, on a run that is ${standing}`, async (opened) => {
        await prepare(opened)
        const { next } = await waiting(opened.watching)
        await opened.watching.close()
        assert.isTrue((await next).done)
      })
    }

    test("fails with RunNotFound when the run is removed", async (opened) => {
      const { next } = await waiting(opened.watching)
      await opened.working.remove(runId)
      const error = await next.catch((error: unknown) => error)
      assert.isTrue(isRunNotFound(error), String(error))
    })
  })
}
