import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { targetIn, virtualPath } from "../../src/tool/internal/toolTarget.ts"

const target = { kind: "local", description: "this machine", cwd: "/home/ada/project", isolated: false }

describe("the virtual path of a file", () => {
  const cases: ReadonlyArray<readonly [string, string]> = [
    ["/home/ada/project/img/logo.png", "/workspace/img/logo.png"],
    ["img/logo.png", "/workspace/img/logo.png"],
    ["./img/../logo.png", "/workspace/logo.png"],
    ["/home/ada/project/../secret/key.png", "/outside/key.png"],
    ["../secret/key.png", "/outside/key.png"],
    ["/home/ada/projects/logo.png", "/outside/logo.png"],
    ["/home/ada/project", "/outside/project"],
    ["", "/outside/file"],
    ["/", "/outside/file"]
  ]
  for (const [path, expected] of cases) {
    it(`is ${expected} for ${JSON.stringify(path)} in ${target.cwd}`, () => {
      assert.strictEqual(virtualPath(target, path), expected)
    })
  }

  it("is below the workspace of a directory of Windows, too", () => {
    const windows = { ...target, cwd: "C:\\Users\\ada\\project" }
    assert.strictEqual(virtualPath(windows, "C:\\Users\\ada\\project\\a.png"), "/workspace/a.png")
    assert.strictEqual(virtualPath(windows, "C:\\Users\\eve\\a.png"), "/outside/a.png")
  })

  it("never shows a directory outside of the target's, and never has a step upwards", () => {
    const step = fc.constantFrom("..", ".", "home", "ada", "project", "a.png", "")
    fc.assert(
      fc.property(fc.array(step, { maxLength: 8 }), fc.boolean(), (steps, isAbsolute) => {
        const path = virtualPath(target, `${isAbsolute ? "/" : ""}${steps.join("/")}`)
        assert.match(path, /^\/(workspace\/.+|outside\/[^/]+)$/)
        assert.notInclude(path.split("/"), "..")
      })
    )
  })
})

describe("the target of a call without a sandbox", () => {
  it("is this process, with its working directory", () => {
    assert.deepStrictEqual(targetIn(undefined), {
      kind: "process",
      description: "this process, not confined",
      isolated: false,
      cwd: process.cwd()
    })
  })
})
