/**
 * Prepares a call for its body: finds its tool, decodes its arguments, and checks its authorization again.
 *
 * The body receives the value that was decoded when the call was classified, or the arguments of an edited approval: the value that was
 * shown or decided. A call whose tool or arguments have changed is classified and judged again; a call whose grant or rule no longer allows
 * it is judged again. Neither starts in this step.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { decodeArguments } from "../../agent/internal/decoding.ts"
import {
  contextRefused,
  lacksSecrets,
  lacksSandbox,
  missingTool,
  sandboxMissing,
  sandboxProblem,
  secretsMissing
} from "../../agent/internal/definitions.ts"
import { describe } from "../../agent/internal/userCode.ts"
import { lines, sentence } from "../../domain/Display.ts"
import { cloneJson, sameJson } from "../../domain/internal/json.ts"
import { recordOf } from "../../domain/internal/released.ts"
import { callIdOf } from "../../domain/Interruption.ts"
import { text } from "../../domain/Message.ts"
import type { ToolUnavailable } from "../../domain/RunError.ts"
import { type ToolCall, findCall } from "../../domain/RunState.ts"
import type { Shape as Sandbox } from "../../sandbox/Sandbox.ts"
import { type DecodedArguments, decodeEdited } from "../../tool/internal/decodedArguments.ts"
import { SecretUnavailable } from "../../tool/ToolError.ts"
import { isCallOpen, isStopped, timeLeftOf, stateOf, type AgentRun } from "../internal/AgentRun.ts"
import { now } from "../internal/Drive.ts"
import { contextFor } from "../internal/runContext.ts"
import { outOfTime } from "../steps/limits.ts"
import { askNeed } from "./approvalNeed.ts"
import { authorize, editOf, type Judging } from "./authorize.ts"
import { factsStanding } from "./factsStanding.ts"
import { guarded, judgeCall } from "./judgeCall.ts"
import { shownOf, toolEntryOf, openApproval, openInDoubt } from "./openRequest.ts"
import { classifyTool, deny, describeArguments, emitIfOpen, parse } from "./recordClassification.ts"
import { openSandboxInTime, openSandboxOf } from "./sandbox.ts"
import { failWithoutSecret, resolved, unavailableText, withoutSecret } from "./secrets.ts"
import { type ToolEntry } from "./userCalls.ts"

/** A call whose body may start. */
export interface Prepared {
  readonly call: ToolCall
  readonly entry: ToolEntry
  readonly value: unknown
  /** The value that the body receives: `value` with the secrets that it refers to. */
  readonly resolved: unknown
  /** The sandbox in which the body acts, if its tool has one. */
  readonly sandbox?: Sandbox | undefined
  /** The facts that have to stay the same through the tries of the body, if its tool stated any. */
  readonly facts?: Schema.Json | undefined
}

/** The failure of arguments that no longer decode to the value that was shown. */
const stale = Symbol("stale")

/**
 * Prepares a call. Returns `undefined` if the call does not start in this step: it was settled, waits, or the run was stopped. A
 * generator inside the step: an Effect of its own would take operations of the fiber for every call.
 */
export function* prepare(run: AgentRun, call: ToolCall | undefined): Effect.fn.Return<Prepared | undefined> {
  if (call === undefined) return undefined
  if ((timeLeftOf(run) ?? 1) <= 0) {
    yield* outOfTime(run, call)
    return undefined
  }
  const entry = toolEntryOf(run.bound, call)
  if (entry === undefined) return unavailable(run, call, missingTool(stateOf(run), call))
  if (Result.isFailure(contextFor(run, entry.tool)))
    return unavailable(run, call, contextRefused(stateOf(run), call))
  const mayHaveRun =
    call.attempt > 0 && call.safety !== "readOnly" && run.drive.notHappened?.has(call.id) !== true
  return yield* guarded(run, call, judgeAgain({ run, call, entry, mayHaveRun }), mayHaveRun)
}

