import { assert, describe, it } from "@effect/vitest"
import { plan, type Plan } from "../../src/context/internal/plan.ts"
import { viewOf } from "../../src/context/internal/view.ts"
import * as History from "../../src/domain/History.ts"
import { contradictions } from "../../src/domain/internal/contradictions.ts"
import type { Message } from "../../src/domain/Message.ts"
import { type RunState, toolCallParts } from "../../src/domain/RunState.ts"
import { count, goOn, perform, Random, stateOf } from "./Histories.ts"

/** Histories of the properties; `FERMATA_HISTORIES=200000` tries as many, from `FERMATA_HISTORY_SEED` on. */
const histories = Number(process.env["FERMATA_HISTORIES"] ?? 20_000)
const firstSeed = Number(process.env["FERMATA_HISTORY_SEED"] ?? 1)

const none: ReadonlyArray<never> = []

const inputOf = (state: RunState, usable: number, isForced = false) => ({
  history: state.history,
  compaction: state.compaction,
  promptAt: state.promptAt ?? 0,
  recall: "recall",
  count,
  pinned: state.pinned ?? none,
  alsoPinned: () => none,
  usable,
  trigger: 0.85,
  isForced
})

const latestPrompt = (state: RunState): Message | undefined =>
  History.toArray(state.history).findLast(
    (message) => message.role === "user" && message.origin !== "runtime"
  )

/** The problem of a view, as a provider or a person would see it; `undefined` if there is none. */
const faultOf = (state: RunState, messages: ReadonlyArray<Message>): string | undefined => {
  const original = (message: Message) => History.at(state.history, message.sequence)
  const [first] = messages
  if (first?.role !== "user" && History.at(state.history, 0)?.role === "user")
    return "it does not begin with a user"
  let open: Array<string> = []
  let last = -1
  for (const [index, message] of messages.entries()) {
    const isSummary = index === 0 && state.compaction?.summary !== undefined
    if (message.sequence < last) return `message ${index} is out of order`
    last = message.sequence
    if (message.role === "tool") {
      if (open.shift() !== message.callId) return `the result ${message.callId} follows no call of its own`
      continue
    }
    if (open.length > 0) return `the calls ${open.join()} have no result before message ${index}`
    if (message.role === "assistant") {
      // Reasoning and calls stay with their step, byte for byte. Only earlier files are replaced.
      if (message !== original(message)) return `the answer ${message.sequence} was changed`
      open = toolCallParts(message.content).map(({ callId }) => callId)
    } else if (!isSummary && original(message)?.role !== "user") return "a message is not of the history"
  }
  const prompt = latestPrompt(state)
  if (prompt !== undefined && !messages.includes(prompt)) return "the latest message of the user is missing"
  const shown = new Set(
    messages.slice(state.compaction?.summary === undefined ? 0 : 1).map(({ sequence }) => sequence)
  )
  const lost = (state.pinned ?? []).find((sequence) => !shown.has(sequence))
  return lost === undefined ? undefined : `the pinned message ${lost} is missing`
}

/** The calls that wait at the end of a history. */
const openCalls = (state: RunState): ReadonlyArray<string> => {
  const all = History.toArray(state.history)
  const last = all.findLastIndex(({ role }) => role === "assistant")
  const answer = all[last]
  if (answer?.role !== "assistant") return []
  return toolCallParts(answer.content)
    .map(({ callId }) => callId)
    .slice(all.length - last - 1)
}

interface Counts {
  kept: number
  pruned: number
  summarized: number
  tooLarge: number
}

