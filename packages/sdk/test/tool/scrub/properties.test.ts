import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { formsOf } from "../../../src/tool/internal/scrub/knownValues.ts"
import * as Scrubber from "../../../src/tool/Scrubber.ts"
import { timeSpent } from "../../helpers/timeSpent.ts"

const secrets = [
  "p@ss wörd/1?&x",
  `s3cr3t'"\\\n-line two of the secret!!`,
  "hunter2hunter2",
  "abcdef",
  "abcdefghij",
  "x1y2".repeat(600),
  `tok_${"Q1w2E3".repeat(5)}`
]
const scrubber = Scrubber.make({
  secrets,
  paths: [
    { path: "/home/bob", show: "~" },
    { path: "/home/bob/project", show: "/workspace" }
  ]
})

/** Parts of texts in which secrets occur, next to each other in any order. */
const part = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.constantFrom(
      "password",
      "token",
      "secret",
      "api_key",
      "name: ",
      "value: ",
      "user",
      "Cookie: ",
      "Authorization: Bearer ",
      " is said here. Then the ",
      "so (it) ends! "
    )
  },
  {
    weight: 4,
    arbitrary: fc.constantFrom(
      ":",
      "=",
      '"',
      "'",
      " ",
      "\n",
      "\r\n",
      "\r",
      '\\"',
      "|",
      ">",
      "-",
      "]",
      "@",
      "{",
      "(",
      ",",
      "&",
      "%22",
      "://"
    )
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      "-----BEGIN RSA PRIVATE KEY-----",
      "-----END RSA PRIVATE KEY-----",
      "MIIEpAIBAAKCAQEAx7Jk39fkQm1LPZ"
    )
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom("[REDACTED:secret]", "[REDACTED:", "é", "密码", "\u001b[0m", "0", "Z9")
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      "/home/bob/project",
      "/home/bob",
      "sk-",
      "eyJ",
      `ghp_${"a8Kf03jQmZ19".repeat(3)}`,
      "a8Kf03jQmZ19xTbWv72Ld5Re"
    )
  },
  { weight: 2, arbitrary: fc.constantFrom(...secrets.flatMap((secret) => formsOf(secret))) },
  { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 12 }) }
)
const fieldName = fc.oneof(
  fc.constantFrom(
    "name",
    "key",
    "value",
    "data",
    "password",
    "api_keys",
    "Authorization",
    "set-cookie",
    "token_id"
  ),
  part
)
const { json }: { json: fc.Arbitrary<unknown> } = fc.letrec((tie) => ({
  json: fc.oneof(
    {
      weight: 4,
      arbitrary: fc.constantFrom(...secrets.slice(0, 5), "a8Kf03jQmZ19xTbWv72Ld5Re", "Bearer a8Kf03jQm")
    },
    {
      weight: 2,
      arbitrary: fc.constantFrom("password", "API_TOKEN", "--token", "authorization", "user", "")
    },
    { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 0 }) },
    { weight: 2, arbitrary: part },
    { weight: 4, arbitrary: fc.array(tie("json"), { maxLength: 4 }) },
    { weight: 6, arbitrary: fc.dictionary(fieldName, tie("json"), { maxKeys: 4 }) }
  )
}))
const jsonText = fc
  .tuple(fc.dictionary(fieldName, json, { maxKeys: 4 }), fc.constantFrom(0, 2))
  .map(([value, indent]) => JSON.stringify(value, null, indent))
const text = fc
  .array(fc.oneof({ weight: 12, arbitrary: part }, { weight: 1, arbitrary: jsonText }), { maxLength: 25 })
  .map((parts) => parts.join(""))
const textOrJson = fc.oneof(
  text,
  jsonText,
  fc.tuple(jsonText, text).map((parts) => parts.join("\n"))
)

const inChunks = (given: string, sizes: ReadonlyArray<number>): string => {
  const stream = scrubber.stream!()
  let out = ""
  for (let at = 0, index = 0; at < given.length; index += 1) {
    const size = sizes[index % sizes.length]!
    out += stream.push(given.slice(at, at + size))
    at += size
  }
  return out + stream.end()
}

