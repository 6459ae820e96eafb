/**
 * The suite of every protocol's decoder: its recordings with changed chunks, framing, cuts and corruptions.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { repeats, stepOf } from "../../../../scripts/internal/effort.ts"
import type { Protocol } from "../../src/model/internal/protocol.ts"
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

export interface DecoderSuite {
  readonly protocol: Protocol
  readonly profile: ModelProfile
  /** The error reasons of recordings that end without an answer. */
  readonly errors: Readonly<Record<string, string>>
  /** The event that starts the piece at a place. */
  readonly piece: (index: number) => unknown
  /** The whole answer equivalent to a stream. */
  readonly joined: (events: ReadonlyArray<any>) => unknown
  /** A whole answer of another protocol. */
  readonly foreign: unknown
  /** The end marker after the last event, where the protocol has one. */
  readonly marker?: string
  /** Shortens a stream: reading every prefix of a long one takes long. */
  readonly shortened?: (text: string) => string
  /** Fails unless `cut` is a valid reading of a truncated stream; `entire` is the reading of all of it. */
  readonly assertCut?: (fixture: Fixture, cut: Reading, entire: Reading, where: string) => void
  /** Further text that corruptions insert into a stream. */
  readonly accidents?: ReadonlyArray<string>
}

export const decoderSuite = (
  name: string,
  {
    accidents = [],
    assertCut,
    errors,
    foreign,
    joined,
    marker,
    piece,
    profile,
    protocol,
    shortened = withFewDeltas
  }: DecoderSuite
): void => {
  const answered = fixtures(profile.protocol).filter(({ status }) => status === 200)
  const streams = answered.filter(({ stream }) => stream)
  const bodies = answered.filter(({ stream }) => !stream)
  const whole = streams.filter((fixture) => !failsInside(fixture))

  const readIn = (chunks: Iterable<Uint8Array>) => read(protocol.decoder(profile), chunks)
  const readText = (text: string) => readIn([bytesOf(text)])
  const assertReading = (fixture: Fixture, reading: Reading) => {
    const reason = errors[fixture.name]
    if (reason === undefined) return assertExpected(fixture, reading.response)
    assert.isUndefined(reading.response, fixture.name)
    assert.strictEqual(reading.error?.reason._tag, reason, fixture.name)
  }

  describe(`a streamed ${name}`, () => {
    for (const fixture of streams) {
      it(`reads ${fixture.name}`, () => assertReading(fixture, readIn([fixture.bytes])))
    }

    it("gives the same answer one byte at a time", () => {
      for (const fixture of streams) assertReading(fixture, readIn(inPieces(fixture.bytes, 1)))
    })

    it.each<{ readonly framing: string; readonly of: (text: string) => string }>([
      { framing: "CRLF", of: (text) => text.replaceAll("\n", "\r\n") },
      { framing: "CR", of: (text) => text.replaceAll("\n", "\r") },
      { framing: "a byte order mark", of: (text) => `\uFEFF${text}` },
      { framing: "comments", of: (text) => text.replaceAll("\n\n", "\n: alive\n\n: alive\n\n") },
      { framing: "a flood of blank lines", of: (text) => `${"\n".repeat(5000)}${text}` },
      { framing: "no blank after the colon", of: (text) => text.replaceAll("data: ", "data:") },
      { framing: "no names", of: (text) => text.replaceAll(/^event:.*\n/gm, "") },
      { framing: "ids and retry times", of: (text) => text.replaceAll("data: ", "id: 7\nretry: 10\ndata: ") },
      { framing: "empty events", of: (text) => text.replaceAll("data: {", "data:\n\ndata:  \n\ndata: {") },
      { framing: "events of unknown names", of: (text) => `event: ping\ndata: now\n\n${text}` },
      { framing: "events of unknown types", of: (text) => `data: {"type":"x.y","delta":"z"}\n\n${text}` },
      { framing: "blanks after each event", of: (text) => text.replaceAll("}\n\n", "}   \n\n") },
      { framing: "no blank line at the end", of: (text) => text.trimEnd() },
      { framing: "[DONE] at the end", of: (text) => `${text}\n\ndata: [DONE]\n\n` },
      { framing: "data over several lines", of: (text) => text.replace(/^(data: \{)/gm, "$1\ndata: ") }
    ])("gives the same answer with $framing", ({ of }) => {
      for (const fixture of streams) assertReading(fixture, readText(of(fixture.text)))
    })

    for (const fixture of streams) {
      it(`reports the truncation of ${fixture.name} at any byte, and never returns an unfinished call`, () => {
        const bytes = bytesOf(shortened(fixture.text))
        const entire = readIn([bytes])
        for (let at = 0; at < bytes.length; at += stepOf(3)) {
          const cut = readIn([bytes.subarray(0, at)])
          const where = `cut at byte ${at}`
          assertCallsOf(cut.parts, fixture, where)
          if (assertCut !== undefined) assertCut(fixture, cut, entire, where)
          else if (cut.response !== undefined) assert.deepStrictEqual(cut.response, entire.response, where)
          else assert.include(["ConnectionLost", errors[fixture.name]], cut.error?.reason._tag, where)
        }
      })
    }

    it("gives an answer or an error for corrupted bytes", () => {
      for (let seed = 0; seed < repeats(1000); seed++) {
        const random = randomFrom(seed)
        const fixture = streams[seed % streams.length]!
        let bytes = fixture.bytes
        for (let times = 1 + random(4); times > 0; times--) bytes = spoiled(bytes, random, accidents)
        const { error, parts, response } = readIn(inRandomPieces(bytes, random))
        assert.strictEqual(error === undefined, response !== undefined)
        for (const part of parts) if (part._tag === "tool-call") assert.isString(part.arguments)
      }
    })

    it("gives an answer or an error for corrupted fields", () => {
      for (let seed = 0; seed < repeats(300); seed++) {
        const random = randomFrom(seed)
        const fixture = streams[seed % streams.length]!
        const events = eventsOf(fixture.text).map((event) =>
          random(4) === 0 ? distorted(event, random) : event
        )
        const { error, parts, response } = readText(
          events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("")
        )
        assert.strictEqual(error === undefined, response !== undefined)
        for (const part of parts) if (part._tag === "tool-call") assert.isString(part.arguments)
      }
    })

    it("fails with InvalidResponse beyond the bound of pieces", () => {
      const decoder = protocol.decoder(profile)
      let error: ModelError | undefined
      for (let index = 20_000; index >= 0; index--) {
        error ??= decoder.event("message", JSON.stringify(piece(index)), () => {})
      }
      assert.strictEqual(error?.reason._tag, "InvalidResponse")
    })

    it("is done after its last event, and ignores later ones", () => {
      for (const fixture of whole) {
        const decoder = protocol.decoder(profile)
        const events = eventsOf(fixture.text)
        for (const event of events) {
          assert.isFalse(decoder.isDone?.(), fixture.name)
          decoder.event("message", JSON.stringify(event), () => {})
        }
        if (marker !== undefined) {
          assert.isFalse(decoder.isDone?.(), fixture.name)
          decoder.event("message", marker, () => {})
        }
        assert.isTrue(decoder.isDone?.(), fixture.name)
        const more = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("")
        const end = marker === undefined ? "" : `data: ${marker}\n\n`
        assertReading(fixture, readText(`${fixture.text}\n\n${end}${more}data: x\n\ndata: y\n\n`))
      }
    })
  })

  describe(`a whole ${name}`, () => {
    for (const fixture of bodies) {
      it(`reads ${fixture.name}`, () => {
        const result = protocol.decode(parsed(fixture.text), profile)
        if (errors[fixture.name] === undefined) return assertExpected(fixture, valueOf(result))
        assert.strictEqual<unknown>(
          Result.isFailure(result) && result.failure.reason._tag,
          errors[fixture.name]
        )
      })
    }

    it("gives the same answer as a streamed one", () => {
      for (const fixture of whole) {
        const result = valueOf(protocol.decode(joined(eventsOf(fixture.text)), profile))
        assert.isDefined(result, fixture.name)
        assert.deepStrictEqual(
          result && summaryOf(result),
          summaryOf(readIn([fixture.bytes]).response!),
          fixture.name
        )
      }
    })

    it("gives an answer or an error for corrupted fields", () => {
      const values = [
        ...bodies.map(({ text }) => parsed(text)),
        ...whole.map(({ text }) => joined(eventsOf(text)))
      ]
      for (let seed = 0; seed < 2000; seed++) {
        const random = randomFrom(seed)
        const result = protocol.decode(distorted(values[seed % values.length], random), profile)
        for (const part of valueOf(result)?.content ?? []) {
          if (part._tag === "toolCall") assert.isString(part.arguments)
        }
      }
    })

    it.each<{ readonly body: unknown }>([
      { body: undefined },
      { body: null },
      { body: "" },
      { body: "<html>" },
      { body: 7 },
      { body: [] },
      { body: {} },
      { body: { object: "list", data: [] } },
      { body: foreign }
    ])("fails with InvalidResponse for $body", ({ body }) => {
      const result = protocol.decode(body, profile)
      assert.strictEqual(Result.isFailure(result) && result.failure.reason._tag, "InvalidResponse")
    })

    it("fails with the error in its body", () => {
      const result = protocol.decode({ error: { code: "insufficient_quota", message: "No money." } }, profile)
      assert.strictEqual(Result.isFailure(result) && result.failure.reason._tag, "QuotaExhausted")
    })
  })
}

const valueOf = <A, E>(result: Result.Result<A, E>): A | undefined => Result.getOrUndefined(result)

/** The parsed body, or `undefined` when it is not JSON. */
const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The events of a stream, parsed. */
export const eventsOf = (text: string): ReadonlyArray<any> =>
  text
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice(6)))

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

