/**
 * A login instead of a key: an access token that is renewed with a refresh token, as with accounts that log in by a browser.
 *
 * Refresh tokens can be used once. Whoever uses one that another has just used is logged out, so a renewal happens at one place
 * at a time: among the fibers of a process by sharing it, among processes by the store's lock, inside which the tokens are read
 * again. What another process has renewed is taken over, and nothing is sent.
 *
 * Where to renew, and on whose behalf, is configuration: Fermata has no client id of its own.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpClient from "effect/http/HttpClient"
import * as Redacted from "effect/Redacted"
import { accountOf, expiryOf, readTokens } from "./internal/tokens.ts"
import { renew } from "./internal/renew.ts"
import { LoginRequired, ModelError } from "./ModelError.ts"
import type { Auth } from "./ModelProfile.ts"

/** What a login left behind. Plain JSON: a store keeps it where nobody else can read it. */
export interface Tokens {
  readonly accessToken: string
  readonly refreshToken?: string
  readonly idToken?: string
  /** Milliseconds since 1970. Left out: as the access token says itself, if it does. */
  readonly expiresAt?: number
}

/** Keeps the tokens of one login. What it fails with may be shown. */
export interface TokenStore {
  /** The tokens; `undefined` where nobody has logged in. */
  readonly read: Effect.Effect<Tokens | undefined, ModelError>
  /** Replaces the tokens: afterwards either the old or the new ones are there, whole. */
  readonly write: (tokens: Tokens) => Effect.Effect<void, ModelError>
  /** Does this while nobody else who uses the same store, in whichever process, does the like. */
  readonly locked: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E | ModelError, R>
}

/** Where to renew a login, and how it is shown to the model's server. */
export interface Options {
  /** The name of the profile, for a person who has to log in. */
  readonly profile: string
  readonly store: TokenStore
  /** The issuer's token endpoint, such as `https://auth.example.com/oauth/token`. */
  readonly tokenUrl: string
  readonly clientId: string
  readonly scope?: string
  /** How the renewal is written. Default: `form`, as RFC 6749 has it. */
  readonly encoding?: "form" | "json"
  /** Tokens are renewed this long before they expire. Default: 5 minutes. */
  readonly ahead?: Duration.Input
  /** A header that names the account, from a claim inside the tokens, such as `["https://api.openai.com/auth", "chatgpt_account_id"]`. */
  readonly account?: { readonly header: string; readonly claim: ReadonlyArray<string> }
  /** What a person has to do to log in. Default: `Log in again.` */
  readonly guidance?: string
}

/**
 * Headers with an access token that is good.
 *
 * **Errors**
 *
 * Given to the call that asks:
 *
 * - `LoginRequired`: nobody is logged in, the issuer does not take the refresh token any more, or another account has logged in
 *   meanwhile. Nothing is sent again for a token that was refused; after a new login the call can be repeated.
 * - `ConnectionLost`, `ProviderFault`, `RateLimited`: the issuer cannot be reached. Tried again like any model call.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options: Options): Effect.Effect<Auth, never, HttpClient.HttpClient> =>
  Effect.map(HttpClient.HttpClient, (http): Auth => {
    const { account, guidance = "Log in again.", profile, store } = options
    const aheadMs = Duration.toMillis(options.ahead ?? "5 minutes")
    /** What was given to calls last. */
    let current: Tokens | undefined
    /** A refresh token that will never work again. */
    let refused: string | undefined
    let renewal: Deferred.Deferred<Tokens, ModelError> | undefined

    const logIn = (why: string) =>
      new ModelError({ reason: new LoginRequired({ profile, description: `${why} ${guidance}` }) })
    const isFresh = (tokens: Tokens, now: number) => {
      const expiry = expiryOf(tokens)
      return expiry === undefined || expiry - aheadMs > now
    }

    /** Runs alone among all who use the store. `stale` is not good any more, or will soon not be. */
    const renewed = (stale: Tokens): Effect.Effect<Tokens, ModelError> =>
      Effect.gen(function* () {
        const stored = yield* store.read
        if (stored === undefined) return yield* logIn(`Nobody is logged in to ${profile}.`)
        const before = accountOf(stale, account?.claim)
        const after = accountOf(stored, account?.claim)
        if (before !== undefined && after !== before) {
          // The next call goes on with the account that is there now: by then a person has been told.
          return yield* logIn(`Another account has logged in to ${profile} meanwhile.`)
        }
        if (stored.accessToken !== stale.accessToken && isFresh(stored, yield* Clock.currentTimeMillis)) {
          return stored
        }
        const { refreshToken } = stored
        if (refreshToken === undefined || refreshToken === refused) {
          return yield* logIn(`The login of ${profile} cannot be renewed any more.`)
        }
        const answer = yield* renew(http, { ...options, refreshToken })
        if (answer._tag === "refused") {
          refused = refreshToken
          return yield* logIn(`The login of ${profile} has ended (${answer.why}).`)
        }
        const tokens = readTokens(answer.body, stored, yield* Clock.currentTimeMillis)
        if (tokens === undefined) return yield* answer.unreadable
        yield* store.write(tokens)
        return tokens
      })

    /** Shared by all who ask meanwhile, and not given up when one of them is: the refresh token may be used already. */
    const shared = (stale: Tokens): Effect.Effect<Tokens, ModelError> =>
      Effect.uninterruptibleMask((restore) => {
        if (renewal !== undefined) return restore(Deferred.await(renewal))
        const done = Deferred.makeUnsafe<Tokens, ModelError>()
        renewal = done
        const work = Effect.flatMap(Effect.exit(store.locked(renewed(stale))), (exit) => {
          // After a failure the next call looks into the store: a person may have logged in.
          current = Exit.isSuccess(exit) ? exit.value : undefined
          renewal = undefined
          return Deferred.done(done, exit)
        })
        return Effect.andThen(Effect.forkDetach(work), restore(Deferred.await(done)))
      })

    const tokens = (refusedAccess?: string): Effect.Effect<Tokens, ModelError> =>
      Effect.gen(function* () {
        const known = current ?? (yield* store.read)
        if (known === undefined) return yield* logIn(`Nobody is logged in to ${profile}.`)
        current = known
        const now = yield* Clock.currentTimeMillis
        // Whoever was refused with an older token than the one that is known now has only to use that.
        const forced = refusedAccess === known.accessToken
        if (!forced && isFresh(known, now)) return known
        return yield* Effect.catch(shared(known), (error) => {
          // What is not expired yet is still good when the issuer has a fault.
          const stillGood = !forced && error.isRetryable && (expiryOf(known) ?? 0) > now
          return stillGood ? Effect.succeed(known) : Effect.fail(error)
        })
      })

    return {
      canRefresh: true,
      headers: ({ forced, given }) =>
        Effect.map(tokens(forced ? accessIn(given) : undefined), (good) => {
          const id = accountOf(good, account?.claim)
          return {
            authorization: Redacted.make(bearer + good.accessToken),
            ...(account === undefined || id === undefined ? {} : { [account.header]: Redacted.make(id) })
          }
        })
    }
  })

const bearer = "Bearer "

/** The access token in the headers of an earlier request. */
const accessIn = (
  given: Readonly<Record<string, Redacted.Redacted<string>>> | undefined
): string | undefined => {
  const header = given?.authorization
  return header === undefined ? undefined : Redacted.value(header).slice(bearer.length)
}
