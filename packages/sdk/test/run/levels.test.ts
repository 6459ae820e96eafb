/**
 * Nested sub-agents: their requests are stored while the agents above work, and an agent that stops or fails leaves no sub-agent
 * at work.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, assertValid, call, events, expect, probe, rebind, safe, watch } from "../helpers/Fixture.ts"

type Answers = {
  readonly [agent: string]: ReadonlyArray<ScriptedModel.ScriptedAnswer | string>
}

const delegate = (agent: string, background: boolean) => ({
  tool: "delegate",
  arguments: { agent, prompt: "do", background }
})

/** A model that answers each agent from its own script. */
const scripted = (answers: Answers) =>
  ScriptedModel.make((request: ModelRequest) => {
    const name = request.agentPath.at(-1) ?? ""
    const index = request.messages.filter(({ role }) => role === "assistant").length
    return answers[name]?.[index] ?? `${name} is done`
  })

/** A chain of agents, each a sub-agent of the one before; all of them have the tools. */
const line = (
  names: ReadonlyArray<string>,
  tools: ReadonlyArray<ReturnType<typeof probe>>,
  options: Agent.AgentOptions<any, undefined> = {}
): Agent.Any =>
  names.toReversed().reduce<Agent.Any | undefined>(
    (below, name) =>
      Agent.make(name, {
        ...(below === undefined || name === names[0] ? {} : options),
        tools: tools.map(({ tool }) => tool),
        ...(below === undefined ? {} : { subAgents: [below], delegation: "delegate" as const })
      }),
    undefined
  )!

describe("a request of a sub-agent", () => {
  for (const background of [true, false]) {
    const how = background ? "in the background" : "that is waited for"
    it.effect(`at depth 3, ${how}, is in the store while its lead works`, () =>
      Effect.gen(function* () {
        const store = yield* RunStore
        const asked = yield* Deferred.make<void>()
        const release = yield* Deferred.make<void>()
        const begun = yield* Deferred.make<void>()
        const slow = probe("slow", {
          needsApproval: false,
          handler: () =>
            Effect.andThen(Deferred.succeed(begun, undefined), Effect.as(Deferred.await(release), "slow"))
        })
        const write = probe("write")
        const model = scripted({
          // With an attached first sub-agent, the second one keeps the lead busy.
          lead: [
            {
              calls: [
                delegate("middle", background),
                background ? call("slow", "1") : delegate("busy", false)
              ]
            }
          ],
          busy: [{ calls: [call("slow", "1")] }],
          middle: [{ calls: [delegate("leaf", background)] }],
          leaf: [{ calls: [call("write", "1")] }]
        })
        const tools = [slow.tool, write.tool]
        const leaf = Agent.make("leaf", { tools })
        const middle = Agent.make("middle", { subAgents: [leaf], delegation: "delegate" })
        const lead = Agent.make("lead", {
          tools,
          subAgents: [middle, Agent.make("busy", { tools })],
          delegation: "delegate"
        })
        const { runtime } = yield* rebind(lead, model)
        const onUpdate = (update: Parameters<NonNullable<ReturnType<typeof watch>["onUpdate"]>>[0]) => {
          if (events([update]).some((event) => unwrap(event).event._tag === "request.opened")) {
            Deferred.doneUnsafe(asked, Effect.void)
          }
        }
        const running = yield* Effect.forkChild(
          runPromptStored(runtime, { prompt: "go", runId: "run" as RunId }, { onUpdate })
        )
        // A subscriber that is notified finds the request in the store.
        yield* Deferred.await(asked)
        const [pending] = yield* store.pending()
        assert.deepStrictEqual(pending?.request.agentPath, ["lead", "middle", "leaf"])
        assert.strictEqual((yield* store.head("run" as RunId)).status, "running")
        yield* Deferred.await(begun)
        assert.deepStrictEqual(slow.ran, ["1"])
        assert.isUndefined(running.pollUnsafe())

        yield* store.decide(approve(pending!.request))
        yield* Deferred.succeed(release, undefined)
        const { state } = expect(yield* Fiber.join(running), "completed")
        assert.deepStrictEqual(write.ran, ["1"])
        assertValid(state)
      }).pipe(Effect.provide(Layer.fresh(layerMemory)))
    )
  }
})

/** The ends of runs and completed tools, as `depth tag`. */
const ends = (updates: ReturnType<typeof watch>["updates"]): ReadonlyArray<string> =>
  events(updates).flatMap((wrapped) => {
    const { event, path } = unwrap(wrapped)
    return /^(run\.(completed|cancelled|failed)|tool\.completed)$/.test(event._tag)
      ? [`${path.length} ${event._tag}`]
      : []
  })

/** A tool that ends late after its signal and then returns a result. */
const stubborn = (count: number) =>
  Effect.gen(function* () {
    const all = yield* Deferred.make<void>()
    let begun = 0
    let left = 0
    const tool = safe("stubborn", {
      handler: (_, { signal }) =>
        new Promise<string>((resolve) => {
          signal.addEventListener("abort", () =>
            setImmediate(() =>
              setImmediate(() => {
                left -= 1
                resolve("kept")
              })
            )
          )
          left += 1
          if (++begun === count) Deferred.doneUnsafe(all, Effect.void)
        })
    })
    return { all, left: () => left, tool }
  })

