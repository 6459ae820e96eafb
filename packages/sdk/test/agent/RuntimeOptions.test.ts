import { assert, describe, it } from "@effect/vitest"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Agent from "../../src/agent/Agent.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import { RuntimeOptionsInvalid } from "../../src/agent/RuntimeError.ts"
import * as RuntimeOptions from "../../src/agent/RuntimeOptions.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

const agent = Agent.make("keeper")

/** The error of a runtime with unchecked options. */
const refused = (options: unknown) =>
  Effect.gen(function* () {
    const error = yield* Effect.flip(
      createRuntime(options as RuntimeOptions.RuntimeOptions<never, undefined>)
    )
    assert.instanceOf(error, RuntimeOptionsInvalid)
    return error as RuntimeOptionsInvalid
  }).pipe(Effect.scoped, Effect.provideService(ModelClient, ScriptedModel.make([]).client))

const accepted = (options: object) =>
  createRuntime({ agent, ...options }).pipe(Effect.provideService(ModelClient, ScriptedModel.make([]).client))

describe("RuntimeOptions", () => {
  it.effect("refuse an unknown option, and suggest or list the known ones", () =>
    Effect.gen(function* () {
      const { message, problems } = yield* refused({ agent, leaseTTL: 5 })
      assert.deepStrictEqual(
        problems.map(({ knob }) => knob),
        ["leaseTTL"]
      )
      assert.include(message, 'there is no option "leaseTTL" (did you mean "leaseTtl"?)')
      const { message: other } = yield* refused({ agent, color: "red" })
      assert.include(other, 'there is no option "color"')
      assert.include(other, "leaseTtl, cancelGrace")
    })
  )

  it.effect("report all invalid options at once, with type and default", () =>
    Effect.gen(function* () {
      const { message, problems } = yield* refused({
        agent,
        leaseTtl: "5 parsecs",
        cancelGrace: -1,
        closeTimeout: Number.POSITIVE_INFINITY,
        interactive: "yes",
        owner: "",
        mode: 3,
        profile: "",
        model: {}
      })
      assert.deepStrictEqual(problems.map(({ knob }) => knob).sort(), [
        "cancelGrace",
        "closeTimeout",
        "interactive",
        "leaseTtl",
        "mode",
        "model",
        "owner",
        "profile"
      ])
      assert.include(
        message,
        '"leaseTtl" takes a duration of a millisecond or more, such as "15 seconds" (the default)'
      )
      assert.include(message, '"interactive" takes true or false (default: true)')
      assert.notInclude(message, "parsecs")
    })
  )

  it.effect("refuse a lease of less than a millisecond", () =>
    Effect.gen(function* () {
      for (const leaseTtl of [0, "0 seconds", Number.NaN, "-Infinity", 0.5]) {
        assert.strictEqual((yield* refused({ agent, leaseTtl })).problems[0]?.knob, "leaseTtl")
      }
    })
  )

  it.effect("accept durations as text, milliseconds and Effect durations", () =>
    Effect.gen(function* () {
      for (const leaseTtl of ["20 seconds", 20_000, { seconds: 20 }, 20_000_000_000n]) {
        assert.deepStrictEqual((yield* accepted({ leaseTtl })).options, {
          ...(yield* accepted({})).options,
          leaseTtl: leaseTtl as Duration.Input
        })
      }
    })
  )

  it.effect("treat undefined as absent, and have defaults", () =>
    Effect.gen(function* () {
      const { options, owner } = yield* accepted({ leaseTtl: undefined, mode: undefined, hooks: undefined })
      assert.deepInclude(
        { ...options },
        {
          profile: "default",
          interactive: true,
          leaseTtl: "15 seconds",
          cancelGrace: "2 seconds",
          closeTimeout: "5 seconds"
        }
      )
      assert.match(owner, /^worker-/)
    })
  )

  it.effect("refuse an invalid agent, callback, hook, extension or token", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* refused({})).problems[0]?.knob, "agent")
      assert.strictEqual((yield* refused(undefined)).problems[0]?.knob, "agent")
      for (const [knob, wrong] of [
        ["agent", "keeper"],
        ["approvalCallback", {}],
        ["hooks", { onTurns: () => {} }],
        ["hooks", { onTurn: "log" }],
        ["extensions", {}],
        ["extensions", [{ tools: () => [] }]],
        ["extensions", [{ name: "notes", tool: () => [] }]],
        ["extensions", [{ name: "notes" }, { name: "notes" }]],
        ["cancellation", new AbortController()]
      ] as const) {
        const { problems } = yield* refused({ agent, [knob]: wrong })
        assert.deepStrictEqual(
          problems.map((problem) => problem.knob),
          [knob]
        )
      }
    })
  )

  it.effect("report the path of a problem in a capability profile", () =>
    Effect.gen(function* () {
      const typo = yield* refused({ agent, profiles: [{ name: "plan", tools: { safty: ["readOnly"] } }] })
      assert.include(typo.message, 'there is no "safty" in "tools" of "profiles.0" (did you mean "safety"?)')
      const policy = { mode: "all", rule: [] }
      const inside = yield* refused({ agent, profiles: [{ name: "plan", policy }] })
      assert.include(inside.message, '"profiles.0.policy" cannot be used: there is no "rule" in the policy')
      const unknown = yield* refused({
        agent,
        profiles: [{ name: "plan" }, { name: "act", tools: { safety: ["harmless"] } }]
      })
      assert.include(unknown.message, '"profiles.1.tools.safety.0" cannot be used: Expected "readOnly"')
      assert.notInclude(unknown.message, "harmless")
      const limited = yield* refused({
        agent,
        profiles: [{ name: "plan" }, { name: "act", limits: { maxTurns: -1 } }]
      })
      assert.include(limited.message, '"limits.maxTurns" of "profiles.1" takes a whole number of 0 or more')
    })
  )

  it.effect("report the problems in profiles and those of the other options together, each once", () =>
    Effect.gen(function* () {
      const plan = { name: "plan", tols: 1, limits: { maxTurns: -1 }, policy: { mode: "al" } }
      const act = { name: "act!", tools: { safety: ["harmless"], names: [""] } }
      const { problems } = yield* refused({ agent, profiles: [plan, act], leaseTtl: "3 secs", ownr: "me" })
      assert.deepStrictEqual(problems.map(({ knob }) => knob).toSorted(), [
        "leaseTtl",
        "ownr",
        ...Array.from({ length: 6 }, () => "profiles")
      ])
      const said = problems.map(({ problem }) => problem).join("; ")
      for (const place of [
        "tols",
        "limits.maxTurns",
        "policy",
        "1.name",
        "1.tools.safety.0",
        "1.tools.names.0"
      ]) {
        assert.strictEqual(said.split(`${place}"`).length, 2, `${place} in ${said}`)
      }
    })
  )

  it.effect("refuse two capability profiles with one name", () =>
    Effect.gen(function* () {
      const { message } = yield* refused({ agent, profiles: [{ name: "plan" }, { name: "plan" }] })
      assert.include(message, 'two of the "profiles" are called "plan"')
    })
  )

  it("decode their plain-data part from JSON", () => {
    const json = '{"profile":"plan","profiles":[{"name":"plan","mode":"plan"}],"leaseTtl":"1 minute"}'
    const knobs = Result.getOrThrow(RuntimeOptions.decode(JSON.parse(json)))
    assert.deepStrictEqual(knobs, {
      profile: "plan",
      profiles: [{ name: "plan", mode: "plan" }],
      leaseTtl: "1 minute"
    })
    assert.isTrue(Result.isFailure(RuntimeOptions.decode({ agent: "keeper" })))
    assert.isTrue(Result.isFailure(RuntimeOptions.decode("profile=plan")))
  })

  it("form a complete sentence of their problems in the error", () => {
    const error = new RuntimeOptionsInvalid({ problems: [{ knob: "mode", problem: '"mode" takes a word' }] })
    assert.strictEqual(error.message, 'The options are invalid: "mode" takes a word.')
  })
})
