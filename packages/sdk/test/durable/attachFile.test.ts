import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import { sha256Of } from "../../src/domain/internal/sha256.ts"
import { messages } from "../../src/domain/RunState.ts"
import { type Attachable, attachFile } from "../../src/durable/attachFile.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { readAttachment } from "../../src/durable/readAttachment.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { joined } from "../../src/store/internal/blobs.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import { bind, call, expect, safe } from "../helpers/Fixture.ts"
import { fileOf, filesIn, imageOf, stored } from "./attachmentsSuite.ts"

const test = (title: string, body: () => Effect.fn.Return<unknown, unknown, RunStore>) =>
  it.effect(title, () => Effect.provide(Effect.gen(body), Layer.fresh(layerMemory)))

const png = Uint8Array.from([0x89, ...new TextEncoder().encode("PNG\r\n"), ...imageOf(5000)])

const inPieces = async function* (bytes: Uint8Array, length: number) {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length)
}

const bytesOf = Effect.fnUntraced(function* (runId: string, part: Parameters<typeof readAttachment>[1]) {
  return joined(yield* Stream.runCollect((yield* readAttachment(runId, part)).stream()))
})

describe("attachFile", () => {
  const given: Record<string, () => Attachable> = {
    "a Uint8Array": () => png,
    "an ArrayBuffer": () => png.slice().buffer,
    "a Blob": () => new Blob([png.slice()]),
    "a ReadableStream": () => new Blob([png.slice()]).stream(),
    "an async iterable": () => inPieces(png, 7),
    "an Effect stream": () => Stream.fromIterable([png.subarray(0, 3), png.subarray(3)])
  }
  for (const [what, make] of Object.entries(given)) {
    test(`stores ${what}, recognizes its media type, and returns the part for a prompt`, function* () {
      const part = yield* attachFile(make(), { name: "cat.png" })
      assert.deepStrictEqual(part, stored(png, { name: "cat.png" }))
      const { model, runtime } = yield* bind(Agent.make("eye"), ["A cat."])
      const { runId } = expect(yield* runPromptStored(runtime, { prompt: [part] }), "completed")
      assert.deepStrictEqual(filesIn(model.requests[0]?.messages), [fileOf(png, { name: "cat.png" })])
      assert.deepStrictEqual(yield* bytesOf(runId, part), joined([png]))
    })
  }

  test("takes the media type and the name of a File, and those of the options first", function* () {
    const file = new File([imageOf(2000).slice()], "a.bin", { type: "audio/ogg" })
    assert.deepInclude(yield* attachFile(file), { mediaType: "audio/ogg", name: "a.bin" })
    assert.deepInclude(yield* attachFile(file, { mediaType: "audio/mpeg", name: "b" }), {
      mediaType: "audio/mpeg",
      name: "b"
    })
  })

  test("puts a small file, and a file for a store without contents, into the part", function* () {
    assert.deepStrictEqual(yield* attachFile(png.slice(0, 100)), fileOf(png.slice(0, 100)))
    const { blobs: _, ...store } = yield* RunStore
    assert.deepStrictEqual(
      yield* Effect.provideService(attachFile(inPieces(png, 7)), RunStore, store),
      fileOf(png)
    )
  })

  for (const length of [1, 4096, 10_000, 1_000_000]) {
    test(`removes secrets from a text in pieces of ${length} bytes, and no other byte`, function* () {
      const text = `${"größer 👍\n".repeat(1000)}the password is hunter2 and so on\n${"größer 👍\n".repeat(1000)}`
      const part = yield* attachFile(inPieces(new TextEncoder().encode(text), length), {
        mediaType: "application/x-unknown"
      }).pipe(Effect.provideService(Scrubber.Scrubber, Scrubber.make({ secrets: ["hunter2"] })))
      const clean = new TextEncoder().encode(text.replace("hunter2", "[REDACTED:secret]"))
      assert.deepStrictEqual(part.source, { _tag: "stored", sha256: sha256Of(clean), bytes: clean.length })
    })
  }

  for (const length of [1, 5000, 1_000_000]) {
    test(`keeps a file that is no text, or not to its end, as it is, in pieces of ${length} bytes`, function* () {
      const text = new TextEncoder().encode("größer\n".repeat(2000))
      const cut = text.subarray(0, 5000)
      for (const bytes of [imageOf(3000), joined([text, imageOf(3000)]), cut])
        assert.deepStrictEqual((yield* attachFile(inPieces(bytes, length))).source, stored(bytes).source)
    })
  }

  test("stores nothing of a file that cannot be read to its end, or of one in pieces of text", function* () {
    const { blobs } = yield* RunStore
    const cut = async function* () {
      yield png
      throw new Error("the disk is gone")
    }
    const unread = yield* Effect.flip(attachFile(cut()))
    assert.include(unread.message, "reading it failed: the disk is gone")
    const untyped = ["text"] as unknown as Iterable<Uint8Array>
    const texts = yield* Effect.flip(attachFile(Stream.fromIterable(untyped)))
    assert.strictEqual(texts._tag, "FileUnreadable")
    assert.strictEqual(
      yield* Effect.flip(attachFile(Stream.concat(Stream.make(png), Stream.fail("own")))),
      "own"
    )
    assert.deepStrictEqual(yield* blobs!.find([sha256Of(png)]), [])
    const wrong = yield* Effect.flip(attachFile("a path" as never))
    assert.strictEqual(wrong._tag, "OptionsInvalid")
  })
})

