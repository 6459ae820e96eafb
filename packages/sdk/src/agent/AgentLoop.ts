/**
 * The loop: asks `next` what has to happen, makes it happen, folds the events, until the run is held or over.
 *
 * This is the only place with effects between a state and its successor. It never runs user code to find out where it was, it
 * calls the model only when every call of the turn is settled, and it commits before it does what must not be done twice. One
 * mechanism stops it, whoever asks: the cancellation token interrupts the fiber that drives, and interrupting the fiber that
 * waits for it cancels the token.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Schema from "effect/Schema"
import { exceeded, nearing, promisedAway } from "../domain/budget.ts"
import type { Decision } from "../domain/Decision.ts"
import { decide, expiryDecision } from "../domain/decide.ts"
import { evolve } from "../domain/evolve.ts"
import type { ToolCallId } from "../domain/Id.ts"
import { canonicalJson } from "../domain/internal/json.ts"
import { type Interruption, isExpired } from "../domain/Interruption.ts"
import type { Exceeded } from "../domain/Limits.ts"
import { text } from "../domain/Message.ts"
import { exhausted, mayChildrenAdvance, next, type Step } from "../domain/next.ts"
import { AgentNotFound, type ToolUnavailable } from "../domain/RunError.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { RunState } from "../domain/RunState.ts"
import { children, findCall, interruptions, isEnded } from "../domain/RunState.ts"
import { holderOf } from "./BoundAgent.ts"
import * as Cancellation from "./Cancellation.ts"
import {
  awaitBeside,
  endedBeside,
  interruptBeside,
  isAnythingBeside,
  isBeside,
  settleBeside,
  startBeside,
  stopBeside,
  wake
} from "./internal/beside.ts"
import { callModel, openLimit } from "./internal/callModel.ts"
import { cancellation } from "./internal/cancellation.ts"
import { classify } from "./internal/classify.ts"
import type { Doing, Drive, Journal, Restore, Scope } from "./internal/Drive.ts"
import {
  awaited,
  confirmHeld,
  describe,
  emit,
  emitRoot,
  flush,
  isEnding,
  isPromise,
  isStopped,
  isThere,
  now,
  stateOf,
  tellAll
} from "./internal/Drive.ts"
import { eventsOf } from "./internal/eventsOf.ts"
import { reconcile, settle } from "./internal/settle.ts"
import { checkEditedRequest, decodeDecision } from "./internal/staging.ts"
import {
  awaitChildren,
  goOnInBackground,
  resumeChildren,
  settleAgents,
  startBackground
} from "./internal/subAgents.ts"
import type { Leaving } from "./runPrompt.ts"
import type { Runtime } from "./Runtime.ts"
import type { RunUpdate } from "./RunUpdate.ts"

/** How a run is driven. */
export interface DriveOptions<E> {
  readonly runtime: Runtime<any>
  readonly journal: Journal<E>
  readonly token: Cancellation.CancellationToken
  readonly onUpdate: ((update: RunUpdate) => void) | undefined
  /** The state to go on from. */
  readonly state: RunState
  /** Events that are folded into `state` already and not committed. */
  readonly staged: ReadonlyArray<RunEvent>
  /** Events that are committed already and that nobody has been told. */
  readonly committed?: ReadonlyArray<RunEvent>
  /** Lets go of the run without ending it. */
  readonly leaving?: Leaving | undefined
}

/** Drives a run until it is held or over, or let go of, and returns its state then. */
export const drive = <E>(
  options: DriveOptions<E>
): Effect.Effect<RunState, E | ToolUnavailable | AgentNotFound> =>
  // An interruption may come at any time; it must find somebody who turns it into a cancellation.
  Effect.uninterruptibleMask((restoreCaller) => driving(options, restoreCaller))

