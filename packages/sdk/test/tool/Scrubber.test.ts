import { assert, describe, it } from "@effect/vitest"
import * as Redacted from "effect/Redacted"
import { OptionsInvalid } from "../../src/domain/OptionsInvalid.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import { timeSpent } from "../helpers/timeSpent.ts"

const { scrub } = Scrubber.make()
const gone = "[REDACTED:secret]"
const letters = (count: number) => "Ab3dE6gH9j".repeat(Math.ceil(count / 10)).slice(0, count)

const thrown = (run: () => unknown): unknown => {
  try {
    run()
  } catch (error) {
    return error
  }
  return undefined
}

describe("the scrubber", () => {
  it("removes each known shape of credential", () => {
    const shapes = [
      `sk-ant-${letters(40)}`,
      `sk-proj-${letters(40)}`,
      `sk_live_${letters(30)}`,
      `ghp_${letters(36)}`,
      `github_pat_${letters(40)}`,
      `glpat-${letters(20)}`,
      `xoxb-${letters(24)}`,
      "AKIA" + "QWCDEBGHIJKLMNOP",
      `AIza${letters(35)}`,
      `npm_${letters(36)}`,
      `eyJ${letters(20)}.eyJ${letters(30)}.${letters(40)}`,
      `-----BEGIN RSA PRIVATE KEY-----\n${letters(64)}\n${letters(64)}\n-----END RSA PRIVATE KEY-----`
    ]
    for (const shape of shapes)
      assert.match(scrub(`before ${shape} after`), /^before \[REDACTED:[a-z-]+\] after$/)
  })

  it("keeps the words around a secret", () => {
    assert.strictEqual(
      scrub(`Authorization: Bearer ${letters(30)}`),
      "Authorization: Bearer [REDACTED:authorization]"
    )
    assert.strictEqual(
      scrub('curl -H "authorization: basic dXNlcjpwYXNz"'),
      'curl -H "authorization: basic [REDACTED:authorization]"'
    )
    assert.strictEqual(
      scrub("postgres://app:hunter22@db.internal:5432/app"),
      `postgres://app:[REDACTED:password]@db.internal:5432/app`
    )
  })

  it("leaves hashes, ids and ordinary text alone", () => {
    const kept = [
      "3f786850e387550fdab836ed7e6dc881de23001b",
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      "550e8400-e29b-41d4-a716-446655440000",
      "call_abc123DEF456ghi789JKL012",
      "run_01HZX3K5N7Q9S1V3X5Z7B9D1F3.t12.3",
      "toolu_01A09q90qw90lq917835lq9",
      "commit 8ce83c4 Continue runs from a store",
      "https://example.com/a:b/c@2?x=1",
      "npm install effect@4.1.0",
      "the risk-averse task-force asked for a desk-top",
      "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="
    ]
    for (const text of kept) assert.strictEqual(scrub(text), text)
  })

  it("removes a known secret in its raw, base64, URL and JSON forms", () => {
    const secret = "p@ss wörd/1?&x"
    const bytes = new TextEncoder().encode(secret)
    const base64 = btoa(String.fromCharCode(...bytes))
    const { scrub } = Scrubber.make({ secrets: [secret] })
    for (const form of [
      secret,
      base64,
      base64.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, ""),
      encodeURIComponent(secret),
      JSON.stringify(secret)
    ]) {
      assert.notInclude(scrub(`<${form}>`), form.slice(2, -4), form)
    }
  })

  it("removes a secret that JSON escapes", () => {
    const secret = 'quote"back\\slash\nline'
    const { scrub } = Scrubber.make({ secrets: [secret] })
    assert.strictEqual(scrub(JSON.stringify({ value: secret })), `{"value":"${gone}"}`)
  })

  it("accepts secrets that are Redacted", () => {
    const { scrub } = Scrubber.make({ secrets: [Redacted.make("correct-horse")] })
    assert.strictEqual(scrub("correct-horse battery"), `${gone} battery`)
  })

  it("shows a secret with a name by its name", () => {
    const { scrub } = Scrubber.make({ secrets: { DB_PASSWORD: "correct-horse" } })
    assert.strictEqual(scrub("correct-horse battery"), "[REDACTED:db-password] battery")
  })

  it("takes the secrets of an environment by their names", () => {
    const environment = {
      API_TOKEN: "a8Kf03jQmZ19xTbWv72L",
      DB_PASSWORD: "hunter2hunter2",
      PWD: "/srv/app",
      HOME: "/home/ann",
      TOKEN_TYPE: "bearer-token-1",
      AUTH_TOKEN_FILE: "/run/secrets/token1",
      SECRET: undefined,
      PASSWORD: "${OTHER}"
    }
    assert.deepStrictEqual(Object.keys(Scrubber.secretsIn(environment)), ["API_TOKEN", "DB_PASSWORD"])
  })

  it("takes no ordinary word of an environment, which would be removed from every text", () => {
    for (const word of ["postgres", "Administrator", "LOCALHOST"])
      assert.deepStrictEqual(Scrubber.secretsIn({ DB_PASSWORD: word }), {})
    const phrase = { DB_PASSWORD: "correct-horse" }
    assert.deepStrictEqual(Scrubber.secretsIn(phrase), phrase)
  })

  it("refuses a single text as secrets, and paths without texts, in sentences without the secret", () => {
    const secret = "hunter2-hunter2"
    for (const given of [{ secrets: secret }, { paths: [null] }, { paths: [{ path: "/srv" }] }]) {
      const error = thrown(() => Scrubber.make(given as never))
      assert.instanceOf(error, OptionsInvalid)
      assert.notInclude(error.message, secret)
    }
  })

  it("recognizes nothing by itself with `recognize: false`", () => {
    const { scrub } = Scrubber.make({ recognize: false, secrets: ["correct-horse"] })
    assert.strictEqual(scrub(`correct-horse ghp_${letters(36)}`), `${gone} ghp_${letters(36)}`)
  })

  it("removes the longer of two secrets when one is part of the other", () => {
    const { scrub } = Scrubber.make({ secrets: ["abcdef", "abcdefghij"] })
    assert.strictEqual(scrub("abcdefghij"), gone)
  })

  it("ignores values that are too short to be secrets", () => {
    assert.strictEqual(Scrubber.make({ secrets: ["", "a", "true"] }).scrub("a true story"), "a true story")
  })

  it("replaces no path within a longer name", () => {
    const { scrub } = Scrubber.make({ paths: [{ path: "/srv/app", show: "~" }] })
    assert.strictEqual(scrub("/srv/application /srv/app.js /srv/app"), "/srv/application ~.js ~")
  })

  it("replaces paths as configured, the longest first", () => {
    const { scrub } = Scrubber.make({
      paths: [
        { path: "/srv/app", show: "~" },
        { path: "/srv/app/data", show: "$DATA" }
      ]
    })
    assert.strictEqual(scrub("/srv/app/data/x /srv/app/y"), "$DATA/x ~/y")
  })

  it("needs less than 5 s of CPU for a megabyte of repeated prefixes", () => {
    const inputs = [
      "a",
      "sk-",
      "eyJ",
      "a:",
      "http://a:",
      "-----BEGIN A PRIVATE KEY-----",
      "authorization: bearer "
    ]
    for (const piece of inputs) {
      const input = piece.repeat(Math.ceil(1_000_000 / piece.length))
      const spent = timeSpent()
      scrub(input)
      assert.isBelow(spent().cpuMs, 5000, JSON.stringify(piece))
    }
  })

  it("changes nothing as `Scrubber.none`", () => {
    assert.strictEqual(Scrubber.none.scrub(`sk-${letters(40)}`), `sk-${letters(40)}`)
  })
})

