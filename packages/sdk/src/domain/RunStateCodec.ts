/**
 * Encodes run states and journal rows as JSON text, and decodes every released version of them.
 *
 * A state is plain JSON, so encoding is `JSON.stringify`. Decoding treats the text as untrusted input, which may come from a
 * browser or a queue. It reads the version first, migrates older versions one step at a time, refuses newer versions, and checks
 * the result with the schema.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import { isDeeperThan } from "./internal/json.ts"
import { verbatim } from "./internal/verbatim.ts"
import { migrations } from "./migrations/migrations.ts"
import { RunStateMalformed, RunStateTooNew } from "./RunError.ts"
import { RunEvents, type RunEvent, version as eventVersion } from "./RunEvent.ts"
import { RunState, version } from "./RunState.ts"

const decodeState = Schema.decodeUnknownResult(RunState)
const decodeEventList = Schema.decodeUnknownResult(RunEvents)
const isAsWritten = verbatim(RunEvents)
const isReadable = Schema.is(RunEvents)

/** Levels of nested arrays and objects. Deeper values could be parsed, but `JSON.stringify` recurses and might fail on them. */
const maxDepth = 1000

/** Encodes a state as JSON text. */
export const encode = (state: RunState): string => JSON.stringify(state)

/**
 * Decodes a state from JSON text.
 *
 * **Errors**
 *
 * - `RunStateMalformed` — the text is not JSON, has no version, nests deeper than 1,000 levels, does not match the schema of its version,
 *   or contradicts itself.
 * - `RunStateTooNew` — a newer Fermata wrote the text; update Fermata and decode it again.
 */
export const decode = (text: string): Result.Result<RunState, RunStateMalformed | RunStateTooNew> =>
  Result.flatMap(parse(text), decodeUnknown)

/** Decodes a state from a parsed JSON value; see {@link decode}. */
export const decodeUnknown = (value: unknown): Result.Result<RunState, RunStateMalformed | RunStateTooNew> =>
  Result.gen(function* () {
    yield* requireShallow(value)
    const current = yield* migrate(value, version)
    return yield* Result.mapError(decodeState(current), malformed)
  })

const isState = Schema.is(RunState)

/**
 * The schema of a state as JSON, of any version that {@link decode} reads: for a field of a request, a message or a row. It encodes a state
 * in the current version.
 *
 * **Example** (A state in a request)
 *
 * ```ts run
 * import { Agent, Runtime, RunStateCodec, runPrompt } from "@fermata/sdk"
 * import { ScriptedModel } from "@fermata/sdk/testing"
 * import { Effect, Schema } from "effect"
 *
 * const Request = Schema.Struct({ state: RunStateCodec.RunStateFromJson, prompt: Schema.String })
 *
 * const program = Effect.gen(function* () {
 *   const runtime = yield* Runtime.make({ agent: Agent.make("ops") })
 *   const { state } = yield* runPrompt(runtime, { prompt: "Is everything up?" })
 *   const body = JSON.stringify(yield* Schema.encodeEffect(Request)({ state, prompt: "And now?" }))
 *   const request = yield* Schema.decodeUnknownEffect(Request)(JSON.parse(body))
 *   return (yield* runPrompt(runtime, request)).status
 * })
 * const model = ScriptedModel.make(["It is.", "Still."]).layer
 * console.log(await Effect.runPromise(Effect.provide(program, model))) // completed
 * ```
 *
 * @category schemas
 * @since 0.2.0
 */
export const RunStateFromJson: Schema.Codec<RunState, Schema.Json> = Schema.Json.pipe(
  Schema.decodeTo(
    Schema.declare((value): value is RunState => isState(value)),
    {
      decode: SchemaGetter.transformEffect((value: Schema.Json) =>
        Effect.fromResult(
          Result.mapError(decodeUnknown(value), ({ message }) => new SchemaIssue.InvalidValue({ message }))
        )
      ),
      encode: SchemaGetter.transform((state: RunState) => state as unknown as Schema.Json)
    }
  )
)

/**
 * Like {@link RunStateFromJson}, from the text of the JSON.
 *
 * @category schemas
 * @since 0.2.0
 */
export const RunStateFromJsonString: Schema.Codec<RunState, string> = Schema.fromJsonString(RunStateFromJson)

/** Whether events can be decoded again after {@link encodeEvents}. */
export const areReadable = (events: ReadonlyArray<RunEvent>): boolean =>
  isAsWritten(events) || (!isDeeperThan(events, maxDepth) && isReadable(events))

/** Encodes the events of one journal row as JSON text. */
export const encodeEvents = (events: ReadonlyArray<RunEvent>): string => JSON.stringify(events)

/**
 * Decodes the events of a journal row that was written as version `rowVersion`.
 *
 * **Errors**
 *
 * - `RunStateMalformed` — the text is not JSON, nests deeper than 1,000 levels, or does not match the events' schema.
 * - `RunStateTooNew` — a newer Fermata wrote the row.
 */
export const decodeEvents = (
  text: string,
  rowVersion: number
): Result.Result<ReadonlyArray<RunEvent>, RunStateMalformed | RunStateTooNew> => {
  if (rowVersion > eventVersion) {
    return Result.fail(new RunStateTooNew({ version: rowVersion, supported: eventVersion }))
  }
  return Result.flatMap(parse(text), (value) =>
    isAsWritten(value)
      ? Result.succeed(value)
      : Result.flatMap(requireShallow(value), () => Result.mapError(decodeEventList(value), malformed))
  )
}

const malformed = ({ message }: Schema.SchemaError) => new RunStateMalformed({ issues: message })

const parse = (text: string): Result.Result<unknown, RunStateMalformed> =>
  Result.try({
    try: () => JSON.parse(text) as unknown,
    catch: () => new RunStateMalformed({ issues: "the text is not JSON" })
  })

const requireShallow = (value: unknown): Result.Result<void, RunStateMalformed> =>
  isDeeperThan(value, maxDepth)
    ? Result.fail(new RunStateMalformed({ issues: `it nests deeper than ${maxDepth} levels` }))
    : Result.void

const migrate = (
  value: unknown,
  target: number
): Result.Result<unknown, RunStateMalformed | RunStateTooNew> => {
  let current = value
  let at = versionOf(current)
  if (at === undefined) return Result.fail(new RunStateMalformed({ issues: "it has no version" }))
  if (at > target) return Result.fail(new RunStateTooNew({ version: at, supported: target }))
  while (at < target) {
    const step: ((state: unknown) => unknown) | undefined = migrations[at]
    if (step === undefined) return Result.fail(new RunStateMalformed({ issues: `there is no version ${at}` }))
    current = step(current)
    at += 1
  }
  return Result.succeed(current)
}

const versionOf = (value: unknown): number | undefined => {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, "version")) return undefined
  const { version } = value as { readonly version: unknown }
  return typeof version === "number" && Number.isInteger(version) && version >= 0 ? version : undefined
}
