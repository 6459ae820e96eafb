import { assert, describe, it } from "@effect/vitest"
import { vi } from "vitest"
import { childRunId } from "../../src/domain/Id.ts"
import { constraintsOf, next, type Step } from "../../src/domain/next.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import {
  answerable,
  children,
  findCall,
  findChild,
  interruptions,
  isEnded,
  isRepeatable,
  type RunState
} from "../../src/domain/RunState.ts"
import { always } from "./Always.ts"
import {
  allowed,
  askedAbout,
  begun,
  callId,
  calls,
  childStarted,
  decided,
  fold,
  foldOnto,
  inside,
  read,
  requestId,
  started
} from "./Journal.ts"

vi.setConfig({ testTimeout: 300_000 })

type Path = ReturnType<typeof unwrap>["path"]

const at = (state: RunState, path: Path): RunState | undefined =>
  path.reduce<RunState | undefined>(
    (run, callId) => (run === undefined ? undefined : findChild(run, callId)),
    state
  )

const lineTo = (state: RunState, path: Path): ReadonlyArray<RunState> =>
  path.map((_, depth) => at(state, path.slice(0, depth))!)

const atWork = (state: RunState, path: Path = []): ReadonlyArray<Path> =>
  isEnded(state)
    ? []
    : [path, ...children(state).flatMap(({ callId, child }) => atWork(child, [...path, callId]))]

/** Whether a step of a stopped run, or of a run under one, starts nothing. */
const beginsNothing = (run: RunState, step: Step): boolean => {
  switch (step._tag) {
    case "Finish":
      return step.end._tag === "cancelled"
    case "Reconcile":
      return step.callIds.every((callId) => !isRepeatable(findCall(run, callId)!))
    case "ResumeChildren":
      return step.callIds.every((callId) => findCall(run, callId)?.child !== undefined)
    case "AwaitChildren":
      return true
    case "Hold":
      return run.stop === undefined && step.requests.length === 0
    default:
      return false
  }
}

describe("a run stopped by a denial", () => {
  it(
    "takes no step that starts something, nor do the runs under it",
    always(({ states }) => {
      for (const state of states) {
        for (const path of atWork(state)) {
          const line = lineTo(state, path)
          const run = at(state, path)!
          if ([...line, run].every(({ stop }) => stop === undefined)) continue
          const step = next(run, constraintsOf(line))
          assert.isTrue(beginsNothing(run, step), `${path.join()}: ${step._tag}`)
        }
      }
    })
  )

  it(
    "has no start in its journal after the stop, nor do the runs under it",
    always(({ events, states }) => {
      events.forEach((wrapped, index) => {
        const { event, path } = unwrap(wrapped)
        const before = states[index - 1]
        if (before === undefined || isEnded(before)) return
        const line = [...lineTo(before, path), at(before, path)]
        if (line.every((run) => run?.stop === undefined)) return
        const begins = ["tool.started", "run.started", "agent.changed", "wrapUp.asked", "messages.read"]
        assert.notInclude(begins, event._tag)
      })
    })
  )

  it(
    "has no answerable request, nor do the runs under it",
    always(({ states }) => {
      for (const state of states) {
        const stopped = atWork(state).filter((path) => at(state, path)?.stop !== undefined)
        const waiting = answerable(state).map(({ runId }) => runId as string)
        for (const path of stopped) {
          const { runId } = at(state, path)!
          assert.isTrue(waiting.every((id) => id !== runId && !id.startsWith(`${runId}.`)))
        }
      }
    })
  )

  const [a, b, c, d] = [callId(1, 1), callId(1, 2), callId(1, 3), callId(1, 4)]
  const stop = decided({ _tag: "deny", requestId: requestId(1), by: "ada", message: "Enough.", then: "stop" })
  const over = { _tag: "Finish", end: { _tag: "cancelled", reason: "Enough." } } as const

  it("leaves a read, a sub-agent, a background start and a handoff unstarted", () => {
    const target = ["tool", "agent", "background", "handoff"] as const
    for (const one of target) {
      const state = fold(
        started(),
        calls("write_file", "other"),
        ...askedAbout(a, requestId(1)),
        one === "tool" ? read(b) : allowed(b, { target: one }),
        stop
      )
      assert.deepStrictEqual(next(state), over, one)
    }
  })

  it("has no answerable request for its other calls", () => {
    const asks = fold(
      started(),
      calls("write_file", "write_file"),
      ...askedAbout(a, requestId(1)),
      ...askedAbout(b, requestId(2))
    )
    assert.deepStrictEqual(answerable(asks), interruptions(asks))
    assert.deepStrictEqual(answerable(foldOnto(asks, stop)), [])
    assert.lengthOf(interruptions(foldOnto(asks, stop)), 1)
  })

  it("reconciles a started call unless it is repeatable, and then ends", () => {
    const state = fold(
      started(),
      calls("write_file", "pay", "look", "keep"),
      ...askedAbout(a, requestId(1)),
      allowed(b),
      read(c),
      allowed(d, { idempotent: true }),
      begun(b),
      begun(c),
      begun(d),
      stop
    )
    assert.deepStrictEqual(next(state), { _tag: "Reconcile", callIds: [b] })
    assert.deepStrictEqual(next(foldOnto(state, { _tag: "tool.notStarted", at: 1000, callId: b })), over)
  })

  it("resumes a sub-agent only to reconcile its calls", () => {
    const inner = callId(1, 1, b)
    const state = fold(
      started(),
      calls("write_file", "helper"),
      ...askedAbout(a, requestId(1)),
      allowed(b, { target: "agent" }),
      childStarted(b),
      inside(b, { ...calls("pay") }),
      inside(b, allowed(inner)),
      stop
    )
    const child = findChild(state, b)!
    assert.deepStrictEqual(next(state), over)
    assert.deepStrictEqual(next(child, constraintsOf([state])), { _tag: "Hold", requests: [] })
    const inDoubt = foldOnto(state, inside(b, begun(inner)))
    assert.deepStrictEqual(next(inDoubt), { _tag: "ResumeChildren", callIds: [b] })
    assert.deepStrictEqual(next(findChild(inDoubt, b)!, constraintsOf([inDoubt])), {
      _tag: "Reconcile",
      callIds: [inner]
    })
  })

  it("ends after repeated deaths of processes that reconcile its calls", () => {
    const state = fold(
      started(),
      calls("write_file", "pay"),
      ...askedAbout(a, requestId(1)),
      allowed(b),
      begun(b)
    )
    const lost = Array.from({ length: 4 }, () => ({ _tag: "run.recovered", at: 1000 }) as const)
    assert.deepStrictEqual(next(foldOnto(state, stop, ...lost)), over)
  })

  it("does not include the run above a sub-agent whose request was denied", () => {
    const state = fold(
      started(),
      calls("helper"),
      allowed(a, { target: "agent" }),
      childStarted(a),
      inside(a, calls("pay")),
      ...askedAbout(callId(1, 1, a), requestId(1, a), { runId: childRunId(a) }).map((event) =>
        inside(a, event)
      ),
      inside(a, decided({ _tag: "deny", requestId: requestId(1, a), by: "ada", then: "stop" }))
    )
    assert.isUndefined(state.stop)
    assert.deepStrictEqual(next(state), { _tag: "ResumeChildren", callIds: [a] })
    assert.strictEqual(next(findChild(state, a)!, constraintsOf([state]))._tag, "Finish")
  })
})
