/**
 * Checks that the rules of approval policies name tools. A misspelt name would bind nothing, so that a denied tool could run.
 *
 * A rule with `*` may match no tool. A name is refused unless tools may be added whose names the program does not know yet: those of
 * extensions, and those that another program names, such as the tools of an MCP server. A warning is logged then, once for each name.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { ApprovalPolicy } from "../../domain/ApprovalPolicy.ts"
import { sentence } from "../../domain/Display.ts"
import { hintFor } from "../../domain/internal/misfits.ts"
import { PolicyInvalid } from "../../domain/RunError.ts"
import { AgentDefinitionError } from "../../tool/ToolError.ts"
import type { Any } from "../AgentDefinition.ts"
import type { CapabilityProfile } from "../CapabilityProfile.ts"
import type { RuleTools, Runtime } from "../RuntimeDefinition.ts"
import { RuntimeOptionsInvalid } from "../RuntimeError.ts"
import { agentToolNames } from "./agentTools.ts"

/** The agents of the program that share policies with the agent of a runtime. Default: none. */
export const ProgramAgents = Context.Reference<ReadonlyArray<Any>>(
  "@fermata/sdk/agent/internal/ProgramAgents",
  { defaultValue: () => [] }
)

/** An agent with the agents that it can call or hand over to. */
const treeOf = (agent: Any, found = new Set<Any>()): ReadonlySet<Any> => {
  if (found.has(agent)) return found
  found.add(agent)
  const { handoffs = [], subAgents = [] } = agent.options
  for (const other of subAgents) treeOf(other, found)
  for (const other of typeof handoffs === "function" ? handoffs() : handoffs) treeOf(other, found)
  return found
}

/** The tools that the rules of the policies of these agents may name. */
export const ruleToolsOf = (agents: ReadonlyArray<Any>, hasExtensions: boolean): RuleTools => {
  const names = new Set(agentToolNames)
  let isOpen = hasExtensions
  for (const { name, options } of agents.flatMap((agent) => [...treeOf(agent)])) {
    names.add(name).add(`transfer_to_${name}`)
    for (const tool of options.tools ?? []) {
      for (const known of [tool.name, ...(tool.options.otherNames ?? [])]) names.add(known)
      if (tool.options.identity !== undefined) isOpen = true
    }
  }
  return { names, isOpen, warned: new Set() }
}

/** Fails if a rule of an agent in the tree, or of a profile, names no tool. */
export const requireRules = (
  agent: Any,
  profiles: Iterable<CapabilityProfile>,
  tools: RuleTools
): Effect.Effect<void, AgentDefinitionError | RuntimeOptionsInvalid> =>
  Effect.gen(function* () {
    for (const { name, policy } of treeOf(agent)) {
      const problem = yield* unknownRule(policy, tools)
      if (problem !== undefined)
        return yield* new AgentDefinitionError({ agent: name, problem: `its policy has ${problem}` })
    }
    for (const { name, policy } of profiles) {
      const problem = policy === undefined ? undefined : yield* unknownRule(policy, tools)
      if (problem === undefined) continue
      const problems = [
        { knob: "profiles", problem: sentence`the policy of the profile "${name}" has ${problem}` }
      ]
      return yield* new RuntimeOptionsInvalid({ problems })
    }
  })

/** Fails if a rule of a caller's policy names no tool of the agents. */
export const requireCallersRules = (
  policy: ApprovalPolicy,
  { bound, "~ruleTools": ruleTools }: Pick<Runtime, "bound" | "~ruleTools">
): Effect.Effect<void, PolicyInvalid> => {
  // Includes the tools that a reconfiguration has given to the agent.
  const names = new Set([...ruleTools.names, ...bound.definitions.map(({ name }) => name)])
  return Effect.flatMap(unknownRule(policy, { ...ruleTools, names }), (problem) =>
    problem === undefined ? Effect.void : Effect.fail(new PolicyInvalid({ issues: `it has ${problem}` }))
  )
}

const unknownRule = (
  { rules = [] }: ApprovalPolicy,
  { isOpen, names, warned }: RuleTools
): Effect.Effect<string | undefined> =>
  Effect.gen(function* () {
    for (const { tool } of rules) {
      if (tool.includes("*") || names.has(tool)) continue
      const own = [...names].filter(
        (name) => !agentToolNames.includes(name) && !name.startsWith("transfer_to_")
      )
      const problem = sentence`a rule for "${tool}", and these agents have no such tool${hintFor(tool, own)}`
      if (!isOpen) return problem
      if (warned.has(tool)) continue
      warned.add(tool)
      yield* Effect.logWarning(
        sentence`An approval policy has ${problem}. It binds no call until a tool of this name is added.`
      ).pipe(Effect.annotateLogs({ code: "policy", tool }), Effect.ignoreCause)
    }
    return undefined
  })
