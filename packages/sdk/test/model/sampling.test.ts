import { assert, describe, it } from "@effect/vitest"
import { messages } from "../../src/model/internal/anthropic/messages.ts"
import { chat } from "../../src/model/internal/openai/chat.ts"
import { responses } from "../../src/model/internal/openai/responses.ts"
import type { Protocol } from "../../src/model/internal/protocol.ts"
import { omittedSettings } from "../../src/model/internal/warnings.ts"
import type { ModelProfile } from "../../src/model/ModelProfile.ts"
import type { ModelSettings } from "../../src/model/ModelRequest.ts"
import { requestOf, user } from "./Histories.ts"

const protocols = { chat, responses, messages }
const both: ModelSettings = { temperature: 0.5, topP: 0.9 }

/** The fields that are sent, and the settings that a warning names. */
const sent = (
  protocol: Protocol,
  model: string,
  settings: ModelSettings,
  compatibility?: ModelProfile["compatibility"]
) => {
  const request = requestOf([user("hi")], { settings })
  const profile: ModelProfile = {
    name: "m",
    protocol: "chat",
    baseUrl: "https://models.example/v1",
    model,
    ...(compatibility === undefined ? {} : { compatibility })
  }
  const body = protocol.encode(request, profile, true)
  const warned = omittedSettings(request, body, protocol.settingFields)
  return [
    ...["temperature", "top_p"].filter((field) => field in body),
    ...warned.map((sentence) => `no ${/^the setting (\w+)/.exec(sentence)?.[1]}`)
  ].join()
}

const one = "temperature,no topP"
const none = "no temperature,no topP"
const all = "temperature,top_p"

describe("temperature and topP", () => {
  it.each<readonly [model: string, fields: string]>([
    ["claude-sonnet-4-20250514", all],
    ["claude-opus-4-1-20250805", one],
    ["anthropic/claude-haiku-4.5", one],
    ["eu.anthropic.claude-sonnet-4-6-v1:0", one],
    ["claude-opus-4-7", none],
    ["claude-opus-5-5", none],
    ["anthropic/claude-sonnet-5", none],
    ["o3-mini", none],
    ["gpt-5", none],
    ["gpt-5-mini-2025-08-07", none],
    ["openai/gpt-5-nano", none],
    ["gpt-5-chat-latest", all],
    ["gpt-5.1", all],
    ["gpt-5.1-codex", none],
    ["gpt-5.4-2026-03-05", all],
    ["gpt-5.4-pro", none],
    ["gpt-5.5", none],
    ["gpt-4.1", all],
    ["qwen3:8b", all]
  ])("are sent as %s accepts them, with a warning for what is left out", (model, fields) => {
    for (const [name, protocol] of Object.entries(protocols)) {
      assert.strictEqual(sent(protocol, model, both), fields, name)
    }
  })

  it("are sent alone to a model that accepts one of them", () => {
    for (const protocol of Object.values(protocols)) {
      assert.strictEqual(sent(protocol, "claude-sonnet-4-5", { topP: 0.9 }), "top_p")
      assert.strictEqual(sent(protocol, "claude-sonnet-4-5", { temperature: 0 }), "temperature")
    }
  })

  it("depend on the effort of a model that can do without reasoning", () => {
    assert.strictEqual(sent(responses, "gpt-5.5", { ...both, reasoningEffort: "none" }), all)
    assert.strictEqual(sent(responses, "gpt-5.2", { ...both, reasoningEffort: "low" }), none)
    assert.strictEqual(sent(responses, "gpt-5", { ...both, reasoningEffort: "none" }), none)
  })

  it("are sent as the profile states, under any name", () => {
    const name = "claude-opus-4-7"
    for (const protocol of Object.values(protocols)) {
      assert.strictEqual(sent(protocol, name, both, { sampling: "both" }), all)
      assert.strictEqual(sent(protocol, "m", both, { sampling: "either" }), one)
      assert.strictEqual(sent(protocol, "m", both, { sampling: "none" }), none)
    }
  })
})
