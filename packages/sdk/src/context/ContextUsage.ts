/**
 * The use of a model call's context: its parts in tokens, and the room that the model has for them.
 *
 * @since 0.2.0
 */

/**
 * The parts of a context in tokens. They are estimates of the configured tokenizer, corrected by what the provider has reported for earlier
 * requests of this process.
 */
export interface ContextUsage {
  /** The size of the model's context, response included. */
  readonly window: number
  /** Whether the model client knows `window`. If not, it is the assumed one. */
  readonly isWindowKnown: boolean
  /** Left for the response. */
  readonly output: number
  /** Left as a safety margin, because all counts are estimates. */
  readonly reserve: number
  /** The instructions. */
  readonly system: number
  /** The definitions of the tools. */
  readonly tools: number
  /** The sections that are rendered in each turn. */
  readonly sections: number
  /** The messages retrieved from memory. */
  readonly memory: number
  /** The summary of the oldest messages. */
  readonly summary: number
  /** The messages. */
  readonly history: number
  /** The sum of the parts: `system`, `tools`, `sections`, `memory`, `summary` and `history`. */
  readonly used: number
  /** The most tokens that the parts may have: `window` less `output` and `reserve`, or `maxContextTokens` if that is less. */
  readonly usable: number
  /** Above this, the context is pruned or compacted. */
  readonly trigger: number
  /** The factor by which the estimates were corrected. */
  readonly ratio: number
}

/** Describes the usage in a sentence, in tokens. */
export const describe = ({ isWindowKnown, trigger, usable, used, window }: ContextUsage): string => {
  const assumed = isWindowKnown ? "" : `, of an assumed window of ${number(window)}`
  return `Its context uses about ${number(used)} of ${number(usable)} tokens${assumed}, and is compacted above ${number(trigger)}.`
}

const number = (value: number): string => Math.round(value).toLocaleString("en-US")
