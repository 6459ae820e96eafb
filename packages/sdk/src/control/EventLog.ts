/**
 * Event logs: files of envelopes, one JSON object a line, which can be replayed into any front end.
 *
 * A log is one more subscriber: a slow disk never delays a task, and the log then has the merged text. Lines are not buffered: each is
 * written as soon as the log has read its event. A file that exceeds its size is renamed, and a new one is begun. Reading and writing use
 * Effect's `FileSystem`, which `@fermata/node` provides for Node.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type * as PlatformError from "effect/PlatformError"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import { atLeastOne, atLeastZero, flag, nonEmpty, required, shapeOf } from "../domain/internal/misfits.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import type { Shape } from "./ControlPlane.ts"
import {
  decode,
  EnvelopeMalformed,
  encodeLine,
  type EnvelopeVersionUnknown,
  type RuntimeEventEnvelope
} from "./RuntimeEventEnvelope.ts"

/** The options of {@link write}. */
export interface LogOptions {
  /** The path of the file. Its directory must exist. Lines are appended to a file that exists. */
  readonly path: string
  /** The size in bytes above which a file is renamed to `path.1`, and the earlier ones to `path.2` and so on. Default: 67,108,864. */
  readonly maxBytes?: number
  /** How many renamed files are kept; with 0, a full file is deleted. Default: 5. */
  readonly keep?: number
  /** Whether the lines of each read are flushed to the disk, which is slower. Default: `false`; the operating system flushes them. */
  readonly sync?: boolean
  /** The number of the first event. Default: 1. */
  readonly from?: number
}

const logShape = shapeOf<LogOptions>({
  path: required(nonEmpty),
  maxBytes: atLeastOne,
  keep: atLeastZero,
  sync: flag,
  from: atLeastOne
})

/** The errors of {@link write}. */
export type LogError = OptionsInvalid | PlatformError.PlatformError | RunStoreError

/**
 * Writes the events of a plane to a file until the plane has stopped. Fork it in the scope of the plane. A failure of the file ends the
 * log, and affects no task.
 */
export const write: (
  plane: Pick<Shape, "events">,
  options: LogOptions
) => Effect.Effect<void, LogError, FileSystem.FileSystem> = Effect.fnUntraced(function* (
  plane: Pick<Shape, "events">,
  given: LogOptions
) {
  const options = yield* requireOptions("EventLog.write", given ?? null, logShape)
  const files = yield* FileSystem.FileSystem
  const { from = 1, keep = 5, maxBytes = 64 * 1024 * 1024, path, sync = false } = options
  let size = 0
  const open = Effect.gen(function* () {
    const file = yield* files.open(path, { flag: "a" })
    size = Number((yield* file.stat).size)
    return file
  })
  yield* plane.events(from).pipe(
    Stream.chunks,
    Stream.runForEach((envelopes) =>
      Effect.scoped(
        Effect.gen(function* () {
          let file = yield* open
          for (const envelope of envelopes) {
            const bytes = encoder.encode(`${encodeLine(envelope)}\n`)
            if (size > 0 && size + bytes.length > maxBytes) {
              yield* rotate(files, path, keep)
              file = yield* open
            }
            yield* file.writeAll(bytes)
            size += bytes.length
          }
          if (sync) yield* file.sync
        })
      )
    )
  )
})

const encoder = new TextEncoder()

/** Renames `path` to `path.1`, and each earlier file to the next number. The last one is deleted. */
const rotate = Effect.fnUntraced(function* (files: FileSystem.FileSystem, path: string, keep: number) {
  if (keep === 0) return yield* files.remove(path)
  for (let number = keep - 1; number >= 1; number -= 1) {
    if (yield* files.exists(`${path}.${number}`))
      yield* files.rename(`${path}.${number}`, `${path}.${number + 1}`)
  }
  yield* files.rename(path, `${path}.1`)
})

/** The errors of a line that is not an envelope, or one of another version. */
export type ReadError = EnvelopeVersionUnknown | EnvelopeMalformed

/**
 * Reads envelopes from the text of a log, which may arrive in pieces of any length. Events that this version does not know are skipped, and
 * so is a last line without a line feed that cannot be read, such as a killed program leaves.
 *
 * **Errors**
 *
 * - `EnvelopeVersionUnknown` — a line is an envelope of another version; its message says which program to update.
 * - `EnvelopeMalformed` — a line is not JSON, or not an envelope.
 */
export const read = <E, R>(
  text: Stream.Stream<string, E, R>
): Stream.Stream<RuntimeEventEnvelope, E | ReadError, R> =>
  Stream.suspend(() => {
    let rest = ""
    const lines = Stream.map(text, (piece) => {
      const all = `${rest}${piece}`.split("\n")
      rest = all.pop() ?? ""
      return all
    })
    const last = Stream.suspend(() => {
      const envelope = Result.getOrUndefined(parse(rest))
      return envelope === undefined ? Stream.empty : Stream.succeed(envelope)
    })
    const whole = Stream.flatMap(lines, (all) =>
      Stream.fromIterable(all).pipe(
        Stream.filter((line) => line.trim() !== ""),
        Stream.mapEffect((line) => Effect.fromResult(parse(line)))
      )
    )
    const known = Stream.flatMap(whole, (envelope) =>
      envelope === undefined ? Stream.empty : Stream.succeed(envelope)
    )
    return Stream.concat(known, last)
  })

