import { assert, describe, it } from "@effect/vitest"
import * as Grant from "../../src/domain/Grant.ts"
import type { GrantId } from "../../src/domain/Id.ts"

const writeFile = {
  agent: "clerk",
  tool: "write_file",
  schema: "s1",
  safety: "sideEffecting",
  agentAliases: [],
  toolAliases: []
} as const

describe("Grant", () => {
  const grant = (
    request: Grant.GrantRequest,
    approved: Parameters<typeof Grant.covers>[2] = { path: "a.txt" }
  ) => Grant.make({ id: "g" as GrantId, definition: writeFile, approved, request, by: { by: "ada" }, at: 1 })

  it("covers exactly the approved arguments by default", () => {
    const exact = grant({ scope: "run" }, { path: "a.txt", mode: { x: 1, y: [2] } })
    assert.isTrue(Grant.covers(exact, writeFile, { mode: { y: [2], x: 1 }, path: "a.txt" }))
    assert.isFalse(Grant.covers(exact, writeFile, { path: "a.txt" }))
    assert.isFalse(Grant.covers(exact, writeFile, { path: "a.txt", mode: { x: 1, y: [2] }, force: true }))
    assert.isFalse(
      Grant.covers(exact, { ...writeFile, tool: "delete_file" }, { path: "a.txt", mode: { x: 1, y: [2] } })
    )
    assert.isTrue(Grant.covers(grant({ scope: "run" }, null), writeFile, null))
  })

  it("covers any arguments with an empty pattern", () => {
    for (const args of [{}, { path: "b" }, [], null, "x"]) {
      assert.isTrue(Grant.covers(grant({ scope: "run", arguments: {} }), writeFile, args))
    }
  })

  it("covers arguments that match each of its patterns", () => {
    const patterns = grant({
      scope: "run",
      arguments: { path: { _tag: "glob", pattern: "src/*.ts" }, mode: { _tag: "equals", value: { x: [1] } } }
    })
    const covers = (args: Parameters<typeof Grant.covers>[2]) => Grant.covers(patterns, writeFile, args)
    assert.isTrue(covers({ path: "src/a.ts", mode: { x: [1] }, other: 1 }))
    assert.isFalse(covers({ path: "src/a.js", mode: { x: [1] } }))
    assert.isFalse(covers({ path: 7, mode: { x: [1] } }))
    assert.isFalse(covers({ path: "src/a.ts" }))
    assert.isFalse(covers(["src/a.ts"]))
    assert.isFalse(covers(null))
  })

  it("ignores inherited properties", () => {
    const anything: Grant.ArgumentPattern = { _tag: "glob", pattern: "*" }
    const patterns = grant({ scope: "run", arguments: { constructor: anything } })
    assert.isFalse(Grant.covers(patterns, writeFile, {}))
  })

  it("ends at its expiry or by its revocation", () => {
    const timed = grant({ scope: "run", expiresAt: 100 })
    assert.deepStrictEqual([Grant.isActive(timed, 99), Grant.isActive(timed, 100)], [true, false])
    assert.isFalse(Grant.isActive({ ...timed, revoked: { by: "ada", at: 2 } }, 3))
    assert.isTrue(Grant.isActive(grant({ scope: "session" }), Number.MAX_SAFE_INTEGER))
  })

  it("covers one agent's tool with one schema and one safety", () => {
    const any = grant({ scope: "run", arguments: {} })
    for (const other of [
      { ...writeFile, agent: "billing" },
      { ...writeFile, schema: "s2" },
      { ...writeFile, safety: "privileged" as const }
    ]) {
      assert.isFalse(Grant.covers(any, other, {}))
    }
    const { agent: _, ...unbound } = any
    assert.isFalse(Grant.covers(unbound, writeFile, {}))
  })

  it("covers a renamed tool by its alias, unless both names existed when it was given", () => {
    const renamed = { ...writeFile, tool: "write", toolAliases: ["write_file"] }
    const given = (peers: ReadonlyArray<string>) =>
      Grant.make({
        id: "g" as GrantId,
        definition: writeFile,
        peers: { tools: peers },
        approved: {},
        request: { scope: "session", arguments: {} },
        by: { by: "ada" },
        at: 1
      })
    assert.isTrue(Grant.covers(given(["write_file", "read"]), renamed, {}))
    assert.isFalse(Grant.covers(given(["write_file", "write"]), renamed, {}))
    assert.isTrue(Grant.covers(given([]), { ...writeFile, agent: "scribe", agentAliases: ["clerk"] }, {}))
  })

  it("covers a sub-agent's tool of the same definition when inherited", () => {
    const any = grant({ scope: "run", arguments: {}, inherit: true })
    assert.isTrue(Grant.covers(any, { ...writeFile, agent: "helper" }, {}, "inherited"))
    assert.isFalse(Grant.covers(any, { ...writeFile, agent: "helper", schema: "s2" }, {}, "inherited"))
  })

  it("is inherited by sub-agents only with `inherit`", () => {
    assert.isFalse(grant({ scope: "run" }).inherit)
    assert.isTrue(grant({ scope: "run", inherit: true }).inherit)
  })
})
