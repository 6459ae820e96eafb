import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Encoding from "effect/encoding/Base64"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import type { StandardSchemaV1 } from "effect/StandardSchema"
import * as Tracer from "effect/Tracer"
import * as Agent from "../../src/agent/Agent.ts"
import { toToolkit } from "../../src/agent/EffectAiToolkit.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import { evolveAll } from "../../src/domain/evolve.ts"
import type { ToolUnavailable } from "../../src/domain/RunError.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as Secrets from "../../src/tool/Secrets.ts"
import * as Tool from "../../src/tool/Tool.ts"
import {
  approve,
  bind,
  call,
  edit,
  events,
  expect,
  only,
  probe,
  rebind,
  results,
  safe,
  throughJson,
  watch
} from "../helpers/Fixture.ts"

let count = 0
/** A value that no other test has, since a process knows its secrets. */
const fresh = () => `v4lue-${++count}-Zk93hfLq02`

const withSecrets = (values: Readonly<Record<string, string>>) =>
  Effect.provideService(Secrets.Secrets, Secrets.memory(values))

/** A schema of another library, which cannot encode. */
const standard = (decode: (args: { readonly id: string }) => unknown): StandardSchemaV1 => ({
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (args: unknown) => ({ value: decode(args as { readonly id: string }) }),
    jsonSchema: {
      input: () => ({ type: "object", properties: { id: { type: "string" } } }),
      output: () => ({ type: "object" })
    }
  } as never
})

const why = (tool: string, secret: string) =>
  `${tool} failed: ${tool} has not run: it cannot use the secret "${secret}". A reference is secret://name, or secret://{name} in front of other text.`

