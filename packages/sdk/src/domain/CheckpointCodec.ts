/**
 * Encodes checkpoints: a state as pieces of text that a store keeps beside the journal.
 *
 * The full chunks of the history are separate pieces, which later states of the session share; the rest of the state is one piece. A
 * checkpoint is written only if `verbatim` accepts it, so that it can be read without decoding, and no piece is too large. It is used only
 * if it is intact. Without a usable checkpoint, a reader folds the journal.
 *
 * @since 0.1.0
 */
import * as History from "./History.ts"
import type { Revision, RunId } from "./Id.ts"
import { verbatim } from "./internal/verbatim.ts"
import type { Message } from "./Message.ts"
import { type RunState, StateRest } from "./RunState.ts"

/**
 * The version of checkpoints. Checkpoints of another version are not used. Raise it with every change to `RunState` or `Message` that an
 * older reader would misread, and with every change to the state that `evolve` computes from stored events.
 */
export const version = 3

/** A state in pieces. */
export interface Pieces {
  /** JSON texts of the chunks of the history that no longer change. `encode` leaves out the first `from`; `decode` requires all. */
  readonly chunks: ReadonlyArray<string>
  /** JSON text of the state without its unchanging chunks. */
  readonly state: string
}

const isChunk = verbatim(History.Chunk)
const isRest = verbatim(StateRest)

/** Whether the sequence numbers of messages run from `from` without gaps. */
const isInOrder = (messages: ReadonlyArray<Message>, from: number): boolean => {
  for (let index = 0; index < messages.length; index += 1) {
    if (messages[index]!.sequence !== from + index) return false
  }
  return true
}

/** The most characters of a piece, so that no row becomes too large. Files in messages can make a single chunk this large. */
const mostCharacters = 2 ** 24

/**
 * Subtracts the approximate length of a value's JSON from `characters`, and stops once the result is negative. Recurses, so the value
 * must have passed {@link verbatim}, which bounds its depth.
 */
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
 * Encodes a state without the first `from` chunks of its history. Returns `undefined` if the state could not be read back unchanged, or
 * if a piece has more than about 16 million characters.
 */
export const encode = (state: RunState, from: number): Pieces | undefined => {
  const settled = History.settledChunks(state.history)
  const chunks = state.history.chunks.slice(from, settled)
  const rest = { ...state, history: { ...state.history, chunks: state.history.chunks.slice(settled) } }
  if (!isRest(rest) || isBulky(rest)) return undefined
  if (!chunks.every(isChunk) || chunks.some(isBulky)) return undefined
  return { chunks: chunks.map((chunk) => JSON.stringify(chunk)), state: JSON.stringify(rest) }
}

/** Decodes a run's state at a revision from all of its pieces. Returns `undefined` if they are damaged or of another run or revision. */
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
