import { assert, describe, it } from "@effect/vitest"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as ChildProcess from "effect/process/ChildProcess"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../src/agent/Agent.ts"
import { reconfigureRuntime } from "../../src/agent/reconfigureRuntime.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import * as AnthropicMessages from "../../src/model/AnthropicMessages.ts"
import * as Auth from "../../src/model/Auth.ts"
import * as EffectAiModel from "../../src/model/EffectAiModel.ts"
import { knowCredential } from "../../src/model/internal/knownSecrets.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import * as ModelRouter from "../../src/model/ModelRouter.ts"
import * as OpenAiChat from "../../src/model/OpenAiChat.ts"
import * as OpenAiResponses from "../../src/model/OpenAiResponses.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { knowCommand, knowConnection } from "../../src/tool/internal/mcpSecrets.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import * as Secrets from "../../src/tool/Secrets.ts"

type Client = ModelClient["Service"]

const runtimeOf = (client: Client) =>
  Effect.provideService(Runtime.make({ agent: Agent.make("a") }), ModelClient, client)

/** A text with a key, as a runtime of the client would write it before its first request. */
const written = (client: Client, key: string) =>
  Effect.map(runtimeOf(client), ({ scrubber }) => scrubber.redact(`is it ${key}?`))

let count = 0
/** A key without a form that a scrubber recognizes. No other test has it, since a process knows its secrets. */
const fresh = () => `k${++count}.plain-9f`

