/**
 * Lists of domains: patterns such as `example.com` and `*.example.com`.
 */
import { isIP } from "node:net"

/** A domain, the subdomains of one (`*.example.com`), or every domain (`*`), in the form in which `URL` writes hosts. */
export type Pattern = string

/** The host of a URL without a final dot and without the brackets of an IPv6 address. */
export const hostOf = (url: URL): string => url.hostname.replace(/\.$/, "").replace(/^\[|\]$/g, "")

/** The normal form of a pattern, or `undefined` if it is none. */
export const patternOf = (given: unknown): Pattern | undefined => {
  if (typeof given !== "string") return undefined
  if (given === "*") return given
  const [, stars = "", domain = ""] =
    /^(\*\.)?([^*/?#@\\:\s]+|\[[^\]]+\]|[0-9a-f]*:[0-9a-f:.]+)$/i.exec(given) ?? []
  const url = URL.parse(`http://${isIP(domain) === 6 ? `[${domain}]` : domain}/`)
  if (url === null || domain === "") return undefined
  const host = hostOf(url)
  return host === "" || (stars !== "" && isIP(host) !== 0) ? undefined : stars + host
}

/** The patterns that also match the subdomains of their domains. */
export const withSubdomains = (patterns: ReadonlyArray<Pattern>): ReadonlyArray<Pattern> =>
  patterns.flatMap((pattern) => (pattern.startsWith("*") ? [pattern] : [pattern, `*.${pattern}`]))

/** Whether a host is one of the domains: the domain itself, or a subdomain of one with `*.`. */
export const includes = (patterns: ReadonlyArray<Pattern>, host: string): boolean =>
  patterns.some(
    (pattern) =>
      pattern === "*" || (pattern.startsWith("*.") ? host.endsWith(pattern.slice(1)) : host === pattern)
  )
