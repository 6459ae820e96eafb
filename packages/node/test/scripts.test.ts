import { spawnSync } from "node:child_process"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { sourceFlags } from "../../../scripts/internal/sourceFlags.ts"

const root = Path.resolve(import.meta.dirname, "../../..")

const { scripts } = JSON.parse(Fs.readFileSync(Path.join(root, "package.json"), "utf8")) as {
  readonly scripts: Readonly<Record<string, string>>
}

/** The scripts of the repository's own; the others are programs with a help of their own. */
const own = Object.entries(scripts).flatMap(([name, command]) => {
  const [file] = /(?:scripts|benchmarks)\/\S+\.ts(?= |$)/.exec(command.split(" && ").at(-1) ?? "") ?? []
  return file === undefined || file === "scripts/tsc.ts" ? [] : [[name, file] as const]
})

const start = (file: string, option: string) =>
  spawnSync(process.execPath, [...sourceFlags, Path.join(root, file), option], {
    cwd: root,
    encoding: "utf8"
  })

describe("a script of the repository", () => {
  for (const [name, file] of own) {
    it(`prints what it does with --help: npm run ${name}`, () => {
      const { status, stderr, stdout } = start(file, "--help")
      assert.deepStrictEqual([status, stderr], [0, ""])
      assert.match(stdout, /^[A-Z][^]+?\.\s/)
      assert.notMatch(stdout, /^ ?\*/m)
    })
  }

  for (const file of ["scripts/crash.ts", "benchmarks/main.ts"]) {
    it(`prints its help and no stack for an unknown option: ${file}`, () => {
      const { status, stderr } = start(file, "--hlep")
      assert.strictEqual(status, 2)
      assert.match(stderr, /^Unknown option '--hlep'/)
      assert.notMatch(stderr, /^ {4}at /m)
    })
  }
})
