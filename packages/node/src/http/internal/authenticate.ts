/**
 * Finds the caller of a request by its bearer token.
 */
import { createHash, timingSafeEqual } from "node:crypto"
import type { Caller } from "../Caller.ts"

/** A caller as the server knows it. The principal is absent if the single token has no author of its own. */
export type KnownCaller = Partial<Pick<Caller, "principal">> & Omit<Caller, "principal">

/** Returns the caller of a token, or `undefined`. */
export type Authenticate = (token: string) => Promise<KnownCaller | undefined>

const hashOf = (text: string): Buffer => createHash("sha256").update(text).digest()

/**
 * Finds callers by comparing hashes of tokens. All of them are compared, and each comparison takes the same time, so that the time of an answer
 * says nothing about a token.
 */
export const byTokens = (
  holders: ReadonlyArray<{ readonly token: string; readonly caller: KnownCaller }>
): Authenticate => {
  const known = holders.map(({ caller, token }) => ({ caller, hash: hashOf(token) }))
  return async (given) => {
    const hash = hashOf(given)
    let found: KnownCaller | undefined
    for (const one of known) if (timingSafeEqual(one.hash, hash)) found = one.caller
    return found
  }
}

/** The token of an `Authorization` header. */
export const bearerOf = (authorization: string | undefined): string | undefined =>
  /^Bearer ([\x21-\x7e]{1,8192})$/i.exec(authorization ?? "")?.[1]
