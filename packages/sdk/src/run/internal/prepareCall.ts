/**
 * What a call needs before its body may start: its tool, the value of its arguments, and authority that still holds.
 *
 * The body gets the value that was decoded when the call was classified, as it was shown. A call whose tool or arguments changed since
 * is understood anew and asked about again; one whose grant or policy no longer lets it through is judged anew. Neither starts in this
 * step.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import { decodeArguments } from "../../agent/internal/decoding.ts"
import { describe } from "../../agent/internal/userCode.ts"
import { lines, sentence } from "../../domain/Display.ts"
import { cloneJson, sameJson } from "../../domain/internal/json.ts"
import { callIdOf } from "../../domain/Interruption.ts"
import { ToolUnavailable } from "../../domain/RunError.ts"
import { type ToolCall, findCall } from "../../domain/RunState.ts"
import { decodeEdited } from "../../tool/internal/decodedArguments.ts"
import { outOfTime } from "../steps/limits.ts"
import { isStopped, timeLeftOf, stateOf, type Scope } from "./AgentRun.ts"
import { authorize, isEdited, type Judging } from "./authorize.ts"
import { type Understood, classifyTool, deny, describeArguments, guarded, judge, parse } from "./judge.ts"
import { shownOf, toolEntryOf, openApproval, openInDoubt } from "./openRequest.ts"
import { type ToolEntry } from "./userCalls.ts"

/** A call whose body may start. */
export interface Prepared {
  readonly call: ToolCall
  readonly entry: ToolEntry
  readonly value: unknown
}

/** The arguments cannot be what was shown any more. */
const stale = Symbol("stale")

/** Prepares a call; `undefined` where it has its result already, or is asked about again. */
export const prepare = Effect.fnUntraced(function* (scope: Scope, call: ToolCall | undefined) {
  if (call === undefined) return undefined
  if ((timeLeftOf(scope) ?? 1) <= 0) {
    yield* outOfTime(scope, call)
    return undefined
  }
  const entry = toolEntryOf(scope.bound, call)
  if (entry === undefined) return unavailable(scope, call, "missing")
  const mayHaveRun =
    call.attempt > 0 && call.safety !== "readOnly" && scope.drive.clear?.has(call.id) !== true
  const judging = { scope, call, entry, mayHaveRun }
  const judged = yield* scope.supervisor.run(authorize(judging, () => valueOf(scope, call, entry)))
  // Stopped while the tool's own rule was asked.
  if (Exit.isFailure(judged)) return undefined
  const standing = judged.value
  if (standing._tag === "denied") return undefined
  if (standing._tag === "changed") return yield* understandAgain(judging, standing.reason)
  if (standing._tag === "lapsed" && mayHaveRun) return openInDoubt(scope, call, standing.reason)
  const decoded = yield* scope.supervisor.run<unknown, unknown>(valueOf(scope, call, entry))
  if (Exit.isFailure(decoded)) return yield* withoutValue(judging, decoded.cause)
  const { value } = decoded
  if (standing._tag === "holds") return { call, entry, value }
  const shown = shownOf(call)
  const args = { arguments: call.arguments ?? shown, shown, rendering: call.rendering }
  return yield* rejudge(judging, { args, value }, standing.reason)
})

/** The value that the body gets: what was shown. `isTried` compares it also where nothing was shown. */
export const valueOf = (
  scope: Scope,
  call: ToolCall,
  entry: ToolEntry,
  isTried = false
): Effect.Effect<unknown, string | typeof stale> => {
  const decode = (json: unknown) => decodeArguments(entry, stateOf(scope).limits, json)
  if (isEdited(scope, call)) return decodeEdited(entry.decoder, decode, shownOf(call))
  const { rendering, schema } = call
  if (schema !== undefined && rendering === undefined) return Effect.succeed(cloneJson(shownOf(call)))
  // No JSON, or of a version that did not keep the value: decoded again, and compared with what was shown.
  return Effect.flatMap(decode(call.arguments ?? {}), (value) => {
    // Nothing was shown, and no grant was compared with it.
    if (!isTried && call.requestId === undefined && call.grantId === undefined) return Effect.succeed(value)
    const described = describeArguments(scope, entry, call.arguments ?? {}, value)
    const isSame =
      sameJson(described.shown, shownOf(call)) &&
      (rendering === undefined || sameJson(described.rendering, rendering))
    return isSame ? Effect.succeed(value) : Effect.fail(stale)
  })
}

