import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import type { RuntimeOptions } from "../../src/agent/RuntimeDefinition.ts"
import * as ContextPolicy from "../../src/context/ContextPolicy.ts"
import { messages } from "../../src/domain/RunState.ts"
import * as RunStateCodec from "../../src/domain/RunStateCodec.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import * as Tokenizer from "../../src/model/Tokenizer.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import type { RunResult } from "../../src/run/RunResult.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import type { DataSchema } from "../../src/tool/DataSchema.ts"
import { Scrubber } from "../../src/tool/Scrubber.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { assertValid } from "../helpers/Fixture.ts"
import { failing, returned, thrown } from "../helpers/Hostile.ts"

/** A program with its own code in one place. */
interface Program {
  readonly agent?: Partial<Agent.AgentOptions<any, any>>
  readonly tool?: Partial<Tool.ToolOptions<any, any>>
  readonly options?: Partial<RuntimeOptions<never, unknown>>
  readonly client?: Partial<ModelClient["Service"]>
  readonly scrubber?: Scrubber
  readonly contextPolicy?: ContextPolicy.ContextPolicy
  readonly tokenizer?: Tokenizer.Tokenizer
  readonly onUpdate?: () => void
  /** Its last answer. */
  readonly answer?: string
}

const bodies = { ran: 0 }

/** The agent that runs the program's code: the root, or a sub-agent of a lead. */
type Where = "alone" | "waited for" | "in the background"

const start = (program: Program, where: Where) => {
  const handler = program.tool?.handler ?? (() => "done")
  const tool = Tool.make("act", {
    needsApproval: false,
    parameters: Schema.Struct({ id: Schema.String }) as Schema.Codec<any, unknown>,
    ...program.tool,
    handler: (args: any, context): any => {
      bodies.ran += 1
      return handler(args, context)
    }
  })
  const model = ScriptedModel.make(({ agentPath, turn }) => {
    if (where !== "alone" && agentPath.length === 1) {
      const given = { agent: "a", prompt: "go", background: where === "in the background" }
      return turn === 1 ? { calls: [{ tool: "delegate", arguments: given }] } : "done"
    }
    return turn === 1 ? { calls: [{ tool: "act", arguments: { id: "1" } }] } : (program.answer ?? "done")
  })
  const agent = Agent.make("a", { tools: [tool], ...program.agent }) as Agent.Agent<never, unknown>
  const lead = Agent.make("lead", { subAgents: [agent], delegation: "delegate" })
  const stream = program.client?.stream
  const client: ModelClient["Service"] =
    stream === undefined
      ? { ...model.client, ...program.client }
      : {
          ...model.client,
          stream: (request) =>
            where === "alone" || request.agentPath.length > 1 ? stream(request) : model.client.stream(request)
        }
  let made: Effect.Effect<any, any, any> = createRuntime({
    agent: where === "alone" ? agent : (lead as Agent.Agent<never, unknown>),
    cancelGrace: "20 millis",
    ...program.options
  })
  made = Effect.provideService(made, ModelClient, client)
  if (program.scrubber !== undefined) made = Effect.provideService(made, Scrubber, program.scrubber)
  if (program.contextPolicy !== undefined) {
    made = Effect.provideService(made, ContextPolicy.ContextPolicy, program.contextPolicy)
  }
  if (program.tokenizer !== undefined)
    made = Effect.provideService(made, Tokenizer.Tokenizer, program.tokenizer)
  return made
}

const watched = ({ onUpdate }: Program) => (onUpdate === undefined ? {} : { onUpdate })

interface Outcome {
  readonly status: RunResult<any>["status"]
  readonly ran: number
  readonly says: string
}

