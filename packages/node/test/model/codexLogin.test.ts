import { rm } from "node:fs/promises"
import { assert, describe, it } from "@effect/vitest"
import { agent, codexLogin, createFermata, FileTokenStore, openAi } from "@fermata/node"
import { ReplayServer } from "@fermata/node/testing"
import * as Effect from "effect/Effect"
import { temporaryFile } from "../temporaryStore.ts"
import { event, eventStream, json } from "./asking.ts"

/** A token with these claims. */
const jwt = (claims: object) => `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.sig`
const account = { "https://api.openai.com/auth": { chatgpt_account_id: "account-1" } }

/** A stream as the backend of Codex sends it: its last event has no items. */
const hello = {
  headers: eventStream,
  body: [
    { type: "response.output_text.delta", output_index: 0, delta: "Hello." },
    { type: "response.done", response: { status: "completed", output: [] } }
  ]
    .map(event)
    .join("")
}

/** Runs an agent without instructions with this login. */
const asked = (responses: ReplayServer.Responses) =>
  Effect.gen(function* () {
    const tokens = yield* temporaryFile
    const store = FileTokenStore.make(tokens)
    yield* store.write({ accessToken: jwt({ ...account, exp: 4_000_000_000 }), refreshToken: "r-0" })
    const backend = yield* ReplayServer.make(responses)
    const issuer = yield* ReplayServer.make(() => ({
      headers: json,
      body: JSON.stringify({ access_token: jwt({ ...account, exp: 4_000_000_001 }), refresh_token: "r-1" })
    }))
    const model = openAi({
      ...codexLogin({
        model: "gpt-5.5",
        tokens,
        clientId: "client-of-the-test",
        originator: "fermata_test",
        guidance: "Run `work login`.",
        baseUrl: `${backend.url}/backend-api/codex`,
        tokenUrl: `${issuer.url}/oauth/token`
      }),
      retry: { base: "1 millis" }
    })
    const agents = [agent("a", { settings: { maxOutputTokens: 100 } })]
    const result = yield* Effect.promise(async () => {
      await using fermata = await createFermata({ agents, model, store: false })
      return fermata.runPrompt("a", "Hello?")
    })
    yield* Effect.promise(() => rm(tokens, { force: true }))
    return { result, backend, issuer }
  })

describe("codexLogin", () => {
  it.live("sends what the backend of Codex requires, and nothing that it refuses", () =>
    Effect.gen(function* () {
      const { backend, result } = yield* asked([hello])
      assert.strictEqual(result.status === "completed" ? result.text : "", "Hello.")
      const { body, headers, path } = backend.requests[0]!
      assert.strictEqual(path, "/backend-api/codex/responses")
      assert.strictEqual(headers["chatgpt-account-id"], "account-1")
      assert.strictEqual(headers.originator, "fermata_test")
      const sent = JSON.parse(body)
      assert.deepInclude(sent, { store: false, stream: true, include: ["reasoning.encrypted_content"] })
      assert.isAbove(sent.instructions.trim().length, 0)
      for (const field of ["max_output_tokens", "previous_response_id"]) assert.notProperty(sent, field)
    })
  )

  it.live("states how to log in when the renewed login is refused, too", () =>
    Effect.gen(function* () {
      const refused = { status: 401, headers: json, body: JSON.stringify({ detail: "Unauthorized" }) }
      const { backend, issuer, result } = yield* asked(() => refused)
      const message = result.status === "error" ? result.error.message : result.status
      assert.include(message, "Run `work login`.")
      assert.strictEqual(backend.requests.length, 2)
      assert.strictEqual(issuer.requests.length, 1)
    })
  )

  it("refuses an unknown option", () => {
    assert.throws(() => codexLogin({ clientID: "c" } as never), 'did you mean "clientId"?')
  })
})
