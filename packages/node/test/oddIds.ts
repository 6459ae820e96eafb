/**
 * Ids that are not strings, over any store.
 */
import { assert, describe, it } from "@effect/vitest"
import { agent, approve, createFermata, deny, tool } from "@fermata/node"
import { Agent, Runtime } from "@fermata/sdk/agent"
import { attach, dispatchPromptStored } from "@fermata/sdk/dispatch"
import {
  cancelRun,
  decideStored,
  explain,
  exportRun,
  forkRun,
  loadState,
  revokeGrant,
  rewindPoints,
  runPromptStored,
  sendMessage
} from "@fermata/sdk/durable"
import { RunStore, type RunStoreError } from "@fermata/sdk/store"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"

/** Values that an untyped program may pass as an id, each with its name in messages. */
const odd: ReadonlyArray<readonly [unknown, string]> = [
  [5, "a number"],
  [undefined, "undefined"],
  [null, "null"],
  [{}, "an object"],
  [["run-1"], "a list"],
  [Symbol("run-1"), "a symbol"],
  [5n, "a bigint"],
  [() => "run-1", "a function"],
  [true, "a boolean"]
]

const script = () => ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "pay" }] } : "Done."))

const pay = tool("pay", { handler: () => "paid" })

const outcome = (promise: Promise<unknown>): Promise<{ readonly _tag?: string; readonly message?: string }> =>
  promise.then(
    () => ({ _tag: "it was taken" }),
    (error: { readonly _tag?: string; readonly message?: string }) => error
  )

const isAbsent = (given: unknown) => given === undefined

