import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { chat } from "../../src/model/internal/chat.ts"
import type { ModelError } from "../../src/model/ModelError.ts"
import type { ModelPart } from "../../src/model/ModelPart.ts"
import type { ModelProfile } from "../../src/model/ModelProfile.ts"
import type { Fixture, Random, Reading } from "./Fixtures.ts"
import {
  assertExpected,
  bytesOf,
  failsInside,
  fixtures,
  inPieces,
  inRandomPieces,
  randomFrom,
  read,
  summaryOf
} from "./Fixtures.ts"

const profile: ModelProfile = {
  name: "test",
  protocol: "chat",
  baseUrl: "https://models.example/v1",
  model: "test"
}
const recorded = fixtures("chat")
const streams = recorded.filter((fixture) => fixture.stream && fixture.status === 200)
const bodies = recorded.filter((fixture) => !fixture.stream && fixture.status === 200)

const readIn = (chunks: Iterable<Uint8Array>) => read(chat.decoder(profile), chunks)
const readText = (text: string) => readIn([bytesOf(text)])

const assertReading = (fixture: Fixture, reading: Reading) => {
  if (!failsInside(fixture)) return assertExpected(fixture, reading.response)
  assert.isUndefined(reading.response, fixture.name)
  assert.strictEqual(reading.error?.reason._tag, errors[fixture.name], fixture.name)
}

/** What the recorded streams fail with that fail in the middle. */
const errors: Readonly<Record<string, string>> = {
  "groq-midstream-error": "InvalidRequest",
  "openrouter-midstream-error": "InvalidRequest"
}

const json = (fixture: Fixture): unknown => {
  try {
    return JSON.parse(fixture.text)
  } catch {
    return undefined
  }
}

