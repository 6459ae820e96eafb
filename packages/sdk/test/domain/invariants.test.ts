import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { vi } from "vitest"
import { isWrappingUp } from "../../src/domain/Budget.ts"
import { decide, expiryDecision } from "../../src/domain/decide.ts"
import type { Decision } from "../../src/domain/Decision.ts"
import { evolve, evolveAll } from "../../src/domain/evolve.ts"
import { grantId } from "../../src/domain/Id.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import { constraintsOf, canAdvance, mayStart, next } from "../../src/domain/next.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import { unwrap, wrap } from "../../src/domain/RunEvent.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import {
  findChild,
  findRequest,
  interruptions,
  isEnded,
  isOpen,
  isSettled,
  messages,
  providerMessages
} from "../../src/domain/RunState.ts"
import * as RunStateCodec from "../../src/domain/RunStateCodec.ts"
import { always, numRuns } from "./Always.ts"
import { difference, historyFault, Ledger, notPlain } from "./Ledger.ts"
import { enough } from "./MadeUp.ts"
import type { Asked, Trace } from "./Simulation.ts"
import { runsIn, simulate, waitedFor } from "./Simulation.ts"

// A busy machine and the shrinking of a failure take longer than the default timeout.
vi.setConfig({ testTimeout: 300_000 })

const isSame = (actual: unknown, expected: unknown, what: string) => {
  const where = difference(actual, expected)
  if (where !== undefined) {
    assert.deepStrictEqual(actual, expected, `${what}: ${where}`)
    assert.fail(`${what}: ${where}`)
  }
}

describe("a journal (I1)", () => {
  it(
    "gives the state in memory for every prefix, also through JSON",
    always(({ events, states }) => {
      const read = JSON.parse(JSON.stringify(events)) as ReadonlyArray<RunEvent>
      let state: RunState | undefined
      read.forEach((event, index) => {
        state = evolve(state, event)
        isSame(state, states[index], `after ${index + 1} events`)
      })
    })
  )

  it(
    "gives the same state when it is folded at once, at every revision of every run of the session",
    always(({ events, states }) => {
      for (let length = 1; length <= events.length; length += 1) {
        isSame(evolveAll(undefined, events.slice(0, length)), states[length - 1], `${length} events at once`)
      }
    })
  )

  it(
    "can be cut anywhere, and another process continues it to an end",
    always(({ events, states }, numbers) => {
      const cut = (numbers[0] ?? 0) % events.length
      const left = JSON.parse(JSON.stringify(events.slice(0, cut + 1))) as ReadonlyArray<RunEvent>
      const state = evolveAll(undefined, left)!
      isSame(state, states[cut], "the cut journal")
      for (const rest of [[], numbers.slice(0, 60)]) {
        const { end } = simulate(rest, state)
        assert.isTrue(isEnded(end))
        assert.isUndefined(historyFault(providerMessages(end)))
      }
    })
  )

  it(
    "counts its events in the revision",
    always(({ events, states }) => {
      let revision = 0
      events.forEach((event, index) => {
        revision = event._tag === "run.started" ? 1 : revision + 1
        assert.strictEqual(states[index]!.revision, revision)
      })
    })
  )
})

describe("a state (I2)", () => {
  it(
    "is plain JSON, as is every event",
    always(({ events, states }) => {
      const seen = new WeakSet<object>()
      for (const value of [...states, ...events]) assert.isUndefined(notPlain(value, seen))
    })
  )

  it(
    "survives a structured clone unchanged",
    always(({ states }) => {
      for (const state of states.filter((_, index) => index % 5 === 0)) {
        isSame(structuredClone(state), state, "the clone")
      }
    })
  )
})

describe("RunStateCodec (I3)", () => {
  it(
    "reads back every reachable state unchanged",
    always(({ states }) => {
      // The last state and every fourth before it: neighbors are almost equal.
      for (const state of states.filter((_, index) => (states.length - 1 - index) % 4 === 0))
        isSame(Result.getOrThrow(RunStateCodec.decode(RunStateCodec.encode(state))), state, "read")
    })
  )

  it(
    "reads back every event unchanged",
    always(({ events }) => {
      isSame(
        Result.getOrThrow(RunStateCodec.decodeEvents(RunStateCodec.encodeEvents(events), 1)),
        events,
        "read"
      )
    })
  )
})

