/**
 * Envelopes: events with a version, a sequence number and a time, as front ends, logs and connections receive them.
 *
 * Compatibility: within a version, changes only add events and optional fields, so a reader ignores the events and fields that it does not
 * know. Every other change raises {@link version}. An envelope of another version is refused with `EnvelopeVersionUnknown`, whose sentence
 * says which side to update.
 *
 * @since 0.2.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import { lines, sentence } from "../domain/Display.ts"
import { RunId, Timestamp } from "../domain/Id.ts"
import { TaggedError } from "../domain/TaggedError.ts"
import { RuntimeEvent } from "./RuntimeEvent.ts"

/** The version of the events and the envelope. */
export const version = 1

/** The place in a run's journal from which a durable event comes. */
export const JournalPlace = Schema.Struct({
  runId: RunId,
  /** The number of events in the journal, including the one from which this event comes. */
  revision: Schema.Natural,
  /** The number of this event among those that come from one event of the journal, from 0. */
  part: Schema.Natural,
  /** Set on the last of these events, if the journal was committed up to here before it was published. */
  committed: Schema.optionalKey(Schema.Literal(true))
})
export type JournalPlace = typeof JournalPlace.Type

/**
 * An event with its version, number and time.
 *
 * **Details**
 *
 * `seq` numbers the events of one epoch of a runtime from 1, without gaps. An envelope with `merged` covers that many numbers: its own and
 * those directly before it, whose texts were merged into this envelope or another one. So `seq - (merged ?? 1)` is the `seq` of the
 * envelope that the subscriber received before it; any other number means that the connection has lost one.
 *
 * @category models
 * @since 0.2.0
 */
export const RuntimeEventEnvelope = Schema.Struct({
  v: Schema.Literal(version),
  seq: Schema.Natural,
  /** When the event happened, in milliseconds since 1970. */
  tsUnixMs: Timestamp,
  event: RuntimeEvent,
  /** Set on events that come from a journal. */
  journal: Schema.optionalKey(JournalPlace),
  /** How many numbers this envelope covers. Absent: one. */
  merged: Schema.optionalKey(Schema.Natural),
  /** Set on an event of an earlier epoch that was read again from a journal. Its `seq` is the number before the next live event. */
  replayed: Schema.optionalKey(Schema.Literal(true))
})
export type RuntimeEventEnvelope = typeof RuntimeEventEnvelope.Type

/** An envelope has another version. Nothing was read from it; the message says which program to update. */
export class EnvelopeVersionUnknown extends TaggedError<EnvelopeVersionUnknown>()("EnvelopeVersionUnknown", {
  version: Schema.Unknown,
  known: Schema.Natural
}) {
  override get message() {
    return typeof this.version === "number" && this.version > this.known
      ? sentence`This event has the version ${this.version}, and this program reads version ${this.known}: update the program that reads it.`
      : sentence`This event has no version that this program reads (${this.known}): read it with the version of Fermata that wrote it.`
  }
}

/** A value is not an envelope of this version. */
export class EnvelopeMalformed extends TaggedError<EnvelopeMalformed>()("EnvelopeMalformed", {
  issues: Schema.String
}) {
  override get message() {
    return sentence`This is no event of a Fermata runtime: ${lines(this.issues)}`
  }
}

const decodeKnown = Schema.decodeUnknownResult(RuntimeEventEnvelope)
const format = SchemaIssue.makeFormatterStandardSchemaV1()

const head = Schema.Struct({ ...RuntimeEventEnvelope.fields, event: Schema.Struct({ _tag: Schema.String }) })
const decodeHead = Schema.decodeUnknownResult(head)
const known: ReadonlySet<string> = new Set(
  RuntimeEvent.members.map(({ fields }) => fields._tag.literal as string)
)

/**
 * Decodes an envelope from JSON. Unknown fields are ignored. An event that this version does not know returns `undefined`, since a newer
 * program may add events within a version: skip it.
 *
 * **Errors**
 *
 * - `EnvelopeVersionUnknown` — the envelope is of another version; its message says which program to update.
 * - `EnvelopeMalformed` — the value is not an envelope.
 */
export const decode = (
  given: unknown
): Result.Result<RuntimeEventEnvelope | undefined, EnvelopeVersionUnknown | EnvelopeMalformed> => {
  const v: unknown = typeof given === "object" && given !== null && "v" in given ? given.v : undefined
  if (v !== version) return Result.fail(new EnvelopeVersionUnknown({ version: v, known: version }))
  const decoded = decodeKnown(given)
  if (Result.isSuccess(decoded)) return Result.succeed(decoded.success)
  const shell = decodeHead(given)
  if (Result.isSuccess(shell) && !known.has(shell.success.event._tag)) return Result.succeed(undefined)
  const { issues } = format(decoded.failure.issue)
  const text = issues.map(({ message, path = [] }) => `${path.map(String).join(".")}: ${message}`).join("; ")
  return Result.fail(new EnvelopeMalformed({ issues: text }))
}

/** Encodes an envelope as one line of JSON, without the line's end. */
export const encodeLine = (envelope: RuntimeEventEnvelope): string => JSON.stringify(envelope)
