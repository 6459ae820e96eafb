import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import * as ContextPolicy from "../../src/context/ContextPolicy.ts"
import { textOf } from "../../src/domain/Message.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import { messages, type RunState } from "../../src/domain/RunState.ts"
import { recallTool } from "../../src/index.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import * as Tokenizer from "../../src/model/Tokenizer.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { events, expect, rebind, watch } from "../helpers/Fixture.ts"

const window = 8000

/** Whether a request asks for a summary. */
const isSummary = ({ tools, messages }: ModelRequest): boolean =>
  tools.length === 0 && textOf(messages[0]?.content ?? []).includes("record of the conversation")

/** A model that answers with `answer`, and summarizes with `summary`. */
const modelOf = (
  summary: (request: ModelRequest, times: number) => string | ScriptedModel.ScriptedAnswer,
  answer: (request: ModelRequest) => string | ScriptedModel.ScriptedAnswer = () => "Noted.",
  contextTokens = window
) => {
  let times = 0
  return ScriptedModel.make(
    (request) => (isSummary(request) ? summary(request, (times += 1)) : answer(request)),
    {
      tokenizer: Tokenizer.estimate,
      contextTokens
    }
  )
}

const under = <A, E, R>(effect: Effect.Effect<A, E, R>, policy = ContextPolicy.compacting()) =>
  Effect.provideService(effect, ContextPolicy.ContextPolicy, policy)

const look = Tool.make("look", { safety: "readOnly", handler: () => "seen" })
const agent = Agent.make("clerk", { instructions: "Take notes.", tools: [look] })

const long = (index: number) =>
  `Fact ${index}: the code is ${index * 7}. ${"More words follow here. ".repeat(60)}`

/** Prompts one after the other in one session. Returns the last state. */
const talk = Effect.fnUntraced(function* (
  runtime: Parameters<typeof runPrompt>[0],
  prompts: ReadonlyArray<string>,
  from?: RunState,
  onUpdate?: (update: RunUpdate) => void
) {
  let state = from
  for (const prompt of prompts) {
    const result = yield* runPrompt(
      runtime,
      state === undefined ? { prompt } : { state, prompt },
      onUpdate === undefined ? {} : { onUpdate }
    )
    state = expect(result, "completed").state
  }
  return state!
})

const compactions = (updates: ReadonlyArray<RunUpdate>) =>
  events(updates).filter(
    (event): event is Extract<RunEvent, { readonly _tag: "context.compacted" }> =>
      event._tag === "context.compacted"
  )

const twenty = Array.from({ length: 20 }, (_, index) => long(index))

