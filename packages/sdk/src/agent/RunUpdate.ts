/**
 * The updates of a run, as its subscribers receive them: the events of its journal, and transient parts and notices, which are not stored.
 *
 * @since 0.1.0
 */
import type { ContextUsage } from "../context/ContextUsage.ts"
import type { RunId, ToolCallId } from "../domain/Id.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { ModelPart } from "../model/ModelPart.ts"

/** The run that an update belongs to: the root's or a sub-agent's. Two sub-agents may have one name; the run ids differ. */
interface Whose {
  /** The id of the root's run. */
  readonly runId: RunId
  /** The id of the run itself: the root's, or that of a sub-agent's run inside it. */
  readonly agentRunId: RunId
  /** The names of the agents from the root to the agent of that run. */
  readonly agentPath: ReadonlyArray<string>
}

/** A transient part, which is not stored. A slow reader receives only the latest ones. */
interface Transient extends Whose {
  /** The number of characters before this part that a slow reader missed. Absent if it missed none. */
  readonly omitted?: number
}

/** One update of a run: an event of its journal, a transient part, or a notice that a model call is repeated. */
export type RunUpdate =
  /**
   * An event of the run; a sub-agent's event is inside `child.advanced`. With a store, an event about a request, a grant or the run itself
   * is published after its commit. Another event may be published before, and is then lost if the commit fails.
   */
  | {
      readonly _tag: "event"
      readonly runId: RunId
      /** The number of events in the journal, including this one. */
      readonly revision: number
      readonly event: RunEvent
    }
  /** A part of a streamed response, without secrets. The last word of a delta follows in the next one, unless the text ends. */
  | (Transient & { readonly _tag: "delta"; readonly turn: number; readonly part: ModelPart })
  /** A progress message of a tool. */
  | (Transient & { readonly _tag: "progress"; readonly callId: ToolCallId; readonly message: string })
  /** A part of a tool's streamed output, with the name of its stream if the tool gave one. */
  | (Transient & {
      readonly _tag: "output"
      readonly callId: ToolCallId
      readonly chunk: string
      readonly stream?: "stdout" | "stderr"
    })
  /** A tool made or read a file, such as an image. `path` is a virtual path, `/workspace/…` or `/outside/…`; the result has the bytes. */
  | (Transient & {
      readonly _tag: "media"
      readonly callId: ToolCallId
      readonly path: string
      readonly mediaType: string
    })
  /** A model is about to be called for a turn, with the context prepared. */
  | (Whose & {
      readonly _tag: "request"
      readonly turn: number
      /** The name of the model profile, if the agent names one. */
      readonly profile?: string
    })
  /** A model call failed and is retried after `waitMs` milliseconds. */
  | (Whose & {
      readonly _tag: "retry"
      readonly turn: number
      readonly attempt: number
      readonly waitMs: number
      readonly reason: string
    })
  /** How the context of the model call that follows is used. Published before each call, if the context policy measures it. */
  | (Whose & { readonly _tag: "context.usage"; readonly turn: number; readonly usage: ContextUsage })
  /** The context is being compacted. `message` says in words what is done, such as `[3/8] summarizing`. */
  | (Whose & { readonly _tag: "context.compacting"; readonly turn: number; readonly message: string })
  /** A stream failed before its first content; the model is called again without streaming. */
  | (Whose & { readonly _tag: "fallback"; readonly turn: number; readonly reason: string })
