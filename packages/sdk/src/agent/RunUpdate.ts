/**
 * What somebody who watches a run gets to see: its events, and what passes by without being kept.
 *
 * @since 0.1.0
 */
import type { RunId, ToolCallId } from "../domain/Id.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { ModelPart } from "../model/ModelPart.ts"

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
  | {
      readonly _tag: "delta"
      readonly runId: RunId
      readonly agentPath: ReadonlyArray<string>
      readonly turn: number
      readonly part: ModelPart
    }
  /** A tool says how far it is. */
  | {
      readonly _tag: "progress"
      readonly runId: RunId
      readonly callId: ToolCallId
      readonly message: string
    }
  /** A tool streams some output. */
  | { readonly _tag: "output"; readonly runId: RunId; readonly callId: ToolCallId; readonly chunk: string }
  /** The model could not be reached, and will be asked again. */
  | {
      readonly _tag: "retry"
      readonly runId: RunId
      readonly turn: number
      readonly attempt: number
      readonly waitMs: number
      readonly reason: string
    }
  /** A stream failed before it brought anything; the model is asked for a whole answer instead. */
  | { readonly _tag: "fallback"; readonly runId: RunId; readonly turn: number; readonly reason: string }