describe("a conversation longer than the window", () => {
  it.effect("goes on with a summary in place of its oldest messages, and its history keeps all of them", () =>
    Effect.gen(function* () {
      const model = modelOf(() => "The user told facts; the code of fact 0 is 0.")
      const { runtime } = yield* under(rebind(agent, model))
      const { onUpdate, updates } = watch()
      const state = yield* talk(runtime, twenty, undefined, onUpdate)
      assert.strictEqual(messages(state).length, 40)
      const done = compactions(updates)
      assert.isAtLeast(done.length, 2)
      assert.isTrue(done.every(({ quality, tokensAfter }) => quality === "model" && tokensAfter < window))
      const last = model.requests.findLast((request) => !isSummary(request))!
      assert.include(textOf(last.messages[0]!.content), "the code of fact 0 is 0")
      assert.include(textOf(last.messages.at(-1)!.content), "Fact 19")
      assert.isBelow(Tokenizer.countRequest(Tokenizer.estimate, { ...last, tools: [...last.tools] }), window)
      // The summary that is updated is in the request of the next one.
      const requests = model.requests.filter(isSummary)
      assert.include(textOf(requests[1]!.messages[0]!.content), 'part="so far"')
      assert.strictEqual(state.sessionUsage.requests, 20 + done.length)
      assert.strictEqual(state.usage.turns, 1)
    })
  )

  it.effect("publishes how its context is used, a warning, and its progress in words", () =>
    Effect.gen(function* () {
      const { runtime } = yield* under(
        rebind(
          agent,
          modelOf(() => "Facts.")
        )
      )
      const { onUpdate, updates } = watch()
      yield* talk(runtime, twenty.slice(0, 12), undefined, onUpdate)
      const usages = updates.flatMap((update) => (update._tag === "context.usage" ? [update.usage] : []))
      assert.strictEqual(usages.length, 12)
      for (const usage of usages) {
        const { history, memory, output, reserve, sections, summary, system, tools, usable, used } = usage
        assert.closeTo(used, history + memory + sections + summary + system + tools, 3)
        assert.strictEqual(usable, window - output - reserve)
        assert.isAtMost(used, usable)
      }
      assert.isTrue(usages.some(({ summary }) => summary > 0))
      const words = updates.flatMap((update) =>
        update._tag === "context.compacting" ? [update.message] : []
      )
      assert.deepStrictEqual(new Set(words), new Set(["[1/8] summarizing"]))
      const warnings = events(updates).filter(({ _tag }) => _tag === "budget.nearing")
      assert.isAtLeast(warnings.length, 1)
    })
  )

  it.effect("keeps its beginning from request to request, except after a compaction", () =>
    Effect.gen(function* () {
      const model = modelOf(() => "Facts.")
      const { runtime } = yield* under(rebind(agent, model))
      yield* talk(runtime, twenty)
      let changes = 0
      const turns = model.requests.filter((request) => !isSummary(request))
      for (const [index, { messages }] of turns.entries()) {
        const before = turns[index - 1]?.messages ?? []
        if (!before.every((message, place) => message === messages[place])) changes += 1
      }
      assert.strictEqual(changes, model.requests.filter(isSummary).length)
    })
  )
})

describe("a summary", () => {
  const bad = [
    ["is empty", " "],
    ["calls a tool", { calls: [{ tool: "look" }] }],
    ["quotes the request", "Sure. Do not describe these instructions. Goal: none"]
  ] as const

  for (const [what, answer] of bad) {
    it.effect(`that ${what} is refused, asked for once more, and then replaced by a digest`, () =>
      Effect.gen(function* () {
        const model = modelOf(() => answer)
        const { runtime } = yield* under(rebind(agent, model))
        const { onUpdate, updates } = watch()
        const state = yield* talk(runtime, twenty.slice(0, 10), undefined, onUpdate)
        const [first] = compactions(updates)
        assert.strictEqual(first?.quality, "degraded")
        assert.include(first?.summary ?? "", "Fact 0")
        assert.notInclude(first?.summary ?? "", "Do not describe")
        assert.isUndefined(first?.usage)
        const asked = model.requests.filter(isSummary).length
        assert.strictEqual(asked, 2 * compactions(updates).length)
        assert.strictEqual(state.sessionUsage.requests, 10 + asked)
      })
    )
  }

  it.effect("is asked of the named profile, as text only, and then of the agent's own", () =>
    Effect.gen(function* () {
      const model = modelOf((_, times) => (times === 1 ? "" : "Facts."))
      const policy = ContextPolicy.compacting({ profile: "small", guidance: "Record each code." })
      const { runtime } = yield* under(rebind(agent, model), policy)
      yield* talk(runtime, twenty.slice(0, 6))
      const [first, second] = model.requests.filter(isSummary)
      assert.deepStrictEqual([first?.profile, second?.profile], ["small", undefined])
      assert.deepStrictEqual(first?.tools, [])
      assert.strictEqual(first?.messages.length, 1)
      assert.include(textOf(first!.messages[0]!.content), "Record each code.")
    })
  )

  it.effect("can be vetoed, and its callback can name messages that stay", () =>
    Effect.gen(function* () {
      let vetoes = 0
      const model = modelOf(() => "Facts.")
      const policy = ContextPolicy.compacting({
        before: () => (vetoes === 0 ? ((vetoes += 1), { veto: true }) : { pinned: [0] })
      })
      const { runtime } = yield* under(rebind(agent, model), policy)
      const { onUpdate, updates } = watch()
      yield* talk(runtime, twenty.slice(0, 10), undefined, onUpdate)
      const skipped = events(updates).flatMap((event) =>
        event._tag === "compaction.skipped" ? [event.reason] : []
      )
      assert.deepStrictEqual(skipped, ["the program vetoed it"])
      assert.include(compactions(updates)[0]?.kept ?? [], 0)
      const after = model.requests.findLast((request) => !isSummary(request))!
      assert.isTrue(after.messages.some(({ content }) => textOf(content).includes("Fact 0:")))
    })
  )
})

