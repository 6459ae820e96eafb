/**
 * Expiry follows one rule for every way to decide, with a store and without, also while the approval callback is asked.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import type { RuntimeOptions } from "../../src/agent/Runtime.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import { dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import { expiries } from "../../src/domain/decide.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { RunId } from "../../src/domain/Id.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import { interruptions, type RunState } from "../../src/domain/RunState.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import * as Worker from "../../src/durable/Worker.ts"
import { withDecisions } from "../../src/run/internal/mailEvents.ts"
import * as Mailbox from "../../src/run/Mailbox.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, call, deny, expect, probe, rebind, safe } from "../helpers/Fixture.ts"

type Callback = NonNullable<RuntimeOptions<never, undefined>["approvalCallback"]>

const runId = "run" as RunId
const life = 1000

/** A callback that reports its request and waits for `answer`. */
const callback = Effect.gen(function* () {
  const asked = yield* Queue.unbounded<Interruption>()
  const answer = yield* Deferred.make<DecisionInput | undefined>()
  const approvalCallback: Callback = (request) =>
    Effect.andThen(Queue.offer(asked, request), Deferred.await(answer))
  return { answer, approvalCallback, asked }
})

type Place = "the run itself" | "a sub-agent" | "a sub-agent in the background" | "an agent that took over"

const places: ReadonlyArray<Place> = [
  "the run itself",
  "a sub-agent",
  "a sub-agent in the background",
  "an agent that took over"
]

/** An agent in which `place` calls `bid`; its approvals expire after a second. */
const bidding = (place: Place, ids: ReadonlyArray<string> = ["1"], onExpiry: "deny" | "stay" = "deny") => {
  const bid = probe("bid", { approval: { expiresIn: `${life} millis`, onExpiry } })
  const bidder = Agent.make("bidder", { tools: [bid.tool] })
  const agent =
    place === "the run itself"
      ? bidder
      : place === "an agent that took over"
        ? Agent.make("desk", { handoffs: [bidder] })
        : Agent.make("lead", { subAgents: [bidder], delegation: "delegate" })
  const background = place === "a sub-agent in the background"
  const model = ScriptedModel.make(({ agentPath, messages }) => {
    if (agentPath.at(-1) === "desk") return { calls: [{ tool: "transfer_to_bidder" }] }
    const answered = messages.filter(({ role }) => role === "tool").map((message) => message)
    if (agentPath.at(-1) === "lead") {
      return answered.length > 0
        ? "done"
        : { calls: [{ tool: "delegate", arguments: { agent: "bidder", prompt: "bid", background } }] }
    }
    return answered.some((message) => message.role === "tool" && message.name === "bid")
      ? "done"
      : { calls: ids.map((id) => call("bid", id)) }
  })
  const open = (options: Parameters<typeof rebind>[2] = {}) =>
    Effect.map(rebind(agent, model, options as never), ({ runtime }) => runtime)
  return { bid, open }
}

const stored = <A, E>(body: Effect.Effect<A, E, RunStore>) => Effect.provide(body, layerMemory)

/** The recorded decisions of these requests. */
const decisionsIn = (store: RunStore["Service"], ids: ReadonlyArray<string>) =>
  Effect.forEach(ids, (id) => Effect.map(store.request(id as never), ({ decision }) => decision))

const pendingIds = Effect.gen(function* () {
  return (yield* (yield* RunStore).pending()).map(({ request }) => request.requestId)
})

