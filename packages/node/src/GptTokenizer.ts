/**
 * Counts tokens as OpenAI's models from GPT-4o on do (`o200k_base`).
 *
 * Use it when the context budget needs more than an estimate. Models of other providers split text differently: Anthropic's need up to
 * twice as many tokens for the same text. The table (2 MB) is loaded when the tokenizer is made, not when this module is imported. Runs of
 * more than 2,000 characters without white space, or of white space alone, are counted in pieces, which adds at most one token for each
 * further piece.
 *
 * @since 0.1.0
 */
import { Tokenizer } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/**
 * Loads the table and makes a tokenizer, in Effect.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make: Effect.Effect<Tokenizer.Tokenizer> = Effect.map(
  Effect.promise(() => import("gpt-tokenizer/encoding/o200k_base")),
  ({ countTokens, setMergeCacheSize }) => {
    setMergeCacheSize(keptMerges)
    const count = (text: string) => countTokens(text, asText)
    return {
      count: (text) => {
        if (text.length <= longestRun) return count(text)
        let tokens = 0
        for (const piece of pieces(text)) tokens += count(piece)
        return tokens
      }
    }
  }
)

/**
 * Loads the table and makes a tokenizer, for the option `tokenizer` of `createFermata`.
 *
 * **Example** (Counting with it)
 *
 * ```ts run
 * import { GptTokenizer } from "@fermata/node"
 *
 * const tokenizer = await GptTokenizer.load()
 * console.log(tokenizer.count("A fermata holds a note.")) // 7
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const load = (): Promise<Tokenizer.Tokenizer> => Effect.runPromise(make)

/**
 * Provides this tokenizer as the `Tokenizer`: where a runtime is created, for its context budget, and where its runs are driven, for the
 * model clients.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer: Layer.Layer<never> = Layer.effect(Tokenizer.Tokenizer, make)

/** Texts like `<|endoftext|>` are counted as the text that a user writes. */
const asText = { disallowedSpecial: new Set<string>() }

/** Number of words whose tokens are cached; the library's own 100,000 may take 250 MB. */
const keptMerges = 10_000

/**
 * Longest run that is merged at once. Merging takes the square of a run's length: 20 seconds for 200 kB of blanks. A cut costs one token at
 * most.
 */
const longestRun = 2000

/** Matches each run once; a pattern for long runs only would start at every character of a short one. */
const runs = /\S+|\s+/g

/** Splits the text so that no piece has a run that is too long. */
const pieces = (text: string): ReadonlyArray<string> => {
  const out: Array<string> = []
  let done = 0
  for (const { 0: run, index } of text.matchAll(runs)) {
    if (run.length <= longestRun) continue
    if (index > done) out.push(text.slice(done, index))
    for (let at = 0; at < run.length;) {
      let end = Math.min(at + longestRun, run.length)
      // Never splits a character.
      if (end < run.length && isHighSurrogate(run.charCodeAt(end - 1))) end -= 1
      out.push(run.slice(at, end))
      at = end
    }
    done = index + run.length
  }
  if (done < text.length) out.push(text.slice(done))
  return out
}

const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00
