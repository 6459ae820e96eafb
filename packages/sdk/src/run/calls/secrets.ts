/**
 * Resolves the references to secrets in the arguments of a call, for its body.
 *
 * Everything before the body, and everything that is recorded, has the references. The values are read once the call is authorized, before its
 * start is recorded, and again for each further try. Without all of its secrets no body runs.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { decodeArguments } from "../../agent/internal/decoding.ts"
import { call as callUserCode } from "../../agent/internal/userCode.ts"
import { sentence } from "../../domain/Display.ts"
import { sameJson } from "../../domain/internal/json.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import { know, shortestSecret } from "../../model/internal/knownSecrets.ts"
import { decodeEdited, describeDecoded } from "../../tool/internal/decodedArguments.ts"
import { hasReference, isStated, referencesIn, withSecrets } from "../../tool/internal/secretReferences.ts"
import { read } from "../../tool/Secrets.ts"
import type { AnyTool } from "../../tool/Tool.ts"
import { SecretUnavailable } from "../../tool/ToolError.ts"
import { type AgentRun, isCallOpen, judgingMs, stateOf } from "../internal/AgentRun.ts"
import { contextIn } from "../internal/runContext.ts"
import { editOf } from "./authorize.ts"
import { shownOf } from "./openRequest.ts"
import { describeArguments } from "./recordClassification.ts"
import { calledOf, failCall, type ToolEntry } from "./userCalls.ts"

/** The first reference in these arguments that a tool may not use; `undefined` if it may use all, or resolves none. */
export const unstatedIn = (
  { name, options }: AnyTool,
  ...args: ReadonlyArray<Schema.Json>
): SecretUnavailable | undefined => {
  const { secrets } = options
  if (secrets === undefined) return undefined
  for (const json of args)
    for (const secret of referencesIn(json))
      if (!isStated(secrets, secret))
        return new SecretUnavailable({ tool: name, secret, reason: "notStated" })
  return undefined
}

/**
 * Why a call with a reference cannot run, for the model. The sentence is the same whether the tool may not use the secret, or there is none,
 * or it cannot be read, so calls do not reveal which secrets exist.
 */
export const unavailableText = ({ reason, secret }: SecretUnavailable): string =>
  reason === "unfit"
    ? "the value of a secret in its arguments does not fit its parameters."
    : sentence`it cannot use the secret "${secret}". A reference is secret://name, or secret://{name} in front of other text.`

/** {@link unavailableText} about a call that has not run. */
export const withoutSecret = ({ name }: ToolCall, problem: SecretUnavailable): string =>
  sentence`${name} has not run: ${unavailableText(problem)}`

/** Fails a call that has not run for want of a secret. The log and the hooks receive the reason. */
export const failWithoutSecret = (run: AgentRun, call: ToolCall, problem: SecretUnavailable): undefined => {
  if (isCallOpen(run, call.id))
    failCall(run, call, "secrets", Cause.fail(problem), withoutSecret(call, problem))
}

/** The value that the body receives: the decoded arguments with the values of their secrets. */
export const resolved = (
  run: AgentRun,
  call: ToolCall,
  entry: ToolEntry,
  value: unknown
): Effect.Effect<unknown, SecretUnavailable> => {
  const { tool } = entry
  if (tool.options.secrets === undefined) return Effect.succeed(value)
  const shown = shownOf(call)
  const args = editOf(run, call) === undefined ? (call.arguments ?? {}) : shown
  const names = referencesIn(shown, referencesIn(args))
  if (names.size === 0) return Effect.succeed(value)
  const unstated = unstatedIn(tool, args, shown)
  if (unstated !== undefined) return Effect.fail(unstated)
  return Effect.gen(function* () {
    const values = new Map<string, string>()
    for (const secret of names) values.set(secret, yield* valueOf(run, call, tool, secret))
    const [secret = ""] = names
    const unfit = () => new SecretUnavailable({ tool: tool.name, secret, reason: "unfit" })
    const value = yield* Effect.mapError(decodedWith(run, call, entry, values), unfit)
    // A schema may have made a reference of another text. No body runs with one.
    const isLeft = hasReference(describeDecoded(entry.decoder, args, value).shown)
    const isOfValue = [...values.values()].some((one) => hasReference(one))
    return isLeft && !isOfValue ? yield* unfit() : value
  })
}

const valueOf = (
  run: AgentRun,
  call: ToolCall,
  tool: AnyTool,
  secret: string
): Effect.Effect<string, SecretUnavailable> => {
  const { runtime } = run.drive
  const { agentPath, runId, sessionId } = stateOf(run)
  const unavailable = (reason: SecretUnavailable["reason"]) =>
    Effect.fail(new SecretUnavailable({ tool: tool.name, secret, reason }))
  const use = {
    tool: tool.name,
    arguments: shownOf(call),
    runId,
    sessionId,
    callId: call.id,
    agentPath,
    context: contextIn(run)
  }
  const reading = callUserCode<string | undefined>(
    runtime,
    calledOf(run, "secrets", call, tool),
    () => read(runtime.secrets, secret, use),
    judgingMs(run, tool)
  )
  return Effect.flatMap(
    Effect.catch(reading, () => unavailable("failed")),
    (value) => {
      if (value === undefined) return unavailable("missing")
      if (value.trim().length < shortestSecret) return unavailable("short")
      // Before the body has it, so that no text with it passes a scrubber that does not know it.
      know(secret, value)
      return Effect.succeed(value)
    }
  )
}

/**
 * Decodes the arguments with the values. What a schema computes from the time or from chance is kept as it was shown: the values are put into
 * that, if the schema takes them.
 */
const decodedWith = (
  run: AgentRun,
  call: ToolCall,
  entry: ToolEntry,
  values: ReadonlyMap<string, string>
): Effect.Effect<unknown, unknown> => {
  const decode = (json: unknown) => decodeArguments(entry, stateOf(run).limits, json)
  const { arguments: args = {}, rendering } = call
  const shown = shownOf(call)
  if (editOf(run, call) !== undefined) return decodeEdited(entry.decoder, decode, withSecrets(shown, values))
  const decoded = decode(withSecrets(args, values))
  if (rendering !== undefined) return decoded
  return Effect.flatMap(decode(args), (again) =>
    sameJson(describeArguments(run, entry, args, again).shown, shown)
      ? decoded
      : Effect.as(decoded, withSecrets(shown, values))
  )
}