describe("an approval callback that never answers", () => {
  for (const place of places) {
    it.effect(`does not block a stored run after the request expires: ${place}`, () =>
      stored(
        Effect.gen(function* () {
          const { approvalCallback, asked } = yield* callback
          const { bid, open } = bidding(place)
          const running = yield* Effect.forkChild(
            runPromptStored(yield* open({ approvalCallback }), { prompt: "go", runId })
          )
          const { requestId, expiresAt } = yield* Queue.take(asked)
          assert.deepStrictEqual(yield* pendingIds, [requestId])
          yield* TestClock.adjust(life - 1)
          assert.deepStrictEqual(yield* pendingIds, [requestId])
          yield* TestClock.adjust(1)
          expect(yield* Fiber.join(running), "completed")
          const [decision] = yield* decisionsIn(yield* RunStore, [requestId])
          assert.deepInclude({ ...decision } as never, { _tag: "deny", by: "expiry", at: expiresAt } as never)
          assert.deepStrictEqual(bid.ran, [])
        })
      )
    )

    it.effect(`does not block a run without a store after the request expires: ${place}`, () =>
      Effect.gen(function* () {
        const { approvalCallback, asked } = yield* callback
        const { bid, open } = bidding(place)
        const running = yield* Effect.forkChild(
          runPrompt(yield* open({ approvalCallback }), { prompt: "go" })
        )
        yield* Queue.take(asked)
        yield* TestClock.adjust(life)
        expect(yield* Fiber.join(running), "completed")
        assert.deepStrictEqual(bid.ran, [])
      })
    )
  }

  it.effect("decides nothing when it answers after the expiry", () =>
    stored(
      Effect.gen(function* () {
        const { answer, approvalCallback, asked } = yield* callback
        const { bid, open } = bidding("the run itself", ["1", "2"], "deny")
        const running = yield* Effect.forkChild(
          runPromptStored(yield* open({ approvalCallback }), { prompt: "go", runId })
        )
        const { requestId } = yield* Queue.take(asked)
        yield* TestClock.adjust(life)
        yield* Deferred.succeed(answer, { _tag: "approve", requestId, by: "callback" })
        expect(yield* Fiber.join(running), "completed")
        assert.deepStrictEqual(bid.ran, [])
      })
    )
  )

  it.effect("leaves every request of the batch in the inbox, open to decisions", () =>
    stored(
      Effect.gen(function* () {
        const { approvalCallback, asked } = yield* callback
        const { bid, open } = bidding("the run itself", ["1", "2", "3"])
        const runtime = yield* open({ approvalCallback })
        const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }))
        yield* Queue.take(asked)
        const store = yield* RunStore
        const waiting = yield* store.pending()
        assert.strictEqual(waiting.length, 3)
        yield* store.decideAll(waiting.map(({ request }) => approve(request)))
        expect(yield* Fiber.join(running), "completed")
        assert.deepStrictEqual(bid.ran, ["1", "2", "3"])
      })
    )
  )

  it.effect("is asked about the next request once the pending one is decided elsewhere", () =>
    stored(
      Effect.gen(function* () {
        const { approvalCallback, asked } = yield* callback
        const { bid, open } = bidding("the run itself", ["1", "2"])
        const runtime = yield* open({ approvalCallback })
        const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }))
        const first = yield* Queue.take(asked)
        yield* decideStored([runtime], approve(first))
        const second = yield* Queue.take(asked)
        assert.notStrictEqual(second.requestId, first.requestId)
        yield* TestClock.adjust(life)
        expect(yield* Fiber.join(running), "completed")
        assert.deepStrictEqual(bid.ran, ["1"])
      })
    )
  )

  it.effect("leaves a request with onExpiry `stay` in the inbox, where it can be decided", () =>
    stored(
      Effect.gen(function* () {
        const { approvalCallback, asked } = yield* callback
        const { bid, open } = bidding("a sub-agent", ["1"], "stay")
        const runtime = yield* open({ approvalCallback })
        const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }))
        const request = yield* Queue.take(asked)
        yield* TestClock.adjust(2 * life)
        assert.deepStrictEqual(yield* pendingIds, [request.requestId])
        yield* decideStored([runtime], approve(request))
        expect(yield* Fiber.join(running), "completed")
        assert.deepStrictEqual(bid.ran, ["1"])
      })
    )
  )

  it.effect("blocks neither a cancellation nor a denial that stops the run", () =>
    stored(
      Effect.gen(function* () {
        for (const how of ["cancel", "stop"] as const) {
          const { approvalCallback, asked } = yield* callback
          const { bid, open } = bidding("a sub-agent")
          const runtime = yield* open({ approvalCallback })
          const id = how as RunId
          const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId: id }))
          const request = yield* Queue.take(asked)
          if (how === "cancel") yield* cancelRun(id, "enough")
          else yield* decideStored([runtime], { ...deny(request), then: "stop" } as DecisionInput)
          yield* TestClock.adjust("6 seconds")
          assert.notStrictEqual((yield* Fiber.join(running)).status, "interrupted")
          assert.deepStrictEqual(bid.ran, [])
        }
      })
    )
  )

  it.effect(
    "is interrupted by a suspension, and the request stays in the inbox until it expires after the resume",
    () =>
      stored(
        Effect.gen(function* () {
          const { approvalCallback, asked } = yield* callback
          const { bid, open } = bidding("a sub-agent in the background")
          const suspension = { soon: Cancellation.make(), now: Cancellation.make() }
          const running = yield* Effect.forkChild(
            Effect.flip(
              runPromptStored(yield* open({ approvalCallback }), { prompt: "go", runId }, { suspension })
            )
          )
          const { requestId } = yield* Queue.take(asked)
          suspension.soon.cancel("closing")
          suspension.now.cancel("closing")
          assert.strictEqual((yield* Fiber.join(running))._tag, "RunSuspended")
          assert.deepStrictEqual(yield* pendingIds, [requestId])
          yield* TestClock.adjust(life)
          const again = yield* callback
          const runtime = yield* open({ approvalCallback: again.approvalCallback })
          expect(yield* runPromptStored(runtime, { runId }), "completed")
          assert.strictEqual(yield* Queue.size(again.asked), 0)
          assert.deepStrictEqual(bid.ran, [])
        })
      )
  )

  it.effect("does not keep a run from ending beside a worker when its request expires", () =>
    stored(
      Effect.gen(function* () {
        const { approvalCallback, asked } = yield* callback
        const { bid, open } = bidding("a sub-agent")
        const held = yield* runPromptStored(yield* open(), { prompt: "go", runId })
        expect(held, "interrupted")
        const runtime = yield* open({ approvalCallback })
        const store = yield* RunStore
        const worker = yield* Effect.forkChild(Worker.run([runtime], { pollInterval: "100 millis" }))
        const handle = yield* Effect.forkChild(runPromptStored(runtime, { runId }))
        yield* Queue.take(asked)
        yield* TestClock.adjust(life)
        expect(yield* Fiber.join(handle), "completed")
        yield* Fiber.interrupt(worker)
        assert.strictEqual((yield* store.head(runId)).status, "completed")
        assert.deepStrictEqual(bid.ran, [])
      })
    )
  )
})

