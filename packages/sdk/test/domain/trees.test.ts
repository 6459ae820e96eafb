import { assert, describe, it } from "@effect/vitest"
import { vi } from "vitest"
import { available, isWrappingUp, promisedAway, workedMs } from "../../src/domain/Budget.ts"
import { evolve, evolveAll } from "../../src/domain/evolve.ts"
import { contradictions } from "../../src/domain/internal/contradictions.ts"
import { callIdOf } from "../../src/domain/Interruption.ts"
import { budgetOf } from "../../src/domain/Limits.ts"
import { textOf, type UserMessage } from "../../src/domain/Message.ts"
import { constraintsOf, next } from "../../src/domain/next.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import {
  children,
  findCall,
  findChild,
  findRequest,
  interruptions,
  isEnded,
  isOpen,
  isSettled,
  messages,
  policiesOf,
  providerMessages
} from "../../src/domain/RunState.ts"
import { always, numRuns } from "./Always.ts"
import { difference, historyFault, Ledger, type LedgerRun } from "./Ledger.ts"
import type { Trace } from "./Simulation.ts"
import { mayStep, runsIn } from "./Simulation.ts"

// A busy machine and the shrinking of a failure take longer than the default timeout.
vi.setConfig({ testTimeout: 300_000 })

type Told = ReturnType<typeof unwrap>

/** Passes each event with the state after it, and the ledger before and after it. */
const eachEvent =
  (
    after: (told: Told, state: RunState, ledger: Ledger, index: number) => void,
    before: (told: Told, ledger: Ledger) => void = () => {}
  ) =>
  ({ events, states }: Trace) => {
    const ledger = new Ledger()
    events.forEach((event, index) => {
      const told = unwrap(event)
      before(told, ledger)
      ledger.read(event)
      after(told, states[index]!, ledger, index)
    })
  }

/** The run at the end of a path, ended or live. */
const at = (state: RunState, path: Told["path"]): RunState | undefined =>
  path.reduce<RunState | undefined>(
    (run, callId) => (run === undefined ? undefined : findChild(run, callId)),
    state
  )

/** The live runs of a tree with their paths. */
const atWork = (state: RunState, path: Told["path"] = []): ReadonlyArray<[Told["path"], RunState]> =>
  isEnded(state)
    ? []
    : [[path, state], ...children(state).flatMap(({ callId, child }) => atWork(child, [...path, callId]))]

