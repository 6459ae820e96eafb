import { assert, describe, it } from "@effect/vitest"
import * as Grant from "../../src/domain/Grant.ts"
import type { GrantId } from "../../src/domain/Id.ts"

describe("Grant", () => {
  const grant = (
    request: Grant.GrantRequest,
    approved: Parameters<typeof Grant.covers>[2] = { path: "a.txt" }
  ) => Grant.make({ id: "g" as GrantId, tool: "write_file", approved, request, by: "ada", at: 1 })

  it("covers exactly the approved arguments unless it names others", () => {
    const exact = grant({ scope: "run" }, { path: "a.txt", mode: { x: 1, y: [2] } })
    assert.isTrue(Grant.covers(exact, "write_file", { mode: { y: [2], x: 1 }, path: "a.txt" }))
    assert.isFalse(Grant.covers(exact, "write_file", { path: "a.txt" }))
    assert.isFalse(Grant.covers(exact, "write_file", { path: "a.txt", mode: { x: 1, y: [2] }, force: true }))
    assert.isFalse(Grant.covers(exact, "delete_file", { path: "a.txt", mode: { x: 1, y: [2] } }))
    assert.isTrue(Grant.covers(grant({ scope: "run" }, null), "write_file", null))
  })

  it("covers any arguments when it names none", () => {
    for (const args of [{}, { path: "b" }, [], null, "x"]) {
      assert.isTrue(Grant.covers(grant({ scope: "run", arguments: {} }), "write_file", args))
    }
  })

  it("covers arguments that match each pattern it names", () => {
    const patterns = grant({
      scope: "run",
      arguments: { path: { _tag: "glob", pattern: "src/*.ts" }, mode: { _tag: "equals", value: { x: [1] } } }
    })
    const covers = (args: Parameters<typeof Grant.covers>[2]) => Grant.covers(patterns, "write_file", args)
    assert.isTrue(covers({ path: "src/a.ts", mode: { x: [1] }, other: 1 }))
    assert.isFalse(covers({ path: "src/a.js", mode: { x: [1] } }))
    assert.isFalse(covers({ path: 7, mode: { x: [1] } }))
    assert.isFalse(covers({ path: "src/a.ts" }))
    assert.isFalse(covers(["src/a.ts"]))
    assert.isFalse(covers(null))
  })

  it("is not fooled by inherited properties", () => {
    const anything: Grant.ArgumentPattern = { _tag: "glob", pattern: "*" }
    const patterns = grant({ scope: "run", arguments: { constructor: anything } })
    assert.isFalse(Grant.covers(patterns, "write_file", {}))
  })

  it("ends by time or by revocation", () => {
    const timed = grant({ scope: "run", expiresAt: 100 })
    assert.deepStrictEqual([Grant.isActive(timed, 99), Grant.isActive(timed, 100)], [true, false])
    assert.isFalse(Grant.isActive({ ...timed, revoked: { by: "ada", at: 2 } }, 3))
    assert.isTrue(Grant.isActive(grant({ scope: "session" }), Number.MAX_SAFE_INTEGER))
  })

  it("does not cover sub-agents unless it says so", () => {
    assert.isFalse(grant({ scope: "run" }).inherit)
    assert.isTrue(grant({ scope: "run", inherit: true }).inherit)
  })
})
