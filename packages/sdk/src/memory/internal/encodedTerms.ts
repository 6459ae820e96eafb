/**
 * The terms of an item as one text, as stores keep it: a line with the number of terms of its head, which is its part of windows, then one
 * line for each chunk. A later process builds its indexes from it and need not analyze the text again.
 */
import { chunksOf, headLength, mostCharacters } from "./passages.ts"
import { analyze } from "./terms.ts"

/** The version of the analysis and of the form. `reindex` replaces rows of other versions. */
export const version = 1

/** The terms of an item. */
export interface EncodedTerms {
  /** The terms of its beginning. */
  readonly head: ReadonlyArray<string>
  /** The terms of each chunk. */
  readonly chunks: ReadonlyArray<ReadonlyArray<string>>
}

/** Analyzes a text. */
export const encodeTerms = (text: string): string => {
  let heads = 0
  const lines = chunksOf(text.slice(0, mostCharacters)).map((chunk, index) => {
    const analyzed = analyze(chunk, index === 0 ? headLength : 0)
    if (index === 0) heads = analyzed.heads
    return analyzed.terms.join(" ")
  })
  return [heads, ...lines].join("\n")
}

/** The terms that {@link encodeTerms} made. */
export const decodeTerms = (encoded: string): EncodedTerms => {
  const [heads = "0", ...lines] = encoded.split("\n")
  const chunks = lines.map((line) => (line === "" ? [] : line.split(" ")))
  return { head: chunks[0]?.slice(0, Number(heads)) ?? [], chunks }
}
