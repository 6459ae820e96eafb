/**
 * A state as text in pieces, for a store to keep beside the journal: the settled part of the history in chunks that later states
 * of the conversation share, and the rest. It is written only if it can be read back without being decoded, and read only if it
 * is what was written; a reader without it folds the journal.
 *
 * @since 0.1.0
 */
import * as History from "./History.ts"
import type { Revision, RunId } from "./Id.ts"
import { verbatim } from "./internal/verbatim.ts"
import type { Message } from "./Message.ts"
import { type RunState, StateRest } from "./RunState.ts"

/**
 * The version of what is written here. Raise it with every change to `RunState` or `Message` that an older reader would misread, and
 * with every change to what `evolve` makes of events that are stored already: checkpoints of another version are not used.
 */
export const version = 2

/** A state in pieces. */
export interface Pieces {
  /** JSON text of the chunks of the history that will not change, without the first `from`. */
  readonly chunks: ReadonlyArray<string>
  /** JSON text of the state without these chunks. */
  readonly state: string
}

const isChunk = verbatim(History.Chunk)
const isRest = verbatim(StateRest)

/** The messages from this place on, in order. */
const isInOrder = (messages: ReadonlyArray<Message>, from: number): boolean => {
  for (let index = 0; index < messages.length; index += 1) {
    if (messages[index]!.sequence !== from + index) return false
  }
  return true
}

/** Characters of a piece, above which it would be too large a row: files make a history long, not many. */
const mostCharacters = 2 ** 24

/** What is left of so many characters after those of a value that lies no deeper than {@link verbatim} allows; not exact below 0. */
const leftAfter = (value: unknown, characters: number): number => {
  if (typeof value === "string") return characters - value.length
  if (typeof value !== "object" || value === null) return characters - 1
  let left = characters
  if (Array.isArray(value))
    for (let i = 0; i < value.length && left >= 0; i += 1) left = leftAfter(value[i], left)
  else {
    for (const name in value) {
      if (left < 0) return left
      left = leftAfter((value as Readonly<Record<string, unknown>>)[name], left - name.length)
    }
  }
  return left
}

const isBulky = (piece: unknown): boolean => leftAfter(piece, mostCharacters) < 0

/**
 * A state in pieces, but for the first `from` chunks; `undefined` of one that could not be read back as it is, or that has a piece of
 * more than 16 million characters.
 */
export const encode = (state: RunState, from: number): Pieces | undefined => {
  const settled = History.settledChunks(state.history)
  const chunks = state.history.chunks.slice(from, settled)
  const rest = { ...state, history: { ...state.history, chunks: state.history.chunks.slice(settled) } }
  if (!isRest(rest) || isBulky(rest)) return undefined
  if (!chunks.every(isChunk) || chunks.some(isBulky)) return undefined
  return { chunks: chunks.map((chunk) => JSON.stringify(chunk)), state: JSON.stringify(rest) }
}

/** The state of a run at a revision that all pieces of it make up; `undefined` if they are not what was written. */
export const decode = ({
  chunks,
  revision,
  runId,
  state
}: Pieces & { readonly runId: RunId; readonly revision: Revision }): RunState | undefined => {
  try {
    const rest: unknown = JSON.parse(state)
    if (!isRest(rest) || rest.runId !== runId || rest.revision !== revision) return undefined
    const all: Array<ReadonlyArray<Message>> = []
    for (const text of chunks) {
      const chunk: unknown = JSON.parse(text)
      if (!isChunk(chunk)) return undefined
      all.push(chunk)
    }
    all.push(...rest.history.chunks)
    const history = { chunks: all, tail: rest.history.tail }
    return all.every(
      (chunk, index) => chunk.length === History.chunkSize && isInOrder(chunk, index * History.chunkSize)
    ) && isInOrder(history.tail, all.length * History.chunkSize)
      ? { ...rest, history }
      : undefined
  } catch {
    return undefined
  }
}