describe("a reference to a secret in the arguments of a call", () => {
  it.effect("is resolved for the body, in each text, several times and nested", () => {
    const [token, password] = [fresh(), fresh()]
    return Effect.gen(function* () {
      const ran: Array<unknown> = []
      const send = Tool.make("send", {
        safety: "readOnly",
        secrets: ["github-token", "db/*"],
        parameters: Schema.Struct({ url: Schema.String, more: Schema.Json }),
        handler: (args) => {
          ran.push(args)
        }
      })
      const url = "https://me:secret://{db/main}@host/?t=secret://github-token&u=SECRET://github-token."
      const more = { headers: [{ authorization: "Bearer secret://github-token" }, 1, null], other: "secret" }
      const { model, runtime } = yield* bind(Agent.make("a", { tools: [send] }), [
        { calls: [{ tool: "send", arguments: { url, more } }] },
        "done"
      ])
      const done = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(ran, [
        {
          url: `https://me:${password}@host/?t=${token}&u=${token}.`,
          more: { headers: [{ authorization: `Bearer ${token}` }, 1, null], other: "secret" }
        }
      ])
      const everything = JSON.stringify([done.state, model.requests])
      assert.notInclude(everything, token)
      assert.include(everything, "Bearer secret://github-token")
      assert.include(everything, url)
    }).pipe(withSecrets({ "github-token": token, "db/main": password }))
  })

  it.effect("is what the approval, its digest, its callbacks, the journal, spans and logs have", () => {
    const token = fresh()
    return Effect.gen(function* () {
      const store = yield* RunStore
      const seen: Array<unknown> = []
      const see = (args: unknown) => {
        seen.push(args)
        return "seen"
      }
      const write = probe("write", {
        secrets: ["token"],
        needsApproval: (args) => see(args) !== "",
        preview: see,
        risk: see,
        facts: see,
        handler: ({ id }) => {
          throw new Error(`no ${id}`)
        }
      })
      const said: Array<unknown> = []
      const logger = Logger.make(({ cause, message }) => {
        said.push(message, String(cause))
      })
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          said.push(span)
          return span
        }
      })
      const { onUpdate, updates } = watch()
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [call("write", "secret://token")] },
        "done"
      ])
      yield* Effect.gen(function* () {
        const held = yield* runPromptStored(runtime, { prompt: "go" }, { onUpdate })
        const request = only(held, "approval")
        assert.deepStrictEqual(request.arguments, { id: "secret://token" })
        yield* decideStored([runtime], approve(request))
        expect(yield* runPromptStored(runtime, { runId: held.runId }, { onUpdate }), "completed")
      }).pipe(Effect.provide(Logger.layer([logger])), Effect.withTracer(tracer))
      assert.deepStrictEqual(write.ran, [token])
      assert.deepStrictEqual(
        [...new Set(seen.map((args) => JSON.stringify(args)))],
        ['{"id":"secret://token"}']
      )
      const [head] = yield* store.list()
      const spans = said.map((one) =>
        one instanceof Tracer.NativeSpan ? [one.name, [...one.attributes], String(one.status)] : one
      )
      const everything = JSON.stringify([updates, yield* store.load(head!.runId), spans], (_, value) =>
        typeof value === "bigint" ? Number(value) : value
      )
      assert.notInclude(everything, token)
      assert.include(everything, "fermata.handler")
      assert.include(everything, "[REDACTED:token]")
    }).pipe(withSecrets({ token }), Effect.provide(Layer.fresh(layerMemory)))
  })

  it.effect("fails the call, in the same words, if the tool may not use it and if there is none", () =>
    Effect.gen(function* () {
      const other = fresh()
      const cases = [
        ["secret://other", "other"],
        ["secret://mine.gone", "mine.gone"],
        ["secret://mine.fails", "mine.fails"],
        ["secret://mine.short", "mine.short"],
        ["secret://mine.empty", "mine.empty"],
        ["secret://", "secret://"],
        ["secret://{mine.x", "secret://"]
      ] as const
      const asked: Array<string> = []
      const secrets = Secrets.make((name) => {
        asked.push(name)
        if (name === "mine.fails") throw new Error("the vault is sealed")
        return { other, "mine.short": "12345", "mine.empty": " \n" }[name]
      })
      const read = safe("read", { secrets: ["mine.*"] })
      const write = probe("write", { secrets: ["mine.*"] })
      const { runtime } = yield* Effect.provideService(
        bind(Agent.make("a", { tools: [read.tool, write.tool] }), [
          { calls: cases.map(([id]) => call("read", id)) },
          { calls: [call("write", "secret://other")] },
          "done"
        ]),
        Secrets.Secrets,
        secrets
      )
      const logged: Array<string> = []
      const logger = Logger.make(({ cause, message }) => {
        logged.push(`${String(message)} ${String(cause)}`)
      })
      const running = Effect.provide(runPrompt(runtime, { prompt: "go" }), Logger.layer([logger]))
      const done = expect(yield* running, "completed")
      assert.deepStrictEqual(
        results(done.state).toSorted(),
        [...cases.map(([, name]) => why("read", name)), why("write", "other")].toSorted()
      )
      assert.deepStrictEqual([read.ran, write.ran], [[], []])
      assert.notInclude(asked, "other")
      for (const reason of [
        "state it in the option secrets of the tool",
        "the source of secrets has none of this name",
        "the source of secrets failed",
        "its value is under 6 characters",
        "the vault is sealed"
      ])
        assert.isTrue(
          logged.some((line) => line.includes(reason)),
          reason
        )
    })
  )

  it.effect(
    "fails the call if it is unreadable, or in the name of a field, also for a tool that may use all",
    () =>
      Effect.gen(function* () {
        const asked: Array<string> = []
        const ran: Array<unknown> = []
        const any = Tool.make("any", {
          safety: "readOnly",
          secrets: ["*"],
          parameters: Schema.Struct({ id: Schema.Json }),
          handler: (args) => void ran.push(args)
        })
        const long = `secret://${"a".repeat(129)}`
        const ids = [
          "secret://",
          "secret://{a",
          "secret:///x",
          long,
          { "secret://a": 1 },
          [{ "x Secret://": "b" }]
        ]
        const { runtime } = yield* Effect.provideService(
          bind(Agent.make("a", { tools: [any] }), [
            { calls: ids.map((id) => ({ tool: "any", arguments: { id } })) },
            "done"
          ]),
          Secrets.Secrets,
          Secrets.make((name) => {
            asked.push(name)
            return "v4lue-of-any"
          })
        )
        const done = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
        assert.deepStrictEqual([ran, asked], [[], []])
        assert.lengthOf(results(done.state), ids.length)
        for (const result of results(done.state))
          assert.include(result, "any has not run: it cannot use the secret")
      })
  )

  it.effect("is an ordinary text for a tool that states no secrets, and in a result", () => {
    const token = fresh()
    return Effect.gen(function* () {
      const echo = safe("echo", { handler: ({ id }) => `read ${id} at secret://token` })
      const { runtime } = yield* bind(Agent.make("a", { tools: [echo.tool] }), [
        { calls: [call("echo", "secret://token")] },
        "done"
      ])
      const done = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(echo.ran, ["secret://token"])
      assert.deepStrictEqual(results(done.state), ["echo completed: read secret://token at secret://token"])
    }).pipe(withSecrets({ token }))
  })

  it.effect("in edited arguments is resolved, or asked about again if the tool may not use it", () => {
    const token = fresh()
    return Effect.gen(function* () {
      const write = probe("write", { secrets: ["token"] })
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [call("write", "1")] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const wrong = approve(only(held, "approval"), { arguments: { id: "secret://root" } })
      const again = yield* runPrompt(runtime, { state: held.state, decisions: [wrong] })
      const request = only(again, "approval")
      assert.deepStrictEqual(request.arguments, { id: "1" })
      assert.include(request.reason, 'it cannot use the secret "root"')
      const right = approve(request, { arguments: { id: "secret://token" } })
      const done = expect(yield* runPrompt(runtime, { state: again.state, decisions: [right] }), "completed")
      assert.deepStrictEqual(write.ran, [token])
      assert.deepStrictEqual(results(done.state), [
        `write completed: ${edit({ id: "1" }, { id: "secret://token" })}write:[REDACTED:token]`
      ])
    }).pipe(withSecrets({ token }))
  })

  it.effect("has to fit the parameters itself, and so has its value", () => {
    const token = fresh()
    return Effect.gen(function* () {
      const ran: Array<unknown> = []
      const of = (name: string, id: Schema.Codec<any, any>) =>
        Tool.make(name, {
          safety: "readOnly",
          secrets: ["token"],
          parameters: Schema.Struct({ id, at: Schema.optionalKey(Schema.DateFromString) }),
          handler: (args) => {
            ran.push(args)
            return "ran"
          }
        })
      const strict = of("strict", Schema.String.check(Schema.isPattern(/^v4lue/)))
      const short = of("short", Schema.String.check(Schema.isMaxLength(15)))
      const hidden = of("hidden", Schema.RedactedFromValue(Schema.String))
      const at = "2026-01-01T00:00:00.000Z"
      const id = "secret://token"
      const { runtime } = yield* bind(Agent.make("a", { tools: [strict, short, hidden] }), [
        {
          calls: [
            { tool: "strict", arguments: { id } },
            { tool: "short", arguments: { id } },
            { tool: "hidden", arguments: { id, at } }
          ]
        },
        "done"
      ])
      const done = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      const [refused, unfit, good] = results(done.state)
      assert.include(refused, "strict does not take these arguments")
      assert.strictEqual(
        unfit,
        "short failed: short has not run: the value of a secret in its arguments does not fit its parameters."
      )
      assert.strictEqual(good, "hidden completed: ran")
      const [args] = ran as [{ id: Redacted.Redacted<string>; at: Date }]
      assert.deepStrictEqual([Redacted.value(args.id), args.at.toISOString()], [token, at])
    }).pipe(withSecrets({ token }))
  })

  it.effect("is resolved with any schema, or not at all", () => {
    const token = fresh()
    return Effect.gen(function* () {
      const ran: Array<unknown> = []
      const of = (name: string, parameters: Schema.Codec<any, any> | StandardSchemaV1) =>
        Tool.make(name, {
          secrets: ["token"],
          needsApproval: name === "shown",
          parameters: parameters as Schema.Codec<any, any>,
          handler: (args: unknown) => {
            ran.push(args)
            return "ran"
          }
        })
      let made = 0
      const hidden = Schema.String.pipe(
        Schema.decodeTo(Schema.String, {
          decode: SchemaGetter.transform((text: string) => atob(text)),
          encode: SchemaGetter.transform((text: string) => btoa(text))
        })
      )
      const tools = [
        // A default that differs each time is the one that was recorded.
        of(
          "random",
          standard((args) => ({ ...args, at: (made += 1) }))
        ),
        // A transformation without an inverse.
        of(
          "louder",
          standard(({ id }) => ({ id: `${id}!` }))
        ),
        of("url", Schema.Struct({ id: Schema.URLFromString })),
        // A reference that only the schema reveals.
        of("coded", Schema.Struct({ id: hidden })),
        of("shown", Schema.Struct({ id: Schema.RedactedFromValue(Schema.String) }))
      ]
      const id = "secret://token"
      const { runtime } = yield* bind(Agent.make("a", { tools }), [
        {
          calls: [
            { tool: "random", arguments: { id } },
            { tool: "louder", arguments: { id } },
            { tool: "url", arguments: { id: `https://x.example/?t=${id}` } },
            { tool: "coded", arguments: { id: btoa(id) } },
            { tool: "shown", arguments: { id } }
          ]
        },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const request = only(held, "approval")
      assert.include(JSON.stringify(request.arguments), id)
      const decisions = [approve(request)]
      const done = expect(yield* runPrompt(runtime, { state: held.state, decisions }), "completed")
      assert.deepStrictEqual(
        ran.map((args) => {
          const { id, ...rest } = args as { id: unknown; at?: number }
          return { id: Redacted.isRedacted(id) ? Redacted.value(id) : String(id), ...rest }
        }),
        [{ id: token, at: 1 }, { id: `${token}!` }, { id: `https://x.example/?t=${token}` }, { id: token }]
      )
      assert.include(
        results(done.state)[3],
        "coded has not run: the value of a secret in its arguments does not fit"
      )
    }).pipe(withSecrets({ token }))
  })

  it.effect("is resolved again for each try", () => {
    const values = [fresh(), fresh(), fresh()]
    let asked = 0
    return Effect.gen(function* () {
      const read = safe("read", {
        secrets: ["token"],
        retry: Schedule.recurs(5),
        handler: ({ id }) => {
          throw new Error(`${id} is stale`)
        }
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [read.tool] }), [
        { calls: [call("read", "secret://token")] },
        "done"
      ])
      const done = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      // The fourth try has no secret, so there is none.
      assert.deepStrictEqual(read.ran, values)
      assert.deepStrictEqual(results(done.state), ["read failed: read failed: [REDACTED:token] is stale"])
      assert.strictEqual(new Set(read.contexts.map(({ idempotencyKey }) => idempotencyKey)).size, 1)
    }).pipe(
      Effect.provideService(
        Secrets.Secrets,
        Secrets.make(() => values[asked++])
      )
    )
  })

  it.effect("waits, with its approval, for a program with a source of secrets", () => {
    const token = fresh()
    return Effect.gen(function* () {
      const write = probe("write", { secrets: ["token"] })
      const agent = Agent.make("a", { tools: [write.tool] })
      const { model, runtime } = yield* withSecrets({ token })(
        bind(agent, [{ calls: [call("write", "secret://token")] }, "done"])
      )
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const state = throughJson(held.state)
      const poor = yield* rebind(agent, model)
      const decisions = [approve(only(held, "approval"))]
      const error = yield* Effect.flip(runPrompt(poor.runtime, { state, decisions }))
      assert.include(error, { _tag: "ToolUnavailable", reason: "withoutSecrets" })
      assert.include(error.message, "give it a source of secrets")
      assert.deepStrictEqual(write.ran, [])
      expect(yield* runPrompt(runtime, { state, decisions }), "completed")
      assert.deepStrictEqual(write.ran, [token])
    })
  })

  it.effect("in a program without a source of secrets makes the run wait for one", () =>
    Effect.gen(function* () {
      const read = safe("read", { secrets: ["token"] })
      const agent = Agent.make("a", { tools: [read.tool] })
      const { model, runtime } = yield* bind(agent, [{ calls: [call("read", "secret://token")] }, "done"])
      const waiting = expect(yield* runPrompt(runtime, { prompt: "go" }), "interrupted")
      const [missing] = waiting.missing as ReadonlyArray<ToolUnavailable>
      assert.include(missing, { _tag: "ToolUnavailable", reason: "withoutSecrets", isAllowed: true })
      assert.deepStrictEqual(read.ran, [])
      const token = fresh()
      const rich = yield* withSecrets({ token })(rebind(agent, model))
      expect(yield* runPrompt(rich.runtime, { state: throughJson(waiting.state) }), "completed")
      assert.deepStrictEqual(read.ran, [token])
    })
  )

  it.effect("is resolved for reconcile too, and a call whose secret is gone is in doubt", () => {
    const token = fresh()
    return Effect.gen(function* () {
      const started = yield* Deferred.make<void>()
      const handler = () => Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
      const asked: Array<string> = []
      const options = {
        secrets: ["token"],
        reconcile: (_: string, { id }: { readonly id: string }) => {
          asked.push(id)
          return { _tag: "happened" as const, result: `sent with ${id}` }
        }
      }
      const agentOf = (tool: Tool.AnyTool) => Agent.make("a", { tools: [tool] })
      const dying = probe("write", { ...options, handler: handler as never })
      const { model, runtime } = yield* withSecrets({ token })(
        bind(agentOf(dying.tool), [{ calls: [call("write", "secret://token")] }, "done"])
      )
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const decisions = [approve(only(held, "approval"))]
      const { onUpdate, updates } = watch()
      const fiber = yield* Effect.forkChild(
        runPrompt(runtime, { state: held.state, decisions }, { onUpdate })
      )
      yield* Deferred.await(started)
      const state = throughJson(evolveAll(held.state, events(updates))!)
      yield* Fiber.interrupt(fiber)
      const next = probe("write", options)
      const without = yield* withSecrets({ other: fresh() })(rebind(agentOf(next.tool), model))
      const doubted = yield* runPrompt(without.runtime, { state })
      const request = only(doubted, "inDoubt")
      assert.deepStrictEqual(asked, [])
      const retries = [{ _tag: "retry", requestId: request.requestId, by: "ann" } as const]
      const stillDoubted = yield* runPrompt(without.runtime, { state: doubted.state, decisions: retries })
      assert.include(
        only(stillDoubted, "inDoubt").reason,
        'write cannot run again: it cannot use the secret "token".'
      )
      assert.deepStrictEqual(next.ran, [])
      const again = yield* withSecrets({ token })(rebind(agentOf(next.tool), model))
      const done = expect(yield* runPrompt(again.runtime, { state }), "completed")
      assert.deepStrictEqual(asked, [token])
      assert.deepStrictEqual(results(done.state), ["write completed: sent with [REDACTED:token]"])
    })
  })

  it.effect("is not resolved after a deploy for a text that was approved as a text", () => {
    const token = fresh()
    return Effect.gen(function* () {
      const plain = probe("write")
      const { model, runtime } = yield* bind(Agent.make("a", { tools: [plain.tool] }), [
        { calls: [call("write", "secret://token")] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const resolving = probe("write", { secrets: ["token"] })
      const later = yield* rebind(Agent.make("a", { tools: [resolving.tool] }), model)
      const decisions = [approve(only(held, "approval"))]
      const again = yield* runPrompt(later.runtime, { state: throughJson(held.state), decisions })
      assert.include(only(again, "approval").reason, "have changed since")
      assert.deepStrictEqual(resolving.ran, [])
    }).pipe(withSecrets({ token }))
  })

  it.effect("of a sub-agent's call is resolved there, with the run's context and the agent's path", () => {
    const token = fresh()
    const uses: Array<Secrets.SecretUse> = []
    return Effect.gen(function* () {
      const read = safe("read", { secrets: ["token"] })
      const helper = Agent.make("helper", { tools: [read.tool] })
      const { runtime } = yield* bind(Agent.make("a", { subAgents: [helper] }), [
        { calls: [{ tool: "helper", arguments: { prompt: "use secret://token" } }] },
        { calls: [call("read", "secret://token")] },
        "helped",
        "done"
      ])
      const context = { tenant: "acme" }
      const done = yield* runPrompt(runtime, { prompt: "go", context })
      expect(done, "completed")
      assert.deepStrictEqual(read.ran, [token])
      const [use] = uses
      assert.deepStrictEqual(use?.agentPath, ["a", "helper"])
      assert.deepStrictEqual(
        [use?.context, use?.tool, use?.arguments],
        [context, "read", { id: "secret://token" }]
      )
      assert.notInclude(JSON.stringify(done.state), token)
    }).pipe(
      Effect.provideService(
        Secrets.Secrets,
        Secrets.make((_, use) => {
          uses.push(use)
          return Redacted.make(token)
        })
      )
    )
  })
})

describe("the value of a resolved secret", () => {
  it.effect(
    "is removed in all encodings from results, progress, streamed output, failures and later texts",
    () => {
      const token = fresh()
      return Effect.gen(function* () {
        const forms = [
          token,
          Encoding.encode(token),
          Buffer.from(token).toString("hex"),
          JSON.stringify(token)
        ]
        const echo = safe("echo", {
          secrets: ["my.Token"],
          handler: async function* ({ id }: { readonly id: string }) {
            yield { progress: `sending ${id}` }
            for (const character of `wrote ${id} to it`) yield { output: character }
            yield { result: forms }
          } as never
        })
        const fail = safe("fail", {
          secrets: ["my.Token"],
          handler: ({ id }) => {
            throw new Error(`401 for ${id}`, { cause: { token: id } })
          }
        })
        const updates: Array<RunUpdate> = []
        const { model, runtime } = yield* bind(Agent.make("a", { tools: [echo.tool, fail.tool] }), [
          { calls: [call("echo", "secret://my.Token"), call("fail", "secret://my.Token")] },
          "done"
        ])
        const done = expect(
          yield* runPrompt(runtime, { prompt: "go" }, { onUpdate: (update) => void updates.push(update) }),
          "completed"
        )
        const next = yield* runPrompt(runtime, { state: done.state, prompt: `is it ${token}?` })
        const everything = JSON.stringify([updates, next, model.requests])
        for (const form of forms.slice(0, 3)) assert.notInclude(everything, form)
        assert.include(results(done.state)[1], "401 for [REDACTED:my-token]")
        const output = updates.flatMap((update) => (update._tag === "output" ? [update.chunk] : [])).join("")
        assert.strictEqual(output, "wrote [REDACTED:my-token] to it")
      }).pipe(withSecrets({ "my.Token": token }))
    }
  )
})

describe("a source of secrets", () => {
  it.effect(
    "is the environment with a list of names, a function with services, or the first of several",
    () =>
      Effect.gen(function* () {
        const [a, b] = [fresh(), fresh()]
        const Vault = Context.Service<{ readonly read: (name: string) => string | undefined }>("test/Vault")
        const use = {} as Secrets.SecretUse
        const layer = Secrets.layer((name) => Effect.map(Vault, ({ read }) => read(name)))
        const provided = Layer.provide(
          layer,
          Layer.succeed(Vault, { read: (name) => (name === "b" ? b : undefined) })
        )
        const vault = yield* Effect.provide(Secrets.Secrets, provided)
        const all = Secrets.firstOf(
          Secrets.environment({ path: "PATH" }),
          vault,
          Secrets.memory({ b: a, c: a })
        )
        const got = yield* Effect.forEach(["path", "PATH", "b", "c", "d"], (name) =>
          Effect.scoped(Secrets.read(all, name, use))
        )
        assert.deepStrictEqual(got, [process.env["PATH"], undefined, b, a, undefined])
      })
  )

  it("is refused if it is no function", () => {
    assert.throws(() => Secrets.make("token" as never), /Secrets.make/)
  })
})

describe("a tool with secrets", () => {
  it("is refused with a name that is none, and outside of a run", async () => {
    for (const secrets of [["a b"], ["secret://x"], "token", [""], ["../x"], ["a--b"]]) {
      assert.throws(
        () => Tool.make("t", { secrets: secrets as never, handler: () => "" }),
        /names of secrets/
      )
    }
    const tool = safe("t", { secrets: ["x"] }).tool
    const error = await Effect.runPromise(Effect.flip(toToolkit([tool])))
    assert.include(error.message, "only a run resolves references to secrets")
  })
})