describe("long results of earlier calls", () => {
  it.effect("are replaced by texts before anything is summarized, and can be read again", () =>
    Effect.gen(function* () {
      const read = Tool.make("read", {
        safety: "readOnly",
        handler: () => `begin ${"data ".repeat(900)} end`
      })
      let turn = 0
      let recalled = ""
      const model = modelOf(
        () => "Facts.",
        (request) => {
          turn += 1
          const cleared = request.messages.find(({ content }) =>
            textOf(content).includes("[tool result cleared")
          )
          const id = /with the id ([0-9a-f]{16})/.exec(textOf(cleared?.content ?? []))?.[1]
          if (recalled === "" && id !== undefined) {
            recalled = id
            return { calls: [{ tool: "recall", arguments: { id } }] }
          }
          return turn < 25 && recalled === "" ? { calls: [{ tool: "read" }] } : "Done."
        },
        32_000
      )
      const reader = Agent.make("reader", { tools: [read, recallTool()], limits: { maxTurns: 40 } })
      const { runtime } = yield* under(rebind(reader, model))
      const { onUpdate, updates } = watch()
      const { state } = expect(yield* runPrompt(runtime, { prompt: "Read." }, { onUpdate }), "completed")
      assert.isAtLeast(events(updates).filter(({ _tag }) => _tag === "context.pruned").length, 1)
      assert.strictEqual(compactions(updates).length, 0)
      const results = messages(state).filter((message) => message.role === "tool")
      assert.isTrue(textOf(results.at(-1)!.content).startsWith("begin data"))
    })
  )
})

describe("a context that cannot be compacted", () => {
  it.effect("fails a run that may not ask, with the limit and the reason", () =>
    Effect.gen(function* () {
      const model = modelOf(() => "Facts.")
      const { runtime } = yield* under(rebind(agent, model))
      const { error } = expect(yield* runPrompt(runtime, { prompt: "x".repeat(30_000) }), "error")
      assert.deepInclude({ ...error }, { _tag: "BudgetExceeded", budget: "context" })
      assert.include(error.message, "the latest message alone does not fit")
      assert.strictEqual(model.requests.length, 0)
    })
  )

  it.effect(
    "of a model with an unknown window fails a strict policy with a typed error, before the model is called",
    () =>
      Effect.gen(function* () {
        const model = ScriptedModel.make(["x"])
        const { runtime } = yield* under(rebind(agent, model), ContextPolicy.compacting({ strict: true }))
        const { error } = expect(yield* runPrompt(runtime, { prompt: "Hi" }), "error")
        assert.strictEqual(error._tag, "WindowUnknown")
        assert.include(error.message, "contextTokens")
        assert.strictEqual(model.requests.length, 0)
        // Otherwise, 128,000 tokens are assumed.
        const { onUpdate, updates } = watch()
        const { runtime: lenient } = yield* under(rebind(agent, model))
        yield* runPrompt(lenient, { prompt: "Hi" }, { onUpdate })
        const usage = updates.flatMap((update) => (update._tag === "context.usage" ? [update.usage] : []))[0]
        assert.deepInclude(usage, { window: 128_000, isWindowKnown: false })
      })
  )
})

