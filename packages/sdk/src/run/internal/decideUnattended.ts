/**
 * Decides requests by expiry and by the approval callback, and announces that requests will expire soon.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as Cancellation from "../../agent/Cancellation.ts"
import { setDeadline } from "../../agent/internal/deadlines.ts"
import { call, logFirst } from "../../agent/internal/userCode.ts"
import { decide, decideAt, expiries, expiryWarnings, nextDeadline } from "../../domain/decide.ts"
import type { Decision, DecisionInput } from "../../domain/Decision.ts"
import { decisionMisfits, problemsOf } from "../../domain/internal/given.ts"
import { copyJson } from "../../domain/internal/json.ts"
import { readOnce } from "../../domain/internal/untyped.ts"
import { type Interruption, isHold } from "../../domain/Interruption.ts"
import { DecisionMalformed } from "../../domain/Rejection.ts"
import type { RunContext } from "../../domain/RunContext.ts"
import { answerable } from "../../domain/RunState.ts"
import { calledOf } from "../calls/userCalls.ts"
import { isStopped, isEnding, AgentRun } from "./AgentRun.ts"
import { flush } from "./commit.ts"
import { checkByTool, decodeDecision } from "./decisions.ts"
import { type Drive, emitRoot, now } from "./Drive.ts"
import type { JournalError } from "./Journal.ts"
import { holdsWithheld, redactDecision } from "./redact.ts"
import { contextIn } from "./runContext.ts"
import { stopCallback, takeDecisions, takeMail, takeMailInTask } from "./takeMail.ts"
import { approvalCallbackTask } from "./Tasks.ts"

/**
 * Decides expired requests, announces those that soon will expire, and starts a task that calls the approval callback with one request
 * after the other. Returns whether the mail, or an expiry in it, changed the state.
 */
export const decideUnattended = Effect.fnUntraced(function* (root: AgentRun) {
  const { drive } = root
  if (expiries(drive.state, now(drive)).length > 0) {
    // Decisions that were made in time precede the expiry, also those that the loop has not read yet.
    const { revision } = drive.state
    yield* takeMail(drive)
    if (drive.state.revision !== revision) return true
  }
  yield* announceExpiries(drive)
  stopCallback(drive)
  if (drive.runtime.options.approvalCallback === undefined || drive.tasks.has(approvalCallbackTask))
    return false
  if (nextToAsk(drive) === undefined) return false
  const asks = new AgentRun(drive, Cancellation.make(drive.token), root.perform)
  yield* drive.tasks.start(approvalCallbackTask, asks.token, askAll(asks))
  return false
})

/** Records, once for each request, that it will expire soon. Committed at once, so that observers do not wait for the next commit. */
const announceExpiries = (drive: Drive): Effect.Effect<void, JournalError> =>
  Effect.suspend(() => {
    const warnings = expiryWarnings(drive.state, now(drive))
    for (const event of warnings) emitRoot(drive, event)
    return warnings.length === 0 ? Effect.void : flush(drive)
  })

/** Whether a request waits for the callback. The next drive of the run, here or elsewhere, calls it again. */
export const isToBeAsked = (drive: Drive): boolean =>
  drive.runtime.options.approvalCallback !== undefined &&
  (drive.tasks.has(approvalCallbackTask) || nextToAsk(drive) !== undefined)

const nextToAsk = (drive: Drive): Interruption | undefined =>
  answerable(drive.state).find(
    (request) => !isHold(request) && drive.callbackAsked?.has(request.requestId) !== true
  )

