/**
 * The messages of a session as a persistent (immutable) sequence of plain arrays.
 *
 * Appending copies only the tail and shares all full chunks, so a turn costs about the same after 10 messages as after 20,000, and
 * earlier histories stay valid. The form is canonical, because every chunk except the tail is full: two histories with the same
 * messages are equal as JSON.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Message } from "./Message.ts"

/** Messages per chunk. */
export const chunkSize = 64

/** The messages of a chunk. */
export const Chunk = Schema.Array(Message)

/** Full chunks, and the tail with fewer than {@link chunkSize} messages. */
export const fields = { chunks: Schema.Array(Chunk), tail: Chunk }

/** The messages of a session. Decoding fails when chunks are not full or sequence numbers have gaps. */
export const History = Schema.Struct(fields).check(Schema.makeFilter((history) => irregularity(history)))
export type History = typeof History.Type

/** Why chunks and a tail are not a valid history; `undefined` if they are. */
const irregularity = (history: {
  readonly chunks: ReadonlyArray<ReadonlyArray<Message>>
  readonly tail: ReadonlyArray<Message>
}): string | undefined => {
  if (history.chunks.some((chunk) => chunk.length !== chunkSize))
    return `Expected a chunk of ${chunkSize} messages`
  if (history.tail.length >= chunkSize) return `Expected a tail of less than ${chunkSize} messages`
  const gap = toArray(history).findIndex((message, index) => message.sequence !== index)
  return gap === -1 ? undefined : `Expected sequence ${gap} at place ${gap}`
}

/** A history without messages. */
export const empty: History = { chunks: [], tail: [] }

/** The number of messages, which is also the sequence number of the next message. */
export const size = (history: History): number => history.chunks.length * chunkSize + history.tail.length

/** Appends a message. The message's `sequence` must be the history's {@link size}. */
export const append = (history: History, message: Message): History => {
  // Spreading over-allocates the new array, and `concat` takes twice as long.
  const tail = history.tail.toSpliced(history.tail.length, 0, message)
  return tail.length === chunkSize
    ? { chunks: [...history.chunks, tail], tail: [] }
    : { chunks: history.chunks, tail }
}

/** Makes a history from messages, oldest first. Does not check that their `sequence` counts from 0 without gaps. */
export const fromArray = (messages: ReadonlyArray<Message>): History => {
  const full = messages.length - (messages.length % chunkSize)
  const chunks: Array<ReadonlyArray<Message>> = []
  for (let i = 0; i < full; i += chunkSize) chunks.push(messages.slice(i, i + chunkSize))
  return { chunks, tail: messages.slice(full) }
}

/** All messages, oldest first, in a new array. */
export const toArray = (history: History): Array<Message> =>
  history.chunks.length === 0
    ? history.tail.slice()
    : ([] as Array<Message>).concat(...history.chunks, history.tail)

/** The newest message; `undefined` if the history is empty. */
export const last = (history: History): Message | undefined =>
  history.tail.length > 0 ? history.tail[history.tail.length - 1] : history.chunks.at(-1)?.[chunkSize - 1]

/** The message with this sequence number; `undefined` if there is none. */
export const at = ({ chunks, tail }: History, sequence: number): Message | undefined => {
  const settled = chunks.length * chunkSize
  return sequence < settled
    ? chunks[Math.floor(sequence / chunkSize)]?.[sequence % chunkSize]
    : tail[sequence - settled]
}

/** The number of chunks that never change again. {@link replaceLast} can change the last chunk while the tail is empty. */
export const settledChunks = ({ chunks, tail }: History): number =>
  tail.length > 0 ? chunks.length : Math.max(0, chunks.length - 1)

/** Replaces the last message. The history must not be empty. */
export const replaceLast = (history: History, message: Message): History =>
  history.tail.length > 0
    ? { chunks: history.chunks, tail: [...history.tail.slice(0, -1), message] }
    : {
        chunks: [...history.chunks.slice(0, -1), [...(history.chunks.at(-1) ?? []).slice(0, -1), message]],
        tail: []
      }