const driving = Effect.fnUntraced(function* <E>(
  options: DriveOptions<E>,
  restoreCaller: Restore
): Effect.fn.Return<RunState, E | ToolUnavailable | AgentNotFound> {
  const { token } = options
  const running: Drive<E> = {
    runtime: options.runtime,
    token,
    leaving: options.leaving,
    clock: yield* Clock.Clock,
    journal: options.journal,
    onUpdate: options.onUpdate === undefined ? undefined : guarded(options.onUpdate),
    perform,
    state: options.state,
    staged: options.staged.slice(),
    untold: []
  }
  if (running.onUpdate !== undefined) {
    const untold = [...(options.committed ?? []), ...options.staged]
    const before = options.state.revision - untold.length
    untold.forEach((event, index) => running.untold.push({ event, revision: before + index + 1 }))
  }
  // The fiber that drives ends interrupted when the run is cancelled; what it came to is kept here.
  let end: Exit.Exit<RunState, E | ToolUnavailable | AgentNotFound> | undefined
  const fiber = yield* Effect.forkChild(
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(Effect.exit(loop(running, restore)), (exit) => {
        end = exit
        if (Exit.isSuccess(exit)) return Effect.void
        // What goes on beside the loop can write nothing either.
        token.cancel("The run cannot be gone on with here.")
        return settleBeside(running)
      })
    ),
    { startImmediately: true }
  )
  const unlink = token.onCancel(() => fiber.interruptUnsafe())
  const unleave = options.leaving?.now.onCancel(() => {
    fiber.interruptUnsafe()
    interruptBeside(running)
  })
  yield* Effect.onInterrupt(restoreCaller(Fiber.await(fiber)), () =>
    Effect.suspend(() => {
      token.cancel("The program that ran it stopped it.")
      return Fiber.await(fiber)
    })
  )
  unlink()
  unleave?.()
  return yield* end ?? Effect.die(new Error("The loop ended without a state."))
})

/** Somebody who watches must not be able to break the run. */
const guarded =
  (onUpdate: (update: RunUpdate) => void) =>
  (update: RunUpdate): void => {
    // The watcher's own failure, at once or later; the run is not the place to tell it.
    const ignore = () => {}
    try {
      const told: unknown = onUpdate(update)
      if (isPromise(told)) told.then(ignore, ignore)
    } catch {
      ignore()
    }
  }

const loop = Effect.fnUntraced(function* <E>(drive: Drive<E>, restore: Restore) {
  const root: Scope<E> = {
    drive,
    path: [],
    parent: undefined,
    token: drive.token,
    seen: 0,
    get bound() {
      const { bound } = drive.runtime
      return holderOf(bound, drive.state.agent.name) ?? bound
    }
  }
  if (drive.staged.length === 0) tellAll(drive)
  yield* flush(drive)
  while (true) {
    const { failure } = drive.beside ?? {}
    if (failure !== undefined) {
      return yield* failure as Exit.Failure<never, E>
    }
    const cancelled = drive.token.reason()
    root.seen = endedBeside(drive)
    const step = next(drive.state)
    if (cancelled !== undefined && !(step._tag === "Finish" && isEnded(drive.state))) {
      yield* settleBeside(drive)
      for (const event of cancellation(drive.state, now(drive), cancelled)) emitRoot(drive, event)
      yield* flush(drive)
      return drive.state
    }
    switch (step._tag) {
      case "Finish":
        yield* finish(root, step)
        return drive.state
      case "Hold":
        if (yield* hold(root, restore)) return drive.state
        break
      default:
        if (isEnding(root)) {
          yield* stopBeside(drive, [asking], "The run is let go of.")
          yield* settleBeside(drive)
          yield* flush(drive)
          return drive.state
        }
        yield* confirmHeld(drive)
        yield* goOnInBackground(root)
        if (step._tag === "AwaitChildren") yield* decideInline(root)
        yield* perform(root, step, restore)
    }
  }
})

/** Parks the run, unless something can be decided right now. */
const hold = Effect.fnUntraced(function* <E>(root: Scope<E>, restore: Restore) {
  const { drive } = root
  const { revision } = drive.state
  if (isEnding(root)) yield* stopBeside(drive, [asking], "The run is let go of.")
  else if (yield* decideInline(root)) return false
  if (isAnythingBeside(drive)) {
    yield* awaitBeside(root, restore)
    return false
  }
  if (drive.state.revision !== revision) return false
  const event = { _tag: "run.held", at: now(drive) } as const
  const held = evolve(drive.state, event)
  if (yield* drive.journal.park([...drive.staged, event], held)) {
    drive.staged.length = 0
    drive.state = held
    drive.untold.push({ event, revision: held.revision })
    tellAll(drive)
    return true
  }
  yield* flush(drive)
  takeDecisions(drive, yield* drive.journal.decisions)
  const { cancelReason } = yield* drive.journal.pulse
  if (cancelReason !== undefined) drive.token.cancel(cancelReason)
  return false
})

/**
 * Decisions that need nobody to come back: expiry, and the approval callback, which is asked beside the loop, one request after
 * the other. Says whether something was decided at once.
 */
const decideInline = Effect.fnUntraced(function* <E>(root: Scope<E>) {
  const { drive } = root
  let decided = false
  for (const request of interruptions(drive.state)) {
    if (isExpired(request, now(drive))) decided = takeDecisions(drive, [expiryDecision(request)])
  }
  if (decided) return true
  if (drive.runtime.options.approvalCallback === undefined || isBeside(drive, asking)) return false
  if (nextToAsk(drive) === undefined) return false
  yield* startBeside(drive, asking, Cancellation.make(drive.token), (restore) => askAll(root, restore))
  return false
})

