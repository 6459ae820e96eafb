/**
 * Divides texts into the passages that memory indexes. Each item has chunks, pieces of at most 1,200 characters, and one window: the
 * beginnings of the message before it, of itself and of the message after it. A question often has the words of a neighbor, such as the
 * question that an answer belongs to; a chunk alone would not be found by them.
 */

/** The most characters of a chunk. */
const chunkLength = 1200

/** The characters of each message of a window. */
export const headLength = 800

/** The most characters of an item that are indexed. What follows in a longer one is not found. */
export const mostCharacters = 48_000

/** The places at which the chunks of a text begin. Together, the chunks are the text. */
const chunkStarts = (text: string): ReadonlyArray<number> => {
  const starts: Array<number> = []
  for (let from = 0; from < text.length;) {
    starts.push(from)
    const end = from + chunkLength
    const code = text.charCodeAt(end - 1)
    // Never half of a surrogate pair.
    from = code >= 0xd800 && code <= 0xdbff ? end - 1 : end
  }
  return starts
}

/** The chunks of a text, in order. */
export const chunksOf = (text: string): ReadonlyArray<string> =>
  chunkStarts(text).map((from, index, all) => text.slice(from, all[index + 1]))
