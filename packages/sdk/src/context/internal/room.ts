/**
 * The tokens that a model call can take, from what is known of the model.
 */

/** The window that is assumed if the model client does not know it. */
export const assumedWindow = 128_000

/** The known limits of the model and of the run, in tokens. Absent ones are unknown. */
export interface RoomInput {
  readonly contextTokens?: number | undefined
  /** The output tokens that the agent requests. */
  readonly reservedTokens?: number | undefined
  /** The most output tokens of the model. */
  readonly maxOutputTokens?: number | undefined
  /** The run's own limit on the context. */
  readonly maxContextTokens?: number | undefined
}

/** The window and its division. */
export interface Room {
  readonly window: number
  readonly isWindowKnown: boolean
  readonly output: number
  readonly reserve: number
  /** The most tokens of the request. */
  readonly budget: number
}

/** Divides the window. `assumed` is the window if the client does not know it. */
export const roomOf = (
  { contextTokens, maxContextTokens, maxOutputTokens, reservedTokens }: RoomInput,
  assumed: number
): Room => {
  const window = contextTokens ?? assumed
  // What the agent requests is left free. What a model can write at most is often most of its window, and is rarely written.
  const output = Math.min(reservedTokens ?? Math.min(maxOutputTokens ?? 4096, 20_000), Math.floor(window / 2))
  const reserve = Math.min(20_000, Math.floor(window / 10))
  const room = Math.max(0, window - output - reserve)
  return {
    window,
    isWindowKnown: contextTokens !== undefined,
    output,
    reserve,
    budget: Math.min(room, maxContextTokens ?? room)
  }
}