const asking = "approvalCallback"

const nextToAsk = (drive: Drive<any>): Interruption | undefined =>
  interruptions(drive.state).find(({ requestId }) => drive.beside?.asked.has(requestId) !== true)

/** Asks about one request after the other, and lets the loop go on with each answer. */
const askAll = Effect.fnUntraced(function* (root: Scope<any>, restore: Restore) {
  const { drive } = root
  for (let request = nextToAsk(drive); request !== undefined; request = nextToAsk(drive)) {
    if (isEnding(root)) return
    drive.beside?.asked.add(request.requestId)
    // A callback that fails, or answers what does not fit, has not decided: the request stays open.
    const answer = yield* Effect.exit(restore(askCallback(drive, request)))
    if (Exit.isFailure(answer) || answer.value === undefined) continue
    for (const event of answer.value) emitRoot(drive, event)
    wake(drive)
  }
})

/** What the approval callback makes of a request: events, or nothing. */
const askCallback = Effect.fnUntraced(function* (drive: Drive<unknown>, request: Interruption) {
  const { runtime } = drive
  const { approvalCallback } = runtime.options
  if (approvalCallback === undefined) return undefined
  const answer = yield* awaited(runtime, () => approvalCallback(request))
  if (answer === undefined) return undefined
  const decision = yield* decodeDecision({ ...answer, requestId: request.requestId }, drive.clock)
  yield* checkEditedRequest(runtime, request, decision)
  return yield* Effect.fromResult(decide(drive.state, decision))
})

/** Folds decisions. One that no longer applies is put on record as such, so that nobody waits for its effect. */
const takeDecisions = (drive: Drive<any>, decisions: ReadonlyArray<Decision>): boolean => {
  for (const decision of decisions)
    for (const event of eventsOf(drive.state, decision)) emitRoot(drive, event)
  return decisions.length > 0
}

/** Ends the run of the root. A run that has failed keeps its sub-agents as they stand: it may be continued. */
const finish = Effect.fnUntraced(function* <E>(
  root: Scope<E>,
  step: Extract<Step, { readonly _tag: "Finish" }>
) {
  const { drive } = root
  yield* stopBeside(drive, [asking, ...children(drive.state).map(({ callId }) => callId)], endReason(step))
  yield* settleBeside(drive)
  const at = now(drive)
  if (!isEnded(drive.state)) {
    switch (step.end._tag) {
      case "completed":
        emitRoot(drive, { _tag: "run.completed", at })
        break
      case "cancelled":
        for (const event of cancellation(drive.state, at, step.end.reason)) emitRoot(drive, event)
        break
      case "failed":
        emitRoot(drive, { _tag: "run.failed", at, failure: step.end.failure })
    }
  }
  yield* flush(drive)
})

const endReason = ({ end }: Extract<Step, { readonly _tag: "Finish" }>): string =>
  end._tag === "cancelled" ? end.reason : "The run that started it has ended."

/** Makes one step happen, in the run of one agent of the tree. */
const perform = <E>(
  scope: Scope<E>,
  step: Doing,
  restore: Restore
): Effect.Effect<void, E | ToolUnavailable | AgentNotFound> => {
  switch (step._tag) {
    case "CallModel":
      return askModel(scope, step.turn, restore)
    case "ClassifyCalls":
      return classifyAll(scope, step.callIds, restore)
    case "SettleToolCalls":
      return settle(scope, step.callIds, restore)
    case "Reconcile":
      return reconcile(scope, step.callIds, restore)
    case "AskLimit":
      return Effect.sync(() => openLimit(scope, step.exceeded))
    case "DecodeOutput":
      return decodeOutput(scope, step.text)
    case "AskWrapUp":
      return Effect.sync(() => {
        const { budget, limit } = step.exceeded
        emit(scope, { _tag: "wrapUp.asked", at: now(scope.drive), budget, limit })
      })
    case "ResumeChildren":
      return resumeChildren(scope, step.callIds, restore)
    case "AwaitChildren":
      return awaitChildren(scope, restore)
    case "StartBackground":
      return startBackground(scope, step.callId)
    case "SettleAgents":
      return settleAgents(scope, step.callId)
    case "HandOff":
      return handOff(scope, step.callId)
  }
}

