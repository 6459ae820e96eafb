/**
 * The compaction of a long history: a summary in place of its oldest messages, and short texts in place of old results.
 *
 * A compaction changes neither the journal nor the history of a run. It is a fact in the state of the run, from which the context policy
 * computes the view of the history that a model call receives. A fork from a revision before the compaction therefore has the full view.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"
import { Timestamp } from "./Id.ts"

/**
 * The author of a summary: a model (`model`), or the runtime (`degraded`), which lists the user's messages and the calls if no model has
 * written a usable summary.
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

/** A limit on the length of results, for steps after the summary that are larger than the context allows. */
export const Cut = Schema.Struct({
  /** Results before this sequence number are shortened. */
  before: Schema.Natural,
  /** The most characters of each of these results. */
  characters: Schema.Natural
})
export type Cut = typeof Cut.Type

/** The result of all compactions of a run, from which the view of its history is computed. */
export const Compaction = Schema.Struct({
  summary: Schema.optionalKey(Summary),
  /** Long results of successful calls before this sequence number are replaced by a short text. */
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

/** A requested compaction, which the run performs before its next model call. */
export const Compacting = Schema.Struct({
  /** The author of the request: `runtime`, or the name of a person or program. */
  by: Schema.String,
  /**
   * Why it was requested: the context reached the trigger (`full`), the provider refused it as too long (`overflow`), or `compactRun` was
   * called (`asked`).
   */
  reason: Schema.Literals(["full", "overflow", "asked"])
})
export type Compacting = typeof Compacting.Type
