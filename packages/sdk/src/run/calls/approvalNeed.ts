/**
 * Whether a call needs approval, by its tool and by the untrusted results of its run, and what may permit it without a decision.
 */
import type * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Permits } from "../../domain/ApprovalPolicy.ts"
import { sentence } from "../../domain/Display.ts"
import { untrustedIn } from "../../domain/internal/untrusted.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import { add, type UntrustedResult } from "../../domain/Untrusted.ts"
import type { AnyTool } from "../../tool/Tool.ts"
import { stateOf, type AgentRun } from "../internal/AgentRun.ts"
import { callbackContext } from "../internal/runContext.ts"
import { askTool } from "./userCalls.ts"

/** A tool's answer about the approval of a call. */
export interface Need {
  readonly needed: boolean
  /** Whether the call is asked about under every policy, and no grant covers it. */
  readonly isAlways: boolean
  /** Why each such call is asked about, in the words of the tool. */
  readonly always?: string
  /** Why the call is asked about although the tool did not say so: its rule failed. */
  readonly reason?: string
}

type Rule = Extract<AnyTool["options"]["needsApproval"], (...args: never) => unknown>

/** The function with which a tool decides about each call; `undefined` if it treats all calls alike. */
export const ruleOf = ({ options: { needsApproval } }: AnyTool): Rule | undefined =>
  typeof needsApproval === "function" ? needsApproval : undefined

/** The answer of a tool that treats all its calls alike. */
export const fixedNeed = ({ options: { needsApproval }, safety }: AnyTool): Need =>
  needOf(typeof needsApproval === "function" ? true : (needsApproval ?? safety !== "readOnly"))

/** Interprets the answer of a tool's function. Everything except `false` needs approval. */
export const needOf = (answer: unknown): Need => {
  if (typeof answer !== "object" || answer === null) return { needed: answer !== false, isAlways: false }
  const { always } = answer as { readonly always?: unknown }
  // An object of another shape was meant to be strict.
  return typeof always === "string" && always !== ""
    ? { needed: true, isAlways: true, always }
    : { needed: true, isAlways: true }
}

/** The answer in place of a function that failed: the call is always asked about. */
export const failedRule = ({ name }: AnyTool): Need => ({
  needed: true,
  isAlways: true,
  reason: `The approval rule of ${name} failed, so it is asked about.`
})

/** Asks the tool what a call with these arguments needs. Returns `undefined` if the run was stopped meanwhile. */
export function* askNeed(
  run: AgentRun,
  call: ToolCall,
  tool: AnyTool,
  value: unknown
): Effect.fn.Return<Need | undefined> {
  const rule = ruleOf(tool)
  if (rule === undefined) return fixedNeed(tool)
  const answer = yield* askTool(run, call, tool, "needsApproval", () =>
    rule(value, callbackContext(run, tool))
  )
  if (answer === undefined) return undefined
  return Exit.isSuccess(answer) ? needOf(answer.value) : failedRule(tool)
}

const none: ReadonlyArray<never> = []

/**
 * The untrusted results that bind a call of a tool: those of its run and of the runs above it, if the tool has outside effects; otherwise
 * none. A run above may have passed on what it read, in a prompt or in a message.
 */
export const untrustedFor = (run: AgentRun, tool: AnyTool): ReadonlyArray<UntrustedResult> => {
  let found: ReadonlyArray<UntrustedResult> = none
  for (let below: AgentRun | undefined = run; below !== undefined; below = below.parent)
    found = add(found, untrustedIn(stateOf(below)))
  return found.length > 0 && hasOutsideEffects(run, tool) ? found : none
}

/** Whether a call of a tool can have an effect outside of the workspace, as far as is known. */
const hasOutsideEffects = (run: AgentRun, { options, safety }: AnyTool): boolean => {
  if (options.effects !== undefined) return options.effects === "outside"
  return safety !== "readOnly" && !(options.sandbox === true && isConfined(run))
}

/** Whether the sandbox of the run lets nothing out: neither changes nor data. */
const isConfined = ({ drive: { runtime, state } }: AgentRun): boolean => {
  const sandboxes = runtime["~sandboxes"]
  const open = sandboxes.find(state)
  const { provider } = sandboxes
  // The sandbox of another backend, to which the provider can attach, may be able to do more.
  if (open === undefined && state.sandbox !== undefined && state.sandbox.backend !== provider?.backend)
    return false
  const capabilities = (open ?? provider)?.capabilities
  return capabilities?.has("isolated") === true && capabilities.has("noNetwork")
}

/** The kinds of permission that suffice for a call; see `Permits`. */
export const permitsOf = ({ isAlways }: Need, untrusted: ReadonlyArray<UntrustedResult>): Permits =>
  isAlways ? "none" : untrusted.length > 0 ? "named" : "any"

/** Why a call is asked about that would be permitted if the run had read no untrusted results. */
export const untrustedText = (untrusted: ReadonlyArray<UntrustedResult>): string => {
  const tools = untrusted.map(({ callId, tool }) => sentence`${tool} (${callId})`)
  const of = tools.length === 1 ? "an untrusted result" : "untrusted results"
  return `The run has read ${of}, which may contain instructions of others: ${tools.join(", ")}.`
}
