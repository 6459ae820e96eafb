/**
 * What models see of a long history: a summary in place of its oldest messages, and texts in place of old results.
 *
 * A compaction changes neither the journal nor the history of a run. It is a fact in the state of the run, from which the context policy
 * computes the view of the history that a model call receives. A fork or a rewind to before the compaction therefore has the full view.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"
import { Timestamp } from "./Id.ts"

/**
 * Who wrote a summary: a model (`model`), or the runtime, from the user's messages and the names of the calls, because no model gave one that
 * could be used (`degraded`).
 */
export const Quality = Schema.Literals(["model", "degraded"])
export type Quality = typeof Quality.Type

/** The summary of the oldest messages of a session. */
export const Summary = Schema.Struct({
  text: Schema.String,
  /** The sequence number of the first message that the summary does not cover. Messages from there on follow it. */
  to: Schema.Natural,
  /** Sequence numbers of messages before `to` that follow the summary unchanged, in order: the user's latest message, and pinned messages. */
  kept: Schema.optionalKey(Schema.Array(Schema.Natural)),
  quality: Quality,
  at: Timestamp
})
export type Summary = typeof Summary.Type

/** The shortened results after a summary whose latest steps are larger than the context allows. */
export const Cut = Schema.Struct({
  /** The sequence number up to which results are shortened. */
  before: Schema.Natural,
  /** The most characters of each of these results. */
  characters: Schema.Natural
})
export type Cut = typeof Cut.Type

/** What models see of the history of a run. */
export const Compaction = Schema.Struct({
  summary: Schema.optionalKey(Summary),
  /** The sequence number up to which long results of successful calls are replaced by a text. */
  cleared: Schema.optionalKey(Schema.Natural),
  cut: Schema.optionalKey(Cut),
  /** Compactions in a row that did not reach their target. Absent after one that did. */
  missed: Schema.optionalKey(Schema.Natural),
  /** Model calls in a row that the provider refused as too long, although the context was compacted. Absent after an answer. */
  overflows: Schema.optionalKey(Schema.Natural),
  /** The number of messages of the history when a compaction was last found unnecessary or was vetoed. */
  skippedAt: Schema.optionalKey(Schema.Natural)
})
export type Compaction = typeof Compaction.Type

/** The request of a compaction, which the run performs before its next model call. */
export const Compacting = Schema.Struct({
  /** Who requested it: `runtime`, or the name of a person or program. */
  by: Schema.String,
  /** Why the runtime requested it: the context reached the trigger (`full`), or the provider refused it as too long (`overflow`). */
  reason: Schema.Literals(["full", "overflow", "asked"])
})
export type Compacting = typeof Compacting.Type