describe("any text", () => {
  it("is scrubbed with the same result in every division into chunks", () => {
    fc.assert(
      fc.property(
        textOrJson,
        fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 5 }),
        (given, sizes) => {
          assert.strictEqual(inChunks(given, sizes), scrubber.scrub(given))
        }
      ),
      { numRuns: 500 }
    )
  })

  it("does not change when it is scrubbed again", () => {
    fc.assert(
      fc.property(textOrJson, (given) => {
        const shown = scrubber.scrub(given)
        assert.strictEqual(scrubber.scrub(shown), shown)
        assert.strictEqual(scrubber.redact!(scrubber.redact!(given)), scrubber.redact!(given))
      }),
      { numRuns: 500 }
    )
  })

  it("has none of the known secrets afterwards, in none of their forms", () => {
    fc.assert(
      fc.property(textOrJson, fc.integer({ min: 1, max: 40 }), (given, size) => {
        const shown = inChunks(given, [size])
        for (const form of secrets.flatMap(formsOf)) assert.notInclude(shown, form)
      }),
      { numRuns: 200 }
    )
  })
})

describe("any JSON", () => {
  const shapeOf = (value: unknown): unknown =>
    typeof value === "string"
      ? ""
      : Array.isArray(value)
        ? value.map(shapeOf)
        : typeof value === "object" && value !== null
          ? Object.entries(value).map(([key, field]) => [key, shapeOf(field)])
          : value

  it("keeps its shape without the secrets that the names of its fields show", () => {
    fc.assert(
      fc.property(json, fc.constantFrom(0, 2), (value, indent) => {
        const given = JSON.stringify(value, null, indent)
        const shown = scrubber.redactFields!(given)
        assert.deepStrictEqual(shapeOf(JSON.parse(shown)), shapeOf(JSON.parse(given)))
        assert.strictEqual(scrubber.redactFields!(shown), shown)
      }),
      { numRuns: 500 }
    )
  })
})

describe("a known secret", () => {
  const secret = fc.string({ unit: "grapheme", minLength: 6, maxLength: 60 })
  const around = fc.string({ unit: "grapheme-ascii", maxLength: 7 })
  const bytes = (given: string) => Buffer.from(given.toWellFormed())
  const encodings: Readonly<Record<string, (given: string) => string>> = {
    "as it is": (given) => given,
    "in JSON": (given) => JSON.stringify({ given }),
    "in JSON within JSON": (given) => JSON.stringify(JSON.stringify(given)),
    "in base64, with other text": (given) => bytes(given).toString("base64"),
    "in base64 for URLs": (given) => bytes(given).toString("base64url"),
    "in hex": (given) => bytes(given).toString("hex"),
    "in an address": (given) => encodeURIComponent(given.toWellFormed()),
    "in a form": (given) => new URLSearchParams({ given }).toString(),
    "in an address, twice": (given) => encodeURIComponent(encodeURIComponent(given.toWellFormed())),
    "in an address as a whole": (given) => encodeURI(given.toWellFormed()),
    "in three layers of JSON": (given) => JSON.stringify(JSON.stringify(JSON.stringify(given))),
    "in base64 of JSON": (given) => bytes(JSON.stringify({ given })).toString("base64"),
    "in JSON for a page": (given) =>
      JSON.stringify(given).replace(/[<>&]/g, (found) => `\\u00${found.charCodeAt(0).toString(16)}`),
    "in XML": (given) => given.replace(/[&<]/g, (found) => (found === "&" ? "&amp;" : "&lt;")),
    "in HTML with named quotes": (given) => escaped(given, { '"': "&quot;", "'": "&apos;" }),
    "in HTML with numbered quotes": (given) => escaped(given, { '"': "&#34;", "'": "&#x27;" }),
    "in double quotes of a shell": (given) => `"${given.replace(/["$`\\]/g, "\\$&")}"`,
    "in single quotes of a shell": (given) => `'${given.replaceAll("'", `'"'"'`)}'`,
    "in SQL": (given) => `'${given.replaceAll("'", "''")}'`,
    "in CSV": (given) => `"${given.replaceAll('"', '""')}"`
  }
  const escaped = (given: string, quotes: Readonly<Record<string, string>>) =>
    given.replace(/[&<>"']/g, (found) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", ...quotes })[found]!)

  it.each(Object.entries(encodings))("is removed %s", (_, encode) => {
    fc.assert(
      fc.property(secret, around, around, (value, before, after) => {
        const { scrub } = Scrubber.make({ secrets: [value], recognize: false })
        const alone = encode(value)
        // What decoding what is left gives must not contain the secret.
        const shown = scrub(encode(`${before}${value}${after}`))
        assert.include(shown, "[REDACTED:secret]", alone)
      }),
      { numRuns: 300 }
    )
  })
})

