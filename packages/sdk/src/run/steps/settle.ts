/**
 * Runs the bodies of tool calls.
 *
 * A body starts after `tool.started` is committed, and its result is recorded once. A body that is stopped may finish within its grace
 * period; its result is then kept.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { ToolCallId } from "../../domain/Id.ts"
import { sameJson } from "../../domain/internal/json.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import { findCall, isRepeatable } from "../../domain/RunState.ts"
import { copyDecoded } from "../../tool/internal/decodedArguments.ts"
import type { AnyTool } from "../../tool/Tool.ts"
import { ToolFailure } from "../../tool/ToolError.ts"
import { isTimed } from "../calls/authorize.ts"
import { statedFacts } from "../calls/facts.ts"
import { idempotencyKey } from "../calls/idempotencyKey.ts"
import { commitHolds } from "../calls/openHold.ts"
import { toolEntryOf } from "../calls/openRequest.ts"
import type { Prepared } from "../calls/prepareCall.ts"
import { prepare, valueOf } from "../calls/prepareCall.ts"
import { dropIfLost } from "../calls/sandbox.ts"
import { resolved } from "../calls/secrets.ts"
import { invoke } from "../calls/toolBody.ts"
import { recordFailure, recordResult } from "../calls/userCalls.ts"
import type { AgentRun } from "../internal/AgentRun.ts"
import { isStopped, toolTimeoutMs, timeLeftOf, isCallOpen, stateOf } from "../internal/AgentRun.ts"
import { flush } from "../internal/commit.ts"
import { confirmLease } from "../internal/confirmLease.ts"
import { emit, now } from "../internal/Drive.ts"
import { hearStops, isTurnHalted, mayGoOn } from "../internal/stops.ts"
import type { Work } from "../internal/Supervisor.ts"

/** Runs calls that are allowed to run: several reads concurrently, or a single call of any safety. */
export const settle = Effect.fnUntraced(function* (run: AgentRun, callIds: ReadonlyArray<ToolCallId>) {
  const { drive, supervisor } = run
  const state = stateOf(run)
  const prepared: Array<Prepared> = []
  for (const callId of dueOf(run, callIds)) {
    const one = yield* prepare(run, findCall(state, callId))
    if (one !== undefined) prepared.push(one)
  }
  const ready = only(prepared, ({ call }) => isCallOpen(run, call.id))
  // A stop that precedes the starts leaves the calls unstarted.
  if (ready.length === 0 || supervisor.isStopped()) return
  for (const { call } of ready) recordStart(run, call)
  yield* flush(drive)
  // This process may have been frozen since the commit.
  if (drive.journal.isStale()) yield* confirmLease(drive)
  // The commit reports mail. A stop among it precedes the starts, so no body runs.
  if (drive.hasMail) yield* hearStops(run)
  // The commit takes back the starts of calls whose grant was revoked.
  const started = only(ready, ({ call }) => findCall(stateOf(run), call.id)?.status === "started")
  if (isTurnHalted(run)) {
    for (const { call } of started) notStarted(run, call)
  } else {
    // Bodies take time: the turn's other calls ask their approval rules again.
    drive.justAllowed = undefined
    for (const { call } of started) drive.notHappened?.delete(call.id)
    yield* runBodies(run, started)
  }
  // Results of reads may wait for the next commit, since reads can be repeated.
  if (ready.some(({ call }) => call.safety !== "readOnly")) yield* flush(drive)
  yield* commitHolds(run, callIds)
})

/** The items that fit. Usually all do, and nothing is allocated. */
const only = <A>(items: ReadonlyArray<A>, fits: (item: A) => boolean): ReadonlyArray<A> =>
  items.every(fits) ? items : items.filter(fits)

/**
 * The calls to start now. If an authorization may lapse while others run, only as many as run at once; the rest are judged when their
 * turn comes.
 */
const dueOf = (run: AgentRun, callIds: ReadonlyArray<ToolCallId>): ReadonlyArray<ToolCallId> => {
  const { toolConcurrency } = stateOf(run).limits
  return callIds.length > toolConcurrency && mayLapse(run, callIds)
    ? callIds.slice(0, Math.max(1, toolConcurrency))
    : callIds
}

export const recordStart = (run: AgentRun, call: ToolCall): void =>
  emit(run, {
    _tag: "tool.started",
    at: now(run.drive),
    callId: call.id,
    idempotencyKey: idempotencyKey(call)
  })

const runBodies = (run: AgentRun, started: ReadonlyArray<Prepared>): Effect.Effect<void> =>
  run.supervisor.all(
    started.map((ready) => bodyOf(run, ready)),
    stateOf(run).limits.toolConcurrency,
    () => mayGoOn(run)
  )

/** Whether the authorization of a call may lapse while others run: it has a grant, facts, a timed policy, or an approval rule. */
const mayLapse = (run: AgentRun, callIds: ReadonlyArray<ToolCallId>): boolean =>
  isTimed(run) ||
  callIds.some((callId) => {
    const call = findCall(stateOf(run), callId)
    if (call === undefined || call.grantId !== undefined) return call !== undefined
    const { facts, needsApproval } = toolEntryOf(run.bound, call)?.tool.options ?? {}
    return facts !== undefined || typeof needsApproval === "function"
  })

/** The supervised work of a call: its body, its deadline, and the recording of its outcome. */
const bodyOf = (run: AgentRun, ready: Prepared): Work<unknown, unknown, ToolFailure> => {
  const { retry } = ready.entry.tool.options
  return retry === undefined || !isRepeatable(ready.call) ? new Body(run, ready) : retried(run, ready, retry)
}