/** Calls the callback with one request after the other, and resumes the loop after each answer. */
const askAll = Effect.fnUntraced(function* (root: AgentRun) {
  const { drive } = root
  const asked = (drive.callbackAsked ??= new Set())
  for (let request = nextToAsk(drive); request !== undefined; request = nextToAsk(drive)) {
    if (isEnding(root)) return
    asked.add(request.requestId)
    // Committed first, so that the callback's recipients find the request in the store.
    yield* flush(drive)
    // The request stays open if the callback fails, or its answer does not decide the request.
    drive.callbackAsking = request.requestId
    const answer = yield* root.supervisor.run(askCallback(root, request))
    drive.callbackAsking = undefined
    if (Exit.isFailure(answer) && isStopped(root, answer.cause)) {
      // No answer: the request can be asked again.
      asked.delete(request.requestId)
      return
    }
    if (Exit.isFailure(answer) || answer.value === undefined) continue
    yield* takeAnswer(drive, answer.value)
    // The answer may stop a run, whose other requests are then not asked.
    if (drive.hasMail) yield* takeMailInTask(drive)
    drive.notify()
  }
})

/** Takes the callback's decision like any principal's: the first decision wins. */
const takeAnswer = (drive: Drive, decision: Decision): Effect.Effect<void, JournalError> =>
  Effect.suspend(() => {
    const decideElsewhere = drive.journal.decide
    if (decideElsewhere === undefined) {
      return Effect.sync(() => {
        if (Result.isSuccess(decideAt(drive.state, decision, now(drive)))) takeDecisions(drive, [decision])
      })
    }
    return Effect.map(decideElsewhere(decision), () => {
      drive.hasMail = true
    })
  })

/**
 * Calls the approval callback with a request. Returns its decision, or `undefined` if it made none. Fails if its answer does not decide the
 * request; the first such answer is logged, like the first failure of the callback.
 */
const askCallback = Effect.fnUntraced(function* (root: AgentRun, request: Interruption) {
  const { drive } = root
  const { runtime } = drive
  const { approvalCallback } = runtime.options
  if (approvalCallback === undefined) return undefined
  // A copy, since the callback may mutate it and the digest is compared with the request.
  const shown = copyJson(request) as Interruption | undefined
  const called = calledOf(root, "approvalCallback")
  const log = (drive.logCallback ??= logFirst())
  const ask = () => approvalCallback(shown ?? request, { context: copyJson(contextIn(root)) as RunContext })
  const answered = call(runtime, called, ask, undefined, log)
  const answer = readOnce(yield* answered, 1)
  if (answer === undefined) return undefined
  const decision = yield* Effect.tapCause(decisionOf(root, request, answer), (cause) =>
    log(runtime, called, cause)
  )
  yield* Effect.fromResult(decide(drive.state, decision))
  const redacted = redactDecision(runtime.scrubber, decision)
  return holdsWithheld(redacted) ? undefined : redacted
})

const decisionOf = Effect.fnUntraced(function* (
  root: AgentRun,
  request: Interruption,
  answer: DecisionInput
) {
  const { requestId } = request
  if (isAboutAnother(answer, requestId)) {
    return yield* new DecisionMalformed({ issues: `it names a request other than ${requestId}` })
  }
  // The copy below would drop hidden fields.
  const found = decisionMisfits(answer)
  if (found.length > 0) return yield* new DecisionMalformed({ issues: problemsOf(found), misfits: found })
  const { drive } = root
  const decoded = yield* decodeDecision({ ...answer, requestId }, drive.clock)
  return yield* checkByTool(drive.runtime, drive.state, decoded)
})

/** Whether the answer names another request. Untyped programs may omit the id. */
const isAboutAnother = (answer: { readonly requestId?: string } | null, requestId: string): boolean => {
  const named = answer?.requestId
  return named !== undefined && named !== requestId
}

/** The longest timer: a day. JavaScript timers are limited to about 24 days. */
const longestMs = 24 * 60 * 60 * 1000

/** The pause before the next attempt for a request that is expired by this clock and not by the store's. */
const pauseMs = 100

/** Wakes the loop when the next request expires, or is announced to. Returns a function that cancels the timer. */
export const wakeAtExpiry = (drive: Drive): (() => void) => {
  const next = nextDeadline(drive.state)
  if (next === undefined) return () => {}
  const left = next - now(drive)
  return setDeadline(drive.clock, left > 0 ? Math.min(left, longestMs) : pauseMs, () => drive.notify())
}