const names = ["lead", "first", "second", "third"]

/** Each agent of the chain starts the next one in the background, then runs the stubborn tool. */
const descending: Answers = Object.fromEntries(
  names.map((name, depth) => {
    const below = names[depth + 1]
    const calls = [...(below === undefined ? [] : [delegate(below, true)]), call("stubborn", name)]
    return [name, [{ calls }]]
  })
)

const inwards = [
  "3 tool.completed",
  "3 run.cancelled",
  "2 tool.completed",
  "2 run.cancelled",
  "1 tool.completed",
  "1 run.cancelled"
]

describe("a tree of depth 3", () => {
  it.effect(
    "that is cancelled waits for the running tools of every level, keeps their results, and ends the innermost run first",
    () =>
      Effect.gen(function* () {
        const { all, left, tool } = yield* stubborn(4)
        const { runtime } = yield* rebind(
          line(names, [tool]) as Agent.Agent<never, undefined>,
          scripted(descending),
          {
            cancelGrace: "1 minute"
          }
        )
        const cancellation = Cancellation.make()
        const { onUpdate, updates } = watch()
        const running = yield* Effect.forkChild(
          runPrompt(runtime, { prompt: "go" }, { cancellation, onUpdate })
        )
        yield* Deferred.await(all)
        cancellation.cancel("enough")
        const { state } = expect(yield* Fiber.join(running), "cancelled")
        assert.strictEqual(left(), 0)
        const told = ends(updates)
        assert.deepStrictEqual(
          told.filter((end) => end.endsWith("run.cancelled")),
          ["3 run.cancelled", "2 run.cancelled", "1 run.cancelled", "0 run.cancelled"]
        )
        // The receipt at the first level is a result, too.
        for (const depth of [0, 1, 2, 3]) {
          assert.strictEqual(told.filter((end) => end === `${depth} tool.completed`).length, 1)
        }
        assertValid(state)
      })
  )

  it.effect("that its lead cancels ends the innermost run first, and the lead continues afterwards", () =>
    Effect.gen(function* () {
      const { all, left, tool } = yield* stubborn(3)
      const until = safe("until", { handler: () => Effect.as(Deferred.await(all), "all at work") })
      const model = scripted({
        ...descending,
        lead: [
          { calls: [delegate("first", true), call("until", "1")] },
          { calls: [{ tool: "cancel_agent", arguments: { agentRun: "run-1.t1.1", reason: "too slow" } }] },
          "all of it has ended"
        ]
      })
      const tools = [tool, until as unknown as ReturnType<typeof probe>]
      const { runtime } = yield* rebind(line(names, tools) as Agent.Agent<never, undefined>, model, {
        cancelGrace: "1 minute"
      })
      const { onUpdate, updates } = watch()
      const result = yield* runPrompt(runtime, { prompt: "go", runId: "run-1" as RunId }, { onUpdate })
      assert.strictEqual(left(), 0)
      assert.strictEqual(expect(result, "completed").text, "all of it has ended")
      const told = ends(updates).filter((end) => !end.startsWith("0"))
      assert.deepStrictEqual(told.toSorted(), inwards.toSorted())
      assert.deepStrictEqual(
        told.filter((end) => end.endsWith("run.cancelled")),
        ["3 run.cancelled", "2 run.cancelled", "1 run.cancelled"]
      )
      assertValid(result.state)
    })
  )
})

describe("a sub-agent that fails", () => {
  const failures: Record<string, Agent.AgentOptions<any, undefined>> = {
    "because its turns are used up": { limits: { maxTurns: 1 } },
    "because its instructions throw": {
      instructions: ({ turn }) => {
        if (turn > 1) throw new Error("no idea")
        return "Do it."
      }
    }
  }
  for (const [why, options] of Object.entries(failures)) {
    for (const background of [true, false]) {
      const how = background ? "in the background" : "that is waited for"
      it.effect(`${why}, ${how}, leaves no run at work under it, and its lead continues`, () =>
        Effect.gen(function* () {
          const { left, tool, all } = yield* stubborn(1)
          const until = safe("until", { handler: () => Effect.as(Deferred.await(all), "all at work") })
          const model = scripted({
            lead: [{ calls: [delegate("middle", background)] }, "lead goes on", "lead has heard of it"],
            middle: [{ calls: [delegate("leaf", true), call("until", "1")] }],
            leaf: [{ calls: [call("stubborn", "leaf")] }]
          })
          const leaf = Agent.make("leaf", { tools: [tool.tool] })
          const middle = Agent.make("middle", {
            ...options,
            tools: [until.tool],
            subAgents: [leaf],
            delegation: "delegate"
          })
          const lead = Agent.make("lead", { subAgents: [middle], delegation: "delegate" })
          const { runtime } = yield* rebind(lead, model, { cancelGrace: "1 minute", interactive: false })
          const { onUpdate, updates } = watch()
          const result = yield* runPrompt(runtime, { prompt: "go" }, { onUpdate })
          expect(result, "completed")
          assert.strictEqual(left(), 0)
          const told = ends(updates).filter((end) => !end.startsWith("0"))
          assert.deepStrictEqual(told.slice(-3), ["2 tool.completed", "2 run.cancelled", "1 run.failed"])
          assertValid(result.state)
        })
      )
    }
  }
})
