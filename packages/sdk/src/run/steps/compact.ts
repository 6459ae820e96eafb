/**
 * Compacts the context of a run before its next model call.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { attemptEffect, call } from "../../agent/internal/userCode.ts"
import type { Summarize } from "../../context/CompactionPlan.ts"
import type { BeforeCompaction, CompactionDue } from "../../context/PolicyDefinition.ts"
import { exceeded, isWrappingUp } from "../../domain/Budget.ts"
import * as History from "../../domain/History.ts"
import { defined } from "../../domain/internal/defined.ts"
import { calledOf } from "../calls/userCalls.ts"
import { budgetTime, isStopped, stateOf, timeLeftOf, type AgentRun } from "../internal/AgentRun.ts"
import { flush } from "../internal/commit.ts"
import { dueIn, prune } from "../internal/compactionDue.ts"
import { contextInput } from "../internal/contextInput.ts"
import { type DriveError, emit, now } from "../internal/Drive.ts"
import { notAnswered } from "../internal/modelAnswer.ts"
import { summarize } from "../internal/summarize.ts"
import { instructionsAndSections, modelDeadline, notPrepared, outOfBudget } from "./callModel.ts"

/**
 * Asks the context policy for a plan and performs it. The summary is committed at once, so that a process that dies later does not pay for it
 * twice. A run that was stopped meanwhile keeps its request.
 */
export const compact = Effect.fnUntraced(function* (
  run: AgentRun,
  turn: number
): Effect.fn.Return<void, DriveError> {
  const { drive } = run
  const before = stateOf(run)
  const late = isWrappingUp(before) ? undefined : exceeded(before, budgetTime(run))
  if (late !== undefined) return yield* outOfBudget(run, late)
  drive.modelCalls += 1
  yield* compacting(run, turn)
  drive.modelCalls -= 1
})

function* compacting(run: AgentRun, turn: number): Effect.fn.Return<void, DriveError> {
  const fixed = yield* instructionsAndSections(run, turn)
  if (fixed === undefined) return
  const planned = yield* planOf(run, fixed)
  if (Exit.isSuccess(planned)) return skip(run, "there was nothing to leave out")
  const due = dueIn(planned.cause)
  if (due === undefined) return yield* notPrepared(run, planned.cause)
  if (due.plan._tag === "Prune") return prune(run, due.plan)
  const answer = yield* askBefore(run, due, due.plan)
  if (answer === undefined) return
  if (answer.veto === true) return skip(run, "the program vetoed it")
  const { pinned = [] } = answer
  const again = pinned.length === 0 ? planned : yield* planOf(run, fixed, pinned)
  if (Exit.isSuccess(again)) return skip(run, "there was nothing to leave out besides pinned messages")
  const final = dueIn(again.cause)
  if (final === undefined) return yield* notPrepared(run, again.cause)
  if (final.plan._tag === "Prune") return prune(run, final.plan)
  yield* write(run, turn, final, final.plan)
}

type Fixed = Exclude<Effect.Success<ReturnType<typeof instructionsAndSections>>, undefined>

const planOf = (run: AgentRun, { instructions, sections }: Fixed, pinned?: ReadonlyArray<number>) => {
  const { bound, drive, supervisor } = run
  const { runtime } = drive
  return supervisor.run(
    attemptEffect(() =>
      runtime.contextPolicy.prepare(
        contextInput({ bound, runtime, state: stateOf(run) }, instructions, {
          sections,
          ...defined({ pinned })
        })
      )
    )
  )
}

const skip = (run: AgentRun, reason: string): void =>
  emit(run, { _tag: "compaction.skipped", at: now(run.drive), reason })

/** Calls the program's callback. Returns `undefined` if the run was stopped meanwhile. */
const askBefore = Effect.fnUntraced(function* (run: AgentRun, { summary }: CompactionDue, plan: Summarize) {
  const { before } = summary
  const none: BeforeCompaction = {}
  if (before === undefined) return none
  const { toolTimeoutMs } = stateOf(run).limits
  const ms = Math.max(1, Math.min(toolTimeoutMs, timeLeftOf(run) ?? toolTimeoutMs))
  const answered = yield* run.supervisor.run(
    call<unknown>(run.drive.runtime, calledOf(run, "before compaction"), () => before(plan), ms)
  )
  if (Exit.isFailure(answered)) return isStopped(run, answered.cause) ? undefined : none
  return soundAnswer(answered.value, History.size(stateOf(run).history))
})

/** The answer of a callback, which may be written without types. */
const soundAnswer = (value: unknown, size: number): BeforeCompaction => {
  if (typeof value !== "object" || value === null) return {}
  const { pinned, veto } = value as Record<string, unknown>
  const isSequence = (one: unknown): one is number =>
    Number.isInteger(one) && (one as number) >= 0 && (one as number) < size
  return { veto: veto === true, pinned: Array.isArray(pinned) ? pinned.filter(isSequence) : [] }
}

const write = Effect.fnUntraced(function* (run: AgentRun, turn: number, due: CompactionDue, plan: Summarize) {
  const { bound, drive, supervisor } = run
  const state = stateOf(run)
  const { agentPath, limits, runId: agentRunId } = state
  const failed = yield* summarize({
    runtime: drive.runtime,
    bound,
    state,
    plan,
    usage: due.usage,
    options: due.summary,
    // A run that wraps up has no budget left for it.
    mayCallModel: !isWrappingUp(state),
    complete: (request) =>
      supervisor.run(
        attemptEffect(() => drive.runtime.model.complete(request)),
        modelDeadline(run, request)
      ),
    emit: (event) => emit(run, event),
    now: () => now(drive),
    onProgress: (what) =>
      drive.onUpdate?.({
        _tag: "context.compacting",
        runId: drive.state.runId,
        agentRunId,
        agentPath,
        turn,
        message: `[${turn}/${limits.maxTurns}] ${what}`
      })
  })
  if (failed !== undefined) return yield* notAnswered(run, failed.request, failed.cause)
  return yield* flush(drive)
})