const withoutValue = (
  { call, entry, scope }: Judging,
  cause: Cause.Cause<unknown>
): Effect.Effect<undefined> => {
  if (isStopped(scope, cause)) return nothing
  const problem = Cause.squash(cause)
  if (problem === stale) {
    const reason = sentence`The schema of ${entry.tool.name} makes something else of its arguments than was shown.`
    return askAgain(scope, call, entry, call.arguments ?? {}, reason)
  }
  if (call.proposed !== undefined)
    return askAgain(scope, call, entry, call.proposed, unfitting(scope, problem))
  return Effect.sync(() => unavailable(scope, call, "schemaChanged"))
}

const nothing: Effect.Effect<undefined> = Effect.undefined

const unfitting = ({ drive }: Scope, problem: unknown): string =>
  sentence`The edited arguments do not fit: ${lines(describe(drive.runtime, problem))}`

/** The call waits for its tool, as if it were undecided; everything else goes on. */
const unavailable = (
  scope: Scope,
  { arguments: args, id, name }: ToolCall,
  reason: ToolUnavailable["reason"]
): undefined => {
  const problem = new ToolUnavailable({ runId: stateOf(scope).runId, tool: name, reason })
  scope.drive.addMissing({ id, arguments: args, problem })
}

/** Decodes the arguments with the tool of today, and asks: about a call that may have taken effect, whether it has. */
const understandAgain = Effect.fnUntraced(function* (judging: Judging, reason: string) {
  const { call, entry, mayHaveRun, scope } = judging
  const edited = isEdited(scope, call)
  const json = edited ? call.arguments : parse(call.argumentsText)
  if (json === undefined) return unavailable(scope, call, "schemaChanged")
  const decode = (json: unknown) => decodeArguments(entry, stateOf(scope).limits, json)
  const decoding = edited ? decodeEdited(entry.decoder, decode, json) : decode(json)
  const decoded = yield* scope.supervisor.run<unknown, unknown>(decoding)
  if (Exit.isFailure(decoded)) {
    if (isStopped(scope, decoded.cause)) return undefined
    if (call.proposed === undefined) return unavailable(scope, call, "schemaChanged")
    const why = `${reason} ${unfitting(scope, Cause.squash(decoded.cause))}`
    return yield* askAgain(scope, call, entry, call.proposed, edited ? why : reason)
  }
  const args = describeArguments(scope, entry, json, decoded.value)
  if (!mayHaveRun) return yield* rejudge(judging, { args, value: decoded.value }, reason)
  classifyTool(scope, call, entry, args, {})
  return openInDoubt(scope, findCall(stateOf(scope), call.id) ?? call, reason)
})

const rejudge = (
  { call, entry, scope }: Judging,
  understood: Understood,
  reason: string
): Effect.Effect<undefined> =>
  Effect.suspend(() => {
    const rest = guarded(scope, call, () => judge(scope, call, entry, understood, reason))
    return rest === undefined ? nothing : Effect.as(scope.supervisor.run(rest), undefined)
  })

/** A call whose arguments are something else at every look would be asked about without end, where a callback answers. */
const mostRequests = 10

/** Asks about the call with these arguments, whoever let it through before. */
const askAgain = Effect.fnUntraced(function* (
  scope: Scope,
  call: ToolCall,
  entry: ToolEntry,
  json: Schema.Json,
  reason: string
) {
  const { limits, requests } = stateOf(scope)
  if (
    call.startedAt === undefined &&
    requests.filter(({ request }) => callIdOf(request) === call.id).length >= mostRequests
  ) {
    const { name } = entry.tool
    return deny(
      scope,
      call,
      sentence`${name} was asked about ${mostRequests} times, and what would run was something else each time. It has not run.`
    )
  }
  const decoded = yield* Effect.exit(decodeArguments(entry, limits, json))
  const value = Exit.isSuccess(decoded) ? decoded.value : json
  const args = describeArguments(scope, entry, json, value)
  const asking = guarded(scope, call, () => {
    classifyTool(scope, call, entry, args, {})
    return openApproval(scope, call, entry, args.shown, value, reason)
  })
  if (asking !== undefined) yield* asking
  return undefined
})
