import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import * as Schema from "effect/Schema"
import * as Tracer from "effect/Tracer"
import * as Agent from "../../src/agent/Agent.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { explain } from "../../src/durable/explain.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { approve, bind, call, expect, only, probe, safe, watch } from "../helpers/Fixture.ts"

const canary = "canary-5e55a1b2c3d4"
const token = `ghp_${"a1B2".repeat(9)}`

/** Everything that an effect emits: its log, its spans and its failure. */
const overheard = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const said: Array<unknown> = []
    const logger = Logger.make((entry) => {
      said.push(entry.message, String(entry.cause))
    })
    const tracer = Tracer.make({
      span: (options) => {
        const span = new Tracer.NativeSpan(options)
        said.push(span)
        return span
      }
    })
    const exit = yield* Effect.exit(
      effect.pipe(
        Effect.provide(Logger.layer([logger])),
        Effect.provideService(References.MinimumLogLevel, "All"),
        Effect.withTracer(tracer)
      )
    )
    const spans = said.map((thing) =>
      thing instanceof Tracer.NativeSpan
        ? [thing.name, [...thing.attributes], thing.events, thing.status]
        : thing
    )
    return {
      exit,
      text: JSON.stringify([spans, exit], (_, value) => (typeof value === "bigint" ? 0 : value))
    }
  })