function* judgeAgain(judging: Judging): Effect.fn.Return<Prepared | undefined> {
  const { call, entry, mayHaveRun, run } = judging
  const standing = yield* authorize(judging, () => valueOf(run, call, entry))
  if (standing === undefined) return undefined
  if (standing._tag === "denied") return deny(run, call, standing.message)
  if (standing._tag === "changed") return yield* understandAgain(judging, standing.reason)
  if (standing._tag === "lapsed" && mayHaveRun) return openInDoubt(run, call, standing.reason)
  const decoded = yield* run.supervisor.run<unknown, unknown>(checkedValueOf(run, call, entry))
  if (Exit.isFailure(decoded)) return yield* withoutValue(judging, decoded.cause)
  const { value } = decoded
  // The facts of a tool may be those of its sandbox. A sandbox that cannot be opened must not cost the call its approval.
  if (standing._tag === "holds" && actsInSandbox(entry) && openSandboxOf(run) === undefined)
    return yield* openItsSandbox(judging)
  const again = standing._tag === "holds" ? yield* factsStanding(judging, value) : standing
  if (again === undefined) return undefined
  if (again._tag === "holds") return yield* inItsSandbox(judging, value, again.facts)
  if (again._tag === "restated")
    return yield* askAgain(judging, editOf(run, call) ?? call.arguments ?? {}, again.reason, again.facts)
  if (mayHaveRun) return openInDoubt(run, call, again.reason)
  const shown = shownOf(call)
  const args = { arguments: call.arguments ?? shown, shown, rendering: call.rendering }
  yield* judgeCall(run, call, entry, { args, value }, again.reason)
  return undefined
}

const actsInSandbox = ({ tool }: ToolEntry): boolean => tool.options.sandbox === true

/** Prepares a call that may start, in the run's sandbox if its tool acts in one. */
function* inItsSandbox(
  judging: Judging,
  value: unknown,
  facts: Schema.Json | undefined
): Effect.fn.Return<Prepared | undefined> {
  if (!actsInSandbox(judging.entry)) return yield* withItsSecrets(judging, value, facts)
  const open = openSandboxOf(judging.run)
  // It may have been released since it was opened.
  if (open === undefined) return yield* openItsSandbox(judging)
  const prepared = yield* withItsSecrets(judging, value, facts)
  return prepared === undefined ? undefined : { ...prepared, sandbox: open }
}

/**
 * Opens the sandbox of a call that may start. Opening takes time, so the call is judged again with the open sandbox. A call whose sandbox
 * cannot be opened does not run, and waits.
 */
function* openItsSandbox(judging: Judging): Effect.fn.Return<Prepared | undefined> {
  const { call, entry, run } = judging
  const { drive } = run
  if (lacksSandbox(drive.runtime, drive.state, entry))
    return unavailable(run, call, sandboxMissing(drive.state, stateOf(run), call))
  const exit = yield* run.supervisor.run(openSandboxInTime(run, entry.tool))
  if (Exit.isFailure(exit)) {
    if (isStopped(run, exit.cause)) return undefined
    const found = Cause.findErrorOption(exit.cause)
    return Option.isNone(found)
      ? yield* Effect.failCause(exit.cause as Cause.Cause<never>)
      : unavailable(run, call, sandboxProblem(drive.state, stateOf(run), call, found.value))
  }
  const again = isCallOpen(run, call.id) ? findCall(stateOf(run), call.id) : undefined
  return again === undefined ? undefined : yield* judgeAgain({ ...judging, call: again })
}

/** Reads the secrets of a call that may start. A call whose secrets cannot be read has not run. */
function* withItsSecrets(
  judging: Judging,
  value: unknown,
  facts: Schema.Json | undefined
): Effect.fn.Return<Prepared | undefined> {
  const { call, entry, mayHaveRun, run } = judging
  if (entry.tool.options.secrets === undefined) return { call, entry, value, resolved: value, facts }
  if (lacksSecrets(run.drive.runtime, entry, call))
    return unavailable(run, call, secretsMissing(stateOf(run), call))
  const exit = yield* run.supervisor.run(resolved(run, call, entry, value))
  if (Exit.isSuccess(exit)) return { call, entry, value, resolved: exit.value, facts }
  if (isStopped(run, exit.cause)) return undefined
  const found = Cause.squash(exit.cause)
  // A schema that throws does not take the value.
  const problem =
    found instanceof SecretUnavailable
      ? found
      : new SecretUnavailable({ tool: entry.name, secret: "", reason: "unfit" })
  if (mayHaveRun)
    return openInDoubt(run, call, sentence`${call.name} cannot run again: ${unavailableText(problem)}`)
  // A person may write a reference into the arguments that the tool may not use.
  if (editOf(run, call) !== undefined) return yield* askUnfit(judging, withoutSecret(call, problem))
  return failWithoutSecret(run, call, problem)
}

