/**
 * The approval callback of a Fermata returns what `approve` and `deny` make; the Fermata adds their author.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { RequestNotice } from "../../src/agent/RuntimeHooks.ts"
import { approve, deny } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import type { ApprovalCallback } from "../../src/promise/internal/options.ts"
import * as Storeless from "../../src/promise/Storeless.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

/** The authors of the decisions. */
const authors: Array<string> = []
const deploy = tool("deploy", { handler: () => "deployed" })

const optionsOf = (approvalCallback: ApprovalCallback) => ({
  agents: [agent("ops", { tools: [deploy] })],
  model: ScriptedModel.make([{ calls: [{ tool: "deploy" }] }, "end"]).client,
  approvalCallback,
  hooks: {
    onRequest: (notice: RequestNotice) => {
      if (notice.decision !== undefined) authors.push(notice.decision.by)
    }
  }
})

const forms: ReadonlyArray<readonly [string, ApprovalCallback]> = [
  ["a decision", () => approve()],
  ["a promise of one", async () => approve()],
  ["an effect of one", () => Effect.succeed(approve())]
]

describe("an approval callback", () => {
  for (const [name, callback] of forms) {
    it(`may return ${name}, whose author is that of the Fermata`, async () => {
      authors.length = 0
      await using stored = await Fermata.make({
        ...optionsOf(callback),
        store: layerMemory,
        by: "the nightly job"
      })
      assert.strictEqual((await stored.runPrompt("ops", "Deploy")).status, "completed")
      await using storeless = await Storeless.make(optionsOf(callback))
      assert.strictEqual((await storeless.runPrompt("ops", "Deploy")).status, "completed")
      assert.deepStrictEqual(authors, ["the nightly job", "unnamed"])
    })
  }

  it("keeps the author that a decision names, and leaves a request open if it returns no decision", async () => {
    authors.length = 0
    await using named = await Fermata.make({
      ...optionsOf(({ requestId }) => ({ _tag: "approve", requestId, by: "ann" })),
      store: layerMemory,
      by: "the nightly job"
    })
    await named.runPrompt("ops", "Deploy")
    assert.deepStrictEqual(authors, ["ann"])
    for (const none of [() => undefined, () => "yes" as never, () => [] as never]) {
      await using open = await Fermata.make({ ...optionsOf(none), store: layerMemory })
      assert.strictEqual((await open.runPrompt("ops", "Deploy")).status, "interrupted")
    }
    await using denied = await Fermata.make({ ...optionsOf(() => deny("no")), store: layerMemory })
    assert.strictEqual((await denied.runPrompt("ops", "Deploy")).status, "completed")
    assert.deepStrictEqual(authors, ["ann", "unnamed"])
  })
})
