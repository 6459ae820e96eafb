/**
 * Who is asked before a gated tool call runs.
 *
 * The policy belongs to the agent or the run, not to the tool: a tool says that it needs approval, the policy says what
 * happens then. Rules come first, in order; what no rule decides falls to the mode. There is no mode that approves because
 * nobody answered.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Timestamp } from "./Id.ts"
import { matchesGlob } from "./internal/glob.ts"

/** A rule for the tools whose name matches: `*` stands for any characters. */
export const Rule = Schema.Struct({
  tool: Schema.String,
  /** `ask` gates the call even if the tool needs no approval, `approve` lets it through, `deny` refuses it. */
  action: Schema.Literals(["ask", "approve", "deny"]),
  /** Told to the model when the rule denies. */
  message: Schema.optionalKey(Schema.String)
})
export type Rule = typeof Rule.Type

/**
 * What happens to a call that needs approval.
 *
 * - `ask` (the default): the run is held until a decision.
 * - `all`: it is let through.
 * - `none`: it is denied.
 * - `until`: it is let through until the time in `until`, then it is asked for.
 */
export const ApprovalPolicy = Schema.Struct({
  mode: Schema.Literals(["ask", "all", "none", "until"]),
  until: Schema.optionalKey(Timestamp),
  rules: Schema.optionalKey(Schema.Array(Rule))
})
export type ApprovalPolicy = typeof ApprovalPolicy.Type

/** Asks for every call that needs approval. */
export const ask: ApprovalPolicy = { mode: "ask" }

/** What the policy says to one call. */
export type Verdict =
  | { readonly _tag: "run"; readonly by: string }
  | { readonly _tag: "ask" }
  | { readonly _tag: "deny"; readonly message: string }

/**
 * Judges one call.
 *
 * **Details**
 *
 * `needsApproval` is what the tool itself said about these arguments. A policy `until` without a time is `ask`.
 */
export const judge = (
  policy: ApprovalPolicy,
  tool: string,
  needsApproval: boolean,
  now: Timestamp
): Verdict => {
  const rule = policy.rules?.find((rule) => matchesGlob(rule.tool, tool))
  switch (rule?.action) {
    case "approve":
      return { _tag: "run", by: `rule ${rule.tool}` }
    case "deny":
      return { _tag: "deny", message: rule.message ?? `The approval policy does not allow ${tool}.` }
    case "ask":
      return { _tag: "ask" }
  }
  if (!needsApproval) return { _tag: "run", by: "tool" }
  switch (policy.mode) {
    case "all":
      return { _tag: "run", by: "policy all" }
    case "none":
      return {
        _tag: "deny",
        message: `The approval policy denies every call that needs approval, and ${tool} does.`
      }
    case "until":
      return policy.until !== undefined && now < policy.until
        ? { _tag: "run", by: "policy until" }
        : { _tag: "ask" }
    case "ask":
      return { _tag: "ask" }
  }
}

const rank = { run: 0, ask: 1, deny: 2 } as const

/** The stricter of two verdicts; the first of equals. */
export const stricter = (one: Verdict, other: Verdict): Verdict =>
  rank[other._tag] > rank[one._tag] ? other : one

/** Judges one call by several policies: the strictest verdict counts. */
export const judgeAll = (
  policies: readonly [ApprovalPolicy, ...ReadonlyArray<ApprovalPolicy>],
  tool: string,
  needsApproval: boolean,
  now: Timestamp
): Verdict =>
  policies
    .map((policy) => judge(policy, tool, needsApproval, now))
    .reduce((one, other) => stricter(one, other))
