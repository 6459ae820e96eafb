/**
 * The tokens of a login.
 *
 * @since 0.1.0
 */
/** What a login left behind. Plain JSON: a store keeps it where no other user can read it. */
export interface Tokens {
  readonly accessToken: string
  readonly refreshToken?: string
  readonly idToken?: string
  /** Milliseconds since 1970. Left out: as the access token says itself, if it does. */
  readonly expiresAt?: number
}
