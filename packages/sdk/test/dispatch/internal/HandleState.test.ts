import { assert, describe, it } from "@effect/vitest"
import * as Exit from "effect/Exit"
import * as fc from "fast-check"
import {
  elsewhere,
  type HandleEvent,
  type HandleState,
  initial,
  statusIn,
  transition
} from "../../../src/dispatch/internal/handle/HandleState.ts"
import type { RunResult } from "../../../src/run/RunResult.ts"

type State = HandleState<unknown, never>
type Event = HandleEvent<unknown, never>

const free: State = initial({ needsSlot: false, isRestarted: false })
const conducted: State = initial({ needsSlot: true, isRestarted: false })
const restarted: State = initial({ needsSlot: false, isRestarted: true })

const result = (status: RunResult["status"], error: unknown = { _tag: "RunDefect" }) =>
  ({ status, error, state: { status } }) as RunResult
const interrupted = result("interrupted")
const completed = result("completed")
const failed = result("error", { _tag: "ModelFailed", isRetryable: true })

const begin: Event = { _tag: "begin", hasSlot: false, cancelReason: undefined }
const slotGranted: Event = { _tag: "slotGranted" }
const driven = (value: RunResult | typeof elsewhere, hasNews = false): Event => ({
  _tag: "driven",
  exit: Exit.succeed(value),
  hasNews
})
const lost: Event = { _tag: "driven", exit: Exit.die("lost"), hasNews: false }
const found = (value: RunResult | typeof elsewhere, cancelReason?: string): Event => ({
  _tag: "found",
  result: value,
  hasNews: false,
  cancelReason
})
const call: Event = { _tag: "call", intent: "goOn" }
const look: Event = { _tag: "call", intent: "look" }
const sending: Event = { _tag: "sending" }
const sent = (hasNews = false): Event => ({ _tag: "sent", hasNews })
const cancel: Event = { _tag: "cancel", reason: "enough" }
const retry: Event = { _tag: "retry" }
const finish: Event = { _tag: "finish", exit: Exit.succeed(completed) }

const after = (from: State, ...events: ReadonlyArray<Event>): State =>
  events.reduce((state, event) => transition(state, event)[0], from)

/** The phase after the last event, the status in it, and the actions. */
const last = (from: State, ...events: ReadonlyArray<Event>): string => {
  const before = after(from, ...events.slice(0, -1))
  const [state, actions] = transition(before, events.at(-1)!)
  return [state.phase._tag, statusIn(state), ...actions.map(({ _tag }) => _tag)].join(" ")
}