describe("evolve (I4)", () => {
  it("gives the same state for any order of parallel results and independent decisions", () => {
    let crossed = 0
    always(({ states }, numbers) => {
      let chosen = 0
      const random = (below: number) => (numbers[chosen++ % numbers.length] ?? 0) % below
      for (const state of states) {
        if (isEnded(state)) continue
        const events = independentEvents(state, random)
        if (events.length < 2) continue
        crossed += 1
        const inOrder = evolveAll(state, events)
        isSame(evolveAll(state, shuffled(events, random)), inOrder, "shuffled")
        isSame(evolveAll(state, events.toReversed()), inOrder, "reversed")
      }
    })()
    assert.isAbove(crossed, numRuns)
  })
})

/** A result of each running body, and a decision on each open request. */
const independentEvents = (state: RunState, random: (below: number) => number): ReadonlyArray<RunEvent> => {
  const results = state.calls.flatMap((call, index): ReadonlyArray<RunEvent> =>
    call.status === "started" && call.child === undefined
      ? [
          {
            _tag: "tool.completed",
            at: 5000 + index,
            callId: call.id,
            content: [{ _tag: "text", text: call.id }]
          }
        ]
      : []
  )
  const decisions = interruptions(state).flatMap((request, index) => {
    const result = decide(state, anyAnswer(request, 6000 + index, random))
    return Result.getOrThrow(result)
  })
  return [...results, ...decisions]
}

const anyAnswer = (request: Interruption, at: number, random: (below: number) => number): Decision => {
  const fields = { requestId: request.requestId, by: `person ${at}`, at }
  switch (request._tag) {
    case "approval":
      return [
        { _tag: "approve", ...fields } as const,
        { _tag: "approve", ...fields, arguments: { edited: at } } as const,
        {
          _tag: "approve",
          ...fields,
          ...(request.safety === "privileged" ? {} : { grant: { scope: "run" } as const })
        } as const,
        { _tag: "deny", ...fields, then: "stop" } as const,
        { _tag: "deny", ...fields } as const,
        { _tag: "supply", ...fields, result: at } as const
      ][random(6)]!
    case "question":
      return { _tag: "answer", ...fields, answer: `answer ${at}` }
    case "inDoubt":
      return [{ _tag: "retry", ...fields } as const, { _tag: "fail", ...fields } as const][random(2)]!
    case "limit":
      return { _tag: "topUp", ...fields, limit: enough(request) }
    case "login":
      return { _tag: "deny", ...fields }
    case "timer":
    case "external":
      return [
        { _tag: "supply", ...fields, result: at } as const,
        { _tag: "fail", ...fields } as const,
        expiryDecision(request)
      ][random(3)]!
  }
}

const shuffled = <A>(items: ReadonlyArray<A>, random: (below: number) => number): ReadonlyArray<A> => {
  const out = items.slice()
  for (let i = out.length - 1; i > 0; i--) {
    const j = random(i + 1)
    ;[out[i], out[j]] = [out[j]!, out[i]!]
  }
  return out
}

describe("a late report (I7)", () => {
  it(
    "of a settled call changes the revision only",
    always(({ events, states }) => {
      const settled = new Map<string, RunEvent>()
      events.forEach((event, index) => {
        const state = states[index]!
        for (const late of settled.values()) {
          isSame(evolve(state, late), { ...state, revision: state.revision + 1 }, `late ${late._tag}`)
        }
        if (event._tag === "run.started") settled.clear()
        const callId =
          event._tag === "tool.failed" || event._tag === "tool.completed" ? event.callId : undefined
        if (callId !== undefined) {
          const content = [{ _tag: "text", text: "late" } as const]
          settled.set(callId, { _tag: "tool.completed", at: 9000, callId, content })
        }
        for (const call of state.calls) {
          if (call.child === undefined || !isSettled(call)) continue
          settled.set(call.id, {
            _tag: "child.advanced",
            at: 9000,
            callId: call.id,
            event: { _tag: "run.resumed", at: 9000 }
          })
        }
      })
    })
  )
})

