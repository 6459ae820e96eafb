/**
 * The options of guarded requests, and their limits.
 */
import { OptionsInvalid } from "@fermata/sdk"
import * as Duration from "effect/Duration"
import { type Options as GuardOptions, optionKeys } from "../WebGuard.ts"
import type { Resolve } from "./connector.ts"

/** Options of `WebClient.make`: those of `WebGuard.make`, and the limits of a request. */
export interface Options extends GuardOptions {
  /**
   * Resolves the name of a host to all its addresses, or to none if it has none. It is called once for each connection. Default: the
   * system's resolver.
   */
  readonly resolve?: Resolve
  /**
   * The URL of an HTTP proxy for all requests, which resolves the names of hosts. URLs are still judged, but the addresses of names are
   * not: the proxy has to refuse private ones. Default: none, even if the environment names one.
   */
  readonly proxy?: string
  /** The longest time for a request with its redirects, until the end of the body. Default: 30 seconds. */
  readonly timeout?: Duration.Input
  /** The longest time for connecting, and between two bytes from the server. Default: 10 seconds. */
  readonly idleTimeout?: Duration.Input
  /** The longest body in bytes, as it is received and also after its decompression. Default: 10 MB. */
  readonly maxBodySize?: number
  /** The longest headers in bytes. Default: 32 KiB. */
  readonly maxHeaderSize?: number
  /** The most redirects of a request. Default: 5. */
  readonly maxRedirects?: number
}

/** Limits with all values, in milliseconds and bytes. */
export interface Limits {
  readonly timeoutMs: number
  readonly idleTimeoutMs: number
  readonly maxBodySize: number
  readonly maxHeaderSize: number
  readonly maxRedirects: number
}

export const limitsOf = ({
  idleTimeout = "10 seconds",
  maxBodySize = 10_000_000,
  maxHeaderSize = 32 * 1024,
  maxRedirects = 5,
  timeout = "30 seconds"
}: Options): Limits => ({
  timeoutMs: Math.ceil(Duration.toMillis(timeout)),
  idleTimeoutMs: Math.ceil(Duration.toMillis(idleTimeout)),
  maxBodySize,
  maxHeaderSize,
  maxRedirects
})

const duration = {
  takes: 'a duration longer than 0 and at most a day, such as "30 seconds"',
  is: (value: unknown) => {
    const millis = Duration.fromInput(value as Duration.Input)
    if (millis._tag === "None") return false
    const ms = Duration.toMillis(millis.value)
    return ms >= 1 && ms <= 86_400_000
  }
}

const count = (least: number) => ({
  takes: `a whole number from ${least}`,
  is: (value: unknown) => Number.isSafeInteger(value) && Number(value) >= least
})

/** The keys of {@link Options}, for the options of modules that have them among their own. */
export const webKeys = {
  ...optionKeys,
  resolve: { takes: "a function", is: (value: unknown) => typeof value === "function" },
  proxy: {
    takes: "the URL of an HTTP proxy",
    is: (value: unknown) => typeof value === "string" && /^https?:\/\//i.test(value) && URL.canParse(value)
  },
  timeout: duration,
  idleTimeout: duration,
  maxBodySize: count(1),
  maxHeaderSize: count(1),
  maxRedirects: count(0)
} satisfies Record<keyof Options, unknown>

/** The error for invalid options of a function. */
export const problemOf = (of: string, options: object): OptionsInvalid.OptionsInvalid | undefined =>
  OptionsInvalid.problemOf(of, options, { keys: webKeys })

/** The options of a guard among others. Absent ones stay absent. */
export const guardOptions = (options: Options): GuardOptions =>
  Object.fromEntries(Object.entries(options).filter(([key]) => key in optionKeys))
