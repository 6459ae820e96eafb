/**
 * What reaches a run that is not stored, while it is at work: decisions and messages.
 *
 * Whoever starts a run keeps its mailbox and passes it along as `RunOptions.mailbox`. The loop takes what is in it before each
 * turn, whenever it waits, and before it returns a run as held. A stored run has its mail in the store instead; see
 * `decideStored` and `sendMessage`.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Runtime } from "../agent/Runtime.ts"
import { decide, expiryOf } from "../domain/decide.ts"
import type { Decision, DecisionInput } from "../domain/Decision.ts"
import { evolve } from "../domain/evolve.ts"
import type { Timestamp } from "../domain/Id.ts"
import { type Rejection, RequestNotFound } from "../domain/Rejection.ts"
import { type EmptyPrompt, RunEnded } from "../domain/RunError.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import { findRequest, isEnded, type RunState } from "../domain/RunState.ts"
import { checkEdited } from "./internal/decisions.ts"
import { checkUnchanged } from "./internal/decisions.ts"
import { decodeDecision } from "./internal/decisions.ts"
import { eventsOf, withDecisions } from "./internal/mailEvents.ts"
import { redactEvent } from "./internal/redact.ts"
import { decodePrompt } from "./internal/staging.ts"
import type { Mail, Prompt } from "./Mail.ts"

/**
 * The mailbox of one run.
 *
 * @category models
 * @since 0.1.0
 */
export interface Mailbox {
  /**
   * Decides a request of the run, once: it is checked now, and acted on as soon as the loop gets to it.
   *
   * **Errors**
   *
   * - A `Rejection` — no such request, decided already, by a person or because it expired, or a decision that does not fit.
   */
  readonly decide: (decision: DecisionInput) => Effect.Effect<Decision, Rejection>
  /**
   * Says something to the run, which reads it before its next turn.
   *
   * **Errors**
   *
   * - `EmptyPrompt`; `RunEnded` — it has ended meanwhile: start a new run in its session.
   */
  readonly send: (prompt: Prompt) => Effect.Effect<void, EmptyPrompt | RunEnded>
  /** How the run stands; `undefined` before it has started. */
  readonly state: () => RunState | undefined
  /** The same with what is in the mailbox taken into it: what was acknowledged is in it, whether the loop has got to it or not. */
  readonly settled: () => RunState | undefined
  /** The loop's side: takes what is there. */
  readonly take: () => Mail
  readonly isEmpty: () => boolean
  /** Calls `listener` when something comes in. Returns how to stop listening. */
  readonly onMail: (listener: () => void) => () => void
  /** Says who knows how the run stands. */
  readonly attach: (runtime: Runtime, state: () => RunState) => void
}

/** Makes a mailbox for one run. */
export const make = (): Mailbox => {
  let decisions: Array<Decision> = []
  let messages: Array<Mail["messages"][number] & { readonly at: Timestamp }> = []
  // Made when somebody listens: there may be many thousand mailboxes.
  let listeners: Set<() => void> | undefined
  let attached: { readonly runtime: Runtime; readonly state: () => RunState } | undefined
  const notify = () => {
    listeners?.forEach((listener) => listener())
  }
  return {
    decide: Effect.fnUntraced(function* (given: DecisionInput) {
      const clock = yield* Clock.Clock
      const decoded = yield* decodeDecision(given, clock)
      const { requestId } = decoded
      if (attached === undefined) return yield* new RequestNotFound({ requestId })
      const { runtime, state: now } = attached
      // What was decided a moment ago counts, whether the loop has got to it or not; and so does time.
      const standing = () => withDecisions(now(), decisions)
      const expire = () => {
        const expiry = expiryOf(standing(), requestId, clock.currentTimeMillisUnsafe())
        if (expiry === undefined) return false
        decisions.push(expiry)
        notify()
        return true
      }
      let decision = decoded
      if (!expire()) {
        decision = yield* checkEdited(runtime, now(), decoded)
        yield* checkUnchanged(now(), decision)
        expire()
      }
      const state = standing()
      const events = yield* Effect.fromResult(decide(state, decision))
      if (events.length === 0) return findRequest(state, requestId)?.record.decision ?? decision
      decisions.push(decision)
      notify()
      return decision
    }),
    send: Effect.fnUntraced(function* (prompt: Prompt) {
      const content = yield* decodePrompt(prompt)
      const state = attached?.state()
      if (state !== undefined && isEnded(state)) {
        return yield* new RunEnded({ runId: state.runId, status: state.status })
      }
      messages.push({ content, at: yield* Clock.currentTimeMillis })
      notify()
    }),
    state: () => attached?.state(),
    settled: () => {
      const state = attached?.state()
      if (attached === undefined || state === undefined || isEnded(state)) return state
      const { scrubber } = attached.runtime
      const fold = (before: RunState, event: RunEvent) => evolve(before, redactEvent(scrubber, event))
      const decided = decisions.reduce(
        (before, decision) => eventsOf(before, decision).reduce(fold, before),
        state
      )
      return messages.reduce(
        (before, { at, content }) => fold(before, { _tag: "message.queued", at, content }),
        decided
      )
    },
    take: () => {
      const mail = { decisions, messages }
      decisions = []
      messages = []
      return mail
    },
    isEmpty: () => decisions.length === 0 && messages.length === 0,
    onMail: (listener) => {
      const own = (listeners ??= new Set())
      own.add(listener)
      return () => {
        own.delete(listener)
      }
    },
    attach: (runtime, state) => {
      attached = { runtime, state }
    }
  }
}