describe("the key of a model client", () => {
  it.effect("is removed from every text of a runtime with the client, before its first request", () =>
    Effect.gen(function* () {
      for (const { make } of [AnthropicMessages, OpenAiChat, OpenAiResponses]) {
        for (const given of [
          (key: string) => ({ apiKey: key }),
          (key: string) => ({ apiKey: Redacted.make(`${key}\n`) }),
          () => ({ apiKey: Config.Redacted("OTHER") }),
          (key: string) => ({ auth: Auth.apiKey(key, { header: "api-key" }) }),
          (key: string) => ({ auth: Auth.none, headers: { "x-api-key": key } }),
          (key: string) => ({ auth: Auth.none, headers: { Authorization: `Bearer ${key}` } }),
          (key: string) => ({ auth: Auth.none, baseUrl: `https://x.example/v1?key=${key}` })
        ]) {
          const key = fresh()
          const client = yield* make({ model: "m", ...given(key) })
          const known = yield* Effect.provide(
            written(client, key),
            ConfigProvider.layer(ConfigProvider.fromEnvRecord({ OTHER: key }))
          )
          assert.strictEqual(known, "is it [REDACTED:api-key]?")
        }
      }
    }).pipe(Effect.provide(FetchHttpClient.layer))
  )

  it.effect("is known behind a router and a bridge, and of a client that replaces another", () =>
    Effect.gen(function* () {
      const [one, two, three] = [fresh(), fresh(), fresh()]
      const scripted = ScriptedModel.make(["done"]).client
      const bridged = EffectAiModel.make({} as never, { name: "m", apiKey: Redacted.make(one) })
      const own = { ...scripted, secrets: Effect.succeed([Redacted.make(two)]) }
      const failing = { ...scripted, secrets: Effect.die("no") }
      const router = ModelRouter.make({ clients: { failing, bridged, own, scripted } })
      assert.strictEqual(
        yield* written(router, `${one} or ${two}`),
        "is it [REDACTED:api-key] or [REDACTED:api-key]?"
      )
      const runtime = yield* runtimeOf(scripted)
      assert.include(runtime.scrubber.redact(three), three)
      yield* reconfigureRuntime(runtime, {
        model: { ...scripted, secrets: Effect.succeed([Redacted.make(three)]) }
      })
      assert.strictEqual(runtime.scrubber.redact(three), "[REDACTED:api-key]")
    })
  )

  it.effect("that cannot be read leaves the runtime as it is", () =>
    Effect.gen(function* () {
      const scripted = ScriptedModel.make(["done"]).client
      for (const secrets of [
        Effect.die("no"),
        Effect.fail("no"),
        7,
        Effect.succeed(7),
        Effect.succeed([7])
      ]) {
        assert.strictEqual(yield* written({ ...scripted, secrets: secrets as never }, "x"), "is it x?")
      }
      const key = fresh()
      const odd = Effect.succeed([7, undefined, Redacted.make(key)]) as never
      assert.strictEqual(yield* written({ ...scripted, secrets: odd }, key), "is it [REDACTED:api-key]?")
    })
  )

  it.effect("is awaited for two seconds, and known when it comes", () =>
    Effect.gen(function* () {
      const key = fresh()
      const asked = yield* Deferred.make<ReadonlyArray<Redacted.Redacted<string>>>()
      const client = { ...ScriptedModel.make(["done"]).client, secrets: Deferred.await(asked) }
      const making = yield* Effect.forkChild(runtimeOf(client), { startImmediately: true })
      yield* TestClock.adjust("1999 millis")
      assert.isUndefined(making.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const { scrubber } = yield* Fiber.join(making)
      assert.strictEqual(scrubber.redact(key), key)
      yield* Deferred.succeed(asked, [Redacted.make(key)])
      yield* Effect.yieldNow
      assert.strictEqual(scrubber.redact(key), "[REDACTED:api-key]")
    })
  )

  it("is not known if it is made of words, as of servers without keys", () => {
    for (const word of [
      "ollama",
      "not-needed",
      "sk-no-key-required",
      "EMPTY",
      "dummy",
      "lm-studio",
      "abc123"
    ]) {
      knowCredential("api-key", word)
      assert.strictEqual(Scrubber.contained(Scrubber.none).scrub(`with ${word}`), `with ${word}`)
    }
  })
})

describe("the credentials of an MCP server", () => {
  it("are known: those in headers, in its URL, and in variables of its process with the name of a secret", () => {
    const [a, b, c, d, e, f] = [fresh(), fresh(), fresh(), `${fresh()}A7x9Qz`, fresh(), fresh()]
    knowConnection(`https://ann:${encodeURIComponent(`${b}/+`)}@mcp.example/?api_key=${c}&page=page-20`, {
      Authorization: `Bearer ${a}`,
      "user-agent": "program/1.2.3"
    })
    const env = {
      SERVICE_TOKEN: d,
      LANG: "en_US.utf8",
      KEY_SECRET: "/run/secrets/key1",
      OTHER: Redacted.make(e),
      PATH: "/usr/bin:/bin2"
    }
    const server = ChildProcess.make("server", ["--key", Redacted.make(f)], { env })
    knowCommand(ChildProcess.pipeTo(server, ChildProcess.make("cat", [])))
    const { scrub } = Scrubber.contained(Scrubber.none)
    for (const value of [a, `${b}/+`, c, d, e, f]) assert.match(scrub(value), /^\[REDACTED:[a-z-]+\]$/)
    for (const word of ["program/1.2.3", "page-20", "en_US.utf8", "/usr/bin:/bin2", "/run/secrets/key1"])
      assert.strictEqual(scrub(word), word)
  })
})

describe("a secret that a process knows", () => {
  it("is removed by every scrubber, in all encodings and any chunks", () => {
    const value = fresh()
    Secrets.remember("My Token", value)
    const base64 = Buffer.from(`x${value}yz`).toString("base64")
    const text = `a ${value} b ${encodeURIComponent(value)} ${base64} ${Buffer.from(value).toString("hex")} c`
    for (const given of [Scrubber.none, Scrubber.make(), { scrub: (text: string) => text }]) {
      const { redact, scrub, stream } = Scrubber.contained(given)
      const whole = scrub(text)
      assert.match(
        whole,
        /^a \[REDACTED:my-token\] b \[REDACTED:my-token\] \S*\[REDACTED:my-token\]\S* \[REDACTED:my-token\] c$/
      )
      assert.deepStrictEqual([redact(text), scrub(whole)], [whole, whole])
      for (const size of [1, 2, 7, 64]) {
        const { end, push } = stream()
        let out = ""
        for (let at = 0; at < text.length; at += size) out += push(text.slice(at, at + size))
        assert.strictEqual(out + end(), whole)
      }
    }
  })

  it("is the latest of 10,000: the least recently used is forgotten", () => {
    const [kept, dropped] = [fresh(), fresh()]
    const { scrub } = Scrubber.contained(Scrubber.none)
    Secrets.remember("kept", kept)
    Secrets.remember("dropped", dropped)
    for (let index = 0; index < 10_000; index += 1) {
      if (index === 5_000) Secrets.remember("kept", kept)
      Secrets.remember("minted", `minted-${index}-token`)
    }
    assert.deepStrictEqual([scrub(kept), scrub(dropped)], ["[REDACTED:kept]", dropped])
  })
})
