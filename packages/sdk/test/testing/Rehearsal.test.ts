import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Agent from "../../src/agent/Agent.ts"
import type { Decision } from "../../src/domain/Decision.ts"
import type { RequestId } from "../../src/domain/Id.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import { ConnectionLost, ProviderFault } from "../../src/model/ModelError.ts"
import type { RunResult } from "../../src/run/RunResult.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as Rehearsal from "../../src/testing/Rehearsal.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { ToolFailure } from "../../src/tool/ToolError.ts"

type Options = Partial<Tool.ToolOptions<{ readonly euros: number }, unknown>>

/** A cashier that refunds 10 euros; the options of its tool may record effects. */
const cashier =
  (options: (effects: Rehearsal.Effects) => Options = () => ({})): Rehearsal.Setup<any> =>
  (effects) => ({
    agents: [
      Agent.make("cashier", {
        tools: [
          Tool.make("refund", {
            parameters: Schema.Struct({ euros: Schema.Finite }),
            handler: ({ euros }) => `refunded ${euros}`,
            ...options(effects)
          }) as Tool.Tool
        ]
      })
    ],
    model: ScriptedModel.make([
      { calls: [{ tool: "refund", arguments: { euros: 10 } }] },
      "The money is on its way."
    ]).client
  })

const asked = (result: RunResult): Interruption => {
  assert.strictEqual(result.status, "interrupted")
  return (result as Extract<RunResult, { readonly status: "interrupted" }>).interruptions[0]!
}

const approve = { _tag: "approve" } as const

const refundOnce = (rehearsal: Rehearsal.Rehearsal) =>
  Effect.gen(function* () {
    const held = yield* rehearsal.run("Refund order 7")
    const done = yield* rehearsal.decide(asked(held), approve)
    assert.strictEqual(done.status, "completed")
  })

/** The error that a function throws. */
const thrown = (f: () => void): any => {
  try {
    f()
  } catch (error) {
    return error
  }
  return assert.fail("nothing was thrown")
}

/** A bank that moves money at every request. */
const careless =
  (options: Options = {}) =>
  (effects: Rehearsal.Effects): Options => ({
    ...options,
    handler: (_, { idempotencyKey }) => Effect.as(effects.record("money moved", idempotencyKey), "refunded")
  })

/** A bank that recognizes a repeated key. */
const careful =
  (options: Options = {}) =>
  (effects: Rehearsal.Effects): Options => ({
    ...options,
    handler: (_, { idempotencyKey }) =>
      Effect.map(effects.once("money moved", idempotencyKey), (isNew) =>
        isNew ? "refunded" : "refunded before"
      )
  })

