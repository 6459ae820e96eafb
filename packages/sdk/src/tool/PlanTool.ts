/**
 * The tool `update_plan`, with which a model keeps a plan that front ends show.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { PlanEntry } from "../domain/Plan.ts"
import { type Planning, planning } from "./internal/planning.ts"
import * as Tool from "./Tool.ts"
import { ToolFailure } from "./ToolError.ts"

/** The most entries of a plan, and the most characters of one. */
const mostEntries = 100
const longestEntry = 1000

const { content, priority, status } = PlanEntry.fields

/** The arguments of `update_plan`. */
export const Arguments = Schema.Struct({
  entries: Schema.Array(
    Schema.Struct({
      content: content
        .check(Schema.isNonEmpty(), Schema.isMaxLength(longestEntry))
        .annotate({ description: "What to do, in a short sentence" }),
      priority: priority.annotate({ description: "How much it matters" }),
      status: status.annotate({
        description:
          "How far it is. Have one entry in_progress at a time, and mark it completed when it is done"
      })
    })
  )
    .check(Schema.isMaxLength(mostEntries))
    .annotate({
      description: "The whole plan, in the order in which you will work; it replaces the plan before"
    })
})

/**
 * Makes the tool `update_plan`, with which the model writes down its plan and its progress. Use it for agents whose work has several steps,
 * so that a person can follow it.
 *
 * **Details**
 *
 * Each call replaces the plan. It is an event of the run (`plan.updated`) and a field of its state (`plan`), which the next run of the
 * session and forks inherit; `explain` says how far it is. A sub-agent with the tool has a plan of its own. The tool changes nothing
 * outside of the run and needs no approval.
 *
 * **Example** (Following a plan)
 *
 * ```ts run
 * import { agent, createFermata, planTool } from "@fermata/node"
 * import { ScriptedModel } from "@fermata/node/testing"
 *
 * const entries = [{ content: "Read the report", priority: "high", status: "in_progress" }]
 * const model = ScriptedModel.make([{ calls: [{ tool: "update_plan", arguments: { entries } }] }, "Done."]).client
 * await using fermata = await createFermata({ agents: [agent("clerk", { tools: [planTool()] })], model, store: false })
 * const { state } = await fermata.runPrompt("clerk", "Summarize the report")
 * console.log(state.plan?.entries[0]?.status) // in_progress
 * ```
 *
 * @category constructors
 * @since 0.2.0
 */
export const make = (): Tool.Tool =>
  Tool.make("update_plan", {
    description:
      "Writes down your plan for the user to follow: what you will do, in order, and how far it is. Use it for work of several steps, and call it again whenever an entry begins, ends or changes.",
    parameters: Arguments,
    safety: "readOnly",
    handler: ({ entries }, context) => {
      const { [planning]: record } = context as typeof context & { readonly [planning]?: Planning }
      // In a toolkit outside of a run, there is nothing that keeps a plan.
      if (record === undefined)
        return Effect.fail(new ToolFailure({ description: "only a run keeps a plan" }))
      record(entries)
      const left = entries.filter(({ status }) => status !== "completed").length
      return `The plan is recorded: ${entries.length - left} of ${entries.length} entries are completed.`
    }
  })
