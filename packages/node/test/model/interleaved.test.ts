/** Tool calls with unusual numbering, chunking and interleaving, and streams that end within them. */
import { assert, describe, it } from "@effect/vitest"
import { ModelClient, type ModelPart } from "@fermata/sdk/model"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { ask, event, streamed } from "./asking.ts"
import { ends, type Protocol, protocols, served } from "./serving.ts"

describe("A streamed tool call", () => {
  /** A repeatable choice of numbers. */
  const randomFrom = (seed: number) => {
    let state = seed
    return (below: number) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
      return Math.floor((state / 2 ** 32) * below)
    }
  }
  interface Call {
    readonly id: string
    readonly name: string
    readonly arguments: string
  }
  const callsOf = (random: (below: number) => number): ReadonlyArray<Call> =>
    Array.from({ length: 1 + random(5) }, (_, index) => ({
      id: `call_${index}`,
      name: ["read", "write", "list"][random(3)]!,
      arguments: JSON.stringify({ n: index, text: 'a "quoted" {brace} \\ 🎼'.slice(0, random(24)) })
    }))
  const cut = (text: string, random: (below: number) => number): ReadonlyArray<string> => {
    const out: Array<string> = []
    for (let at = 0; at < text.length;) {
      const size = 1 + random(7)
      out.push(text.slice(at, at + size))
      at += size
    }
    return out
  }
  /** Interleaves the lists; each keeps its order. */
  const mixed = <A>(lists: ReadonlyArray<ReadonlyArray<A>>, random: (below: number) => number) => {
    const waiting = lists.map((list) => [...list])
    const out: Array<A> = []
    for (let open = waiting; open.length > 0; open = open.filter(({ length }) => length > 0)) {
      const next = open[random(open.length)]!.shift()
      if (next !== undefined) out.push(next)
    }
    return out
  }
  const streams: Readonly<
    Record<Protocol, (calls: ReadonlyArray<Call>, random: (below: number) => number) => string>
  > = {
    chat: (calls, random) => {
      let index = random(3)
      const lists = calls.map((call) => {
        index += 1 + random(4)
        const at = index
        const entry = (fields: object) =>
          event({ choices: [{ index: 0, delta: { tool_calls: [{ index: at, ...fields }] } }] })
        return [
          entry({ id: call.id, type: "function", function: { name: call.name, arguments: "" } }),
          ...cut(call.arguments, random).map((piece) => entry({ function: { arguments: piece } }))
        ]
      })
      const finish = event({ choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] })
      return `${mixed(lists, random).join("")}${finish}data: [DONE]\n\n`
    },
    responses: (calls, random) => {
      let index = random(3)
      const lists = calls.map((call) => {
        index += 1 + random(4)
        const at = index
        const item = { type: "function_call", id: `fc_${at}`, call_id: call.id, name: call.name }
        const told = (type: string, fields: object) => event({ type, output_index: at, ...fields })
        return [
          told("response.output_item.added", { item: { ...item, arguments: "" } }),
          ...cut(call.arguments, random).map((delta) =>
            told("response.function_call_arguments.delta", { item_id: item.id, delta })
          ),
          told("response.output_item.done", { item: { ...item, arguments: call.arguments } })
        ]
      })
      return mixed(lists, random).join("") + ends.responses
    },
    messages: (calls, random) => {
      let index = random(3)
      const lists = calls.map((call) => {
        index += 1 + random(4)
        const at = index
        const told = (type: string, fields: object = {}) => event({ type, index: at, ...fields })
        return [
          told("content_block_start", {
            content_block: { type: "tool_use", id: call.id, name: call.name, input: {} }
          }),
          ...cut(call.arguments, random).map((piece) =>
            told("content_block_delta", { delta: { type: "input_json_delta", partial_json: piece } })
          ),
          told("content_block_stop")
        ]
      })
      const stop = event({ type: "message_delta", delta: { stop_reason: "tool_use" } })
      return mixed(lists, random).join("") + stop + event({ type: "message_stop" })
    }
  }

  for (const protocol of protocols) {
    it.live(`is whole for any numbering, chunking and interleaving of the calls (${protocol})`, () =>
      Effect.gen(function* () {
        for (let seed = 1; seed <= 100; seed++) {
          const random = randomFrom(seed)
          const calls = callsOf(random)
          const body = streams[protocol](calls, random)
          const { client } = yield* served(protocol, [streamed(body, { chunking: { seed, longest: 400 } })])
          const { content } = yield* ModelClient.collect(client.stream(ask()))
          const told = content.flatMap((part) =>
            part._tag === "toolCall"
              ? [{ id: part.providerCallId, name: part.name, arguments: part.arguments }]
              : []
          )
          assert.sameDeepMembers(told, [...calls], `seed ${seed}`)
        }
      })
    )

    it.live(`is not emitted when the stream ends within it (${protocol})`, () =>
      Effect.gen(function* () {
        const random = randomFrom(3)
        const calls = callsOf(() => 4)
        const body = streams[protocol](calls, random)
        const terminator = {
          chat: '"finish_reason"',
          responses: "response.completed",
          messages: "message_delta"
        }
        const last = body.indexOf(terminator[protocol]) - 60
        for (let after = 10; after < last; after += 61) {
          for (const kind of ["end", "cut", "reset"] as const) {
            const { client } = yield* served(protocol, [streamed(body, { fault: { after, kind } })])
            const seen: Array<ModelPart.ModelPart> = []
            const error = yield* client.stream(ask()).pipe(
              Stream.runForEach((part) => Effect.sync(() => seen.push(part))),
              Effect.flip
            )
            assert.strictEqual(error.reason._tag, "ConnectionLost")
            assert.notInclude(
              seen.map((part) => part._tag),
              "tool-call"
            )
          }
        }
      })
    )
  }
})
