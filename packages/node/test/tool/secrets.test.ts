import { chmod, mkdtemp, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import {
  agent,
  approve,
  createFermata,
  FileSecrets,
  login,
  openAi,
  Schema,
  Secrets,
  tool
} from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import type { LoginTokens } from "@fermata/sdk/model"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { afterAll, assert, beforeAll, describe, it } from "vitest"

let folder = ""
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "fermata-secrets-"))
})
afterAll(() => rm(folder, { recursive: true }))

/** What the source gives for a name, or its error's message. */
const got = (secrets: Secrets.Secrets, name: string) =>
  Effect.runPromise(
    Effect.scoped(
      Effect.catch(Secrets.read(secrets, name, {} as Secrets.SecretUse), (error) =>
        Effect.succeed(String((error as Error).message))
      )
    )
  )

const fileOf = async (name: string, text: string, mode = 0o600) => {
  const path = join(folder, name)
  await writeFile(path, text)
  await chmod(path, mode)
  return path
}

describe("a file of secrets", () => {
  it("is JSON or lines of an environment, and is read again for each call", async () => {
    const json = await fileOf("secrets.json", '{ "db/password": "pass word", "__proto__": "proto-value" }')
    const env = await fileOf(".env", "# note\nexport A_TOKEN=\"a b\"\nB='c'\n\nEMPTY=\n")
    const values = FileSecrets.make(json)
    assert.deepStrictEqual(
      await Promise.all(["db/password", "toString", "x"].map((name) => got(values, name))),
      ["pass word", undefined, undefined]
    )
    const lines = FileSecrets.make(env)
    assert.deepStrictEqual(
      await Promise.all(["A_TOKEN", "B", "EMPTY", "C"].map((name) => got(lines, name))),
      ["a b", "c", undefined, undefined]
    )
    await fileOf("secrets.json", '{ "db/password": "changed" }')
    const link = join(folder, "link")
    await symlink(json, link)
    assert.strictEqual(await got(FileSecrets.make(link, { format: "json" }), "db/password"), "changed")
  })

  it("is refused if it is missing, is no object of texts, or can be read by others", async () => {
    assert.include(await got(FileSecrets.make(join(folder, "none")), "a"), "cannot be read (ENOENT)")
    for (const text of ["[1]", "no", '{ "a": 1 }'])
      assert.include(await got(FileSecrets.make(await fileOf("odd.json", text)), "a"), "is no JSON object")
    for (const mode of [0o640, 0o604, 0o620]) {
      const path = await fileOf("open", "A=value-1", mode)
      assert.include(
        await got(FileSecrets.make(path), "A"),
        `(mode ${mode.toString(8)}): set its mode to 600`
      )
      assert.strictEqual(await got(FileSecrets.make(path, { shared: true }), "A"), "value-1")
    }
    assert.throws(() => FileSecrets.make("x", { mode: 1 } as never), /FileSecrets.make/)
    assert.throws(() => FileSecrets.make(""), /path of a file/)
  })
})

describe("the option secrets of createFermata", () => {
  it("gives the values to the bodies of the tools that state them, with and without a store", async () => {
    const token = "Zq8-file-token-31"
    const secrets = FileSecrets.make(await fileOf("stores.env", `GITHUB_TOKEN=${token}`))
    for (const store of [":memory:", false] as const) {
      const ran: Array<string> = []
      const push = tool("push", {
        parameters: Schema.Struct({ token: Schema.String }),
        secrets: ["GITHUB_*"],
        handler: ({ token }) => {
          ran.push(token)
          return `pushed with ${token}`
        }
      })
      const model = ScriptedModel.make([
        { calls: [{ tool: "push", arguments: { token: "secret://GITHUB_TOKEN" } }] },
        "done"
      ])
      const options = { agents: [agent("ops", { tools: [push] })], model: model.client, secrets }
      if (store === false) {
        await using fermata = await createFermata({ ...options, store })
        const held = await fermata.runPrompt("ops", "push")
        assert(held.status === "interrupted" && held.interruptions[0])
        const decisions = [{ request: held.interruptions[0], decision: approve() }]
        assert.strictEqual((await fermata.resume(held.state, { decisions })).status, "completed")
      } else {
        await using fermata = await createFermata({ ...options, store })
        const held = await fermata.runPrompt("ops", "push")
        assert(held.status === "interrupted" && held.interruptions[0])
        await fermata.decide(held.interruptions[0], approve())
        const done = await fermata.resume(held.runId)
        assert.strictEqual(done.status, "completed")
        assert.notInclude(JSON.stringify([done, await fermata.messages(held.sessionId)]), token)
      }
      assert.deepStrictEqual(ran, [token])
      assert.notInclude(JSON.stringify(model.requests), token)
      assert.include(JSON.stringify(model.requests), "pushed with [REDACTED:github-token]")
    }
  })

  it("takes a source of secrets, and nothing else", async () => {
    const model = ScriptedModel.make([]).client
    for (const secrets of [{ token: "x" }, ["x"], new Map(), "x"]) {
      const making = createFermata({ agents: [], model, store: false, secrets: secrets as never })
      const error = await making.then(
        () => undefined,
        (error: unknown) => error
      )
      assert.include(String(error), "a source of secrets")
    }
  })
})

describe("the key of a client for createFermata", () => {
  it("is removed from the first prompt, with any scrubber", async () => {
    const none = { scrub: (text: string) => text }
    for (const [key, options] of [
      ["k-plain-8h1", { apiKey: "k-plain-8h1" }],
      ["k-plain-8h2", { apiKey: Redacted.make("k-plain-8h2") }],
      ["k-plain-8h3", { apiKey: Config.succeed(Redacted.make("k-plain-8h3")) }],
      ["k-plain-8h4", { headers: { "api-key": "k-plain-8h4" } }]
    ] as const) {
      const model = openAi({ model: "m", baseUrl: "http://127.0.0.1:9", retry: { times: 0 }, ...options })
      const agents = [agent("ops")]
      await using fermata = await createFermata({ agents, model, store: ":memory:", scrubber: none })
      const { state } = await fermata.runPrompt("ops", `it is ${key}`)
      const text = JSON.stringify(state)
      assert.notInclude(text, key)
      assert.include(text, "it is [REDACTED:api-key]")
    }
  })

  it("of a login is known in each of its tokens, also after another login", async () => {
    const tokensOf = (round: number) => ({
      accessToken: `access-8h${round}`,
      refreshToken: `refresh-8h${round}`,
      idToken: `id-token-8h${round}`
    })
    let tokens = tokensOf(0)
    const store: LoginTokens.TokenStore = {
      read: Effect.sync(() => tokens),
      write: () => Effect.void,
      locked: (effect) => effect
    }
    await using fermata = await createFermata({
      agents: [agent("ops")],
      model: ScriptedModel.make(["ok", "ok"]).client,
      store: ":memory:",
      scrubber: { scrub: (text: string) => text }
    })
    for (const round of [1, 2]) {
      tokens = tokensOf(round)
      const { headers } = login({ profile: "p", store, tokenUrl: "http://127.0.0.1:9", clientId: "c" })
      await Effect.runPromise(headers({ forced: false }))
      const { state } = await fermata.runPrompt("ops", Object.values(tokens).join(" "))
      const text = JSON.stringify(state)
      assert.include(text, "[REDACTED:access-token] [REDACTED:refresh-token] [REDACTED:id-token]")
    }
  })
})
