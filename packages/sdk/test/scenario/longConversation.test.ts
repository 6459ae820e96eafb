import { assert, describe, it } from "@effect/vitest"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import { textOf } from "../../src/domain/Message.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import * as Tokenizer from "../../src/model/Tokenizer.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"

/** Model calls of the conversation; `FERMATA_LONG_TURNS=2000` plays it in full. */
const turns = Number(process.env["FERMATA_LONG_TURNS"] ?? 400)
const window = 32_000

const isSummary = ({ messages, tools }: ModelRequest): boolean =>
  tools.length === 0 && textOf(messages[0]?.content ?? []).includes("record of the conversation")

describe(`a conversation of ${turns} turns with a window of 32,000 tokens`, () => {
  it(
    "sends only valid requests that fit, and prepares and stores a late turn at the cost of an early one",
    { timeout: 600_000 },
    async () => {
      const read = Tool.make("read", { safety: "readOnly", handler: () => "data ".repeat(300) })
      // The model refuses invalid requests, and those that are larger than its context.
      let sent = 0
      const model = ScriptedModel.make(
        (request) => {
          if (isSummary(request)) return "The user asks for data again and again."
          sent += 1
          return request.messages.at(-1)?.role === "user"
            ? { text: "I look.", calls: [{ tool: "read" }, { tool: "read" }] }
            : `Here it is. ${"It says much. ".repeat(20)}`
        },
        { tokenizer: Tokenizer.estimate, contextTokens: window }
      )
      const agent = Agent.make("clerk", { instructions: "Read.", tools: [read] })
      await using fermata = await Fermata.make({ agents: [agent], model: model.client, store: layerMemory })
      const bytes: Array<number> = []
      const sizes: Array<number> = []
      let compactions = 0
      let stored = 0
      const onUpdate = (update: RunUpdate) => {
        if (update._tag === "context.usage") sizes.push(update.usage.used)
        if (update._tag !== "event") return
        stored += JSON.stringify(update.event).length
        if (update.event._tag === "context.compacted") compactions += 1
      }
      const prompts = turns / 2
      for (let index = 0; index < prompts; index += 1) {
        stored = 0
        const prompt = `Question ${index}: ${"what about it? ".repeat(20)}`
        const { status } = await fermata.runPrompt("clerk", prompt, { sessionId: "desk", onUpdate })
        assert.strictEqual(status, "completed")
        bytes.push(stored)
        // The recorded requests are not kept: they hold the messages.
        ;(model.requests as Array<ModelRequest>).length = 0
      }
      assert.strictEqual(sent, turns)
      assert.isTrue(sizes.every((size) => size < window))
      assert.isAtLeast(compactions, turns / 100)
      const meanOf = (list: ReadonlyArray<number>) => list.reduce((sum, one) => sum + one, 0) / list.length
      const early = meanOf(bytes.slice(50, 100))
      assert.closeTo(meanOf(bytes.slice(-50)), early, 0.2 * early)
      if (process.env["FERMATA_LONG_TURNS"] !== undefined)
        console.log({ compactions, bytes: early, late: meanOf(bytes.slice(-50)) })
    }
  )
})