/**
 * The value that the body receives, which is the value that was shown; fails with `stale` if the arguments decode to another one. With
 * `isTried`, a newly decoded value is compared even if no request showed it.
 */
export const valueOf = (
  run: AgentRun,
  call: ToolCall,
  entry: ToolEntry,
  isTried = false
): Effect.Effect<unknown, string | typeof stale> => {
  const decode = (json: unknown) => decodeArguments(entry, stateOf(run).limits, json)
  if (editOf(run, call) !== undefined) return decodeEdited(entry.decoder, decode, shownOf(call))
  const { rendering, schema } = call
  if (schema !== undefined && rendering === undefined) return Effect.succeed(cloneJson(shownOf(call)))
  // The value is not JSON, or an earlier version did not record it: it is decoded again and compared with what was shown.
  return Effect.flatMap(decode(call.arguments ?? {}), (value) => {
    // No request showed the value, and no grant was checked against it.
    if (!isTried && call.requestId === undefined && call.grantId === undefined) return Effect.succeed(value)
    const described = describeArguments(run, entry, call.arguments ?? {}, value)
    const isSame =
      sameJson(described.shown, shownOf(call)) &&
      (rendering === undefined || sameJson(described.rendering, rendering))
    return isSame ? Effect.succeed(value) : Effect.fail(stale)
  })
}

/**
 * The value that the body receives. That of a decided call, whose request may have been open over a deploy, is checked with the current
 * schema, whose fingerprint does not show all that it checks and transforms.
 */
const checkedValueOf = (run: AgentRun, call: ToolCall, entry: ToolEntry): Effect.Effect<unknown, unknown> => {
  const value = valueOf(run, call, entry)
  const isStored = call.schema !== undefined && call.rendering === undefined
  return isStored && recordOf(stateOf(run), call)?.decision !== undefined && editOf(run, call) === undefined
    ? Effect.andThen(checkShown(run, call, entry), value)
    : value
}

/** Fails if the current schema refuses a call's arguments, and with `stale` if it makes something else of them than was shown. */
const checkShown = Effect.fnUntraced(function* (
  run: AgentRun,
  call: ToolCall,
  entry: ToolEntry
): Effect.fn.Return<void, unknown> {
  const { limits, requests } = stateOf(run)
  const { arguments: args = {}, id } = call
  const shown = shownOf(call)
  const decode = (json: unknown) => decodeArguments(entry, limits, json)
  const decoded = Effect.map(decode(args), (value) => describeArguments(run, entry, args, value).shown)
  const now = yield* decoded
  if (sameJson(now, shown)) return
  // What a schema computes from the time or from chance is kept as it was shown: the schema takes that, or gives another value each time.
  if (yield* Effect.isSuccess(decodeEdited(entry.decoder, decode, shown))) return
  if (!sameJson(yield* decoded, now)) return
  const wasOther = requests.some(
    ({ request }) =>
      callIdOf(request) === id &&
      "schema" in request &&
      request.schema === call.schema &&
      !sameJson(request.arguments, shown)
  )
  if (!wasOther) return yield* Effect.fail(stale)
})

function* withoutValue(judging: Judging, cause: Cause.Cause<unknown>): Effect.fn.Return<undefined> {
  const { call, entry, run } = judging
  if (isStopped(run, cause)) return undefined
  const problem = Cause.squash(cause)
  if (problem !== stale) return yield* askUnfit(judging, unfitting(run, call, problem))
  const reason = sentence`The schema of ${entry.tool.name} makes something else of its arguments than was shown.`
  return yield* askAgain(judging, call.arguments ?? {}, reason)
}

const unfitting = (run: AgentRun, call: ToolCall, problem: unknown): string => {
  const which = editOf(run, call) === undefined ? "" : "edited "
  return sentence`The ${which}arguments do not fit: ${lines(describe(run.drive.runtime, problem))}`
}

/** Records that a call waits for its tool. The rest of the run continues. */
const unavailable = (run: AgentRun, call: ToolCall, problem: ToolUnavailable): undefined => {
  run.drive.addMissing({ id: call.id, arguments: call.arguments, problem })
}

