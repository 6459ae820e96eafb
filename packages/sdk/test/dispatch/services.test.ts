import { assert, describe, it } from "@effect/vitest"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Agent from "../../src/agent/Agent.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import * as RuntimeExtension from "../../src/agent/RuntimeExtension.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import * as RunStateCodec from "../../src/domain/RunStateCodec.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"

class Payments extends Context.Service<Payments, { readonly pay: Effect.Effect<string> }>()(
  "test/Payments"
) {}

const pay = Tool.make("pay", { safety: "readOnly", handler: () => Payments.use((payments) => payments.pay) })
const closed: Array<string> = []

class Clerk extends Runtime.Service<Clerk>()("test/Clerk", {
  agent: Agent.make("clerk", { tools: [pay], output: Schema.Struct({ ok: Schema.Boolean }) }),
  owner: "the class",
  profiles: [{ name: "plan", tools: { safety: ["readOnly"] } }],
  extensions: [RuntimeExtension.make("log", { onClose: (status) => void closed.push(status) })]
}) {}
class Desk extends Runtime.Service<Desk>()("test/Desk", { agent: Agent.make("desk") }) {}
class Nightly extends Conductor.Service<Nightly>()("test/Nightly", { concurrency: 2 }) {}

const payments = Layer.succeed(Payments, { pay: Effect.succeed("paid") })
const model = (...script: ReadonlyArray<ScriptedModel.Script>) => ScriptedModel.make(script).layer
const env = (values: Record<string, string>) => ConfigProvider.layer(ConfigProvider.fromEnvRecord(values))

describe("Runtime.Service", () => {
  it.effect("provides several runtimes, each with its own agent and services", () =>
    Effect.gen(function* () {
      const paid = yield* runPrompt(yield* Clerk, { prompt: "pay" })
      assert.deepInclude(paid, { status: "completed", output: { ok: true } })
      assert.strictEqual((yield* Desk).agent.name, "desk")
    }).pipe(
      Effect.provide(
        Layer.mergeAll(Clerk.layer, Desk.layer).pipe(
          Layer.provide([payments, model({ calls: [{ tool: "pay" }] }, '{"ok":true}')])
        )
      )
    )
  )

  it.effect("closes its runtime with the layer", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const context = yield* Layer.buildWithScope(Layer.provide(Clerk.layer, [payments, model()]), scope)
      const runtime = Context.get(context, Clerk)
      assert.isUndefined(runtime.closed())
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(runtime.closed(), "completed")
      assert.deepStrictEqual(closed.splice(0).at(-1), "completed")
    })
  )

  it.effect("takes settings from the ConfigProvider, and those of the class where none is given", () =>
    Effect.gen(function* () {
      const layer = Clerk.layerConfig({
        profile: Config.String("PROFILE"),
        owner: Config.String("OWNER").pipe(Config.withDefault(undefined)),
        leaseTtl: Config.Duration("LEASE")
      }).pipe(Layer.provide([payments, model()]))
      const settings = yield* Clerk.useSync(({ options, owner, profileName }) => [
        owner,
        profileName,
        String(options.leaseTtl),
        options.profiles?.length
      ]).pipe(Effect.provide(Layer.provide(layer, env({ PROFILE: "plan", LEASE: "1 minute" }))))
      assert.deepStrictEqual(settings, ["the class", "plan", "60000 millis", 1])
      const missing = yield* Effect.flip(
        Effect.scoped(Layer.build(Layer.fresh(Layer.provide(layer, env({ PROFILE: "plan" })))))
      )
      assert.strictEqual(missing._tag, "ConfigError")
      const wrong = yield* Effect.flip(
        Effect.scoped(
          Layer.build(Layer.fresh(Layer.provide(layer, env({ PROFILE: "none", LEASE: "1 minute" }))))
        )
      )
      assert.strictEqual(wrong._tag, "CapabilityProfileNotFound")
    })
  )
})

describe("Conductor.Service", () => {
  it.effect("has the name of its class, with which it adopts its runs", () =>
    Effect.gen(function* () {
      const nightly = yield* Nightly
      const desk = yield* Desk
      const handle = yield* nightly.dispatchStored(desk, { prompt: "go" })
      const { state } = yield* handle.wait
      assert.strictEqual(state.conductor?.name, "test/Nightly")
    }).pipe(
      Effect.provide([Nightly.layer, Layer.provide(Desk.layer, model("done")), Layer.fresh(layerMemory)])
    )
  )

  it.effect("takes options from the ConfigProvider, and refuses invalid ones", () =>
    Effect.gen(function* () {
      const layer = Nightly.layerConfig({ concurrency: Config.Number("SLOTS"), name: Config.String("NAME") })
      const build = (slots: string) =>
        Layer.build(Layer.fresh(Layer.provide(layer, env({ SLOTS: slots, NAME: "given" }))))
      const context = yield* build("3")
      assert.isDefined(Context.get(context, Nightly))
      assert.strictEqual((yield* Effect.flip(build("0")))._tag, "OptionsInvalid")
    })
  )
})

describe("RunStateFromJson", () => {
  const held = Effect.gen(function* () {
    const runtime = yield* Effect.provide(
      Runtime.make({ agent: Agent.make("a", { tools: [Tool.make("write", { handler: () => "" })] }) }),
      model({ calls: [{ tool: "write" }] })
    )
    return (yield* runPromptStored(runtime, { prompt: "go" })).state
  }).pipe(Effect.provide(Layer.fresh(layerMemory)))

  it.effect("decodes what it encodes, inside another schema and from text", () =>
    Effect.gen(function* () {
      const state = yield* held
      const Body = Schema.Struct({ state: RunStateCodec.RunStateFromJson })
      const json = JSON.parse(JSON.stringify(yield* Schema.encodeEffect(Body)({ state })))
      assert.deepStrictEqual((yield* Schema.decodeUnknownEffect(Body)(json)).state, state)
      const text = yield* Schema.encodeEffect(RunStateCodec.RunStateFromJsonString)(state)
      assert.deepStrictEqual(yield* Schema.decodeEffect(RunStateCodec.RunStateFromJsonString)(text), state)
      const codec = Schema.toCodecJson(Body)
      assert.deepStrictEqual(
        yield* Schema.decodeEffect(codec)(yield* Schema.encodeEffect(codec)({ state })),
        {
          state
        }
      )
    })
  )

  it.effect("refuses other versions and values with the sentence of the codec", () =>
    Effect.gen(function* () {
      const state = yield* held
      const decode = Schema.decodeUnknownEffect(RunStateCodec.RunStateFromJson)
      const newer = yield* Effect.flip(decode({ ...state, version: 99 }))
      assert.include(newer.message, "99")
      const none = yield* Effect.flip(decode({}))
      assert.include(none.message, "it has no version")
    })
  )
})