/** The stream with few text deltas and without fields that are not read. */
const withFewDeltas = (text: string): string => {
  let deltas = 0
  return eventsOf(text)
    .filter(
      ({ delta, type }) => !/text|thinking/.test(delta?.type ?? type) || !/delta/.test(type) || deltas++ < 5
    )
    .map((event) => ({
      ...event,
      ...(event.response === undefined ? {} : { response: slim(event.response) })
    }))
    .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event, withoutBulk)}\n\n`)
    .join("")
}

const slim = ({ error, id, incomplete_details, output, status, usage }: any) => ({
  id,
  status,
  error,
  incomplete_details,
  output,
  usage
})

const withoutBulk = (key: string, value: unknown) =>
  key === "logprobs" || key === "annotations"
    ? []
    : typeof value === "string" && key !== "arguments"
      ? value.slice(0, 80)
      : value

/** One corruption: bytes are changed, lost, repeats or inserted, or an event moves. */
const spoiled = (bytes: Uint8Array, random: Random, accidents: ReadonlyArray<string>): Uint8Array => {
  const at = random(bytes.length)
  switch (random(7)) {
    case 0: {
      const out = bytes.slice()
      out[at] = random(256)
      return out
    }
    case 1:
      return joinedBytes(bytes.subarray(0, at), bytes.subarray(at + 1 + random(9)))
    case 2:
      return joinedBytes(bytes.subarray(0, at + 1 + random(9)), bytes.subarray(at))
    case 3:
      return joinedBytes(
        bytes.subarray(0, at),
        bytesOf([junk.slice(random(10)), ...accidents][random(1 + accidents.length)]!),
        bytes.subarray(at)
      )
    default: {
      const events = new TextDecoder().decode(bytes).split("\n\n")
      const [one, other] = [random(events.length), random(events.length)]
      if (random(3) === 0) events.splice(one, 1)
      else if (random(2) === 0) events.splice(one, 0, events[other]!)
      else [events[one], events[other]] = [events[other]!, events[one]!]
      return bytesOf(events.join("\n\n"))
    }
  }
}

const junk = '\n:{}[]"\\,e0\r'

const joinedBytes = (...pieces: ReadonlyArray<Uint8Array>): Uint8Array => {
  const out = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const piece of pieces) {
    out.set(piece, at)
    at += piece.length
  }
  return out
}

const odd: ReadonlyArray<unknown> = [
  null,
  "",
  "x",
  "{",
  "[1]",
  0,
  -1,
  1.5,
  1e308,
  true,
  [],
  {},
  [null],
  [[]],
  { type: "x" },
  { error: 7 },
  JSON.parse(`${"[".repeat(1000)}${"]".repeat(1000)}`),
  JSON.parse('{"__proto__":{"type":"text"}}')
]

/** JSON with some values replaced, lost or repeats. */
const distorted = (value: any, random: Random): any => {
  if (random(12) === 0) return odd[random(odd.length)]
  if (Array.isArray(value)) {
    return value.flatMap((item) =>
      Array.from({ length: [1, 1, 1, 1, 0, 2][random(6)]! }, () => distorted(item, random))
    )
  }
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, inner]) =>
      random(20) === 0 ? [] : [[key, distorted(inner, random)]]
    )
  )
}