describe("an approval callback that answers too late", () => {
  for (const place of places) {
    it.effect(`decides nothing, with a store and without: ${place}`, () =>
      Effect.gen(function* () {
        for (const isStored of [false, true]) {
          const asked = yield* Deferred.make<void>()
          const { bid, open } = bidding(place)
          // It answers at the moment of expiry, before the run checks.
          const approvalCallback: Callback = (request) =>
            Deferred.succeed(asked, undefined).pipe(
              Effect.andThen(Effect.sleep(life)),
              Effect.as({ _tag: "approve", requestId: request.requestId, by: "callback" } as const)
            )
          const runtime = yield* open({ approvalCallback })
          const running = yield* Effect.forkChild(
            isStored
              ? stored(runPromptStored(runtime, { prompt: "go", runId }))
              : runPrompt(runtime, { prompt: "go" })
          )
          yield* Deferred.await(asked)
          yield* TestClock.adjust(life)
          expect(yield* Fiber.join(running), "completed")
          assert.deepStrictEqual(bid.ran, [])
        }
      })
    )
  }
})

describe("a request of a tool that the program no longer has", () => {
  it.effect("expires with a store and without", () =>
    Effect.gen(function* () {
      for (const isStored of [false, true]) {
        const { open } = bidding("the run itself")
        const bare = yield* rebind(
          Agent.make("bidder", { tools: [] }),
          ScriptedModel.make(() => "done")
        )
        yield* Effect.gen(function* () {
          const runtime = yield* open()
          const held = isStored
            ? yield* runPromptStored(runtime, { prompt: "go", runId })
            : yield* runPrompt(runtime, { prompt: "go" })
          yield* TestClock.adjust(life)
          const end = isStored
            ? yield* runPromptStored(bare.runtime, { runId })
            : yield* runPrompt(bare.runtime, { state: held.state })
          expect(end, "completed")
        }).pipe(stored)
      }
    })
  )
})

