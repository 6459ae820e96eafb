/**
 * What somebody who watches a run gets to see: its events, and what passes by without being kept.
 *
 * @since 0.1.0
 */
import type { RunId, ToolCallId } from "../domain/Id.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { ModelPart } from "../model/ModelPart.ts"

/** Whose run it is about, where that may be a sub-agent's. Of two with one name the runs are told supervisor. */
interface Whose {
  /** The run that is watched: the root's. */
  readonly runId: RunId
  /** The run that it happens in: that one, or a sub-agent's inside it. */
  readonly agentRunId: RunId
  /** Names of the agents from the root to the one whose run that is. */
  readonly agentPath: ReadonlyArray<string>
}

/** Something that passes by. A reader that is too slow for all of it gets the latest. */
interface Passing extends Whose {
  /** Characters right before this one that were left out, because the reader was too slow. */
  readonly omitted?: number
}

/** An event of the run, or something that is shown and not kept. */
export type RunUpdate =
  /** A fact. With a store, requests, decisions and ends are told after they were committed. */
  | {
      readonly _tag: "event"
      readonly runId: RunId
      /** The number of events of the run, this one included. */
      readonly revision: number
      readonly event: RunEvent
    }
  /** A part of an answer as it streams in. */
  | (Passing & { readonly _tag: "delta"; readonly turn: number; readonly part: ModelPart })
  /** A tool says how far it is. */
  | (Passing & { readonly _tag: "progress"; readonly callId: ToolCallId; readonly message: string })
  /** A tool streams some output. */
  | (Passing & { readonly _tag: "output"; readonly callId: ToolCallId; readonly chunk: string })
  /** The model could not be reached, and will be asked again. */
  | (Whose & {
      readonly _tag: "retry"
      readonly turn: number
      readonly attempt: number
      readonly waitMs: number
      readonly reason: string
    })
  /** A stream failed before it brought anything; the model is asked for a whole answer instead. */
  | (Whose & { readonly _tag: "fallback"; readonly turn: number; readonly reason: string })
