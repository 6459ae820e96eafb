/**
 * The plan of a run: the intended work and its progress, as the model has written it with `update_plan`. Front ends show it.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"
import { Timestamp, ToolCallId } from "./Id.ts"

/** One entry of a plan. The words of `priority` and `status` are those of the Agent Client Protocol. */
export const PlanEntry = Schema.Struct({
  content: Schema.String,
  priority: Schema.Literals(["high", "medium", "low"]),
  status: Schema.Literals(["pending", "in_progress", "completed"])
})
export type PlanEntry = typeof PlanEntry.Type

/** A plan, with the call that wrote it, and when. */
export const Plan = Schema.Struct({ entries: Schema.Array(PlanEntry), callId: ToolCallId, at: Timestamp })
export type Plan = typeof Plan.Type