/** Runs the program without a store and with one, and checks that `recover` finds nothing to resume. */
const outcomes = (program: Program, where: Where = "alone") =>
  Effect.gen(function* () {
    bodies.ran = 0
    const alone: RunResult<any> = yield* runPrompt(
      yield* start(program, where),
      { prompt: "go" },
      watched(program)
    )
    const before = bodies.ran
    const runtime = yield* start(program, where)
    const stored: RunResult<any> = yield* runPromptStored(runtime, { prompt: "go" }, watched(program))
    const again = yield* recover([runtime])
    assert.deepStrictEqual(again, [], "it is taken up again")
    for (const { state } of [alone, stored]) {
      if (alone.status !== "interrupted") assertValid(state)
      assert.isTrue(
        Result.isSuccess(RunStateCodec.decode(RunStateCodec.encode(state))),
        "it cannot be read back"
      )
    }
    assert.strictEqual(alone.status, stored.status)
    assert.strictEqual(bodies.ran, 2 * before, "the body ran as often with a store as without one")
    const heard = JSON.stringify(messages(stored.state))
    const says = alone.status === "error" ? alone.error.message : ""
    return { status: alone.status, ran: before, says: where === "alone" ? says : heard }
  }).pipe(
    Effect.scoped,
    Effect.provide(Layer.fresh(layerMemory)),
    Effect.provideService(References.MinimumLogLevel, "None")
  ) as Effect.Effect<Outcome, unknown>

const standard = (validate: (value: unknown) => unknown): DataSchema<any> =>
  ({
    "~standard": {
      version: 1,
      vendor: "own",
      validate,
      jsonSchema: { input: () => ({ type: "object" }), output: () => ({ type: "object" }) }
    }
  }) as unknown as DataSchema<any>

const transformed = (decode: (value: unknown) => unknown, encode: (value: unknown) => unknown) =>
  Schema.Struct({
    id: Schema.String.pipe(
      Schema.decodeTo(
        Schema.String,
        SchemaTransformation.transform({ decode: decode as never, encode: encode as never })
      )
    )
  }) as unknown as DataSchema<any>

const same = (value: unknown) => value

/** Where user code runs, how the run ends, and how often its tool runs. */
interface Place {
  /** It must return synchronously. Returned values of other types have a test of their own. */
  readonly atOnce?: true
  readonly of: (fail: () => any) => Program
  readonly status?: RunResult<any>["status"]
  readonly ran?: number
  /** The start of the error's sentence. */
  readonly says?: string
}

const places: Readonly<Record<string, Place>> = {
  "a handler": { of: (fail) => ({ tool: { handler: fail } }), ran: 1 },
  "an idempotent handler": { of: (fail) => ({ tool: { handler: fail, idempotent: true } }), ran: 1 },
  "a read-only handler": { of: (fail) => ({ tool: { handler: fail, safety: "readOnly" } }), ran: 1 },
  "a retried handler": {
    of: (fail) => ({ tool: { handler: fail, idempotent: true, retry: Schedule.recurs(1) } }),
    ran: 2
  },
  "an approval rule": { of: (fail) => ({ tool: { needsApproval: fail } }), status: "interrupted", ran: 0 },
  "a preview": {
    of: (fail) => ({ tool: { needsApproval: true, preview: fail } }),
    status: "interrupted",
    ran: 0
  },
  "a risk": { of: (fail) => ({ tool: { needsApproval: true, risk: fail } }), status: "interrupted", ran: 0 },
  "an approval callback": {
    of: (fail) => ({ tool: { needsApproval: true }, options: { approvalCallback: fail } }),
    status: "interrupted",
    ran: 0
  },
  "a Standard Schema": { of: (fail) => ({ tool: { parameters: standard(fail) } }), ran: 0 },
  "a schema that decodes": {
    atOnce: true,
    of: (fail) => ({ tool: { parameters: transformed(fail, same) } }),
    ran: 0
  },
  "a schema that encodes": {
    atOnce: true,
    of: (fail) => ({ tool: { parameters: transformed(same, fail) } })
  },
  "an output schema": {
    of: (fail) => ({
      agent: { output: standard(fail), limits: { maxTurns: 3 } },
      options: { interactive: false }
    }),
    status: "error",
    ran: 1
  },
  "an output schema that encodes": {
    atOnce: true,
    of: (fail) => ({
      agent: { output: transformed(same, fail), limits: { maxTurns: 3 } },
      options: { interactive: false },
      answer: JSON.stringify({ id: "1" })
    }),
    status: "error",
    ran: 1
  },
  "an output schema that encodes anything": {
    atOnce: true,
    of: (fail) => ({
      agent: {
        output: Schema.Unknown.pipe(
          Schema.decodeTo(
            Schema.Unknown,
            SchemaTransformation.transform({ decode: same, encode: fail as never })
          )
        )
      },
      options: { interactive: false },
      answer: "1"
    }),
    status: "error",
    ran: 1
  },
  instructions: {
    of: (fail) => ({ agent: { instructions: fail } }),
    says: "The instructions of a failed: ",
    status: "error",
    ran: 0
  },
  "`stream` of a model client": {
    of: (fail) => ({ client: { stream: fail } }),
    says: "The model client failed: ",
    status: "error",
    ran: 0
  },
  "the stream of a model client": {
    atOnce: true,
    of: (fail) => ({ client: { stream: () => Stream.fromEffect(Effect.suspend(fail)) } }),
    says: "The model client failed: ",
    status: "error",
    ran: 0
  },
  "`contextTokens` of a model client": {
    atOnce: true,
    of: (fail) => ({ client: { contextTokens: fail } }),
    says: "The context policy failed: ",
    status: "error",
    ran: 0
  },
  "a context policy": {
    of: (fail) => ({ contextPolicy: { prepare: fail } }),
    says: "The context policy failed: ",
    status: "error",
    ran: 0
  },
  "a tokenizer": {
    atOnce: true,
    of: (fail) => ({ tokenizer: { count: fail }, agent: { limits: { maxContextTokens: 100_000 } } }),
    says: "The context policy failed: ",
    status: "error",
    ran: 0
  },
  hooks: {
    of: (fail) => ({
      options: {
        hooks: { onTurn: fail, onModelCall: fail, onToolCall: fail, onRequest: fail, onRunEnd: fail }
      }
    }),
    ran: 1
  },
  "a subscriber": { of: (fail) => ({ onUpdate: fail }), ran: 1 }
}