/** Asks the model, if there is time left for it; says which budgets are running out afterwards. */
const askModel = Effect.fnUntraced(function* <E>(scope: Scope<E>, turn: number, restore: Restore) {
  const { drive } = scope
  const before = stateOf(scope)
  const late = before.wrappingUp === undefined ? exceeded(before, now(drive)) : undefined
  if (late !== undefined) return yield* outOfBudget(scope, late, restore)
  const promised = before.wrappingUp === undefined ? promisedAway(before) : undefined
  if (promised !== undefined && mayChildrenAdvance(before)) return yield* awaitChildren(scope, restore)
  if (promised !== undefined) return yield* outOfBudget(scope, promised, restore)
  yield* callModel(scope, turn, restore)
  for (let at: Scope<E> | undefined = scope; at !== undefined; at = at.parent) {
    if (!isThere(at)) continue
    for (const budget of nearing(stateOf(at), now(drive))) {
      emit(at, { _tag: "budget.nearing", at: now(drive), ...budget })
    }
  }
})

const classifyAll = Effect.fnUntraced(function* (
  scope: Scope<unknown>,
  callIds: ReadonlyArray<ToolCallId>,
  restore: Restore
) {
  for (const callId of callIds) {
    const call = findCall(stateOf(scope), callId)
    if (call === undefined || isEnding(scope)) return
    const classified = yield* Effect.exit(restore(classify(scope, call)))
    if (Exit.isSuccess(classified) || isStopped(scope, classified.cause)) continue
    // The definition of the tool is at fault. The call is over, or it would be classified for ever.
    const why = describe(scope.drive.runtime, Cause.squash(classified.cause))
    const content = [text(`${call.name} could not be prepared, and has not run: ${why}`)]
    emit(scope, { _tag: "tool.failed", at: now(scope.drive), callId, content })
  }
})

/** Does about a budget what the run's limits and whoever can be asked say. */
const outOfBudget = <E>(
  scope: Scope<E>,
  exceeded: Exceeded,
  restore: Restore
): Effect.Effect<void, E | ToolUnavailable | AgentNotFound> => {
  const step = exhausted(stateOf(scope), exceeded)
  if (step._tag === "AskLimit" || step._tag === "AskWrapUp") return perform(scope, step, restore)
  return Effect.sync(() => {
    if (step._tag !== "Finish" || step.end._tag !== "failed") return
    emit(scope, { _tag: "run.failed", at: now(scope.drive), failure: step.end.failure })
  })
}

/** Gives the conversation to the agent that the model has chosen. */
const handOff = Effect.fnUntraced(function* (scope: Scope<any>, callId: ToolCallId) {
  const state = stateOf(scope)
  const call = findCall(state, callId)
  const entry = call === undefined ? undefined : scope.bound.entries.get(call.name)
  const to = entry?.target === "handoff" ? holderOf(scope.bound, entry.to) : undefined
  if (call === undefined) return
  if (to === undefined) {
    return yield* new AgentNotFound({ agent: call.name, known: [...scope.bound.entries.keys()] })
  }
  const at = now(scope.drive)
  // A policy that the run was started with is the caller's, and holds for whoever goes on with it.
  const isOverridden = canonicalJson(state.policy) !== canonicalJson(scope.bound.agent.policy)
  emit(scope, {
    _tag: "agent.changed",
    at,
    agent: to.identity,
    policy: isOverridden ? state.policy : to.agent.policy,
    structured: to.output !== undefined
  })
  const { name } = to.agent
  for (const { id, result } of state.calls) {
    if (id === callId || result !== undefined) continue
    const content = [text(`This one was not followed: ${name} has the conversation now.`)]
    emit(scope, { _tag: "tool.failed", at, callId: id, content })
  }
  emit(scope, { _tag: "tool.completed", at, callId, content: [text(`${name} has the conversation now.`)] })
})

const decodeOutput = Effect.fnUntraced(function* (scope: Scope<unknown>, answer: string) {
  const { bound, drive } = scope
  const decoder = bound.output
  if (decoder === undefined) return emit(scope, { _tag: "run.completed", at: now(drive) })
  const json = parseAnswer(answer)
  const decoded = json === undefined ? Exit.fail("it is not JSON") : yield* Effect.exit(decoder.decode(json))
  if (Exit.isSuccess(decoded)) {
    const output = (decoder.encode?.(decoded.value) ?? json) as Schema.Json
    return emit(scope, { _tag: "run.completed", at: now(drive), output })
  }
  const issues = describe(drive.runtime, Cause.squash(decoded.cause))
  emit(scope, {
    _tag: "output.rejected",
    at: now(drive),
    message: `The answer does not fit the required form: ${issues}. Answer again, with nothing but JSON that fits.`
  })
})

/** The JSON of an answer, also when the model put it into a code fence. */
const parseAnswer = (answer: string): unknown => {
  const fenced = /^\s*```(?:json)?\s*\n([\s\S]*?)\n\s*```\s*$/.exec(answer)
  try {
    return JSON.parse(fenced?.[1] ?? answer) as unknown
  } catch {
    return undefined
  }
}
