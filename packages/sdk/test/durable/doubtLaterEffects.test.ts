import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import type { RequestId, RunId, SessionId } from "../../src/domain/Id.ts"
import { exportRun, importRun } from "../../src/durable/archive.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { doubtLaterEffects } from "../../src/durable/doubtLaterEffects.ts"
import { explain } from "../../src/durable/explain.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { revokeGrant } from "../../src/durable/revokeGrant.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as RunChecker from "../../src/testing/RunChecker.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import type * as Tool from "../../src/tool/Tool.ts"
import { approve, call, expect, only, probe, rebind, results, safe } from "../helpers/Fixture.ts"

const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(title, () => Effect.provide(body, Layer.fresh(layerMemory)))

const open = { needsApproval: false }

/** Runs the effect in a store with the present runs, as if a backup of this moment had been restored. */
const restored = <A, E>(
  runIds: ReadonlyArray<RunId>,
  body: Effect.Effect<A, E, RunStore>,
  reconciled: RunChecker.Evidence["reconciled"] = []
) =>
  Effect.gen(function* () {
    const archives = yield* Effect.forEach(runIds, exportRun)
    return Effect.gen(function* () {
      for (const archive of archives) yield* importRun(archive)
      yield* doubtLaterEffects
      const after = yield* body
      yield* checkJournals(reconciled)
      return after
    }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  })

/** Checks every journal of the store. */
const checkJournals = Effect.fnUntraced(function* (reconciled: RunChecker.Evidence["reconciled"] & {}) {
  const store = yield* RunStore
  const journals = yield* Effect.forEach(
    yield* store.list({ limit: 1000 }),
    ({ parent, revision, runId, status }) =>
      Effect.map(store.events(runId), (events) => ({
        runId,
        events,
        revision,
        status,
        ...(parent === undefined ? {} : { parent })
      }))
  )
  assert.deepStrictEqual(RunChecker.check({ journals, reconciled }), [])
})

const go = { prompt: "go" }

/** A model that makes these calls in the first turn of each run, and then completes. */
const calling = (...calls: ReadonlyArray<ScriptedModel.ScriptedCall>) =>
  ScriptedModel.make(({ turn }) => (turn === 1 ? { calls } : "done"))

/** A tool whose approval holds the run before its later calls. */
const gate = () => probe("gate")

describe("doubtLaterEffects", () => {
  test(
    "opens an inDoubt request for a call approved before the backup",
    Effect.gen(function* () {
      const write = probe("write")
      const { runtime } = yield* rebind(Agent.make("a", { tools: [write.tool] }), calling(call("write", "1")))
      const held = yield* runPromptStored(runtime, go)
      const { runId } = held
      yield* decideStored([runtime], approve(only(held, "approval")))
      const later = yield* restored(
        [runId],
        Effect.gen(function* () {
          const doubted = only(yield* runPromptStored(runtime, { runId }), "inDoubt")
          assert.deepInclude(doubted, { tool: "write", attempt: 1, idempotencyKey: doubted.callId })
          assert.strictEqual(
            doubted.reason,
            "the store was restored from a backup, and the call may have run after 1970-01-01T00:00:00.000Z"
          )
          assert.include(
            (yield* explain(runId)).text,
            `It waits for a decision on whether write has happened: ${doubted.reason}, asked`
          )
          const { requestId } = doubted
          yield* decideStored([runtime], { _tag: "supply", requestId, by: "ann", result: "it is there" })
          expect(yield* runPromptStored(runtime, { runId }), "completed")
          return results(yield* loadState(runId))
        })
      )
      expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual(yield* later, ["write supplied: it is there"])
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )

  test(
    "opens an inDoubt request for each later call in turn, and a retry runs as a later attempt",
    Effect.gen(function* () {
      const held = gate()
      const write = probe("write", open)
      const { runtime } = yield* rebind(
        Agent.make("a", { tools: [held.tool, write.tool] }),
        calling(call("gate", "0"), call("write", "1"))
      )
      const asked = yield* runPromptStored(runtime, go)
      const { runId } = asked
      yield* yield* restored(
        [runId],
        Effect.gen(function* () {
          // The approval that was open at the time of the backup comes first.
          const first = only(yield* runPromptStored(runtime, { runId }), "approval")
          yield* decideStored([runtime], approve(first))
          for (const tool of ["gate", "write"]) {
            const doubted = only(yield* runPromptStored(runtime, { runId }), "inDoubt")
            assert.strictEqual(doubted.tool, tool)
            yield* decideStored([runtime], { _tag: "retry", requestId: doubted.requestId, by: "ann" })
          }
          expect(yield* runPromptStored(runtime, { runId }), "completed")
        })
      )
      assert.deepStrictEqual([held.ran, write.ran], [["0"], ["1"]])
      assert.deepStrictEqual(
        [...held.contexts, ...write.contexts].map(({ attempt }) => attempt),
        [2, 2]
      )
    })
  )

  test(
    "reconciles by key and arguments where the tool can, and runs reads and idempotent calls",
    Effect.gen(function* () {
      const asked: Array<string> = []
      const answers: Array<RunChecker.Reconciliation> = []
      const reconciled = (name: string, answer: Tool.Reconciled) =>
        probe(name, {
          ...open,
          reconcile: (key, { id }) => {
            asked.push(`${name} ${id} ${key.slice(key.lastIndexOf(".t"))}`)
            answers.push({ idempotencyKey: key, answer: answer._tag })
            return answer
          }
        })
      const there = reconciled("there", { _tag: "happened", result: "found" })
      const gone = reconciled("gone", { _tag: "notHappened" })
      const same = probe("same", { ...open, idempotent: true })
      const read = safe("read")
      const held = gate()
      const { runtime } = yield* rebind(
        Agent.make("a", { tools: [held.tool, there.tool, gone.tool, same.tool, read.tool] }),
        calling(call("gate", "0"), ...["there", "gone", "same", "read"].map((name) => call(name, "1")))
      )
      const first = yield* runPromptStored(runtime, go)
      const { runId } = first
      yield* yield* restored(
        [runId],
        Effect.gen(function* () {
          const { requestId } = only(first, "approval")
          yield* decideStored([runtime], { _tag: "deny", requestId, by: "ann" })
          expect(yield* runPromptStored(runtime, { runId }), "completed")
          assert.include(results(yield* loadState(runId)), "there completed: found")
        }),
        answers
      )
      assert.deepStrictEqual(asked, ["there 1 .t1.2", "gone 1 .t1.3"])
      assert.deepStrictEqual(
        [there, gone, same, read].map(({ ran }) => ran.length),
        [0, 1, 1, 1]
      )
    })
  )

  test(
    "covers attached, background and later sub-agents",
    Effect.gen(function* () {
      const write = probe("write", open)
      const ask = probe("ask")
      const helper = Agent.make("helper", { tools: [ask.tool, write.tool] })
      const late = Agent.make("late", { tools: [write.tool] })
      const lead = Agent.make("lead", { subAgents: [helper, late] })
      const model = ScriptedModel.make(({ agentPath, turn }) => {
        const name = agentPath.at(-1)
        if (name === "lead" && turn === 2) {
          return { calls: [{ tool: "late", arguments: { prompt: "do it then" } }] }
        }
        if (turn > 1) return "done"
        if (name === "late") return { calls: [call("write", "late")] }
        if (name === "helper") return { calls: [call("ask", "1"), call("write", "helper")] }
        return {
          calls: [
            { tool: "helper", arguments: { prompt: "do it" } },
            { tool: "helper", arguments: { prompt: "do it beside", background: true } }
          ]
        }
      })
      const { runtime } = yield* rebind(lead, model)
      const first = yield* runPromptStored(runtime, go)
      const { runId } = first
      yield* yield* restored(
        [runId],
        Effect.gen(function* () {
          const doubted: Array<string> = []
          let result = yield* runPromptStored(runtime, { runId })
          for (let round = 0; result.status === "interrupted" && round < 20; round += 1) {
            for (const request of result.interruptions) {
              const { requestId } = request
              if (request._tag === "inDoubt") doubted.push(`${request.agentPath.join("/")} ${request.tool}`)
              yield* decideStored(
                [runtime],
                request._tag === "inDoubt"
                  ? { _tag: "supply", requestId, by: "ann", result: "it is there" }
                  : approve(request)
              )
            }
            result = yield* runPromptStored(runtime, { runId })
          }
          expect(result, "completed")
          return doubted.toSorted()
        })
      ).pipe(
        Effect.map(
          Effect.tap((doubted) =>
            Effect.sync(() =>
              assert.deepStrictEqual(doubted, [
                "lead/helper ask",
                "lead/helper ask",
                "lead/helper write",
                "lead/helper write",
                "lead/late write"
              ])
            )
          )
        )
      )
      assert.deepStrictEqual([ask.ran, write.ran], [[], []])
    })
  )

  test(
    "covers a failed run that is resumed, and not the next run of the session",
    Effect.gen(function* () {
      const write = probe("write", open)
      const { runtime } = yield* rebind(
        Agent.make("a", { tools: [write.tool], limits: { maxTurns: 1 } }),
        calling(call("write", "1")),
        { interactive: false }
      )
      const { runId, status } = yield* runPromptStored(runtime, go)
      assert.strictEqual(status, "error")
      yield* yield* restored(
        [runId],
        Effect.gen(function* () {
          const failed = yield* loadState(runId)
          assert.deepInclude(failed, { status: "error", mayRepeat: { since: 0 } })
          assert.strictEqual(failed.failure?._tag, "BudgetExceeded")
          const end = expect(yield* runPromptStored(runtime, { runId, limits: { maxTurns: 8 } }), "completed")
          const next = yield* runPromptStored(runtime, { prompt: "go", sessionId: end.sessionId })
          assert.isUndefined((yield* loadState(next.runId)).mayRepeat)
        })
      )
    })
  )

  test(
    "skips completed and cancelled runs, and waits for the lease of a dead process",
    Effect.gen(function* () {
      const store = yield* RunStore
      const { runtime } = yield* rebind(
        Agent.make("a"),
        ScriptedModel.make(() => "done")
      )
      const { runId } = yield* runPromptStored(runtime, go)
      const before = (yield* store.head(runId)).revision
      const left = "left" as RunId
      const start = (yield* store.events(runId))[0]!
      yield* store.create({
        runId: left,
        sessionId: "s" as SessionId,
        agent: "a",
        events: [{ ...start, runId: left } as typeof start],
        status: "running",
        owner: "gone",
        ttl: "10 seconds"
      })
      const marking = yield* Effect.forkChild(doubtLaterEffects)
      yield* TestClock.adjust("9 seconds")
      assert.isUndefined(marking.pollUnsafe())
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(yield* Fiber.join(marking), [left])
      assert.strictEqual((yield* store.head(runId)).revision, before)
      // A renewed lease belongs to a live process.
      const lease = yield* store.claim({ runId: left, owner: "at work", ttl: "10 seconds" })
      const refused = yield* Effect.forkChild(Effect.flip(doubtLaterEffects))
      yield* TestClock.adjust("500 millis")
      yield* store.renew(lease, "1 minute")
      yield* TestClock.adjust("1 second")
      assert.deepInclude(yield* Fiber.join(refused), { _tag: "RunBusy", owner: "at work" })
    })
  )
})

describe("a call in doubt that a grant let through", () => {
  test(
    "runs once when it is retried after the grant was revoked",
    Effect.gen(function* () {
      const write = probe("write", { needsApproval: true })
      const model = ScriptedModel.make(({ turn }) =>
        turn < 3 ? { calls: [call("write", String(turn))] } : "done"
      )
      const { runtime } = yield* rebind(Agent.make("a", { tools: [write.tool] }), model)
      const held = yield* runPromptStored(runtime, go)
      const { runId } = held
      const grant = { scope: "session", arguments: {} } as const
      yield* decideStored([runtime], approve(only(held, "approval"), { grant }))
      yield* doubtLaterEffects
      const retry = (requestId: RequestId) => [{ _tag: "retry", requestId, by: "ann" } as const]
      const first = only(yield* runPromptStored(runtime, { runId }), "inDoubt")
      const second = only(
        yield* runPromptStored(runtime, { runId, decisions: retry(first.requestId) }),
        "inDoubt"
      )
      assert.strictEqual(second.callId, `${runId}.t2.1`)
      const [given] = yield* (yield* RunStore).grants({ runId })
      yield* revokeGrant(runId, given!.grant.id, "ben")
      // Ends a run that would go on for ever.
      const token = Cancellation.make()
      let updates = 0
      const onUpdate = () => {
        updates += 1
        if (updates > 100) token.cancel("it does not end")
      }
      const decisions = retry(second.requestId)
      expect(
        yield* runPromptStored(runtime, { runId, decisions }, { onUpdate, cancellation: token }),
        "completed"
      )
      assert.deepStrictEqual(write.ran, ["1", "2"])
    })
  )
})

describe("a prompt sent again to a store that lost it", () => {
  test(
    "puts side effects of the tree in doubt under their earlier idempotency keys",
    Effect.gen(function* () {
      const write = probe("write")
      const helper = Agent.make("helper", { tools: [write.tool] })
      const lead = Agent.make("lead", { subAgents: [helper] })
      const model = ScriptedModel.make(({ agentPath, turn }) => {
        if (turn > 1) return "done"
        return agentPath.length === 1
          ? { calls: [{ tool: "helper", arguments: { prompt: "do it" } }] }
          : { calls: [call("write", "1")] }
      })
      const { runtime } = yield* rebind(lead, model)
      const runId = "order-7" as RunId
      const once = (input: { readonly mayRepeat?: boolean }) =>
        Effect.gen(function* () {
          const held = yield* runPromptStored(runtime, { ...go, ...input, runId })
          yield* decideStored([runtime], approve(only(held, "approval")))
          return yield* runPromptStored(runtime, { runId })
        })
      expect(yield* Effect.provide(once({}), Layer.fresh(layerMemory)), "completed")
      const doubted = only(yield* once({ mayRepeat: true }), "inDoubt")
      assert.deepStrictEqual(write.ran, ["1"])
      assert.strictEqual(doubted.idempotencyKey, write.contexts[0]?.idempotencyKey)
      assert.strictEqual(
        doubted.reason,
        "the prompt was sent again to a store that had lost it, and the call may have run before"
      )
      yield* checkJournals([])
    })
  )
})