describe("a working run without a store whose request expired", () => {
  /** A run that asks for a bid while `look` runs until it is released. */
  const busy = Effect.gen(function* () {
    const looking = yield* Deferred.make<void>()
    const release = yield* Deferred.make<void>()
    const look = safe("look", {
      handler: () =>
        Effect.andThen(Deferred.succeed(looking, undefined), Deferred.await(release)).pipe(Effect.as("seen"))
    })
    const bid = probe("bid", { approval: { expiresIn: `${life} millis` } })
    const lead = Agent.make("lead", {
      tools: [look.tool, bid.tool]
    })
    const model = ScriptedModel.make(({ turn }) =>
      turn > 1 ? "done" : { calls: [call("bid", "1"), call("look", "1")] }
    )
    const { runtime } = yield* rebind(lead, model)
    return { bid, looking, release, runtime }
  })

  it.effect(
    "rejects a late decision through its handle with AlreadyDecided by expiry, and applies the expiry",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const { bid, looking, release, runtime } = yield* busy
          const handle = yield* dispatchPrompt(runtime, { prompt: "go" })
          yield* Deferred.await(looking)
          const [request] = handle.interruptions()
          yield* TestClock.adjust(life + 200)
          const late = yield* Effect.flip(handle.decide(approve(request!)))
          assert.strictEqual(late._tag, "AlreadyDecided")
          assert.deepInclude({ ...late } as never, { by: "expiry", at: request!.expiresAt } as never)
          assert.strictEqual((yield* Effect.flip(handle.decide(deny(request!))))._tag, "AlreadyDecided")
          assert.deepStrictEqual(handle.interruptions(), [])
          yield* Deferred.succeed(release, undefined)
          const { state } = expect(yield* handle.done, "completed")
          assert.strictEqual(state.requests[0]?.decision?.by, "expiry")
          assert.isUndefined(state.requests[0]?.superseded)
          assert.deepStrictEqual(bid.ran, [])
        })
      )
  )

  it.effect("applies a decision that came before the expiry, even when it reads it later", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { bid, looking, release, runtime } = yield* busy
        const handle = yield* dispatchPrompt(runtime, { prompt: "go" })
        yield* Deferred.await(looking)
        const [request] = handle.interruptions()
        yield* TestClock.adjust(life - 1)
        yield* handle.decide(approve(request!))
        yield* TestClock.adjust(life)
        yield* Deferred.succeed(release, undefined)
        const { state } = expect(yield* handle.done, "completed")
        assert.isUndefined(state.requests[0]?.superseded)
        assert.deepStrictEqual(bid.ran, ["1"])
      })
    )
  )

  it.effect("reads its mailbox before it applies the expiry on resume", () =>
    Effect.gen(function* () {
      const { bid, open } = bidding("the run itself")
      const runtime = yield* open()
      const held = expect(yield* runPrompt(runtime, { prompt: "go" }), "interrupted")
      const mailbox = Mailbox.make()
      mailbox.attach(runtime, () => held.state)
      yield* TestClock.adjust(life - 1)
      yield* mailbox.decide(approve(held.interruptions[0]!))
      yield* TestClock.adjust(1)
      const { state } = expect(yield* runPrompt(runtime, { state: held.state }, { mailbox }), "completed")
      assert.isUndefined(state.requests[0]?.superseded)
      assert.deepStrictEqual(bid.ran, ["1"])
    })
  )

  it.effect("records the expiry once when it is found twice", () =>
    Effect.gen(function* () {
      const { open } = bidding("the run itself")
      const { state } = expect(yield* runPrompt(yield* open(), { prompt: "go" }), "interrupted")
      const [expiry] = expiries(state, life)
      const [record] = withDecisions(state, [expiry!, expiry!]).requests
      assert.deepStrictEqual([record?.decision, record?.superseded], [expiry, undefined])
    })
  )

  it.effect("rejects a late decision given on resume, alone and in a batch, and accepts none of them", () =>
    Effect.gen(function* () {
      const { bid, open } = bidding("a sub-agent", ["1", "2"])
      const runtime = yield* open()
      const held = expect(yield* runPrompt(runtime, { prompt: "go" }), "interrupted")
      yield* TestClock.adjust(life)
      const decisions = held.interruptions.map((request) => approve(request))
      for (const some of [decisions.slice(0, 1), decisions]) {
        const late = yield* Effect.flip(runPrompt(runtime, { state: held.state, decisions: some }))
        assert.deepInclude({ ...late } as never, { _tag: "AlreadyDecided", by: "expiry" } as never)
      }
      expect(yield* runPrompt(runtime, { state: held.state }), "completed")
      assert.deepStrictEqual(bid.ran, [])
    })
  )
})

