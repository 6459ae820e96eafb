/**
 * Which user code a run calls.
 */
import type { Called } from "../../agent/internal/userCode.ts"
import type { AnyTool } from "../../tool/Tool.ts"
import { type Scope, stateOf } from "./Drive.ts"

/** User code of the scope's own run: of the call of a tool, of a tool, or of the agent itself. */
export const calledOf = (
  scope: Scope,
  code: string,
  call?: { readonly id: string },
  tool?: Pick<AnyTool, "name">
): Called => {
  const { agent, runId } = stateOf(scope)
  return {
    code,
    runId,
    agent: agent.name,
    ...(tool === undefined ? {} : { tool: tool.name }),
    ...(call === undefined ? {} : { callId: call.id })
  }
}
