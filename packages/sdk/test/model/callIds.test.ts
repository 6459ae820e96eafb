import { assert, describe, it } from "@effect/vitest"
import { ToolCallId } from "../../src/domain/Id.ts"
import { chat } from "../../src/model/internal/openai/chat.ts"
import { wireIds } from "../../src/model/internal/wireNames.ts"
import type { ModelProfile } from "../../src/model/ModelProfile.ts"
import { answer, call, requestOf, result, user } from "./Histories.ts"

const nine = { letters: /^[a-zA-Z0-9_-]+$/, maxLength: 40, length: 9 }
const mistral: ModelProfile = {
  name: "m",
  protocol: "chat",
  baseUrl: "https://api.mistral.ai/v1",
  model: "mistral-large",
  compatibility: { callIdLength: 9, maxTokensField: "max_tokens" }
}

/** A history with a turn for each of these calls. */
const turns = (providerIds: ReadonlyArray<string>) =>
  requestOf([
    user("Read them."),
    ...providerIds.flatMap((id, index) => [answer(index + 1, [call(id)]), result(index + 1, 1, "read")])
  ])

const idsIn = (providerIds: ReadonlyArray<string>) => [...wireIds(turns(providerIds).messages, nine).values()]

describe("call ids of a fixed length", () => {
  it("are the provider's own where they fit, and derived from ours otherwise", () => {
    const [own, ...made] = idsIn(["D681PevKs", "call_abcdefghijklmnop", "", "D681PevKs", "D681P-vKs", "0"])
    assert.strictEqual(own, "D681PevKs")
    assert.notInclude(made, "D681PevKs")
    for (const id of made) assert.match(id, /^[a-zA-Z0-9]{9}$/)
  })

  it("are equal for a call and its result, and stable", () => {
    const encode = () => chat.encode(turns(["toolu_01ABC", "toolu_01ABC", "call_1"]), mistral, true)
    const { messages } = encode() as { readonly messages: ReadonlyArray<any> }
    const asked = messages.flatMap(({ tool_calls }) => tool_calls?.map(({ id }: { id: string }) => id) ?? [])
    const answered = messages.flatMap(({ tool_call_id: id }) => id ?? [])
    assert.lengthOf(new Set(asked), 3)
    for (const id of asked) assert.match(id, /^[a-zA-Z0-9]{9}$/)
    assert.deepStrictEqual(answered, asked)
    assert.deepStrictEqual(encode().messages, messages)
    // A later call does not change earlier ids.
    assert.deepStrictEqual(idsIn(["", "", ""]).slice(0, 2), idsIn(["", ""]))
  })

  it("are distinct in a history of 20,000 calls with equal provider ids", () => {
    const ids = idsIn(Array.from({ length: 20_000 }, () => "0"))
    assert.lengthOf(new Set(ids), 20_000)
    for (const id of ids) assert.match(id, /^[a-zA-Z0-9]{9}$/)
  })

  it("are distinct when almost all ids are taken", () => {
    const messages = turns(Array.from({ length: 60 }, () => "")).messages
    const ids = [...wireIds(messages, { ...nine, length: 1 }).values()]
    assert.lengthOf(new Set(ids), 60)
  })

  it("are the provider's own without a required length, up to the maximum", () => {
    const messages = turns(["toolu_01ABC", "call_1"]).messages
    const { length: _, ...any } = nine
    assert.deepStrictEqual([...wireIds(messages, any).values()], ["toolu_01ABC", "call_1"])
    assert.strictEqual(
      wireIds(messages, { ...any, maxLength: 9 }).get(ToolCallId.make("run_1.t1.1")),
      "call_t1_1"
    )
  })
})
