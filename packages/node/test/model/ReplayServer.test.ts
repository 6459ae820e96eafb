import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { recordingFile, RecordedModel, ReplayServer, ScriptedModel } from "@fermata/node/testing"
import { ModelClient } from "@fermata/sdk/model"
import * as Effect from "effect/Effect"
import { ask } from "./asking.ts"

/** The pieces in which a body arrives. */
const arriving = (response: ReplayServer.Response) =>
  Effect.gen(function* () {
    const { url } = yield* ReplayServer.make([response])
    return yield* Effect.promise(async () => {
      const pieces: Array<string> = []
      for await (const piece of (await fetch(url)).body!) pieces.push(new TextDecoder().decode(piece))
      return pieces
    })
  })

const body = Array.from({ length: 40 }, (_, index) => `data: ${index}\n\n`).join("")

describe("ReplayServer", () => {
  it.live("sends the same bytes for every chunking", () =>
    Effect.gen(function* () {
      for (const chunking of ["events", "whole", 1, 7, { seed: 3 }, { seed: 4, longest: 5 }] as const) {
        assert.strictEqual((yield* arriving({ body, chunking })).join(""), body)
      }
      assert.isAbove((yield* arriving({ body, chunking: "events", delay: { chunk: 2 } })).length, 30)
    })
  )

  it.live("records its requests, and answers one beyond its responses with a 599 that forbids a retry", () =>
    Effect.gen(function* () {
      const server = yield* ReplayServer.make([{ body: "one", status: 201, headers: { "x-one": "1" } }])
      const [first, second] = yield* Effect.promise(async () => [
        await fetch(`${server.url}/a?b=c`, { method: "POST", body: "hé", headers: { "x-said": "yes" } }),
        await fetch(server.url)
      ])
      assert.deepStrictEqual([first!.status, first!.headers.get("x-one")], [201, "1"])
      assert.deepStrictEqual([second!.status, second!.headers.get("x-should-retry")], [599, "false"])
      const [request] = server.requests
      assert.deepInclude(request, { method: "POST", path: "/a?b=c", body: "hé" })
      assert.strictEqual(request!.headers["x-said"], "yes")
      assert.isFalse((yield* Effect.promise(() => request!.closed)).early)
    })
  )

  it.live("closes its connections when its scope closes", () =>
    Effect.gen(function* () {
      const request = yield* Effect.scoped(
        Effect.gen(function* () {
          const server = yield* ReplayServer.make([{ body, fault: { after: 10, kind: "stall" } }])
          const response = yield* Effect.promise(() => fetch(server.url))
          assert.strictEqual(response.status, 200)
          return server.requests[0]!
        })
      )
      assert.isTrue((yield* Effect.promise(() => request.closed)).early)
    })
  )
})

describe("A file of recordings", () => {
  it.live("is written once, and replayed without a model", () =>
    Effect.gen(function* () {
      const folder = yield* Effect.acquireRelease(
        Effect.promise(() => mkdtemp(join(tmpdir(), "fermata-recordings-"))),
        (path) => Effect.promise(() => rm(path, { recursive: true }))
      )
      const file = join(folder, "recordings", "weather.json")
      const model = ScriptedModel.make(["Warm."])
      const recordings = recordingFile(file)
      yield* ModelClient.collect(RecordedModel.make({ recordings, record: model.client }).stream(ask()))
      const text = yield* Effect.promise(() => readFile(file, "utf8"))
      const replayed = yield* RecordedModel.make({ recordings: recordingFile(file) }).complete(ask())
      assert.deepStrictEqual(replayed.content, [{ _tag: "text", text: "Warm." }])
      assert.strictEqual(yield* Effect.promise(() => readFile(file, "utf8")), text)
      assert.notInclude(text, "session")
    })
  )
})
