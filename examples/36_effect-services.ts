/**
 * @title Effect services: runtimes and conductors as layers, settings from Config, a state in a schema
 *
 * Each runtime is a class: a service with its own type, so that a program can use several, and a layer that requires what its tools need.
 * It also needs `@effect/platform-node`. The model is scripted.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Agent, Conductor, recover, RunStateCodec, RunStore, Runtime, runPrompt, Tool } from "@fermata/node"
import { submitPrompt, SqliteStore } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import { Config, ConfigProvider, Console, Context, Effect, Layer, Schema } from "effect"

class Stock extends Context.Service<Stock, { readonly reserve: (item: string) => Effect.Effect<string> }>()(
  "example/Stock"
) {
  static readonly layer = Layer.succeed(Stock, { reserve: (item) => Effect.succeed(`reserved ${item}`) })
}

const reserve = Tool.make("reserve", {
  parameters: Schema.Struct({ item: Schema.String }),
  needsApproval: false,
  handler: ({ item }) => Stock.use((stock) => stock.reserve(item))
})

class Clerk extends Runtime.Service<Clerk>()("example/Clerk", {
  agent: Agent.make("clerk", { tools: [reserve], output: Schema.Struct({ shipped: Schema.Boolean }) })
}) {}
class Greeter extends Runtime.Service<Greeter>()("example/Greeter", { agent: Agent.make("greeter") }) {}
class Floor extends Conductor.Service<Floor>()("example/Floor") {}

const program = Effect.gen(function* () {
  const clerk = yield* Clerk
  yield* Console.log(`${clerk.owner} takes orders`)
  // A worker drives what another process has submitted.
  const { runId } = yield* submitPrompt(clerk, { prompt: "Ship a lamp." })
  yield* recover([clerk])
  yield* Console.log((yield* (yield* RunStore.RunStore).head(runId)).status)

  const floor = yield* Floor
  const handle = yield* floor.dispatch(yield* Greeter, { prompt: "Say hello." })
  const greeted = yield* handle.wait

  // A state has a schema: in a request, a queue or a column of your own. Older versions are read, too.
  const Message = Schema.Struct({ state: RunStateCodec.RunStateFromJson })
  const body = JSON.stringify(yield* Schema.encodeEffect(Message)({ state: greeted.state }))
  const { state } = yield* Schema.decodeUnknownEffect(Message)(JSON.parse(body))
  const next = yield* runPrompt(yield* Greeter, { state, prompt: "And in French?" })
  if (next.status !== "completed") return yield* Effect.die(next.status)
  yield* Console.log(next.text)
})

const model = ScriptedModel.make(({ agentPath, messages }) => {
  if (agentPath[0] === "greeter") return messages.length > 1 ? "Bonjour." : "Hello."
  const isReserved = messages.some(({ role }) => role === "tool")
  return isReserved ? '{"shipped":true}' : { calls: [{ tool: "reserve", arguments: { item: "lamp" } }] }
})
const services = Layer.mergeAll(
  Clerk.layerConfig({ owner: Config.String("OWNER"), leaseTtl: Config.Duration("LEASE") }),
  Greeter.layer,
  Floor.layerConfig({ concurrency: Config.Int("SLOTS").pipe(Config.withDefault(4)) }),
  SqliteStore.layerConfig({ filename: Config.String("RUNS") })
).pipe(
  Layer.provide([Stock.layer, model.layer]),
  // Without this line, the settings are those of the environment.
  Layer.provide(
    ConfigProvider.layer(ConfigProvider.fromUnknown({ OWNER: "box 7", LEASE: "1 minute", RUNS: "runs.db" }))
  )
)

export const main: Effect.Effect<void, unknown> = Effect.provide(program, services)

if (import.meta.main) NodeRuntime.runMain(main)
