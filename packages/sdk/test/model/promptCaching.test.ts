import { assert, describe, it } from "@effect/vitest"
import { messages } from "../../src/model/internal/anthropic/messages.ts"
import { chat } from "../../src/model/internal/openai/chat.ts"
import { responses } from "../../src/model/internal/openai/responses.ts"
import type { Protocol } from "../../src/model/internal/protocol.ts"
import type { ModelProfile } from "../../src/model/ModelProfile.ts"
import { answer, call, requestOf, result, tool, user } from "./Histories.ts"

const profileOf = (protocol: ModelProfile["protocol"]): ModelProfile => ({
  name: "test",
  protocol,
  baseUrl: protocol === "messages" ? "https://api.anthropic.com/v1" : "https://api.openai.com/v1",
  model: protocol === "messages" ? "claude-sonnet-4-5" : "gpt-4.1"
})

type Unplaced = ReturnType<typeof user>

/** The history of a conversation at each of its model calls, oldest first. */
const conversation = (): ReadonlyArray<ReadonlyArray<Unplaced>> => {
  const all: Array<Unplaced> = []
  const requests: Array<ReadonlyArray<Unplaced>> = []
  for (let turn = 1; turn <= 6; turn += 1) {
    all.push(user(`Question ${turn}`))
    requests.push(all.slice())
    all.push(answer(turn, [call(`c${turn}a`), call(`c${turn}b`)]))
    all.push(result(turn, 1, "seen"), result(turn, 2, "seen again"))
    requests.push(all.slice())
    all.push(answer(turn + 100, [{ _tag: "text", text: `Answer ${turn}` }]))
  }
  return requests
}

const section = user("[Clock]\nnoon")

/** The body of a request without marks, as the items that a provider reads one after the other. */
const itemsOf = (
  protocol: Protocol,
  profile: ModelProfile,
  history: ReadonlyArray<Unplaced>
): ReadonlyArray<string> => {
  const body: any = protocol.encode(
    requestOf(history, { tools: [tool], instructions: "Be kind." }),
    { ...profile, compatibility: { cacheControl: false } },
    true
  )
  const listed = body.messages ?? body.input
  const blocks = listed.flatMap((item: any) =>
    profile.protocol === "messages"
      ? item.content.map((block: unknown) => ({ role: item.role, block }))
      : [item]
  )
  return [
    JSON.stringify(body.system ?? body.instructions ?? null),
    JSON.stringify(body.tools),
    ...blocks.map((block: unknown) => JSON.stringify(block))
  ]
}

describe("the body of a request", () => {
  for (const [name, protocol] of [
    ["chat", chat],
    ["responses", responses],
    ["messages", messages]
  ] as const) {
    it(`to ${name} begins with the bytes of the request before it`, () => {
      const profile = profileOf(name)
      let before: ReadonlyArray<string> = []
      for (const history of conversation()) {
        const items = itemsOf(protocol, profile, history)
        assert.deepStrictEqual(items.slice(0, before.length), before)
        assert.isAbove(items.length, before.length)
        before = items
      }
    })
  }

  it("to /v1/messages marks the instructions, and the ends of this turn and of the one before, ahead of sections", () => {
    const profile = profileOf("messages")
    const history = conversation().at(-1)!
    const body: any = messages.encode(
      requestOf([...history, section], {
        tools: [tool],
        instructions: "Be kind.",
        transientMessages: 1
      }),
      profile,
      true
    )
    assert.deepStrictEqual(body.system, [
      { type: "text", text: "Be kind.", cache_control: { type: "ephemeral" } }
    ])
    const blocks: ReadonlyArray<any> = body.messages.flatMap(({ content }: any) => content)
    const marked = blocks.filter((block) => block.cache_control !== undefined)
    assert.strictEqual(marked.length, 2)
    assert.deepStrictEqual(
      marked.map(({ type }) => type),
      ["text", "tool_result"]
    )
    assert.strictEqual(marked[0].text, "Question 6")
    assert.isUndefined(blocks.at(-1).cache_control)
    assert.include(blocks.at(-1).text, "noon")
    const plain: any = messages.encode(
      requestOf(history, { instructions: "Be kind." }),
      { ...profile, compatibility: { cacheControl: false } },
      true
    )
    assert.notInclude(JSON.stringify(plain), "cache_control")
  })
})
