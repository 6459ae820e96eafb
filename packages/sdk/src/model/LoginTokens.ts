/**
 * A login instead of a key: an access token that is renewed with a refresh token, as with accounts that log in by a browser.
 *
 * Refresh tokens can be used once. Whoever uses one that another has just used is logged out, so a renewal happens at one place
 * at a time: among the fibers of a process by sharing it, among processes by the store's lock, inside which the tokens are read
 * again. What another process has renewed is taken over, and nothing is sent. Tokens that cannot be written are used all the
 * same, and written at a later call.
 *
 * Where to renew, and on whose behalf, is configuration: Fermata has no client id of its own.
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
import { LoginRequired, ModelError } from "./ModelError.ts"
import type { Auth } from "./ModelProfile.ts"
import type { Tokens } from "./Tokens.ts"

export type { Tokens } from "./Tokens.ts"

/** Keeps the tokens of one login. What it fails with may be shown. */
export interface TokenStore {
  /** The tokens; `undefined` where there was no login. */
  readonly read: Effect.Effect<Tokens | undefined, ModelError>
  /** Replaces the tokens: afterwards either the old or the new ones are there, whole. */
  readonly write: (tokens: Tokens) => Effect.Effect<void, ModelError>
  /** Runs this exclusively among all that use the same store, in whichever process. */
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
  /** Tokens are renewed this long before they expire, but not in the first half of their life. Default: 5 minutes. */
  readonly ahead?: Duration.Input
  /** A header that names the account, from a claim inside the tokens, such as `["https://api.openai.com/auth", "chatgpt_account_id"]`. */
  readonly account?: { readonly header: string; readonly claim: ReadonlyArray<string> }
  /** What a person has to do to log in. Default: `Log in again.` */
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
 * Headers with an access token that is good.
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for a key that there is not, and for a value of another kind. Given to the call that asks:
 *
 * - `LoginRequired`: there is no login, the issuer does not take the refresh token any more, or another account has logged in
 *   meanwhile. Nothing is sent again for a token that was refused; after a new login the call can be repeated.
 * - `ConnectionLost`, `ProviderFault`, `RateLimited`: the issuer cannot be reached. Tried again like any model call.
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
    /** What was given to calls last. */
    let current: Tokens | undefined
    /** Tokens that could not be written, and what the store holds instead of them. */
    let unsaved: { readonly tokens: Tokens; readonly over: Tokens } | undefined
    /** For how long a token is good that was seen when it was new. */
    let seen: { readonly accessToken: string; readonly lifetime: number } | undefined
    /** A refresh token that will never work again. */
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

    /** A login that cannot be written is not lost: the process goes on with it, and tries again at the next call. */
    const save = (tokens: Tokens, over: Tokens): Effect.Effect<void> =>
      Effect.flatMap(Effect.exit(store.write(tokens)), (exit) => {
        const isKnown = unsaved !== undefined
        unsaved = Exit.isSuccess(exit) ? undefined : { tokens, over }
        return unsaved === undefined || isKnown
          ? Effect.void
          : Effect.logWarning(
              sentence`The renewed login of ${profile} cannot be written: it ends with this process.`
            )
      })

