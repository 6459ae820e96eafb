/**
 * Untrusted results: results of calls with text that neither the user nor the program wrote, such as a page of the web.
 *
 * Such a text can contain instructions for the model. A run records which of its results are untrusted. From then on, its calls with effects
 * outside of the workspace need a decision, or a grant whose author knew of these results.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"
import { Timestamp, ToolCallId } from "./Id.ts"

/** An untrusted result that a run has read. */
export const UntrustedResult = Schema.Struct({
  /** The tool's own name. */
  tool: Schema.String,
  /** The call of the result: of the run itself, of one of its sub-agents, or of an earlier run of its session. */
  callId: ToolCallId,
  /** When the result was recorded. */
  at: Timestamp
})
export type UntrustedResult = typeof UntrustedResult.Type

/** The most tools whose results are listed. */
const most = 20

/** Adds results to a list, which keeps the last one of each tool. */
export const add = (
  known: ReadonlyArray<UntrustedResult>,
  more: ReadonlyArray<UntrustedResult>
): ReadonlyArray<UntrustedResult> => {
  if (more.length === 0) return known
  const byTool = new Map(known.map((result) => [result.tool, result]))
  for (const result of more) {
    byTool.delete(result.tool)
    byTool.set(result.tool, result)
  }
  return [...byTool.values()].slice(-most)
}
