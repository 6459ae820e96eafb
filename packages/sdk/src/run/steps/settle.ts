/**
 * Running the bodies of tool calls.
 *
 * A body is started after `tool.started` is in the journal and its result is recorded once, whatever happens meanwhile. A body
 * that is stopped may finish within its grace period; then its result is kept.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import { describeFailure } from "../../agent/internal/userCode.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { text, UserPart } from "../../domain/Message.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import { findCall, isRepeatable } from "../../domain/RunState.ts"
import { copyDecoded } from "../../tool/internal/decodedArguments.ts"
import type { AnyTool } from "../../tool/Tool.ts"
import { toContent } from "../../tool/Tool.ts"
import { ToolFailure } from "../../tool/ToolError.ts"
import type { AgentRun } from "../internal/AgentRun.ts"
import { isStopped, toolTimeoutMs, timeLeftOf, isCallOpen, stateOf } from "../internal/AgentRun.ts"
import { isTimed } from "../internal/authorize.ts"
import { flush } from "../internal/commit.ts"
import { confirmLease } from "../internal/confirmLease.ts"
import { emit, now } from "../internal/Drive.ts"
import { toolEntryOf } from "../internal/openRequest.ts"
import type { Prepared } from "../internal/prepareCall.ts"
import { prepare, valueOf } from "../internal/prepareCall.ts"
import { hearStops, isTurnHalted, mayGoOn } from "../internal/stops.ts"
import type { Work } from "../internal/Supervisor.ts"
import { idempotencyKey, invoke } from "../internal/toolBody.ts"
import { failCall } from "../internal/userCalls.ts"

/** Runs calls that may run: several are reads and run together, one alone may be anything. */
export const settle = Effect.fnUntraced(function* (run: AgentRun, callIds: ReadonlyArray<ToolCallId>) {
  const { drive, supervisor } = run
  const state = stateOf(run)
  const prepared: Array<Prepared> = []
  for (const callId of dueOf(run, callIds)) {
    const one = yield* prepare(run, findCall(state, callId))
    if (one !== undefined) prepared.push(one)
  }
  const ready = only(prepared, ({ call }) => isCallOpen(run, call.id))
  // What was stopped before it was begun has not been begun.
  if (ready.length === 0 || supervisor.isStopped()) return
  for (const { call } of ready) recordStart(run, call)
  yield* flush(drive)
  // The commit may have been answered to a process that was frozen since.
  if (drive.journal.isStale()) yield* confirmLease(drive)
  // The commit says whether something was decided before it: a body that was stopped then has not begun.
  if (drive.hasMail) yield* hearStops(run)
  // A grant that was revoked meanwhile has taken the start of its calls back.
  const started = only(ready, ({ call }) => findCall(stateOf(run), call.id)?.status === "started")
  if (isTurnHalted(run)) {
    for (const { call } of started) notStarted(run, call)
  } else {
    // A rule that was asked for the others of the turn is asked again behind a body that may have taken time.
    drive.justAllowed = undefined
    for (const { call } of started) drive.notHappened?.delete(call.id)
    yield* runBodies(run, started)
  }
  // A read may be repeated; whatever else has happened is committed before the next thing happens.
  if (ready.some(({ call }) => call.safety !== "readOnly")) yield* flush(drive)
})

/** Those that fit: most of the time all do, and nothing is made. */
const only = <A>(items: ReadonlyArray<A>, fits: (item: A) => boolean): ReadonlyArray<A> =>
  items.every(fits) ? items : items.filter(fits)

/** The calls whose turn it is. What may no longer be let through when its turn comes is judged then, and not started before. */
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

/** Whether what lets one of the calls through may end while others run: a grant, a policy with a time, the tool's own rule. */
const mayLapse = (run: AgentRun, callIds: ReadonlyArray<ToolCallId>): boolean =>
  isTimed(run) ||
  callIds.some((callId) => {
    const call = findCall(stateOf(run), callId)
    if (call === undefined || call.grantId !== undefined) return call !== undefined
    return typeof toolEntryOf(run.bound, call)?.tool.options.needsApproval === "function"
  })