describe("a decision made just before a request expires", () => {
  /** A lead with a bidder, and a clerk whose charge runs until it is released. */
  const working = Effect.gen(function* () {
    const charging = yield* Deferred.make<void>()
    const release = yield* Deferred.make<void>()
    const charge = probe("charge", {
      needsApproval: false,
      handler: () =>
        Effect.andThen(Deferred.succeed(charging, undefined), Deferred.await(release)).pipe(
          Effect.as("charged")
        )
    })
    const bid = probe("bid", { approval: { expiresIn: `${life} millis` } })
    const lead = Agent.make("lead", {
      subAgents: [Agent.make("bidder", { tools: [bid.tool] }), Agent.make("clerk", { tools: [charge.tool] })]
    })
    const model = ScriptedModel.make(({ agentPath, turn }) => {
      if (turn > 1) return "done"
      if (agentPath.at(-1) === "bidder") return { calls: [call("bid", "1")] }
      if (agentPath.at(-1) === "clerk") return { calls: [call("charge", "1")] }
      return {
        calls: ["bidder", "clerk"].map((tool) => ({ tool, arguments: { prompt: "go" } }))
      }
    })
    const { runtime } = yield* rebind(lead, model)
    return { bid, charge, charging, release, runtime }
  })

  it.effect("counts when the run reads it after the expiry, and running calls continue", () =>
    stored(
      Effect.gen(function* () {
        const store = yield* RunStore
        const { bid, charge, charging, release, runtime } = yield* working
        // The run gets no notification, as if another process decided.
        const deaf = { ...store, changes: Stream.never }
        const running = yield* Effect.forkChild(
          Effect.provideService(runPromptStored(runtime, { prompt: "go", runId }), RunStore, deaf)
        )
        yield* Deferred.await(charging)
        const [asked] = yield* Stream.runHead(
          Stream.filter(
            Stream.mapEffect(store.changes, () => store.pending()),
            (pending) => pending.length > 0
          )
        ).pipe(Effect.map((found) => (found._tag === "Some" ? found.value : [])))
        yield* TestClock.adjust(life - 1)
        yield* store.decide(approve(asked!.request))
        yield* TestClock.adjust(1)
        yield* Deferred.succeed(release, undefined)
        expect(yield* Fiber.join(running), "completed")
        assert.deepStrictEqual([bid.ran, charge.ran], [["1"], ["1"]])
      })
    )
  )

  it.effect("loses once the run has recorded the expiry, whichever clock the decider uses", () =>
    stored(
      Effect.gen(function* () {
        const store = yield* RunStore
        const { bid, charge, charging, release, runtime } = yield* working
        const clock = yield* Clock.Clock
        const behind: Clock.Clock = Object.create(clock, {
          currentTimeMillis: { value: Effect.sync(() => clock.currentTimeMillisUnsafe() - 500) },
          currentTimeMillisUnsafe: { value: () => clock.currentTimeMillisUnsafe() - 500 }
        })
        const answers: Array<string> = []
        // Another process with a slow clock decides between the run's read of its mail and its next commit.
        const racing: RunStore["Service"] = {
          ...store,
          append: (options) =>
            Effect.gen(function* () {
              for (const { request } of yield* store.pending({ expiresBefore: Number.MAX_SAFE_INTEGER })) {
                if ((request.expiresAt ?? Infinity) > clock.currentTimeMillisUnsafe()) continue
                const exit = yield* Effect.exit(
                  Effect.provideService(store.decide(approve(request)), Clock.Clock, behind)
                )
                answers.push(exit._tag)
              }
              return yield* store.append(options)
            })
        }
        const running = yield* Effect.forkChild(
          Effect.provideService(runPromptStored(runtime, { prompt: "go", runId }), RunStore, racing)
        )
        yield* Deferred.await(charging)
        yield* TestClock.adjust(life)
        yield* Deferred.succeed(release, undefined)
        expect(yield* Fiber.join(running), "completed")
        assert.deepStrictEqual([bid.ran, charge.ran], [[], ["1"]])
        assert.notInclude(answers, "Success")
      })
    )
  )

  it.effect(
    "counts in a stored run while another process's callback hangs, and the later answer does not",
    () =>
      stored(
        Effect.gen(function* () {
          const { bid, open } = bidding("the run itself")
          const hanging = yield* callback
          const running = yield* Effect.forkChild(
            runPromptStored(yield* open({ approvalCallback: hanging.approvalCallback }), {
              prompt: "go",
              runId
            })
          )
          const request = yield* Queue.take(hanging.asked)
          // The other process has its own callback and finds the run busy.
          const other = yield* open({ approvalCallback: () => approve(request) })
          assert.strictEqual((yield* Effect.flip(runPromptStored(other, { runId })))._tag, "RunBusy")
          yield* TestClock.adjust(life - 1)
          yield* decideStored([other], approve(request))
          yield* TestClock.adjust(1)
          yield* Deferred.succeed(hanging.answer, deny(request))
          expect(yield* Fiber.join(running), "completed")
          assert.deepStrictEqual(bid.ran, ["1"])
        })
      )
  )
})

describe("the handle of a run whose callback hangs", () => {
  it.effect("shows pending requests, with a store and without, until they are decided or expire", () =>
    Effect.gen(function* () {
      for (const isStored of [false, true]) {
        const { approvalCallback, asked } = yield* callback
        const { bid, open } = bidding("a sub-agent", ["1", "2"])
        const runtime = yield* open({ approvalCallback })
        const watched = Effect.gen(function* () {
          const handle = isStored
            ? yield* dispatchPromptStored(runtime, { prompt: "go", runId })
            : yield* dispatchPrompt(runtime, { prompt: "go", runId })
          const first = yield* Queue.take(asked)
          assert.strictEqual(handle.interruptions().length, 2)
          yield* handle.decide(approve(first))
          yield* Queue.take(asked)
          assert.strictEqual(handle.interruptions().length, 1)
          yield* TestClock.adjust(life)
          const { state } = expect(yield* handle.done, "completed")
          assert.deepStrictEqual(interruptions(state as RunState), [])
          assert.deepStrictEqual(bid.ran, ["1"])
        })
        yield* stored(Effect.scoped(watched))
      }
    })
  )
})