describe("a run with sub-agents", () => {
  it(
    "never completes while one of them is live",
    always(
      eachEvent(
        () => {},
        ({ event, path }, ledger) => {
          if (event._tag !== "run.completed") return
          for (const { ended, id } of ledger.under(ledger.runAt(path)))
            assert.notStrictEqual(ended, false, id)
        }
      )
    )
  )

  it(
    "ends each of them once when it is cancelled, and none continues afterwards",
    always((trace) => {
      eachEvent(({ event, path }, state, ledger) => {
        for (const { ends, id } of ledger.runs.values()) if (id !== state.runId) assert.isAtMost(ends, 1)
        if (event._tag !== "run.cancelled") return
        const cancelled = ledger.runAt(path)
        for (const { ended, ends } of ledger.under(cancelled)) {
          assert.strictEqual(ended, ends === 1 ? "itself" : "implied")
        }
        const run = at(state, path)
        if (run === undefined || !isEnded(run)) return
        assert.deepStrictEqual(children(run), [])
        for (const { callId, child, ended } of run.background ?? []) {
          assert.isUndefined(child)
          assert.isDefined(ended)
          assert.notStrictEqual(ledger.runs.get(callId)!.ended, false)
        }
      })(trace)
      const ledger = new Ledger()
      for (const event of trace.events) ledger.read(event)
      assert.deepStrictEqual(ledger.faults, [])
    })
  )

  it(
    "gets the end of each background sub-agent once, and nothing of a live one",
    always(
      eachEvent(({ event }, state, ledger, index) => {
        if (!event._tag.startsWith("run.") && index % 6 > 0) return
        for (const [, run] of [...atWork(state), [[], state] as const]) {
          const heard = [...messages(run), ...run.queued]
            .filter((said) => ("role" in said ? said.role === "user" : true) && "origin" in said)
            .map((said) => textOf((said as UserMessage).content))
          for (const { callId, child, ended } of run.background ?? []) {
            const told = heard.filter((text) => text.includes(`(${callId}) has `))
            const logged = ledger.runs.get(callId)!
            assert.strictEqual(told.length, logged.ended === "itself" ? 1 : 0, callId)
            assert.strictEqual(child === undefined, logged.ended !== false)
            if (ended !== undefined && told.length === 1) {
              assert.strictEqual(ended.status === "completed", told[0]!.includes("has finished"))
            }
          }
        }
      })
    )
  )

  it(
    "is not held by a held background sub-agent while it can advance itself",
    always(({ states }) => {
      for (const state of states) {
        for (const [path, run] of atWork(state)) {
          const { background } = run
          if (background?.some(({ child }) => child !== undefined) !== true) continue
          const above = constraintsOf(path.map((_, depth) => at(state, path.slice(0, depth))!))
          // A run whose rest is reserved waits for the sub-agents.
          if (next(run, above)._tag !== "Hold" || promisedAway(run) !== undefined) continue
          const ended = { status: "completed" as const, at: 0 }
          const others = background.map(({ callId, name }) => ({ callId, name, ended }))
          const alone = next({ ...run, background: others }, above)
          // Without them it would be held as well, or end, or stop waiting.
          if (alone._tag === "SettleAgents") {
            assert.strictEqual(findCall(run, alone.callId)!.name, "wait_for_agent")
          } else if (alone._tag === "Finish") assert.strictEqual(alone.end._tag, "completed")
          else assert.include(["Hold", "DecodeOutput"], alone._tag)
        }
      }
    })
  )

  it(
    "is held exactly when nothing in its tree can advance",
    always(({ states }) => {
      for (const state of states) {
        if (isEnded(state)) continue
        const goesOn = atWork(state).filter(([path, run]) => {
          return mayStep(
            run,
            path.map((_, depth) => at(state, path.slice(0, depth))!)
          )
        })
        assert.strictEqual(next(state)._tag === "Hold", goesOn.length === 0, String(goesOn[0]?.[0]))
      }
    })
  )

  it(
    "counts the usage of all runs under it, at any depth, ended ones included",
    always(
      eachEvent((_, state, ledger) => {
        for (const run of runsIn(state)) {
          const logged = ledger.runs.get(run.runId)
          if (logged === undefined) continue
          const { cents, requests, tokens, toolCalls, turns, unpriced } = ledger.consumed(logged)
          const { usage, below = { turns: 0, toolCalls: 0 } } = run
          assert.deepStrictEqual(
            [
              usage.turns + below.turns,
              run.toolCalls + below.toolCalls,
              usage.requests,
              usage.inputTokens + usage.outputTokens,
              usage.unpricedRequests,
              usage.costUsd
            ],
            [turns, toolCalls, requests, tokens, unpriced, cents / 100]
          )
          assert.deepStrictEqual([usage.turns, run.toolCalls], [logged.own.turns, logged.own.toolCalls])
        }
      })
    )
  )

  it("has the same state for any order of its attached sub-agents' progress (I4)", () => {
    let swapped = 0
    always(({ events, states }) => {
      for (let i = 1; i + 1 < events.length; i++) {
        const [one, other] = [events[i]!, events[i + 1]!]
        if (!isBySiblings(one, other, states[i - 1]!)) continue
        swapped += 1
        const where = difference(evolveAll(states[i - 1], [other, one]), states[i + 1])
        assert.isUndefined(where, `${unwrap(one).event._tag} and ${unwrap(other).event._tag}`)
      }
    })()
    assert.isAbove(swapped, numRuns / 5)
  })

  it(
    "has no contradiction, and no open request of a call that does not wait for it",
    always(({ states }) => {
      for (const state of states) {
        for (const run of runsIn(state)) assert.deepStrictEqual(contradictions(run), [])
        for (const [, run] of atWork(state)) {
          for (const { request } of run.requests.filter(isOpen)) {
            const callId = callIdOf(request)
            if (callId === undefined) continue
            assert.strictEqual(findCall(run, callId)?.requestId, request.requestId)
          }
        }
      }
    })
  )

  it(
    "keeps each request of its tree until it is decided, superseded or its run has ended",
    always(
      eachEvent((_, state, ledger) => {
        const open = isEnded(state) ? [] : interruptions(state).map(({ requestId }) => requestId as string)
        assert.deepStrictEqual(open.toSorted(), ledger.open().toSorted())
        for (const { decision, path, request } of ledger.requests.values()) {
          if (path.some((callId) => ledger.runs.get(callId)!.ended !== false)) continue
          const record = findRequest(state, request.requestId)?.record
          assert.isDefined(record, request.requestId)
          assert.strictEqual(record?.decision, decision)
        }
      })
    )
  )

  it(
    "changes only its agent, policy and output form in a handoff",
    always(({ events, states }) => {
      events.forEach((wrapped, index) => {
        const { event, path } = unwrap(wrapped)
        if (event._tag !== "agent.changed") return
        const changed = at(states[index]!, path)!
        const { agent, agentPath, background, policy, recoveries, revision, ...rest } = changed
        const { otherPolicies, structured, under, ...after } = rest
        const before = at(states[index - 1]!, path)!
        const { agent: _, agentPath: __, background: was, policy: ___, recoveries: ____, ...others } = before
        const { otherPolicies: _____, revision: ______, structured: _______, ...were } = others
        const { under: ________, ...same } = were
        assert.deepStrictEqual(after, same)
        // The live sub-agents keep the policies of the agent that started them.
        const kept = was?.map((entry) =>
          entry.child === undefined ? entry : { starterPolicies: policiesOf(before), ...entry }
        )
        assert.deepStrictEqual(background, kept)
        assert.isUndefined(recoveries)
        assert.strictEqual(under, before.under ?? before.agent.name)
        assert.deepStrictEqual([agent, policy, structured], [event.agent, event.policy, event.structured])
        assert.deepStrictEqual(otherPolicies, event.otherPolicies)
        assert.deepStrictEqual(agentPath, [...before.agentPath.slice(0, -1), event.agent.name])
        assert.strictEqual(revision, before.revision + 1)
        assert.isUndefined(historyFault(providerMessages(at(states[index]!, path)!)))
      })
    })
  )
})

