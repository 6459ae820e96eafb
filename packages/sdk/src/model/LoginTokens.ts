/**
 * Authentication with a login instead of a key: an access token that is renewed with a refresh token, as for accounts that log in with
 * a browser.
 *
 * With most issuers a refresh token can be used once, and using it a second time ends the login. Only one renewal is therefore in progress
 * at a time. Fibers that use one {@link make} share it. Processes exclude each other by the store's lock, and read the tokens again inside
 * it: if another process has renewed them, those are used and no request is sent. Renewed tokens that cannot be written are used all the
 * same, and written at a later call; they are lost if the process ends before.
 *
 * The token endpoint and the client id are configuration: Fermata has no client id of its own.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Base64Url from "effect/encoding/Base64Url"
import * as Exit from "effect/Exit"
import * as HttpClient from "effect/http/HttpClient"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import { sentence } from "../domain/Display.ts"
import { defined } from "../domain/internal/defined.ts"
import { duration, keysOf, oneOf, shapeOf, string } from "../domain/internal/misfits.ts"
import { problemOf } from "../domain/OptionsInvalid.ts"
import { type Fields, fieldsOf, parseJson, textOf } from "./internal/fields.ts"
import { renew } from "./internal/http/renew.ts"
import { know } from "./internal/knownSecrets.ts"
import { LoginRequired, ModelError } from "./ModelError.ts"
import type { Auth } from "./ModelProfile.ts"
import type { Tokens } from "./Tokens.ts"

export type { Tokens } from "./Tokens.ts"

/**
 * Stores the tokens of one login, and lets one process at a time renew them. An implementation must keep secrets out of its errors, because
 * they may be shown to a user.
 */
export interface TokenStore {
  /** Reads the tokens; `undefined` if there was no login. */
  readonly read: Effect.Effect<Tokens | undefined, ModelError>
  /** Replaces the tokens. Must be atomic: a crash leaves either the old or the new ones. */
  readonly write: (tokens: Tokens) => Effect.Effect<void, ModelError>
  /** Runs the effect under a lock that must exclude all other processes and fibers that use the same store. */
  readonly locked: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E | ModelError, R>
}

/** Options of {@link make}. */
export interface Options {
  /** The name of the profile in error messages. */
  readonly profile: string
  readonly store: TokenStore
  /** The issuer's token endpoint, such as `https://auth.example.com/oauth/token`. */
  readonly tokenUrl: string
  readonly clientId: string
  readonly scope?: string
  /** The encoding of the renewal request. Default: `form`, as in RFC 6749. */
  readonly encoding?: "form" | "json"
  /** How long before their expiry tokens are renewed, but never in the first half of their lifetime. Default: 5 minutes. */
  readonly ahead?: Duration.Input
  /**
   * A header with the account's id, and the path of the claim in the tokens that holds the id, such as
   * `["https://api.openai.com/auth", "chatgpt_account_id"]`.
   */
  readonly account?: { readonly header: string; readonly claim: ReadonlyArray<string> }
  /** A sentence for the user that describes how to log in. Default: `Log in again.` */
  readonly guidance?: string
}

const shape = shapeOf<Options>({
  profile: string,
  store: "anything",
  tokenUrl: string,
  clientId: string,
  scope: string,
  encoding: oneOf("form", "json"),
  ahead: duration,
  account: keysOf(["header", "claim"]),
  guidance: string
})