describe("a known secret with something between its characters", () => {
  const letters = fc.string({
    unit: fc.constantFrom(..."abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNP23456789+/-_"),
    minLength: 8,
    maxLength: 60
  })
  const gaps: Readonly<Record<string, string>> = {
    "line break": "\n",
    "line break of Windows": "\r\n",
    "line break with an indentation": "\n        ",
    "continued line of a shell": "\\\n",
    "color of a terminal": "\u001b[1;32m",
    "character without a width": "\u200b"
  }
  const places = fc.array(fc.integer({ min: 1, max: 59 }), { minLength: 1, maxLength: 4 })
  const sizes = fc.integer({ min: 1, max: 9 })
  const withGap = (value: string, at: ReadonlyArray<number>, gap: string) =>
    [...value]
      .map(
        (letter, index) => (at.some((one) => one % value.length === index) && index > 0 ? gap : "") + letter
      )
      .join("")
  const inPieces = (scrubber: Scrubber.Scrubber, given: string, size: number) => {
    const stream = scrubber.stream!()
    let out = ""
    for (let at = 0; at < given.length; at += size) out += stream.push(given.slice(at, at + size))
    return out + stream.end()
  }

  it.each(Object.entries(gaps))("is removed: a %s", (_, gap) => {
    fc.assert(
      fc.property(letters, places, sizes, (value, at, size) => {
        const scrubber = Scrubber.make({ secrets: [value], recognize: false })
        const broken = withGap(value, at, gap)
        for (const text of [value, JSON.stringify(broken).slice(1, -1), broken]) {
          // What stands before a line break stays, up to three characters.
          const kept = /^[^\n\\]{1,3}\\?\r?\n/.exec(text)?.[0] ?? ""
          assert.strictEqual(scrubber.scrub(`<${text}>`), `<${kept}[REDACTED:secret]>`)
          assert.strictEqual(inPieces(scrubber, `<${text}>`, size), `<${kept}[REDACTED:secret]>`)
        }
      }),
      { numRuns: 200 }
    )
  })

  it("holds back no complete line that ends with fewer than 4 of its characters", () => {
    const ended = ["\n", "\r\n", "\u001b[0m\n"]
    fc.assert(
      fc.property(letters, fc.constantFrom(1, 2, 3), fc.constantFrom(...ended), (value, length, end) => {
        const lines = Scrubber.make({ secrets: [value], recognize: false })
        const line = `: ${value.slice(0, length)}${end}`
        const stream = lines.stream!()
        assert.strictEqual(stream.push(line), line)
        assert.strictEqual(stream.push(`${value.slice(length)}\n`), "[REDACTED:secret]\n")
        assert.strictEqual(lines.scrub(`${line}${value.slice(length)}`), `${line}[REDACTED:secret]`)
        const other = lines.stream!()
        assert.strictEqual(other.push(line) + other.push(": next\n"), `${line}: next\n`)
      }),
      { numRuns: 300 }
    )
  })

  it("is removed in base64 of several lines", () => {
    const value = "kN8xPq2vRt5wYz7bkN8xPq2vRt5wYz7b"
    const { scrub } = Scrubber.make({ secrets: [value], recognize: false })
    const base64 = Buffer.from(`user:${value}:end`).toString("base64").replace(/.{20}/g, "$&\n")
    assert.strictEqual(scrub(base64), `${base64.slice(0, 7)}[REDACTED:secret]jplbmQ=`)
  })

  it("is removed where a line breaks between its words", () => {
    const { scrub } = Scrubber.make({ secrets: ["correct horse battery"], recognize: false })
    assert.strictEqual(scrub("It is correct\n   horse battery."), "It is [REDACTED:secret].")
  })

  it("is not removed with fewer than 8 characters, which may be the ends of two words", () => {
    const { scrub } = Scrubber.make({ secrets: ["abcdef1"], recognize: false })
    assert.strictEqual(scrub("abc\ndef1"), "abc\ndef1")
  })
})

