import { spawnSync } from "node:child_process"
import { assert, describe, it } from "@effect/vitest"

/** The modules of Effect that a fresh process loads for an import. */
const loadedFor = (entry: string): ReadonlyArray<string> => {
  const program = `import { registerHooks } from "node:module"
const loaded = new Set()
registerHooks({
  resolve: (specifier, context, next) => {
    const found = next(specifier, context)
    loaded.add(found.url)
    return found
  }
})
await import("${entry}")
console.log(JSON.stringify([...loaded]))`
  const { stderr, stdout } = spawnSync(
    process.execPath,
    ["--conditions=@fermata/source", "--input-type=module", "--eval", program],
    { cwd: import.meta.dirname, encoding: "utf8" }
  )
  assert.strictEqual(stderr, "")
  return (JSON.parse(stdout) as ReadonlyArray<string>).flatMap(
    (url) => /\/node_modules\/effect\/\w+\/(.+)\.\w+$/.exec(url)?.[1] ?? []
  )
}

describe("an import of the main entry", () => {
  for (const entry of ["@fermata/sdk", "@fermata/node"]) {
    it(`loads no module for configuration, HTTP or AI, which few programs need: ${entry}`, () => {
      const loaded = loadedFor(entry)
      assert.include(loaded, "Schema")
      assert.deepStrictEqual(
        loaded.filter((name) => /^(Config|ConfigProvider|FileSystem|Path|http\/Http.*|ai\/.*)$/.test(name)),
        []
      )
    })
  }
})
