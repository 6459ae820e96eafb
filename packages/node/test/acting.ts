/**
 * Decisions, messages and cancellations of a program that does not drive the run, over any store.
 */
import { assert, describe, it } from "@effect/vitest"
import { agent, approve, createFermata, tool } from "@fermata/node"
import type { RunStore, RunStoreError } from "@fermata/sdk/store"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"

type StoreLayer = Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError>

const runId = "run"

/** Two programs with one store and one team, of which `working` drives the run. A body of `wait` does not end before its run. */
const open = async (store: StoreLayer) => {
  const waiting = Promise.withResolvers<void>()
  const published = Promise.withResolvers<void>()
  const wait = tool("wait", {
    safety: "readOnly",
    handler: (_, { signal }) => {
      waiting.resolve()
      return new Promise<string>((resolve) => {
        signal.addEventListener("abort", () => resolve("aborted"))
        void published.promise.then(() => resolve("published"))
      })
    }
  })
  const publish = tool("publish", {
    handler: () => {
      published.resolve()
      return "published"
    }
  })
  const writer = agent("writer", { tools: [publish] })
  const lead = agent("lead", { tools: [wait], subAgents: [writer], delegation: "delegate" })
  const start = { agent: "writer", prompt: "publish it", background: true }
  const { client } = ScriptedModel.make(({ agentPath, messages, turn }) => {
    if (turn > 2 || (agentPath.length > 1 && turn > 1)) return `After ${messages.length} messages.`
    if (agentPath.length > 1) return { calls: [{ tool: "publish" }] }
    return { calls: turn === 1 ? [{ tool: "delegate", arguments: start }] : [{ tool: "wait" }] }
  })
  const make = () =>
    createFermata({
      agents: [lead],
      model: client,
      store,
      drainTimeout: "10 millis",
      cancelGrace: "1 second"
    })
  const [working, other] = [await make(), await make()]
  const ended = working.runPrompt(lead, "go", { runId })
  await Promise.race([waiting.promise, ended])
  return {
    ended,
    other,
    published: published.promise,
    [Symbol.asyncDispose]: async () => {
      published.resolve()
      await Promise.all([working.close(), other.close()])
    }
  }
}

type Opened = Awaited<ReturnType<typeof open>>

/** The request of the sub-agent, once the other program sees it. */
const requestOf = async ({ other }: Opened) => {
  for await (const _ of other.events(runId)) {
    const [request] = await other.pending()
    if (request !== undefined) return request
  }
  return assert.fail("The run has ended.")
}

/** How a run that is at work takes what another program writes, with two programs on one store. */
export const acting = (name: string, place: Effect.Effect<StoreLayer, never, Scope.Scope>): void => {
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

  describe(`a run at work whose body waits, with the store in ${name}`, () => {
    test("is cancelled by another program", async ({ ended, other }) => {
      await other.cancel(runId, "enough")
      assert.strictEqual((await ended).status, "cancelled")
    })

    test("continues its background sub-agent when another program approves its call", async (opened) => {
      await opened.other.decide(await requestOf(opened), approve())
      await opened.published
      const { state, status } = await opened.ended
      assert.strictEqual(status, "completed")
      assert.include(JSON.stringify(state), "published")
    })
  })
}
