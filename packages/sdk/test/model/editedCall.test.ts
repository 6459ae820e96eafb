import { assert, describe, it } from "@effect/vitest"
import { evolve } from "../../src/domain/evolve.ts"
import * as Id from "../../src/domain/Id.ts"
import { text } from "../../src/domain/Message.ts"
import type { AnsweredPart, RunEvent } from "../../src/domain/RunEvent.ts"
import { providerMessages, type RunState } from "../../src/domain/RunState.ts"
import { messages } from "../../src/model/internal/anthropic/messages.ts"
import { chat } from "../../src/model/internal/openai/chat.ts"
import { responses } from "../../src/model/internal/openai/responses.ts"
import type { Protocol } from "../../src/model/internal/protocol.ts"
import type { ModelProfile, ProtocolName } from "../../src/model/ModelProfile.ts"
import { answered, askedAbout, at, called, started } from "../domain/Journal.ts"
import { requestOf } from "./Histories.ts"

const runId = "run-1" as Id.RunId
const a = Id.toolCallId(runId, 1, 1)
const r1 = Id.requestId(runId, 1)

/** A call whose payload signs its arguments, after a signed thought, and whose arguments an approval edits. */
const state = [
  started(),
  answered([
    {
      _tag: "reasoning",
      text: "Pay now.",
      provider: "p",
      payload: { type: "thinking", thinking: "Pay now.", signature: "thought" }
    },
    { ...called("pay", { euros: 900 }), provider: "p", payload: { signature: "over 900" } } as AnsweredPart
  ]),
  ...askedAbout(a, r1, { arguments: { euros: 900 } }),
  {
    _tag: "request.decided",
    at,
    decision: {
      _tag: "approve",
      requestId: r1,
      by: "ada",
      at,
      arguments: { euros: 90 },
      note: "one zero less"
    },
    informs: true
  },
  { _tag: "tool.completed", at, callId: a, content: [text("paid 90")] }
].reduce<RunState | undefined>((state, event) => evolve(state, event as RunEvent), undefined)!

const protocols: Readonly<Record<ProtocolName, Protocol>> = { chat, responses, messages }

/** The call and its result in a body, without the names that the protocols give their parts. */
const paired: Readonly<Record<ProtocolName, (body: any) => readonly [unknown, unknown, string]>> = {
  chat: ({ messages }) => {
    const [call] = messages.at(-2).tool_calls
    const { content, tool_call_id: id } = messages.at(-1)
    return [JSON.parse(call.function.arguments), call.id === id, content]
  },
  responses: ({ input }) => {
    const { arguments: args, call_id: id } = input.at(-2)
    const { call_id: of, output } = input.at(-1)
    const said = typeof output === "string" ? output : output.map((part: any) => part.text).join("\n\n")
    return [JSON.parse(args), id === of, said]
  },
  messages: ({ messages }) => {
    const call = messages.at(-2).content.at(-1)
    const [result] = messages.at(-1).content
    return [
      call.input,
      call.id === result.tool_use_id,
      result.content.map(({ text }: any) => text).join("\n\n")
    ]
  }
}

describe("a call whose arguments an approval edited", () => {
  for (const [name, protocol] of Object.entries(protocols)) {
    it(`has a result on ${name} that informs the model of the edit, and no signature of the old arguments`, () => {
      const profile = { provider: "p", model: "m", protocol: name } as unknown as ModelProfile
      const request = { ...requestOf([]), messages: providerMessages(state) }
      const body = protocol.encode(request, profile, true)
      const [args, isPaired, said] = paired[name as ProtocolName](body)
      assert.deepStrictEqual([args, isPaired], [{ euros: 90 }, true])
      const notice = `ada edited the arguments of this call.\nProposed: {"euros":900}\nApproved: {"euros":90}\nNote: one zero less\n`
      assert.strictEqual(said, `${notice}\n\npaid 90`)
      assert.notInclude(JSON.stringify(body), "over 900")
    })
  }
})