describe("a history (I5)", () => {
  it(
    "is valid for a provider in every reachable state, with one result per call and a gapless sequence",
    always(({ states }) => {
      for (const state of states) {
        for (const run of runsIn(state)) assert.isUndefined(historyFault(providerMessages(run)))
      }
    })
  )

  it(
    "only grows, except that an approval can edit the arguments of the open answer",
    always(({ events, states }) => {
      for (let i = 1; i < states.length; i++) {
        const before = messages(states[i - 1]!)
        const after = messages(states[i]!)
        const edited = unwrap(events[i]!).event._tag === "request.decided" ? 1 : 0
        assert.isAtLeast(after.length, before.length)
        for (let at = 0; at < before.length - edited; at++) assert.strictEqual(after[at], before[at])
      }
    })
  )

  it(
    "keeps every message of the user to each run of a tree, in order",
    always(({ events, states }) => {
      const ledger = new Ledger()
      events.forEach((event, index) => {
        ledger.read(event)
        const { _tag } = unwrap(event).event
        if (_tag !== "message.queued" && _tag !== "model.answered" && !_tag.startsWith("run.")) return
        for (const run of runsIn(states[index]!)) {
          const kept = [
            ...messages(run).flatMap((message) => (message.role === "user" ? [message] : [])),
            ...run.queued
          ].filter(({ origin }) => origin === undefined)
          assert.deepStrictEqual(
            kept.map(({ content }) => JSON.stringify(content)),
            ledger.runs.get(run.runId)!.said
          )
        }
        const { calls, queued, status } = states[index]!
        if (status !== "running" && calls.length === 0) assert.deepStrictEqual(queued, [])
      })
    })
  )

  it(
    "has each answer right after the messages that its model got",
    always(({ given, states }) => {
      for (const { answer, state } of given) {
        const before = providerMessages(state)
        const run = runsIn(states[answer]!).find(({ runId }) => runId === state.runId)!
        isSame(messages(run).slice(0, before.length), before, "the messages before the answer")
        assert.strictEqual(messages(run)[before.length]?.role, "assistant")
      }
    })
  )

  it(
    "never ends a run before the model has read the user's last message",
    always(({ events, states }) => {
      events.forEach((wrapped, index) => {
        const { event, path } = unwrap(wrapped)
        if (event._tag !== "run.completed") return
        const before = path.reduce<RunState>((run, callId) => findChild(run, callId)!, states[index - 1]!)
        assert.deepStrictEqual(before.queued, [])
        assert.strictEqual(messages(before).at(-1)?.role, "assistant")
      })
    })
  )
})

describe("a tool call (I6)", () => {
  it(
    "gets its own result under its own id when the provider repeats an id",
    always(({ events, states }) => {
      const ledger = new Ledger()
      events.forEach((event, index) => {
        ledger.read(event)
        if (event._tag === "run.started") return
        for (const run of runsIn(states[index]!)) {
          assert.strictEqual(run.toolCalls, ledger.runs.get(run.runId)!.calls)
          for (const call of run.calls) {
            const logged = ledger.calls.get(call.id)!
            assert.strictEqual(call.providerCallId, logged.providerCallId)
            if (call.target === "tool") assert.strictEqual(call.attempt, logged.starts)
            assert.strictEqual<string | undefined>(call.result?.outcome, logged.settled)
          }
        }
      })
      for (const message of messages(states.at(-1)!)) {
        if (message.role !== "tool") continue
        const logged = ledger.calls.get(message.callId)!
        assert.strictEqual(message.outcome, logged.settled ?? "cancelled")
        assert.strictEqual(message.providerCallId, logged.providerCallId)
        const text = message.content[0]?._tag === "text" ? message.content[0].text : ""
        if (text.startsWith("result of ")) assert.strictEqual(text, `result of ${message.callId}`)
      }
    })
  )

  it(
    "starts only with consent and once, and again only after a crash or a retry (I7)",
    always(({ events }) => {
      const ledger = new Ledger()
      for (const event of events) ledger.read(event)
      assert.deepStrictEqual(ledger.faults, [])
    })
  )
})

/** Replays the journal, and passes each step with the ledger at that moment. */
const eachStep = ({ asked, events }: Trace, look: (asked: Asked, ledger: Ledger) => void) => {
  const ledger = new Ledger()
  let read = 0
  for (const step of asked) {
    while (read < step.at) ledger.read(events[read++]!)
    look(step, ledger)
  }
}

