import { assert, describe, it } from "@effect/vitest"
import {
  agent,
  answer,
  approve,
  askUser,
  createFermata,
  deny,
  type Fermata,
  supply,
  tool,
  topUp
} from "@fermata/node"
import type { Id, RunEvent } from "@fermata/sdk"
import { evolve, type RunState } from "@fermata/sdk"
import type { Agent } from "@fermata/sdk/agent"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as fc from "fast-check"
import { simulate } from "../../../sdk/test/domain/Simulation.ts"
import { tape } from "../../../sdk/test/domain/Tape.ts"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { temporaryFile } from "../temporaryStore.ts"
import { type Store, withStore } from "./fixtures.ts"

type Calls = ReadonlyArray<ScriptedModel.ScriptedCall>

/** The model's first calls, by the text of the last user message; after them it answers. */
const scripts: Readonly<Record<string, Calls>> = {
  pay: [{ tool: "pay" }, { tool: "look" }],
  "pay twice": [{ tool: "pay" }, { tool: "pay" }],
  ask: [{ tool: "ask_user", arguments: { question: "Which?" } }],
  "to billing": [{ tool: "transfer_to_billing" }],
  "to desk": [{ tool: "transfer_to_desk" }],
  "by a helper": [{ tool: "delegate", arguments: { agent: "helper", prompt: "pay", background: false } }],
  "beside a helper": [{ tool: "delegate", arguments: { agent: "helper", prompt: "pay", background: true } }],
  "beside an asker": [{ tool: "delegate", arguments: { agent: "helper", prompt: "ask", background: true } }],
  fail: [{ tool: "fails" }]
}

const program = () => {
  const pay = tool("pay", { handler: () => "paid" })
  const look = tool("look", { safety: "readOnly", handler: () => "seen" })
  const fails = tool("fails", {
    needsApproval: false,
    handler: () => {
      throw new Error("It fails.")
    }
  })
  const helper = agent("helper", { tools: [pay, look, askUser] })
  const billing = agent("billing", { tools: [pay], handoffs: () => [desk] })
  const desk: Agent.Agent = agent("desk", {
    tools: [pay, look, fails, askUser],
    subAgents: [helper],
    delegation: "delegate",
    handoffs: [billing]
  })
  const model = ScriptedModel.make(({ messages }) => {
    const last = messages.findLast(({ role }) => role === "user")
    const text = last?.role === "user" && last.content[0]?._tag === "text" ? last.content[0].text : ""
    const isFirst = messages.at(-1) === last
    if (text === "break" && isFirst) return { calls: [{ tool: "pay" }], finishReason: "length" }
    const calls = isFirst ? scripts[text] : undefined
    return calls === undefined ? "Done." : { calls }
  })
  return { agents: [desk], model: model.client }
}

/** Opens a program on a file. `step` awaits an operation, and then checks the store. */
const story = (
  body: (
    fermata: Fermata.Fermata,
    step: <A>(what: Promise<A>) => Promise<A>,
    open: () => Promise<Fermata.Fermata>
  ) => Promise<unknown>
) =>
  Effect.gen(function* () {
    const filename = yield* temporaryFile
    yield* Effect.promise(async () => {
      const open = () => createFermata({ ...program(), store: filename, by: "ann", drainTimeout: 20 })
      const step = async <A>(what: Promise<A>) => {
        const done = await what
        const { problems } = await Effect.runPromise(SqliteStore.check({ filename }))
        assert.deepStrictEqual(problems, [])
        return done
      }
      await using fermata = await open()
      await body(fermata, step, open)
      await step(Promise.resolve())
    })
  })

const decideAll = async (fermata: Fermata.Fermata, step: <A>(what: Promise<A>) => Promise<A>) => {
  for (const pending of await fermata.pending()) {
    const { request } = pending
    const body =
      request._tag === "question"
        ? answer("this one")
        : request._tag === "limit"
          ? topUp(request.limit + 100)
          : request._tag === "approval"
            ? approve()
            : deny("no")
    await step(fermata.decide(pending, body))
  }
}

