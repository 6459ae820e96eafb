/**
 * The memory of a run, as its tools use it.
 */
import * as Effect from "effect/Effect"
import type { ToolCallId } from "../../domain/Id.ts"
import { defined } from "../../domain/internal/defined.ts"
import { untrustedIn } from "../../domain/internal/untrusted.ts"
import { scopeKey, type ScopeKind } from "../../domain/MemoryItem.ts"
import { findCall, type RunState } from "../../domain/RunState.ts"
import { add } from "../../domain/Untrusted.ts"
import type { Found, MemoryOperations } from "../../memory/Memory.ts"
import type { Remembering } from "../../tool/internal/remembering.ts"
import { type AgentRun, isThere, statesOf, stateOf } from "../internal/AgentRun.ts"
import { emit, now } from "../internal/Drive.ts"
import { recordOf } from "../internal/retrieve.ts"

const all: ReadonlyArray<ScopeKind> = ["session", "agent", "user", "global"]

/** The functions for a call. */
export const rememberingIn = (run: AgentRun, callId: ToolCallId, memory: MemoryOperations): Remembering => {
  // Sub-agents use the memory of the root, whose session and user they work for.
  const root = (): RunState => run.drive.state
  const scopes = () => memory["~scopes"](root(), all)
  /** Records a search, so that the run has read what the items were written from. */
  const record = (query: string, found: ReadonlyArray<Found>) => {
    if (!isThere(run) || findCall(stateOf(run), callId)?.status !== "started") return
    emit(run, { _tag: "memory.retrieved", at: now(run.drive), callId, ...recordOf(query, found) })
  }
  return {
    search: (query, limit) =>
      Effect.tap(
        Effect.suspend(() => memory.recall(query, { scope: scopes(), limit })),
        (found) => Effect.sync(() => record(query, found))
      ),
    read: Effect.fnUntraced(function* (id) {
      const [item] = yield* memory.read([id])
      const keys = new Set(scopes().map(scopeKey))
      if (item === undefined || !keys.has(scopeKey(item.scope))) return undefined
      record("", [{ item, score: 1, text: "" }])
      return item
    }),
    remember: Effect.fnUntraced(function* ({ key, scope: kind, text }) {
      const [scope] = memory["~scopes"](root(), [kind])
      if (scope === undefined) return undefined
      const { runId, sessionId } = root()
      const untrusted = statesOf(run).reduce<ReturnType<typeof untrustedIn>>(
        (found, state) => add(found, untrustedIn(state)),
        []
      )
      return yield* memory.remember({
        text,
        scope,
        by: stateOf(run).agentPath.join("/"),
        source: { runId, sessionId },
        ...defined({ key, untrusted: untrusted.length === 0 ? undefined : untrusted })
      })
    })
  }
}
