/**
 * Decides which URLs may be requested for a model. A page or a mail that the model has read may have led it to any URL.
 *
 * Only the public web is allowed, and private hosts that the program lists one by one. The decision is pure and has two steps: `checkUrl`
 * judges a URL, and `checkAddresses` judges the addresses to which the name of its host resolves. Every address has to be allowed. The
 * decision holds for the addresses that were checked and no others: `WebClient` resolves once and connects to exactly these. Each redirect
 * needs both steps again.
 *
 * @since 0.2.0
 */
import { isIP } from "node:net"
import { Display, OptionsInvalid, TaggedError } from "@fermata/sdk"
import * as Schema from "effect/Schema"
import { classOf } from "./internal/addresses.ts"
import { hostOf, includes, type Pattern, patternOf, withSubdomains } from "./internal/domains.ts"

/**
 * Why a URL is refused. `malformed`: it is not an absolute URL, contains control characters, or is longer than 8,000 characters. `scheme`:
 * its scheme is not allowed. `credentials`: it contains a user name or password. `port`: its port is that of another protocol.
 * `deniedDomain`, `unlistedDomain`: the program's lists exclude its host. `privateHost`: its host, or an address of its host, is not
 * public. `unresolved`: its host has no address.
 */
export const Reason = Schema.Literals([
  "malformed",
  "scheme",
  "credentials",
  "port",
  "deniedDomain",
  "unlistedDomain",
  "privateHost",
  "unresolved"
])
export type Reason = typeof Reason.Type

/** The guard refused a URL. Nothing was sent to it; the message tells the model what to do instead. */
export class UrlRefused extends TaggedError.TaggedError<UrlRefused>()("UrlRefused", {
  /** The URL without its user name, password and fragment. */
  url: Schema.String,
  reason: Reason
}) {
  override get message() {
    return Display.sentence`The URL "${this.url}" was not requested: ${advice[this.reason]}.`
  }
}

/** Options of {@link make}. */
export interface Options {
  /**
   * The only domains that may be requested: a host (`example.com`), the subdomains of a domain (`*.example.com`), or `*`. A listed host must
   * be public, too. Default: every public host.
   */
  readonly allow?: ReadonlyArray<string>
  /** Domains that must not be requested, with their subdomains. Takes precedence over `allow` and `privateHosts`. Default: none. */
  readonly deny?: ReadonlyArray<string>
  /**
   * Private hosts that may be requested, each with its port: `127.0.0.1:8080`, `[::1]:8080`, `wiki.internal:443`. A name may resolve to public
   * and private addresses, but not to those of metadata services and other special ones. They need not be in `allow`. Default: none.
   */
  readonly privateHosts?: ReadonlyArray<string>
  /** The allowed schemes. Default: `http` and `https`. */
  readonly schemes?: ReadonlyArray<"http" | "https">
}

/** A URL that may be requested, once the addresses of its host are checked. */
export interface Target {
  readonly url: URL
  /** The host without brackets and without a final dot. */
  readonly host: string
  readonly port: number
  /** The addresses to connect to. Empty if the host is a name whose addresses have not been checked. */
  readonly addresses: ReadonlyArray<string>
  /** Whether the host is one of `privateHosts`. */
  readonly isPrivate: boolean
}

/** A decision about a URL. */
export type Verdict =
  | { readonly _tag: "allowed"; readonly target: Target }
  | { readonly _tag: "refused"; readonly reason: Reason }

/** Decides about URLs. Made by {@link make}. */
export interface WebGuard {
  /** Judges a URL, relative to `base` if it is one of a redirect. If its host is a name, its addresses remain to be checked. */
  readonly checkUrl: (url: string | URL, base?: URL) => Verdict
  /** Judges the addresses of an allowed target: all answers of the resolver. */
  readonly checkAddresses: (target: Target, addresses: ReadonlyArray<string>) => Verdict
}

/**
 * Makes a guard.
 *
 * **Example** (Deciding about a URL and the addresses of its host)
 *
 * ```ts run
 * import { WebGuard } from "@fermata/node"
 *
 * const guard = WebGuard.make({ deny: ["example.org"], privateHosts: ["127.0.0.1:8080"] })
 * guard.checkUrl("http://2130706433/") // refused, "privateHost": it is 127.0.0.1
 * guard.checkUrl("http://127.0.0.1:8080/") // allowed
 * guard.checkUrl("https://www.example.org/") // refused, "deniedDomain"
 * const verdict = guard.checkUrl("https://example.com/")
 * if (verdict._tag === "allowed") guard.checkAddresses(verdict.target, ["10.0.0.1"]) // refused, "privateHost"
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an unknown option, and for an item of a list that is no domain or no host with a port.
 *
 * @category constructors
 * @since 0.2.0
 */
