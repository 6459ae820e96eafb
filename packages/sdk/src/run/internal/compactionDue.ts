/**
 * A compaction that the context policy reported as due, and the part of it that needs no model.
 */
import * as Cause from "effect/Cause"
import { attempt } from "../../agent/internal/userCode.ts"
import type { Prune } from "../../context/CompactionPlan.ts"
import type { CompactionDue } from "../../context/PolicyDefinition.ts"
import { defined } from "../../domain/internal/defined.ts"
import type { AgentRun } from "./AgentRun.ts"
import { emit, now } from "./Drive.ts"

/** The compaction that a policy reported as due. */
export const dueIn = (cause: Cause.Cause<unknown>): CompactionDue | undefined => {
  const error: unknown = Cause.squash(cause)
  // Safe for any thrown value, such as a proxy that throws when it is inspected.
  const isDue = attempt(() => (error as CompactionDue | undefined)?._tag === "CompactionDue") === true
  return isDue ? (error as CompactionDue) : undefined
}

/** Records that old results are replaced by short texts. */
export const prune = (run: AgentRun, { before, cut, tokensAfter, tokensBefore }: Prune): void =>
  emit(run, {
    _tag: "context.pruned",
    at: now(run.drive),
    before,
    tokensBefore,
    tokensAfter,
    ...defined({ cut })
  })