describe("the state of a dispatched run", () => {
  it("starts at once, or once there is a slot", () => {
    assert.strictEqual(last(free, begin), "driving running notify drive")
    assert.strictEqual(last(conducted, begin), "queued queued enterGate notify")
    assert.strictEqual(last(conducted, begin, slotGranted), "driving running notify drive")
    assert.strictEqual(last(conducted, { ...begin, hasSlot: true }), "driving running notify drive")
    assert.strictEqual(
      last(conducted, { ...begin, cancelReason: "enough" }),
      "driving running notify drive",
      "a cancelled run needs no slot"
    )
  })

  it("starts once when it was cancelled before: it drives the run to its end", () => {
    assert.strictEqual(last(free, cancel), "driving running unpark notify drive")
    assert.strictEqual(last(free, cancel, begin), "driving running")
    assert.strictEqual(last(free, cancel, found(interrupted)), "driving running")
  })

  it("is held while the run waits for a decision, and watched while another process drives it", () => {
    assert.strictEqual(last(free, begin, driven(interrupted)), "held held notify park")
    assert.strictEqual(last(free, begin, driven(elsewhere)), "elsewhere running notify park")
    assert.strictEqual(last(free, found(interrupted)), "held held notify park")
    assert.strictEqual(last(free, found(elsewhere)), "elsewhere running notify park")
    assert.strictEqual(last(free, found(completed)), "over completed cleanUp notify")
  })

  it("continues with mail that arrived during a drive, without a hold in between", () => {
    assert.strictEqual(last(free, begin, driven(interrupted, true)), "driving running notify drive")
    assert.strictEqual(
      last(conducted, begin, slotGranted, driven(interrupted, true)),
      "queued queued enterGate leaveGate notify"
    )
  })

  it("continues when it is called, and stops watching first", () => {
    assert.strictEqual(last(free, begin, driven(interrupted), call), "driving running unpark notify drive")
    assert.strictEqual(
      last(conducted, begin, slotGranted, driven(interrupted), call),
      "queued queued unpark enterGate notify"
    )
    assert.deepStrictEqual(after(free, begin, driven(elsewhere), look).phase, {
      _tag: "driving",
      intent: "look",
      hasSlot: false
    })
    assert.strictEqual(last(free, begin, call), "driving running", "it drives already")
    assert.strictEqual(last(conducted, begin, call), "queued queued", "it waits for a slot")
  })

  it("releases its slot when it leaves the gate, before it notifies", () => {
    assert.strictEqual(
      last(conducted, begin, slotGranted, driven(interrupted)),
      "held held park leaveGate notify"
    )
    assert.strictEqual(
      last(conducted, begin, slotGranted, driven(completed)),
      "over completed cleanUp leaveGate notify"
    )
    const cancelled: Event = { _tag: "cancel", reason: "enough" }
    assert.strictEqual(
      last(conducted, begin, cancelled, driven(completed)),
      "over completed cleanUp notify",
      "it had no slot"
    )
  })

  it("waits for a pending send before it continues", () => {
    const held = [begin, driven(interrupted)]
    assert.strictEqual(last(free, ...held, sending, call), "held held")
    assert.strictEqual(last(free, ...held, sending, call, sent()), "driving running unpark notify drive")
    assert.strictEqual(last(free, ...held, sending, sent()), "held held", "the send brought no mail")
    assert.strictEqual(last(free, ...held, sending, sent(true)), "driving running unpark notify drive")
    assert.strictEqual(last(free, ...held, sending, sending, call, sent()), "held held")
    assert.strictEqual(last(free, begin, sending, driven(interrupted, true)), "held held notify park")
  })

  it("drives the run to its end after a cancellation in any phase", () => {
    assert.strictEqual(last(free, begin, cancel), "driving running cancelDrive")
    assert.strictEqual(last(conducted, begin, cancel), "driving running withdraw notify drive")
    assert.strictEqual(last(free, begin, driven(interrupted), cancel), "driving running unpark notify drive")
    assert.strictEqual(last(free, begin, driven(elsewhere), cancel), "driving running unpark notify drive")
    assert.strictEqual(last(free, begin, cancel, cancel), "driving running", "the first reason wins")
    assert.strictEqual(
      last(free, begin, cancel, driven(interrupted)),
      "driving running notify drive",
      "a drive that returned held before the cancellation is followed by one that ends the run"
    )
    assert.strictEqual(last(free, found(elsewhere, "enough")), "driving running notify drive")
    assert.strictEqual(last(free, found(completed, "enough")), "over completed cleanUp notify")
  })

  it("backs off after a retryable failure, unless it is cancelled", () => {
    assert.strictEqual(last(free, begin, driven(failed)), "over error cleanUp notify")
    assert.strictEqual(last(restarted, begin, driven(failed)), "backingOff queued backOff notify")
    assert.strictEqual(last(restarted, begin, driven(failed), retry), "driving running notify drive")
    assert.strictEqual(last(restarted, begin, driven(failed), call), "backingOff queued")
    assert.strictEqual(
      last(restarted, begin, driven(failed), cancel),
      "driving running withdraw notify drive"
    )
    assert.strictEqual(last(restarted, begin, cancel, driven(failed)), "over error cleanUp notify")
    assert.strictEqual(last(restarted, begin, driven(result("error"))), "over error cleanUp notify")
  })

  it("is over when its drive fails or it is finished", () => {
    assert.strictEqual(last(free, begin, lost), "over error cleanUp notify")
    assert.strictEqual(last(free, begin, finish), "over completed cleanUp notify")
    assert.strictEqual(last(conducted, begin, finish), "over completed withdraw cleanUp notify")
    for (const event of [begin, slotGranted, driven(interrupted), call, sending, cancel, retry, finish]) {
      const ended = after(free, begin, driven(completed))
      assert.deepStrictEqual(transition(ended, event), [ended, []])
    }
  })

  it("releases its slot in every transition out of a drive, and a slot that it gets too late", () => {
    const atWork = [begin, slotGranted]
    assert.strictEqual(
      last(conducted, ...atWork, driven(elsewhere)),
      "elsewhere running park leaveGate notify"
    )
    assert.strictEqual(last(conducted, ...atWork, lost), "over error cleanUp leaveGate notify")
    assert.strictEqual(last(conducted, ...atWork, finish), "over completed cleanUp leaveGate notify")
    assert.strictEqual(
      last(conducted, ...atWork, cancel, driven(interrupted)),
      "driving running drive leaveGate notify"
    )
    assert.strictEqual(
      last({ ...conducted, isRestarted: true }, ...atWork, driven(failed)),
      "backingOff queued backOff leaveGate notify"
    )
    const withSlot: Event = { ...begin, hasSlot: true }
    assert.strictEqual(last(conducted, cancel, withSlot), "driving running leaveGate", "it needs none")
    assert.strictEqual(last(conducted, finish, withSlot), "over completed leaveGate")
  })

  it("has at most one drive for random events", () => {
    const events = [
      begin,
      slotGranted,
      call,
      look,
      sending,
      sent(),
      sent(true),
      cancel,
      retry,
      found(interrupted)
    ]
    const ends = [driven(interrupted), driven(interrupted, true), driven(elsewhere), driven(failed), lost]
    const any = fc.array(fc.constantFrom(...events, ...ends), { maxLength: 40 })
    fc.assert(
      fc.property(fc.constantFrom(free, conducted, restarted), any, (from, list) => {
        let state = from
        let isDriven = false
        for (const event of list) {
          // A drive ends only when one was started.
          if (event._tag === "driven" && !isDriven) continue
          if (event._tag === "driven") isDriven = false
          const [next, actions] = transition(state, event)
          for (const { _tag } of actions) {
            if (_tag !== "drive") continue
            assert.isFalse(isDriven)
            isDriven = true
          }
          const { _tag } = next.phase
          assert.strictEqual(_tag === "driving", isDriven && _tag !== "over")
          if (next.cancelReason !== undefined) {
            assert.include(["driving", "elsewhere", "over"], _tag, "a cancelled run does not wait")
          }
          state = next
        }
      })
    )
  })
})
