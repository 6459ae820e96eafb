/**
 * Run states as JSON text, for every version that was ever released.
 *
 * A state is plain JSON already; writing one is `JSON.stringify`. Reading one is careful: the text is input, maybe from a
 * browser or a queue. Its version is looked at first, older versions are migrated one step at a time, newer ones are refused
 * with a sentence, and what comes out is checked with the schema.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
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

/**
 * How deep arrays and objects may lie in each other. What is deeper could be read but, since `JSON.stringify` recurses, maybe
 * not written again.
 */
const maxDepth = 1000

/** The JSON text of a state. */
export const encode = (state: RunState): string => JSON.stringify(state)

/**
 * The state that a JSON text holds.
 *
 * **Errors**
 *
 * - `RunStateMalformed` — not JSON, no version, or not of the shape that its version has.
 * - `RunStateTooNew` — written by a newer Fermata; update, then read it again.
 */
export const decode = (text: string): Result.Result<RunState, RunStateMalformed | RunStateTooNew> =>
  Result.flatMap(parse(text), decodeUnknown)

/** Like {@link decode}, from a value that was parsed already. */
export const decodeUnknown = (value: unknown): Result.Result<RunState, RunStateMalformed | RunStateTooNew> =>
  Result.gen(function* () {
    yield* requireShallow(value)
    const current = yield* migrate(value, version)
    return yield* Result.mapError(decodeState(current), malformed)
  })

/** Whether a list of events is one that can be read back when it has been written. */
export const areReadable = (events: ReadonlyArray<RunEvent>): boolean =>
  isAsWritten(events) || isReadable(events)

/** The JSON text of a row of the journal. */
export const encodeEvents = (events: ReadonlyArray<RunEvent>): string => JSON.stringify(events)

/** The events of a row of the journal that was written as `rowVersion`. */
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
