/**
 * Generates the ids of runs and sessions: `run_` or `ses_`, then 10 characters of the time in milliseconds and 16 of 80 random bits. Ids
 * of one kind sort by time; those of the same millisecond have no order.
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

/** Makes an id as one flat string. A concatenated string would keep its parts in memory. */
const unique = (prefix: "run_" | "ses_", now: number): string => {
  for (let i = 0; i < 4; i++) codes[i] = prefix.charCodeAt(i)
  for (let i = 9, rest = now; i >= 0; i--, rest = Math.floor(rest / 32)) {
    codes[4 + i] = alphabet.charCodeAt(rest % 32)
  }
  if (used === pool.length) {
    globalThis.crypto.getRandomValues(pool)
    used = 0
  }
  for (let i = 0; i < 16; i++) codes[14 + i] = alphabet.charCodeAt(pool[used + i]! % 32)
  // Bytes that became part of an id do not stay in the pool.
  pool.fill(0, used, used + 16)
  used += 16
  return String.fromCharCode(...codes)
}

/**
 * Makes the ids of runs and sessions. Replace it in tests that need predictable ids.
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
