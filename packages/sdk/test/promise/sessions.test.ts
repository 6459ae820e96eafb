import { assert, describe, it } from "@effect/vitest"
import { textOf } from "../../src/domain/Message.ts"
import { approve } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isOptionsInvalid, isRunStoreError } from "../../src/promise/guards.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { rejection } from "../helpers/rejection.ts"

const open = (script: Parameters<typeof ScriptedModel.make>[0]) => {
  const look = tool("look", { safety: "readOnly", handler: () => "seen" })
  const pay = tool("pay", { handler: () => "paid" })
  return Fermata.make({
    agents: [agent("clerk", { tools: [look, pay] }), agent("guide")],
    model: ScriptedModel.make(script).client,
    store: layerMemory
  })
}

const lines = (messages: Awaited<ReturnType<Fermata.Fermata["messages"]>>) =>
  messages.map(({ content, role, sequence }) => `${sequence} ${role}: ${textOf(content)}`)

describe("the messages of a session", () => {
  it("are the conversation across its runs, page by page from either end", async () => {
    await using fermata = await open(({ messages }) => `answer ${messages.length}`)
    const { sessionId } = await fermata.runPrompt("guide", "prompt 0")
    for (let index = 1; index < 5; index += 1) {
      await fermata.runPrompt("guide", `prompt ${index * 2}`, { sessionId })
    }
    const all = await fermata.messages(sessionId)
    assert.deepStrictEqual(
      lines(all),
      [0, 1, 2, 3, 4].flatMap((index) => [
        `${index * 2} user: prompt ${index * 2}`,
        `${index * 2 + 1} assistant: answer ${index * 2 + 1}`
      ])
    )
    const last = await fermata.messages(sessionId, { limit: 3 })
    assert.deepStrictEqual(last, all.slice(-3))
    assert.deepStrictEqual(
      await fermata.messages(sessionId, { limit: 3, before: last[0]!.sequence }),
      all.slice(4, 7)
    )
    assert.deepStrictEqual(await fermata.messages(sessionId, { after: 1, limit: 2 }), all.slice(2, 4))
    assert.deepStrictEqual(await fermata.messages(sessionId, { after: 9 }), [])
    assert.deepStrictEqual(await fermata.messages(sessionId, { before: 0 }), [])
  })

  it("contain the results of an open turn with the numbers that they keep, and no provider data", async () => {
    const payload = { signature: "secret" }
    await using fermata = await open([
      {
        content: [{ _tag: "reasoning", text: "Hm.", provider: "test", payload }],
        calls: [{ tool: "look" }, { tool: "pay" }]
      },
      "done"
    ])
    const { runId, sessionId } = await fermata.runPrompt("clerk", "go")
    const open_ = await fermata.messages(sessionId)
    assert.deepStrictEqual(
      open_.map(({ role }) => role),
      ["user", "assistant", "tool"]
    )
    assert.strictEqual(textOf(open_[2]!.content), "seen")
    await fermata.decide((await fermata.pending())[0]!, approve())
    await fermata.resume(runId)
    const ended = await fermata.messages(sessionId)
    assert.deepStrictEqual(ended.slice(0, 3), open_)
    assert.deepStrictEqual(lines(ended).slice(3), ["3 tool: paid", "4 assistant: done"])
    assert.include(JSON.stringify(await fermata.state(runId)), "secret")
    assert.notInclude(JSON.stringify(ended), "secret")
    assert.include(JSON.stringify(ended), "Hm.")
  })

  it("are none for a session without runs, and refused for what is no id and no page", async () => {
    await using fermata = await open([])
    assert.deepStrictEqual(await fermata.messages("nothing"), [])
    assert.isTrue(isRunStoreError(await rejection(fermata.messages(7 as never))))
    for (const page of [{ befor: 1 }, { before: -1 }, { limit: "3" }, null]) {
      assert.isTrue(isOptionsInvalid(await rejection(fermata.messages("nothing", page as never))))
    }
  })
})

describe("the sessions of a Fermata", () => {
  it("are listed with their last runs, and are found by their status", async () => {
    await using fermata = await open(({ messages }) =>
      textOf(messages.at(-1)!.content) === "pay" ? { calls: [{ tool: "pay" }] } : "done"
    )
    await fermata.runPrompt("guide", "hello", { sessionId: "one" })
    await fermata.runPrompt("clerk", "hello", { sessionId: "two" })
    const held = await fermata.runPrompt("clerk", "pay", { sessionId: "two" })
    await fermata.runPrompt("guide", "hello", { sessionId: "three" })
    const listed = await fermata.sessions()
    assert.deepStrictEqual(listed.map(({ sessionId }) => String(sessionId)).toSorted(), [
      "one",
      "three",
      "two"
    ])
    const [session, ...others] = await fermata.sessions({ status: "held" })
    assert.strictEqual(others.length, 0)
    const [head] = await fermata.runs({ status: "held" })
    assert.deepStrictEqual([session?.last, session?.last.runId], [head, held.runId])
    const error = await rejection(fermata.sessions({ sttus: "held" } as never))
    assert.isTrue(isOptionsInvalid(error) && error.message.includes('did you mean "status"'))
  })
})