describe("readAttachment", () => {
  test("reads a range of a file, and the whole text of a result that was cut", function* () {
    const log = safe("log", { maxResultLength: 10, handler: () => "0123456789".repeat(300) })
    const { runtime } = yield* bind(Agent.make("a", { tools: [log.tool] }), [
      { calls: [call("log", "1")] },
      "Read."
    ])
    const { runId, state } = yield* runPromptStored(runtime, { prompt: [fileOf(png)] })
    const [image] = filesIn(messages(state))
    const { mediaType, size, stream } = yield* readAttachment(runId, image!)
    assert.deepStrictEqual([mediaType, size], ["image/png", png.length])
    assert.deepStrictEqual(
      joined(yield* Stream.runCollect(stream({ from: 10, length: 20 }))),
      png.slice(10, 30)
    )
    const cut = messages(state).find(({ role }) => role === "tool")!.content[0]!
    assert.strictEqual(
      new TextDecoder().decode(yield* bytesOf(runId, cut as never)),
      "0123456789".repeat(300)
    )
  })

  test("reads what a run that the run builds on refers to, and nothing of another run", function* () {
    const { runtime } = yield* bind(Agent.make("a"), ["1", "2", "3"])
    const first = yield* runPromptStored(runtime, { prompt: [fileOf(png)] })
    const fork = yield* forkRun(runtime, { runId: first.runId, prompt: "On" })
    const other = yield* runPromptStored(runtime, { prompt: "Other" })
    const digest = sha256Of(png)
    assert.strictEqual((yield* bytesOf(fork.runId, digest)).length, png.length)
    for (const sha256 of [digest, "0".repeat(64), "no digest"]) {
      const refused = yield* Effect.flip(readAttachment(other.runId, sha256))
      assert.deepInclude(refused, { _tag: "AttachmentNotFound", runId: other.runId, sha256 })
    }
    for (const part of [{ _tag: "text", text: "no whole one" }, null, 5, {}])
      assert.strictEqual(
        (yield* Effect.flip(readAttachment(other.runId, part as never)))._tag,
        "AttachmentNotFound"
      )
    assert.strictEqual((yield* Effect.flip(readAttachment("run_none", digest)))._tag, "RunNotFound")
  })

  test("reads the bytes of a file that is in the journal", function* () {
    const { runtime } = yield* bind(Agent.make("a"), ["1"])
    const { runId } = yield* runPromptStored(runtime, { prompt: "Go" })
    assert.deepStrictEqual(yield* bytesOf(runId, fileOf(png.subarray(0, 50))), png.slice(0, 50))
  })
})