/** Whether two events come from different attached sub-agents of one run, and neither is a start. */
const isBySiblings = (one: RunEvent, other: RunEvent, state: RunState): boolean => {
  if (one._tag !== "child.advanced" || other._tag !== "child.advanced") return false
  const calls = [findCall(state, one.callId), findCall(state, other.callId)]
  if (one.callId !== other.callId) {
    return calls.every((call) => call?.target === "agent" && !isSettled(call))
  }
  const child = findChild(state, one.callId)
  return child !== undefined && isBySiblings(one.event, other.event, child)
}

const parted = ["tokens", "cost"] as const

const endings: ReadonlyArray<string> = ["run.completed", "run.failed", "run.cancelled"]

/** The rest of a run's budget after its reservations. */
const leftOf = (ledger: Ledger, run: LedgerRun, budget: "tokens" | "cost"): number | undefined => {
  const limit = budgetOf(run.limits, budget)
  return limit === undefined ? undefined : limit - ledger.spent(run, budget, 0) - ledger.promised(run, budget)
}

describe("a budget", () => {
  it(
    "is never reserved twice: spent and reserved amounts fit into it when a sub-agent starts",
    always((trace) => {
      let before: ReadonlyArray<number> = []
      const promised = (ledger: Ledger, path: Told["path"]) =>
        path.flatMap((_, depth) =>
          (["tokens", "cost"] as const).map((budget) =>
            ledger.promised(ledger.runAt(path.slice(0, depth)), budget)
          )
        )
      eachEvent(
        ({ event, path }, _, ledger) => {
          if (event._tag !== "run.started" || path.length === 0) return
          const line = ledger.line(ledger.runAt(path)).toReversed()
          for (const budget of ["tokens", "cost"] as const) {
            const owner = line.find(({ limits }) => budgetOf(limits, budget) !== undefined)
            if (owner !== undefined) assert.isAtLeast(leftOf(ledger, owner, budget)!, -1e-9)
          }
          // Above the first run with its own budget, the amount was reserved before.
          promised(ledger, path).forEach((sum, index) => {
            const run = line.toReversed()[Math.floor(index / 2)]!
            const budget = (["tokens", "cost"] as const)[index % 2]!
            const between = line.slice(0, line.indexOf(run))
            if (between.some(({ limits }) => budgetOf(limits, budget) !== undefined)) {
              assert.closeTo(sum, before[index]!, 1e-9)
            }
          })
        },
        ({ event, path }, ledger) => {
          if (event._tag === "run.started" && path.length > 0) before = promised(ledger, path)
        }
      )(trace)
    })
  )

  it(
    "has a rest without spent and reserved amounts, and gets unused reservations back",
    always((trace) => {
      let before: ReadonlyArray<number | undefined> = []
      const left = (ledger: Ledger, run: LedgerRun) =>
        ledger.line(run).flatMap((above) => parted.map((budget) => leftOf(ledger, above, budget)))
      eachEvent(
        ({ event, path }, state, ledger) => {
          for (const [, run] of atWork(state)) {
            for (const budget of parted) {
              const expected = leftOf(ledger, ledger.runs.get(run.runId)!, budget)
              const actual = available(run, budget)
              if (expected === undefined) assert.isUndefined(actual)
              else assert.closeTo(actual!, expected, 1e-9, `${budget} of ${run.runId}`)
            }
          }
          if (path.length === 0 || !endings.includes(event._tag)) return
          const ended = ledger.runAt(path)
          const line = ledger.line(ended)
          for (const [index, budget] of parted.entries()) {
            const own = budgetOf(ended.limits, budget)
            const owner = line.findLastIndex(({ limits }) => budgetOf(limits, budget) !== undefined)
            if (own === undefined || owner < 0) continue
            const unused = Math.max(0, own - ledger.spent(ended, budget, 0))
            const place = owner * parted.length + index
            assert.closeTo(left(ledger, ended)[place]!, before[place]! + unused, 1e-9, ended.id)
          }
        },
        ({ event, path }, ledger) => {
          if (path.length > 0 && endings.includes(event._tag)) before = left(ledger, ledger.runAt(path))
        }
      )(trace)
    })
  )

  it(
    "is overspent by at most one pending answer of each run under it",
    always((trace) => {
      const late = new Set<string>()
      eachEvent(
        () => {},
        ({ event, path }, ledger) => {
          if (event._tag !== "model.answered") return
          const run = ledger.runAt(path)
          for (const above of [...ledger.line(run), run]) {
            for (const budget of ["tokens", "cost", "treeTurns"] as const) {
              const limit = budgetOf(above.limits, budget)
              if (limit === undefined || ledger.spent(above, budget, 0) < limit) continue
              // The wrap-up answer, which the limits allow.
              if (run.wrappingUp !== undefined && !run.isDue && above === run) continue
              const what = `${run.id} on ${budget} of ${above.id}, ${limit}`
              assert.isFalse(late.has(what), what)
              late.add(what)
            }
          }
        }
      )(trace)
    })
  )

  it(
    "allows no model call but a wrap-up once it is used up or reserved",
    always(({ events, given }) => {
      const ledger = new Ledger()
      let read = 0
      for (const { at: count, path, state } of given.toSorted((a, b) => a.at - b.at)) {
        while (read < count) ledger.read(events[read++]!)
        const run = ledger.runAt(path)
        const now = events[count - 1]!.at
        const own = new Set<string>()
        for (const above of [...ledger.line(run), run].toReversed()) {
          const isOwn = above === run
          for (const budget of ["turns", "treeTurns", "tokens", "cost", "wallTime"] as const) {
            const limit = budgetOf(above.limits, budget)
            if (limit === undefined || (budget === "turns" && !isOwn)) continue
            const isLeftToIt = own.has(budget)
            own.add(budget)
            if (isOwn && isWrappingUp(state)) continue
            // Reading messages takes a tick after the time was checked.
            const tick = budget === "wallTime" ? 1 : 0
            assert.isBelow(ledger.spent(above, budget, now) - tick, limit, `${budget} of ${above.id}`)
            if (budget === "cost") assert.strictEqual(ledger.consumed(above).unpriced, 0)
            if (budget !== "tokens" && budget !== "cost") continue
            if (!isLeftToIt) assert.isAbove(leftOf(ledger, above, budget)!, 0)
          }
        }
      }
    })
  )

  it(
    "is announced as nearing once until it is raised",
    always((trace) => {
      eachEvent(({ event, path }, state, ledger) => {
        if (event._tag !== "budget.nearing") return
        const run = ledger.runAt(path)
        assert.strictEqual(budgetOf(run.limits, event.budget), event.limit)
        assert.isAtLeast(event.spent, event.limit * (run.limits.warnAt ?? 0.8))
        const used = ledger.spent(run, event.budget, event.at - 1)
        assert.closeTo(event.spent, used, event.budget === "wallTime" ? 9 : 1e-9)
        const { warned = [] } = at(state, path)!
        assert.deepStrictEqual([...warned].toSorted(), [...run.warned].toSorted())
      })(trace)
    })
  )

  it(
    "with wrapUp asks the model once for a report without calls when it is used up",
    always(
      eachEvent(({ event, path }, state, ledger) => {
        const run = at(state, path)
        if (run === undefined) return
        if (event._tag === "wrapUp.asked") {
          assert.deepStrictEqual([run.calls, run.queued], [[], []])
          const last = messages(run).at(-1)
          assert.isTrue(last?.role === "user" && last.origin === "runtime")
          assert.isUndefined(historyFault(providerMessages(run)))
        }
        assert.strictEqual(run.wrappingUp?.budget, ledger.runAt(path).wrappingUp)
        if (event._tag === "model.answered" && run.wrappingUp?.answered === true) {
          assert.deepStrictEqual(run.calls, [])
          const step = next(run)
          assert.include(["AskLimit", "Finish", "Hold", "AwaitChildren"], step._tag)
          if (step._tag === "AskLimit") assert.isAtLeast(step.exceeded.spent, step.exceeded.limit)
        }
      })
    )
  )

  it(
    "of time counts the time of work, not the time while held or lost with a process",
    always(
      eachEvent(({ event }, state, ledger) => {
        for (const [, run] of atWork(state)) {
          const { since, worked } = ledger.runs.get(run.runId)!
          const expected = worked + (since === undefined ? 0 : event.at - since)
          if (state.status === "running") assert.strictEqual(workedMs(run, event.at), expected, run.runId)
        }
      })
    )
  )
})

