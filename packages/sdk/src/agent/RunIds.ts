/**
 * Generates the ids of runs and sessions: `run_` or `ses_`, then 10 characters of the time in milliseconds and 16 of 80 bits. Ids of
 * one kind sort by time. The bits are random, and in the same millisecond a random number greater than those of the process's ids before, so
 * that the ids of one process sort in the order in which they were made.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type { RunId, SessionId } from "../domain/Id.ts"

/** Makes the ids of runs and sessions. `now` is the time in milliseconds since 1970. */
export interface RunIds {
  readonly runId: (now: number) => RunId
  readonly sessionId: (now: number) => SessionId
}

/** Crockford's base 32: no I, L, O, U. See https://www.crockford.com/base32.html */
const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

/** Random bytes, drawn many at a time, because a draw costs more than an id. */
const pool = new Uint8Array(1024)
let used = pool.length

/** The character codes of the id in progress. */
const codes: Array<number> = Array.from({ length: 30 }, () => 0)

/** The last 16 characters of the previous id, as numbers below 32, and its time. */
const digits: Array<number> = Array.from({ length: 16 }, () => 0)
let last = NaN

const random = (): number => {
  if (used === pool.length) {
    globalThis.crypto.getRandomValues(pool)
    used = 0
  }
  const byte = pool[used]!
  // Bytes that became part of an id do not stay in the pool.
  pool[used++] = 0
  return byte % 32
}

/** Draws new digits. The first is below 16, so that a sum within the same millisecond never overflows. */
const draw = () => {
  for (let i = 0; i < 16; i++) digits[i] = random()
  digits[0] = digits[0]! % 16
}

/** Adds a random number of 40 bits, and 1, so that the ids of a millisecond ascend and cannot be guessed from each other. */
const advance = () => {
  let carry = 1
  for (let i = 15; i >= 0; i--) {
    const sum = digits[i]! + carry + (i < 8 ? 0 : random())
    digits[i] = sum % 32
    carry = sum >= 32 ? 1 : 0
  }
}

/** Makes an id as one flat string. A concatenated string would keep its parts in memory. */
const unique = (prefix: "run_" | "ses_", now: number): string => {
  for (let i = 0; i < 4; i++) codes[i] = prefix.charCodeAt(i)
  for (let i = 9, rest = now; i >= 0; i--, rest = Math.floor(rest / 32)) {
    codes[4 + i] = alphabet.charCodeAt(rest % 32)
  }
  if (now === last) advance()
  else draw()
  last = now
  for (let i = 0; i < 16; i++) codes[14 + i] = alphabet.charCodeAt(digits[i]!)
  return String.fromCharCode(...codes)
}

/**
 * Makes the ids of runs and sessions for which the caller chose none. Default: ids that sort by time and cannot be guessed. Replace it in
 * tests that need predictable ids.
 *
 * @category services
 * @since 0.1.0
 */
export const RunIds = Context.Reference<RunIds>("@fermata/sdk/agent/RunIds", {
  defaultValue: () => ({
    runId: (now) => unique("run_", now) as RunId,
    sessionId: (now) => unique("ses_", now) as SessionId
  })
})
