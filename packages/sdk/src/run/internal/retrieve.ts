/**
 * Searches memory once for each message of the user, before the first model call that answers it.
 *
 * What is found becomes an event, so that later turns of the message, and a process that resumes the run, have the same. A search that fails
 * costs the run nothing but the context that it would have found.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { attemptEffect, describe } from "../../agent/internal/userCode.ts"
import type { PreparedContext } from "../../context/PolicyDefinition.ts"
import * as History from "../../domain/History.ts"
import { defined } from "../../domain/internal/defined.ts"
import type { Recollection } from "../../domain/MemoryItem.ts"
import { textOf } from "../../domain/Message.ts"
import type { RunState } from "../../domain/RunState.ts"
import { add, type UntrustedResult } from "../../domain/Untrusted.ts"
import type { Found, LeftOut, MemoryOperations } from "../../memory/Memory.ts"
import { countMessage } from "../../model/Tokenizer.ts"
import { type AgentRun, isStopped, stateOf } from "./AgentRun.ts"
import { contextInput, type ContextOf, known } from "./contextInput.ts"
import { emit, now } from "./Drive.ts"
import { memoryMessage } from "./memoryMessages.ts"

/** How long a search may take. */
const deadlineMs = 2000

/** The most characters of the query in the event. */
const mostShown = 500

/** The window that is assumed if the model client does not know it. */
const assumedWindow = 32_000

/** Whether memory has not been searched for the user's latest message. Sub-agents get their task from a model, and search by calls only. */
export const isRetrievalDue = (run: AgentRun): boolean => {
  const { memory } = run.drive.runtime
  if (memory === undefined || run.path.length > 0 || memory.options.retrieve.length === 0) return false
  const state = stateOf(run)
  return latestPrompt(state) !== state.retrieved?.sequence
}

/** The sequence number of the user's latest message. */
const latestPrompt = ({ history }: RunState): number | undefined => {
  for (let sequence = History.size(history) - 1; sequence >= 0; sequence -= 1) {
    const message = History.at(history, sequence)
    if (message?.role === "user" && message.origin !== "runtime") return sequence
  }
  return undefined
}

/** Searches memory for the user's latest message, and records what the model is to see besides the prepared context. */
export const retrieve = Effect.fnUntraced(function* (run: AgentRun, prepared: PreparedContext) {
  const { drive, supervisor } = run
  const { memory } = drive.runtime
  const state = stateOf(run)
  const sequence = latestPrompt(state)
  if (memory === undefined || sequence === undefined) return
  const query = textOf(History.at(state.history, sequence)!.content)
  const searched = yield* supervisor.run(
    attemptEffect(() =>
      Effect.andThen(
        drive.journal.catchUp?.(drive.state) ?? Effect.void,
        Effect.suspend(() =>
          memory.recall(query, {
            scope: memory["~scopes"](state, memory.options.retrieve),
            // Some may not fit.
            limit: 2 * memory.options.most,
            "~leftOut": shownIn(state, prepared)
          })
        )
      )
    ),
    { ms: deadlineMs, late: () => new SearchLate() }
  )
  if (Exit.isFailure(searched)) {
    if (isStopped(run, searched.cause)) return
    const why = describe(drive.runtime, Cause.squash(searched.cause))
    yield* Effect.logWarning(`Memory was not searched for the run ${state.runId}: ${why}`)
  }
  const found = Exit.isSuccess(searched) ? fitting(run, memory, searched.value, prepared) : []
  emit(run, {
    _tag: "memory.retrieved",
    at: now(drive),
    sequence,
    ...recordOf(query, found),
    items: found.map(recollectionOf).toSorted((a, b) => a.at - b.at)
  })
})

class SearchLate extends Error {
  override readonly message = "it took too long"
}

/** The query, the ids and scores of a search, and what the found items were written from. */
export const recordOf = (query: string, found: ReadonlyArray<Found>) => {
  const untrusted = found.reduce<ReadonlyArray<UntrustedResult>>(
    (all, { item }) => add(all, item.untrusted ?? []),
    []
  )
  return {
    query: query.slice(0, mostShown),
    ids: found.map(({ item }) => item.id),
    scores: found.map(({ score }) => score),
    ...defined({ untrusted: untrusted.length === 0 ? undefined : untrusted })
  }
}

const recollectionOf = ({ item, score, text }: Found): Recollection => ({
  id: item.id,
  score,
  text,
  at: item.at,
  kind: item.kind,
  ...defined({
    role: item.role,
    key: item.key,
    untrusted: item.untrusted === undefined ? undefined : (true as const)
  })
})

/** Whether the model sees a message of the session as it is. */
const shownIn = (state: RunState, { messages }: PreparedContext) => {
  const shown = new Set<number>()
  for (const message of messages)
    if (message === History.at(state.history, message.sequence)) shown.add(message.sequence)
  return ({ sequence, sessionId }: LeftOut): boolean =>
    sessionId === state.sessionId && sequence !== undefined && shown.has(sequence)
}

/** The tokens that a prepared context leaves, as far as that is known. */
const roomIn = (of: ContextOf, prepared: PreparedContext): number => {
  const { usage } = prepared
  if (usage !== undefined) return usage.usable - usage.used
  const { maxContextTokens } = of.state.limits
  if (maxContextTokens === undefined) return Infinity
  return maxContextTokens - (contextInput(of, prepared.instructions).countTokens?.(prepared) ?? 0)
}

/** The best items that have room in the model's window. */
const fitting = (
  run: AgentRun,
  { options }: MemoryOperations,
  found: ReadonlyArray<Found>,
  prepared: PreparedContext
): ReadonlyArray<Found> => {
  const { bound, drive } = run
  const { tokenizer } = drive.runtime
  const state = stateOf(run)
  const { limits } = state
  const { usage } = prepared
  const window =
    usage?.window ??
    known(run.drive.runtime, "contextTokens", run.bound.agent.options.profile) ??
    limits.maxContextTokens ??
    assumedWindow
  const most = Math.min(options.share * window, roomIn({ bound, runtime: drive.runtime, state }, prepared))
  const kept: Array<Found> = []
  const seen = new Set(prepared.messages.map(({ content }) => textOf(content).trim()))
  for (const one of found) {
    if (kept.length === options.most) break
    // A fork has copies of messages, in the same scope if that is of a user or an agent.
    if (seen.has(one.text)) continue
    seen.add(one.text)
    const items = [...kept, one].map(recollectionOf)
    if (countMessage(tokenizer, memoryMessage({ at: 0, items }, 0)) <= most) kept.push(one)
  }
  return kept
}
