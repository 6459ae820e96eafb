/**
 * How the tool `update_plan` records a plan: through a function in the context of its call, which the run provides.
 */
import type { PlanEntry } from "../../domain/Plan.ts"

/** Replaces the plan of the run. */
export type Planning = (entries: ReadonlyArray<PlanEntry>) => void

/** The key of the function in the context of a call. */
export const planning = Symbol("fermata/planning")
