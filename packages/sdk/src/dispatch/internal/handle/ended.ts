/**
 * What the drives of a dispatched run come to.
 */
import * as Exit from "effect/Exit"
import type { RunResult } from "../../../run/RunResult.ts"
import type { HandleError, HandleStatus } from "../../AgentHandle.ts"

/** Instead of a result: another process works on the run. */
export const elsewhere = Symbol("elsewhere")

/** What a drive comes to. */
export type Driven<Output> = RunResult<Output> | typeof elsewhere

export type Ended<Output, E> = Exit.Exit<RunResult<Output>, HandleError | E>

/** How a run stands that has come to this. */
export const statusOf = (exit: Ended<unknown, unknown>): HandleStatus => {
  if (Exit.isFailure(exit)) {
    const error = Exit.findErrorOption(exit)
    const tag = error._tag === "Some" ? (error.value as { readonly _tag?: string })._tag : undefined
    return tag === "RunLetGo" ? "letGo" : "error"
  }
  return exit.value.status === "interrupted" ? "held" : exit.value.status
}
