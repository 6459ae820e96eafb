/**
 * What a compaction would do to the context of a run.
 *
 * @since 0.2.0
 */
import type { Cut } from "../domain/Compaction.ts"

/** Replaces old results by short texts, or shortens the results of the latest steps. Needs no model call. */
export interface Prune {
  readonly _tag: "Prune"
  /** Long results of successful calls before this sequence number are replaced. */
  readonly before: number
  readonly cut?: Cut
  /** Estimated tokens of the summary and the messages, before and after. */
  readonly tokensBefore: number
  readonly tokensAfter: number
}

/** Replaces the messages before `to` by a summary. */
export interface Summarize {
  readonly _tag: "Summarize"
  /** The sequence number of the first message that the summary adds to the one before; 0 for the first summary. */
  readonly from: number
  /** The sequence number of the first message that the summary does not cover. */
  readonly to: number
  /** Sequence numbers of messages before `to` that stay as they are: the user's latest message, and pinned messages. */
  readonly kept: ReadonlyArray<number>
  readonly cut?: Cut
  readonly tokensBefore: number
  /** Estimated with the longest summary that is allowed; see `mostSummary`. */
  readonly tokensAfter: number
  /** The most tokens of the summary, with the message that holds it. */
  readonly mostSummary: number
}

/** A compaction that is due. Counts are estimates of the configured tokenizer, of the summary and the messages alone. */
export type CompactionPlan = Prune | Summarize