describe("SqliteStore.check reports no problem", () => {
  it.effect("after handoffs there and back, in one run and over a session", () =>
    story(async (fermata, step) => {
      const at = { sessionId: "s" }
      await step(fermata.runPrompt("desk", "to billing", at))
      await step(fermata.runPrompt("desk", "pay", at))
      await decideAll(fermata, step)
      await step(fermata.recover())
      await step(fermata.runPrompt("desk", "to desk", at))
      await step(fermata.runPrompt("desk", "pay", { ...at, answeredBy: "billing" }))
    })
  )

  it.effect("while foreground and background sub-agents are held, messaged, cancelled and decided", () =>
    story(async (fermata, step) => {
      await step(fermata.runPrompt("desk", "by a helper", { runId: "inside" }))
      await step(fermata.runPrompt("desk", "beside a helper", { runId: "beside" }))
      await step(fermata.runPrompt("desk", "beside an asker", { runId: "asker" }))
      const sub = (await fermata.pending({ runId: "asker" as Id.RunId }))[0]!.request.runId
      await step(fermata.send(sub, "Ask again.", { messageId: "m1" }))
      await step(fermata.send("beside", "And you?"))
      await step(fermata.cancel(sub, "enough"))
      await step(fermata.recover())
      await decideAll(fermata, step)
      await step(fermata.recover())
      await decideAll(fermata, step)
      await step(fermata.recover())
      await step(fermata.cancel("inside"))
    })
  )

  it.effect("after forks of held, ended and handed-off runs, and after their import into another store", () =>
    story(async (fermata, step) => {
      await step(fermata.runPrompt("desk", "to billing", { runId: "first", sessionId: "s" }))
      await step(fermata.runPrompt("desk", "pay twice", { runId: "second", sessionId: "s" }))
      await step(fermata.fork("second", "pay", { newRunId: "fork-of-held" }))
      await step(fermata.fork("first", "ask", { newRunId: "fork-of-ended" }))
      for (const { revision } of await fermata.rewindPoints("second")) {
        await step(fermata.fork("second", "go on", { revision, newRunId: `at-${revision}` }))
      }
      await decideAll(fermata, step)
      const archives: Array<unknown> = []
      for (const { runId } of await fermata.runs()) archives.push(await fermata.exportRun(runId))
      await Effect.runPromise(
        Effect.scoped(
          story(async (other, step) => {
            // A run that exists already came with another archive.
            for (const archive of archives) await step(other.importRun(archive).catch(() => undefined))
            await step(other.recover())
            await decideAll(other, step)
            await step(other.recover())
          })
        )
      )
    })
  )

  it.effect("after budgets were used up, topped up and refused, and runs failed and continued", () =>
    story(async (fermata, step) => {
      await step(fermata.runPrompt("desk", "look", { runId: "none", limits: { maxTurns: 0 } }))
      await step(fermata.runPrompt("desk", "pay", { runId: "one", limits: { maxTurns: 1, wrapUp: true } }))
      await step(fermata.runPrompt("desk", "fail", { runId: "failing", limits: { maxToolCalls: 0 } }))
      await decideAll(fermata, step)
      await step(fermata.recover())
      await decideAll(fermata, step)
      await step(fermata.runPrompt("desk", "break", { runId: "broken", limits: { maxTurns: 1 } }))
      for (const pending of await fermata.pending())
        await step(fermata.decide(pending, deny("no", { then: "stop" })))
      await step(fermata.recover())
    })
  )

  it.effect("while messages, decisions and cancellations wait, and after a program suspended its runs", () =>
    story(async (fermata, step, open) => {
      const held = await step(fermata.runPrompt("desk", "pay twice", { runId: "held", sessionId: "s" }))
      await step(fermata.send("held", "One more thing.", { messageId: "m1" }))
      await step(fermata.send("held", "One more thing.", { messageId: "m1" }))
      assert.strictEqual(held.status, "interrupted")
      const [first, second] = await fermata.pending()
      await step(fermata.decide(first!, approve({ grant: { scope: "session" } })))
      await step(fermata.decide(second!, supply("by hand")))
      await step(fermata.dispatch("desk", "pay", { runId: "dispatched" }))
      await fermata.close()
      await using again = await open()
      await step(again.resume("held"))
      const { grants } = await again.state("held")
      await step(again.runPrompt("desk", "pay", { sessionId: "s" }))
      await step(again.revokeGrant("held", grants[0]!.id).catch(() => undefined))
      await step(again.cancel("dispatched"))
      await step(again.prune({ endedBefore: Date.now() + 1 }))
    })
  )

  it.effect(
    "in the runs of a simulation, appended in pieces",
    () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        const traces = fc.sample(tape(), { numRuns: simulations, seed: 15 })
        yield* withStore(
          filename,
          (store) =>
            Effect.forEach(
              traces,
              (numbers, index) => Effect.andThen(storeTrace(store, numbers, `sim${index}-`), Effect.yieldNow),
              { discard: true }
            ),
          { synchronous: "normal" }
        )
        const { events, problems, runs } = yield* SqliteStore.check({ filename })
        assert.deepStrictEqual(problems, [])
        assert.isAbove(runs, simulations)
        assert.isAbove(events, 20 * simulations)
      }),
    300_000
  )
})

const simulations = 25

/** Stores the runs of a simulation under their own names, in commits whose lengths the tape gives. */
const storeTrace = Effect.fnUntraced(function* (
  store: Store,
  numbers: ReadonlyArray<number>,
  prefix: string
) {
  const text = JSON.stringify(simulate(numbers).events)
  const events = JSON.parse(
    text.replaceAll('"run-', `"${prefix}run-`).replaceAll('"session-', `"${prefix}session-`)
  ) as ReadonlyArray<RunEvent.RunEvent>
  let state: RunState.RunState | undefined
  let start = 0
  for (let choice = 0; start < events.length; start += 1) {
    const first = events[start]!
    assert.strictEqual(first._tag, "run.started")
    if (first._tag !== "run.started") return
    state = evolve(state, first)
    const lease = yield* store.create({
      runId: state.runId,
      sessionId: state.sessionId,
      agent: "main",
      ...(state.parent === undefined ? {} : { parent: state.parent }),
      events: [first],
      status: state.status,
      owner: "simulation",
      ttl: "1 hour"
    })
    while (start + 1 < events.length && events[start + 1]!._tag !== "run.started") {
      const length = 1 + ((numbers[choice++] ?? 0) % 4)
      const batch: Array<RunEvent.RunEvent> = []
      const expected: Id.Revision = state.revision
      while (batch.length < length && start + 1 < events.length) {
        const event: RunEvent.RunEvent = events[start + 1]!
        if (event._tag === "run.started") break
        start += 1
        state = evolve(state, event)
        batch.push(event)
      }
      const [head, ...rest] = batch
      yield* store.append({ lease, expected, events: [head!, ...rest], status: state.status })
    }
    yield* store.release(lease)
  }
})
