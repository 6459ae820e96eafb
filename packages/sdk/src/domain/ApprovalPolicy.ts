/**
 * Approval policies: which tool calls run, are denied, or require a decision.
 *
 * An agent, a capability profile and the caller of a run may each give a policy; `policiesFor` says which of them bind an agent. The
 * policies of the runs above a sub-agent bind it, too. The strictest verdict counts. Within a policy, the first rule that matches the
 * tool's name decides. If no rule matches, a call that needs no approval runs, and the mode decides about every other call. No mode
 * approves a call because a decision is missing.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Timestamp } from "./Id.ts"
import { matchesGlob } from "./internal/glob.ts"

/**
 * A rule for the tools whose own name, not an alias, matches `tool`, in which `*` stands for any number of characters. It also applies to
 * the tools by which a model calls other agents (a sub-agent, `delegate` and the tools for background sub-agents, `transfer_to_…`) and to
 * `ask_user`, which need no approval by themselves.
 *
 * A name without `*` has to be that of a tool of the agent, of an agent that it can call or hand over to, or of another agent of the Fermata: a
 * misspelt name would bind nothing, and is refused when the runtime is made or the run starts. If tools of other names may be added, by an
 * extension or an MCP server, a warning is logged instead. A pattern may match no tool.
 */
export const Rule = Schema.Struct({
  tool: Schema.String,
  /**
   * `approve` permits the call and `deny` denies it. `ask` requires a decision or a grant, even if the call needs no approval; it changes
   * nothing for a question to the user.
   */
  action: Schema.Literals(["ask", "approve", "deny"]),
  /** The text that the model receives when the rule denies a call. Default: a sentence that names the tool. */
  message: Schema.optionalKey(Schema.String)
})
export type Rule = typeof Rule.Type

/**
 * Determines which calls run, need a decision or are denied. Where several policies bind a call, such as those of the agents above a
 * sub-agent, the strictest verdict counts. The first rule that matches the tool's name decides. If none matches, a call that needs no
 * approval runs, and the mode decides about every other call:
 *
 * - `ask` (the mode of the policy that applies if none is given): a request is opened, unless a grant covers the call. A run that is not
 *   interactive denies the call instead.
 * - `all`: this policy lets the call run, also that of a `privileged` tool.
 * - `none`: the call is denied, also one that a grant covers.
 * - `until`: as `all` before the time `until`, as `ask` from then on and without a time. With another mode, a given time is refused.
 */
export const ApprovalPolicy = Schema.Struct({
  mode: Schema.Literals(["ask", "all", "none", "until"]),
  until: Schema.optionalKey(Timestamp),
  rules: Schema.optionalKey(Schema.Array(Rule))
})
export type ApprovalPolicy = typeof ApprovalPolicy.Type

/** The default policy: the mode `ask`, without rules. */
export const ask: ApprovalPolicy = { mode: "ask" }

/**
 * A policy's verdict on a call: run it, ask for a decision, or deny it. `by` names what permits the call: the rule, the mode, or the tool,
 * which needs no approval. `message` is the text that the model receives.
 */
export type Verdict =
  | { readonly _tag: "run"; readonly by: string }
  | { readonly _tag: "ask" }
  | { readonly _tag: "deny"; readonly message: string }

/**
 * What may permit a call without a decision. `any`: a rule, the mode, or a grant. `named`: only a rule with the exact name of the tool,
 * because the run has read an untrusted result. `none`: nothing, because the tool requires a decision about each such call.
 */
export type Permits = "any" | "named" | "none"

/**
 * Judges a call by one policy: by its first rule that matches the tool's name, otherwise by `needsApproval` and the mode.
 *
 * **Details**
 *
 * `tool` is the tool's own name, and `needsApproval` the tool's own declaration for the arguments of the call. Grants are not considered: a
 * call for which the verdict is `ask` may be covered by one. The mode `until` without a time counts as `ask`. With `permits`, a mode or rule
 * that may not permit the call asks about it; it never makes a denied call run.
 */
export const judge = (
  policy: ApprovalPolicy,
  tool: string,
  needsApproval: boolean,
  now: Timestamp,
  permits: Permits = "any"
): Verdict => {
  const rule = policy.rules?.find((rule) => matchesGlob(rule.tool, tool))
  switch (rule?.action) {
    case "approve":
      if (permits === "any" || (permits === "named" && rule.tool === tool))
        return { _tag: "run", by: `rule ${rule.tool}` }
      return needsApproval ? { _tag: "ask" } : { _tag: "run", by: "tool" }
    case "deny":
      return { _tag: "deny", message: rule.message ?? `The approval policy does not allow ${tool}.` }
    case "ask":
      return { _tag: "ask" }
  }
  if (!needsApproval) return { _tag: "run", by: "tool" }
  switch (policy.mode) {
    case "all":
      return permits === "any" ? { _tag: "run", by: "policy all" } : { _tag: "ask" }
    case "none":
      return {
        _tag: "deny",
        message: `The approval policy denies every call that needs approval, and ${tool} does.`
      }
    case "until":
      return permits === "any" && policy.until !== undefined && now < policy.until
        ? { _tag: "run", by: "policy until" }
        : { _tag: "ask" }
    case "ask":
      return { _tag: "ask" }
  }
}

const rank = { run: 0, ask: 1, deny: 2 } as const

/** The stricter of two verdicts: deny, then ask, then run. Of equally strict ones, the first. */
export const stricter = (one: Verdict, other: Verdict): Verdict =>
  rank[other._tag] > rank[one._tag] ? other : one

/** Judges a call by several policies. The strictest verdict counts. */
export const judgeAll = (
  policies: readonly [ApprovalPolicy, ...ReadonlyArray<ApprovalPolicy>],
  tool: string,
  needsApproval: boolean,
  now: Timestamp,
  permits: Permits = "any"
): Verdict =>
  policies
    .map((policy) => judge(policy, tool, needsApproval, now, permits))
    .reduce((one, other) => stricter(one, other))
