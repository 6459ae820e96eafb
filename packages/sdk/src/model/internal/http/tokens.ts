/**
 * What login tokens say about themselves. Nothing is verified here: whoever issued them and whoever is shown them does that.
 */
import type { Tokens } from "../../Tokens.ts"
import { type Fields, fieldsOf, textOf } from "../fields.ts"

/** When the access token ends, in milliseconds since 1970, where that is known. */
export const expiryOf = (tokens: Tokens): number | undefined => {
  if (tokens.expiresAt !== undefined) return tokens.expiresAt
  return millisOf(claimsOf(tokens.accessToken)?.exp)
}

/** For how long the access token is good altogether, in milliseconds, where it says that itself. */
export const lifetimeOf = ({ accessToken }: Tokens): number | undefined => {
  const claims = claimsOf(accessToken)
  const from = millisOf(claims?.iat)
  const to = millisOf(claims?.exp)
  return from === undefined || to === undefined || to <= from ? undefined : to - from
}

/** The account that the tokens are for, by the claim at this path. */
export const accountOf = (tokens: Tokens, claim: ReadonlyArray<string> | undefined): string | undefined => {
  if (claim === undefined) return undefined
  for (const token of [tokens.idToken, tokens.accessToken]) {
    let at: unknown = token === undefined ? undefined : claimsOf(token)
    for (const name of claim) at = fieldsOf(at)?.[name]
    if (typeof at === "string" && at !== "") return at
  }
  return undefined
}

/** An issuer's answer (RFC 6749, section 5.1). What it leaves out stays as it was. */
export const readTokens = (body: unknown, before: Tokens, now: number): Tokens | undefined => {
  const fields = fieldsOf(body)
  const accessToken = textOf(fields?.access_token)
  if (accessToken === undefined) return undefined
  const refreshToken = textOf(fields?.refresh_token) ?? before.refreshToken
  const idToken = textOf(fields?.id_token) ?? before.idToken
  const said = fields?.expires_in
  // Some issuers write it as a text.
  const lifetime = millisOf(typeof said === "string" && /^\d+(\.\d+)?$/.test(said) ? Number(said) : said)
  return {
    accessToken,
    ...(refreshToken === undefined ? {} : { refreshToken }),
    ...(idToken === undefined ? {} : { idToken }),
    ...(lifetime !== undefined && lifetime > 0 ? { expiresAt: now + lifetime } : {})
  }
}

/** Seconds as milliseconds, where they are a number that can be calculated with. */
const millisOf = (seconds: unknown): number | undefined =>
  typeof seconds === "number" && Number.isFinite(seconds * 1000) ? seconds * 1000 : undefined

/** The middle part of a JSON web token; `undefined` for a token that is none. */
const claimsOf = (token: string): Fields | undefined => {
  const part = token.split(".")[1]
  if (part === undefined) return undefined
  try {
    const bytes = Uint8Array.from(atob(part.replaceAll("-", "+").replaceAll("_", "/")), (c) =>
      c.charCodeAt(0)
    )
    return fieldsOf(JSON.parse(new TextDecoder().decode(bytes)))
  } catch {
    return undefined
  }
}
