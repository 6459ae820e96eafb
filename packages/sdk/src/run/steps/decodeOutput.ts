/**
 * Completes a run with its final answer, which is decoded by the agent's output schema if it has one.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { decodeWithin } from "../../agent/internal/decoding.ts"
import { describe } from "../../agent/internal/userCode.ts"
import * as History from "../../domain/History.ts"
import { isDeeperThan, maxGivenDepth } from "../../domain/internal/json.ts"
import { textOf } from "../../domain/Message.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"
import { isStopped, stateOf, type AgentRun } from "../internal/AgentRun.ts"
import { park } from "../internal/comeToRest.ts"
import { emit, now } from "../internal/Drive.ts"
import { failRun } from "../internal/failRun.ts"
import { approvalCallbackTask } from "../internal/Tasks.ts"

/**
 * Decodes the final answer and completes the run. If the answer does not fit, the model receives the issues and answers again. Returns
 * whether the root's run has ended.
 */
export const decodeOutput = Effect.fnUntraced(function* (run: AgentRun, answer: string) {
  const { bound, drive } = run
  const complete = Effect.fnUntraced(function* (event: RunEvent) {
    if (run.parent === undefined) {
      yield* drive.tasks.stop([approvalCallbackTask], "The run has ended.")
      yield* drive.tasks.ended
      return yield* park(drive, event)
    }
    emit(run, event)
    return false
  })
  const decoder = bound.output
  if (decoder === undefined) return yield* complete({ _tag: "run.completed", at: now(drive) })
  const json = parseAnswer(answer)
  const decoded =
    json === undefined
      ? Exit.fail("it is not JSON")
      : isDeeperThan(json, maxGivenDepth)
        ? Exit.fail(`it is nested more than ${maxGivenDepth} levels deep`)
        : yield* run.supervisor.run<unknown, unknown>(
            decodeWithin(decoder, stateOf(run).limits.toolTimeoutMs, json)
          )
  if (Exit.isSuccess(decoded)) {
    const output = Result.try(() => decoder.encode?.(decoded.value) ?? (json as Schema.Json))
    if (Result.isSuccess(output)) {
      return yield* complete({ _tag: "run.completed", at: now(drive), output: output.success })
    }
    const why = describe(drive.runtime, output.failure)
    yield* failRun(run, { _tag: "RunDefect", description: `The output cannot be encoded: ${why}` })
    return false
  }
  if (isStopped(run, decoded.cause)) return false
  const issues = describe(drive.runtime, Cause.squash(decoded.cause))
  emit(run, {
    _tag: "output.rejected",
    at: now(drive),
    message: `${misfitAnswer}: ${issues}. Answer again, with nothing but JSON that fits.`
  })
  return false
})

/** The beginning of the message about an answer that does not fit. */
const misfitAnswer = "The answer does not fit the required form"

/** The message about the run's last answer, if that did not fit and the model has not answered again. */
export const lastMisfit = (state: RunState): string | undefined => {
  const last = History.last(state.history)
  if (last?.role !== "user" || last.origin !== "runtime") return undefined
  const said = textOf(last.content)
  return said.startsWith(misfitAnswer) ? said : undefined
}

/** The JSON of an answer, which may be in a code fence. */
const parseAnswer = (answer: string): unknown => {
  const fenced = /^\s*```(?:json)?\s*\n([\s\S]*?)\n\s*```\s*$/.exec(answer)
  try {
    return JSON.parse(fenced?.[1] ?? answer) as unknown
  } catch {
    return undefined
  }
}
