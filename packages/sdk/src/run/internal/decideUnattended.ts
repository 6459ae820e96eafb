/**
 * What is decided without anybody coming back: what has expired, and what the approval callback says.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as Cancellation from "../../agent/Cancellation.ts"
import { setDeadline } from "../../agent/internal/deadlines.ts"
import { call } from "../../agent/internal/userCode.ts"
import { decide, decideAt, expiries } from "../../domain/decide.ts"
import type { Decision, DecisionInput } from "../../domain/Decision.ts"
import { decisionMisfits } from "../../domain/internal/given.ts"
import { copyJson } from "../../domain/internal/json.ts"
import { readOnce } from "../../domain/internal/untyped.ts"
import type { Interruption } from "../../domain/Interruption.ts"
import { answerable } from "../../domain/RunState.ts"
import { isStopped, isEnding, AgentRun } from "./AgentRun.ts"
import { flush } from "./commit.ts"
import { checkEdited, decodeDecision } from "./decisions.ts"
import { type Drive, now } from "./Drive.ts"
import type { JournalError } from "./Journal.ts"
import { holdsWithheld, redactDecision } from "./redact.ts"
import { stopCallback, takeDecisions, takeMail, takeMailInTask } from "./takeMail.ts"
import { approvalCallbackTask } from "./Tasks.ts"
import { calledOf } from "./userCalls.ts"

/**
 * Decisions that need nobody to come back: expiry, and the approval callback, which is asked beside the loop, one request after
 * the other. Says whether something was decided at once.
 */
export const decideUnattended = Effect.fnUntraced(function* (root: AgentRun) {
  const { drive } = root
  if (expiries(drive.state, now(drive)).length > 0) {
    // What was decided in time counts, also where it has not been read yet.
    const { revision } = drive.state
    yield* takeMail(drive)
    if (drive.state.revision !== revision) return true
  }
  stopCallback(drive)
  if (drive.runtime.options.approvalCallback === undefined || drive.tasks.has(approvalCallbackTask))
    return false
  if (nextToAsk(drive) === undefined) return false
  // A person may be quicker.
  yield* drive.journal.watch
  const asks = new AgentRun(drive, Cancellation.make(drive.token), root.perform)
  yield* drive.tasks.start(approvalCallbackTask, asks.token, askAll(asks))
  return false
})

/** Whether the callback has still to say something: it is asked again by whoever goes on with the run. */
export const isToBeAsked = (drive: Drive): boolean =>
  drive.runtime.options.approvalCallback !== undefined &&
  (drive.tasks.has(approvalCallbackTask) || nextToAsk(drive) !== undefined)

const nextToAsk = (drive: Drive): Interruption | undefined =>
  answerable(drive.state).find(({ requestId }) => drive.callbackAsked?.has(requestId) !== true)

/** Asks about one request after the other, and lets the loop go on with each answer. */
const askAll = Effect.fnUntraced(function* (root: AgentRun) {
  const { drive } = root
  const asked = (drive.callbackAsked ??= new Set())
  for (let request = nextToAsk(drive); request !== undefined; request = nextToAsk(drive)) {
    if (isEnding(root)) return
    asked.add(request.requestId)
    // Whoever the callback shows it to finds it in the store.
    yield* flush(drive)
    // A callback that fails, or answers what does not fit, has not decided: the request stays open.
    drive.callbackAsking = request.requestId
    const answer = yield* root.supervisor.run(askCallback(root, request))
    drive.callbackAsking = undefined
    if (Exit.isFailure(answer) && isStopped(root, answer.cause)) {
      // It has not been heard.
      asked.delete(request.requestId)
      return
    }
    if (Exit.isFailure(answer) || answer.value === undefined) continue
    yield* takeAnswer(drive, answer.value)
    // It may stop a run, which is then not asked about any more.
    if (drive.hasMail) yield* takeMailInTask(drive)
    drive.notify()
  }
})

/** Takes what the callback has decided, as it would be taken from a person: the first counts, whoever it is. */
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

/** What the approval callback makes of a request: a decision about it that fits, or nothing. */
const askCallback = Effect.fnUntraced(function* (root: AgentRun, request: Interruption) {
  const { drive } = root
  const { runtime } = drive
  const { approvalCallback } = runtime.options
  if (approvalCallback === undefined) return undefined
  // A copy: what is shown to people, and compared, is not the callback's to change.
  const shown = copyJson(request) as Interruption | undefined
  const answer = readOnce(
    yield* call(runtime, calledOf(root, "approvalCallback"), () => approvalCallback(shown ?? request)),
    1
  )
  if (answer === undefined || isAboutAnother(answer, request) || decisionMisfits(answer).length > 0)
    return undefined
  const decoded = yield* decodeDecision({ ...answer, requestId: request.requestId }, drive.clock)
  const decision = yield* checkEdited(runtime, drive.state, decoded)
  yield* Effect.fromResult(decide(drive.state, decision))
  const redacted = redactDecision(runtime.scrubber, decision)
  return holdsWithheld(redacted) ? undefined : redacted
})

/** Whether the answer names another request: a callback that mixes them up, or remembers one, has not decided this one. */
const isAboutAnother = (answer: DecisionInput, { requestId }: Interruption): boolean => {
  // A program without types may leave it out: it was asked about one.
  const named: string | undefined = answer.requestId
  return named !== undefined && named !== requestId
}

/** Timers cannot be set for longer than some weeks. */
const longestMs = 24 * 60 * 60 * 1000

/** The pause before a store is asked again about a request that is expired here and not there. */
const pauseMs = 100

/** Wakes the loop when the next request expires. Returns how to call that off. */
export const wakeAtExpiry = (drive: Drive): (() => void) => {
  const times = answerable(drive.state).flatMap(({ expiresAt, onExpiry }) =>
    expiresAt === undefined || onExpiry === "stay" ? [] : [expiresAt]
  )
  if (times.length === 0) return () => {}
  const left = Math.min(...times) - now(drive)
  return setDeadline(drive.clock, left > 0 ? Math.min(left, longestMs) : pauseMs, () => drive.notify())
}