export const make = (options: Options = {}): WebGuard => {
  const problem = OptionsInvalid.problemOf("WebGuard.make", options, { keys: optionKeys })
  if (problem !== undefined) throw problem
  const allow = options.allow && patternsOf(options.allow)
  const deny = withSubdomains(patternsOf(options.deny ?? []))
  const privateHosts = new Set(options.privateHosts?.map(authorityOf))
  const schemes = (options.schemes ?? ["http", "https"]).map((scheme) => `${scheme}:`)

  const checkUrl: WebGuard["checkUrl"] = (given, base) => {
    const url = parse(given, base)
    if (url === undefined) return refused("malformed")
    if (!schemes.includes(url.protocol)) return refused("scheme")
    if (url.username !== "" || url.password !== "") return refused("credentials")
    const host = hostOf(url)
    if (includes(deny, host)) return refused("deniedDomain")
    const port = portOf(url)
    const isAddress = isIP(host) !== 0
    const isPrivate = privateHosts.has(`${host}:${port}`)
    const target = { url, host, port, isPrivate, addresses: isAddress ? [host] : [] }
    if (isPrivate) return allowed(target)
    if (allow !== undefined && !includes(allow, host)) return refused("unlistedDomain")
    if (blockedPorts.has(port)) return refused("port")
    if (isAddress ? classOf(host) !== "public" : !isPublicName(host)) return refused("privateHost")
    return allowed(target)
  }

  return {
    checkUrl,
    checkAddresses: (target, addresses) => {
      if (addresses.length === 0) return refused("unresolved")
      const fits = (address: string) =>
        target.addresses.includes(address) ||
        (target.isPrivate ? classOf(address) !== "special" : classOf(address) === "public")
      return addresses.every(fits) ? allowed({ ...target, addresses }) : refused("privateHost")
    }
  }
}

/**
 * The error for a refused URL.
 *
 * @category constructors
 * @since 0.2.0
 */
export const refusal = (url: string | URL, reason: Reason): UrlRefused =>
  new UrlRefused({ url: withoutCredentials(url), reason })

/**
 * A URL without its user name, password and fragment, for messages.
 *
 * @category formatting
 * @since 0.2.0
 */
export const withoutCredentials = (given: string | URL): string =>
  shownUrl(String(given)).slice(0, longestUrl)

const shownUrl = (text: string): string => {
  const url = URL.parse(text)
  // Without a host, all before the last @ may be credentials.
  if (url === null || url.host === "") return text.slice(text.lastIndexOf("@") + 1)
  url.username = ""
  url.password = ""
  url.hash = ""
  return url.href
}

const allowed = (target: Target): Verdict => ({ _tag: "allowed", target })

const refused = (reason: Reason): Verdict => ({ _tag: "refused", reason })

/** The longest URL that servers are expected to accept (RFC 9110, section 4.1). */
const longestUrl = 8000

/** A control character inside a URL has no honest use, and `URL` removes tabs and line breaks. */
const control = /\p{Cc}/u

const parse = (given: string | URL, base?: URL): URL | undefined => {
  const text = String(given).trim()
  if (text === "" || text.length > longestUrl || control.test(text)) return undefined
  return URL.parse(text, base?.href) ?? undefined
}

const portOf = (url: URL): number => Number(url.port || (url.protocol === "http:" ? 80 : 443))

/**
 * Names that are not of the public web: one label, special-use domains (RFC 6761 and its successors), and domains that private networks use
 * and the root zone will not delegate.
 */
const privateNames =
  /^[^.]+$|(^|\.)(alt|arpa|corp|example|home|i2p|internal|intranet|invalid|lan|local|localdomain|localhost|mail|onion|private|svc|test)$/

const isPublicName = (host: string): boolean =>
  host.length <= 253 &&
  host.split(".").every((label) => label !== "" && label.length <= 63) &&
  !privateNames.test(host)

/** The ports that browsers refuse, since a server of another protocol could take a request for its own (Fetch standard, "bad port"). */
const blockedPorts = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
  109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515,
  526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049,
  3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080
])

const advice: Readonly<Record<Reason, string>> = {
  malformed: "it is no absolute URL, or too long; pass one such as https://example.com/page",
  scheme: "its scheme is not allowed here; use https if the server has it",
  credentials: "it contains a user name or password; leave them out",
  port: "its port belongs to another protocol; use the port of the web site",
  deniedDomain: "its domain is denied in this program; use another source",
  unlistedDomain: "its domain is not one that this program allows; use another source",
  privateHost: "its host is not on the public web; ask the user for the content if you need it",
  unresolved: "its host has no address; check the spelling of the name"
}

const patternsOf = (given: ReadonlyArray<string>): ReadonlyArray<Pattern> =>
  given.flatMap((pattern) => patternOf(pattern) ?? [])

/** A private host with its port as they are compared, or `undefined`. */
const authorityOf = (given: unknown): string | undefined => {
  if (typeof given !== "string" || !/^[^/?#@\\\s]+:\d+$/.test(given)) return undefined
  // Without its scheme's default port, which `URL` drops.
  const url = URL.parse(`http://${given}/`)
  return url === null ? undefined : `${hostOf(url)}:${portOf(url)}`
}

const listOf = (takes: string, is: (value: unknown) => boolean) => ({
  takes,
  is: (value: unknown) => Array.isArray(value) && value.every(is)
})

const domains = listOf(
  'a list of domains such as "example.com" and "*.example.com"',
  (value) => patternOf(value) !== undefined
)

/** The keys of {@link Options}, for the options of modules that have them among their own. */
export const optionKeys = {
  allow: domains,
  deny: domains,
  privateHosts: listOf(
    'a list of hosts with ports such as "127.0.0.1:8080"',
    (value) => authorityOf(value) !== undefined
  ),
  schemes: listOf('a list of "http" and "https"', (value) => value === "http" || value === "https")
} satisfies Record<keyof Options, unknown>
