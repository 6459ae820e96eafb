/**
 * Secrets that only the structure of JSON shows, in values, in whole texts and in streamed texts.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Scrubber from "../../../src/tool/Scrubber.ts"

const scrubber = Scrubber.make()
const password = "hunter2hunter2"
const token = "a8Kf03jQmZ19xTbWv72Ld5Re"

const hidden: ReadonlyArray<readonly [name: string, value: unknown, secret: string]> = [
  ["a field", { api_key: password }, password],
  ["a field with quotes in its value", { password: `say "${password}"` }, password],
  ["a field with two lines", { password: `${password}\nx` }, password],
  ["a list under a name", { api_keys: ["none", password] }, password],
  ["lists in a list under a name", { passwords: [[password]] }, password],
  ["a pair", { name: "DB_PASSWORD", value: password }, password],
  [
    "a pair with other fields between",
    { name: "DB_PASSWORD", scope: ["a", { b: 1 }], value: password },
    password
  ],
  ["a pair whose value comes first", { value: password, id: 7, name: "DB_PASSWORD" }, password],
  ["a pair of a cloud provider", { ParameterKey: "DbPassword", ParameterValue: password }, password],
  ["an object with a value under a name", { password: { value: password } }, password],
  ["a list of headers", [["Authorization", `Bearer ${token}`]], token],
  ["a flat list of headers", ["Host", "a.test", "Cookie", `sid=${token}`], token],
  ["a header with several values", { "set-cookie": [`sid=${token}; Path=/`] }, token],
  ["a list of arguments", ["curl", "-s", "--token", token], token],
  ["a field deep inside", { a: [{ b: { c: [[{ clientSecret: token }]] } }] }, token]
]

const kept: ReadonlyArray<unknown> = [
  { name: "token", type: "string", value: "required" },
  { name: "sha", value: "3f786850e387550fdab836ed7e6dc881de23001b" },
  { id: `call_${token}`, key: "user:42", value: "x" },
  { tokens: ["the", "quick"], max_tokens: 4096, token_type: "bearer" },
  { passwords: [], password: null, secret: true, pin: 1234 },
  { properties: { password: { type: "string", description: "At least 8 characters" } } },
  ["password", "username", "token"],
  [
    ["content-type", "text/plain"],
    ["etag", token]
  ],
  { next_token: token, cursor: token, integrity: token },
  { password: "${DB_PASSWORD}", token: "secret://github", api_key: "<your key>" }
]

const forms = (value: unknown) => [JSON.stringify(value), JSON.stringify(value, null, 2)]

const streamed = (text: string, size: number): string => {
  const stream = scrubber.stream!()
  let out = ""
  for (let at = 0; at < text.length; at += size) out += stream.push(text.slice(at, at + size))
  return out + stream.end()
}

describe("JSON", () => {
  it.each(hidden)("loses the secret of %s, whole and in chunks", (_, value, secret) => {
    for (const text of forms(value)) {
      const shown = scrubber.scrub(text)
      assert.notInclude(shown, secret.slice(0, 8))
      assert.strictEqual(scrubber.redact!(text), shown)
      assert.notInclude(scrubber.redactFields!(text), secret.slice(0, 8))
      for (const size of [1, 3, 50])
        assert.strictEqual(streamed(`$ get\n${text}\n`, size), `$ get\n${shown}\n`)
      assert.deepStrictEqual(Object.keys(JSON.parse(shown)), Object.keys(JSON.parse(text)))
    }
  })

  it.each(kept)("keeps %j", (value) => {
    for (const text of forms(value)) assert.strictEqual(scrubber.redactFields!(text), text)
  })

  it("keeps the numbers, the spaces and the escapes around a secret", () => {
    assert.strictEqual(
      scrubber.scrub(`{"id": 12345678901234567890,\t"a\\/b": "\\u00e9", "api_keys": [ "${password}" ]}`),
      `{"id": 12345678901234567890,\t"a\\/b": "\\u00e9", "api_keys": [ "[REDACTED:secret]" ]}`
    )
  })
})
