/**
 * The iterables of handles and conductors end at once when their consumer leaves, also on a held run.
 */
import { assert, describe, it } from "@effect/vitest"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

interface Options {
  readonly signal?: AbortSignal
}

/** A held run of a conductor, and the iterables of its handle and of the conductor. */
const open = async () => {
  const pay = tool("pay", { handler: () => "paid" })
  const fermata = await Fermata.make({
    agents: [agent("clerk", { tools: [pay] })],
    model: ScriptedModel.make(() => ({ calls: [{ tool: "pay" }] })).client,
    store: layerMemory,
    drainTimeout: "10 millis"
  })
  const conductor = await fermata.conductor()
  const handle = await conductor.dispatch("clerk", "pay")
  await handle.wait()
  const iterables: Record<string, (options?: Options) => AsyncIterable<unknown>> = {
    "a handle's events": handle.events,
    "a handle's statuses": handle.statuses,
    "a conductor's events": conductor.events,
    "a conductor's inboxes": conductor.inboxes
  }
  return { iterables, [Symbol.asyncDispose]: fermata.close }
}

const names = ["a handle's events", "a handle's statuses", "a conductor's events", "a conductor's inboxes"]

/** True after some turns of the event loop. */
const turns = async (count: number): Promise<boolean> => {
  for (let turn = 0; turn < count; turn += 1) await new Promise((resume) => setImmediate(resume))
  return true
}

/** A reader that has received everything so far and waits for more. */
const waiting = async (iterable: AsyncIterable<unknown>) => {
  const reader = iterable[Symbol.asyncIterator]()
  for (;;) {
    const next = reader.next()
    const isPending = await Promise.race([next.then(() => false), turns(10)])
    if (isPending) return { reader, next }
  }
}

describe("a reader of a held run", () => {
  for (const name of names) {
    it(`of ${name} ends at once when its signal is aborted`, async () => {
      await using opened = await open()
      const controller = new AbortController()
      const { next, reader } = await waiting(opened.iterables[name]!({ signal: controller.signal }))
      controller.abort()
      assert.isTrue((await next).done)
      assert.isTrue((await reader.next()).done)
    })

    it(`of ${name} ends at once when its consumer returns`, async () => {
      await using opened = await open()
      const { next, reader } = await waiting(opened.iterables[name]!())
      await reader.return?.()
      assert.isTrue((await next).done)
    })
  }

  it("refuses an option that it does not know", async () => {
    await using opened = await open()
    for (const name of names) {
      const misspelt = { signl: new AbortController().signal } as Options
      assert.throws(() => opened.iterables[name]!(misspelt), /signl.*signal/s)
    }
  })
})