    /**
     * Runs alone among all who use the store. `stale` is not good any more, or will soon not be, or is not written yet. Where it
     * was refused, it is renewed in any case.
     */
    const renewed = (stale: Tokens, forced: boolean): Effect.Effect<Tokens, ModelError> =>
      Effect.gen(function* () {
        const stored = yield* store.read
        // Whoever has changed the store meanwhile knows better.
        if (unsaved !== undefined && !isSame(stored, unsaved.over)) unsaved = undefined
        if (stored === undefined) return yield* logIn(`Nobody is logged in to ${profile}.`)
        const kept = unsaved?.tokens ?? stored
        if (unsaved !== undefined) yield* save(kept, stored)
        const inStore = unsaved === undefined ? kept : stored
        const before = accountOf(stale, account?.claim)
        const after = accountOf(kept, account?.claim)
        if (before !== undefined && after !== before) {
          // The next call goes on with the account that is there now: by then a person knows of it.
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

    /** Shared by all who ask meanwhile, and not given up when one of them is: the refresh token may be used already. */
    const shared = (stale: Tokens, forced: boolean): Effect.Effect<Tokens, ModelError> =>
      Effect.uninterruptibleMask((restore) => {
        if (renewal !== undefined) return restore(Deferred.await(renewal))
        const done = Deferred.makeUnsafe<Tokens, ModelError>()
        renewal = done
        const work = Effect.flatMap(Effect.exit(store.locked(renewed(stale, forced))), (exit) => {
          // After a failure the next call looks into the store: a person may have logged in.
          current = Exit.isSuccess(exit) ? exit.value : undefined
          renewal = undefined
          return Deferred.done(done, exit)
        })
        return Effect.andThen(Effect.forkDetach(work), restore(Deferred.await(done)))
      })

    const tokens = (refusedAccess?: string): Effect.Effect<Tokens, ModelError> =>
      Effect.gen(function* () {
        const known = current ?? unsaved?.tokens ?? (yield* store.read)
        if (known === undefined) return yield* logIn(`Nobody is logged in to ${profile}.`)
        current = known
        const now = yield* Clock.currentTimeMillis
        // Whoever was refused with an older token than the one that is known now has only to use that.
        const forced = refusedAccess === known.accessToken
        const fresh = !forced && isFresh(known, now)
        if (fresh && unsaved === undefined) return known
        const got = yield* Effect.catch(shared(known, forced), (error) => {
          // What is not expired yet is still good when the issuer has a fault, and what is fresh when the store has one.
          const stillGood = !forced && error.isRetryable && (expiryOf(known) ?? 0) > now
          const storeFault = fresh && error.reason._tag !== "LoginRequired"
          return stillGood || storeFault ? Effect.succeed(known) : Effect.fail(error)
        })
        // The refused caller may have waited for one that only had to write.
        return forced && got.accessToken === refusedAccess ? yield* shared(got, true) : got
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

// What tokens say about themselves. Nothing is verified here: their issuer and their receiver do that.

/** When the access token ends, in milliseconds since 1970, where that is known. */
const expiryOf = (tokens: Tokens): number | undefined => {
  if (tokens.expiresAt !== undefined) return tokens.expiresAt
  return millisOf(claimsOf(tokens.accessToken)?.exp)
}

/** For how long the access token is good altogether, in milliseconds, where it says that itself. */
const lifetimeOf = ({ accessToken }: Tokens): number | undefined => {
  const claims = claimsOf(accessToken)
  const from = millisOf(claims?.iat)
  const to = millisOf(claims?.exp)
  return from === undefined || to === undefined || to <= from ? undefined : to - from
}

/** The account that the tokens are for, by the claim at this path. */
const accountOf = (tokens: Tokens, claim: ReadonlyArray<string> | undefined): string | undefined => {
  if (claim === undefined) return undefined
  for (const token of [tokens.idToken, tokens.accessToken]) {
    let at: unknown = token === undefined ? undefined : claimsOf(token)
    for (const name of claim) at = fieldsOf(at)?.[name]
    if (typeof at === "string" && at !== "") return at
  }
  return undefined
}

/** An issuer's answer (RFC 6749, section 5.1). What it leaves out stays as it was. */
const readTokens = (body: unknown, before: Tokens, now: number): Tokens | undefined => {
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
    ...defined({ refreshToken, idToken }),
    ...(lifetime !== undefined && lifetime > 0 ? { expiresAt: now + lifetime } : {})
  }
}

/** Seconds as milliseconds, where they are a number that can be calculated with. */
const millisOf = (seconds: unknown): number | undefined =>
  typeof seconds === "number" && Number.isFinite(seconds * 1000) ? seconds * 1000 : undefined

/** The middle part of a JSON web token; `undefined` for a token that is none. */
const claimsOf = (token: string): Fields | undefined => {
  const claims = Base64Url.decodeString(token.split(".")[1] ?? "")
  return Result.isFailure(claims) ? undefined : fieldsOf(parseJson(claims.success))
}
