/**
 * Converts between the messages of runs, the rows of stores, and items.
 */
import * as History from "../../domain/History.ts"
import { defined } from "../../domain/internal/defined.ts"
import { sha256Of } from "../../domain/internal/sha256.ts"
import { untrustedIn } from "../../domain/internal/untrusted.ts"
import { type MemoryItem, type Scope, scopeKey, scopeOfKey } from "../../domain/MemoryItem.ts"
import { type Message, textOf } from "../../domain/Message.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { UntrustedResult } from "../../domain/Untrusted.ts"
import type { MemoryRow, StoredMemory } from "../../store/MemoryPort.ts"
import type { Fact } from "../Memory.ts"
import { encodeTerms, version } from "./encodedTerms.ts"

/** What a row says of its origin, besides its columns. */
interface Source {
  readonly from?: NonNullable<Fact["source"]>
  readonly by?: string
  readonly untrusted?: ReadonlyArray<UntrustedResult>
}

const sourceText = (source: Source): string | undefined =>
  Object.keys(source).length === 0 ? undefined : JSON.stringify(source)

/** The tools whose results are in memory already. */
const ofMemory: ReadonlySet<string> = new Set(["recall", "remember"])

/** The text of a message that memory keeps; "" if it keeps none. */
const keptText = (message: Message): string => {
  if (message.role === "user" && message.origin === "runtime") return ""
  if (message.role === "tool" && ofMemory.has(message.name)) return ""
  return textOf(message.content).trim()
}

/** The rows of the messages of a run from one sequence number up to another one, without those that have no text. */
export const rowsOf = (
  state: RunState,
  scope: Scope,
  from: number,
  to = History.size(state.history)
): ReadonlyArray<MemoryRow> => {
  const rows: Array<MemoryRow> = []
  const { history, runId, sessionId } = state
  // What an answer was written from cannot be known: it is marked with everything that its run has read.
  const untrusted = untrustedIn(state)
  const source = sourceText(untrusted.length === 0 ? {} : { untrusted })
  for (let sequence = from; sequence < to; sequence += 1) {
    const message = History.at(history, sequence)
    const text = message === undefined ? "" : keptText(message)
    if (message === undefined || text === "") continue
    const { at, role } = message
    rows.push({
      id: messageId(sessionId, sequence),
      scope: scopeKey(scope),
      kind: "message",
      text,
      terms: encodeTerms(text),
      version,
      at,
      role,
      runId,
      sessionId,
      sequence,
      source: role === "user" ? undefined : source
    })
  }
  return rows
}

/** The id of a message of a session. */
const messageId = (sessionId: string, sequence: number): string => `${sessionId}/${sequence}`

/** The row of a fact. Its id follows from its scope and its key, or its text, so that remembering it again replaces it. */
export const rowOfFact = (fact: Required<Pick<Fact, "scope">> & Fact, at: number): MemoryRow => {
  const { by, key, scope, source = {}, text, untrusted } = fact
  const place = scopeKey(scope)
  const digest = sha256Of(JSON.stringify([place, key === undefined ? 0 : 1, key ?? text]))
  const isOfSession = typeof scope === "object" && "session" in scope
  return {
    id: `fact_${digest.slice(0, 24)}`,
    scope: place,
    kind: "fact",
    text,
    terms: encodeTerms(key === undefined ? text : `${key} ${text}`),
    version,
    at,
    key,
    // The facts of a user outlive the run that learned them.
    runId: isOfSession ? source.runId : undefined,
    source: sourceText({
      ...defined({ by, untrusted: untrusted?.length === 0 ? undefined : untrusted }),
      ...(source.runId === undefined && source.sessionId === undefined ? {} : { from: source })
    })
  }
}

/** The item of a row. */
export const itemOf = (row: StoredMemory): MemoryItem => {
  const { at, id, key, kind, position, role, scope, sequence, sessionId, text } = row
  const { by, from, untrusted } = readSource(row.source)
  return {
    id,
    scope: scopeOfKey(scope),
    kind,
    text,
    position,
    at,
    ...defined({
      role,
      key,
      sequence,
      by,
      untrusted,
      sessionId: sessionId ?? from?.sessionId,
      runId: row.runId ?? from?.runId
    })
  }
}

const readSource = (text: string | undefined): Source => {
  if (text === undefined) return {}
  try {
    return JSON.parse(text) as Source
  } catch {
    // An origin that cannot be read is not trusted.
    return { untrusted: [] }
  }
}