/** The body of a call, how long it may take, and what becomes of its end. */
const bodyOf = (run: AgentRun, ready: Prepared): Work<unknown, unknown, ToolFailure> => {
  const { retry } = ready.entry.tool.options
  return retry === undefined || !isRepeatable(ready.call) ? new Body(run, ready) : retried(run, ready, retry)
}

/** One that is tried once. */
class Body implements Work<unknown, unknown, ToolFailure> {
  private readonly run: AgentRun
  private readonly ready: Prepared

  constructor(run: AgentRun, ready: Prepared) {
    this.run = run
    this.ready = ready
  }

  begin() {
    const { call, entry, value } = this.ready
    return invoke(this.run, call, entry.tool, value)
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

/** It is known not to have run, though its start is written already. */
export const notStarted = (run: AgentRun, call: ToolCall): void =>
  emit(run, { _tag: "tool.notStarted", at: now(run.drive), callId: call.id })

/** One that is tried again. Each try has its time, as long as there is any. */
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
  const attempt = (value: unknown) =>
    run.supervisor.runTry(() => invoke(run, call, tool, value), timeOf(run, call, tool), onTried)
  // A body that changes its arguments does not change those of the next try.
  const tried = Effect.suspend((): Effect.Effect<unknown, unknown> => {
    const copy = copyDecoded(value)
    if (copy !== undefined || failed === undefined) return attempt(copy ?? value)
    const { error } = failed
    const stale = () => Effect.fail(error)
    return Effect.matchEffect(valueOf(run, call, entry, true), { onSuccess: attempt, onFailure: stale })
  })
  // A decision may have come while it waited for its next try.
  const timed = Effect.suspend(() => {
    if (failed === undefined) return tried
    const { error } = failed
    return Effect.flatMap(mayGoOn(run), (may) => (may ? tried : Effect.fail(error)))
  })
  const isTimeLeft = () => (timeLeftOf(run) ?? 1) > 0
  return {
    begin: () =>
      Effect.retry(timed, {
        schedule,
        while: () => (isTimeLeft() ? mayGoOn(run) : Effect.succeed(false))
      }),
    // A try may have succeeded within its grace period, after the run was stopped.
    onEnd: (exit) => record(run, ready, succeeded ?? exit),
    onSkip: () => notStarted(run, call)
  }
}

/** How long a body may take: its own time, or what is left of that of the run and of those above it. */
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
  isRepeatable(call)
    ? `${call.name} did not finish within ${time}.`
    : `${call.name} did not finish within ${time}; it may have taken effect all the same.`

/** Records the outcome of a body. If it was interrupted without a result, the interrupter records it. */
const record = (run: AgentRun, { call, entry }: Prepared, exit: Exit.Exit<unknown, unknown>): void => {
  const at = now(run.drive)
  const completed = (value: unknown) =>
    emit(run, { _tag: "tool.completed", at, callId: call.id, content: shown(run, call, value) })
  if (Exit.isSuccess(exit)) return completed(exit.value)
  if (isStopped(run, exit.cause)) return
  const why = Cause.hasInterruptsOnly(exit.cause)
    ? "it stopped itself"
    : describeFailure(run.drive.runtime, entry.tool, Cause.squash(exit.cause))
  failCall(run, call, "handler", exit.cause, `${call.name} failed: ${why}`)
}

/** Most results are: that is seen faster than by the schema. */
const isText = (content: ReadonlyArray<UserPart>): boolean => {
  const first = content[0]
  return content.length === 1 && first?._tag === "text" && typeof first.text === "string"
}

const isContent: (content: unknown) => boolean = Schema.is(Schema.Array(UserPart))

/** The parts of a result, scrubbed. What cannot be shown has happened all the same, so that it is not called a failure. */
export const shown = (run: AgentRun, call: ToolCall, value: unknown): ReadonlyArray<UserPart> => {
  const { scrub } = run.drive.runtime.scrubber
  try {
    const content = toContent(value).map((part) => (part._tag === "text" ? text(scrub(part.text)) : part))
    if (isText(content) || isContent(content)) return content
    throw new TypeError("These are not the parts of a result.")
  } catch {
    return [text(`${call.name} finished, and its result cannot be shown.`)]
  }
}
