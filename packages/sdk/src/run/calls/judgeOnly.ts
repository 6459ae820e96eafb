/**
 * Judges a call of a tool for a handler that asks with `context.policy`. No event is recorded, and no request is opened.
 *
 * A handler asks while the run's loop waits for it, so this judges without the loop's supervisor. The tool's callbacks have the time that
 * they have when the call is made.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import { decodeArguments } from "../../agent/internal/decoding.ts"
import { call as callUserCode, describe } from "../../agent/internal/userCode.ts"
import { sentence } from "../../domain/Display.ts"
import * as Grant from "../../domain/Grant.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import { defined } from "../../domain/internal/defined.ts"
import { copyJson } from "../../domain/internal/json.ts"
import type { CallJudgement } from "../../tool/ToolContext.ts"
import { type AgentRun, isThere, judgingMs, stateOf } from "../internal/AgentRun.ts"
import { callbackContext } from "../internal/runContext.ts"
import { failedRule, fixedNeed, needOf, permitsOf, ruleOf, untrustedFor } from "./approvalNeed.ts"
import { deniedBefore } from "./deniedBefore.ts"
import { statedFacts } from "./facts.ts"
import { grantFor, liftedReason, strictest } from "./judgeCall.ts"
import { describeArguments } from "./recordClassification.ts"
import { unstatedIn } from "./secrets.ts"
import { calledOf, type ToolEntry } from "./userCalls.ts"

/** Judges a call of a tool of the run's agent with these arguments. */
export const judgeOnly = (run: AgentRun, name: string, given: unknown): Effect.Effect<CallJudgement> =>
  Effect.gen(function* () {
    if (!isThere(run)) return deny("The run that asks has ended.")
    const entry = run.bound.entries.get(name)
    if (entry?.target !== "tool") return { _tag: "unknownTool" } as const
    const json = copyJson(given ?? {})
    if (json === undefined) return invalid("they are not JSON")
    const decoded = yield* Effect.exit(decodeArguments(entry, stateOf(run).limits, json))
    if (Exit.isFailure(decoded)) return invalid(describe(run.drive.runtime, Cause.squash(decoded.cause)))
    return yield* judge(run, entry, json, decoded.value)
  }).pipe(
    // A definition that throws can neither be judged nor be called.
    Effect.catchDefect(() => Effect.succeed(invalid("they cannot be judged")))
  )

const judge = Effect.fnUntraced(function* (
  run: AgentRun,
  entry: ToolEntry,
  json: Schema.Json,
  value: unknown
): Effect.fn.Return<CallJudgement> {
  const { definition, tool } = entry
  const { shown, ...args } = describeArguments(run, entry, json, value)
  const unstated = unstatedIn(tool, args.arguments, shown)
  if (unstated !== undefined) return invalid(unstated.message)
  const call = { id: "policy" as ToolCallId }
  const rule = ruleOf(tool)
  const answer =
    rule === undefined
      ? undefined
      : yield* Effect.exit(
          callUserCode(
            run.drive.runtime,
            calledOf(run, "needsApproval", call, tool),
            () => rule(value, callbackContext(run, tool)),
            judgingMs(run, tool)
          )
        )
  const need =
    answer === undefined ? fixedNeed(tool) : Exit.isSuccess(answer) ? needOf(answer.value) : failedRule(tool)
  const untrusted = untrustedFor(run, tool)
  const verdict = strictest(run, tool.name, need.needed, permitsOf(need, untrusted))
  if (verdict._tag === "deny") return deny(verdict.message)
  const facts = yield* Effect.exit(statedFacts(run, call, tool, value))
  if (Exit.isFailure(facts)) return invalid(sentence`the facts of ${tool.name} cannot be read`)
  const denial = yield* Effect.gen(() => deniedBefore(run, definition, shown, facts.value))
  if (denial !== undefined) return deny(sentence`${denial.decision.by} denied the same call before.`)
  if (verdict._tag === "run") return { _tag: "run", by: verdict.by }
  const grant = grantFor(run, entry, shown, facts.value, need)
  if (grant !== undefined && Grant.coversUntrusted(grant, untrusted))
    return { _tag: "run", by: sentence`grant of ${grant.by}` }
  if (run.drive.runtime.options.interactive === false)
    return deny(sentence`${tool.name} needs approval, and this run is not interactive.`)
  const reason = need.always ?? need.reason ?? liftedReason(run, tool, need, untrusted, grant)
  return { _tag: "ask", ...defined({ reason }) }
})

const deny = (message: string) => ({ _tag: "deny", message }) as const satisfies CallJudgement

const invalid = (problem: string) => ({ _tag: "invalid", problem }) as const satisfies CallJudgement