describe("a streamed chat completion", () => {
  for (const fixture of streams) {
    it(`reads ${fixture.name}`, () => {
      assertReading(fixture, readIn([fixture.bytes]))
    })
  }

  it("reads the same one byte at a time", () => {
    for (const fixture of streams) assertReading(fixture, readIn(inPieces(fixture.bytes, 1)))
  })

  it("reads the same at any chunking", () => {
    for (let seed = 0; seed < 1000; seed++) {
      const random = randomFrom(seed)
      const fixture = streams[seed % streams.length]!
      assertReading(fixture, readIn(inRandomPieces(fixture.bytes, random)))
    }
  })

  it.each<{ readonly framing: string; readonly of: (text: string) => string }>([
    { framing: "CRLF", of: (text) => text.replaceAll("\n", "\r\n") },
    { framing: "CR", of: (text) => text.replaceAll("\n", "\r") },
    { framing: "a byte order mark", of: (text) => `\uFEFF${text}` },
    {
      framing: "comments between all lines",
      of: (text) => text.replaceAll("\n\n", "\n: alive\n\n: alive\n\n")
    },
    { framing: "a flood of blank lines", of: (text) => `${"\n".repeat(5000)}${text}` },
    { framing: "no blank after the colon", of: (text) => text.replaceAll("data: ", "data:") },
    { framing: "ids and retry times", of: (text) => text.replaceAll("data: ", "id: 7\nretry: 10\ndata: ") },
    { framing: "empty events", of: (text) => text.replaceAll("data: {", "data:\n\ndata:  \n\ndata: {") },
    { framing: "events of unknown names", of: (text) => `event: ping\ndata: now\n\n${text}` },
    { framing: "no blank line at the end", of: (text) => text.trimEnd() },
    {
      framing: "data over several lines",
      of: (text) => text.replace(/^(data: .*?)("choices":)/gm, "$1\ndata: $2")
    },
    { framing: "blanks after each event", of: (text) => text.replaceAll("}\n\n", "}   \n\n") }
  ])("reads the same with $framing", ({ of }) => {
    for (const fixture of streams) assertReading(fixture, readText(of(fixture.text)))
  })

  it("ends as cut wherever it is cut, and never with a call that was not asked for", () => {
    for (const fixture of streams) {
      const bytes = bytesOf(shortened(fixture.text))
      const whole = readIn([bytes])
      for (let at = 0; at < bytes.length; at++) {
        const { error, parts, response } = readIn([bytes.subarray(0, at)])
        const where = `${fixture.name} cut at byte ${at}`
        assertCallsOf(parts, fixture, where)
        if (response === undefined) {
          const reason = error?.reason._tag
          if (reason !== whole.error?.reason._tag && reason !== "ProviderFault") {
            assert.strictEqual(reason, "ConnectionLost", where)
          }
        } else if (failsInside(fixture)) {
          // OpenRouter had said `length` before it said what was wrong.
          assert.strictEqual(response.finishReason, "length", where)
        } else {
          // Only what comes after the finish reason, the usage, may be missing.
          assert.deepStrictEqual({ ...response, usage: 0 }, { ...whole.response, usage: 0 }, where)
        }
      }
    }
  })

  it("ends in an answer or an error whatever happens to its bytes", () => {
    for (let seed = 0; seed < 3000; seed++) {
      const random = randomFrom(seed)
      const fixture = streams[seed % streams.length]!
      let bytes = fixture.bytes
      for (let times = 1 + random(4); times > 0; times--) bytes = mutate(bytes, random)
      const { error, parts, response } = readIn(inRandomPieces(bytes, random))
      assert.strictEqual(error === undefined, response !== undefined)
      for (const part of parts) if (part._tag === "tool-call") assert.isString(part.arguments)
    }
  })

  it("ends in an answer or an error whatever its fields are", () => {
    for (let seed = 0; seed < 1000; seed++) {
      const random = randomFrom(seed)
      const fixture = streams[seed % streams.length]!
      const text = fixture.text.replaceAll(/^data: (\{.*)$/gm, (line, data: string) =>
        random(3) === 0 ? `data: ${JSON.stringify(distort(JSON.parse(data), random))}` : line
      )
      const { error, parts, response } = readText(text)
      assert.strictEqual(error === undefined, response !== undefined)
      for (const part of parts) if (part._tag === "tool-call") assert.isString(part.arguments)
    }
  })

  it("is no answer with more calls than any answer has", () => {
    for (const numbered of [true, false]) {
      const decoder = chat.decoder(profile)
      const call = (place: number) => ({
        ...(numbered ? { index: place } : {}),
        id: `call_${place}`,
        function: { name: "read", arguments: "{}" }
      })
      let error: ModelError | undefined
      let calls = 0
      for (; error === undefined && calls < 20_000; calls++) {
        const delta = { tool_calls: [call(calls)] }
        error = decoder.event("message", JSON.stringify({ choices: [{ delta }] }), () => {})
      }
      assert.strictEqual(error?.reason._tag, "InvalidResponse")
      assert.strictEqual(calls, 10_001)
    }
  })

  it("reads nothing after [DONE]", () => {
    for (const fixture of streams.filter((fixture) => !failsInside(fixture))) {
      assertReading(
        fixture,
        readText(`${fixture.text}\n\ndata: {"choices":[{"delta":{"content":"more"}}]}\n\ndata: x\n\n`)
      )
    }
  })

  it("says that it is done at [DONE], before the connection closes", () => {
    const decoder = chat.decoder(profile)
    const emit = () => {}
    decoder.event("message", '{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}', emit)
    assert.isFalse(decoder.isDone?.())
    decoder.event("message", "[DONE]", emit)
    assert.isTrue(decoder.isDone?.())
  })
})

describe("a whole chat completion", () => {
  for (const fixture of bodies) {
    it(`reads ${fixture.name}`, () => {
      const result = chat.decode(json(fixture), profile)
      if (failsInside(fixture)) {
        assert.strictEqual(Result.isFailure(result) && result.failure.reason._tag, "InvalidResponse")
      } else {
        assertExpected(fixture, Result.isSuccess(result) ? result.success : undefined)
      }
    })
  }

  it("says what a streamed one says", () => {
    for (const fixture of streams.filter((fixture) => !failsInside(fixture))) {
      const streamed = readIn([fixture.bytes]).response
      const result = chat.decode(joined(fixture), profile)
      assert.deepStrictEqual(
        Result.isSuccess(result) && summaryOf(result.success),
        streamed && summaryOf(streamed),
        fixture.name
      )
    }
  })

  it("is an answer or an error, whatever it is", () => {
    for (let seed = 0; seed < 2000; seed++) {
      const random = randomFrom(seed)
      const fixture = bodies[seed % bodies.length]!
      const result = chat.decode(distort(json(fixture), random), profile)
      if (Result.isFailure(result)) continue
      for (const part of result.success.content) {
        if (part._tag === "toolCall") assert.isString(part.arguments)
      }
    }
  })
})

const assertCallsOf = (parts: ReadonlyArray<ModelPart>, { expected }: Fixture, where: string) => {
  for (const part of parts) {
    if (part._tag !== "tool-call") continue
    const { arguments: text, name, providerCallId: id } = part
    const known = expected.toolCalls?.some(
      (call) => call.id === id && call.name === name && call.arguments === text
    )
    assert.isTrue(known === true, where)
  }
}

/** A stream with less reasoning: to read each beginning of a long one takes long, and each piece of reasoning is as the other. */
const shortened = (text: string): string =>
  text
    .split("\n\n")
    .filter((event, index) => index < 8 || !/"reasoning(_content)?":"/.test(event))
    .join("\n\n")

/** A stream's chunks as the one body that the provider would have sent, joined field by field. */
const joined = (fixture: Fixture): unknown => {
  const chunks = fixture.text
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice(6)))
  const message: Record<string, any> = {}
  let finish: unknown = null
  let usage: unknown
  for (const chunk of chunks) {
    usage = chunk.usage ?? usage
    for (const { delta, finish_reason: reason } of chunk.choices) {
      finish = reason ?? finish
      for (const [field, value] of Object.entries<any>(delta)) {
        if (field === "tool_calls") {
          for (const call of value ?? []) {
            const calls = (message.tool_calls ??= [])
            const before = (calls[call.index] ??= {
              ...call,
              function: { name: call.function.name, arguments: "" }
            })
            before.function.arguments += call.function.arguments ?? ""
          }
        } else if (Array.isArray(value)) message[field] = [...(message[field] || []), ...value]
        else if (typeof value === "string" && !Array.isArray(message[field])) {
          message[field] = `${message[field] ?? ""}${value}`
        }
      }
    }
  }
  return { choices: [{ index: 0, message, finish_reason: finish }], usage }
}

