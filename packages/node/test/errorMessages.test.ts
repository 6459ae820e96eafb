/**
 * The messages of all errors of all packages. The exported classes are found in the sources, so that a new one is covered.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import { pathToFileURL } from "node:url"
import { inspect } from "node:util"
import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

type ErrorClass = (new (fields: never) => Error) & Schema.Codec<Error, unknown>

const packages = Path.resolve(import.meta.dirname, "../..")

const sources = Fs.readdirSync(packages).flatMap((name) => {
  const directory = Path.join(packages, name, "src")
  if (!Fs.existsSync(directory)) return []
  return Fs.readdirSync(directory, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && !file.endsWith("index.ts"))
    .map((file) => Path.join(directory, file))
})

/** Only modules that define an error are loaded. */
const defining = sources.filter((file) =>
  /^export class \w+ extends [\w.]*Error\b/m.test(Fs.readFileSync(file, "utf8"))
)

const isErrorClass = (value: unknown): value is ErrorClass =>
  typeof value === "function" && value.prototype instanceof Error && Schema.isSchema(value)

const classes = new Map<string, ErrorClass>()
for (const file of defining) {
  const module = (await import(pathToFileURL(file).href)) as Readonly<Record<string, unknown>>
  for (const [name, value] of Object.entries(module)) if (isErrorClass(value)) classes.set(name, value)
}

/** Characters that must never reach a terminal, listed independently of the sources. */
const forbidden =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/

const hostile =
  "\u001b[2K\u001b]0;t\u0007 a\u0000\u007f\u0085\u009b31m \u200b\u200e\u200f\u061c\u202a\u202e\u2066\u2069\u2028\u2029\ufeff \ud800 \udfff"

/** Fields that may have several lines: the text of a schema, a database or user code. */
const several = new Set(["issues", "description", "detail", "problem", "problems"])

/** The value with `text` for every text in it and `number` for every number. */
const spoiled = (value: unknown, text: string, number: number): unknown => {
  if (typeof value === "string") return text
  if (typeof value === "number") return number
  if (Array.isArray(value)) return value.map((item) => spoiled(item, text, number))
  if (value instanceof Error) return rebuilt(value, (field) => spoiled(field, text, number))
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, field]) => [key, key === "_tag" ? field : spoiled(field, text, number)])
  )
}

/** A copy of the error that bypasses its checks, as errors from damaged stores and untyped programs do. */
const rebuilt = (error: Error, change: (field: unknown, name: string) => unknown): Error => {
  const fields = Object.entries(error).map(([name, field]) => [
    name,
    name === "_tag" ? field : change(field, name)
  ])
  return Object.assign(
    Object.create(Object.getPrototypeOf(error) as object) as Error,
    Object.fromEntries(fields)
  )
}

const samples = (type: ErrorClass): ReadonlyArray<Error> =>
  Effect.runSync(Arbitrary.sampleEffect(Arbitrary.schema(type), { count: 40, seed: 1 }))

describe("the messages of all errors", () => {
  it("are checked for every exported class", () => {
    for (const name of [
      "RunNotFound",
      "AlreadyDecided",
      "ModelError",
      "McpServerError",
      "ArchiveInvalid",
      "EffectRepeated"
    ]) {
      assert.isTrue(classes.has(name), name)
    }
    assert.isAbove(classes.size, 60)
  })

  for (const [name, type] of classes) {
    it(`have no terminal control characters for any values of the fields: ${name}`, () => {
      for (const error of samples(type)) {
        const fields = Object.keys(error).filter((field) => field !== "_tag")
        for (const number of [1e308, -1, Number.NaN]) {
          assert.notMatch(rebuilt(error, (field) => spoiled(field, hostile, number)).message, forbidden)
        }
        for (const spoilt of fields) {
          const { message } = rebuilt(error, (field, name) =>
            name === spoilt ? spoiled(field, hostile, 0) : field
          )
          assert.notMatch(message, forbidden, spoilt)
        }
      }
    })

    it(`are shown by console.error and JSON.stringify, with name and code: ${name}`, () => {
      for (const error of samples(type).slice(0, 5)) {
        const {
          _tag,
          code,
          message,
          name: own
        } = error as Error & {
          readonly _tag: string
          readonly code: string
        }
        assert.deepStrictEqual([own, code], [_tag, _tag])
        const [first = ""] = message.split("\n")
        assert.include(inspect(error, { breakLength: Infinity }), first)
        assert.include(inspect({ error }, { breakLength: Infinity }), first)
        assert.match(inspect(error), /^\S+: /)
        const json = JSON.parse(JSON.stringify({ error })).error as object
        assert.deepInclude(json, { name: own, message, code, _tag })
      }
    })

    it(`stay on one line, except for text from schemas, databases and user code: ${name}`, () => {
      for (const error of samples(type)) {
        const one = rebuilt(error, (field, name) =>
          spoiled(field, several.has(name) ? "said" : "a\n\tb\rc", 0)
        )
        if ("reason" in error && error.reason instanceof Error) continue
        assert.notInclude(one.message, "\n", name)
      }
    })
  }
})