describe("the scrubber", () => {
  it.effect("keeps a secret out of every row, event, log, span and error", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      const { onUpdate, updates } = watch()
      const failing = safe("failing", { handler: () => Effect.die(new Error(`no ${canary}`)) as never })
      const write = probe("write", {
        risk: () => `uses ${canary}`,
        preview: () => `would send ${canary}`,
        handler: ({ id }) => `wrote ${id} with ${canary}`
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [failing.tool, write.tool] }), [
        {
          text: `thinking of ${canary}`,
          reasoning: `because ${token}`,
          calls: [
            { tool: "failing", arguments: { id: canary } },
            { tool: "write", arguments: { id: canary } },
            { tool: "unknown", arguments: { id: canary } },
            { tool: "write", argumentsText: `{"broken": "${canary}` }
          ]
        },
        ({ messages }) => {
          assert.notInclude(JSON.stringify(messages), canary)
          return `done with ${canary}`
        }
      ])
      const { text } = yield* overheard(
        Effect.gen(function* () {
          const prompt = [{ _tag: "text", text: `my key is ${canary}, and ${token}` }] as const
          const held = yield* runPromptStored(runtime, { prompt }, { onUpdate })
          const request = only(held, "approval")
          assert.strictEqual((request.arguments as { id: string }).id, "[REDACTED:secret]")
          yield* decideStored([runtime], approve(request, { note: `because ${canary}` }))
          const explained = yield* explain(held.runId)
          const done = yield* runPromptStored(
            runtime,
            { runId: held.runId, message: `and ${canary}` },
            { onUpdate }
          )
          expect(done, "completed")
          return [explained, done]
        })
      )
      // The approved arguments, without the secret, are those that run.
      assert.deepStrictEqual(write.ran, ["[REDACTED:secret]"])
      const [head] = yield* store.list()
      const stored = yield* store.load(head!.runId)
      const everything = [
        text,
        JSON.stringify(updates.filter(({ _tag }) => _tag === "event")),
        JSON.stringify(stored),
        JSON.stringify(yield* loadState(head!.runId))
      ].join("\n")
      assert.notInclude(everything, canary)
      assert.notInclude(everything, token)
      assert.include(everything, "[REDACTED:secret]")
    }).pipe(
      Effect.provide(Layer.fresh(layerMemory)),
      Effect.provideService(Scrubber.Scrubber, Scrubber.make({ secrets: [canary] }))
    )
  )

  it.effect(
    "keeps a secret out of the text, the name and the address of a file in a prompt and a message",
    () =>
      Effect.gen(function* () {
        const store = yield* RunStore
        const source = { _tag: "bytes", base64: Buffer.from(`é: ${canary}`).toString("base64") } as const
        const files = [
          { _tag: "file", mediaType: "application/octet-stream", source, name: `${canary}.txt` },
          {
            _tag: "file",
            mediaType: "image/png",
            source: { _tag: "url", url: `https://example.com/?a=${canary}` }
          }
        ] as const
        const prompts: Array<string> = []
        const { runtime } = yield* bind(Agent.make("a", { tools: [probe("write").tool] }), [
          { calls: [call("write", "1")] },
          ({ messages }) => {
            prompts.push(
              ...messages.filter(({ role }) => role === "user").map((sent) => JSON.stringify(sent.content))
            )
            return "done"
          }
        ])
        const held = yield* runPromptStored(runtime, { prompt: files })
        yield* sendMessage(held.runId, files)
        yield* decideStored([runtime], approve(only(held, "approval")))
        expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
        const text = Buffer.from("é: [REDACTED:secret]").toString("base64")
        assert.lengthOf(prompts, 2)
        for (const sent of prompts) {
          assert.include(sent, text)
          assert.include(sent, "[REDACTED:secret].txt")
          assert.include(sent, "?a=[REDACTED:secret]")
        }
        const stored = JSON.stringify(yield* store.load(held.runId))
        for (const form of [canary, source.base64]) assert.notInclude(`${stored}${prompts.join()}`, form)
      }).pipe(
        Effect.provide(Layer.fresh(layerMemory)),
        Effect.provideService(Scrubber.Scrubber, Scrubber.make({ secrets: [canary] }))
      )
  )

  it.effect("keeps a secret out of every value and field name of arguments and results", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      const ran: Array<unknown> = []
      const write = Tool.make("write", {
        parameters: Schema.Struct({ id: Schema.String, more: Schema.Json }),
        handler: (args) => {
          ran.push(args)
          return { payload: canary, [canary]: 1 }
        }
      })
      const hidden = { payload: canary, digest: canary, nested: [{ base64: canary, [`key ${canary}`]: 1 }] }
      const escaped = JSON.stringify({ id: "1", more: hidden }).replaceAll("-", "\\u002d")
      const { runtime } = yield* bind(Agent.make("a", { tools: [write] }), [
        { calls: [{ tool: "write", argumentsText: escaped }] },
        "done"
      ])
      const held = yield* runPromptStored(runtime, { prompt: "go" })
      const edited = { id: "1", more: hidden }
      yield* decideStored([runtime], approve(only(held, "approval"), { arguments: edited }))
      expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
      const everything = JSON.stringify([yield* store.load(held.runId), yield* loadState(held.runId), ran])
      assert.notInclude(everything, canary)
      assert.include(JSON.stringify(ran), '"payload":"[REDACTED:secret]"')
    }).pipe(
      Effect.provide(Layer.fresh(layerMemory)),
      Effect.provideService(Scrubber.Scrubber, Scrubber.make({ secrets: [canary] }))
    )
  )

  it.effect(
    "removes what the name of a field shows to be a secret, from arguments, edits, results and outputs",
    () =>
      Effect.gen(function* () {
        const store = yield* RunStore
        const [first, edited, returned, put] = [
          "hunter2hunter2",
          "edited3edited3",
          "result4result4",
          "output5output5"
        ]
        const ran: Array<unknown> = []
        const configure = Tool.make("configure", {
          parameters: Schema.Struct({ env: Schema.Json }),
          handler: (args) => {
            ran.push(args)
            return {
              env: [{ name: "DB_PASSWORD", value: returned }],
              keys: { api_keys: [returned] },
              sha: "8ce83c4"
            }
          }
        })
        const Output = Schema.Struct({ id: Schema.String, password: Schema.Array(Schema.String) })
        const { runtime } = yield* bind(Agent.make("a", { tools: [configure], output: Output }), [
          { calls: [{ tool: "configure", arguments: { env: { passwords: [first] } } }] },
          JSON.stringify({ id: "call_a8Kf03jQmZ19xTbWv72L", password: [put] })
        ])
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        const request = only(held, "approval")
        assert.deepStrictEqual(request.arguments, { env: { passwords: ["[REDACTED:password]"] } })
        const env = { headers: [["Authorization", `Bearer ${edited}`]] }
        yield* decideStored([runtime], approve(request, { arguments: { env } }))
        const done = expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
        assert.deepStrictEqual(done.output, {
          id: "call_a8Kf03jQmZ19xTbWv72L",
          password: ["[REDACTED:password]"]
        })
        const everything = JSON.stringify([yield* store.load(held.runId), yield* loadState(held.runId), ran])
        for (const secret of [first, edited, returned, put]) assert.notInclude(everything, secret)
        assert.include(everything, "8ce83c4")
      }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  )

  it.effect("keeps a secret out of the reason of a cancellation and the error of a refused decision", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      const { runtime } = yield* bind(Agent.make("a", { tools: [probe("write").tool] }), [
        { calls: [call("write", "1")] }
      ])
      const held = yield* runPromptStored(runtime, { prompt: "go" })
      const request = only(held, "approval")
      const wrong = yield* overheard(
        decideStored([runtime], approve(request, { arguments: { id: 7, secret: canary } }))
      )
      assert.isTrue(Exit.isFailure(wrong.exit))
      assert.notInclude(wrong.text, canary)
      const { text } = yield* overheard(cancelRun(held.runId, `leaked ${canary}`))
      assert.notInclude(text, canary)
      assert.strictEqual((yield* loadState(held.runId)).cancelled?.reason, "leaked [REDACTED:secret]")
      assert.notInclude(JSON.stringify(yield* store.load(held.runId)), canary)
    }).pipe(
      Effect.provide(Layer.fresh(layerMemory)),
      Effect.provideService(Scrubber.Scrubber, Scrubber.make({ secrets: [canary] }))
    )
  )

  it.effect("replaces a host path in tool results only", () =>
    Effect.gen(function* () {
      const read = safe("read", { handler: ({ path }) => `read ${path}` })
      const { runtime } = yield* bind(Agent.make("a", { tools: [read.tool] }), [
        { calls: [call("read", "1", "/home/ann/notes.txt")] },
        "done"
      ])
      const done = expect(
        yield* runPromptStored(runtime, { prompt: "read /home/ann/notes.txt" }),
        "completed"
      )
      assert.strictEqual(read.ran.length, 1)
      const text = JSON.stringify(done.state)
      assert.include(text, "read ~/notes.txt")
      assert.include(text, "/home/ann/notes.txt")
    }).pipe(
      Effect.provide(Layer.fresh(layerMemory)),
      Effect.provideService(Scrubber.Scrubber, Scrubber.make({ paths: [{ path: "/home/ann", show: "~" }] }))
    )
  )
})