describe("a reference to a secret", () => {
  it("stays wherever a secret would be removed, and a token in the place of its name does not", () => {
    const scrubber = Scrubber.make()
    for (const text of [
      'curl -H "Authorization: Bearer secret://github-token2" https://api.example.com',
      "https://ann:secret://{db/main2}@db.example.com/app",
      "DB_PASSWORD=secret://db/main2",
      '{"api_key": "secret://prod.api-key1"}',
      "mysql -u root -psecret://root_2 app",
      "sshpass -p secret://{vm-1}x ssh vm"
    ]) {
      assert.strictEqual(scrubber.scrub(text), text)
      assert.strictEqual(scrubber.redact!(text), text)
    }
    assert.strictEqual(scrubber.scrub(`secret://ghp_${"a1B2".repeat(9)}`), "secret://[REDACTED:github-token]")
  })
})

describe("unusual secrets", () => {
  it("are removed with half a character or a great length, and ignored when undefined", () => {
    const half = "secret-\ud800-half"
    const long = "x1y2".repeat(100_000)
    const { scrub } = Scrubber.make({ secrets: [half, long, undefined as unknown as string] })
    assert.strictEqual(scrub(`a ${half} b`), "a [REDACTED:secret] b")
    assert.strictEqual(scrub(`a ${long} b`), "a [REDACTED:secret] b")
  })
})
