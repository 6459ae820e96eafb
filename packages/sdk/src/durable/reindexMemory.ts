/**
 * Builds memory from the journals, and compares the two.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import * as History from "../domain/History.ts"
import type { RunId, SessionId } from "../domain/Id.ts"
import { nonEmpty, shapeOf } from "../domain/internal/misfits.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { RunState } from "../domain/RunState.ts"
import { Memory, MemoryUnavailable } from "../memory/Memory.ts"
import type { MemoryRow } from "../store/MemoryPort.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import { loadRun } from "./internal/loadRun.ts"

/** Selects sessions. */
export interface MemorySessions {
  /** One session. Default: all sessions of the store. */
  readonly sessionId?: string
}

/** What a comparison of memory with the journals has found. */
export interface MemoryReport {
  /** Whether memory has what the journals have, without the messages that were forgotten. */
  readonly ok: boolean
  readonly sessions: number
  /** The number of messages in the journals that memory keeps. */
  readonly messages: number
  /** A sentence for each session with a problem; at most 100. */
  readonly problems: ReadonlyArray<string>
}

const shape = shapeOf<MemorySessions>({ sessionId: nonEmpty })

/** Rows of one transaction. */
const batch = 64

/**
 * Indexes the messages of sessions anew, from their journals, and returns the number of messages.
 *
 * **When to use**
 *
 * After memory was turned on for a store with sessions, which are otherwise indexed when they go on; after its option `messages` was changed;
 * and after an update that says so. Other processes may continue meanwhile. Messages that were forgotten by their ids stay so.
 *
 * **Errors**
 *
 * - `MemoryUnavailable` — the store has no memory.
 * - `RunStoreError` — the store failed, or a journal is damaged. The sessions before are indexed.
 * - `OptionsInvalid` — correct the options.
 *
 * @category maintaining
 * @since 0.2.0
 */
export const reindexMemory = (
  options: MemorySessions = {}
): Effect.Effect<number, MemoryUnavailable | OptionsInvalid | RunStoreError, RunStore | Memory> =>
  Effect.gen(function* () {
    yield* requireOptions("reindexMemory", options, shape)
    const memory = yield* Memory
    const port = memory["~port"]
    if (port === undefined) return yield* new MemoryUnavailable()
    let count = 0
    yield* eachSession(options, (state) =>
      Effect.gen(function* () {
        for (let from = 0; from < History.size(state.history); from += batch) {
          const rows = memory["~rows"](state, from, Math.min(from + batch, History.size(state.history)))
          yield* port.write(rows, { replace: true })
          count += rows.length
          yield* Effect.yieldNow
        }
      })
    )
    return count
  })

/**
 * Compares memory with the journals of sessions. Changes nothing.
 *
 * **Errors**
 *
 * Those of {@link reindexMemory}.
 *
 * @category maintaining
 * @since 0.2.0
 */
export const checkMemory = (
  options: MemorySessions = {}
): Effect.Effect<MemoryReport, MemoryUnavailable | OptionsInvalid | RunStoreError, RunStore | Memory> =>
  Effect.gen(function* () {
    yield* requireOptions("checkMemory", options, shape)
    const memory = yield* Memory
    const port = memory["~port"]
    if (port === undefined) return yield* new MemoryUnavailable()
    const problems: Array<string> = []
    let messages = 0
    let sessions = 0
    yield* eachSession(options, (state) =>
      Effect.gen(function* () {
        sessions += 1
        let missing = 0
        let different = 0
        const wanted = memory["~rows"](state, 0)
        messages += wanted.length
        for (let from = 0; from < wanted.length; from += 500) {
          const rows = wanted.slice(from, from + 500)
          const stored = new Map((yield* port.read(rows.map(({ id }) => id))).map((row) => [row.id, row]))
          for (const row of rows) {
            const found = stored.get(row.id)
            if (found === undefined) missing += 1
            else if (found.text !== "" && !isSame(found, row)) different += 1
          }
        }
        const said = [
          ...(missing === 0 ? [] : [`${missing} messages are missing`]),
          ...(different === 0 ? [] : [`${different} messages are indexed otherwise than they would be now`])
        ]
        if (said.length > 0 && problems.length < 100)
          problems.push(`In the session ${state.sessionId}, ${said.join(" and ")}: reindex it.`)
      })
    )
    return { ok: problems.length === 0, sessions, messages, problems }
  })

const isSame = (a: MemoryRow, b: MemoryRow): boolean =>
  a.text === b.text && a.terms === b.terms && a.version === b.version && a.scope === b.scope

/** Runs an effect with the last state of each session. A session that is removed meanwhile is left out. */
const eachSession = Effect.fnUntraced(function* <E>(
  { sessionId }: MemorySessions,
  f: (state: RunState) => Effect.Effect<void, E>
) {
  const store = yield* RunStore
  const stateOf = (runId: RunId): Effect.Effect<RunState | undefined, RunStoreError> =>
    Effect.matchEffect(loadRun(store, runId), {
      onSuccess: ({ state }) => Effect.succeed(state),
      onFailure: (error) => (error._tag === "RunNotFound" ? Effect.succeed(undefined) : Effect.fail(error))
    })
  const visit = (runId: RunId) =>
    Effect.flatMap(stateOf(runId), (state) => (state === undefined ? Effect.void : f(state)))
  if (sessionId !== undefined) {
    const last = yield* store.latest(sessionId as SessionId)
    return last === undefined ? undefined : yield* visit(last.runId)
  }
  let after: RunId | undefined
  for (;;) {
    const page = yield* store.sessions({ limit: 100, ...(after === undefined ? {} : { after }) })
    for (const { last } of page) yield* visit(last.runId)
    after = page.at(-1)?.last.runId
    if (page.length < 100 || after === undefined) return undefined
  }
})
