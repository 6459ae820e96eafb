/**
 * URLs that a guard must refuse or allow, written after the rule was, in addition to those under `test/fixtures/security`.
 */

/** A URL, what its host resolves to (nothing unless the host is a name), and the URLs that it redirects to. */
export interface Case {
  readonly url: string
  readonly expect: "allow" | "deny"
  readonly dns?: ReadonlyArray<string>
  readonly redirects?: ReadonlyArray<string>
}

const publicV4 = "93.184.215.14"

const of = (
  expect: Case["expect"],
  urls: ReadonlyArray<string>,
  more: Partial<Case> = {}
): ReadonlyArray<Case> => urls.map((url) => ({ url, expect, ...more }))

export const cases: ReadonlyArray<Case> = [
  // Spellings of IPv4 addresses that are not public.
  ...of("deny", [
    "http://017700000001/",
    "http://0x7F000001:8000/",
    "http://127.1/",
    "http://127.255.255.254/",
    "http://0X7f.0X0.0X0.0X1/",
    "http://0/",
    "http://0.1.2.3/",
    "http://10.255.255.255/",
    "http://0xa.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://0254.020.0.1/",
    "http://192.168.257/",
    "http://100.127.255.255/",
    "http://0xA9FEA9FE/",
    "http://0251.0376.0251.0376/",
    "http://192.0.0.8/",
    "http://198.19.255.255/",
    "http://203.0.113.77/",
    "http://198.51.100.9/",
    "http://233.252.0.1/",
    "http://255.255.255.255/",
    "http://240.0.0.1/",
    "http://168.63.129.16:32526/",
    "http://100.100.100.200/"
  ]),
  // IPv6 addresses that are not public.
  ...of("deny", [
    "http://[::]/",
    "http://[::]:22000/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[::ffff:c0a8:101]/",
    "http://[::ffff:169.254.170.2]/",
    "http://[::FFFF:0.0.0.0]/",
    "http://[64:ff9b::10.1.2.3]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b:1::a9fe:a9fe]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:7f00:1::]/",
    "http://[2001:2::1]/",
    "http://[2001:10::1]/",
    "http://[2001:db8:ffff::1]/",
    "http://[3fff:fff::1]/",
    "http://[100::1]/",
    "http://[5f00::1]/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[fdff::1]/",
    "http://[ff02::1]/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://[fd20:ce::254]/",
    "http://[4000::1]/",
    "http://[fe80::1%25eth0]/"
  ]),
  // Names that are not of the public web, even if they resolve to a public address.
  ...of(
    "deny",
    [
      "http://intranet/",
      "http://db:8080/",
      "http://LocalHost./",
      "http://a.b.localhost/",
      "http://router.lan/",
      "http://vault.service.internal/",
      "http://share.corp/",
      "http://nas.home/",
      "http://wiki.private/",
      "http://api.default.svc/",
      "http://8.8.8.8.in-addr.arpa/",
      "http://hidden.onion/",
      "http://tv.local./",
      "http://x.test/",
      "http://x..example.com/",
      `http://${"a".repeat(64)}.example.com/`
    ],
    { dns: [publicV4] }
  ),
  // Tricks of syntax and Unicode.
  ...of("deny", [
    "http://①②⑦.⓪.⓪.①/",
    "http://１２７.0.0.1/",
    "http://1\u{ad}27.0.0.1/",
    "http://127.0.0.1\u{3002}/",
    "http://loc%61lhost/",
    "http:\\\\127.0.0.1\\",
    "http:///127.0.0.1/",
    "http://example.com:pw@127.0.0.1/",
    "http://127.0.0.1#@example.com/",
    "http://127.0.0.1:80\\@example.com/",
    "http://exam\tple.com/",
    "http://example.com/\r\nHost: internal",
    "http://[::1",
    "http://example.com:port/",
    "/etc/passwd",
    "example.com"
  ]),
  // Schemes and ports.
  ...of(
    "deny",
    [
      "gopher://example.com/_x",
      "javascript:fetch('http://127.0.0.1')",
      "wss://example.com/",
      "view-source:https://example.com/",
      "http://example.com:22/",
      "https://example.com:6000/"
    ],
    { dns: [publicV4] }
  ),
  // Answers of a resolver.
  ...of("deny", ["https://cdn.test-site.com/"], { dns: [publicV4, "::ffff:10.0.0.1"] }),
  ...of("deny", ["https://cdn.test-site.com/"], {
    dns: ["2606:2800:21f:cb07:6820:80da:af6b:8b2c", "fe80::1%eth0"]
  }),
  ...of("deny", ["https://cdn.test-site.com/"], { dns: ["not an address"] }),
  ...of("deny", ["https://cdn.test-site.com/"], { dns: [] }),
  // Redirects.
  ...of("deny", ["https://ok.test-site.com/"], { dns: [publicV4], redirects: ["//127.0.0.1/"] }),
  ...of("deny", ["https://ok.test-site.com/"], { dns: [publicV4], redirects: ["/a", "http://[::1]/"] }),
  // Public.
  ...of("allow", [
    "http://9.255.255.255/",
    "http://172.15.255.255/",
    "http://172.32.0.1/",
    "http://192.167.255.255/",
    "http://128.0.0.1/",
    "http://198.20.0.1/",
    "http://0x08080808/",
    "http://[::ffff:8.8.8.8]/",
    "http://[2a00:1450:4001:82b::200e]/",
    "http://[2001:200::1]/",
    "http://[2620:4f:8001::1]/"
  ]),
  ...of(
    "allow",
    [
      "https://127.0.0.1.example.com/",
      "https://localhost.example.com/",
      "https://münchen.example.com/",
      "https://example.com/?next=http://127.0.0.1/",
      " https://example.com/ ",
      "https://my-internal.example.com:9443/"
    ],
    { dns: [publicV4] }
  ),
  ...of("allow", ["https://example.com/a/b"], {
    dns: [publicV4],
    redirects: ["../c", "//www.example.com/c"]
  }),
  ...of("allow", ["https://nat64.example.com/"], { dns: ["64:ff9b::5db8:d70e"] })
]