/**
 * Makes an authentication that sends a valid access token as `Authorization: Bearer …` and renews it when needed.
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an unknown option, and for a value of the wrong type except in `store` and `account`. Model calls fail with
 * a `ModelError`:
 *
 * - `LoginRequired`: there is no login, or the access token has to be renewed and the refresh token is missing or refused, or another
 *   account has logged in meanwhile, or the provider refuses a renewed token. A refused refresh token is not sent again. Repeat the call
 *   after a new login.
 * - `ConnectionLost`, `ProviderFault`, `InvalidResponse`: the issuer cannot be reached, fails, or returns no token. The client retries
 *   if `isRetryable` is `true`, as after any other error of a model call. Until the access token expires or the provider refuses it, a
 *   retryable error of this kind does not fail the call.
 * - An error of the store, unless the process already knows an access token that need not be renewed yet.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options: Options): Effect.Effect<Auth, never, HttpClient.HttpClient> => {
  const problem = problemOf("LoginTokens.make", options ?? null, shape)
  if (problem !== undefined) throw problem
  return Effect.map(HttpClient.HttpClient, (http): Auth => {
    const { account, guidance = "Log in again.", profile, store } = options
    const aheadMs = Duration.toMillis(options.ahead ?? "5 minutes")
    /** The tokens that the latest call used. */
    let current: Tokens | undefined
    /** Tokens that could not be written, and the older tokens that the store holds. */
    let unsaved: { readonly tokens: Tokens; readonly over: Tokens } | undefined
    /** The lifetime in milliseconds of the latest access token that was seen when it was new. */
    let seen: { readonly accessToken: string; readonly lifetime: number } | undefined
    /** A refresh token that the issuer refused or has replaced. */
    let refused: string | undefined
    let renewal: Deferred.Deferred<Tokens, ModelError> | undefined

    const logIn = (why: string) =>
      new ModelError({ reason: new LoginRequired({ profile, description: `${why} ${guidance}` }) })
    const isFresh = (tokens: Tokens, now: number) => {
      const expiry = expiryOf(tokens)
      const lifetime =
        (seen?.accessToken === tokens.accessToken ? seen.lifetime : undefined) ?? lifetimeOf(tokens)
      return expiry === undefined || expiry - Math.min(aheadMs, (lifetime ?? Infinity) / 2) > now
    }
    const seeNew = (tokens: Tokens, now: number) => {
      const expiry = expiryOf(tokens)
      if (seen?.accessToken === tokens.accessToken || expiry === undefined) return
      seen = { accessToken: tokens.accessToken, lifetime: Math.max(0, expiry - now) }
    }

    /** Writes the tokens. If that fails, the process keeps using them, and the next call tries to write them again. */
    const save = (tokens: Tokens, over: Tokens): Effect.Effect<void> =>
      Effect.flatMap(Effect.exit(store.write(tokens)), (exit) => {
        const isKnown = unsaved !== undefined
        unsaved = Exit.isSuccess(exit) ? undefined : { tokens, over }
        return unsaved === undefined || isKnown
          ? Effect.void
          : Effect.logWarning(
              sentence`The renewed login of ${profile} cannot be written: it is lost when this process ends.`
            )
      })

    /**
     * Returns usable tokens in place of `stale`, which have expired or soon will, were refused, or are not written yet. Runs under the
     * store's lock. If `forced`, the server refused the tokens: they are renewed even if they have not expired.
     */
    const renewed = (stale: Tokens, forced: boolean): Effect.Effect<Tokens, ModelError> =>
      Effect.gen(function* () {
        const stored = yield* store.read
        // If the store has changed since the failed write, its tokens are newer than the unsaved ones.
        if (unsaved !== undefined && !isSame(stored, unsaved.over)) unsaved = undefined
        if (stored === undefined) return yield* logIn(`There is no login to ${profile}.`)
        const kept = unsaved?.tokens ?? stored
        if (unsaved !== undefined) yield* save(kept, stored)
        const inStore = unsaved === undefined ? kept : stored
        const before = accountOf(stale, account?.claim)
        const after = accountOf(kept, account?.claim)
        if (before !== undefined && after !== before) {
          // Only this call fails, so that the user learns of the change. The next call uses the new account.
          return yield* logIn(`Another account has logged in to ${profile} meanwhile.`)
        }
        const now = yield* Clock.currentTimeMillis
        const isOther = kept.accessToken !== stale.accessToken
        if (isOther) seeNew(kept, now)
        if ((isOther || !forced) && isFresh(kept, now)) return kept
        const { refreshToken } = kept
        if (refreshToken === undefined || refreshToken === refused) {
          return yield* logIn(`The login of ${profile} cannot be renewed any more.`)
        }
        const answer = yield* renew(http, { ...options, refreshToken })
        if (answer._tag === "refused") {
          refused = refreshToken
          return yield* logIn(`The login of ${profile} has ended (${answer.why}).`)
        }
        const then = yield* Clock.currentTimeMillis
        const tokens = readTokens(answer.body, kept, then)
        if (tokens === undefined) return yield* answer.unreadable
        if (tokens.refreshToken !== refreshToken) refused = refreshToken
        seeNew(tokens, then)
        yield* save(tokens, inStore)
        return tokens
      })

    /** Concurrent calls share one renewal. Interrupting a call does not interrupt it: the refresh token may already be used up. */
    const shared = (stale: Tokens, forced: boolean): Effect.Effect<Tokens, ModelError> =>
      Effect.uninterruptibleMask((restore) => {
        if (renewal !== undefined) return restore(Deferred.await(renewal))
        const done = Deferred.makeUnsafe<Tokens, ModelError>()
        renewal = done
        const work = Effect.flatMap(Effect.exit(store.locked(renewed(stale, forced))), (exit) => {
          // After a failure the next call reads the store again, since the user may have logged in.
          current = Exit.isSuccess(exit) ? exit.value : undefined
          renewal = undefined
          return Deferred.done(done, exit)
        })
        return Effect.andThen(Effect.forkDetach(work), restore(Deferred.await(done)))
      })

    const tokens = (refusedAccess?: string): Effect.Effect<Tokens, ModelError> =>
      Effect.gen(function* () {
        const known = current ?? unsaved?.tokens ?? (yield* store.read)
        if (known === undefined) return yield* logIn(`There is no login to ${profile}.`)
        current = known
        const now = yield* Clock.currentTimeMillis
        // A call that was refused with an older token needs no renewal: it uses the known one.
        const forced = refusedAccess === known.accessToken
        const fresh = !forced && isFresh(known, now)
        if (fresh && unsaved === undefined) return known
        const got = yield* Effect.catch(shared(known, forced), (error) => {
          // If the issuer fails, a token that has not expired is still usable; if the store fails, a fresh one is.
          const stillGood = !forced && error.isRetryable && (expiryOf(known) ?? 0) > now
          const storeFault = fresh && error.reason._tag !== "LoginRequired"
          return stillGood || storeFault ? Effect.succeed(known) : Effect.fail(error)
        })
        // The shared renewal may have been one that only wrote unsaved tokens.
        return forced && got.accessToken === refusedAccess ? yield* shared(got, true) : got
      })

    return {
      canRefresh: true,
      guidance,
      headers: ({ forced, given }) =>
        Effect.map(tokens(forced ? accessIn(given) : undefined), (good) => {
          const id = accountOf(good, account?.claim)
          know("access-token", good.accessToken)
          if (good.refreshToken !== undefined) know("refresh-token", good.refreshToken)
          if (good.idToken !== undefined) know("id-token", good.idToken)
          return {
            authorization: Redacted.make(bearer + good.accessToken),
            ...(account === undefined || id === undefined ? {} : { [account.header]: Redacted.make(id) })
          }
        })
    }
  })
}

