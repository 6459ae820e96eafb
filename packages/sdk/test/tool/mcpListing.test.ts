import { assert, describe, it } from "@effect/vitest"
import type * as McpSchema from "effect/ai/McpSchema"
import { nameTools, readableTools } from "../../src/tool/internal/mcpListing.ts"

const object = { type: "object", properties: {} }

/** The names under which tools of these names are shown. */
const shown = (names: ReadonlyArray<string>, prefix = "") =>
  nameTools(
    names.map((name) => ({ name, inputSchema: object }) as McpSchema.Tool),
    prefix
  ).named.map(([name, tool]) => [tool.name, name] as const)

describe("the name of an MCP tool", () => {
  it("is its own where every model accepts it, or else the nearest accepted one", () => {
    assert.deepStrictEqual(shown(["read_file", "fs.read", "repo/list all", "日本"]), [
      ["read_file", "read_file"],
      ["fs.read", "fs_read"],
      ["repo/list all", "repo_list_all"],
      ["日本", "__"]
    ])
    assert.deepStrictEqual(shown(["list"], "my server:"), [["list", "my_server_list"]])
  })

  it("is unique among similar names, and does not depend on their order", () => {
    const names = ["fs.read", "fs_read", "fs/read", "x".repeat(70), `${"x".repeat(70)}y`]
    const forwards = new Map(shown(names))
    assert.strictEqual(forwards.get("fs_read"), "fs_read")
    assert.lengthOf(new Set(forwards.values()), names.length)
    for (const name of forwards.values()) assert.match(name, /^[a-zA-Z0-9_-]{1,64}$/)
    const backwards = new Map(shown([...names.toReversed(), "fs read"]))
    for (const name of names) assert.strictEqual(backwards.get(name), forwards.get(name))
  })

  it("belongs to the first tool of that name, and later ones are left out", () => {
    const { leftOut, named: kept } = nameTools(
      [
        { name: "a", description: "first", inputSchema: object } as McpSchema.Tool,
        { name: "a", description: "second", inputSchema: object } as McpSchema.Tool
      ],
      ""
    )
    assert.deepStrictEqual(
      kept.map(([, { description }]) => description),
      ["first"]
    )
    assert.deepStrictEqual(leftOut, [{ tool: "a", why: "the server lists another tool with this name" }])
  })
})

describe("a listed MCP tool", () => {
  const deep = JSON.parse(`${'{"a":'.repeat(300)}1${"}".repeat(300)}`)
  const cases: ReadonlyArray<readonly [string, unknown, unknown]> = [
    [
      "is accepted unchanged",
      { name: "a", title: "A", inputSchema: object },
      { name: "a", title: "A", inputSchema: object }
    ],
    ["has no arguments when it has no schema", { name: "a" }, { name: "a", inputSchema: object }],
    [
      "has an object as arguments when its schema has no type",
      { name: "a", inputSchema: { properties: { x: {} } } },
      { name: "a", inputSchema: { type: "object", properties: { x: {} } } }
    ],
    [
      "has an object as arguments when its schema allows one",
      { name: "a", inputSchema: { type: ["object", "null"] } },
      { name: "a", inputSchema: { type: "object" } }
    ],
    [
      "is used without invalid fields that are not needed",
      { name: "a", description: "A", inputSchema: object, icons: "no", annotations: { readOnlyHint: true } },
      { name: "a", description: "A", inputSchema: object, annotations: { readOnlyHint: true } }
    ],
    [
      "is used without invalid hints",
      { name: "a", description: 7, inputSchema: object, annotations: { readOnlyHint: "yes" } },
      { name: "a", inputSchema: object }
    ],
    ["is left out when it is not an object", "tool", "it is not an object"],
    [
      "is left out when its name is too long",
      { name: "a".repeat(513), inputSchema: object },
      "its name is longer than 512 characters"
    ],
    ["is left out without a name", { inputSchema: object }, "it has no name"],
    [
      "is left out when its arguments are a list",
      { name: "a", inputSchema: { type: "array" } },
      "its arguments are not an object"
    ],
    [
      "is left out when its schema is not an object",
      { name: "a", inputSchema: "object" },
      "its arguments are not an object"
    ],
    [
      "is left out when its properties are invalid",
      { name: "a", inputSchema: { properties: 7 } },
      "its JSON Schema is invalid"
    ],
    [
      "is left out when its schema is nested too deeply",
      { name: "a", inputSchema: { ...object, deep } },
      "its definition is nested more than 200 levels deep"
    ],
    [
      "is left out when it runs only as a task",
      { name: "a", inputSchema: object, execution: { taskSupport: "required" } },
      "it runs only as a task, which is not supported"
    ]
  ]
  for (const [title, tool, expected] of cases) {
    it(`${title}`, () => {
      const { leftOut, result } = readableTools({ tools: [tool], nextCursor: "n" }, () => true)
      const why = typeof expected === "string" ? [expected] : []
      assert.deepStrictEqual(
        leftOut.map((out) => out.why),
        why
      )
      assert.deepStrictEqual(result, { tools: why.length === 0 ? [expected] : [], nextCursor: "n" })
    })
  }

  it("is left out when its transport cannot call it", () => {
    const { leftOut } = readableTools({ tools: [{ name: "a", inputSchema: object }] }, () => false)
    assert.deepStrictEqual(leftOut, [{ tool: "a", why: "it takes arguments in headers that cannot be sent" }])
  })

  it("is not expected in an answer without a list", () => {
    for (const result of [undefined, null, [], { tools: 7 }]) {
      assert.deepStrictEqual(
        readableTools(result, () => true),
        { result, leftOut: [] }
      )
    }
  })
})