describe("64 KB of any repeated text", () => {
  const pieces = [
    "a",
    "A1b",
    "\n",
    "é",
    "密码:",
    "sk-",
    "eyJ",
    "eyJa.",
    "a:",
    "http://a:",
    "://",
    "://a:",
    "-----BEGIN A PRIVATE KEY-----",
    "-----BEGIN A PRIVATE KEY-----\n",
    "authorization: bearer ",
    "password",
    "password=",
    "password=a1",
    "token ",
    "token: ",
    'secret="',
    '"',
    "'",
    '\\"',
    "key=",
    "a.b.",
    "-u a:",
    "--user ",
    "mysql -p",
    "cookie: ",
    "cookie: a=b;",
    "machine a login b password ",
    "identified by '",
    "LS0tLS1CRUdJTiA",
    "AKIA",
    "ghp_",
    "xoxb-1",
    "/1/123456789012",
    "a1Q~",
    "aaaaaaaaaaaaaaaaaaaaaaaa.bbbbbb.",
    "aT3BlbkFJ",
    "12345678:AA",
    "[REDACTED:",
    "password=[REDACTED:x]",
    '"name":"token","value":"',
    "<password x=",
    "\u001b[0m",
    "token=%22",
    "mnemonic: abc ",
    "AUTH PLAIN ",
    "db:5432:a:b:",
    "password:\n",
    "name: password\n",
    "| password |",
    "sig=",
    "A1b".repeat(9) + " ",
    "[",
    '{"a":',
    '["token",',
    '{"value":"',
    '{"value":"a1",',
    '["token","a1b2c3d4","',
    '{"token":"\\',
    '{"name":"token","value":"a8Kf03jQmZ19"},',
    "[\n",
    "\u001b[0m",
    "h\u001b[0m",
    "hunter2\n",
    "abcdefgh\n",
    "h\\",
    "apiVersion: v1\n",
    "apiVersion: v1\ndata:\n a: YWRtaW4=\n",
    "echo a | ",
    "openssl ",
    "Authorization: a b=",
    "os.getenv('TOKEN', '"
  ]

  it.each(pieces)("needs less than a second of CPU: %j", (piece) => {
    const given = piece.repeat(Math.ceil(65_536 / piece.length))
    const spent = timeSpent()
    scrubber.scrub(given)
    assert.isBelow(spent().cpuMs, 1000)
  })
})

describe("a streamed text", () => {
  const stream = () => Scrubber.make().stream!()

  it("without marks of a secret is returned word by word", () => {
    const { push } = bound(stream())
    assert.deepStrictEqual(
      [push("The qui"), push("ck brown fo"), push("x jumps.\n")],
      ["The ", "quick brown ", "fox jumps.\n"]
    )
  })

  it("is returned at once if it is a row of dots", () => {
    const { push } = bound(stream())
    assert.deepStrictEqual(
      [push("Testing ...."), push("."), push(".".repeat(40)), push(" ok")],
      ["Testing ....", ".", ".".repeat(40), " "]
    )
  })

  it("is held back from the first mark of a secret to the end of its line", () => {
    const { push } = bound(stream())
    assert.deepStrictEqual(
      [push("The quick pass"), push("word: hunt"), push("er2hunter2"), push("\nNext ")],
      ["", "", "", "The quick password: [REDACTED:password]\nNext "]
    )
  })

  it("is held back no longer than to the end of a sentence", () => {
    const { push } = bound(stream())
    assert.deepStrictEqual(
      [
        push("Put the key "),
        push("into the file. "),
        push("Then save "),
        push('"its key. Then" go. '),
        push("Now.")
      ],
      ["", "", "Put the key into the file. Then save ", "", '"its key. Then" go. ']
    )
  })

  it("is returned at once in writing without spaces", () => {
    const { push } = bound(stream())
    assert.deepStrictEqual([push("你好"), push("世界 café"), push("s")], ["你好", "世界 café", ""])
  })

  it("loses no line after a private key that has no end", () => {
    const { end, push } = bound(stream())
    const key = "-----BEGIN EC PRIVATE KEY-----\nMIIEpAIBAAKCAQEAx7Jk39fkQm1LPZ\n"
    assert.strictEqual(push(`a\n${key}[truncated]\nb`) + end(), "a\n[REDACTED:private-key]\n[truncated]\nb")
  })
})

const bound = (stream: Scrubber.ScrubStream) => ({
  push: (chunk: string) => stream.push(chunk),
  end: () => stream.end()
})
