/**
 * Where the ids of runs and sessions come from: 48 bits of time and 80 of chance, in 26 characters that sort by time.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type { RunId, SessionId } from "../domain/Id.ts"

/** Makes ids. `now` is in milliseconds. */
export interface RunIds {
  readonly runId: (now: number) => RunId
  readonly sessionId: (now: number) => SessionId
}

/** Crockford's base 32: no I, L, O, U. See https://www.crockford.com/base32.html */
const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

const unique = (now: number): string => {
  let time = ""
  for (let rest = now, i = 0; i < 10; i++, rest = Math.floor(rest / 32)) time = alphabet[rest % 32] + time
  let chance = ""
  for (const byte of globalThis.crypto.getRandomValues(new Uint8Array(16))) chance += alphabet[byte % 32]
  return time + chance
}

/**
 * Makes the ids of runs and sessions; replace it to have ids that a test can name.
 *
 * @category services
 * @since 0.1.0
 */
export const RunIds = Context.Reference<RunIds>("@fermata/sdk/agent/RunIds", {
  defaultValue: () => ({
    runId: (now) => `run_${unique(now)}` as RunId,
    sessionId: (now) => `ses_${unique(now)}` as SessionId
  })
})