const isSame = (one: Tokens | undefined, other: Tokens): boolean =>
  one?.accessToken === other.accessToken && one.refreshToken === other.refreshToken

const bearer = "Bearer "

/** The access token in the headers of an earlier request. */
const accessIn = (
  given: Readonly<Record<string, Redacted.Redacted<string>>> | undefined
): string | undefined => {
  const header = given?.authorization
  return header === undefined ? undefined : Redacted.value(header).slice(bearer.length)
}

// Claims of tokens. Signatures are not verified here: the server that receives a token verifies it.

/** When the access token expires, in milliseconds since 1970; `undefined` if unknown. */
const expiryOf = (tokens: Tokens): number | undefined => {
  if (tokens.expiresAt !== undefined) return tokens.expiresAt
  return millisOf(claimsOf(tokens.accessToken)?.exp)
}

/** The lifetime of the access token in milliseconds, from its claims; `undefined` if they do not state it. */
const lifetimeOf = ({ accessToken }: Tokens): number | undefined => {
  const claims = claimsOf(accessToken)
  const from = millisOf(claims?.iat)
  const to = millisOf(claims?.exp)
  return from === undefined || to === undefined || to <= from ? undefined : to - from
}

/** The account's id: the claim at this path. */
const accountOf = (tokens: Tokens, claim: ReadonlyArray<string> | undefined): string | undefined => {
  if (claim === undefined) return undefined
  for (const token of [tokens.idToken, tokens.accessToken]) {
    let at: unknown = token === undefined ? undefined : claimsOf(token)
    for (const name of claim) at = fieldsOf(at)?.[name]
    if (typeof at === "string" && at !== "") return at
  }
  return undefined
}

/** The tokens of an issuer's response (RFC 6749, section 5.1). A refresh or id token that it omits stays the same. */
const readTokens = (body: unknown, before: Tokens, now: number): Tokens | undefined => {
  const fields = fieldsOf(body)
  const accessToken = textOf(fields?.access_token)
  if (accessToken === undefined) return undefined
  const refreshToken = textOf(fields?.refresh_token) ?? before.refreshToken
  const idToken = textOf(fields?.id_token) ?? before.idToken
  const said = fields?.expires_in
  // Some issuers write the number as a string.
  const lifetime = millisOf(typeof said === "string" && /^\d+(\.\d+)?$/.test(said) ? Number(said) : said)
  return {
    accessToken,
    ...defined({ refreshToken, idToken }),
    ...(lifetime !== undefined && lifetime > 0 ? { expiresAt: now + lifetime } : {})
  }
}

/** Converts seconds to milliseconds; `undefined` for a value that is not a finite number. */
const millisOf = (seconds: unknown): number | undefined =>
  typeof seconds === "number" && Number.isFinite(seconds * 1000) ? seconds * 1000 : undefined

/** The claims of a JSON web token; `undefined` for any other token. */
const claimsOf = (token: string): Fields | undefined => {
  const claims = Base64Url.decodeString(token.split(".")[1] ?? "")
  return Result.isFailure(claims) ? undefined : fieldsOf(parseJson(claims.success))
}