/** Classifies a call again with the current tool, and judges it. For a call that may have run, opens an `inDoubt` request instead. */
function* understandAgain(judging: Judging, reason: string): Effect.fn.Return<undefined> {
  const { call, entry, mayHaveRun, run } = judging
  const edit = editOf(run, call)
  const json = edit ?? askedFor(call)
  const decode = (json: unknown) => decodeArguments(entry, stateOf(run).limits, json)
  const decoding = edit === undefined ? decode(json) : decodeEdited(entry.decoder, decode, json)
  const decoded = yield* run.supervisor.run<unknown, unknown>(decoding)
  if (Exit.isFailure(decoded)) {
    if (isStopped(run, decoded.cause)) return undefined
    const why = unfitting(run, call, Cause.squash(decoded.cause))
    return yield* askUnfit(judging, `${reason} ${why}`)
  }
  const args = describeArguments(run, entry, json, decoded.value)
  if (mayHaveRun) return doubtAs(judging, args, reason)
  yield* judgeCall(run, call, entry, { args, value: decoded.value }, reason)
  return undefined
}

/** The arguments of a call as the model wrote them. */
const askedFor = (call: ToolCall): Schema.Json => parse(call.argumentsText) ?? call.arguments ?? {}

/** Classifies a call that may have run with the arguments that a retry would run, and opens an `inDoubt` request about them. */
const doubtAs = (
  { call, entry, run }: Judging,
  args: DecodedArguments,
  reason: string,
  facts?: Schema.Json
): undefined => {
  classifyTool(run, call, entry, args, {})
  return openInDoubt(run, findCall(stateOf(run), call.id) ?? call, reason, facts)
}

/**
 * Asks about a call whose arguments its tool does not take: for approval of what the model wrote, or, if the call may have run, what
 * became of it.
 */
const askUnfit = (judging: Judging, reason: string): Effect.fn.Return<undefined> =>
  askAgain(judging, judging.mayHaveRun ? undefined : askedFor(judging.call), reason)

/** The most requests for one call. A call that decodes differently each time could otherwise loop with an approval callback. */
const mostRequests = 10

/**
 * Opens a request with these arguments, even if a rule, a policy or a grant allowed the call before: `inDoubt` if the call may have run.
 * Without arguments, the request shows those with which the call was started, and no decision runs it.
 */
function* askAgain(
  judging: Judging,
  json: Schema.Json | undefined,
  reason: string,
  facts?: Schema.Json
): Effect.fn.Return<undefined> {
  const { call, entry, mayHaveRun, run } = judging
  const { limits, requests } = stateOf(run)
  if (requests.filter(({ request }) => callIdOf(request) === call.id).length >= mostRequests)
    return giveUp(judging)
  if (json === undefined) return openInDoubt(run, call, reason)
  const decoded = yield* run.supervisor.run<unknown, unknown>(decodeArguments(entry, limits, json))
  if (Exit.isFailure(decoded) && isStopped(run, decoded.cause)) return undefined
  const args = describeArguments(run, entry, json, Exit.isSuccess(decoded) ? decoded.value : json)
  if (mayHaveRun) return doubtAs(judging, args, reason, facts)
  // Arguments that the schema does not take are shown as the model wrote them: only an edited approval can run the call.
  classifyTool(run, call, entry, args, { isUnfit: Exit.isFailure(decoded) })
  const always = yield* alwaysOf(run, call, entry, decoded)
  if (always === undefined) return undefined
  yield* openApproval(run, call, entry, args.shown, decoded, { reason, ...always })
  return undefined
}

/** Why each such call is asked about, if its tool says so. Returns `undefined` if the run was stopped meanwhile. */
function* alwaysOf(
  run: AgentRun,
  call: ToolCall,
  { tool }: ToolEntry,
  decoded: Exit.Exit<unknown, unknown>
): Effect.fn.Return<{ readonly always?: string } | undefined> {
  if (Exit.isFailure(decoded)) return {}
  const need = yield* askNeed(run, call, tool, decoded.value)
  return need?.always === undefined ? need && {} : { always: need.always }
}

/** Settles a call that was asked about too often. */
const giveUp = ({ call, entry, mayHaveRun, run }: Judging): undefined => {
  const asked = sentence`${entry.tool.name} was asked about ${mostRequests} times, and what would run was something else each time.`
  if (!mayHaveRun) return deny(run, call, `${asked} It has not run.`)
  const said = `${asked} It was started before, and it is not known whether it took effect.`
  return emitIfOpen(run, {
    _tag: "tool.failed",
    at: now(run.drive),
    callId: call.id,
    content: [text(said)]
  })
}
