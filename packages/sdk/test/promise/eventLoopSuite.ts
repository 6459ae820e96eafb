/** The event loop keeps turning while a program repeats an operation on a store that answers synchronously. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import type { RequestId, RunId, SessionId } from "../../src/domain/Id.ts"
import { decideAllStored, decideStored } from "../../src/durable/decideStored.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import { approve, deny } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { RunStore } from "../../src/store/RunStore.ts"
import type { RunStoreError } from "../../src/store/RunStoreError.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

/** More repetitions than fit into the time of a timer. */
const most = 20_000

const tagOf = (error: unknown): string =>
  typeof error === "object" && error !== null && "_tag" in error ? String(error._tag) : String(error)

/** Repeats an operation until a timer has fired, and returns its last outcome. */
const repeat = async (operation: () => Promise<unknown>): Promise<string> => {
  let fired = false
  const timer = setTimeout(() => {
    fired = true
  }, 1)
  let outcome = ""
  for (let count = 0; count < most && !fired; count++) {
    outcome = await operation().then(() => "success", tagOf)
  }
  clearTimeout(timer)
  return fired ? outcome : `${outcome}, ${most} times before a timer`
}

/** A Fermata with a working, a held and an ended run. */
const opened = async (store: Layer.Layer<RunStore, RunStoreError>) => {
  const going = Promise.withResolvers<string>()
  const wait = tool("wait", { safety: "readOnly", handler: () => going.promise })
  const pay = tool("pay", { handler: () => "paid" })
  const answers: Record<string, ScriptedModel.ScriptedAnswer> = {
    wait: { calls: [{ tool: "wait" }] },
    pay: { calls: [{ tool: "pay" }] }
  }
  const model = ScriptedModel.make(({ messages }) => {
    const last = messages.at(-1)
    const said = last?.role === "user" && last.content[0]?._tag === "text" ? last.content[0].text : ""
    return answers[said] ?? "done"
  }).client
  const fermata = await Fermata.make({ agents: [agent("a", { tools: [wait, pay] })], model, store })
  const started = Promise.withResolvers<void>()
  const working = fermata.runPrompt("a", "wait", {
    runId: "working",
    sessionId: "session",
    onUpdate: (update) => {
      if (update._tag === "event" && update.event._tag === "tool.started") started.resolve()
    }
  })
  await started.promise
  await fermata.runPrompt("a", "pay", { runId: "held" })
  await fermata.runPrompt("a", "hello", { runId: "ended" })
  const [pending] = await fermata.pending()
  return {
    fermata,
    request: pending!,
    finish: async () => {
      going.resolve("waited")
      assert.strictEqual((await working).status, "completed")
      await fermata.close()
    }
  }
}

type Opened = Awaited<ReturnType<typeof opened>>

