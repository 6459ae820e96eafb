/**
 * Every recording, streamed or whole, in natural chunks, byte by byte and at 200 random chunkings, read like the transport reads it.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import { repeats } from "../../../../scripts/internal/effort.ts"
import { messages } from "../../src/model/internal/anthropic/messages.ts"
import { makeAnswerReader } from "../../src/model/internal/http/sse.ts"
import { makeClient } from "../../src/model/internal/http/transport.ts"
import { chat } from "../../src/model/internal/openai/chat.ts"
import { responses } from "../../src/model/internal/openai/responses.ts"
import type { Protocol } from "../../src/model/internal/protocol.ts"
import type { ModelPart } from "../../src/model/ModelPart.ts"
import { makeCollector } from "../../src/model/ModelPart.ts"
import type { ModelProfile } from "../../src/model/ModelProfile.ts"
import { assertExpected, type Fixture, fixtures, inPieces, inRandomPieces, randomFrom } from "./Fixtures.ts"
import { requestOf } from "./Histories.ts"

const chunkings = repeats(200)

type Chunks = ReadonlyArray<Uint8Array>

/** The chunkings of a body. */
function* waysToCut(bytes: Uint8Array): Generator<Chunks> {
  yield [bytes]
  yield inPieces(bytes, 1)
  for (let seed = 0; seed < chunkings; seed++) yield inRandomPieces(bytes, randomFrom(seed))
}

const typeOf = ({ stream, text }: Fixture): string =>
  stream ? "text/event-stream" : /^\s*[{[]/.test(text) ? "application/json" : "text/plain"

/** The result of reading a body in these chunks. */
const readIn = (protocol: Protocol, profile: ModelProfile, contentType: string, chunks: Chunks) => {
  const reader = makeAnswerReader(protocol, profile, contentType)
  const parts: Array<ModelPart> = []
  for (const chunk of chunks) {
    reader.feed(chunk)
    parts.push(...reader.take())
  }
  reader.end()
  parts.push(...reader.take())
  const collector = makeCollector()
  for (const part of parts) collector.add(part)
  const error = reader.error()
  return { error, response: error === undefined ? collector.response() : undefined }
}

/** The failure of a client that receives this response in these chunks. */
const failureIn = (protocol: Protocol, profile: ModelProfile, fixture: Fixture, chunks: Chunks) => {
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      for (const chunk of chunks) controller.enqueue(chunk)
      controller.close()
    }
  })
  const init = { status: fixture.status, headers: { "content-type": typeOf(fixture) } }
  const http = HttpClient.make((request) =>
    Effect.sync(() => HttpClientResponse.fromWeb(request, new Response(body, init)))
  )
  return makeClient(protocol, profile).pipe(
    Effect.flatMap((client) => Effect.flip(client.complete(requestOf([])))),
    Effect.provideService(HttpClient.HttpClient, http)
  )
}

const assertSameAnswer = (protocol: Protocol, profile: ModelProfile, fixture: Fixture) =>
  Effect.sync(() => {
    const read = (chunks: Chunks) => readIn(protocol, profile, typeOf(fixture), chunks)
    const whole = read([fixture.bytes])
    if (whole.error === undefined) assertExpected(fixture, whole.response)
    else assert.include(["error", "pending"], fixture.expected.finish)
    for (const chunks of waysToCut(fixture.bytes)) assert.deepStrictEqual(read(chunks), whole)
  })

const assertSameError = (protocol: Protocol, profile: ModelProfile, fixture: Fixture) =>
  Effect.gen(function* () {
    const { message } = yield* failureIn(protocol, profile, fixture, [fixture.bytes])
    for (const chunks of waysToCut(fixture.bytes)) {
      assert.strictEqual((yield* failureIn(protocol, profile, fixture, chunks)).message, message)
    }
  })

let count = 0

for (const [name, protocol] of Object.entries({ chat, responses, messages })) {
  const profile: ModelProfile = {
    name: "m",
    protocol: name as ModelProfile["protocol"],
    baseUrl: "https://models.example/v1",
    model: "m",
    retry: { times: 0 }
  }
  describe(`a recorded answer in chunks (${name})`, () => {
    for (const fixture of fixtures(profile.protocol)) {
      count += 1
      const assertSame = fixture.status === 200 ? assertSameAnswer : assertSameError
      it.effect(`${fixture.name} is the same at ${chunkings} chunkings`, () =>
        assertSame(protocol, profile, fixture)
      )
    }
  })
}

it("all 69 recordings are read in chunks", () => {
  assert.strictEqual(count, 69)
})
