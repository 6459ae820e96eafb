/**
 * Settles calls that were denied before in the run: they are not asked about again, unless a person reopens the denied request.
 */
import type * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { name, text as shown } from "../../domain/Display.ts"
import { defined } from "../../domain/internal/defined.ts"
import { type Denial, hasDenial, recordsOf, standingDenial } from "../../domain/internal/denials.ts"
import { noteText } from "../../domain/internal/editText.ts"
import { text } from "../../domain/Message.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import type { ToolIdentity } from "../../domain/ToolIdentity.ts"
import { type AgentRun, stateOf } from "../internal/AgentRun.ts"
import { now } from "../internal/Drive.ts"
import { approvalDigest } from "./digest.ts"
import { emitIfOpen } from "./recordClassification.ts"

/** The denial that stands for a call of this tool with these arguments and these facts. */
export function* deniedBefore(
  run: AgentRun,
  { safety, schema, tool }: Omit<ToolIdentity, "agent">,
  args: Schema.Json,
  facts?: Schema.Json
): Effect.fn.Return<Denial | undefined> {
  const { state } = run.drive
  if (!hasDenial(state, tool)) return undefined
  const { agentPath } = stateOf(run)
  const digest = yield* approvalDigest({ agentPath, tool, schema, safety, ...defined({ facts }) }, args)
  return standingDenial(recordsOf(state, tool), digest)
}

/** Records that the denial of an equal call stands for this call. */
export const denyAgain = (
  run: AgentRun,
  call: ToolCall,
  { decision: { by, message, note }, request }: Denial
): undefined => {
  const said = [
    `${name(by)} denied the same call before. It has not run, and is not asked about again.`,
    ...(message === undefined || message === "" ? [] : [shown(message)]),
    ...(note === undefined || note === "" ? [] : [noteText(note)])
  ]
  return emitIfOpen(run, {
    _tag: "tool.denied",
    at: now(run.drive),
    callId: call.id,
    content: [text(said.join("\n\n"))],
    requestId: request.requestId
  })
}
