import { spawn } from "node:child_process"
import { once } from "node:events"
import * as Fs from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { PathGuard } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { repeats } from "../../../../scripts/internal/effort.ts"
import { hasDescriptors } from "../../src/guard/internal/pinned.ts"
import { secret, workspace } from "./workspace.ts"

const program = join(import.meta.dirname, "../programs/swapLinks.ts")
/** Found within a hundred when a check is missing. */
const tries = repeats(500)

/** Another process that swaps directories and files of a workspace for links, until the scope ends. */
const swapping = (root: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const child = spawn(process.execPath, [program, root], { stdio: ["ignore", "pipe", "inherit"] })
      await once(child.stdout, "data")
      return child
    }),
    (child) =>
      Effect.promise(async () => {
        child.kill("SIGKILL")
        if (child.exitCode === null && child.signalCode === null) await once(child, "exit")
      })
  )

describe.runIf(hasDescriptors)("PathGuard beside a process that swaps links", () => {
  it.effect("never reads, writes, lists or removes outside of the workspace", () =>
    Effect.gen(function* () {
      const { outside, root, top } = yield* workspace
      // A file with two names would be refused for that reason.
      Fs.rmSync(join(root, "hard"))
      for (const name of ["swapped", "parent/swapped/deep"]) {
        Fs.mkdirSync(join(root, name), { recursive: true })
        Fs.writeFileSync(join(root, name, "secret.txt"), "inside")
      }
      Fs.writeFileSync(join(root, "swapped-file"), "inside")
      Fs.mkdirSync(join(top, "out/deep"))
      Fs.writeFileSync(join(top, "out/deep/secret.txt"), secret)
      Fs.symlinkSync(join(top, "out"), join(root, "swapped-outside"))
      Fs.symlinkSync(join(top, "out/secret.txt"), join(root, "swapped-file-outside"))
      Fs.symlinkSync(join(top, "out"), join(root, "parent/swapped-outside"))
      const guard = PathGuard.make({ write: [root] })
      const before = outside()
      const child = yield* swapping(root)
      const outcomes = { done: 0, refused: 0 }
      for (let at = 0; at < tries; at += 1) {
        const paths = ["swapped/secret.txt", "swapped-file", "parent/swapped/deep/secret.txt"]
        const path = paths[at % paths.length] ?? ""
        const read = yield* Effect.result(guard.readFile(path))
        if (Result.isSuccess(read)) assert.notInclude(new TextDecoder().decode(read.success), secret)
        outcomes[Result.isSuccess(read) ? "done" : "refused"] += 1
        if (at % 4 === 0) yield* Effect.result(guard.writeFile(path, "inside"))
        if (at % 4 === 1) yield* Effect.result(guard.writeFile(`swapped/new/${at}/x`, "inside"))
        if (at % 4 === 2) {
          const listed = yield* Effect.result(guard.list("swapped"))
          if (Result.isSuccess(listed))
            assert.notInclude(
              listed.success.entries.map(({ name }) => name),
              "dir"
            )
        }
        if (at % 4 === 3) yield* Effect.result(guard.remove("swapped/new", { recursive: true }))
      }
      assert.deepStrictEqual(outside(), before)
      assert.isNull(child.exitCode)
      // Both outcomes, so that the processes did meet.
      assert.isAbove(outcomes.done, 0)
      assert.isAbove(outcomes.refused, 0)
    })
  )
})