/** Checks a plan and the state after it. Returns that state, or `undefined` if the context is too large. */
const check = (
  state: RunState,
  usable: number,
  random: Random,
  counts: Counts,
  seed: number
): RunState | undefined => {
  const isForced = random.happens(10)
  const made = plan(inputOf(state, usable, isForced))
  const fail = (why: string, of: Plan = made): never =>
    assert.fail(`seed ${seed}, usable ${usable}, ${of._tag}: ${why}`)
  if (made._tag === "TooLarge") {
    counts.tooLarge += 1
    if (made.need <= usable) fail(`it needs only ${made.need}`)
    return undefined
  }
  let after = state
  if (made._tag === "Keep") counts.kept += 1
  else {
    if (made._tag === "Prune") counts.pruned += 1
    else {
      counts.summarized += 1
      if (made.to <= made.from) fail("it summarizes nothing")
      const size = History.size(state.history)
      // The newest step and every open step stay.
      if (made.to >= size) fail("it leaves no step")
      for (const callId of openCalls(state)) {
        const asked = History.toArray(state.history).find(
          (message) =>
            message.role === "assistant" &&
            toolCallParts(message.content).some((part) => part.callId === callId)
        )
        if (asked === undefined || asked.sequence < made.to) fail(`the open call ${callId} is summarized`)
      }
    }
    after = perform(state, made, random)
  }
  const view = viewOf(inputOf(after, usable))
  const problem =
    faultOf(after, view.messages) ??
    (seed % 20 === 0 ? contradictions({ ...after, calls: [] })[0] : undefined)
  // A history with open calls contradicts a state without calls, which is not the planner's matter.
  if (problem !== undefined && !(problem.startsWith("Expected one result") && openCalls(after).length > 0))
    fail(problem)
  const tokens = view.messages.reduce((sum, message) => sum + count(message), 0)
  if (tokens !== view.tokens + view.summaryTokens)
    fail(`it counts ${view.tokens + view.summaryTokens} of ${tokens} tokens`)
  if (made._tag !== "Keep" || !isForced) if (tokens > usable) fail(`the view has ${tokens} tokens`)
  if (made._tag === "Summarize" || made._tag === "Prune") {
    const next = plan(inputOf(after, usable))
    if (next._tag === "Summarize" && made._tag === "Summarize") fail("another summary is due at once")
    if (next._tag === "Prune" && made._tag === "Prune") fail("another pruning is due at once")
  }
  if (after.history !== state.history) fail("the history has changed")
  return after
}

describe("a plan for a context", () => {
  it(
    "is valid, fits, keeps what must stay and is not followed by another, for random histories",
    { timeout: 60_000 + histories * 5 },
    () => {
      const counts: Counts = { kept: 0, pruned: 0, summarized: 0, tooLarge: 0 }
      let planned = 0
      for (let seed = firstSeed; planned < histories; seed += 1) {
        const random = new Random(seed)
        const usable = Math.ceil(300 + 60_000 * random.next() ** 2)
        let state: RunState | undefined = stateOf(random)
        // The conversation goes on over several compactions.
        for (let stage = 0; stage < 8 && state !== undefined && planned < histories; stage += 1) {
          planned += 1
          state = check(state, usable, random, counts, seed)
          if (state !== undefined) state = goOn(state, random)
        }
      }
      if (process.env["FERMATA_HISTORIES"] !== undefined) console.log(counts)
      // Each outcome is common enough to be tested.
      for (const times of Object.values(counts)) assert.isAbove(times, planned / 100)
    }
  )
})

describe("a view", () => {
  it("is the history itself before the first compaction, message by message", () => {
    const state = stateOf(new Random(7))
    const { messages } = viewOf(inputOf({ ...state, promptAt: 0 }, 1e9))
    assert.deepStrictEqual(messages, History.toArray(state.history))
    assert.isTrue(messages.every((message, index) => message === History.at(state.history, index)))
  })

  it("gives the same objects in later turns, so that their counts and encodings stay valid", () => {
    const random = new Random(11)
    let state = stateOf(random)
    const made = plan(inputOf(state, 4000, true))
    if (made._tag === "Summarize") state = perform(state, made, random)
    const before = viewOf(inputOf(state, 4000)).messages
    const later = viewOf(inputOf({ ...goOn(state, random), promptAt: state.promptAt! }, 4000)).messages
    assert.isAbove(before.length, 1)
    assert.isTrue(before.every((message, index) => message === later[index]))
  })

  it("counts what follows the summary once, and later only what was added, in a history of any length", () => {
    const message = (sequence: number): Message => ({
      role: "user",
      sequence,
      at: 1,
      content: [{ _tag: "text", text: "Hello." }]
    })
    let counted = 0
    const counting = (one: Message) => {
      counted += 1
      return count(one)
    }
    for (const size of [200, 100_000]) {
      let history = History.fromArray(Array.from({ length: size }, (_, index) => message(index)))
      const summary = { text: "short", to: size - 100, quality: "model" as const, at: 1 }
      const input = {
        ...inputOf(stateOf(new Random(1)), 1e6),
        compaction: { summary },
        pinned: none,
        count: counting
      }
      counted = 0
      viewOf({ ...input, history })
      assert.strictEqual(counted, 101)
      counted = 0
      for (let turn = 0; turn < 3; turn += 1) {
        history = History.append(history, message(History.size(history)))
        viewOf({ ...input, history })
      }
      // The summary, and the tail of fewer than 64 messages.
      assert.isAtMost(counted, 3 * (1 + History.chunkSize))
    }
  })
})