/** One accident: a byte or a line is changed, lost, doubled or made up, or two events change places. */
const mutate = (bytes: Uint8Array, random: Random): Uint8Array => {
  const at = random(bytes.length)
  const around = (middle: Uint8Array, skip: number) => {
    const out = new Uint8Array(at + middle.length + Math.max(0, bytes.length - at - skip))
    out.set(bytes.subarray(0, at))
    out.set(middle, at)
    out.set(bytes.subarray(at + skip), at + middle.length)
    return out
  }
  switch (random(7)) {
    case 0:
      return around(new Uint8Array([bytes[at]! ^ (1 << random(8))]), 1)
    case 1:
      return around(new Uint8Array(), 1 + random(20))
    case 2:
      return around(bytes.subarray(at, at + 1 + random(20)), 0)
    case 3:
      return around(bytesOf(inserted[random(inserted.length)]!), random(2))
    default: {
      const events = new TextDecoder().decode(bytes).split("\n\n")
      const one = random(events.length)
      const other = random(events.length)
      const kind = random(3)
      if (kind === 0) events.splice(one, 1)
      else if (kind === 1) events.splice(other, 0, events[one]!)
      else [events[one], events[other]] = [events[other]!, events[one]!]
      return bytesOf(events.join("\n\n"))
    }
  }
}

const inserted = [
  "\n",
  "\n\n",
  '"',
  "}",
  "{",
  "[",
  ",",
  "null",
  "\\",
  "\u0000",
  "data: ",
  "data: null\n\n",
  "data: [DONE]\n\n",
  "event: error\n",
  'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}]}\n\n',
  'data: {"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"name":"f","arguments":"[1]"}}]}}]}\n\n',
  'data: {"choices":[{"finish_reason":"tool_calls"}]}\n\n'
]

const strange: ReadonlyArray<unknown> = [
  null,
  0,
  -1,
  1e308,
  "",
  "{",
  [],
  {},
  true,
  [null],
  { error: 7 },
  JSON.parse(`${"[".repeat(1000)}${"]".repeat(1000)}`),
  JSON.parse('{"__proto__":{"type":"text"}}')
]

/** The value with one thing in it replaced by something that nobody expects there. */
const distort = (value: unknown, random: Random): unknown => {
  if (typeof value !== "object" || value === null || random(6) === 0) return strange[random(strange.length)]
  const keys = Object.keys(value)
  if (keys.length === 0) return strange[random(strange.length)]
  const key = keys[random(keys.length)]!
  const changed = distort((value as Record<string, unknown>)[key], random)
  if (Array.isArray(value)) return value.with(Number(key), changed)
  return { ...value, [key]: changed }
}
