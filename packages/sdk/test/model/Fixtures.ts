import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
/**
 * Recorded answers of real providers, and functions that read them with a protocol at any chunking and compare the result with the
 * expected one.
 *
 * `../fixtures/models/INDEX.md` describes the conventions of `expected.json`.
 */
import { assert } from "@effect/vitest"
import * as Sse from "effect/encoding/Sse"
import type * as Schema from "effect/Schema"
import type { FinishReason } from "../../src/domain/RunEvent.ts"
import type { ModelUsage } from "../../src/domain/Usage.ts"
import type { AnswerDecoder } from "../../src/model/internal/protocol.ts"
import type { ModelError } from "../../src/model/ModelError.ts"
import type { ModelPart, ModelResponse } from "../../src/model/ModelPart.ts"
import { makeCollector } from "../../src/model/ModelPart.ts"
import type { ProtocolName } from "../../src/model/ModelProfile.ts"

/** The expected report of a client; the compared parts of `expected.json` → `normalized`. */
interface Normalized {
  readonly text?: string
  readonly reasoning?: string
  readonly toolCalls?: ReadonlyArray<{
    readonly id: string
    readonly name: string
    readonly arguments: string
  }>
  readonly finish?: string
  readonly finishAccept?: ReadonlyArray<string>
  readonly usage?: {
    readonly inputTokens: number | null
    readonly outputTokens: number | null
    readonly cachedInputTokens?: number | null
    readonly cacheWriteTokens?: number | null
    readonly reasoningTokens?: number | null
    readonly cost?: number | null
  } | null
  /** The error of an answer with another status than 200. */
  readonly error?: { readonly status: number; readonly message: string; readonly code?: string | number }
}

/** One recording. */
export interface Fixture {
  /** Its folder, such as `openai-tool-call`. */
  readonly name: string
  readonly status: number
  /** Whether it is a stream; otherwise the body is one JSON value, or invalid. */
  readonly stream: boolean
  /** The body of the response. */
  readonly bytes: Uint8Array
  readonly text: string
  /** The hash of the bytes. */
  readonly sha256: string
  /** The body of the request, if it was recorded. */
  readonly request: Schema.JsonObject | undefined
  readonly expected: Normalized
  readonly usageOnWire: Schema.JsonObject | null
}

const folder = join(import.meta.dirname, "../fixtures/models")

/** One recording, by its folder. */
export const fixture = (protocol: ProtocolName, name: string): Fixture => {
  const path = join(folder, protocol, name)
  const json = (file: string) => JSON.parse(readFileSync(join(path, file), "utf8"))
  const meta = json("meta.json")
  const { normalized, usageOnWire } = json("expected.json")
  const bytes = new Uint8Array(readFileSync(join(path, meta.file)))
  return {
    name,
    status: meta.http.status,
    stream: meta.stream,
    bytes,
    text: new TextDecoder().decode(bytes),
    sha256: meta.sha256,
    request: meta.request === true ? json("request.json") : undefined,
    expected: normalized,
    usageOnWire: usageOnWire ?? null
  }
}

/** All recordings of a protocol, by name. */
export const fixtures = (protocol: ProtocolName): ReadonlyArray<Fixture> =>
  readdirSync(join(folder, protocol))
    .sort()
    .map((name) => fixture(protocol, name))

/** The result of reading a stream: the parts up to its end or error, and the answer of a complete stream. */
export interface Reading {
  readonly parts: ReadonlyArray<ModelPart>
  readonly error: ModelError | undefined
  readonly response: ModelResponse | undefined
}

/** Reads bytes in the given pieces, like the transport. */
export const read = (decoder: AnswerDecoder, chunks: Iterable<Uint8Array>): Reading => {
  const parts: Array<ModelPart> = []
  const emit = (part: ModelPart) => void parts.push(part)
  let error: ModelError | undefined
  const parser = Sse.makeParser((event) => {
    if (error === undefined && event._tag === "Event") error = decoder.event(event.event, event.data, emit)
  })
  const utf8 = new TextDecoder()
  for (const chunk of chunks) {
    parser.feed(utf8.decode(chunk, { stream: true }))
    if (error !== undefined) break
  }
  // The last event counts without a blank line after it.
  parser.feed(utf8.decode() + "\n\n")
  error ??= decoder.end(emit)
  if (error !== undefined) return { parts, error, response: undefined }
  const collector = makeCollector()
  for (const part of parts) collector.add(part)
  assert.strictEqual(parts.filter((part) => part._tag === "finish").length, 1, "a whole answer finishes once")
  assert.strictEqual(parts.at(-1)?._tag, "finish", "nothing comes after the finish")
  return { parts, error, response: collector.response() }
}