/** The suite for one store. */
export const eventLoopSuite = (name: string, store: Layer.Layer<RunStore, RunStoreError>): void => {
  describe(`the event loop beside ${name}`, () => {
    const refusals: ReadonlyArray<readonly [string, string, (opened: Opened) => Promise<unknown>]> = [
      [
        "a prompt to a busy session",
        "SessionBusy",
        ({ fermata }) => fermata.runPrompt("a", "hi", { sessionId: "session" })
      ],
      [
        "a prompt by a taken id",
        "RunExists",
        ({ fermata }) => fermata.runPrompt("a", "hi", { runId: "ended" })
      ],
      ["the resume of a working run", "RunBusy", ({ fermata }) => fermata.resume("working")],
      ["the removal of a working run", "RunBusy", ({ fermata }) => fermata.remove("working")],
      [
        "a second decision",
        "AlreadyDecided",
        ({ fermata, request }) => fermata.decide(request, deny("late"), { by: "bob" })
      ],
      [
        "a resume with a second decision",
        "AlreadyDecided",
        ({ fermata, request }) => {
          const { requestId } = request.request
          return fermata.resume("held", { decisions: [{ ...deny("late"), requestId, by: "bob" }] })
        }
      ],
      ["a message after the end", "RunEnded", ({ fermata }) => fermata.send("ended", "hi")],
      ["a read of an unknown run", "RunNotFound", ({ fermata }) => fermata.state("none")],
      [
        "a fork under a taken id",
        "RunExists",
        ({ fermata }) => fermata.fork("ended", "hi", { newRunId: "held" })
      ]
    ]
    for (const [operation, tag, repeated] of refusals) {
      it(`turns while ${operation} is refused and retried at once`, async () => {
        const all = await opened(store)
        await all.fermata.decide(all.request, approve(), { by: "ann" })
        assert.strictEqual(await repeat(() => repeated(all)), tag)
        await all.finish()
      })
    }

    it("turns while a closed Fermata is called repeatedly", async () => {
      const { fermata, finish } = await opened(store)
      await finish()
      assert.strictEqual(await repeat(() => fermata.runs()), "FermataClosed")
    })

    const reads: ReadonlyArray<readonly [string, (fermata: Fermata.Fermata) => Promise<unknown>]> = [
      ["the inbox", (fermata) => fermata.pending()],
      ["the list of runs", (fermata) => fermata.runs()],
      ["the state of a run", (fermata) => fermata.state("working")],
      ["a run that has ended", (fermata) => fermata.resume("ended")],
      ["an archive", (fermata) => fermata.exportRun("ended")]
    ]
    for (const [what, read] of reads) {
      it(`turns while ${what} is read repeatedly`, async () => {
        const { fermata, finish } = await opened(store)
        assert.strictEqual(await repeat(() => read(fermata)), "success")
        await finish()
      })
    }

    it("does not delay a refusal after it has turned", async () => {
      const { fermata, finish } = await opened(store)
      const refused = () => fermata.runPrompt("a", "hi", { runId: "ended" }).catch(tagOf)
      for (let count = 0; count < 100; count++) await refused()
      const turn = () => new Promise((resolve) => setImmediate(resolve))
      await turn()
      await turn()
      let turned = false
      const next = setImmediate(() => {
        turned = true
      })
      assert.strictEqual(await refused(), "RunExists")
      assert.isFalse(turned)
      clearImmediate(next)
      await finish()
    })

    it("lets a retried prompt continue after the run that it waits for", async () => {
      const wait = tool("wait", {
        safety: "readOnly",
        handler: () => new Promise<string>((resolve) => setTimeout(() => resolve("waited"), 5))
      })
      const model = ScriptedModel.make([{ calls: [{ tool: "wait" }] }, "one", "two"]).client
      const fermata = await Fermata.make({ agents: [agent("a", { tools: [wait] })], model, store })
      const started = Promise.withResolvers<void>()
      const first = fermata.runPrompt("a", "one", {
        sessionId: "s",
        onUpdate: (update) => {
          if (update._tag === "event" && update.event._tag === "tool.started") started.resolve()
        }
      })
      await started.promise
      let second: string | undefined
      for (let count = 0; count < most && second === undefined; count++) {
        second = await fermata
          .runPrompt("a", "two", { sessionId: "s" })
          .then((result) => (result.status === "completed" ? result.text : result.status))
          .catch((error: unknown) => (tagOf(error) === "SessionBusy" ? undefined : tagOf(error)))
      }
      assert.strictEqual(second, "two")
      assert.strictEqual((await first).status, "completed")
      await fermata.close()
    })

    it("turns while an Effect program retries refused operations", async () => {
      const program = Effect.gen(function* () {
        const shared = yield* RunStore
        const runtime = yield* Runtime.make({ agent: Agent.make("a") })
        const sessionId = "session" as SessionId
        const runId = "ended" as RunId
        const requestId = "ended.r1" as RequestId
        const client = yield* ModelClient
        const first = yield* runPromptStored(runtime, { prompt: "hi", runId, sessionId })
        assert.strictEqual(first.status, "completed")
        const refused = [
          ["RunExists", runPromptStored(runtime, { prompt: "hi", runId })],
          ["RunEnded", sendMessage(runId, "hi")],
          ["RunExists", forkRun(runtime, { runId, prompt: "hi", newRunId: runId })],
          ["RequestNotFound", decideStored([runtime], { ...approve(), requestId, by: "ann" })],
          ["RequestNotFound", decideAllStored([runtime], [{ ...approve(), requestId, by: "ann" }])]
        ] as const
        for (const [tag, operation] of refused) {
          const provided = Effect.provideService(
            Effect.provideService(operation as Effect.Effect<unknown, unknown, RunStore>, RunStore, shared),
            ModelClient,
            client
          )
          const outcome = yield* Effect.promise(() => repeat(() => Effect.runPromise(provided)))
          assert.strictEqual(outcome, tag)
        }
      })
      await Effect.runPromise(
        program.pipe(
          Effect.provideService(ModelClient, ScriptedModel.make(["done"]).client),
          Effect.provide(Layer.fresh(store))
        )
      )
    })
  })
}
