/**
 * Causes of failed user code without secrets.
 */
import { inspect } from "node:util"
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { redactCause } from "../../src/agent/internal/causes.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"

const secret = "canary-5e55a1b2c3d4"
const scrubber = Scrubber.contained(Scrubber.make({ secrets: [secret] }))

class Refused extends Schema.TaggedError<Refused>()("Refused", {
  code: Schema.Number,
  note: Schema.String
}) {}

const redacted = (error: unknown): unknown => {
  const [reason] = redactCause(scrubber, Cause.fail(error)).reasons
  return reason !== undefined && Cause.isFailReason(reason) ? reason.error : reason
}

/** All that a log can show of a value. */
const shown = (value: unknown): string => {
  const options = { depth: 200, showHidden: true, maxArrayLength: null, maxStringLength: null } as const
  return `${inspect(value, options)} ${JSON.stringify(value)} ${String(value)} ${Cause.pretty(Cause.fail(value))}`
}

const caused = (cause: unknown) => new Error("refused", { cause })
const chain = (length: number) => {
  let error = new Error(secret)
  for (let index = 0; index < length; index += 1) error = caused(error)
  return error
}

const errors: Readonly<Record<string, unknown>> = {
  text: `refused: ${secret}`,
  "message and stack": new Error(`refused: ${secret}`),
  name: Object.assign(new Error("refused"), { name: secret }),
  "chain of causes": chain(5),
  "cause that is no error": caused({ request: { headers: { key: secret } } }),
  "errors of an aggregate": new AggregateError([new Error("one"), chain(2)], "both failed"),
  "key that is a symbol": Object.assign(new Error("refused"), { [Symbol("request")]: { key: secret } }),
  "description of a symbol": Object.assign(new Error("refused"), { [Symbol(secret)]: 1 }),
  "value that is a symbol": caused({ key: Symbol(secret) }),
  "name of a field": caused({ [secret]: 1 }),
  "key of a map": caused(new Map([[secret, 1]])),
  "value of a map": caused(new Map([["key", { key: secret }]])),
  set: caused(new Set([secret])),
  headers: caused(new Headers({ "x-key": secret })),
  "query of an address": caused(new URLSearchParams({ key: secret })),
  address: caused(new URL(`https://me:${secret}@example.com/`)),
  response: caused(new Response("", { headers: { "x-key": secret } })),
  "JSON of an object": caused({ toJSON: () => ({ key: secret }) }),
  "JSON of an error": Object.assign(new Error("refused"), { toJSON: () => secret }),
  "text of an object": caused({ toString: () => secret }),
  "text of an error": Object.assign(new Error("refused"), { toString: () => secret }),
  "console's view of an object": caused({
    [Symbol.for("nodejs.util.inspect.custom")]: () => ({ key: secret })
  }),
  "boxed text": caused(Object(secret)),
  "regular expression": caused(new RegExp(secret)),
  "field of a function": caused({ send: Object.assign(() => {}, { key: secret }) }),
  form: caused(
    (() => {
      const form = new FormData()
      form.set("key", secret)
      return form
    })()
  ),
  bytes: caused({ body: new TextEncoder().encode(`key=${secret}`) }),
  "field that its name shows": caused({ headers: { authorization: "Bearer hunter2hunter2" } }),
  "pair that its name shows": caused(new Headers({ authorization: "Bearer hunter2hunter2" })),
  "field of a typed error": new Refused({ code: 51, note: secret }),
  "field that is not enumerable": Object.defineProperty(new Error("refused"), "key", { value: secret }),
  "value that refers to itself": (() => {
    const error = Object.assign(new Error("refused"), { self: undefined as unknown, key: secret })
    error.self = error
    return error
  })()
}

describe("a cause", () => {
  for (const [place, error] of Object.entries(errors))
    it(`contains no secret: ${place}`, () => {
      const safe = (() => {
        try {
          return shown(redacted(error))
        } catch {
          // JSON has no value that refers to itself.
          return inspect(redacted(error), { depth: 200, showHidden: true })
        }
      })()
      assert.notInclude(safe, secret)
      assert.notInclude(safe, "hunter2")
      assert.notInclude(safe, Buffer.from(secret).toString("hex"))
    })

  it("keeps its name, its other fields and its causes", () => {
    const error = Object.assign(
      new TypeError("refused", { cause: new Refused({ code: 51, note: secret }) }),
      {
        status: 401,
        headers: { authorization: "Bearer hunter2hunter2", accept: "text/plain" }
      }
    )
    const copy = redacted(error) as Error & Record<string, unknown>
    assert.instanceOf(copy, Error)
    assert.strictEqual(copy.name, "TypeError")
    assert.strictEqual(copy.message, "refused")
    assert.include(copy.stack, "causes.test.ts")
    assert.strictEqual(copy["status"], 401)
    assert.deepStrictEqual(copy["headers"], {
      authorization: "Bearer [REDACTED:authorization]",
      accept: "text/plain"
    })
    assert.deepInclude(copy.cause, { _tag: "Refused", code: 51, note: "[REDACTED:secret]" })
    const both = redacted(new AggregateError([chain(1), 2], "both")) as AggregateError
    assert.strictEqual(both.name, "AggregateError")
    assert.strictEqual((both.errors[0] as Error).message, "refused")
    assert.strictEqual(both.errors[1], 2)
  })

  it("is the same if it has no secret", () => {
    const error = new AggregateError([new Refused({ code: 51, note: "late" })], "both", {
      cause: {
        map: new Map([["a", new Set([1])]]),
        at: new Date(0),
        url: new URL("https://example.com/"),
        hidden: Redacted.make(secret)
      }
    })
    const cause = Cause.fromReasons([...Cause.fail(error).reasons, ...Cause.die("late").reasons])
    assert.strictEqual(redactCause(scrubber, cause), cause)
  })

  it("calls no getter of the program, and shows none that could be called", () => {
    let calls = 0
    const getter = { get: () => (calls += 1), configurable: true }
    const hidden = Object.defineProperty(new Error("refused"), "key", getter)
    assert.strictEqual(redacted(hidden), hidden)
    const open = Object.defineProperty(new Error("refused"), "key", { ...getter, enumerable: true })
    assert.include(redacted(open), { message: "refused", key: "[left out]" })
    assert.strictEqual(calls, 0)
  })

  it("is left out beyond its bounds, and where it cannot be read", () => {
    const far = JSON.stringify(redacted(caused(chain(300))), (_, value: unknown) =>
      value instanceof Error ? { cause: value.cause } : value
    )
    assert.include(far, "[left out]")
    assert.notInclude(far, secret)
    const many = redacted(caused(Array.from({ length: 1_000_000 }, () => secret)))
    assert.deepInclude(many, { cause: "[left out]" })
    const long = redacted(new Error(`${"a ".repeat(1_000_000)}${secret}`))
    assert.deepInclude(long, { message: "[left out]" })
    const refuse = () => {
      throw new Error("no")
    }
    const proxy = new Proxy({}, { ownKeys: refuse })
    assert.strictEqual(redacted(new Proxy(() => {}, { ownKeys: refuse })), "[left out]")
    assert.deepInclude(redacted(caused({ proxy, toJSON: refuse })), { cause: "[left out]" })
    assert.deepInclude(redacted(caused({ proxy })), { cause: { proxy: "[left out]" } })
  })
})
