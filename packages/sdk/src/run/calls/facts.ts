/**
 * Reads the facts that a tool states about a call: what an approval depends on besides the arguments, such as a price.
 *
 * Without its facts, no person can approve a call: a call whose facts cannot be read fails without a request, and without a start. A tool
 * can refuse a call in this way: its `ToolFailure` is then the result, and not a failure of the program.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import { AnsweredLate, call as callUserCode, describe, logFailure } from "../../agent/internal/userCode.ts"
import { lines, sentence } from "../../domain/Display.ts"
import { copyJson } from "../../domain/internal/json.ts"
import { text } from "../../domain/Message.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import { copyDecoded } from "../../tool/internal/decodedArguments.ts"
import type { AnyTool } from "../../tool/Tool.ts"
import { ToolFailure } from "../../tool/ToolError.ts"
import { type AgentRun, isCallOpen, isStopped, judgingMs } from "../internal/AgentRun.ts"
import { emit, now } from "../internal/Drive.ts"
import { holdsWithheld, redactJson } from "../internal/redact.ts"
import { callbackContext } from "../internal/runContext.ts"
import { calledOf } from "./userCalls.ts"

/** The facts of a call without secrets, `undefined` if its tool states none; or why they cannot be read. */
export type Facts = Exit.Exit<Schema.Json | undefined, unknown>

/** The most characters of facts as JSON. They are in a request and its digest, and are read again before the body. */
const longestFacts = 100_000

/** The facts of a call whose tool states none. */
export const noFacts: Facts = Exit.succeed(undefined)

/** Reads the facts of a call with these decoded arguments. */
export const statedFacts = (
  run: AgentRun,
  call: Pick<ToolCall, "id">,
  tool: AnyTool,
  value: unknown
): Effect.Effect<Schema.Json | undefined, unknown> => {
  const { facts } = tool.options
  if (facts === undefined) return noFacts
  const { runtime } = run.drive
  // A copy, since the body receives the value.
  const args = copyDecoded(value) ?? value
  const ask = () => facts(args, callbackContext(run, tool))
  const called = calledOf(run, "facts", call, tool)
  const asking = callUserCode(runtime, called, ask, judgingMs(run, tool), () => Effect.void)
  return Effect.flatMap(asking, (stated) => {
    const json = copyJson(stated)
    if (json === undefined) return Effect.fail("they are not JSON")
    if (JSON.stringify(json).length > longestFacts)
      return Effect.fail(`they are longer than ${longestFacts.toLocaleString("en-US")} characters of JSON`)
    const redacted = redactJson(runtime.scrubber, json)
    return holdsWithheld(redacted) ? Effect.fail("the scrubber failed on them") : Effect.succeed(redacted)
  }).pipe(
    Effect.tapCause((cause) =>
      isRefusal(Cause.squash(cause)) ? Effect.void : logFailure(runtime, called, cause)
    )
  )
}

/** Whether the tool itself refuses the call. */
const isRefusal = (error: unknown): error is ToolFailure =>
  error instanceof ToolFailure && !(error instanceof AnsweredLate)

/** Reads the facts of a call, supervised. Returns `undefined` if the run was stopped meanwhile. */
export function* readFacts(
  run: AgentRun,
  call: ToolCall,
  tool: AnyTool,
  value: unknown
): Effect.fn.Return<Facts | undefined> {
  if (tool.options.facts === undefined) return noFacts
  const answer = yield* run.supervisor.run(statedFacts(run, call, tool, value))
  return Exit.isFailure(answer) && isStopped(run, answer.cause) ? undefined : answer
}

/** Why facts cannot be read, for the model and for the person who decides. */
export const unreadText = (run: AgentRun, { name }: AnyTool, cause: Cause.Cause<unknown>): string =>
  sentence`The facts of ${name} cannot be read: ${lines(describe(run.drive.runtime, Cause.squash(cause)))}.`

/** Fails a call whose facts cannot be read, and which has not run. */
export const failUnread = (
  run: AgentRun,
  call: ToolCall,
  tool: AnyTool,
  cause: Cause.Cause<unknown>
): undefined => {
  if (!isCallOpen(run, call.id)) return
  const error = Cause.squash(cause)
  const why = isRefusal(error) ? lines(describe(run.drive.runtime, error)) : undefined
  const said = why === undefined ? unreadText(run, tool, cause) : sentence`${why}`
  const content = [text(`${said} ${call.name} has not run.`)]
  emit(run, { _tag: "tool.failed", at: now(run.drive), callId: call.id, content }, cause)
}