describe("a run completes, is held or fails with an error when user code fails", () => {
  for (const [place, { atOnce, of, ran, says = "", status = "completed" }] of Object.entries(places)) {
    for (const [how, fail] of Object.entries(failing)) {
      if (atOnce === true && how === "rejects") continue
      it.effect(`in ${place}: it ${how}`, () =>
        Effect.gen(function* () {
          for (const [what, make] of Object.entries(thrown)) {
            const outcome = yield* Effect.mapError(outcomes(of(() => fail(make()))), (error) => [what, error])
            assert.strictEqual(outcome.status, status, what)
            assert.include(outcome.says, says, what)
            if (ran !== undefined) assert.strictEqual(outcome.ran, ran, what)
          }
        })
      )
    }
  }
})

/** Options of the whole run, which the lead meets first. */
const isOfRun = (place: string): boolean =>
  ["`contextTokens` of a model client", "a context policy", "a tokenizer"].includes(place)

for (const where of ["waited for", "in the background"] as const) {
  describe(`a lead continues and receives the end of its sub-agent (${where}) when user code fails`, () => {
    for (const [place, { atOnce, of, ran, says = "", status = "completed" }] of Object.entries(places)) {
      for (const [how, fail] of Object.entries(failing)) {
        if ((atOnce === true && how === "rejects") || isOfRun(place)) continue
        it.effect(`in ${place}: it ${how}`, () =>
          Effect.gen(function* () {
            for (const [what, make] of Object.entries(thrown)) {
              const outcome = yield* Effect.mapError(
                outcomes(
                  of(() => fail(make())),
                  where
                ),
                (error) => [what, error]
              )
              assert.strictEqual(outcome.status, status === "interrupted" ? status : "completed", what)
              if (status === "error") assert.include(outcome.says, "a failed. ", what)
              assert.include(outcome.says, says, what)
              if (ran !== undefined) assert.strictEqual(outcome.ran, ran, what)
            }
          })
        )
      }
    }
  })
}

describe("a run survives a value of the wrong type", () => {
  const later = [(value: unknown) => Promise.resolve(value), Effect.succeed]
  for (const [place, { atOnce, of }] of Object.entries(places)) {
    it.effect(`returned by ${place}`, () =>
      Effect.gen(function* () {
        for (const [what, make] of Object.entries(returned)) {
          for (const wrap of [same, ...(atOnce === true ? [] : later)]) {
            yield* Effect.mapError(outcomes(of(() => wrap(make()))), (error) => [what, error])
          }
        }
      })
    )
  }

  it.effect("returned by instructions, and fails with an error that names them", () =>
    Effect.gen(function* () {
      for (const make of Object.values(returned)) {
        const { says, status } = yield* outcomes({ agent: { instructions: () => make() as string } })
        assert.strictEqual(status, "error")
        assert.include(says, "The instructions of a failed: ")
      }
    })
  )
})