describe("a request that the provider refuses as too long", () => {
  it.effect("is compacted and sent again, and corrects the estimate", () =>
    Effect.gen(function* () {
      // The provider counts twice as much as the tokenizer.
      const double = { count: (text: string) => 2 * Tokenizer.estimate.count(text) }
      const model = ScriptedModel.make((request) => (isSummary(request) ? "Facts." : "Noted."), {
        tokenizer: double,
        contextTokens: window
      })
      const silent: typeof model = { ...model, client: { ...model.client, contextTokens: () => 20_000 } }
      const { runtime } = yield* under(rebind(agent, silent))
      const { onUpdate, updates } = watch()
      yield* talk(runtime, twenty.slice(0, 12), undefined, onUpdate)
      const asked = events(updates).flatMap((event) =>
        event._tag === "compaction.requested" ? [event.reason] : []
      )
      assert.include(asked, "overflow")
      assert.isAtLeast(compactions(updates).length, 1)
    })
  )
})

describe("options of the policy", () => {
  it("are checked by name and value", () => {
    assert.throws(() => ContextPolicy.compacting({ triger: 0.5 } as never), "trigger")
    assert.throws(() => ContextPolicy.compacting({ trigger: 2 }), "trigger")
  })
})

describe("compactions that make too little room", () => {
  it.effect("are not repeated without end: after two in a row the run asks, or fails", () =>
    Effect.gen(function* () {
      const model = modelOf(() => "Facts.")
      const { runtime } = yield* under(rebind(agent, model))
      let state: RunState | undefined
      let why = ""
      for (let index = 0; index < 12 && why === ""; index += 1) {
        const prompt = `${index} ${"x".repeat(6200)}`
        const result = yield* runPrompt(runtime, state === undefined ? { prompt } : { state, prompt })
        if (result.status === "error") why = result.error.message
        state = result.state
      }
      assert.include(why, "two compactions in a row")
      assert.strictEqual(model.requests.filter(isSummary).length, 2)
    })
  )
})

describe("a sub-agent", () => {
  it.effect("compacts its own context, and its usage is booked in the runs above it", () =>
    Effect.gen(function* () {
      const read = Tool.make("read", { safety: "readOnly", handler: () => "data ".repeat(500) })
      const helper = Agent.make("helper", { description: "Reads", tools: [read], limits: { maxTurns: 30 } })
      const lead = Agent.make("lead", { subAgents: [helper] })
      let reads = 0
      const model = modelOf(
        () => "It was read.",
        ({ agentPath, messages }) => {
          if (agentPath.length > 1) return (reads += 1) < 8 ? { calls: [{ tool: "read" }] } : "Read."
          return messages.at(-1)?.role === "tool"
            ? "Done."
            : { calls: [{ tool: "helper", arguments: { prompt: "Read it all." } }] }
        }
      )
      const { runtime } = yield* under(rebind(lead, model))
      const { onUpdate, updates } = watch()
      const { state } = expect(yield* runPrompt(runtime, { prompt: "Go." }, { onUpdate }), "completed")
      const inside = events(updates).flatMap((event) =>
        event._tag === "child.advanced" ? [event.event._tag] : []
      )
      assert.include(inside, "context.compacted")
      assert.strictEqual(state.usage.requests, model.requests.length)
      assert.strictEqual(state.usage.turns, 2)
    })
  )
})

describe("a run that is stopped while a summary is written", () => {
  it.effect("ends as cancelled, and its next prompt compacts anew", () =>
    Effect.gen(function* () {
      let isHanging = true
      const model = modelOf(() => (isHanging ? { hang: true } : "Facts."))
      const { runtime } = yield* under(rebind(agent, model))
      const state = yield* talk(runtime, twenty.slice(0, 5))
      const token = Cancellation.make()
      const onUpdate = (update: RunUpdate) => {
        if (update._tag === "context.compacting") token.cancel("enough")
      }
      const prompt = long(6)
      const stopped = expect(
        yield* runPrompt(runtime, { state, prompt }, { onUpdate, cancellation: token }),
        "cancelled"
      )
      isHanging = false
      const after = yield* talk(runtime, [long(7)], stopped.state)
      assert.strictEqual(after.compaction?.summary?.text, "Facts.")
    })
  )
})