/** How the functions that take an id treat one that is not a string. */
export const oddIds = (
  name: string,
  layer: Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError>
): void => {
  describe(`an id that is not a string, with the store in ${name}`, () => {
    it("is refused with a typed error and a sentence by the methods of a Fermata", async () => {
      await using fermata = await createFermata({
        agents: [agent("clerk", { tools: [pay] })],
        model: script().client,
        store: layer
      })
      await fermata.runPrompt("clerk", "pay", { runId: "run-1" })
      for (const [given, called] of odd) {
        const id = given as string
        const refused = {
          resume: () => fermata.resume(id),
          explain: () => fermata.explain(id),
          state: () => fermata.state(id),
          checkResume: () => fermata.checkResume(id),
          cancel: () => fermata.cancel(id),
          send: () => fermata.send(id, "hello"),
          fork: () => fermata.fork(id, "hello"),
          rewindPoints: () => fermata.rewindPoints(id),
          attach: () => fermata.attach(id),
          exportRun: () => fermata.exportRun(id),
          remove: () => fermata.remove(id),
          revokeGrant: () => fermata.revokeGrant(id, "grant"),
          events: () => fermata.events(id)[Symbol.asyncIterator]().next()
        }
        for (const [name, ask] of Object.entries(refused)) {
          const { _tag, message } = await outcome(ask())
          assert.strictEqual(_tag, "RunNotFound", `${name} of ${called}`)
          assert.strictEqual(
            message,
            `The id of a run is a string, and this is ${called}: pass the id with which the run was started.`
          )
        }
        const malformed = {
          decide: () => fermata.decide(id, approve()),
          "decide what was shown": () => fermata.decide({ requestId: id } as never, approve()),
          "resume with a decision": () =>
            fermata.resume("run-1", {
              decisions: [{ _tag: "deny", requestId: id as never, by: "ann" }]
            })
        }
        for (const [name, ask] of Object.entries(malformed)) {
          const { _tag, message } = await outcome(ask())
          assert.strictEqual(_tag, "DecisionMalformed", `${name} of ${called}`)
          assert.match(message ?? "", /its requestId is |has no requestId/, `${name} of ${called}`)
        }
        const noGrant = await outcome(fermata.revokeGrant("run-1", id))
        assert.strictEqual(noGrant._tag, "GrantNotFound", called)
        assert.include(noGrant.message, `A grant is revoked by its id, a string, but ${called} was given: `)
        // Ids that may be left out.
        if (isAbsent(given)) continue
        const invalid = {
          runId: () => fermata.runPrompt("clerk", "pay", { runId: id }),
          sessionId: () => fermata.runPrompt("clerk", "pay", { sessionId: id }),
          newRunId: () => fermata.fork("run-1", "pay", { newRunId: id }),
          "the fork's sessionId": () => fermata.fork("run-1", "pay", { sessionId: id }),
          "the dispatched runId": () => fermata.dispatch("clerk", "pay", { runId: id })
        }
        for (const [name, ask] of Object.entries(invalid)) {
          assert.strictEqual((await outcome(ask()))._tag, "IdInvalid", `${name} is ${called}`)
        }
        const key = await outcome(fermata.decide("run-1.r1", deny("no"), { idempotencyKey: id }))
        assert.strictEqual(key._tag, "OptionsInvalid")
        assert.include(key.message, `"idempotencyKey" of the options of decide takes`)
        assert.strictEqual(
          (await outcome(fermata.send("run-1", "hi", { messageId: id })))._tag,
          "MessageInvalid"
        )
        const filters = {
          "pending of a run": () => fermata.pending({ runId: id as never }),
          "pending after": () => fermata.pending({ after: id as never }),
          "grants of a run": () => fermata.grants({ runId: id as never }),
          "grants of a session": () => fermata.grants({ sessionId: id as never }),
          "a grant": () => fermata.grants({ grantId: id as never }),
          "grants of a tool": () => fermata.grants({ tool: id as never }),
          "grants after": () => fermata.grants({ after: id as never }),
          "runs of a session": () => fermata.runs({ sessionId: id as never }),
          "runs after": () => fermata.runs({ after: id as never })
        }
        for (const [name, ask] of Object.entries(filters)) {
          const { _tag, message } = await outcome(ask())
          assert.strictEqual(_tag, "OptionsInvalid", name)
          assert.include(message, `takes a string, and ${called} was given`)
        }
        assert.strictEqual((await outcome(fermata.runPrompt(id, "pay")))._tag, "AgentNotFound")
        assert.strictEqual((await outcome(fermata.dispatch(id, "pay")))._tag, "AgentNotFound")
      }
      // None of these calls has changed the store.
      assert.strictEqual((await fermata.runs()).length, 1)
      assert.strictEqual((await fermata.pending()).length, 1)
      assert.strictEqual(
        (await fermata.decide("run-1.r1", approve(), { idempotencyKey: "k" }))._tag,
        "approve"
      )
    })

    it.effect("fails the functions of the Effect API with a typed error", () =>
      Effect.gen(function* () {
        const runtime = yield* Runtime.make({ agent: Agent.make("clerk", { tools: [pay] }) })
        yield* runPromptStored(runtime, { runId: "run-1" as never, prompt: "pay" })
        const store = yield* RunStore.RunStore
        for (const [given, called] of odd) {
          const id = given as never
          for (const failing of [
            runPromptStored(runtime, { runId: id, message: "go on" }),
            explain(id),
            loadState(id),
            cancelRun(id, "why"),
            sendMessage(id, "hello"),
            forkRun(runtime, { runId: id, prompt: "hello" }),
            rewindPoints(id),
            exportRun(id),
            revokeGrant(id, "grant" as never, "ann"),
            Effect.scoped(attach([runtime], id)),
            store.load(id),
            store.head(id),
            store.events(id),
            store.send(id, { content: [] }),
            store.remove(id),
            store.requestCancel(id, "why"),
            store.claim({ runId: id, owner: "me", ttl: "1 second" })
          ]) {
            const error: { readonly _tag: string } = yield* Effect.flip(
              failing as Effect.Effect<unknown, { readonly _tag: string }>
            )
            assert.strictEqual(error._tag, "RunNotFound", called)
          }
          const malformed = yield* Effect.flip(
            decideStored([runtime], { _tag: "approve", requestId: id, by: "ann" })
          )
          assert.strictEqual(malformed._tag, "DecisionMalformed")
          assert.strictEqual((yield* Effect.flip(store.request(id)))._tag, "RequestNotFound")
          const revoked = store.revokeGrant({ grantId: id, revocation: { by: "ann", at: 1 } })
          assert.strictEqual((yield* Effect.flip(revoked))._tag, "GrantNotFound")
          for (const failing of [store.decisions(id), store.messages(id), store.latest(id)]) {
            assert.strictEqual(
              (yield* Effect.flip(failing as Effect.Effect<unknown, RunStoreError.RunStoreError>))._tag,
              "RunStoreError"
            )
          }
          if (isAbsent(given)) continue
          for (const ids of [{ runId: id }, { sessionId: id }]) {
            const started = yield* Effect.flip(runPromptStored(runtime, { prompt: "pay", ...ids }))
            assert.strictEqual(started._tag, "IdInvalid")
            const dispatched = yield* Effect.flip(
              Effect.scoped(dispatchPromptStored(runtime, { prompt: "pay", ...ids }))
            )
            assert.strictEqual(dispatched._tag, "IdInvalid")
          }
        }
      }).pipe(Effect.provide([layer, script().layer]), Effect.scoped)
    )
  })
}