describe("Rehearsal", () => {
  it.effect(
    "passes an agent that asks for approval over every crash and every pair of crashes",
    () =>
      Effect.gen(function* () {
        const reports = yield* Rehearsal.everyCrash(cashier(), refundOnce, { crashes: 2 })
        assert.isAbove(reports.length, 500)
        assert.isTrue(reports.every(({ crashes }) => crashes.length > 0))
        Rehearsal.assertSafe(reports)
      }),
    300_000
  )

  it.effect("crashes before and after an effect that a body records", () =>
    Effect.gen(function* () {
      const reports = yield* Rehearsal.everyCrash(cashier(careless()), refundOnce)
      const points = reports.flatMap(({ crashes }) => crashes.map(({ point }) => point))
      assert.include(points, "before-effect:money moved#1")
      assert.include(points, "after-effect:money moved#1")
      Rehearsal.assertSafe(reports)
    })
  )

  it.effect("catches a tool that is declared idempotent and is not", () =>
    Effect.gen(function* () {
      const reports = yield* Rehearsal.everyCrash(cashier(careless({ idempotent: true })), refundOnce)
      const error = thrown(() => Rehearsal.assertEffectsAtMostOnce(reports))
      assert.instanceOf(error, Rehearsal.EffectRepeated)
      assert.deepStrictEqual(error.crashes, ["after-effect:money moved#1"])
      assert.strictEqual(
        error.message,
        "money moved (in refund) happened 2 times for the call with the key run-1.t1.1: after 0 s and after 15.001 s, in " +
          "attempts 1 and 2; the worker crashed at after-effect:money moved#1. The body ran again and the key was not recognized: " +
          "pass the key to the service that causes the effect, or do not declare the tool idempotent."
      )
    })
  )

  it.effect(
    "passes an idempotent tool whose bank recognizes its key",
    () =>
      Effect.gen(function* () {
        const reports = yield* Rehearsal.everyCrash(cashier(careful({ idempotent: true })), refundOnce, {
          crashes: 2
        })
        assert.isTrue(reports.some(({ bodies }) => bodies.length === 3))
        Rehearsal.assertSafe(reports)
      }),
    300_000
  )

  it.effect("catches an idempotent tool that ran again without recording an effect", () =>
    Effect.gen(function* () {
      const reports = yield* Rehearsal.everyCrash(
        cashier(() => ({ idempotent: true })),
        refundOnce
      )
      const error = thrown(() => Rehearsal.assertEffectsAtMostOnce(reports))
      assert.instanceOf(error, Rehearsal.EffectUnproven)
      assert.strictEqual(error.tool, "refund")
    })
  )

  it.effect("catches a body that records an effect twice", () =>
    Effect.gen(function* () {
      const report = yield* Rehearsal.rehearse(
        cashier(({ record }) => ({
          handler: () => Effect.andThen(record("money moved"), record("money moved"))
        })),
        refundOnce
      )
      const error = thrown(() => Rehearsal.assertEffectsAtMostOnce(report))
      assert.instanceOf(error, Rehearsal.EffectRepeated)
      assert.deepStrictEqual(error.attempts, [1, 1])
      assert.include(error.message, "no worker crashed. One execution of the body caused it twice")
    })
  )

  it.effect("catches a body with two effects when a crash separates them", () =>
    Effect.gen(function* () {
      const reports = yield* Rehearsal.everyCrash(
        cashier(({ record }) => ({
          handler: () => Effect.as(Effect.andThen(record("money moved"), record("mail sent")), "done")
        })),
        refundOnce
      )
      Rehearsal.assertEffectsAtMostOnce(reports)
      const error = thrown(() => Rehearsal.assertNothingLost(reports))
      assert.instanceOf(error, Rehearsal.EffectLost)
      assert.strictEqual(error.effect, "mail sent")
      assert.deepStrictEqual(error.crashes, ["after-effect:money moved#1"])
    })
  )

  it.effect("catches an answer to a call in doubt that repeats its effect", () =>
    Effect.gen(function* () {
      const setup: Rehearsal.Setup<any> = (effects) => ({
        ...cashier()(effects),
        inDoubt: () => ({ _tag: "retry" })
      })
      const reports = yield* Rehearsal.everyCrash(setup, refundOnce)
      const error = thrown(() => Rehearsal.assertEffectsAtMostOnce(reports))
      assert.instanceOf(error, Rehearsal.EffectRepeated)
      assert.deepStrictEqual(error.crashes, ["after-tool:refund#1"])
    })
  )

  it.effect("keeps the lease of a crashed worker until it expires, and reports the call in doubt", () =>
    Effect.gen(function* () {
      const report = yield* Rehearsal.rehearse(
        (effects) => ({ ...cashier()(effects), inDoubt: "ask", leaseTtl: "1 minute" }),
        (rehearsal) =>
          Effect.gen(function* () {
            const held = yield* rehearsal.run("Refund order 7")
            yield* rehearsal.crashAt("after-tool:refund")
            const doubt = asked(yield* rehearsal.decide(asked(held), approve))
            assert.strictEqual(doubt._tag, "inDoubt")
            assert.isAbove(doubt.at, Date.UTC(2030, 0, 1, 0, 1))
            const done = yield* rehearsal.decide(doubt, { _tag: "supply", result: "the bank says so" })
            assert.strictEqual(done.status, "completed")
          })
      )
      assert.deepStrictEqual(
        report.crashes.map(({ point }) => point),
        ["after-tool:refund#1"]
      )
      Rehearsal.assertSafe(report)
    })
  )

  it.effect("reconciles a call in doubt by its tool, without a request", () =>
    Effect.gen(function* () {
      const moved = new Set<string>()
      const report = yield* Rehearsal.rehearse(
        (effects) => ({
          ...cashier(() => ({
            needsApproval: false,
            handler: (_, { idempotencyKey }) => Effect.sync(() => moved.add(idempotencyKey)),
            reconcile: (key) =>
              moved.has(key) ? { _tag: "happened", result: "found" } : { _tag: "notHappened" }
          }))(effects),
          inDoubt: "ask"
        }),
        (rehearsal) =>
          Effect.gen(function* () {
            yield* rehearsal.crashAt("before-tool:refund", "after-tool:refund")
            assert.strictEqual((yield* rehearsal.run("Refund order 7")).status, "completed")
          })
      )
      assert.strictEqual(report.crashes.length, 2)
      assert.strictEqual(report.bodies.length, 1)
      Rehearsal.assertSafe(report)
    })
  )

  it.effect("records the effects of a sub-agent's tools, and crashes after parallel reads", () =>
    Effect.gen(function* () {
      const setup: Rehearsal.Setup = () => {
        const look = (name: string) =>
          Tool.make(name, { safety: "readOnly", handler: () => Effect.succeed(name) })
        const book = Tool.make("book", { handler: async () => "booked" })
        const travel = Agent.make("travel", { tools: [look("flights"), look("hotels"), book] })
        const model = ScriptedModel.make(({ agentPath, turn }) => {
          switch (`${agentPath.join("/")} ${turn}`) {
            case "assistant 1":
              return { calls: [{ tool: "travel", arguments: { prompt: "To Turku" } }] }
            case "assistant/travel 1":
              return { calls: [{ tool: "flights" }, { tool: "hotels" }, { tool: "book" }] }
            default:
              return "Done."
          }
        })
        return { agents: [Agent.make("assistant", { subAgents: [travel] })], model: model.client }
      }
      const reports = yield* Rehearsal.everyCrash(setup, refundOnce)
      Rehearsal.assertSafe(reports)
      for (const { effects } of reports) {
        assert.deepStrictEqual(
          effects.map(({ body, name }) => [name, body?.agentPath]),
          [["book", ["assistant", "travel"]]]
        )
      }
      const crashed = reports.flatMap(({ crashes }) => crashes.map(({ point }) => point))
      assert.include(crashed, "after-tool:hotels#1")
    })
  )

  it.effect("has one winner when several workers decide and resume at once, in each of 60 orders", () =>
    Effect.gen(function* () {
      const winners = new Set<string>()
      for (let seed = 1; seed <= 60; seed++) {
        const report = yield* Rehearsal.rehearse(
          (effects) => ({ ...cashier(careless())(effects), seed }),
          (rehearsal) =>
            Effect.gen(function* () {
              const held = yield* rehearsal.run("Refund order 7")
              const deny = { _tag: "deny" } as const
              const race = yield* rehearsal.race(asked(held), approve, deny, approve)
              winners.add(race.decision.by)
              assert.strictEqual(race.refused.length, 2)
              assert.isTrue(race.refused.every(({ by }) => by === race.decision.by))
              assert.strictEqual(race.result.status, "completed")
            })
        )
        Rehearsal.assertSafe(report)
      }
      assert.isAbove(winners.size, 1)
    })
  )

  it.effect("passes a race with a crash at any point", () =>
    Effect.gen(function* () {
      const reports = yield* Rehearsal.everyCrash(cashier(careless()), (rehearsal) =>
        Effect.gen(function* () {
          const held = yield* rehearsal.run("Refund order 7")
          const race = yield* rehearsal.race(asked(held), approve, approve)
          assert.strictEqual(race.result.status, "completed")
        })
      )
      assert.isAbove(reports.length, 30)
      Rehearsal.assertSafe(reports)
    })
  )

  it.effect("moves the clock by two days, in which a request expires", () =>
    Effect.gen(function* () {
      const report = yield* Rehearsal.rehearse(
        cashier(() => ({ approval: { expiresIn: "1 day" } })),
        (rehearsal) =>
          Effect.gen(function* () {
            const held = yield* rehearsal.run("Refund order 7")
            yield* rehearsal.adjust("2 days")
            const [over] = yield* rehearsal.recover
            assert.strictEqual(over?.status, "completed")
            const late = yield* Effect.flip(rehearsal.decide(asked(held), approve))
            assert.strictEqual(late._tag, "AlreadyDecided")
          })
      )
      assert.deepStrictEqual(report.effects, [])
      Rehearsal.assertSafe(report)
    })
  )

  it.effect("fails operations of the store before or after they take effect", () =>
    Effect.gen(function* () {
      const faults = [
        ["before-store:append", "busy"],
        ["before-store:park", "full"],
        ["after-store:append", "connectionLost"],
        ["after-store:create", "connectionLost"],
        ["after-store:decide", "connectionLost"],
        ["before-store:claim", "connectionLost"]
      ] as const
      for (const [point, fault] of faults) {
        const report = yield* Rehearsal.rehearse(cashier(careless()), (rehearsal) =>
          Effect.andThen(rehearsal.failAt(point, fault), refundOnce(rehearsal))
        )
        Rehearsal.assertSafe(report)
        assert.strictEqual(report.effects.length, 1)
      }
    })
  )

  it.effect("fails a tool before or after its effect", () =>
    Effect.gen(function* () {
      for (const [point, count] of [
        ["before-tool:refund", 0],
        ["after-tool:refund", 1]
      ] as const) {
        const report = yield* Rehearsal.rehearse(cashier(), (rehearsal) =>
          Effect.gen(function* () {
            yield* rehearsal.failAt(point, new Error("the bank is down"))
            yield* refundOnce(rehearsal)
          })
        )
        assert.strictEqual(report.effects.length, count)
        assert.include(JSON.stringify(report.runs[0]?.messages), "refund failed: the bank is down")
      }
    })
  )

  it.effect("fails a model request before or after its answer", () =>
    Effect.gen(function* () {
      yield* Rehearsal.rehearse(cashier(), (rehearsal) =>
        Effect.gen(function* () {
          yield* rehearsal.failAt("before-model", new ConnectionLost({ description: "cut" }))
          assert.strictEqual((yield* rehearsal.run("Refund order 7")).status, "interrupted")
          yield* rehearsal.failAt("after-model", new ProviderFault({ description: "cut" }))
          assert.strictEqual((yield* rehearsal.run("Refund order 8")).status, "error")
        })
      )
    })
  )

  it.effect("ends a cancelled run after a crash at any point, without effects", () =>
    Effect.gen(function* () {
      const reports = yield* Rehearsal.everyCrash(cashier(), (rehearsal) =>
        Effect.gen(function* () {
          const { runId } = yield* rehearsal.run("Refund order 7")
          const over = yield* rehearsal.cancel(runId, "the customer has changed her mind")
          assert.strictEqual(over.status, "cancelled")
        })
      )
      Rehearsal.assertSafe(reports)
      assert.isTrue(reports.every(({ effects }) => effects.length === 0))
    })
  )

  it.effect("fails with PointNotReached for a point that the scenario does not pass", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        Rehearsal.rehearse(cashier(), (rehearsal) =>
          Effect.andThen(rehearsal.crashAt("after-tool:refund#2"), refundOnce(rehearsal))
        )
      )
      assert.instanceOf(error, Rehearsal.PointNotReached)
      assert.include(error.message, "ended without passing after-tool:refund#2")
    })
  )

  it.effect("refuses invalid or passed points, and faults that do not fit their point", () =>
    Effect.gen(function* () {
      const rehearsal = yield* Rehearsal.make(cashier())
      const refused = (effect: Effect.Effect<void, Rehearsal.PointInvalid>) =>
        Effect.map(Effect.flip(effect), ({ problem }) => problem)
      assert.strictEqual(
        yield* refused(rehearsal.crashAt("after-tool:refnd")),
        'no agent here has a tool "refnd"; the tools are refund'
      )
      for (const point of [
        "after-store:fetch",
        "during-model",
        "before-model:gpt",
        "before-tool",
        "after-model#0"
      ]) {
        yield* refused(rehearsal.crashAt(point as Rehearsal.Point))
      }
      yield* refused(rehearsal.failAt("before-store:append", new Error("busy")))
      yield* refused(rehearsal.failAt("after-store:append", "full"))
      yield* refused(rehearsal.failAt("before-tool:refund", "busy"))
      yield* refused(rehearsal.failAt("before-model", new Error("down")))
      yield* rehearsal.run("Refund order 7")
      assert.strictEqual(
        yield* refused(rehearsal.crashAt("before-model#1")),
        "it was passed already, 1 times so far"
      )
    })
  )

  const wrongParts: ReadonlyArray<readonly [string, object | undefined, string]> = [
    [
      "an unknown option",
      { patienec: "1 second" },
      'there is no "patienec" in the parts of the rehearsal (did you mean "patience"?)'
    ],
    ["no agents", { agents: undefined }, 'the parts of the rehearsal name no "agents"'],
    ["an empty list of agents", { agents: [] }, '"agents" of the parts of the rehearsal takes a list of one'],
    ["an invalid agent", { agents: ["cashier"] }, "each as Agent.make returns it"],
    ["no model", { model: undefined }, 'the parts of the rehearsal name no "model"'],
    ["a scripted model in place of its client", { model: ScriptedModel.make([]) }, "takes a model client"],
    ["a store that is not a layer", { store: {} }, "takes a layer of a run store"],
    ["an invalid lease", { leaseTtl: "soon" }, "takes a duration"],
    ["an unknown answer to calls in doubt", { inDoubt: "retry" }, 'takes "ask" or a function'],
    ["a seed that is not a number", { seed: Number.NaN }, "takes a finite number"],
    ["invalid patience", { patience: Number.NaN }, "takes a duration"],
    ["an invalid callback", { approvalCallback: "approve" }, "takes a function"],
    ["nothing", undefined, "has to be a plain object"]
  ]
  for (const [what, change, words] of wrongParts) {
    it.effect(`refuses parts with ${what}`, () =>
      Effect.gen(function* () {
        const setup: Rehearsal.Setup<any> = (effects) =>
          (change === undefined ? undefined : { ...cashier()(effects), ...change }) as Rehearsal.Parts<any>
        const error = yield* Effect.flip(Rehearsal.rehearse(setup, refundOnce))
        assert.strictEqual((error as { readonly _tag: string })._tag, "OptionsInvalid")
        assert.include(error.message, words)
      })
    )
  }

  it.effect("refuses unknown or invalid options of a run, a decision and a sweep", () =>
    Effect.gen(function* () {
      const refused = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
        Effect.map(Effect.flip(effect), (error) => {
          assert.strictEqual((error as { readonly _tag: string })._tag, "OptionsInvalid")
          return (error as unknown as Error).message
        })
      const rehearsal = yield* Rehearsal.make(cashier())
      const options = <A>(given: object) => given as A
      assert.include(
        yield* refused(rehearsal.run("Refund order 7", options({ sesionId: "s" }))),
        'there is no "sesionId" in the options of rehearsal.run (did you mean "sessionId"?)'
      )
      assert.include(
        yield* refused(rehearsal.run("Refund order 7", options({ agent: 7 }))),
        '"agent" of the options of rehearsal.run takes a string'
      )
      const request = asked(yield* rehearsal.run("Refund order 7"))
      assert.include(
        yield* refused(rehearsal.decide(request, approve, options({ byy: "ann" }))),
        '(did you mean "by"?)'
      )
      assert.include(
        yield* refused(Rehearsal.everyCrash(cashier(), refundOnce, options({ crash: 2 }))),
        'there is no "crash" in the options of everyCrash (did you mean "crashes"?)'
      )
      assert.include(
        yield* refused(Rehearsal.everyCrash(cashier(), refundOnce, options({ crashes: 3 }))),
        "takes 1 or 2"
      )
    })
  )

  it.effect("names the crash at which a scenario failed", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        Rehearsal.everyCrash(cashier(), (rehearsal) =>
          Effect.gen(function* () {
            yield* rehearsal.run("Refund order 7")
            const report = yield* rehearsal.finish
            if (report.crashes.some(({ point }) => point === "after-model#1")) {
              return yield* new ToolFailure({ description: "no" })
            }
          })
        )
      )
      assert.instanceOf(error, Rehearsal.ScenarioFailed)
      assert.strictEqual(error.message, "The scenario failed with a crash at after-model#1: no")
    })
  )

  it.effect("names the crash at which an assertion of a scenario threw", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        Rehearsal.everyCrash(cashier(), (rehearsal) =>
          Effect.gen(function* () {
            yield* rehearsal.run("Refund order 7")
            const { crashes } = yield* rehearsal.finish
            assert.isFalse(
              crashes.some(({ point }) => point === "after-model#1"),
              "no crash here"
            )
          })
        )
      )
      assert.instanceOf(error, Rehearsal.ScenarioFailed)
      assert.deepStrictEqual(error.crashes, ["after-model#1"])
      assert.include(error.message, "no crash here")
    })
  )

  it.effect("fails with RehearsalStuck when a run waits for time, and continues when the time passes", () =>
    Effect.gen(function* () {
      const setup: Rehearsal.Setup<any> = (effects) => ({
        ...cashier(() => ({
          needsApproval: false,
          handler: () => Effect.delay(Effect.succeed("late"), "5 seconds")
        }))(effects),
        patience: "50 millis"
      })
      const error = yield* Effect.flip(
        Rehearsal.rehearse(setup, (rehearsal) => rehearsal.run("Refund order 7"))
      )
      assert.instanceOf(error, Rehearsal.RehearsalStuck)
      assert.strictEqual(error.after, "before-tool:refund#1")
      yield* Rehearsal.rehearse(setup, (rehearsal) =>
        Effect.gen(function* () {
          const [done] = yield* Effect.all([rehearsal.run("Refund order 7"), rehearsal.adjust("6 seconds")], {
            concurrency: "unbounded"
          })
          assert.strictEqual(done.status, "completed")
        })
      )
    })
  )

  it.effect("does not take a busy process for a waiting run", () =>
    Effect.gen(function* () {
      const busy = async () => {
        // Like a machine that gives the process no time, each time longer than the patience.
        for (let round = 0; round < 4; round += 1) {
          for (const end = performance.now() + 100; performance.now() < end;);
          await new Promise((resolve) => setTimeout(resolve, 0))
        }
        return "done"
      }
      const report = yield* Rehearsal.rehearse(
        (effects) => ({
          ...cashier(() => ({ needsApproval: false, handler: busy }))(effects),
          patience: "50 millis"
        }),
        (rehearsal) => rehearsal.run("Refund order 7")
      )
      assert.strictEqual(report.runs[0]?.status, "completed")
    })
  )

  it.effect("ignores effects and results of a body whose worker has crashed", () =>
    Effect.gen(function* () {
      const first = Promise.withResolvers<void>()
      const over = Promise.withResolvers<void>()
      const report = yield* Rehearsal.rehearse(
        cashier(({ record }) => ({
          needsApproval: false,
          handler: async (_, { attempt, idempotencyKey }) => {
            if (attempt === 1) {
              await first.promise
              void Effect.runPromise(record("money moved", idempotencyKey)).then(() =>
                over.reject(new Error("moved"))
              )
              over.resolve()
              return "too late"
            }
            await Effect.runPromise(record("money moved", idempotencyKey))
            return "refunded"
          }
        })),
        (rehearsal) =>
          Effect.gen(function* () {
            // Only the heartbeat happens while the body waits.
            yield* rehearsal.crashAt("before-store:renew")
            const [done] = yield* Effect.all(
              [rehearsal.run("Refund order 7"), rehearsal.adjust("6 seconds")],
              {
                concurrency: "unbounded"
              }
            )
            assert.strictEqual(done.status, "completed")
            first.resolve()
            yield* Effect.promise(() => over.promise)
          })
      )
      assert.deepStrictEqual(
        report.effects.map(({ body }) => body?.attempt),
        [2]
      )
      assert.deepStrictEqual(
        report.bodies.map(({ state }) => state),
        ["running", "returned"]
      )
      Rehearsal.assertSafe(report)
      assert.notInclude(JSON.stringify(report.journals), "too late")
    })
  )

  it.effect("catches a store that loses an acknowledged decision", () =>
    Effect.gen(function* () {
      const forgetful = Layer.effect(
        RunStore,
        Effect.map(RunStore, (store) => ({
          ...store,
          decide: (input) =>
            Effect.map(store.request(input.requestId as RequestId), ({ runId }) => ({
              runId,
              decision: { ...input, at: 0 } as Decision
            }))
        }))
      ).pipe(Layer.provide(layerMemory))
      const report = yield* Rehearsal.rehearse(
        (effects) => ({ ...cashier()(effects), store: forgetful }),
        (rehearsal) =>
          Effect.gen(function* () {
            const request = asked(yield* rehearsal.run("Refund order 7"))
            asked(yield* rehearsal.decide(request, approve))
          })
      )
      const error = thrown(() => Rehearsal.assertPromisesKept(report))
      assert.deepInclude({ ...error }, { _tag: "PromiseBroken", invariant: "acknowledged" })
      assert.include(error.detail, "the acknowledged decision on run-1.r1 is gone")
    })
  )

  it.effect("catches a body that ran more often than it was released", () =>
    Effect.gen(function* () {
      const report = yield* Rehearsal.rehearse(cashier(), refundOnce)
      Rehearsal.assertSafe(report)
      const { evidence } = report
      const twice = {
        ...report,
        evidence: { ...evidence, effects: [...evidence.effects!, ...evidence.effects!] }
      }
      const error = thrown(() => Rehearsal.assertPromisesKept(twice))
      assert.strictEqual(error.invariant, "atMostOnce")
    })
  )

  it.effect("catches a lost run, a history without a result and a torn journal", () =>
    Effect.gen(function* () {
      const report = yield* Rehearsal.rehearse(cashier(), (rehearsal) => rehearsal.run("Refund order 7"))
      Rehearsal.assertSafe(report)
      const [run] = report.runs
      assert.strictEqual(run?.status, "held")
      const lost = { ...report, runs: [{ ...run!, open: [] }] }
      assert.instanceOf(
        thrown(() => Rehearsal.assertNothingLost(lost)),
        Rehearsal.RunLost
      )
      const broken = { ...report, runs: [{ ...run!, messages: run!.messages.slice(0, 2) }] }
      assert.instanceOf(
        thrown(() => Rehearsal.assertTranscriptsValid(broken)),
        Rehearsal.TranscriptInvalid
      )
      const [journal] = report.journals
      const torn = { ...report, journals: [{ ...journal!, events: journal!.events.slice(1) }] }
      assert.instanceOf(
        thrown(() => Rehearsal.assertPromisesKept(torn)),
        Rehearsal.PromiseBroken
      )
      assert.throws(() => Rehearsal.assertSafe([]), "no report")
    })
  )
})
