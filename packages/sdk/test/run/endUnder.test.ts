import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import { RunId } from "../../src/domain/Id.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as RunChecker from "../../src/testing/RunChecker.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { call, deny, probe, rebind } from "../helpers/Fixture.ts"

const runId = RunId.make("r")
/** A run that does not end would wait for the limit of all tests. */
const limitMs = 20_000
/** The sub-agent that is held while the runs under it are at work. */
const held = RunId.make("r.t1.1")

const inBackground = (agent: string) => ({
  tool: "delegate",
  arguments: { agent, prompt: "do", background: true }
})

/** What the sub-agent waits for, and the number of bodies under it that have started then. */
const reasons = [
  { waitsFor: "a budget", bodies: 4 },
  { waitsFor: "an approval", bodies: 2 }
] as const

/**
 * A lead, a sub-agent that is held, and under that one two sub-agents with two more each. All of them run in the background. Before the
 * sub-agent waits for its budget, all of the last four are in a body. If it waits for an approval, so do the two under it, and one sub-agent
 * of each is in a body; the other has no place.
 */
const team = Effect.fnUntraced(function* ({ bodies, waitsFor }: (typeof reasons)[number]) {
  const started = yield* Deferred.make<void>()
  const isHeld = yield* Deferred.make<Interruption>()
  const finish = yield* Deferred.make<string>()
  const stopped: Array<string> = []
  const asked: Array<string> = []
  let open = 0
  const slow = probe("slow", {
    needsApproval: false,
    handler: (_, { idempotencyKey }) =>
      Effect.onInterrupt(
        Effect.suspend(() => {
          open += 1
          if (open === bodies) Deferred.doneUnsafe(started, Effect.void)
          return Deferred.await(finish)
        }),
        () =>
          Effect.suspend(() => {
            stopped.push(idempotencyKey)
            // The last one takes its time: meanwhile nothing may start.
            return stopped.length === bodies ? Deferred.await(finish) : Effect.void
          })
      )
  })
  const third = Agent.make("third", { tools: [slow.tool] })
  const isBudget = waitsFor === "a budget"
  const gated = probe("gated")
  const tools = isBudget ? [] : [gated.tool]
  const second = Agent.make("second", {
    tools,
    subAgents: [third],
    delegation: "delegate",
    limits: { agentConcurrency: bodies / 2 }
  })
  const first = Agent.make("first", {
    tools,
    subAgents: [second],
    delegation: "delegate",
    limits: isBudget ? { maxTreeTurns: 8 } : {}
  })
  const lead = Agent.make("lead", { subAgents: [first], delegation: "delegate" })
  const model = ScriptedModel.make(({ agentPath, messages, turn }) => {
    const name = agentPath.at(-1)
    if (name === "third") asked.push(name)
    if (name === "lead" && turn > 1 && JSON.stringify(messages.at(-1)).includes("end it"))
      return { calls: [{ tool: "cancel_agent", arguments: { agentRun: held } }] }
    if (turn > 1) return "done"
    if (name === "lead") return { calls: [inBackground("first")] }
    const wait = isBudget ? [] : [call("gated", "1")]
    if (name === "first") return { calls: [inBackground("second"), inBackground("second"), ...wait] }
    if (name === "second") return { calls: [inBackground("third"), inBackground("third"), ...wait] }
    return { calls: [call("slow", "1")] }
  })
  const { runtime } = yield* rebind(lead, model)
  const ends = new Map<string, ReadonlyArray<string>>()
  const onUpdate = (update: RunUpdate) => {
    if (update._tag !== "event") return
    const { event, path } = unwrap(update.event)
    const id = path.at(-1) ?? runId
    if (event._tag === "request.opened" && id === held)
      Deferred.doneUnsafe(isHeld, Effect.succeed(event.request))
    if (/^run\.(cancelled|completed|failed)$/.test(event._tag)) ends.set(id, [...stopped])
  }
  const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }, { onUpdate }), {
    startImmediately: true
  })
  yield* Deferred.await(started)
  const request = yield* Deferred.await(isHeld)
  return { runtime, running, request, asked, ends, stopped, finish: Deferred.succeed(finish, "slow") }
})

/** The ways to end the held sub-agent. */
const ways: Record<
  string,
  (runtime: Runtime, request: Interruption) => Effect.Effect<unknown, unknown, RunStore>
> = {
  "its cancellation": () => cancelRun(held, "enough"),
  "the cancellation of the root": () => cancelRun(runId, "enough"),
  cancel_agent: () => sendMessage(runId, "end it")
}

const budgetWays: typeof ways = {
  ...ways,
  "the denial of a larger budget": (runtime, request) => decideStored([runtime], deny(request))
}

const requireSound = Effect.gen(function* () {
  const store = yield* RunStore
  const events = yield* store.events(runId)
  const { revision, status } = yield* store.head(runId)
  assert.deepStrictEqual(RunChecker.check({ journals: [{ runId, events, revision, status }] }), [])
})

for (const reason of reasons) {
  describe(`a sub-agent that is held for ${reason.waitsFor}`, () => {
    for (const [name, end] of Object.entries(reason.waitsFor === "a budget" ? budgetWays : ways)) {
      it.effect(
        `ends by ${name} after the bodies of all sub-agents under it have stopped`,
        () =>
          Effect.gen(function* () {
            const { asked, ends, finish, request, running, runtime } = yield* team(reason)
            assert.strictEqual(request.requestId, "r.t1.1.r1")
            yield* end(runtime, request)
            for (let turn = 0; turn < 100; turn += 1) yield* Effect.yieldNow
            assert.isUndefined(ends.get(held))
            yield* finish
            yield* Fiber.join(running)
            assert.lengthOf(ends.get(held) ?? [], reason.bodies)
            assert.lengthOf(asked, reason.bodies)
            yield* requireSound
          }).pipe(Effect.provide(Layer.fresh(layerMemory))),
        limitMs
      )
    }

    it.effect(
      "ends by a denial that stops it after the bodies of all sub-agents under it have finished",
      () =>
        Effect.gen(function* () {
          const { ends, finish, request, running, runtime, stopped } = yield* team(reason)
          yield* decideStored([runtime], deny(request, { then: "stop" }))
          for (let turn = 0; turn < 100; turn += 1) yield* Effect.yieldNow
          assert.isUndefined(ends.get(held))
          yield* finish
          yield* Fiber.join(running)
          assert.deepStrictEqual(stopped, [])
          const events = yield* Effect.flatMap(RunStore, (store) => store.events(runId))
          const finished = events.filter((event) => unwrap(event).event._tag === "tool.completed")
          assert.lengthOf(finished, reason.bodies)
          yield* requireSound
        }).pipe(Effect.provide(Layer.fresh(layerMemory))),
      limitMs
    )
  })
}