describe("next", () => {
  it(
    "returns the same step for a state that went through JSON",
    always(({ states }) => {
      for (const state of states)
        isSame(next(JSON.parse(JSON.stringify(state)) as RunState), next(state), "next")
    })
  )

  it(
    "never runs a settled, undecided or running call (I7)",
    always((trace) =>
      eachStep(trace, ({ step }, ledger) => {
        if (step._tag === "SettleToolCalls") {
          assert.isNotEmpty(step.callIds)
          for (const callId of step.callIds) {
            const call = ledger.calls.get(callId)!
            assert.isUndefined(call.settled)
            assert.isTrue(call.released)
            assert.isBelow(call.starts, call.allowedStarts)
          }
        } else if (step._tag === "Reconcile") {
          assert.isNotEmpty(step.callIds)
          for (const callId of step.callIds) {
            const call = ledger.calls.get(callId)!
            assert.isUndefined(call.settled)
            assert.isAbove(call.starts, 0)
          }
        } else if (step._tag === "ResumeChildren") {
          assert.isNotEmpty(step.callIds)
          for (const callId of step.callIds) {
            const call = ledger.calls.get(callId)!
            assert.isUndefined(call.settled)
            assert.isTrue(call.released)
            assert.strictEqual(call.target, "agent")
          }
        } else if ("callId" in step) {
          const call = ledger.calls.get(step.callId)!
          assert.isUndefined(call.settled)
          assert.isTrue(call.released)
          assert.isFalse(ledger.runs.has(step.callId))
        } else if (step._tag === "ClassifyCalls") {
          for (const callId of step.callIds) assert.isFalse(ledger.calls.get(callId)!.released)
        }
      })
    )
  )

  it(
    "never calls the model while a call or a request is open, and counts the turns (I7b)",
    always((trace) =>
      eachStep(trace, ({ path, state, step }, ledger) => {
        if (step._tag !== "CallModel") return
        const run = ledger.runAt(path)
        for (const call of run.turn) assert.isDefined(call.settled)
        assert.isFalse(state.requests.some(isOpen))
        assert.strictEqual(step.turn, run.answers + 1)
        if (!isWrappingUp(state)) assert.isBelow(run.answers, state.limits.maxTurns)
        assert.notStrictEqual(messages(state).at(-1)?.role, "assistant")
      })
    )
  )

  it(
    "runs a side-effecting call alone, after every call before it",
    always((trace) =>
      eachStep(trace, ({ path, step }, ledger) => {
        const callIds =
          step._tag === "SettleToolCalls"
            ? step.callIds
            : step._tag === "StartBackground" || step._tag === "SettleAgents"
              ? [step.callId]
              : []
        const calls = callIds.map((callId) => ledger.calls.get(callId)!)
        const effect = calls.find((call) => !call.readOnly)
        if (effect === undefined) return
        assert.strictEqual(calls.length, 1)
        for (const before of ledger.runAt(path).turn.slice(0, effect.ordinal - 1)) {
          if (before.target !== "handoff") assert.isDefined(before.settled)
        }
      })
    )
  )

  it(
    "starts a sub-agent after the results of all calls before it, except other sub-agents'",
    always((trace) =>
      eachStep(trace, ({ path, step }, ledger) => {
        if (step._tag !== "ResumeChildren") return
        for (const callId of step.callIds) {
          for (const before of ledger.runAt(path).turn.slice(0, ledger.calls.get(callId)!.ordinal - 1)) {
            if (before.target !== "agent" && before.target !== "handoff") assert.isDefined(before.settled)
          }
        }
      })
    )
  )

  it(
    "hands over after the results of all other calls",
    always((trace) =>
      eachStep(trace, ({ path, step }, ledger) => {
        if (step._tag !== "HandOff") return
        assert.strictEqual(ledger.calls.get(step.callId)!.target, "handoff")
        for (const other of ledger.runAt(path).turn) {
          if (other.target !== "handoff") assert.isDefined(other.settled)
        }
      })
    )
  )

  it(
    "runs contiguous reads together, and lets them pass undecided calls only",
    always((trace) =>
      eachStep(trace, ({ line, state, step }, ledger) => {
        if (step._tag !== "SettleToolCalls" || !ledger.calls.get(step.callIds[0]!)!.readOnly) return
        const expected: Array<string> = []
        let undecided = false
        const runs = [...line, state]
        const isAtWork = (callId: string) => ledger.runs.get(callId)?.ended === false
        for (const call of state.calls) {
          if (isSettled(call) || call.target === "handoff") continue
          const waited = waitedFor(call)
          const isStart = call.target === "agent" || call.target === "background"
          const isReady =
            call.child === undefined
              ? call.status === "ready" &&
                (!isStart || mayStart(runs)) &&
                (waited === undefined ||
                  !(state.background ?? []).some(
                    ({ callId }) => (waited === "all" || waited.includes(callId)) && isAtWork(callId)
                  ))
              : canAdvance(call.child, constraintsOf(runs))
          const { readOnly } = ledger.calls.get(call.id)!
          if (isReady && readOnly) expected.push(call.id)
          else if (isReady && !undecided) break
          else if (!isReady) undecided = true
        }
        assert.deepStrictEqual<ReadonlyArray<string>>(step.callIds, expected)
      })
    )
  )

  it(
    "holds a run on exactly its open requests, at least one",
    always((trace) =>
      eachStep(trace, ({ path, step }, ledger) => {
        if (step._tag !== "Hold" || path.length > 0) return
        assert.isNotEmpty(step.requests)
        assert.deepStrictEqual(
          step.requests.map((request) => request.requestId as string).toSorted(),
          ledger.open().toSorted()
        )
      })
    )
  )

  it(
    "finishes a run when nothing is open, or when it was cancelled, stopped or failed",
    always((trace) =>
      eachStep(trace, ({ path, state, step }, ledger) => {
        if (step._tag !== "Finish") return
        const run = ledger.runAt(path)
        switch (step.end._tag) {
          case "completed":
            for (const call of run.turn) assert.isDefined(call.settled)
            if (state.status === "running") assert.strictEqual(messages(state).at(-1)?.role, "assistant")
            return
          case "cancelled":
            return assert.isTrue(state.status === "cancelled" || state.stop !== undefined)
          case "failed":
            return assert.isTrue(
              state.status === "error" ||
                step.end.failure._tag === "BudgetExceeded" ||
                step.end.failure._tag === "WorkersLost"
            )
        }
      })
    )
  )

  it(
    "opens a limit request only in a run that can ask, and not again after a top-up or a denial",
    always((trace) => {
      for (const { state, step } of trace.asked) {
        if (step._tag !== "AskLimit") continue
        assert.isTrue(state.asks)
        for (const { request, decision } of state.requests) {
          if (request._tag !== "limit" || request.runId !== state.runId || decision?._tag !== "deny") continue
          assert.isFalse(request.budget === step.exceeded.budget && request.limit === step.exceeded.limit)
        }
      }
      trace.events.forEach((event, index) => {
        const { event: inner } = unwrap(event)
        if (inner._tag !== "request.decided" || inner.decision._tag !== "topUp") return
        const state = trace.states[index]!
        const { record } = findRequest(state, inner.decision.requestId)!
        const run = runsIn(state).find((run) => run.runId === record.request.runId)!
        const step = next(run)
        if (step._tag !== "AskLimit" || record.request._tag !== "limit") return
        assert.notStrictEqual(step.exceeded.budget, record.request.budget)
      })
    })
  )
})

