import { assert, describe, it } from "vitest"
import { RunReaders } from "../../../src/promise/internal/RunReaders.ts"

describe("the readers of runs", () => {
  it("are found by their run until they are removed, and leave nothing behind", () => {
    const readers = new RunReaders<string>()
    const remove = [readers.add("a", "one"), readers.add("a", "two"), readers.add("b", "three")]
    assert.deepStrictEqual([[...readers.of("a")], [...readers.of("b")]], [["one", "two"], ["three"]])
    remove[0]!()
    remove[2]!()
    assert.deepStrictEqual([[...readers.of("a")], [...readers.of("b")]], [["two"], []])
    remove[1]!()
    assert.strictEqual(readers["byRun"].size, 0)
  })
})
