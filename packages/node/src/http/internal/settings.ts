/**
 * Checks the options of the server. What would make it unsafe is refused before it listens.
 */
import { randomBytes } from "node:crypto"
import { isIP } from "node:net"
import { OptionsInvalid } from "@fermata/sdk/domain"
import { attribute } from "@fermata/sdk/domain/Principal"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import type { Caller } from "../Caller.ts"
import type { HttpOptions, RateLimit } from "../HttpOptions.ts"
import { type Authenticate, byTokens } from "./authenticate.ts"

/** The checked options. */
export interface Settings {
  readonly host: string
  readonly port: number
  readonly publicUrl: URL | undefined
  /** The token to hand out; `undefined` if callers have their own. */
  readonly token: string | undefined
  readonly authenticate: Authenticate
  readonly tenantKey: string
  readonly allowShutdown: boolean
  readonly maxBodyBytes: number
  readonly rateLimit: RateLimit
  readonly maxStreams: number
  readonly heartbeatMs: number
  readonly requestTimeoutMs: number
}

const isPositive = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 1

const positive: OptionsInvalid.Shape = { takes: "a whole number from 1", is: isPositive, among: ["number"] }

const millisOf = (value: unknown): number =>
  Result.getOrElse(
    Result.try(() => Duration.toMillis(Duration.fromInputUnsafe(value as Duration.Input))),
    () => Number.NaN
  )

const duration = {
  takes: 'a duration from 1 millisecond to 24 days, such as "15 seconds"',
  is: (value: unknown) => millisOf(value) >= 1 && millisOf(value) < 2 ** 31
}

const isToken = (value: unknown): boolean =>
  typeof value === "string" && value.length >= 32 && /^[\x21-\x7e]+$/.test(value)

const isPrincipal = (value: unknown): boolean => Result.isSuccess(attribute(value))

/** Whether a value is a caller that the server can rely on. Anything else is refused, also from `authenticate`. */
const isCaller = (value: unknown): value is Caller => {
  if (typeof value !== "object" || value === null || !("principal" in value)) return false
  const { principal, readOnly, tenant } = value as Record<string, unknown>
  return (
    isPrincipal(principal) &&
    (tenant === undefined || (typeof tenant === "string" && tenant !== "")) &&
    (readOnly === undefined || typeof readOnly === "boolean")
  )
}

/** The callers that the program knows. A value that is no caller is refused, since half a caller could lack its tenant. */
const byProgram =
  (find: NonNullable<HttpOptions["authenticate"]>): Authenticate =>
  async (token) => {
    const found: unknown = await find(token)
    if (found === undefined || found === null) return undefined
    if (isCaller(found)) return found
    throw new TypeError("authenticate returned neither undefined nor a caller with a valid principal")
  }

const isHolder = (value: unknown): boolean => {
  if (!isCaller(value)) return false
  const keys = ["principal", "readOnly", "tenant", "token"]
  return Object.keys(value).every((key) => keys.includes(key)) && "token" in value && isToken(value.token)
}

const isPublicUrl = (value: unknown): boolean => {
  if (typeof value !== "string" || !URL.canParse(value)) return false
  const { hash, password, pathname, protocol, search, username } = new URL(value)
  return protocol === "https:" && `${username}${password}${search}${hash}` === "" && pathname === "/"
}

const isRateLimit = (value: unknown): boolean => {
  if (typeof value !== "object" || value === null) return false
  const { burst, perSecond } = value as Partial<RateLimit>
  return typeof perSecond === "number" && perSecond > 0 && Number.isFinite(perSecond) && isPositive(burst)
}

/** The options as a shape, with which unknown keys are refused. */
const shape: OptionsInvalid.Shape = {
  keys: {
    host: {
      takes: "an IP address to listen on",
      is: (value) => typeof value === "string" && isIP(value) > 0
    },
    port: {
      takes: "a port from 0 to 65,535",
      is: (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) < 65_536,
      among: ["number"]
    },
    publicUrl: {
      takes: 'an https URL without a path, such as "https://agents.example.com"',
      is: isPublicUrl
    },
    token: { takes: "a text of at least 32 visible ASCII characters", is: isToken },
    by: { takes: "a name or a principal", is: isPrincipal },
    principals: {
      takes: "a list of callers with different tokens of at least 32 visible ASCII characters",
      is: (value) =>
        Array.isArray(value) &&
        value.length > 0 &&
        value.every(isHolder) &&
        new Set(value.map(({ token }: { readonly token: string }) => token)).size === value.length
    },
    authenticate: { takes: "a function", is: (value) => typeof value === "function" },
    tenantKey: { takes: "a text", is: (value) => typeof value === "string" && value !== "" },
    allowShutdown: { takes: "true or false", is: (value) => typeof value === "boolean" },
    maxBodyBytes: positive,
    rateLimit: { takes: "{ perSecond, burst } with positive numbers", is: isRateLimit },
    maxStreams: positive,
    heartbeat: duration,
    requestTimeout: duration
  }
}

const isLoopback = (host: string): boolean => host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host)

/** The settings of the options. Throws `OptionsInvalid`. */
export const settingsOf = (of: string, options: HttpOptions): Settings => {
  const problem = OptionsInvalid.problemOf(of, options, shape)
  if (problem !== undefined) throw problem
  const { authenticate, by, host = "127.0.0.1", principals, publicUrl, token } = options
  const ways = [token ?? by, principals, authenticate].filter((way) => way !== undefined)
  if (ways.length > 1)
    throw refuse(of, "authenticate", '"token" with "by", "principals" and "authenticate" exclude each other')
  const isAuthenticated = principals !== undefined || authenticate !== undefined
  if (!isLoopback(host) && (publicUrl === undefined || !isAuthenticated))
    throw refuse(
      of,
      "host",
      `"host" is reachable from other machines: give the "publicUrl" of a proxy that ends TLS, and "principals" or "authenticate"`
    )
  const own = isAuthenticated ? undefined : (token ?? randomBytes(32).toString("base64url"))
  const holders =
    own === undefined
      ? (principals ?? []).map(({ token, ...caller }) => ({ token, caller }))
      : [{ token: own, caller: by === undefined ? {} : { principal: by } }]
  return {
    host,
    port: options.port ?? 0,
    publicUrl: publicUrl === undefined ? undefined : new URL(publicUrl),
    token: own,
    authenticate: authenticate === undefined ? byTokens(holders) : byProgram(authenticate),
    tenantKey: options.tenantKey ?? "tenant",
    allowShutdown: options.allowShutdown ?? !isAuthenticated,
    maxBodyBytes: options.maxBodyBytes ?? 1_048_576,
    rateLimit: options.rateLimit ?? { perSecond: 100, burst: 200 },
    maxStreams: options.maxStreams ?? 100,
    heartbeatMs: millisOf(options.heartbeat ?? "15 seconds"),
    requestTimeoutMs: millisOf(options.requestTimeout ?? "30 seconds")
  }
}

const refuse = (of: string, key: string, problem: string) =>
  new OptionsInvalid.OptionsInvalid({ of, misfits: [{ place: `the options of ${of}`, key, problem }] })