/** Bytes in pieces of one size. */
export const inPieces = (bytes: Uint8Array, size: number): ReadonlyArray<Uint8Array> => {
  const pieces: Array<Uint8Array> = []
  for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.subarray(at, at + size))
  return pieces
}

/** Bytes in pieces of random sizes, some of them empty. */
export const inRandomPieces = (bytes: Uint8Array, random: Random): ReadonlyArray<Uint8Array> => {
  const longest = 1 + random(Math.max(1, bytes.length))
  const pieces: Array<Uint8Array> = []
  for (let at = 0; at < bytes.length;) {
    const size = random(longest + 1)
    pieces.push(bytes.subarray(at, at + size))
    at += size
  }
  return pieces
}

/** A whole number from 0 up to, not including, `below`. */
export type Random = (below: number) => number

/** Repeatable random numbers (mulberry32). */
export const randomFrom = (seed: number): Random => {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4294967296) * below)
  }
}

/** The UTF-8 bytes of a text. */
export const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

const finishReasons: Readonly<Record<string, FinishReason>> = {
  stop: "stop",
  "tool-calls": "toolCalls",
  length: "length",
  "content-filter": "contentFilter",
  unknown: "other"
}

/** The accepted finish reasons of a recording. */
const finishesOf = ({ finish, finishAccept }: Normalized): ReadonlyArray<FinishReason> =>
  (finishAccept ?? [finish ?? ""]).map((reason) => finishReasons[reason] ?? "other")

/** A recording's usage as `ModelUsage`, with the cost if the provider reports it. */
const usageOf = ({ expected, usageOnWire }: Fixture): ModelUsage => {
  const usage = expected.usage
  // 10^10 of xAI's ticks are a dollar.
  const ticks = usageOnWire?.["cost_in_usd_ticks"]
  const cost = typeof ticks === "number" ? ticks / 1e10 : (usage?.cost ?? usageOnWire?.["cost"])
  return {
    inputTokens: usage?.inputTokens ?? 0,
    outputTokens: usage?.outputTokens ?? 0,
    ...(typeof usage?.cachedInputTokens === "number" ? { cachedInputTokens: usage.cachedInputTokens } : {}),
    ...(typeof usage?.cacheWriteTokens === "number" ? { cacheWriteTokens: usage.cacheWriteTokens } : {}),
    ...(typeof usage?.reasoningTokens === "number" ? { reasoningTokens: usage.reasoningTokens } : {}),
    ...(typeof cost === "number" ? { costUsd: cost } : {})
  }
}

/** The parts of an answer that do not depend on the provider. */
export const summaryOf = ({ content, finishReason, usage }: ModelResponse) => {
  let text = ""
  let reasoning = ""
  const toolCalls: Array<{ id: string; name: string; arguments: string }> = []
  for (const part of content) {
    if (part._tag === "text") text += part.text
    else if (part._tag === "reasoning") reasoning += part.text
    else if (part._tag === "toolCall") {
      toolCalls.push({ id: part.providerCallId, name: part.name, arguments: part.arguments })
    }
  }
  return { text, reasoning, toolCalls, finishReason, usage }
}

/** Asserts that an answer equals the recording's expected one. */
export const assertExpected = (fixture: Fixture, response: ModelResponse | undefined): void => {
  if (response === undefined) return assert.fail(`${fixture.name} was not read to its end`)
  const finishes = finishesOf(fixture.expected)
  const { finishReason, ...summary } = summaryOf(response)
  assert.include(finishes, finishReason, fixture.name)
  assert.deepStrictEqual(
    summary,
    {
      text: fixture.expected.text ?? "",
      reasoning: fixture.expected.reasoning ?? "",
      toolCalls: (fixture.expected.toolCalls ?? []).map(({ id, name, arguments: text }) => ({
        id,
        name,
        arguments: text
      })),
      usage: usageOf(fixture)
    },
    fixture.name
  )
}

/** Whether the recording has the status 200 and ends in an error. */
export const failsInside = ({ expected, status }: Fixture): boolean =>
  status === 200 && expected.finish === "error"
