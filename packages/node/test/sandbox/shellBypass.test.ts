import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { bubblewrapSandbox } from "@fermata/node"
import * as Effect from "effect/Effect"
import { withoutBubblewrap } from "./bubblewrap.ts"
import { createIn } from "./contract.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

const commands = readFileSync(join(import.meta.dirname, "../fixtures/security/shell-bypass.jsonl"), "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as { readonly id: string; readonly cmd: string; readonly expect: string })
  .filter(({ expect }) => expect === "gate")

/** What is below a directory: names, kinds, permissions, times and contents. */
const contentsOf = (path: string): unknown => {
  const { mode, mtimeMs } = lstatSync(path)
  if (!lstatSync(path).isDirectory()) return [mode, mtimeMs, readFileSync(path, "utf8")]
  return [
    mode,
    mtimeMs,
    Object.fromEntries(readdirSync(path).map((name) => [name, contentsOf(join(path, name))]))
  ]
}

/** Makes a directory with a file, as the commands expect it. */
const makeTarget = (path: string) => {
  mkdirSync(path, { recursive: true })
  writeFileSync(join(path, "f"), "content")
  return path
}

describe.skipIf(withoutBubblewrap !== undefined)("commands that deny-lists miss", () => {
  it.live(
    "delete what is in the working directory, and change nothing outside of it",
    () =>
      Effect.gen(function* () {
        const { top, workdir } = yield* temporaryDirectory
        const outside = makeTarget(join(top, "outside/target"))
        const provider = bubblewrapSandbox({ readable: [join(top, "outside")] })
        const sandbox = yield* createIn({ provider, workdir, lose: () => Effect.void })
        const act = (cmd: string, target: string) =>
          sandbox.exec(["bash", "-c", cmd], { env: { T: target }, timeout: "20 seconds" })
        assert.lengthOf(commands, 100)

        // The commands see their target, and would delete it: inside, they do.
        const inside = yield* Effect.forEach(
          commands,
          ({ cmd, id }) =>
            Effect.gen(function* () {
              const target = makeTarget(join(workdir, id))
              yield* act(cmd, target)
              return { id, isGone: !readdirSync(workdir).includes(id) }
            }),
          { concurrency: 4 }
        )
        const survived = inside.filter(({ isGone }) => !isGone).map(({ id }) => id)
        assert.isAtMost(survived.length, 5, survived.join())

        const before = contentsOf(join(top, "outside"))
        const names = readdirSync(top)
        // One that changes it is among those that are named.
        const changed = yield* Effect.forEach(
          commands,
          ({ cmd, id }) =>
            Effect.map(act(`test -f $T/f || exit 99; ${cmd}`, outside), ({ exitCode }) => {
              assert.notStrictEqual(exitCode, 99, id)
              return JSON.stringify(contentsOf(join(top, "outside"))) === JSON.stringify(before) ? [] : [id]
            }),
          { concurrency: 4 }
        )
        assert.deepStrictEqual(changed.flat(), [])
        assert.deepStrictEqual(readdirSync(top), names)
      }),
    120_000
  )
})
