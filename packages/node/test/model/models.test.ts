import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import {
  agent,
  anthropic,
  Auth,
  createFermata,
  FileTokenStore,
  login,
  modelOf,
  openAi,
  openAiCompatible
} from "@fermata/node"
import { ReplayServer } from "@fermata/node/testing"
import * as Effect from "effect/Effect"
import { temporaryFile } from "../temporaryStore.ts"

const recordings = join(import.meta.dirname, "../../../sdk/test/fixtures/models")
const recorded = (path: string) => Effect.promise(() => ReplayServer.recorded(join(recordings, path)))

const answered = (model: Parameters<typeof createFermata>[0]["model"]) =>
  Effect.promise(async () => {
    await using fermata = await createFermata({ agents: [agent("a")], model, store: ":memory:" })
    const run = await fermata.runPrompt("a", "Hello")
    assert.strictEqual(run.status, "completed")
    return run.status === "completed" ? run.text : ""
  })

describe("the models of @fermata/node", () => {
  it.live("read their options again at the next call after these were refused", () =>
    Effect.gen(function* () {
      const server = yield* ReplayServer.make([yield* recorded("responses/openai-text")])
      const options = { model: "m", baseUrl: 5 as unknown as string, apiKey: "key-1" }
      const model = openAi(options)
      yield* Effect.promise(async () => {
        await using fermata = await createFermata({ agents: [agent("a")], model, store: ":memory:" })
        assert.strictEqual((await fermata.runPrompt("a", "Hello")).status, "error")
      })
      options.baseUrl = `${server.url}/v1`
      assert.isAbove((yield* answered(model)).length, 0)
    }).pipe(Effect.scoped)
  )

  it.live("call the path of their protocol, made by their own function or by a profile", () =>
    Effect.gen(function* () {
      const kinds = [
        {
          protocol: "chat",
          recording: "chat/openai-text",
          path: "/v1/chat/completions",
          make: openAiCompatible
        },
        { protocol: "responses", recording: "responses/openai-text", path: "/v1/responses", make: openAi },
        { protocol: "messages", recording: "messages/text", path: "/v1/messages", make: anthropic }
      ] as const
      for (const { make, path, protocol, recording } of kinds) {
        const response = yield* recorded(recording)
        const server = yield* ReplayServer.make([response, response])
        const options = { model: "m", baseUrl: `${server.url}/v1` }
        const text = yield* answered(make({ ...options, apiKey: "key-1" }))
        assert.isAbove(text.length, 0)
        const profile = { ...options, name: "m", protocol, auth: Auth.none }
        assert.strictEqual(yield* answered(modelOf(profile)), text)
        assert.deepStrictEqual(
          server.requests.map((request) => request.path),
          [path, path]
        )
        const { headers } = server.requests[0]!
        assert.include(
          [headers["authorization"], headers["x-api-key"]],
          protocol === "messages" ? "key-1" : "Bearer key-1"
        )
      }
    }).pipe(Effect.scoped)
  )

  it("return `contextTokens` when their options give it", () => {
    const sized = { model: "m", contextTokens: 128_000 }
    const profile = { ...sized, name: "m", protocol: "chat" as const, baseUrl: "http://127.0.0.1/v1" }
    for (const model of [openAi(sized), openAiCompatible(sized), anthropic(sized), modelOf(profile)]) {
      assert.strictEqual(model.contextTokens?.(), 128_000)
    }
    assert.isUndefined(openAi({ model: "m" }).contextTokens?.())
  })

  it.live("accept a login instead of a key, and renew it before the call", () =>
    Effect.gen(function* () {
      const response = yield* recorded("chat/openai-text")
      const server = yield* ReplayServer.make(({ path }) =>
        path === "/token"
          ? {
              headers: { "content-type": "application/json" },
              body: JSON.stringify({ access_token: "fresh", refresh_token: "next", expires_in: 3600 })
            }
          : response
      )
      const store = FileTokenStore.make(yield* temporaryFile)
      yield* store.write({ accessToken: "old", refreshToken: "once", expiresAt: 1 })
      const auth = login({ profile: "m", store, tokenUrl: `${server.url}/token`, clientId: "c" })
      yield* answered(openAiCompatible({ model: "m", baseUrl: `${server.url}/v1`, auth }))
      assert.deepStrictEqual(
        server.requests.map(({ headers, path }) => `${path} ${headers["authorization"] ?? ""}`.trim()),
        ["/token", "/v1/chat/completions Bearer fresh"]
      )
      assert.deepInclude(yield* store.read, { accessToken: "fresh", refreshToken: "next" })
    }).pipe(Effect.scoped)
  )
})
