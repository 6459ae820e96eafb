/**
 * Ways to split a body into the pieces in which it is sent.
 */

/**
 * How a body is split: `events` after each blank line, `whole` not at all, a number into pieces of that many bytes (at least 1), a seed at
 * random places, the same ones every time, into pieces of at most `longest` bytes (default: 200).
 */
export type Chunking = "events" | "whole" | number | { readonly seed: number; readonly longest?: number }

/** Splits a body into its pieces, in order; none of them is empty. */
export function* chunksOf(body: Uint8Array, chunking: Chunking = "events"): Generator<Uint8Array> {
  if (chunking === "whole") {
    if (body.length > 0) yield body
    return
  }
  const next =
    chunking === "events"
      ? (from: number) => endOfEvent(body, from)
      : typeof chunking === "number"
        ? (from: number) => from + Math.max(1, chunking)
        : randomEnds(chunking.seed, chunking.longest ?? 200)
  for (let from = 0; from < body.length;) {
    const to = Math.min(body.length, next(from))
    yield body.subarray(from, to)
    from = to
  }
}

const endOfEvent = (body: Uint8Array, from: number): number => {
  for (let at = from; at < body.length - 1; at++) {
    if (body[at] !== 10) continue
    if (body[at + 1] === 10) return at + 2
    if (body[at + 1] === 13 && body[at + 2] === 10) return at + 3
  }
  return body.length
}

/** A linear congruential generator: the same seed gives the same cuts. */
const randomEnds = (seed: number, longest: number) => {
  let state = seed >>> 0
  return (from: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return from + 1 + Math.floor((state / 2 ** 32) * longest)
  }
}