const parse = (line: string): Result.Result<RuntimeEventEnvelope | undefined, ReadError> => {
  try {
    return decode(JSON.parse(line))
  } catch {
    return Result.fail(new EnvelopeMalformed({ issues: "a line is no JSON" }))
  }
}

/** Reads envelopes from the file of a log. */
export const readFile = (
  path: string
): Stream.Stream<RuntimeEventEnvelope, ReadError | PlatformError.PlatformError, FileSystem.FileSystem> =>
  Stream.unwrap(Effect.map(FileSystem.FileSystem, (files) => read(Stream.decodeText(files.stream(path)))))

/** The options of {@link replay}. */
export interface ReplayOptions {
  /** How many times faster than recorded: 1 (the default) waits as long as the events did, `Infinity` does not wait. */
  readonly speed?: number
  /** The longest wait between two events, in milliseconds. Default: unlimited. */
  readonly longestWaitMs?: number
  /** Whether the replay begins paused. Default: `false`. */
  readonly paused?: boolean
}

/** A replay of envelopes, which a front end reads like the events of a plane. */
export interface Replay<E> {
  /** The envelopes, in their time. To be read once. */
  readonly events: Stream.Stream<RuntimeEventEnvelope, E>
  /** Pauses before the next envelope. */
  readonly pause: Effect.Effect<void>
  /** Continues at the speed of the replay. */
  readonly resume: Effect.Effect<void>
  /** While paused, emits the next envelope. */
  readonly step: Effect.Effect<void>
}

/**
 * Replays envelopes at a speed, paused or step by step.
 *
 * **Example** (Replaying without waits)
 *
 * ```ts run
 * import { EventLog } from "@fermata/sdk/control"
 * import { Effect, Stream } from "effect"
 *
 * const line = '{"v":1,"seq":1,"tsUnixMs":0,"event":{"family":"Lifecycle","_tag":"lifecycle.stopped"}}\n'
 * const program = Effect.gen(function* () {
 *   const { events } = EventLog.replay(EventLog.read(Stream.make(line)), { speed: Infinity })
 *   yield* Stream.runForEach(events, ({ event }) => Effect.sync(() => console.log(event._tag))) // lifecycle.stopped
 * })
 * await Effect.runPromise(program)
 * ```
 */
export const replay = <E>(
  log: Stream.Stream<RuntimeEventEnvelope, E>,
  { longestWaitMs = Number.POSITIVE_INFINITY, paused = false, speed = 1 }: ReplayOptions = {}
): Replay<E> => {
  let isPaused = paused
  let steps = 0
  let waiter: (() => void) | undefined
  let last: number | undefined
  const wake = () => {
    // Cleared first: the woken fiber may wait again at once.
    const woken = waiter
    waiter = undefined
    woken?.()
  }
  const changed = Effect.callback<void>((resume) => {
    waiter = () => resume(Effect.void)
    return Effect.sync(() => {
      waiter = undefined
    })
  })
  const mayGo: Effect.Effect<void> = Effect.suspend(() => {
    if (!isPaused) return Effect.void
    if (steps > 0) {
      steps -= 1
      return Effect.void
    }
    return Effect.andThen(changed, mayGo)
  })
  const inTime = (at: number): Effect.Effect<void> =>
    Effect.suspend(() => {
      const ms = last === undefined ? 0 : Math.max(0, at - last) / speed
      last = at
      const wait = Math.min(ms, longestWaitMs)
      return wait > 0 && !isPaused ? Effect.raceFirst(Effect.sleep(wait), changed) : Effect.void
    })
  return {
    events: Stream.mapEffect(log, (envelope) =>
      Effect.as(Effect.andThen(inTime(envelope.tsUnixMs), mayGo), envelope)
    ),
    pause: Effect.sync(() => {
      isPaused = true
      wake()
    }),
    resume: Effect.sync(() => {
      isPaused = false
      steps = 0
      wake()
    }),
    step: Effect.sync(() => {
      steps += 1
      wake()
    })
  }
}

/** Writes the events of a plane to a file in the background, until the scope closes; a failure of the file is logged. */
export const attach = (
  plane: Pick<Shape, "events">,
  options: LogOptions
): Effect.Effect<void, never, FileSystem.FileSystem | Scope.Scope> =>
  Effect.asVoid(
    Effect.forkScoped(
      Effect.catch(write(plane, options), ({ message }) =>
        Effect.logWarning(`The event log has ended: ${message}`)
      )
    )
  )
