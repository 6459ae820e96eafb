/**
 * The guard against the lists of URLs, with stub answers of a resolver, and its options.
 */
import { readFileSync } from "node:fs"
import { isIP } from "node:net"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { WebGuard } from "@fermata/node"
import { timeSpent } from "../../../sdk/test/helpers/timeSpent.ts"
import { cases } from "./cases.ts"

/** A line of the list; `pinned` allows the first answer and no later one. */
interface Listed {
  readonly id: string
  readonly url: string
  readonly expect: "allow" | "deny" | "pinned"
  readonly why: string
  readonly dns?: Readonly<Record<string, ReadonlyArray<string>>>
  readonly dns_sequence?: Readonly<Record<string, ReadonlyArray<ReadonlyArray<string>>>>
  readonly redirects?: ReadonlyArray<string>
}

const listed = readFileSync(join(import.meta.dirname, "../fixtures/security/ssrf-dev.jsonl"), "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Listed)

/** Judges a URL and its redirects with these answers. Returns why one is refused. */
const refusalOf = (
  guard: WebGuard.WebGuard,
  urls: ReadonlyArray<string>,
  answers: (host: string) => ReadonlyArray<string>
): WebGuard.Reason | undefined => {
  let base: URL | undefined
  for (const url of urls) {
    const verdict = guard.checkUrl(url, base)
    if (verdict._tag === "refused") return verdict.reason
    const { host } = verdict.target
    const resolved = isIP(host) === 0 ? guard.checkAddresses(verdict.target, answers(host)) : verdict
    if (resolved._tag === "refused") return resolved.reason
    base = resolved.target.url
  }
  return undefined
}

describe("WebGuard", () => {
  const guard = WebGuard.make()

  it("decides about every listed URL as the list says", () => {
    assert.strictEqual(listed.length, 160)
    for (const { dns, dns_sequence, expect, id, redirects = [], url, why } of listed) {
      const reason = refusalOf(
        guard,
        [url, ...redirects],
        (host) => dns_sequence?.[host]?.[0] ?? dns?.[host] ?? []
      )
      assert.strictEqual(reason === undefined, expect !== "deny", `${id} ${url} (${why}): ${reason}`)
    }
  })

  it("refuses the later answer of every name that is rebound", () => {
    const rebound = listed.filter(({ expect }) => expect === "pinned")
    assert.strictEqual(rebound.length, 2)
    for (const { dns_sequence = {}, url } of rebound) {
      const [answers = []] = Object.values(dns_sequence)
      assert.strictEqual(
        refusalOf(guard, [url], () => answers[1] ?? []),
        "privateHost"
      )
    }
  })

  it("decides about cases of its own", () => {
    assert.isAtLeast(cases.length, 100)
    for (const { dns = [], expect, redirects = [], url } of cases) {
      const reason = refusalOf(guard, [url, ...redirects], () =>
        dns.length > 0 || redirects.length === 0 ? dns : ["93.184.215.14"]
      )
      assert.strictEqual(reason === undefined, expect === "allow", `${url} ${dns}: ${reason}`)
    }
  })

  it("decides in a few microseconds", () => {
    for (const url of ["https://www.example.com/a?b=c", "http://[64:ff9b::808:808]/"]) {
      const rounds = 20_000
      const spent = timeSpent()
      for (let round = 0; round < rounds; round++) refusalOf(guard, [url], () => ["93.184.215.14", "2600::1"])
      console.log(`${url}: ${((spent().cpuMs * 1000) / rounds).toFixed(1)} µs of CPU a decision`)
    }
  })

  const reasonOf = (options: WebGuard.Options, url: string): WebGuard.Reason | undefined => {
    const verdict = WebGuard.make(options).checkUrl(url)
    return verdict._tag === "refused" ? verdict.reason : undefined
  }

  it("says why a URL is refused", () => {
    const reasons = {
      "no url": "malformed",
      "ftp://example.com/": "scheme",
      "https://ana:pw@example.com/": "credentials",
      "https://example.com:25/": "port",
      "http://localhost/": "privateHost"
    }
    for (const [url, reason] of Object.entries(reasons)) assert.strictEqual(reasonOf({}, url), reason)
    const { target } = guard.checkUrl("https://example.com/") as { readonly target: WebGuard.Target }
    assert.deepStrictEqual(guard.checkAddresses(target, []), { _tag: "refused", reason: "unresolved" })
    assert.strictEqual(reasonOf({ schemes: ["https"] }, "http://example.com/"), "scheme")
  })

  it("allows the listed domains alone, and subdomains only where a pattern has them", () => {
    const options = { allow: ["example.com", "*.docs.example.com", "BÜCHER.com", "8.8.8.8"] }
    for (const url of [
      "https://example.com./",
      "https://a.b.docs.example.com/",
      "https://xn--bcher-kva.com/",
      "http://8.8.8.8/"
    ])
      assert.strictEqual(reasonOf(options, url), undefined, url)
    for (const url of [
      "https://www.example.com/",
      "https://docs.example.com/",
      "https://evilexample.com/",
      "https://example.com.evil.com/"
    ])
      assert.strictEqual(reasonOf(options, url), "unlistedDomain", url)
    assert.strictEqual(reasonOf({ allow: ["*"] }, "https://anything.com/"), undefined)
    assert.strictEqual(reasonOf({ allow: [] }, "https://anything.com/"), "unlistedDomain")
    assert.strictEqual(reasonOf({ allow: ["localhost"] }, "http://localhost/"), "privateHost")
  })

  it("refuses a denied domain with its subdomains, even if another option allows it", () => {
    const options = {
      allow: ["*"],
      deny: ["example.com", "*.example.org", "127.0.0.1"],
      privateHosts: ["127.0.0.1:80"]
    }
    for (const url of [
      "https://example.com/",
      "https://a.example.com/",
      "https://a.example.org/",
      "http://2130706433/"
    ])
      assert.strictEqual(reasonOf(options, url), "deniedDomain", url)
    assert.strictEqual(reasonOf(options, "https://example.org/"), undefined)
  })

  it("allows a private host at its port, and its name with private answers, but not with special ones", () => {
    const options = { privateHosts: ["127.0.0.1:8080", "[::1]:443", "wiki.internal:80", "10.0.0.1:22"] }
    for (const url of [
      "http://127.1:8080/",
      "https://[::1]/",
      "http://wiki.internal/",
      "http://10.0.0.1:22/"
    ])
      assert.strictEqual(reasonOf(options, url), undefined, url)
    for (const url of [
      "http://127.0.0.1/",
      "http://127.0.0.1:8081/",
      "https://wiki.internal/",
      "http://[::1]/"
    ])
      assert.strictEqual(reasonOf(options, url), "privateHost", url)
    const listing = WebGuard.make(options)
    const { target } = listing.checkUrl("http://wiki.internal/") as { readonly target: WebGuard.Target }
    for (const address of ["10.1.2.3", "fd12::1", "93.184.215.14"])
      assert.strictEqual(listing.checkAddresses(target, [address])._tag, "allowed", address)
    for (const address of ["169.254.169.254", "100.100.100.200", "fd00:ec2::254", "0.0.0.0"])
      assert.strictEqual(listing.checkAddresses(target, [address])._tag, "refused", address)
  })

  it("reports a refused URL without its user name and password", () => {
    for (const url of [
      "https://ana:hunter2@example.com/#hunter2",
      "https://ana:hunter2@exa mple.com/",
      "ana:hunter2@"
    ]) {
      const { message, ...fields } = WebGuard.refusal(url, "credentials")
      assert.notInclude(JSON.stringify([message, fields]), "hunter2")
    }
    assert.strictEqual(
      WebGuard.refusal("https://ana:pw@example.com/", "credentials").message,
      'The URL "https://example.com/" was not requested: it contains a user name or password; leave them out.'
    )
  })

  it("refuses a URL of more than 8,000 characters, and shortens it in the error", () => {
    const url = `https://example.com/${"a".repeat(8000)}`
    assert.strictEqual(reasonOf({}, url.slice(0, 8000)), undefined)
    assert.strictEqual(reasonOf({}, url), "malformed")
    assert.strictEqual(WebGuard.refusal(url, "malformed").url.length, 8000)
    const secret = `https://ana:${"hunter2".repeat(2000)}@example.com/`
    assert.strictEqual(WebGuard.refusal(secret, "malformed").url, "https://example.com/")
  })

  it("throws for options that it would have to ignore", () => {
    for (const options of [
      { allowed: ["example.com"] },
      { allow: "example.com" },
      { allow: ["https://example.com/"] },
      { deny: ["*.8.8.8.8"] },
      { deny: ["a*.example.com"] },
      { privateHosts: ["127.0.0.1"] },
      { schemes: ["ftp"] }
    ])
      assert.throws(() => WebGuard.make(options as never), /options of WebGuard.make/)
  })
})
