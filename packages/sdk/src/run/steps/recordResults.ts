/**
 * Records the results of calls that were completed elsewhere, as if their bodies had returned them.
 */
import * as Effect from "effect/Effect"
import type { ToolCallId } from "../../domain/Id.ts"
import { returnedBy } from "../../domain/internal/released.ts"
import { findCall } from "../../domain/RunState.ts"
import { toolEntryOf } from "../calls/openRequest.ts"
import { recordReturned } from "../calls/userCalls.ts"
import { stateOf, type AgentRun } from "../internal/AgentRun.ts"

/** Shows the supplied results of these calls to the model, within the limits of their tools, which may be missing in this program. */
export const recordResults = (run: AgentRun, callIds: ReadonlyArray<ToolCallId>): Effect.Effect<void> =>
  Effect.sync(() => {
    for (const callId of callIds) {
      const call = findCall(stateOf(run), callId)
      const supply = call === undefined ? undefined : returnedBy(stateOf(run), call)
      if (call !== undefined && supply !== undefined)
        recordReturned(run, call, toolEntryOf(run.bound, call)?.tool, supply)
    }
  })
