import { isDeepStrictEqual } from "node:util"
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as fc from "fast-check"
import { vi } from "vitest"
import { verbatim } from "../../../src/domain/internal/verbatim.ts"
import { RunEvents } from "../../../src/domain/RunEvent.ts"
import * as Journal from "../Journal.ts"
import { simulate } from "../Simulation.ts"
import { tape } from "../Tape.ts"

vi.setConfig({ testTimeout: 300_000 })

/** Simulations per property; set `FERMATA_SIMULATIONS=20000` for more. */
const numRuns = Number(process.env["FERMATA_SIMULATIONS"] ?? 300)

const isAsWritten = verbatim(RunEvents)
const decode = Schema.decodeUnknownResult(RunEvents)

/** Whether decoding returns an equal value. */
const decodesToItself = (value: unknown): boolean => {
  const decoded = decode(value)
  return Result.isSuccess(decoded) && isDeepStrictEqual(decoded.success, value)
}

const readBack = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

/** Replacement values for a corruption; `undefined` removes the field. */
const strangers: ReadonlyArray<unknown> = [
  undefined,
  null,
  "",
  "a b",
  "toolCall",
  "x".repeat(600),
  0,
  -1,
  1.5,
  Number.POSITIVE_INFINITY,
  true,
  [],
  {},
  [null],
  { _tag: "text", text: "Hi." },
  JSON.parse(`{"__proto__":{"text":"Hi."}}`)
]

type Container = Array<unknown> | Record<string, unknown>

const containersIn = (value: unknown): ReadonlyArray<Container> =>
  typeof value === "object" && value !== null
    ? [value as Container, ...Object.values(value).flatMap(containersIn)]
    : []

/** Changes one place in a JSON value: removes, replaces or adds a field. */
const corrupt = (value: unknown, [where, which, what]: readonly [number, number, number]): unknown => {
  const copy = structuredClone(value)
  const containers = containersIn(copy)
  const container = containers[where % containers.length]
  if (container === undefined) return copy
  const stranger = structuredClone(strangers[what % strangers.length])
  if (Array.isArray(container)) {
    if (stranger === undefined) container.splice(which % (container.length + 1), 1)
    else container[which % (container.length + 1)] = stranger
    return copy
  }
  const names = [...Object.keys(container), "surplus", "output", "payload"]
  const name = names[which % names.length]!
  if (stranger === undefined) delete container[name]
  else container[name] = stranger
  return copy
}

describe("verbatim", () => {
  it("accepts every event of a run", () => {
    fc.assert(
      fc.property(tape(), (numbers) => {
        for (const event of simulate(numbers).events) {
          const read = readBack([event])
          assert.isTrue(isAsWritten(read), event._tag)
          assert.isTrue(decodesToItself(read), event._tag)
        }
      }),
      { numRuns }
    )
  })

  it("rejects every value that decoding refuses or changes", () => {
    let refused = 0
    let passed = 0
    const place = fc.nat({ max: 100_000 })
    fc.assert(
      fc.property(
        tape(200),
        fc.array(fc.tuple(place, place, place), { minLength: 40, maxLength: 40 }),
        (numbers, corruptions) => {
          const events = readBack(simulate(numbers).events)
          for (const corruption of corruptions) {
            const corrupted = corrupt(events, corruption)
            const isSafe = decodesToItself(corrupted)
            if (isAsWritten(corrupted)) {
              passed += 1
              assert.isTrue(isSafe, JSON.stringify(corruption))
            }
            if (!isSafe) refused += 1
          }
        }
      ),
      { numRuns: Math.ceil(numRuns / 4) }
    )
    assert.isAbove(refused, 100)
    assert.isAbove(passed, 100)
  })

  it("rejects a value that nests deeper than its bound", () => {
    const nested = (levels: number) => {
      let value: unknown = "inside"
      for (let level = 0; level < levels; level += 1) value = [value]
      return [{ ...Journal.done, output: value }]
    }
    assert.isTrue(isAsWritten(nested(150)))
    assert.isFalse(isAsWritten(nested(250)))
    assert.isTrue(decodesToItself(nested(250)))
  })

  it("rejects values that JSON does not have", () => {
    for (const output of [new Date(0), Number.NaN, Object.create({ inherited: true })]) {
      assert.isFalse(isAsWritten([{ ...Journal.done, output }]))
    }
    assert.isFalse(isAsWritten([{ ...Journal.done, output: undefined }]))
  })

  const a = Schema.Struct({ a: Schema.String })
  const unsure: ReadonlyArray<readonly [string, Schema.Codec<unknown, unknown>, unknown]> = [
    [
      "a union whose first member drops a field",
      Schema.Union([a, Schema.Struct({ a: Schema.String, b: Schema.String })]),
      { a: "", b: "" }
    ],
    ["a transformed value", Schema.FiniteFromString, "1"],
    ["a transformed field", Schema.Struct({ a: Schema.FiniteFromString }), { a: "1" }],
    [
      "members of a union with the same tag",
      Schema.Union([
        Schema.TaggedStruct("t", { a: Schema.String }),
        Schema.TaggedStruct("t", { a: Schema.String, b: Schema.String })
      ]),
      { _tag: "t", a: "", b: "" }
    ],
    ["an empty struct", Schema.Struct({}), {}],
    ["a tuple", Schema.Tuple([Schema.String]), ["", ""]]
  ]
  for (const [what, schema, value] of unsure) {
    it(`rejects ${what}`, () => {
      assert.isFalse(verbatim(schema)(value))
    })
  }

  it("runs the checks of the schema", () => {
    const isPort = verbatim(Schema.Struct({ port: Schema.Natural.check(Schema.isLessThan(65_536)) }))
    assert.isTrue(isPort({ port: 80 }))
    assert.isFalse(isPort({ port: 80.5 }))
    assert.isFalse(isPort({ port: 70_000 }))
  })

  it("follows schemas that refer to themselves", () => {
    interface Tree {
      readonly under: ReadonlyArray<Tree>
    }
    const Tree: Schema.Codec<Tree, unknown> = Schema.Struct({
      under: Schema.Array(Schema.suspend((): Schema.Codec<Tree, unknown> => Tree))
    })
    const isTree = verbatim(Tree)
    assert.isTrue(isTree({ under: [{ under: [] }] }))
    assert.isFalse(isTree({ under: [{ under: [{}] }] }))
  })

  it("accepts null in nullable fields only", () => {
    const isRow = verbatim(
      Schema.Struct({
        name: Schema.NullOr(Schema.String),
        kind: Schema.NullOr(Schema.Literals(["one", "two"]))
      })
    )
    assert.isTrue(isRow({ name: null, kind: null }))
    assert.isFalse(isRow({ name: undefined, kind: null }))
    assert.isFalse(isRow({ name: 1, kind: null }))
    assert.isFalse(isRow({ name: "a", kind: "three" }))
    const isPair = verbatim(Schema.Struct({ name: Schema.NullOr(Schema.String), kind: Schema.Null }))
    assert.isTrue(isPair({ name: "a", kind: null }))
    assert.isFalse(isPair({ name: "a", kind: "a" }))
  })
})
