/**
 * The tokens of a login, as a `TokenStore` of `LoginTokens` stores them.
 *
 * @since 0.1.0
 * @module
 */
/** The tokens of one login, as plain JSON. They are secrets: a store must keep them where no other user can read them. */
export interface Tokens {
  readonly accessToken: string
  readonly refreshToken?: string
  readonly idToken?: string
  /** When the access token expires, in milliseconds since 1970. Default: the `exp` claim of the access token, if it has one. */
  readonly expiresAt?: number
}
