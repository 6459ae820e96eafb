/**
 * Delivers decisions and messages to a run that is not stored, while it is driven.
 *
 * The caller that starts a run keeps the run's mailbox and passes it as `RunOptions.mailbox`. The loop takes the mail before each step and
 * before it returns a run as held. The mail of a stored run is in the store instead; see `decideStored` and `sendMessage`.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Runtime } from "../agent/Runtime.ts"
import { decide, expiryOf } from "../domain/decide.ts"
import type { Decision, DecisionInput } from "../domain/Decision.ts"
import { evolve } from "../domain/evolve.ts"
import type { RequestId, Timestamp } from "../domain/Id.ts"
import { type ReopenError, reopenMessage, type ReopenOptions } from "../domain/internal/reopening.ts"
import { type Rejection, RequestNotFound } from "../domain/Rejection.ts"
import { type EmptyPrompt, RunEnded } from "../domain/RunError.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import { findRequest, isEnded, type RunState } from "../domain/RunState.ts"
import { checkByTool } from "./internal/decisions.ts"
import { checkUnchanged } from "./internal/decisions.ts"
import { decodeDecision } from "./internal/decisions.ts"
import { decodeUnstoredPrompt } from "./internal/decodePrompt.ts"
import { eventsOf, takeMessage, withDecisions } from "./internal/mailEvents.ts"
import { cleanEvent } from "./internal/redact.ts"
import type { Mail, Prompt } from "./Mail.ts"

/**
 * The mailbox of one run, made with {@link make}.
 *
 * @category models
 * @since 0.1.0
 */
export interface Mailbox {
  /**
   * Decides a request of the run, once. The decision is checked now, and the loop acts on it before its next step. If the decision is
   * repeated with its `idempotencyKey`, the first one is returned.
   *
   * **Errors**
   *
   * - A `Rejection` — the request does not exist (no request does before the start), has another decision or has expired, or the decision
   *   does not fit it. Nothing changes, except that an expired request is decided by its expiry.
   */
  readonly decide: (decision: DecisionInput) => Effect.Effect<Decision, Rejection>
  /**
   * Sends a message to the run, which reads it before its next turn. The message may be sent before the run has started.
   *
   * **Errors**
   *
   * - `EmptyPrompt` — send a text that is not blank, or parts.
   * - `RunEnded` — the run has ended: start a new run in its session.
   */
  readonly send: (prompt: Prompt) => Effect.Effect<void, EmptyPrompt | RunEnded>
  /**
   * Reopens a denied request of the run; see `reopenRequest`.
   *
   * **Errors**
   *
   * - `RequestNotFound`, `RequestNotDenied`, `RunEnded`, `PrincipalInvalid` — as for `reopenRequest`.
   */
  readonly reopen: (requestId: RequestId, options: ReopenOptions) => Effect.Effect<void, ReopenError>
  /** The current state of the run; `undefined` before it has started. */
  readonly state: () => RunState | undefined
  /** The current state with the mail folded into it: it contains every acknowledged decision and message. */
  readonly settled: () => RunState | undefined
  /** Removes and returns the mail. Called by the loop. */
  readonly take: () => Mail
  readonly isEmpty: () => boolean
  /** Calls `listener` after each delivery. Returns the unsubscribe function. */
  readonly onMail: (listener: () => void) => () => void
  /** Connects the mailbox with its run. Called by the loop when it starts. */
  readonly attach: (runtime: Runtime, state: () => RunState) => void
}

/** Makes an empty mailbox for one run. */
export const make = (): Mailbox => {
  let decisions: Array<Decision> = []
  let messages: Array<Mail["messages"][number] & { readonly at: Timestamp }> = []
  // Allocated with the first listener: a process may have many thousand mailboxes.
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
      // Includes decisions that the loop has not taken yet.
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
        decision = yield* checkByTool(runtime, now(), decoded)
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
      const content = yield* decodeUnstoredPrompt(prompt)
      const state = attached?.state()
      if (state !== undefined && isEnded(state)) {
        return yield* new RunEnded({ runId: state.runId, status: state.status })
      }
      messages.push({ content, at: yield* Clock.currentTimeMillis })
      notify()
    }),
    reopen: Effect.fnUntraced(function* (requestId: RequestId, options: ReopenOptions) {
      const at = yield* Clock.currentTimeMillis
      if (attached === undefined) return yield* new RequestNotFound({ requestId: String(requestId) })
      const standing = withDecisions(attached.state(), decisions)
      const opening = reopenMessage(standing, requestId, { ...options, at }, messages)
      const message = yield* Effect.fromResult(opening)
      if (message === undefined) return
      messages.push({ ...message, at })
      notify()
    }),
    state: () => attached?.state(),
    settled: () => {
      const state = attached?.state()
      if (attached === undefined || state === undefined || isEnded(state)) return state
      const { scrubber } = attached.runtime
      const fold = (before: RunState, event: RunEvent) => evolve(before, cleanEvent(scrubber, event))
      const decided = decisions.reduce(
        (before, decision) => eventsOf(before, decision).reduce(fold, before),
        state
      )
      return messages.reduce(
        (before, message) => fold(before, takeMessage(before, message, message.at)),
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