/** A body without retries. */
class Body implements Work<unknown, unknown, ToolFailure> {
  private readonly run: AgentRun
  private readonly ready: Prepared

  constructor(run: AgentRun, ready: Prepared) {
    this.run = run
    this.ready = ready
  }

  begin() {
    const { call, entry, resolved, sandbox } = this.ready
    return invoke(this.run, call, entry.tool, resolved, sandbox)
  }

  deadline() {
    const { call, entry } = this.ready
    return timeOf(this.run, call, entry.tool)
  }

  onEnd(exit: Exit.Exit<unknown, unknown>): void {
    record(this.run, this.ready, exit)
  }

  onSkip(): void {
    notStarted(this.run, this.ready.call)
  }
}

/** Records that a body did not run although its start is recorded. */
export const notStarted = (run: AgentRun, call: ToolCall): void =>
  emit(run, { _tag: "tool.notStarted", at: now(run.drive), callId: call.id })

/** A body with the tool's retry schedule. Each try has its own deadline, within the time left to the run. */
const retried = (
  run: AgentRun,
  ready: Prepared,
  schedule: NonNullable<AnyTool["options"]["retry"]>
): Work<unknown, unknown, ToolFailure> => {
  const { call, entry, value } = ready
  const { tool } = entry
  let failed: { readonly error: unknown } | undefined
  let succeeded: Exit.Exit<unknown, unknown> | undefined
  const onTried = (exit: Exit.Exit<unknown, unknown>) => {
    if (Exit.isSuccess(exit)) succeeded = exit
    else failed = { error: Cause.squash(exit.cause) }
  }
  // A try that was abandoned may still take effect, beside one after it.
  let isLeftBehind = false
  const begin = (value: unknown): ReturnType<typeof invoke> => {
    const body = invoke(run, call, tool, value, ready.sandbox)
    if (Exit.isExit(body) || call.safety === "readOnly") return body
    const abandon = () => {
      isLeftBehind = true
      body.abandon?.()
    }
    return { ...body, abandon }
  }
  const attempt = (value: unknown) =>
    run.supervisor.runTry(() => begin(value), timeOf(run, call, tool), onTried)
  // Each try gets a copy of the arguments: a body may mutate them.
  const tried = Effect.suspend((): Effect.Effect<unknown, unknown> => {
    if (failed === undefined) return attempt(copyDecoded(ready.resolved) ?? ready.resolved)
    const { error } = failed
    const copy = copyDecoded(value)
    const again = copy === undefined ? valueOf(run, call, entry, true) : Effect.succeed(copy)
    // A secret may be another one than at the last try, or not be there any more.
    return Effect.matchEffect(
      Effect.flatMap(again, (value) => resolved(run, call, entry, value)),
      { onSuccess: attempt, onFailure: () => Effect.fail(error) }
    )
  })
  // A decision may have stopped the run during the delay before this try.
  const timed = Effect.suspend(() => {
    if (failed === undefined) return tried
    const { error } = failed
    return Effect.flatMap(mayGoOn(run), (may) =>
      Effect.flatMap(may ? areFactsSame(run, ready) : Effect.succeed(false), (same) =>
        same ? tried : Effect.fail(error)
      )
    )
  })
  const isTimeLeft = () => (timeLeftOf(run) ?? 1) > 0
  return {
    begin: () =>
      Effect.retry(timed, {
        schedule,
        while: () => (isTimeLeft() && !isLeftBehind ? mayGoOn(run) : Effect.succeed(false))
      }),
    // A try may succeed within its grace period after the run was stopped.
    onEnd: (exit) => record(run, ready, succeeded ?? exit),
    onSkip: () => notStarted(run, call)
  }
}

/** Whether the tool still states the facts with which the body first ran. Facts that cannot be read are others. */
const areFactsSame = (run: AgentRun, { call, entry, facts, value }: Prepared): Effect.Effect<boolean> =>
  facts === undefined
    ? Effect.succeed(true)
    : Effect.match(statedFacts(run, call, entry.tool, value), {
        onSuccess: (stated) => sameJson(stated, facts),
        onFailure: () => false
      })

/** The deadline of a body: the tool's timeout, or the time left to the run and the runs above it if that is less. */
const timeOf = (run: AgentRun, call: ToolCall, tool: AnyTool) => {
  const own = toolTimeoutMs(run, tool)
  const left = timeLeftOf(run) ?? own
  const ms = Math.max(1, Math.min(own, left))
  const late = () => {
    const time = left < own ? `the ${ms} ms that were left of the wallTime budget` : `${ms} ms`
    return new ToolFailure({ description: timeoutText(call, time) })
  }
  return { ms, late }
}

const timeoutText = (call: ToolCall, time: string): string =>
  call.safety === "readOnly"
    ? `${call.name} did not finish within ${time}.`
    : `${call.name} did not finish within ${time}; it may have taken effect all the same.`

/** Records the outcome of a body. If it was interrupted without a result, the interrupter records it. */
const record = (run: AgentRun, { call, entry }: Prepared, exit: Exit.Exit<unknown, unknown>): void => {
  if (Exit.isSuccess(exit)) return recordResult(run, call, entry.tool, exit.value)
  if (isStopped(run, exit.cause)) return
  if (entry.tool.options.sandbox === true) dropIfLost(run, exit.cause)
  recordFailure(run, call, entry.tool, exit.cause)
}