describe("decide", () => {
  it(
    "accepts the first fitting decision, and rejects every other with its own reason",
    always(({ attempts, events }) => {
      const ledger = new Ledger()
      let read = 0
      for (const { at, before, decision, result } of attempts) {
        while (read < at) ledger.read(events[read++]!)
        const actual = Result.isSuccess(result) ? "taken" : result.failure._tag
        assert.strictEqual(actual, ledger.verdict(decision), `${decision._tag} of ${decision.requestId}`)
        if (Result.isFailure(result) && result.failure._tag === "AlreadyDecided") {
          isSame(
            result.failure.decision,
            ledger.requests.get(decision.requestId)!.decision,
            "the decision that stands"
          )
        }
        if (Result.isSuccess(result)) {
          const { path } = findRequest(before, decision.requestId)!
          const isGiving = decision._tag === "approve" && decision.grant !== undefined
          const kept = isGiving ? { kept: grantId(decision.requestId) } : {}
          const saying =
            decision._tag === "approve"
              ? decision.arguments
              : decision._tag === "deny"
                ? decision.note
                : undefined
          const informs = saying === undefined ? {} : { informs: true as const }
          const expected = wrap(
            { _tag: "request.decided", at: decision.at, decision, ...kept, ...informs },
            path
          )
          assert.deepStrictEqual(result.success, [expected])
        }
      }
    })
  )

  it(
    "rejects a repeated decision at any later time of the run",
    always(({ events, states }) => {
      let decided: Array<Decision> = []
      events.forEach((wrapped, index) => {
        const { event } = unwrap(wrapped)
        if (wrapped._tag === "run.started") decided = []
        for (const decision of decided) {
          const again = decide(states[index]!, { ...decision, by: "second", at: decision.at + 1 })
          assert.isTrue(Result.isFailure(again))
          if (Result.isFailure(again)) assert.strictEqual(again.failure._tag, "AlreadyDecided")
        }
        if (event._tag === "request.decided") decided.push(event.decision)
      })
    })
  )
})