describe("a message", () => {
  it(
    "in the queue is read before the next model call of the run that it was sent to",
    always(({ events, given, states }) => {
      events.forEach((wrapped, index) => {
        const { event, path } = unwrap(wrapped)
        if (event._tag !== "messages.read") return
        const before = at(states[index - 1]!, path)!
        const after = at(states[index]!, path)!
        assert.deepStrictEqual(after.queued, [])
        assert.strictEqual(messages(after).length, messages(before).length + before.queued.length)
        assert.isUndefined(historyFault(providerMessages(after)))
        assert.strictEqual(next(after)._tag, next(before)._tag)
      })
      for (const { state } of given) assert.deepStrictEqual(state.queued, [])
    })
  )

  it(
    "changes only the history of the run that it was sent to",
    always(({ events, states }) => {
      events.forEach((event, index) => {
        if (event._tag !== "child.advanced" || unwrap(event).event._tag !== "message.queued") return
        const { background, calls, revision, ...after } = states[index]!
        const { background: _, calls: __, revision: ___, ...before } = states[index - 1]!
        assert.deepStrictEqual(after, before)
        assert.deepStrictEqual([calls.length, background?.length], [__.length, _?.length])
        assert.strictEqual(evolve(states[index - 1], event).revision, revision)
      })
    })
  )
})
